package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/api/gateway"
)

// lines collects what was logged, at every level.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) log() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug - 8, AddSource: true}))
}

// event is that of a request with an IAM caller.
func event(method, path string) events.APIGatewayV2HTTPRequest {
	e := events.APIGatewayV2HTTPRequest{Version: "2.0", RouteKey: "ANY /{proxy+}", RawPath: path, Headers: map[string]string{"host": "abc.execute-api.ap-northeast-2.amazonaws.com"}}
	c := &e.RequestContext
	c.Stage, c.RequestID, c.DomainName = "$default", "JKJaXmPLvHcESHA=", "abc.execute-api.ap-northeast-2.amazonaws.com"
	c.HTTP.Method, c.HTTP.Path, c.HTTP.Protocol, c.HTTP.SourceIP = method, path, "HTTP/1.1", "203.0.113.7"
	c.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{IAM: &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{
		AccessKey: "ASIAEXAMPLE", AccountID: "123456789012", UserARN: "arn:aws:sts::123456789012:assumed-role/Spring/i-0abc",
	}}
	return e
}

// handle serves one event and returns the answer and what was logged.
func handle(t *testing.T, h http.HandlerFunc, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, string) {
	t.Helper()
	var l lines
	r, err := gateway.New(h, l.log()).Handle(t.Context(), e)
	if err != nil {
		t.Fatalf("Handle = %v, want no error for any event", err)
	}
	return r, l.String()
}

// seen is the request that a handler gets for the event.
func seen(t *testing.T, e events.APIGatewayV2HTTPRequest) *http.Request {
	t.Helper()
	var got *http.Request
	handle(t, func(_ http.ResponseWriter, r *http.Request) { got = r }, e)
	if got == nil {
		t.Fatal("the handler was not called")
	}
	return got
}

// echo answers with the body it got.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil || int64(len(b)) != r.ContentLength {
		http.Error(w, "body and length differ", http.StatusTeapot)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

// fromJSON reads an event as Lambda would.
func fromJSON(t *testing.T, text string) (e events.APIGatewayV2HTTPRequest) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e
}
