package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

var seoul = time.FixedZone("KST", 9*60*60)

// april is the scheduled time of 2024-04 in UTC: 00:30 of 1 April in Seoul.
var april = time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)

const (
	firing = `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`
	points = queue.Name(monthlypoint.Name)
)

type monthly = monthlypoint.Kind // a name that hides no method

// kind is the monthly grant, with a source that a test may replace.
type kind struct {
	*monthly
	subjects func(segment int, cursor string) ([]string, string, error)
}

func (k *kind) Subjects(ctx context.Context, j job.Job, segment int, cursor string) ([]string, string, error) {
	if k.subjects != nil {
		return k.subjects(segment, cursor)
	}
	return k.monthly.Subjects(ctx, j, segment, cursor)
}

// world is everything around dispatcher and fan-out: the real store, catalog and worker, and a queue that keeps what it gets.
type world struct {
	t     testing.TB
	store store.Store
	kind  *kind
	jobs  *job.Store
	box   *box

	others []job.Kind // that the audit is to look at too

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
	w := &world{
		t: t, store: s, kind: &kind{monthly: monthlypoint.New(s, seoul)}, box: &box{bodies: map[queue.Name][]string{}}, now: april.Add(10 * time.Second),
	}
	w.jobs = job.NewStore(s, w.clock)
	w.addMembers(members...)
	t.Cleanup(func() {
		w.audit()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) addMembers(ids ...string) {
	w.t.Helper()
	list := make([]catalog.Member, len(ids))
	for i, id := range ids {
		list[i] = catalog.Member{ID: id, Status: catalog.Active, JoinedAt: april.AddDate(-1, 0, 0)}
	}
	w.putMembers(list...)
}

func (w *world) putMembers(list ...catalog.Member) {
	w.t.Helper()
	results, err := catalog.New(w.store).PutMembers(context.Background(), list)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			w.t.Fatal(r.Err)
		}
	}
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

// env is the world as an engine sees it, with faults from a hook (nil: none).
func (w *world) env(hook sim.Hook) job.Env {
	s, q := store.Store(w.store), queue.Queue(w.box)
	if hook != nil {
		s, q = sim.Script(s, hook), sim.ScriptQueue(q, hook)
	}
	return job.Env{Store: s, Queue: q, Now: w.clock, Log: slog.New(slog.NewJSONHandler(w, nil)), Metric: func(once.Kind, string, float64) {}}
}

func (w *world) dispatcher(hook sim.Hook) *dispatch.Dispatcher {
	return dispatch.NewDispatcher(w.env(hook), w.kind)
}

func (w *world) fanout(hook sim.Hook) *dispatch.Fanout {
	return dispatch.NewFanout(w.env(hook), w.kind)
}

func (w *world) fire() {
	w.t.Helper()
	if err := w.dispatcher(nil).Handle(context.Background(), json.RawMessage(firing)); err != nil {
		w.t.Fatal(err)
	}
}

// again is an operator's run of 2024-04.
func (w *world) again(amount int64) (dispatch.Result, error) {
	return w.dispatcher(nil).Run(context.Background(), dispatch.Run{Kind: monthlypoint.Name, Period: "2024-04", Input: []byte(monthlypoint.Inputs(amount)), RequestedBy: "test"})
}

// segments delivers bodies to a fan-out, each by itself as in production, and returns those that come again.
func (w *world) segments(f *dispatch.Fanout, bodies ...string) (again []string) {
	w.t.Helper()
	for _, b := range bodies {
		answer, err := f.Handle(context.Background(), event(b))
		if err != nil {
			w.t.Fatal(err)
		}
		if len(answer.BatchItemFailures) > 0 {
			again = append(again, b)
		}
	}
	return again
}

// drain works until the queues are empty, without faults.
func (w *world) drain() {
	w.t.Helper()
	f, b := w.fanout(nil), worker.NewBulk(w.env(nil), w.kind)
	for range 1000 {
		if segments := w.box.take(queue.Segments, 0); len(segments) > 0 {
			if again := w.segments(f, segments...); len(again) > 0 {
				w.t.Fatalf("%d segments failed without a fault:\n%s", len(again), w.tail())
			}
			continue
		}
		messages := w.box.take(points, 98)
		if len(messages) == 0 {
			return
		}
		answer, err := b.Handle(context.Background(), event(messages...))
		if err != nil || len(answer.BatchItemFailures) > 0 {
			w.t.Fatalf("%d messages failed without a fault, %v:\n%s", len(answer.BatchItemFailures), err, w.tail())
		}
	}
	w.t.Fatal("the queues do not run empty")
}

func (w *world) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(w.logs.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// list is every job of the kind, newest first.
func (w *world) list() []job.Job {
	w.t.Helper()
	jobs, _, err := w.jobs.List(context.Background(), monthlypoint.Name, april, 0, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

// only is the one job there is.
func (w *world) only() job.Job {
	w.t.Helper()
	jobs := w.list()
	if len(jobs) != 1 {
		w.t.Fatalf("%d jobs, want 1", len(jobs))
	}
	return jobs[0]
}

func (w *world) balance(member string) int64 {
	w.t.Helper()
	h, err := ledger.New(w.store, monthlypoint.Table, w.clock).History(context.Background(), member, "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return h.Balances[monthlypoint.Balance].N
}

// granted checks that each member has exactly so many points.
func (w *world) granted(n int64, members ...string) {
	w.t.Helper()
	for _, m := range members {
		if got := w.balance(m); got != n {
			w.t.Errorf("%s has %d points, want %d", m, got, n)
		}
	}
}

func (w *world) audit() {
	w.t.Helper()
	r, err := audit.Check(context.Background(), w.store, w.clock(), nil, append(w.others, w.kind)...)
	if err != nil || !r.OK() {
		w.t.Errorf("audit: %v %s", err, strings.Join(r.Violations, "\n"))
	}
}

// untouched tells that no job, no period and no message exists.
func (w *world) untouched() {
	w.t.Helper()
	if jobs := w.list(); len(jobs) > 0 {
		w.t.Errorf("%d jobs, want none", len(jobs))
	}
	page, err := w.store.Query(context.Background(), store.Query{Table: job.Table, PK: "PERIODS#" + string(monthlypoint.Name)})
	if err != nil || len(page.Items) > 0 {
		w.t.Errorf("%d periods, %v, want none", len(page.Items), err)
	}
	slots, err := w.jobs.Slots(context.Background())
	if err != nil || len(slots) > 0 || w.box.sent > 0 {
		w.t.Errorf("%d slots, %d messages, %v, want none", len(slots), w.box.sent, err)
	}
}
