package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// walks is raised by hand to look further: go test -run TestWalks ./pkg/reaper -walks 2000
var walks = flag.Int("walks", 48, "random walks of TestWalks")

// Random walks of the whole system over the real code: firings, operators, fan-outs, workers, reapers and cancels, each of which may die between any two calls, lose answers, be
// turned away, or be overtaken by any other between two calls; messages that are duplicated, lost and redriven; a source that changes; subjects that fail for a while or for good.
// The invariants I1 to I6 hold on the way. Then the faults stop, and every active job comes to an end by itself (I7); after that one more run is enough to grant everybody once.
func TestWalks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*walks) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newWalk(t, seed).walk() })
		})
	}
}

// walk is one of them.
type walk struct {
	*world
	t       *testing.T
	r       *rand.Rand
	names   []string
	amount  bool // operators change the amount: then some end as conflicts for ever
	cancels int  // that are still to come: too many, and no job gets anywhere

	entries map[string]ledger.Entry // applied, as seen before
	seen    map[string]job.Job      // by id, as seen before
	tallies map[string]job.Counts
}

func newWalk(t *testing.T, seed uint64) *walk {
	k := &walk{
		t: t, r: rand.New(rand.NewPCG(seed, 42)), names: crowded(7),
		entries: map[string]ledger.Entry{}, seen: map[string]job.Job{}, tallies: map[string]job.Counts{},
	}
	k.world = newWorld(t, k.names[:5]...)
	var members []catalog.Member // the audit looks for entries of whoever is in the catalog, in a manifest or not
	for _, n := range k.names {
		members = append(members, catalog.Member{ID: n, Status: catalog.Active, JoinedAt: april})
	}
	if _, err := catalog.New(k.store).PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	k.kind.page = 1 + k.r.IntN(3)
	k.amount = k.r.IntN(4) == 0
	k.cancels = k.r.IntN(3)
	return k
}

func (k *walk) walk() {
	for n := range 100 + k.r.IntN(100) {
		k.step(0)
		if n%4 == 0 {
			k.check()
		}
		if k.t.Failed() {
			return
		}
	}
	k.check()
	k.drain()
	k.check()
	if k.t.Failed() || k.amount {
		return
	}
	k.kind.change(func() {
		clear(k.kind.permanent)
		clear(k.kind.transient)
		clear(k.kind.broken)
	})
	j := k.run()
	k.drain()
	k.check()
	if now := k.find(j.ID); now.State != job.Completed || now.Failed != 0 {
		k.t.Errorf("the last run is %s %q with %d failed of %d", now.State, now.Reason, now.Failed, now.Total)
	}
	if rec, _, err := k.jobs.FindPeriod(k.t.Context(), "gift", "2024-04"); err != nil || rec.ClosedBy == "" {
		k.t.Errorf("the period is open after it: %+v, %v", rec, err)
	}
	granted := k.balances(k.names...)
	for s, in := range k.kind.subjects {
		if n := granted[s]; in && n != 100 || n != 0 && n != 100 {
			k.t.Errorf("%s has %d points and is in the source: %v", s, n, in)
		}
	}
}

// crowded are names of two segments only: pages are long enough to be interesting.
func crowded(n int) (out []string) {
	for i := 0; len(out) < n; i++ {
		if s := fmt.Sprintf("member-%d", i); job.SegmentOf(s, job.Segments) < 2 {
			out = append(out, s)
		}
	}
	return out
}

// staleReads misses some items where it may.
type staleReads struct {
	store.Store
	r *rand.Rand
}

func (s staleReads) GetStale(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	items, err := s.Store.GetStale(ctx, keys...)
	for i := range items {
		if s.r.IntN(3) == 0 {
			items[i].Attrs = nil
		}
	}
	return items, err
}

// process is one life at work: it dies at most once.
type process struct {
	k     *walk
	depth int
	ctx   context.Context
	die   context.CancelFunc
	dead  atomic.Bool
	turn  chan struct{} // held by whoever decides
}

func (k *walk) process(depth int) *process {
	p := &process{k: k, depth: depth, turn: make(chan struct{}, 1)}
	p.ctx, p.die = context.WithCancel(k.t.Context())
	return p
}

func (p *process) env() job.Env {
	e := p.k.env(sim.Script(staleReads{p.k.store, p.k.r}, p.fate))
	e.Queue = sim.ScriptQueue(p.k.world, p.fate)
	return e
}

// fate decides about one call; between two calls of one process anything may happen.
func (p *process) fate(c sim.Call) (apply bool, err error) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	if p.dead.Load() {
		return false, sim.ErrKilled
	}
	k := p.k
	unknown := error(sim.ErrNoAnswer)
	if c.Op == sim.Send {
		unknown = &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: sim.ErrNoAnswer}
	}
	writes := c.Op == sim.Transact || c.Op == sim.Send
	switch n := k.r.IntN(1000); {
	case n < 8:
		p.dead.Store(true)
		if k.r.IntN(2) == 0 {
			p.die()
			return false, sim.ErrKilled
		}
		c.After(p.die)
		return true, sim.ErrKilled
	case n < 30 && writes:
		return true, unknown
	case n < 38:
		return false, unknown
	case n < 50 && c.Op == sim.Transact:
		return false, &store.Busy{Reason: "throttled"}
	case n < 65 && c.Op == sim.Transact:
		return false, &store.Busy{Reason: "conflict", Conflicts: []int{k.r.IntN(len(c.Writes))}}
	case n < 69 && c.Op == sim.Send:
		return false, nil // accepted and lost
	case n < 150 && p.depth < 3:
		k.step(p.depth + 1)
	}
	return true, nil
}

// step is one thing that somebody does.
func (k *walk) step(depth int) {
	p := k.process(depth)
	defer p.die()
	n := k.r.IntN(100)
	if depth > 0 { // what overtakes is what may be in the way
		n = []int{0, 0, 0, 40, 40, 60, 60, 68, 71, 76, 76, 90, 90}[k.r.IntN(13)]
	}
	switch {
	case n < 34:
		k.deliverSome(gifts, 1+k.r.IntN(5), p, worker.NewBulk(p.env(), k.kind))
	case n < 52:
		k.deliverSome(queue.Segments, 1+k.r.IntN(16), p, dispatch.NewFanout(p.env(), k.kind))
	case n < 66:
		k.later([]time.Duration{0, time.Minute, 3 * time.Minute, 25 * time.Minute, time.Hour, 4 * time.Hour}[k.r.IntN(6)])
		k.expect(reaper.New(p.env(), paused, k.kind).Handle(p.ctx))
	case n < 70:
		k.expect(dispatch.NewDispatcher(p.env(), k.kind).Handle(p.ctx, k.event(100)))
	case n < 75:
		amount := 100
		if k.amount && k.r.IntN(2) == 0 {
			amount = 250
		}
		_, err := dispatch.NewDispatcher(p.env(), k.kind).Run(p.ctx, dispatch.Run{
			Kind: "gift", Period: "2024-04", Input: json.RawMessage(fmt.Sprintf(`{"amount":%d}`, amount)), RequestedBy: "operator", ChangeAmount: k.amount,
		})
		k.expect(err)
	case n < 78:
		if slots, err := k.jobs.Slots(k.t.Context()); err == nil && len(slots) > 0 && k.cancels > 0 {
			k.cancels--
			_, _, err := job.NewStore(sim.Script(k.store, p.fate), k.clock).Cancel(p.ctx, slots[0].Job)
			k.expect(err)
		}
	case n < 85:
		k.spoil()
	case n < 88:
		k.redrive()
	default:
		s := k.names[k.r.IntN(len(k.names))]
		k.kind.change(func() {
			switch k.r.IntN(8) {
			case 0, 1, 2:
				k.kind.permanent[s] = !k.kind.permanent[s]
			case 3, 4:
				k.kind.transient[s] = !k.kind.transient[s]
			case 5:
				if k.r.IntN(3) > 0 {
					clear(k.kind.broken)
					break
				}
				g := job.SegmentOf(s, job.Segments)
				k.kind.broken[g] = !k.kind.broken[g]
			default:
				k.kind.subjects[s] = !k.kind.subjects[s]
			}
		})
	}
}

// expect takes the errors that a fault or another process explains.
func (k *walk) expect(err error) {
	var active *job.ActiveError
	var inputs *job.InputsError
	var busy *store.Busy
	var unsent *queue.Unsent
	if err != nil && !errors.As(err, &active) && !errors.As(err, &inputs) && !errors.As(err, &busy) && !errors.As(err, &unsent) && !errors.Is(err, sim.ErrNoAnswer) &&
		!errors.Is(err, sim.ErrKilled) && !errors.Is(err, context.Canceled) && !errors.Is(err, job.ErrOver) {
		k.t.Errorf("an error that nothing explains: %v", err)
	}
}

// some takes messages out of a queue at random.
func (k *walk) some(from queue.Name, n int) (out []message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for range min(n, len(k.queues[from])) {
		q := k.queues[from]
		i := k.r.IntN(len(q))
		out = append(out, q[i])
		k.queues[from] = slices.Delete(slices.Clone(q), i, i+1)
	}
	return out
}

func (k *walk) deliverSome(from queue.Name, n int, p *process, h handler) {
	if batch := k.some(from, n); len(batch) > 0 {
		k.deliverTo(p.ctx, h, p.dead.Load, batch)
	}
}

// spoil duplicates or loses a message.
func (k *walk) spoil() {
	from := []queue.Name{gifts, queue.Segments}[k.r.IntN(2)]
	for _, m := range k.some(from, 1) {
		if k.r.IntN(2) == 0 {
			k.Send(context.Background(), from, m.body, m.body)
		}
	}
}

// redrive moves everything from the DLQ back.
func (k *walk) redrive() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.dlq {
		m.receives = 0
		k.queues[m.to] = append(k.queues[m.to], m)
	}
	k.dlq = nil
}

// drain lets time pass without faults until no job is active. What fails goes on failing.
func (k *walk) drain() {
	for range 100 {
		for range maxReceives + 1 {
			k.fanOut()
			k.work()
		}
		k.reap()
		slots, err := k.jobs.Slots(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		if len(slots) == 0 && k.waiting(gifts)+k.waiting(queue.Segments) == 0 {
			return
		}
		k.later(30 * time.Minute)
	}
	k.t.Fatal("a job does not come to an end")
}

// check reads the whole store: the invariants, and that nothing went back since the last look.
func (k *walk) check() {
	k.sound()
	ctx := k.t.Context()
	l := ledger.New(k.store, points, k.clock)
	for _, s := range k.names {
		key, _ := once.NewKey("gift", "2024-04", s)
		e, ok, err := l.Entry(ctx, key)
		if err != nil {
			k.t.Fatal(err)
		}
		if before, was := k.entries[s]; was {
			same(k.t, "I1: the applied entry of "+s, e, before)
		}
		if ok && e.State == ledger.Applied {
			k.entries[s] = e
		}
	}
	jobs, _, err := k.jobs.List(ctx, "gift", april, 0, "")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, j := range jobs {
		if before, was := k.seen[j.ID]; was && !before.State.Active() {
			same(k.t, "I5: a job that is over", j, before)
		}
		k.seen[j.ID] = j
		tally, err := k.jobs.TallyOf(ctx, j)
		if err != nil {
			k.t.Fatal(err)
		}
		if b, n := k.tallies[j.ID], tally.Counts; n.Applied < b.Applied || n.Already < b.Already || n.Failed < b.Failed {
			k.t.Errorf("I6: the tally of %s went from %+v to %+v", j.ID, b, n)
		}
		k.tallies[j.ID] = tally.Counts
	}
	if ids := slices.Collect(maps.Keys(k.seen)); len(jobs) < len(ids) {
		k.t.Errorf("jobs are gone: %v", ids)
	}
}
