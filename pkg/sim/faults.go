package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// Config says which faults happen how often. The zero value has none.
type Config struct {
	Seed uint64

	// Shares of the calls of a store or queue that handlers make, 0 to 1.
	Kill     float64 // the process dies between two calls, or in one: of those, half have happened. Everything it does afterwards has no effect
	Fail     float64 // the call does not happen and fails in a way that leaves that open
	Lose     float64 // a Transact or Send happens, and its answer is lost
	Throttle float64 // a Transact is turned away: *store.Busy without Conflicts

	Conflicts bool // a Transact that touches an item of another one under way is turned away: *store.Busy with Conflicts

	// Shares of the messages that arrive on a queue.
	Duplicate float64 // delivered twice, the second time up to a minute later
	Delay     float64 // up to a minute late, so that others overtake it

	Drop Drop
}

// Drop loses, once, a run of messages that a queue had accepted.
type Drop struct {
	Queue queue.Name // "": nothing is lost
	After int        // messages that arrive safely before
	Count int        // messages that are lost
}

// All has every fault at a rate that a run of some thousand messages survives with visible scars.
func All(seed uint64, dropFrom queue.Name) Config {
	return Config{
		Seed: seed, Kill: 0.01, Fail: 0.01, Lose: 0.02, Throttle: 0.02, Conflicts: true,
		Duplicate: 0.1, Delay: 0.1, Drop: Drop{Queue: dropFrom, After: 200, Count: 300},
	}
}

// Counts is how often each fault happened.
type Counts struct {
	Killed     int64 `json:"killed"`
	Failed     int64 `json:"failed"`
	Lost       int64 `json:"lostAnswers"`
	Throttled  int64 `json:"throttled"`
	Conflicts  int64 `json:"conflicts"`
	Duplicated int64 `json:"duplicated"`
	Delayed    int64 `json:"delayed"`
	Dropped    int64 `json:"dropped"`
}

// What the faults answer. A caller must treat both like any error it does not know: it may have happened.
var (
	ErrNoAnswer = errors.New("sim: no answer")
	ErrKilled   = errors.New("sim: the process is dead")
)

// maxDelay is the longest delay of a message: some are overtaken by the whole rest, none counts as lost.
const maxDelay = time.Minute

// Faults draws faults. Each draw is a hash of the seed and of how many draws of its series there were before, so that one seed gives one run as far as the order of
// concurrent calls allows. It fits the Faults of hanbeon/pkg/local. Safe for concurrent use.
type Faults struct {
	c       Config
	stopped atomic.Bool
	draws   [len(allSeries)]atomic.Uint64
	arrived atomic.Int64 // on the queue of Drop

	killed, failed, lost, throttled, conflicts, duplicated, delayed, dropped atomic.Int64

	mu   sync.Mutex
	held map[store.Key]bool // items of transactions under way
}

// New makes faults that happen from now on.
func New(c Config) *Faults { return &Faults{c: c, held: map[store.Key]bool{}} }

// Stop ends all faults: what is called from now on works, except in the name of processes that are dead already.
func (f *Faults) Stop() { f.stopped.Store(true) }

// Counts tells what happened so far.
func (f *Faults) Counts() Counts {
	return Counts{
		f.killed.Load(), f.failed.Load(), f.lost.Load(), f.throttled.Load(),
		f.conflicts.Load(), f.duplicated.Load(), f.delayed.Load(), f.dropped.Load(),
	}
}

// Store is the store as a process under these faults sees it.
func (f *Faults) Store(inner store.Store) store.Store { return Script(inner, f.fate) }

// Queue is the queue as a process under these faults sees it.
func (f *Faults) Queue(inner queue.Queue) queue.Queue { return ScriptQueue(inner, f.fate) }

// life is one process at work on one event.
type life struct {
	dead atomic.Bool
	end  context.CancelFunc
}

type lifeKey struct{}

// Invocation begins the life of a process at work on one event: its calls are those made with the context. end ends it and tells whether it had been killed;
// then nobody ever sees its answer.
func (f *Faults) Invocation(ctx context.Context) (alive context.Context, end func() (killed bool)) {
	ctx, cancel := context.WithCancel(ctx)
	l := &life{end: cancel}
	return context.WithValue(ctx, lifeKey{}, l), func() bool {
		cancel()
		return l.dead.Load()
	}
}

// Arrival decides what becomes of a message that a queue has just accepted: how many copies are delivered (0: lost), and how late the last of them.
func (f *Faults) Arrival(to queue.Name) (copies int, delay time.Duration) {
	if f.stopped.Load() {
		return 1, 0
	}
	if d := f.c.Drop; d.Queue == to {
		if n := f.arrived.Add(1); n > int64(d.After) && n <= int64(d.After)+int64(d.Count) {
			f.dropped.Add(1)
			return 0, 0
		}
	}
	switch {
	case f.draw(sortDuplicate, f.c.Duplicate):
		f.duplicated.Add(1)
		return 2, f.pause()
	case f.draw(sortDelay, f.c.Delay):
		f.delayed.Add(1)
		return 1, f.pause()
	}
	return 1, 0
}

func (f *Faults) fate(call Call) (apply bool, err error) {
	l, _ := call.Ctx.Value(lifeKey{}).(*life)
	if l != nil && l.dead.Load() {
		return false, ErrKilled
	}
	if f.stopped.Load() {
		return true, nil
	}
	if l != nil && f.draw(sortKill, f.c.Kill) {
		// Order matters: whoever sees the cancelled context must find the process dead.
		if l.dead.CompareAndSwap(false, true) {
			f.killed.Add(1)
		}
		happened := f.draw(sortHalf, 0.5)
		if happened {
			call.After(l.end)
		} else {
			l.end()
		}
		return happened, ErrKilled
	}
	writes := call.Op == Transact || call.Op == Send
	switch {
	case f.draw(sortFail, f.c.Fail):
		f.failed.Add(1)
		return false, noAnswer(call)
	case call.Op == Transact && f.draw(sortThrottle, f.c.Throttle):
		f.throttled.Add(1)
		return false, &store.Busy{Reason: "sim: throttled"}
	}
	if call.Op == Transact && f.c.Conflicts {
		if in := f.hold(call); len(in) > 0 {
			f.conflicts.Add(1)
			return false, &store.Busy{Conflicts: in, Reason: "sim: conflict"}
		}
	}
	if writes && f.draw(sortLose, f.c.Lose) {
		f.lost.Add(1)
		return true, noAnswer(call)
	}
	return true, nil
}

// noAnswer is an error that leaves open whether the call happened, in the form that the contract asks for.
func noAnswer(call Call) error {
	if call.Op != Send {
		return ErrNoAnswer
	}
	all := make([]int, len(call.Bodies))
	for i := range all {
		all[i] = i
	}
	return &queue.Unsent{To: call.Queue, Indexes: all, Err: ErrNoAnswer}
}

// hold takes the items of a transaction until it has happened, or tells which of them another one holds.
func (f *Faults) hold(call Call) (conflicts []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, k := range call.Keys {
		if f.held[k] {
			conflicts = append(conflicts, i)
		}
	}
	if len(conflicts) > 0 {
		return conflicts
	}
	for _, k := range call.Keys {
		f.held[k] = true
	}
	call.After(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, k := range call.Keys {
			delete(f.held, k)
		}
	})
	return nil
}
