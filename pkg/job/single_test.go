package job_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

const til once.Kind = "til"

// target is what the single jobs of the tests are about.
const target = "member-42:2024-04-15"

// summaryKey is the row that the opening of a single job makes where there is none.
func summaryKey(target string) store.Key {
	return store.Key{Table: "summaries", PK: "row", SK: target}
}

// ask is a request for a single job about a target, under an id of its own.
func (w *world) ask(target string) job.Request {
	return job.Request{ID: job.NewID(til, w.clock()), RequestedBy: "arn:aws:iam::1:role/web", Opening: job.Opening{
		Kind: til, Slot: "til:" + target, Scope: target, Inputs: `{}`, Attempts: job.Attempts,
		With: []store.Write{store.Update(summaryKey(target), nil, map[string]int64{"revision": 0})},
	}}
}

// keyed is a request that its caller may repeat.
func (w *world) keyed(target, caller, key, digest string) job.Request {
	r := w.ask(target)
	r.Idempotency = &job.Idempotency{Caller: caller, Key: key, Digest: digest}
	return r
}

func (w *world) opened(t testing.TB, r job.Request) job.Job {
	t.Helper()
	j, opened, err := w.jobs.Open(t.Context(), r)
	if err != nil || !opened {
		t.Fatalf("open %s: %v, %v", r.ID, opened, err)
	}
	return j
}

func (w *world) claimed(t testing.TB, j job.Job) *job.Claim {
	t.Helper()
	c, err := w.jobs.Claim(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (w *world) holderOf(t testing.TB, slot string) string {
	t.Helper()
	held, _, err := w.jobs.Holder(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	return held.Job
}

// endings are the ways of a single job to its end, or to a state on the way.
var endings = []struct {
	name  string
	state job.State
	do    func(*testing.T, *world, job.Job)
}{
	{"PENDING", job.Pending, func(*testing.T, *world, job.Job) {}},
	{"RUNNING", job.Running, func(t *testing.T, w *world, j job.Job) { w.claimed(t, j) }},
	{"COMPLETED", job.Completed, func(t *testing.T, w *world, j job.Job) { must(t, w.claimed(t, j).Complete(t.Context())) }},
	{"FAILED", job.Failed, func(t *testing.T, w *world, j job.Job) { must(t, w.claimed(t, j).Fail(t.Context(), "refused")) }},
	{"CANCELLED before its claim", job.Cancelled, func(t *testing.T, w *world, j job.Job) { w.cancel(t, j.ID) }},
	{"CANCELLED behind its claim", job.Cancelled, func(t *testing.T, w *world, j job.Job) {
		w.claimed(t, j)
		w.cancel(t, j.ID)
	}},
	{"reaped to the end", job.Failed, func(t *testing.T, w *world, j job.Job) {
		if ended, err := w.jobs.Orphan(t.Context(), w.claimed(t, j).Job(), job.ReasonOrphaned); !ended || err != nil {
			t.Fatal(ended, err)
		}
	}},
	{"never started", job.Failed, func(t *testing.T, w *world, j job.Job) {
		if ended, err := w.jobs.Orphan(t.Context(), j, job.ReasonNeverStarted); !ended || err != nil {
			t.Fatal(ended, err)
		}
	}},
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An opening is one transaction of the slot, the job, the record of the request and the kind's own rows, and of nothing else.
func TestOpenASingleJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.keyed(target, "web", "key-1", "digest")
	transactions := 0
	j, opened, err := w.through(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact {
			transactions++
		}
		return true, nil
	}).Open(t.Context(), r)
	if err != nil || !opened || transactions != 1 {
		t.Fatalf("opened %v in %d transactions: %v", opened, transactions, err)
	}
	want := job.Job{
		ID: r.ID, Kind: til, Slot: "til:" + target, Scope: target, Inputs: `{}`, RequestedBy: r.RequestedBy, Rerun: true,
		State: job.Pending, MaxAttempts: 3, CreatedAt: w.now, Expires: w.now.Add(job.Retention).Unix(),
	}
	same(t, "job", j, want)
	same(t, "job as stored", w.find(t, r.ID), want)
	if !j.Single() || j.TotalKnown() {
		t.Errorf("single %v, total known %v", j.Single(), j.TotalKnown())
	}
	table := w.table(t)
	same(t, "request", table["jobs/REQUESTS#web/key-1"], store.Attrs{
		"digest": "digest", "job": r.ID, "at": "2024-03-31T15:30:00Z", "expires": w.now.Add(24 * time.Hour).Unix(),
	})
	same(t, "summary", table[summaryKey(target).String()], store.Attrs{"revision": int64(0)})
	same(t, "slot", w.holderOf(t, r.Slot), r.ID)
	if len(table) != 4 {
		t.Errorf("%d items, want the slot, the job, the request and the summary: %v", len(table), table)
	}
}

// JOB-01: of 20 openings that all meet at their transaction one wins, and the others name it.
func TestOneOfManyOpeningsWins(t *testing.T) {
	t.Parallel()
	const n = 20
	w := newWorld(t)
	meet := gate(n)
	var mu sync.Mutex
	var opened []job.Job
	holders := map[string]int{}
	together(n, func(int) {
		j, ok, err := w.through(meet()).Open(t.Context(), w.ask(target))
		mu.Lock()
		defer mu.Unlock()
		var active *job.ActiveError
		switch {
		case err == nil && ok:
			opened = append(opened, j)
		case errors.As(err, &active):
			holders[active.Job.ID]++
		default:
			t.Errorf("opened %v, %v; want the one job or *ActiveError", ok, err)
		}
	})
	if len(opened) != 1 {
		t.Fatalf("%d openings won, want 1", len(opened))
	}
	same(t, "holders named", holders, map[string]int{opened[0].ID: n - 1})
	same(t, "slot", w.holderOf(t, "til:"+target), opened[0].ID)
	if table := w.table(t); len(table) != 3 { // the job, its slot, the row of the kind
		t.Errorf("%d items, want 3: %v", len(table), table)
	}
}

// gate makes hooks, one for a process, that let n of them meet before their first transaction.
func gate(n int) func() sim.Hook {
	var meet sync.WaitGroup
	meet.Add(n)
	return func() sim.Hook {
		return onTransact(1, func(sim.Call) (bool, error) {
			meet.Done()
			meet.Wait()
			return true, nil
		})
	}
}

func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// JOB-02: the slot is held while the job is active, and free again the moment it is over, however it ended.
func TestASlotIsFreeAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.opened(t, w.ask(target))
			tt.do(t, w, first)
			same(t, "state", w.find(t, first.ID).State, tt.state)
			if tt.state.Active() {
				w.unchanged(t, "a refused opening", func() {
					_, opened, err := w.jobs.Open(t.Context(), w.ask(target))
					var active *job.ActiveError
					if opened || !errors.As(err, &active) || active.Job.ID != first.ID || active.Job.State != tt.state {
						t.Errorf("opened %v, %v; want *ActiveError naming %s as %s", opened, err, first.ID, tt.state)
					}
				})
				return
			}
			same(t, "slot", w.holderOf(t, first.Slot), "")
			over := w.find(t, first.ID)
			next := w.opened(t, w.ask(target))
			same(t, "slot of the next", w.holderOf(t, first.Slot), next.ID)
			same(t, "the job that is over", w.find(t, first.ID), over)
		})
	}
	t.Run("deleted", func(t *testing.T) { // as an expiry does, long after the end
		t.Parallel()
		w := newWorld(t)
		first := w.opened(t, w.ask(target))
		w.cancel(t, first.ID)
		key, err := job.KeyOf(first.ID)
		must(t, err)
		w.transact(t, store.Delete(key))
		w.opened(t, w.ask(target))
	})
}

// A job of another kind on the same target, or of the same kind on another target, is not in the way.
func TestOtherSlotsAreNotInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.ask(target)
	other.ID, other.Kind, other.Slot = job.NewID("quiz", w.clock()), "quiz", "quiz:"+target
	bulk := w.open(t)
	for _, r := range []job.Request{w.ask(target), other, w.ask("member-42:2024-04-16"), w.ask("member-43:2024-04-15")} {
		w.opened(t, r)
	}
	slots, err := w.jobs.Slots(t.Context())
	if err != nil || len(slots) != 5 {
		t.Errorf("%d slots, %v; want 5 with that of %s", len(slots), err, bulk.ID)
	}
}

// The same call after a lost answer finds its own job, whatever has become of it since, and writes nothing; with an idempotency key too.
func TestOpeningAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for _, keyed := range []bool{false, true} {
		for _, tt := range endings {
			t.Run(fmt.Sprint(tt.name, " keyed ", keyed), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				r := w.ask(target)
				if keyed {
					r = w.keyed(target, "web", "key", "digest")
				}
				if _, _, err := w.through(onTransact(1, lost)).Open(t.Context(), r); !errors.Is(err, sim.ErrNoAnswer) {
					t.Fatal(err)
				}
				tt.do(t, w, w.find(t, r.ID))
				w.unchanged(t, "the same opening again", func() {
					j, opened, err := w.jobs.Open(t.Context(), r)
					if err != nil || !opened || j.ID != r.ID || j.State != tt.state {
						t.Errorf("got %s %s, opened %v, %v; want the own job", j.ID, j.State, opened, err)
					}
				})
			})
		}
	}
}

// An opening that was not accepted wrote nothing at all: not the request, not the row of the kind.
func TestOpeningThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]sim.Hook{
		"no answer": onTransact(1, func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }),
		"busy":      onTransact(1, func(sim.Call) (bool, error) { return false, &store.Busy{Reason: "a test"} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if _, opened, err := w.through(hook).Open(t.Context(), w.keyed(target, "web", "key", "digest")); opened || err == nil || is[*job.ActiveError](err) {
				t.Errorf("opened %v, %v", opened, err)
			}
			if table := w.table(t); len(table) != 0 {
				t.Errorf("items: %v", table)
			}
		})
	}
	w := newWorld(t) // and one whose kind adds what can never be accepted
	r := w.keyed(target, "web", "key", "digest")
	r.With = []store.Write{store.Put(summaryKey(target), store.Attrs{"text": string(make([]byte, store.MaxItem))})}
	if _, opened, err := w.jobs.Open(t.Context(), r); opened || !is[*store.Refused](err) {
		t.Errorf("opened %v, %v; want it refused for good, not as something that passes", opened, err)
	}
	if table := w.table(t); len(table) != 0 {
		t.Errorf("items: %v", table)
	}
}
