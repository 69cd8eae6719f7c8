package job_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

const (
	kind   once.Kind   = "monthly-point"
	april  once.Period = "2024-04"
	slot               = "monthly-point:2024-04"
	inputs             = `{"amount":100}`
)

// world is a store, a clock and what was written since.
type world struct {
	store.Store // remembers the keys of all writes
	jobs        *job.Store

	mu      sync.Mutex
	now     time.Time
	written map[store.Key]bool
}

func newWorld(t testing.TB) *world {
	t.Helper()
	b, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	w := &world{now: time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC), written: map[store.Key]bool{}}
	w.Store = sim.Script(b, func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, k := range c.Keys {
				w.written[k] = true
			}
		}
		return true, nil
	})
	w.jobs = job.NewStore(w.Store, w.clock)
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

// through is the same jobs seen by a process whose calls go through a hook.
func (w *world) through(hook sim.Hook) *job.Store {
	return job.NewStore(sim.Script(w.Store, hook), w.clock)
}

// table is everything that stands in the store now, by key.
func (w *world) table(t testing.TB) map[string]store.Attrs {
	t.Helper()
	w.mu.Lock()
	keys := slices.Collect(maps.Keys(w.written))
	w.mu.Unlock()
	out := map[string]store.Attrs{}
	items, err := w.Get(context.Background(), keys...)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if it.Exists() {
			out[it.Key.String()] = it.Attrs
		}
	}
	return out
}

// unchanged runs f and checks that it wrote nothing.
func (w *world) unchanged(t testing.TB, what string, f func()) {
	t.Helper()
	before := w.table(t)
	f()
	same(t, "the table after "+what, w.table(t), before)
}

func (w *world) transact(t testing.TB, writes ...store.Write) {
	t.Helper()
	if err := w.Transact(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
}

// opening is that of April.
func opening() job.Opening {
	return job.Opening{
		Kind: kind, Slot: slot, Scope: string(april), Period: april, Inputs: inputs, Scheduled: time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC),
	}
}

func (w *world) firing() job.Request {
	return job.Request{Opening: opening(), ID: job.NewID(kind, w.clock()), RequestedBy: "scheduler", Fired: true}
}

func (w *world) request() job.Request {
	return job.Request{Opening: opening(), ID: job.NewID(kind, w.clock()), RequestedBy: "operator"}
}

// open opens a job of April as an operator does.
func (w *world) open(t testing.TB) job.Job {
	t.Helper()
	j, opened, err := w.jobs.Open(t.Context(), w.request())
	if err != nil || !opened {
		t.Fatalf("open: %v, %v", opened, err)
	}
	return j
}

func (w *world) start(t testing.TB) job.Job {
	t.Helper()
	j, err := w.jobs.Start(t.Context(), w.open(t))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// list makes one last page of each segment, so that the total is known. Subjects go to their segments.
func (w *world) list(t testing.TB, j job.Job, subjects ...string) job.Job {
	t.Helper()
	pages := make([]job.Page, j.Segments)
	for _, s := range subjects {
		n := job.SegmentOf(s, j.Segments)
		pages[n].Subjects = append(pages[n].Subjects, s)
	}
	for n, p := range pages {
		p.Last = true
		seg, err := w.jobs.SegmentAt(t.Context(), j, n)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = w.jobs.Freeze(t.Context(), j, n, seg.Ordinal, p); err != nil {
			t.Fatal(err)
		}
		if over, err := w.jobs.Advance(t.Context(), j, n, seg, p, n%j.Shards); over || err != nil {
			t.Fatal(over, err)
		}
	}
	return w.find(t, j.ID)
}

// settle settles subjects of a job as already, or as failed with a reason.
func (w *world) settle(t testing.TB, j job.Job, reason string, subjects ...string) {
	t.Helper()
	for n, s := range subjects {
		write, c := w.jobs.SettledAlready(j, s), job.Counts{Already: 1}
		if reason != "" {
			write, c = w.jobs.SettledFailed(j, s, reason), job.Counts{Failed: 1}
		}
		if err := w.jobs.Settle(t.Context(), j, n%j.Shards, c, write); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) find(t testing.TB, id string) job.Job {
	t.Helper()
	j, err := w.jobs.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (w *world) period(t testing.TB) job.Period {
	t.Helper()
	p, ok, err := w.jobs.FindPeriod(t.Context(), kind, april)
	if err != nil || !ok {
		t.Fatalf("period: %v, %v", ok, err)
	}
	return p
}

// holder is the job that holds the slot of April, "" for none.
func (w *world) holder(t testing.TB) string {
	t.Helper()
	held, _, err := w.jobs.Holder(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	return held.Job
}

func (w *world) cancel(t testing.TB, id string) {
	t.Helper()
	if _, done, err := w.jobs.Cancel(t.Context(), id); !done || err != nil {
		t.Fatalf("cancel %s: %v, %v", id, done, err)
	}
}

func (w *world) tally(t testing.TB, j job.Job) job.Tally {
	t.Helper()
	out, err := w.jobs.TallyOf(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// onTransact makes a hook that decides about the n-th transaction and lets everything else happen.
func onTransact(n int, decide func(sim.Call) (bool, error)) sim.Hook {
	return func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.N == n {
			return decide(c)
		}
		return true, nil
	}
}

func lost(sim.Call) (bool, error) { return true, sim.ErrNoAnswer }

func subjects(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("member-%d", i)
	}
	return out
}

// is tells whether an error is of a type.
func is[T error](err error) bool {
	var x T
	return errors.As(err, &x)
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
