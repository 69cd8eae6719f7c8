package worker_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// together makes hooks that let so many transactions on the ledger meet before any of them happens; only the first of each hook waits.
func together(n int) func() sim.Hook {
	var meet sync.WaitGroup
	meet.Add(n)
	return func() sim.Hook {
		var once sync.Once
		return func(c sim.Call) (bool, error) {
			if _, ok := tryOf(c); ok {
				once.Do(func() {
					meet.Done()
					meet.Wait()
				})
			}
			return true, nil
		}
	}
}

// parallel runs them at once and waits.
func parallel(f ...func()) {
	var wg sync.WaitGroup
	for _, f := range f {
		wg.Go(f)
	}
	wg.Wait()
}

// Two workers that have both read everything before either writes: one applies, the other sees its entry. SQS-02
func TestTwoWorkersOnTheSameMessages(t *testing.T) {
	t.Parallel()
	members := names("member", 49)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	hook := together(2)
	deliver := func() { equal(t, "handed back", w.deliver(w.worker(hook()), bodies(j, members...)...), ids()) }
	parallel(deliver, deliver)
	equal(t, "counts", w.counts(j), job.Counts{Applied: 49})
	equal(t, "balance", w.balance("member-007"), int64(100))
	if n := strings.Count(w.logs.String(), "job completed"); n != 1 {
		t.Errorf("completed %d times, want once", n)
	}
}

// Grants of two months for one member that overlap: both amounts arrive. TXN-13
func TestTwoMonthsOfOneMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	march, now := w.fire(april.AddDate(0, 0, -31), 100), w.fire(april, 100)
	hook := together(2)
	deliver := func(j job.Job) func() {
		return func() { equal(t, "handed back", w.deliver(w.worker(hook()), bodies(j, "member-42")...), ids()) }
	}
	parallel(deliver(march), deliver(now))
	equal(t, "balance", w.balance("member-42"), int64(200))
	equal(t, "entries", len(w.history("member-42").Entries), 2)
}

// Sixteen workers on one job, a third of whose transactions meet a conflict on the shard or throttling, with every message delivered twice: counts are exact. TXN-17, JOB-13
func TestManyBusyWorkers(t *testing.T) {
	t.Parallel()
	const workers, batch = 16, 30
	members := names("member", workers*batch)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	var deliveries []func()
	for i := range workers {
		var mu sync.Mutex
		n := 0
		b := w.worker(func(c sim.Call) (bool, error) {
			x, ok := tryOf(c)
			if !ok {
				return true, nil
			}
			mu.Lock()
			defer mu.Unlock()
			n++
			switch n % 6 {
			case 1:
				return false, &store.Busy{Reason: "ThrottlingError"}
			case 4:
				return false, &store.Busy{Conflicts: []int{x.at}, Reason: "TransactionConflict"}
			}
			return true, nil
		})
		mine := members[i*batch : (i+1)*batch]
		next := members[(i+1)%workers*batch:][:batch]
		deliveries = append(deliveries, func() {
			equal(t, "handed back", w.deliver(b, bodies(j, mine...)...), ids())
			c := w.counts(j)
			if c.Settled() > int64(len(members)) {
				t.Errorf("%+v settled of %d", c, len(members))
			}
			equal(t, "handed back", w.deliver(b, bodies(j, next...)...), ids())
		})
	}
	parallel(deliveries...)
	equal(t, "counts", w.counts(j), job.Counts{Applied: workers * batch})
	equal(t, "job", w.job(j.ID).State, job.Completed)
}

// A chunk that comes again after a crash between its work and the answer is counted once: the count is part of the work. JOB-13
func TestChunkTwice(t *testing.T) {
	t.Parallel()
	members := names("member", 200)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	applied := int64(0)
	for chunk := range slices.Chunk(members, 50) {
		crashed := w.worker(func(c sim.Call) (bool, error) {
			if x, ok := tryOf(c); ok && slices.Contains(x.members, "member-100") {
				return true, fmt.Errorf("killed behind the write")
			}
			return true, nil
		})
		w.deliver(crashed, bodies(j, chunk...)...) // the answer is never seen
		equal(t, "again", w.deliver(w.worker(nil), bodies(j, chunk...)...), ids())
		applied += 50
		equal(t, "counts", w.counts(j), job.Counts{Applied: applied})
	}
	equal(t, "job", w.job(j.ID).State, job.Completed)
}

// The last two chunks finish together, and come again later: the job completes once. JOB-14
func TestCompletesOnce(t *testing.T) {
	t.Parallel()
	members := names("member", 98)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	hook := together(2)
	deliver := func(b *worker.Bulk, m ...string) func() {
		return func() { equal(t, "handed back", w.deliver(b, bodies(j, m...)...), ids()) }
	}
	parallel(deliver(w.worker(hook()), members[:49]...), deliver(w.worker(hook()), members[49:]...))
	done := w.job(j.ID)
	equal(t, "job", done.State, job.Completed)
	equal(t, "total and counts", []int64{done.Total, done.Applied, done.Already, done.Failed}, []int64{98, 98, 0, 0})

	w.later(2 * time.Minute)
	deliver(w.worker(nil), members...)()
	equal(t, "finished at", w.job(j.ID).FinishedAt, done.FinishedAt)
	if n := strings.Count(w.logs.String(), "job completed"); n != 1 {
		t.Errorf("completed %d times, want once", n)
	}
	if _, held, err := w.jobs.Holder(t.Context(), j.Slot); held || err != nil {
		t.Errorf("the slot is held: %v, %v", held, err)
	}
}

// Two jobs cannot be open at once, but the messages of a cancelled one may still be about while its successor runs: each member is granted once, by one of them.
func TestSuccessorOfACancelledJob(t *testing.T) {
	t.Parallel()
	members := names("member", 98)
	w := newWorld(t, members...)
	first := w.fire(april, 100)
	equal(t, "first", w.deliver(w.worker(nil), bodies(first, members[:60]...)...), ids())
	w.cancel(first)
	second := w.run(100)
	parallel(
		func() { equal(t, "late", w.deliver(w.worker(nil), bodies(first, members...)...), ids()) },
		func() { equal(t, "second", w.deliver(w.worker(nil), bodies(second, members...)...), ids()) },
	)
	equal(t, "counts of the first", w.counts(first), job.Counts{Applied: 60})
	equal(t, "counts of the second", w.counts(second), job.Counts{Applied: 38, Already: 60})
	for _, m := range members {
		if w.balance(m) != 100 || w.state(m) != ledger.Applied {
			t.Errorf("%s has %d points, entry %q", m, w.balance(m), w.state(m))
		}
	}
}
