package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// Random walks of single jobs over the real code: requests, some repeated with their key, workers, reapers and cancels, each of which may die between any two calls, lose answers, be turned away, or be overtaken
// by any other between two calls or during its outside call; calls that take long, fail for a while or for good; messages that are duplicated, lost and redriven; processes that start.
// After every step the invariants hold, a job that is over stays as it is, and one that is COMPLETED has published once. Then the faults stop, and every job comes to an end by itself.
//
// Raise the flag of TestWalks by hand to look further: go test -run TestSingleWalks ./pkg/reaper -walks 5000
func TestSingleWalks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ends := map[string]int{}
	t.Cleanup(func() { // a walk that meets only fair weather shows nothing
		t.Log(ends)
		for _, want := range []string{
			"COMPLETED in attempt 1", "COMPLETED in attempt 2", "COMPLETED in attempt 3", "CANCELLED in attempt 0", "CANCELLED in attempt 1", "FAILED never-started in attempt 0", "FAILED refused in attempt 1",
		} {
			if ends[want] == 0 && !t.Failed() {
				t.Errorf("no job ended %s", want)
			}
		}
	})
	for seed := range uint64(*walks) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newSingleWalk(t, seed)
				k.walk()
				mu.Lock()
				defer mu.Unlock()
				for _, j := range k.known {
					ends[strings.TrimSpace(fmt.Sprintf("%s %s", j.State, j.Reason))+fmt.Sprint(" in attempt ", j.Attempt)]++
				}
			})
		})
	}
}

// singleWalk is one of them.
type singleWalk struct {
	*desk
	t     *testing.T
	r     *rand.Rand
	calm  bool // no more faults
	known map[string]job.Job
	keys  map[string]string // job by idempotency key, where the answer was definite
}

var walkTargets = []string{"a", "b", "c"}

func newSingleWalk(t *testing.T, seed uint64) *singleWalk {
	k := &singleWalk{t: t, r: rand.New(rand.NewPCG(seed, 43)), desk: newDesk(t), known: map[string]job.Job{}, keys: map[string]string{}}
	k.til.result = k.result
	return k
}

func (k *singleWalk) walk() {
	for range 60 + k.r.IntN(60) {
		k.step(0)
		k.check()
		if k.t.Failed() {
			return
		}
	}
	k.calm = true
	for n := 0; ; n++ {
		k.work(nil)
		k.reap()
		k.check()
		slots, err := k.jobs.Slots(k.t.Context())
		if err != nil || n > 500 || k.t.Failed() {
			k.t.Fatal("no end: ", slots, err)
		}
		if len(slots) == 0 && k.waiting(til) == 0 {
			break
		}
		time.Sleep(5 * time.Minute)
	}
	for _, target := range walkTargets { // and the slot is free: the next job completes
		time.Sleep(time.Second)
		j, err := k.ask(nil, target)
		if err != nil {
			k.t.Fatal(err)
		}
		k.til.result = nil
		k.work(nil)
		k.ends(j, job.Completed, "", 1)
	}
	k.check()
}

// actor is one process at work: it dies at most once, and it does one thing at a time.
type actor struct {
	k     *singleWalk
	depth int
	ctx   context.Context
	die   context.CancelFunc
	dead  bool
	turn  chan struct{} // held by whoever of the process decides
}

type actorKey struct{}

func (k *singleWalk) actor(depth int) *actor {
	a := &actor{k: k, depth: depth, turn: make(chan struct{}, 1)}
	ctx, die := context.WithTimeout(k.t.Context(), 150*time.Second)
	a.ctx, a.die = context.WithValue(ctx, actorKey{}, a), die
	return a
}

func (a *actor) killed() bool {
	a.turn <- struct{}{}
	defer func() { <-a.turn }()
	return a.dead
}

// hook decides about one call; between two calls of one process anything may happen.
func (a *actor) hook(c sim.Call) (apply bool, err error) {
	a.turn <- struct{}{}
	defer func() { <-a.turn }()
	if a.dead {
		return false, sim.ErrKilled
	}
	k := a.k
	unknown := error(sim.ErrNoAnswer)
	if c.Op == sim.Send {
		unknown = &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: sim.ErrNoAnswer}
	}
	writes := c.Op == sim.Transact || c.Op == sim.Send
	switch n := k.r.IntN(1000); {
	case n < 15:
		a.dead = true
		if k.r.IntN(2) == 0 {
			a.die()
			return false, sim.ErrKilled
		}
		c.After(a.die)
		return true, sim.ErrKilled
	case n < 65 && writes:
		return true, unknown
	case n < 90:
		return false, unknown
	case n < 120 && c.Op == sim.Transact:
		return false, &store.Busy{Reason: "throttled"}
	case n < 135 && c.Op == sim.Send:
		return false, nil // accepted and lost
	case n < 200 && a.depth < 3:
		k.step(a.depth + 1)
	case n < 210:
		time.Sleep(time.Duration(k.r.IntN(90)) * time.Second) // the process, or the store, stands still
	}
	return true, nil
}

// result is the outside call. It runs beside the renewal of its process, and does what it does in its turn.
func (k *singleWalk) result(ctx context.Context, j job.Job) ([]once.Effect, error) {
	if k.calm {
		return nil, nil
	}
	a := ctx.Value(actorKey{}).(*actor)
	a.turn <- struct{}{}
	n, wait, listens := k.r.IntN(100), time.Duration(k.r.IntN(140))*time.Second, k.r.IntN(4) > 0
	for range k.r.IntN(3) {
		if a.depth < 3 {
			k.step(a.depth + 1)
		}
	}
	<-a.turn
	if n < 60 {
		if !listens {
			ctx = context.WithoutCancel(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
	switch {
	case n%10 == 0:
		return nil, job.Permanent("refused", errors.New("no"))
	case n%10 < 3:
		return nil, job.Later("busy", wait, errors.New("not now"))
	case n%10 == 3:
		panic("of the call")
	}
	return nil, nil
}

// step is one thing that somebody does.
func (k *singleWalk) step(depth int) {
	time.Sleep(time.Duration(1+k.r.IntN(2000)) * time.Millisecond)
	a := k.actor(depth)
	defer a.die()
	switch n := k.r.IntN(100); {
	case n < 30:
		k.someMessage(func(m message) { k.deliverTo(a.ctx, worker.NewSingle(k.env(a.hook), k.til), a.killed, []message{m}) })
	case n < 50:
		k.request(a)
	case n < 72:
		time.Sleep([]time.Duration{0, 0, time.Minute, 3 * time.Minute, 20 * time.Minute, 7 * time.Hour}[k.r.IntN(6)])
		k.expect(reaper.New(k.env(a.hook), paused, k.til).Handle(a.ctx))
	case n < 76:
		k.expect(reaper.New(k.env(a.hook), paused, k.til).Recover(a.ctx))
	case n < 83:
		if slots, err := k.jobs.Slots(k.t.Context()); err == nil && len(slots) > 0 {
			_, _, err := job.NewStore(k.env(a.hook).Store, now).Cancel(a.ctx, slots[k.r.IntN(len(slots))].Job)
			k.expect(err)
		}
	case n < 90:
		k.someMessage(func(m message) { _ = k.Send(context.Background(), til, m.body, m.body) })
	case n < 94:
		k.someMessage(func(message) {}) // lost
	default:
		k.mu.Lock()
		for _, m := range k.dlq {
			m.receives = 0
			k.queues[til] = append(k.queues[til], m)
		}
		k.dlq = nil
		k.mu.Unlock()
	}
}

// someMessage takes a message out of the queue at random.
func (k *singleWalk) someMessage(f func(message)) {
	k.mu.Lock()
	list := k.queues[til]
	if len(list) == 0 {
		k.mu.Unlock()
		return
	}
	i := k.r.IntN(len(list))
	m := list[i]
	k.queues[til] = append(list[:i:i], list[i+1:]...)
	k.mu.Unlock()
	f(m)
}

// request asks for a job; every other time with one of a few keys, each of which belongs to a target.
func (k *singleWalk) request(a *actor) {
	target := walkTargets[k.r.IntN(len(walkTargets))]
	r := job.Request{Opening: opening(target), RequestedBy: "web"}
	key := ""
	if k.r.IntN(2) == 0 {
		key = fmt.Sprint(target, k.r.IntN(3), now().Format("/2006-01-02")) // within a day, and so within the retention
		r.Idempotency = &job.Idempotency{Caller: "web", Key: key, Digest: "of " + target}
	}
	res, err := dispatch.NewDispatcher(k.env(a.hook), k.til).Open(a.ctx, r)
	k.expect(err)
	var active *job.ActiveError
	if errors.As(err, &active) && active.Job.Slot != r.Slot {
		k.t.Errorf("slot %s is held by a job of slot %s", r.Slot, active.Job.Slot)
	}
	var unsent *queue.Unsent
	if key == "" || err != nil && !errors.As(err, &unsent) {
		return
	}
	if was, ok := k.keys[key]; ok && was != res.Job.ID {
		k.t.Errorf("key %s opened %s and then %s", key, was, res.Job.ID)
	}
	k.keys[key] = res.Job.ID
}

// expect takes the errors that a fault or another process explains.
func (k *singleWalk) expect(err error) {
	var active *job.ActiveError
	var busy *store.Busy
	var unsent *queue.Unsent
	if err != nil && !errors.As(err, &active) && !errors.As(err, &busy) && !errors.As(err, &unsent) && !errors.Is(err, sim.ErrNoAnswer) && !errors.Is(err, sim.ErrKilled) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, job.ErrOver) && !strings.Contains(err.Error(), "time ran out") {
		k.t.Errorf("an error that nothing explains: %v", err)
	}
}

// check reads the whole store: the invariants, that a job that is over has not changed, no attempt went back, and the text of a target is of the job that completed last.
func (k *singleWalk) check() {
	k.sound()
	newest := map[string]job.Job{}
	jobs, _, err := k.jobs.List(k.t.Context(), once.Kind(til), now(), 0, "")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, j := range jobs {
		was, ok := k.known[j.ID]
		if ok && !was.State.Active() {
			same(k.t, "I5: a job that is over", j, was)
		}
		if j.Attempt < was.Attempt {
			k.t.Errorf("job %s went from attempt %d to %d", j.ID, was.Attempt, j.Attempt)
		}
		k.known[j.ID] = j
		if n := newest[j.Scope]; j.State == job.Completed && j.FinishedAt.After(n.FinishedAt) {
			newest[j.Scope] = j
		}
	}
	for target, j := range newest {
		items, err := k.store.Get(k.t.Context(), rowKey(target))
		if err != nil {
			k.t.Fatal(err)
		}
		if got := items[0].Attrs["text"]; got != j.ID {
			k.t.Errorf("the text of %s is of %v, want it of %s, which completed last", target, got, j.ID)
		}
	}
}
