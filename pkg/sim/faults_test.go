package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// outcomes makes n inserts one after the other and tells how each ended: error, then whether it was written.
func outcomes(t *testing.T, f *sim.Faults, n int) (got []string) {
	t.Helper()
	inner := openStore(t)
	s := f.Store(inner)
	for i := range n {
		sk := fmt.Sprint(i)
		err := s.Transact(t.Context(), store.Insert(keyOf(sk), doc{i}))
		got = append(got, fmt.Sprint(err, " ", exists(t, inner, sk)))
	}
	return got
}

func TestFaultsFollowTheSeed(t *testing.T) {
	t.Parallel()
	c := sim.Config{Seed: 7, Fail: 0.1, Lose: 0.1, Throttle: 0.1}
	first, again := outcomes(t, sim.New(c), 200), outcomes(t, sim.New(c), 200)
	if !slices.Equal(first, again) {
		t.Errorf("the same seed gave other faults")
	}
	c.Seed = 8
	if slices.Equal(first, outcomes(t, sim.New(c), 200)) {
		t.Errorf("another seed gave the same faults")
	}
	count := map[string]int{}
	for _, o := range first {
		count[o]++
	}
	for _, want := range []string{
		"<nil> true",
		"sim: no answer false",
		"sim: no answer true",
		"store is busy: sim: throttled (conflicts on writes []) false",
	} {
		if count[want] < 5 {
			t.Errorf("%q happened %d times of 200, want it about every tenth time", want, count[want])
		}
		delete(count, want)
	}
	if len(count) > 0 {
		t.Errorf("also happened: %v", count)
	}
}

func TestStopEndsFaults(t *testing.T) {
	t.Parallel()
	f := sim.New(sim.All(1, ""))
	f.Stop()
	for i, got := range outcomes(t, f, 200) {
		if got != "<nil> true" {
			t.Fatalf("call %d after the stop: %s", i, got)
		}
	}
	if copies, late := f.Arrival("work"); copies != 1 || late != 0 {
		t.Errorf("a message after the stop: %d copies, %v late", copies, late)
	}
	if got := f.Counts(); got != (sim.Counts{}) {
		t.Errorf("counts %+v, want none", got)
	}
}

// A killed process has no effect any more: not on the store, not on the queue, whoever calls. Others live on.
func TestKilledProcessHasNoEffect(t *testing.T) {
	t.Parallel()
	f := sim.New(sim.Config{Seed: 3, Kill: 0.2})
	inner := openStore(t)
	s := f.Store(inner)
	var to sink
	q := f.Queue(&to)
	half := map[bool]int{}
	for life := range 100 {
		ctx, end := f.Invocation(t.Context())
		dead := false
		for i := range 10 {
			sk := fmt.Sprint(life, "-", i)
			err := s.Transact(ctx, store.Insert(keyOf(sk), doc{i}))
			written := exists(t, inner, sk)
			switch {
			case dead && (written || !errors.Is(err, sim.ErrKilled)):
				t.Fatalf("%s of a dead process: written %t, error %v", sk, written, err)
			case !dead && errors.Is(err, sim.ErrKilled):
				dead = true
				half[written]++
				if ctx.Err() == nil {
					t.Fatal("the context of a dead process lives")
				}
				if err := q.Send(ctx, "work", "x"); !errors.Is(err, sim.ErrKilled) {
					t.Fatalf("send of a dead process: %v", err)
				}
			case !dead && (err != nil || !written):
				t.Fatalf("%s of a live process: written %t, error %v", sk, written, err)
			}
		}
		if got := end(); got != dead {
			t.Fatalf("killed %t, want %t", got, dead)
		}
	}
	if half[true] == 0 || half[false] == 0 {
		t.Errorf("deaths by whether the last call had happened: %v, want both", half)
	}
	if len(to.bodies) > 0 {
		t.Errorf("the dead have sent %v", to.bodies)
	}
	if got := f.Counts().Killed; got != int64(half[true]+half[false]) {
		t.Errorf("counted %d, want %d", got, half[true]+half[false])
	}
	// Without an invocation there is nobody to kill.
	for i := range 100 {
		if err := s.Transact(t.Context(), store.Put(keyOf("free"), doc{i})); err != nil {
			t.Fatal(err)
		}
	}
}

// While a transaction is under way another one that touches one of its items is in conflict, and names it; others go through.
func TestOverlappingTransactionsConflict(t *testing.T) {
	t.Parallel()
	f := sim.New(sim.Config{Conflicts: true})
	at, done := make(chan struct{}), make(chan struct{})
	slow := sim.Script(openStore(t), func(c sim.Call) (bool, error) {
		if c.Touches("t/p/slow") {
			at <- struct{}{}
			<-done
		}
		return true, nil
	})
	s := f.Store(slow)
	finished := make(chan error)
	go func() {
		finished <- s.Transact(context.Background(), store.Put(keyOf("slow"), doc{1}), store.Put(keyOf("shared"), doc{1}))
	}()
	<-at
	var busy *store.Busy
	err := s.Transact(t.Context(), store.Put(keyOf("mine"), doc{2}), store.Put(keyOf("shared"), doc{2}))
	if !errors.As(err, &busy) || !slices.Equal(busy.Conflicts, []int{1}) {
		t.Errorf("overlapping: %v, want a conflict on write 1", err)
	}
	if err := s.Transact(t.Context(), store.Put(keyOf("mine"), doc{2})); err != nil {
		t.Errorf("beside it: %v", err)
	}
	close(done)
	if err := <-finished; err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := s.Transact(t.Context(), store.Put(keyOf("shared"), doc{3})); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if got := f.Counts().Conflicts; got != 1 {
		t.Errorf("counted %d conflicts, want 1", got)
	}
}

func TestArrivals(t *testing.T) {
	t.Parallel()
	f := sim.New(sim.Config{Seed: 1, Duplicate: 0.1, Delay: 0.1, Drop: sim.Drop{Queue: "work", After: 10, Count: 5}})
	var lost []int
	twice, late := 0, 0
	for i := range 1000 {
		copies, delay := f.Arrival("work")
		switch {
		case delay < 0 || delay > time.Minute || copies > 2 || copies == 2 && delay == 0:
			t.Fatalf("message %d: %d copies, %v late", i, copies, delay)
		case copies == 0:
			lost = append(lost, i)
		case copies == 2:
			twice++
		case delay > 0:
			late++
		}
	}
	if want := []int{10, 11, 12, 13, 14}; !slices.Equal(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	if twice < 60 || twice > 140 || late < 60 || late > 140 {
		t.Errorf("of 1000 messages %d came twice and %d late, want about 100 and 90", twice, late)
	}
	if copies, _ := sim.New(sim.Config{Drop: sim.Drop{Queue: "work", Count: 9}}).Arrival(queue.Segments); copies != 1 {
		t.Errorf("a message of another queue: %d copies, want 1", copies)
	}
	if got := f.Counts(); got.Dropped != 5 || got.Duplicated != int64(twice) || got.Delayed != int64(late) {
		t.Errorf("counts %+v, want 5, %d, %d", got, twice, late)
	}
}

// An unsent message is reported in the form that the contract of the queue asks for.
func TestFailedSendsNameTheirMessages(t *testing.T) {
	t.Parallel()
	var to sink
	q := sim.New(sim.Config{Fail: 1}).Queue(&to)
	var unsent *queue.Unsent
	if err := q.Send(t.Context(), "work", "a", "b"); !errors.As(err, &unsent) || !slices.Equal(unsent.Indexes, []int{0, 1}) || len(to.bodies) > 0 {
		t.Errorf("failed: %v, sent %v; want both unsent", err, to.bodies)
	}
	q = sim.New(sim.Config{Lose: 1}).Queue(&to)
	if err := q.Send(t.Context(), "work", "a", "b"); !errors.As(err, &unsent) || len(to.bodies) != 2 {
		t.Errorf("answer lost: %v, sent %v; want both reported unsent and sent", err, to.bodies)
	}
}
