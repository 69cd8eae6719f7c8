package cloud

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// newLog writes one JSON object per line, with the names that Lambda reads: `level`, and `timestamp` in RFC 3339, UTC. Each line of an invocation carries its request id.
func newLog(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(invocation{slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: asLambda})})
}

const timestamp = "2006-01-02T15:04:05.000Z07:00"

func asLambda(groups []string, a slog.Attr) slog.Attr {
	if t, ok := a.Value.Any().(time.Time); ok && a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.String("timestamp", t.UTC().Format(timestamp))
	}
	return a
}

// invocation adds the request id of the Lambda invocation to each record.
type invocation struct{ slog.Handler }

func (h invocation) Handle(ctx context.Context, r slog.Record) error {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		r = r.Clone() // the caller's record shares its attributes with other handlers
		r.AddAttrs(slog.String("requestId", lc.AwsRequestID))
	}
	return h.Handler.Handle(ctx, r)
}

func (h invocation) WithAttrs(attrs []slog.Attr) slog.Handler {
	return invocation{h.Handler.WithAttrs(attrs)}
}

func (h invocation) WithGroup(name string) slog.Handler {
	return invocation{h.Handler.WithGroup(name)}
}
