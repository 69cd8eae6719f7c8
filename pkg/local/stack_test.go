package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"hanbeon"
	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/local"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// firing is the event of April 2024 in Seoul.
var firing = json.RawMessage(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`)

func openStore(tb testing.TB) *bolt.Store {
	tb.Helper()
	s, err := bolt.Open(filepath.Join(tb.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func addMembers(tb testing.TB, s store.Store, n int) {
	tb.Helper()
	members := make([]catalog.Member, n)
	for i := range members {
		members[i] = catalog.Member{ID: fmt.Sprintf("member-%06d", i), Status: catalog.Active, JoinedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	}
	for chunk := range slices.Chunk(members, 2000) {
		if _, err := catalog.New(s).PutMembers(tb.Context(), chunk); err != nil {
			tb.Fatal(err)
		}
	}
}

// startStack runs the real template with the real handlers, with a clock that skips from 1 April 2024 00:30 in Seoul on.
func startStack(tb testing.TB, s store.Store, change func(*local.Config)) *local.Stack {
	tb.Helper()
	c := local.Config{Store: s, Template: hanbeon.Template, Skip: true, Start: time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)}
	if change != nil {
		change(&c)
	}
	stack, err := local.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stack.Start(context.WithoutCancel(tb.Context())))
	return stack
}

// settle waits until no job is active.
func settle(tb testing.TB, stack *local.Stack) {
	tb.Helper()
	jobs := job.NewStore(stack.Env().Store, stack.Env().Now)
	err := stack.Until(tb.Context(), func() (bool, error) {
		slots, err := jobs.Slots(tb.Context())
		return len(slots) == 0, err
	})
	if err != nil {
		tb.Fatalf("jobs do not come to an end: %v", err)
	}
}

func run(tb testing.TB, stack *local.Stack, period once.Period) job.Job {
	tb.Helper()
	env := stack.Env()
	d := dispatch.NewDispatcher(env, kinds.All(env.Store, stack.Zone())...)
	r, err := d.Run(tb.Context(), dispatch.Run{Kind: monthlypoint.Name, Period: period, Input: json.RawMessage(`{"amount":100}`), RequestedBy: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	settle(tb, stack)
	j, err := job.NewStore(env.Store, env.Now).Find(tb.Context(), r.Job.ID)
	if err != nil {
		tb.Fatal(err)
	}
	return j
}

func pointsOf(member string) store.Query { return store.Query{Table: monthlypoint.Table, PK: member} }

// checkGranted audits the store and wants so many entries of 100 points.
func checkGranted(tb testing.TB, stack *local.Stack, want int64) {
	tb.Helper()
	env := stack.Env()
	r, err := audit.Check(tb.Context(), env.Store, env.Now(), nil, kinds.All(env.Store, stack.Zone())...)
	if err != nil || !r.OK() {
		tb.Fatalf("audit: %v %v", err, r.Violations)
	}
	if got := r.BalanceSum["points"]; r.Entries != want || got != 100*want {
		tb.Errorf("entries %d, balances %d; want %d, %d", r.Entries, got, want, 100*want)
	}
}

func TestAFiringGrantsEverybodyOnce(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	addMembers(t, s, 3000)
	stack := startStack(t, s, nil)
	for range 2 {
		if err := stack.Fire(t.Context(), firing); err != nil {
			t.Fatal(err)
		}
		settle(t, stack)
		checkGranted(t, stack, 3000)
	}
	stats := stack.Stats()
	if stats.Duplicates != 0 || stats.Deliveries != 3000+job.Segments {
		t.Errorf("%d deliveries, %d of them duplicates; want %d, 0", stats.Deliveries, stats.Duplicates, 3000+job.Segments)
	}
	if got := float64(stats.Requests) / 3000; got > 0.35 {
		t.Errorf("%.3f SQS requests per grant, want at most 0.35", got)
	}
}

// stalling is a fault: five groups of grants are written, and every further one waits for the end of its process.
type stalling struct {
	losing
	reached chan struct{}
	n       *atomic.Int32
}

func (f stalling) Queue(inner queue.Queue) queue.Queue { return inner }

func (f stalling) Store(inner store.Store) store.Store {
	return sim.Script(inner, func(c sim.Call) (bool, error) {
		if c.Op != sim.Transact || !c.Touches("points/") {
			return true, nil
		}
		n := f.n.Add(1)
		if n <= 5 {
			return true, nil
		}
		if n == 6 {
			close(f.reached)
		}
		<-c.Ctx.Done()
		return false, c.Ctx.Err()
	})
}

// A process that ends in the middle of a run takes its queues with it. The next one sends what is unsettled at once, without waiting for the reaper.
func TestRecoverFinishesTheRunOfAnEarlierProcess(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	addMembers(t, s, 1500)
	dying := stalling{reached: make(chan struct{}), n: new(atomic.Int32)}
	first, err := local.New(local.Config{Store: s, Template: hanbeon.Template, Skip: true, Start: time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC), Faults: dying})
	if err != nil {
		t.Fatal(err)
	}
	stop := first.Start(t.Context())
	if err := first.Fire(t.Context(), firing); err != nil {
		t.Fatal(err)
	}
	<-dying.reached
	stop()
	start := first.Env().Now()
	second, err := local.New(local.Config{Store: s, Template: hanbeon.Template, Skip: true, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Start(context.WithoutCancel(t.Context())))
	settle(t, second)
	if took := second.Env().Now().Sub(start); took > 10*time.Minute {
		t.Errorf("by the clock it took %v to recover, as if somebody had waited for the reaper", took)
	}
	checkGranted(t, second, 1500)
}

// Under every fault at once runs come to an end, and then everybody has been granted once. The reaper makes good for lost messages within hours that a skipping clock jumps over.
func TestEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			addMembers(t, s, 1000)
			faults := sim.New(sim.All(seed, "monthly-point"))
			stack := startStack(t, s, func(c *local.Config) { c.Faults = faults })
			if err := stack.Fire(t.Context(), firing); err != nil {
				t.Log("firing: ", err) // all three tries may fail; the run below opens the period
			}
			settle(t, stack)
			for i := 0; ; i++ {
				j := run(t, stack, "2024-04")
				if j.State == job.Completed && j.Applied == 0 {
					break
				}
				if i == 20 {
					t.Fatalf("run %d still applies something: %+v", i, j)
				}
			}
			faults.Stop()
			checkGranted(t, stack, 1000)
			c := faults.Counts()
			if c.Killed == 0 || c.Failed == 0 || c.Lost == 0 || c.Throttled == 0 || c.Duplicated == 0 || c.Delayed == 0 || c.Dropped == 0 {
				t.Errorf("not every fault happened: %+v", c)
			}
		})
	}
}
