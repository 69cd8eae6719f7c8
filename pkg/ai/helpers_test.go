package ai_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/job"
)

var schema = json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}`)

// good is an answer of the protocol.
const good = `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"{\"title\":\"한 번\"}"},"finish_reason":"stop"}]}`

const goodText = `{"title":"한 번"}`

// say answers with a status and a body.
func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// server is an AI server that counts what comes in.
type server struct {
	*httptest.Server
	calls   atomic.Int64
	handler atomic.Pointer[http.HandlerFunc]
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.set(h)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		(*s.handler.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(h http.HandlerFunc) { s.handler.Store(&h) }

// client makes a client of the server; with, if not nil, changes the configuration.
func (s *server) client(t *testing.T, with func(*ai.Config)) *ai.Client {
	t.Helper()
	cfg := ai.Config{BaseURL: s.URL + "/v1", Model: "m"}
	if with != nil {
		with(&cfg)
	}
	return newClient(t, cfg)
}

func newClient(t *testing.T, cfg ai.Config) *ai.Client {
	t.Helper()
	c, err := ai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(ctx context.Context, c *ai.Client) (string, error) {
	return c.Complete(ctx, "be brief", "my notes", "til", schema)
}

// class is an error as the worker sees it: "later" or "never", and the reason.
func class(err error) string {
	var later *job.LaterError
	var never *job.PermanentError
	switch {
	case err == nil:
		return "fine"
	case errors.As(err, &later):
		return "later " + later.Reason
	case errors.As(err, &never):
		return "never " + never.Reason
	}
	return "unclassified: " + err.Error()
}

// after is the pause that an error asks for.
func after(t *testing.T, err error) time.Duration {
	t.Helper()
	var later *job.LaterError
	if !errors.As(err, &later) {
		t.Fatalf("%v does not pass", err)
	}
	return later.After
}

// clock is a time that moves when it is told to.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2024, 4, 15, 9, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// records is a log that keeps everything.
type records struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *records) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

func (r *records) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(r, &slog.HandlerOptions{Level: slog.Level(-100)}))
}

// pipes is a network of pipes, for time that does not pass by itself: both ends wait in ways that testing/synctest knows.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// overPipes serves h and returns the transport that reaches it. It ends with the test.
func overPipes(t *testing.T, h http.HandlerFunc) http.RoundTripper {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Serve(p)
	}()
	t.Cleanup(func() {
		s.Shutdown(context.Background()) // waits for the handlers, which end when their client is gone
		<-done
	})
	return &http.Transport{DisableKeepAlives: true, DialContext: p.dial}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
