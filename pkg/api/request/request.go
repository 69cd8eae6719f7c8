// Package request is what the API knows of a request beside HTTP itself: who called, and under which id. Two doors let requests in and put both into the context:
// hanbeon/pkg/api/gateway on AWS, hanbeon/pkg/api/sigv4 on a laptop. Behind them nobody can tell which door it was.
package request

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
)

// MaxBody is the largest body of a request in bytes, the same at both doors. The gateway alone would allow 10 MB (API Gateway quotas, HTTP API), but an event with
// its body, base64 included, may have 6 MB (Lambda quotas).
const MaxBody = 4 << 20

// IDHeader carries the id of the request in every answer.
const IDHeader = "X-Request-Id"

// Unknown is the ARN and the scope of a caller nobody vouched for.
const Unknown = "unknown"

// Caller is the principal that signed a request.
type Caller struct {
	ARN     string // in full, with the session name of an assumed role; Unknown if nobody vouched for one
	Account string // 12 digits, "" if unknown
}

// Scope is who the caller is whatever the session: two sessions of one assumed role are the same caller, so what belongs to a caller (an Idempotency-Key) is kept under
// its scope. `arn:aws:sts::123456789012:assumed-role/Spring/i-0abc` is `123456789012/role/Spring`; an IAM user and anything else is its whole ARN.
func (c Caller) Scope() string {
	if c.ARN == "" {
		return Unknown
	}
	// arn:partition:service:region:account:resource (IAM User Guide, "IAM identifiers"). A role's path is not part of the ARN of its sessions.
	arn := strings.SplitN(c.ARN, ":", 6)
	if len(arn) == 6 && arn[0] == "arn" && arn[2] == "sts" && arn[4] != "" {
		if session := strings.Split(arn[5], "/"); len(session) == 3 && session[0] == "assumed-role" && session[1] != "" {
			return arn[4] + "/role/" + session[1]
		}
	}
	return c.ARN
}

type contextKey struct{}

type known struct {
	caller Caller
	id     string
}

// With is ctx of a request that this caller made under this id. A caller without an ARN becomes Unknown.
func With(ctx context.Context, c Caller, id string) context.Context {
	if c.ARN == "" {
		c.ARN = Unknown
	}
	return context.WithValue(ctx, contextKey{}, known{c, id})
}

// From is the caller of the request; its ARN is Unknown where none is in ctx.
func From(ctx context.Context) Caller {
	if k, ok := ctx.Value(contextKey{}).(known); ok {
		return k.caller
	}
	return Caller{ARN: Unknown}
}

// ID is the id of the request, "" where none is in ctx.
func ID(ctx context.Context) string {
	k, _ := ctx.Value(contextKey{}).(known)
	return k.id
}

// NewID is the id of a request that came with none: 26 random letters and digits.
func NewID() string { return rand.Text() }

// Problem answers with problem details (RFC 9457) of the type about:blank, whose title is the text of the status. An empty detail is left out; it is shown to the caller, so it
// says nothing of our inside.
func Problem(w http.ResponseWriter, status int, detail string) {
	b, err := json.Marshal(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{"about:blank", http.StatusText(status), status, detail})
	if err != nil {
		panic(err) // strings and an integer always marshal
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(b) // whoever asked is gone
}
