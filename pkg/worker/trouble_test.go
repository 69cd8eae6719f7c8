package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// A shard that can never take a count is not one that is closed: nothing was written, the job runs, and the messages come again.
func TestAShardThatCannotCountIsNotClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2")
	j := w.fire(april, 100)
	set := func(applied any) {
		t.Helper()
		for n := range job.Shards {
			key := store.Key{Table: job.Table, PK: fmt.Sprintf("TALLY#%s#%03d", j.ID, n), SK: "TALLY"}
			if err := w.store.Transact(t.Context(), store.Update(key, store.Attrs{"applied": applied}, nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("x")
	equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...), ids(0, 1))
	equal(t, "entry", string(w.state("member-1")), "")
	set(0)
	equal(t, "handed back when repaired", w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...), ids())
}

// The store stops answering in the middle of a delivery, and one of its calls takes all its attempts of 5 s each: the worker answers before it is cut off, and puts off what is not settled.
func TestAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := names("member", 98)
		w := newWorld(t, members...)
		j := w.fire(april, 100)
		hang := func(c sim.Call) (bool, error) {
			if x, ok := tryOf(c); ok && !slices.Contains(x.members, "member-000") {
				select {
				case <-c.Ctx.Done():
				case <-time.After(41 * time.Second):
				}
				return false, sim.ErrNoAnswer
			}
			return true, nil
		}
		ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
		defer stop()
		again := w.deliverCtx(ctx, w.worker(hang), bodies(j, members...)...)
		if left := job.Left(ctx); left < 2*time.Second {
			t.Errorf("the worker left %s for its answer", left)
		}
		equal(t, "handed back", len(again), 49)
		if len(w.box.putOffs) != 1 || len(w.box.putOffs[0].receipts) != 49 || w.box.putOffs[0].delay == 0 {
			t.Errorf("put off %+v, want the 49 with a pause: the store needs it", w.box.putOffs)
		}
	})
}

// The reaper's way to give up ends in time for the reaper too.
func TestGiveUpEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "member-1")
		j := w.fire(april, 100)
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		err := w.worker(func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact {
				<-c.Ctx.Done()
				return false, sim.ErrNoAnswer
			}
			return true, nil
		}).GiveUp(ctx, j, []string{"member-1"}, job.ReasonExhausted)
		if left := job.Left(ctx); err == nil || left < 2*time.Second {
			t.Errorf("got %v with %s left", err, left)
		}
	})
}

// Failed entries are taken over in groups that fit one transaction: three writes each and the shard.
func TestATakeOverFitsATransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cast := map[row][]string{failedBefore: names("member", 2*ledger.MaxTakeOver)}
	j := stage(t, w, cast)
	r := &recorder{}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, cast[failedBefore]...)...), ids())
	sizes := r.sizes()
	slices.Sort(sizes)
	// First all are tried as new ones, then all are taken over; nobody goes alone.
	equal(t, "sizes", sizes, []int{2*ledger.MaxTakeOver - ledger.MaxGroup, ledger.MaxTakeOver, ledger.MaxTakeOver, ledger.MaxGroup})
	verify(t, w, j, cast, wants)
}

// A worker that was told that the job is over does not try to close it.
func TestAFencedWorkerClosesNothing(t *testing.T) {
	t.Parallel()
	members := names("member", 60)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	var cancelled atomic.Bool
	reads := 0
	b := w.worker(func(c sim.Call) (bool, error) {
		if c.Op == sim.Get {
			reads++
		}
		if _, ok := tryOf(c); ok && cancelled.CompareAndSwap(false, true) {
			w.cancel(j)
		}
		return true, nil
	})
	equal(t, "handed back", w.deliver(b, bodies(j, members[:40]...)...), ids())
	equal(t, "reads: the job at the start", reads, 1)
}

// An entry that was damaged, or edited by hand, is settled as a failure with a reason and said loudly. It is granted nothing, whatever came before, and holds up nobody.
func TestAnEntryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]store.Attrs{
		"illegible":      {"state": int64(1)},
		"unknown state":  {"state": "granted", "digest": "?", "jobId": "?"},
		"nothing at all": {},
	} {
		for _, giveUp := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, give up %v", name, giveUp), func(t *testing.T) {
				t.Parallel()
				members := names("member", 60)
				w := newWorld(t, members...)
				w.spoilt = true
				j := w.fire(april, 100)
				key := store.Key{Table: monthlypoint.Table, PK: members[5], SK: "monthly-point:2024-04:" + members[5]}
				if err := w.store.Transact(t.Context(), store.Put(key, damage)); err != nil {
					t.Fatal(err)
				}
				want := map[string]int64{job.ReasonConflictingEntry: 1}
				if giveUp {
					if err := w.worker(nil).GiveUp(t.Context(), j, members, job.ReasonExhausted); err != nil {
						t.Fatal(err)
					}
					want[job.ReasonExhausted] = 59
					if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
						t.Fatal(closed, err)
					}
				} else {
					equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
				}
				equal(t, "failures", w.reasons(j), want)
				equal(t, "job", w.job(j.ID).State, job.Completed)
				items, err := w.store.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "the entry", items[0].Attrs, damage)
				if !strings.Contains(w.logs.String(), `"level":"ERROR","msg":"entry cannot be read`) {
					t.Error("nothing was logged")
				}
				if err := w.store.Transact(t.Context(), store.Delete(key)); err != nil { // the test looks at every entry at its end
					t.Fatal(err)
				}
			})
		}
	}
}

// An entry of this very job whose state was damaged afterwards is counted already: a late copy of its message is acknowledged, and does not count it a second time.
func TestADamagedEntryIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2")
	w.spoilt = true
	j := w.fire(april, 100)
	equal(t, "first", w.deliver(w.worker(nil), bodies(j, "member-1")...), ids())
	key := store.Key{Table: monthlypoint.Table, PK: "member-1", SK: "monthly-point:2024-04:member-1"}
	set := func(state any) {
		t.Helper()
		if err := w.store.Transact(t.Context(), store.Update(key, store.Attrs{"state": state}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, damage := range []any{"?", 1} {
		set(damage)
		equal(t, "again", w.deliver(w.worker(nil), bodies(j, "member-1")...), ids())
		equal(t, "counts", w.counts(j), job.Counts{Applied: 1})
	}
	equal(t, "the other", w.deliver(w.worker(nil), bodies(j, "member-2")...), ids())
	equal(t, "job", w.job(j.ID).State, job.Completed)
	set("applied")
}
