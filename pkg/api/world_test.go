package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/request"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

var seoul = time.FixedZone("KST", 9*60*60)

// noon of 15 April 2024 in Seoul is when every test begins.
var noon = time.Date(2024, 4, 15, 3, 0, 0, 0, time.UTC)

// The callers of the tests: two sessions of one role, and another role of the same account.
var (
	spring  = request.Caller{ARN: "arn:aws:sts::123456789012:assumed-role/Spring/i-0aaa", Account: "123456789012"}
	spring2 = request.Caller{ARN: "arn:aws:sts::123456789012:assumed-role/Spring/i-0bbb", Account: "123456789012"}
	batch   = request.Caller{ARN: "arn:aws:sts::123456789012:assumed-role/Batch/i-0ccc", Account: "123456789012"}
)

// world is everything around the API: the real store, a queue that keeps what it gets, a clock and the log.
type world struct {
	t     testing.TB
	store store.Store
	jobs  *job.Store
	box   *box

	mu   sync.Mutex
	now  time.Time
	logs bytes.Buffer
}

func newWorld(t testing.TB, members ...string) *world {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, store: s, box: &box{bodies: map[queue.Name][]string{}}, now: noon}
	w.jobs = job.NewStore(s, w.clock)
	var list []catalog.Member
	for _, id := range members {
		list = append(list, catalog.Member{ID: id, Status: catalog.Active, JoinedAt: noon.AddDate(-1, 0, 0)})
	}
	if _, err := catalog.New(s).PutMembers(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Write takes the log.
func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.Write(p)
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.String()
}

// env is the world as the API sees it, with faults from a hook (nil: none).
func (w *world) env(hook sim.Hook) job.Env {
	s, q := store.Store(w.store), queue.Queue(w.box)
	if hook != nil {
		s, q = sim.Script(s, hook), sim.ScriptQueue(q, hook)
	}
	log := slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug - 8, AddSource: true}))
	return job.Env{Store: s, Queue: q, Now: w.clock, Log: log, Metric: func(once.Kind, string, float64) {}}
}

// handler is the API as a caller reaches it behind a door.
func (w *world) handler(c request.Caller, hook sim.Hook) http.Handler {
	return door(c, api.New(w.env(hook), seoul))
}

// door lets a caller in, as gateway and verifier do.
func door(c request.Caller, h http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(rw, r.WithContext(request.With(r.Context(), c, request.NewID())))
	})
}

// client asks the API over a connection.
func (w *world) client(c request.Caller, hook sim.Hook) api.Service {
	srv := httptest.NewServer(w.handler(c, hook))
	w.t.Cleanup(srv.Close)
	return api.NewClient(srv.URL, nil)
}

// as makes a service take every call as one of this caller.
func as(c request.Caller) context.Context {
	return request.With(context.Background(), c, request.NewID())
}

// reply is an answer that came whole.
type reply struct {
	*http.Response
	body string
}

// problem decodes problem details, or fails the test where the answer is none.
func (r reply) problem(t testing.TB) (e api.Error) {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("status %d, Content-Type %q, want application/problem+json: %.200s", r.StatusCode, ct, r.body)
	}
	dec := json.NewDecoder(strings.NewReader(r.body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		t.Errorf("problem: %v: %.200s", err, r.body)
	}
	if e.Status != r.StatusCode || e.Title == "" || e.Type == "" || e.RequestID == "" || e.RequestID != r.Header.Get("X-Request-Id") {
		t.Errorf("problem %+v of status %d, X-Request-Id %q", e, r.StatusCode, r.Header.Get("X-Request-Id"))
	}
	return e
}

func (r reply) json(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil || r.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, Content-Type %q, %v: %.300s", r.StatusCode, r.Header.Get("Content-Type"), err, r.body)
	}
}

// urlOf is the URL of a target; its query may be malformed.
func urlOf(target string) *url.URL {
	path, query, _ := strings.Cut(target, "?")
	u, err := url.ParseRequestURI(path)
	if err != nil {
		panic(err)
	}
	u.RawQuery = query
	return u
}

// send serves one request without a connection.
func send(h http.Handler, method, target, body string, header ...string) reply {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.URL = urlOf(target)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header[http.CanonicalHeaderKey(header[i])] = nil
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return reply{rec.Result(), rec.Body.String()}
}

// onEvery is a hook for every call of the store and the queue.
func onEvery(f func() (apply bool, err error)) sim.Hook {
	return func(sim.Call) (bool, error) { return f() }
}

// onTransactOf is a hook that refuses transactions that touch keys with this prefix.
func onTransactOf(prefix string, err error) sim.Hook {
	return func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.Touches(prefix) {
			return false, err
		}
		return true, nil
	}
}

var errBusy = &store.Busy{Reason: "a test"}

// box is a queue that keeps what it gets.
type box struct {
	mu     sync.Mutex
	bodies map[queue.Name][]string
}

func (b *box) Send(_ context.Context, to queue.Name, bodies ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies[to] = append(b.bodies[to], bodies...)
	return nil
}

func (b *box) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

// messages are those on a queue.
func (b *box) messages(of queue.Name) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bodies[of]...)
}

// jobCount is how many jobs of a kind were created this month.
func (w *world) jobCount(kind once.Kind) int {
	w.t.Helper()
	list, _, err := w.jobs.List(context.Background(), kind, noon, 0, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return len(list)
}

func monthly(w *world) job.Kind { return monthlypoint.New(w.store, seoul) }

func contains(s string, parts ...string) bool {
	for _, line := range strings.Split(s, "\n") {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(line, p)
		}
		if all {
			return true
		}
	}
	return false
}
