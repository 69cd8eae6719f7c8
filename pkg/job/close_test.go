package job_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// JOB-15: a job is over when its subjects are settled, the failed ones included, and not before.
func TestCloseWaitsForEverySubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.open(t)
	still := func(what string) {
		t.Helper()
		w.unchanged(t, "a close while "+what, func() {
			if closed, err := w.jobs.Close(t.Context(), j.ID); closed || err != nil {
				t.Errorf("closed %v, %v while %s", closed, err, what)
			}
		})
	}
	still("it is PENDING")
	j, _ = w.jobs.Start(t.Context(), j)
	still("nothing is listed, though 0 of 0 are settled")
	ten := subjects(10)
	j = w.list(t, j, ten...)
	still("nobody is settled")
	w.settle(t, j, "", ten[:6]...)
	w.settle(t, j, job.ReasonInvalid, ten[6:9]...)
	still("one is missing")
	w.settle(t, j, "", ten[9])
	w.later(time.Minute)
	if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Fatal(closed, err)
	}
	now := w.find(t, j.ID)
	if now.State != job.Completed || now.Applied != 0 || now.Already != 7 || now.Failed != 3 || now.Total != 10 || !now.FinishedAt.Equal(w.now) {
		t.Errorf("job %+v, want COMPLETED, 7 already and 3 failed of 10", now)
	}
	if got := w.holder(t); got != "" {
		t.Errorf("slot held by %s, want it free", got)
	}
	if got := w.period(t).ClosedBy; got != "" {
		t.Errorf("period closed by %s, though 3 failed", got)
	}
	reasons, err := w.jobs.FailuresByReason(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "reasons", reasons, map[string]int64{job.ReasonInvalid: 3})
	w.later(time.Minute)
	still("it is COMPLETED")
}

// Fan-out and workers may end in either order, and there may be nobody at all.
func TestAnEmptyJobCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t))
	if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Fatal(closed, err)
	}
	if got := w.period(t).ClosedBy; got != j.ID {
		t.Errorf("period closed by %q, want %s", got, j.ID)
	}
}

// JOB-14: two that finish together make one transition; what comes later changes nothing, and finishedAt is written once.
func TestTwoClosesMakeOneTransition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	first := w.now
	slow := w.through(onTransact(1, func(sim.Call) (bool, error) { // it has read everything, and another is first
		if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
			t.Error(closed, err)
		}
		w.later(2 * time.Minute)
		return true, nil
	}))
	if closed, err := slow.Close(t.Context(), j.ID); closed || err != nil {
		t.Errorf("the second close: %v, %v; want a lost race, which is no error", closed, err)
	}
	if now := w.find(t, j.ID); !now.FinishedAt.Equal(first) {
		t.Errorf("finished at %s, want %s", now.FinishedAt, first)
	}

	w = newWorld(t)
	j = w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			closed, err := w.jobs.Close(t.Context(), j.ID)
			if err != nil {
				t.Error(err)
			}
			if closed {
				n.Add(1)
			}
		})
	}
	wg.Wait()
	if n.Load() != 1 {
		t.Errorf("%d of 16 closed the job, want 1", n.Load())
	}
}

func TestALostAnswerOfACloseIsHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	if closed, err := w.through(onTransact(1, lost)).Close(t.Context(), j.ID); closed || !errors.Is(err, sim.ErrNoAnswer) {
		t.Errorf("got %v, %v; want the unknown error", closed, err)
	}
	next := w.open(t)
	w.unchanged(t, "a repeated close", func() {
		if closed, err := w.jobs.Close(t.Context(), j.ID); closed || err != nil {
			t.Error(closed, err)
		}
	})
	if got := w.holder(t); got != next.ID {
		t.Errorf("slot held by %q, want the next job %s", got, next.ID)
	}
}

// A period is closed by the first job over all its subjects without a failure, and stays closed by it.
func TestAPeriodIsClosedOnceAndForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := func(reason string) string {
		j := w.list(t, w.start(t), "a")
		w.settle(t, j, reason, "a")
		if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
			t.Fatal(closed, err)
		}
		return j.ID
	}
	run(job.ReasonExhausted)
	if got := w.period(t).ClosedBy; got != "" {
		t.Errorf("closed by %s with a failure", got)
	}
	second := run("")
	for _, reason := range []string{"", job.ReasonConflictingEntry} {
		last := run(reason)
		same(t, "period", w.period(t), job.Period{Inputs: inputs, LastJob: last, ClosedBy: second})
	}
}

// EndingCond: an accepted cancel is not overtaken by a close that read the job before.
func TestACloseThatReadBeforeTheMarkIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	slow := w.through(onTransact(1, func(sim.Call) (bool, error) {
		if _, _, err := w.through(onTransact(1, lost)).Cancel(t.Context(), j.ID); !errors.Is(err, sim.ErrNoAnswer) {
			t.Error(err)
		}
		return true, nil
	}))
	if closed, err := slow.Close(t.Context(), j.ID); closed || err != nil {
		t.Errorf("got %v, %v", closed, err)
	}
	if now := w.find(t, j.ID); now.State != job.Running || now.Ending != job.Cancelled {
		t.Fatalf("job is %s %s, want RUNNING and ending", now.State, now.Ending)
	}
	w.unchanged(t, "a close of an ending job", func() {
		if closed, err := w.jobs.Close(t.Context(), j.ID); closed || err != nil {
			t.Error(closed, err)
		}
	})
	w.cancel(t, j.ID)
}

// SlotOurs: an end frees its own slot or nothing. A job without it is reported, never skipped.
func TestAnEndWithoutItsSlotIsReported(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]store.Write{
		"another's": store.Update(job.SlotKey(slot), store.Attrs{"job": "monthly-point-01HTCZP1G0ZZZZZZZZZZZZZZZZ"}, nil), "free": store.Delete(job.SlotKey(slot)),
	} {
		w := newWorld(t)
		j := w.list(t, w.start(t), "a")
		w.settle(t, j, "", "a")
		w.transact(t, damage)
		w.unchanged(t, "a close while the slot is "+name, func() {
			if closed, err := w.jobs.Close(t.Context(), j.ID); closed || err == nil {
				t.Errorf("slot %s: closed %v, error %v; want an error", name, closed, err)
			}
		})
		if _, done, err := w.jobs.Cancel(t.Context(), j.ID); done || err == nil {
			t.Errorf("slot %s: cancelled %v, error %v; want an error", name, done, err)
		}
	}
}

// A period that changes between the read and the close refuses the close; the next try closes.
func TestACloseSeesThePeriodAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t))
	jobs := w.through(onTransact(1, func(sim.Call) (bool, error) {
		w.transact(t, store.Update(job.PeriodKey(kind, april), store.Attrs{"scheduledJob": "another"}, nil))
		return true, nil
	}))
	if closed, err := jobs.Close(t.Context(), j.ID); closed || err != nil {
		t.Errorf("got %v, %v; want to try later", closed, err)
	}
	if closed, err := jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Errorf("again: %v, %v", closed, err)
	}
	same(t, "period", w.period(t), job.Period{Inputs: inputs, ScheduledJob: "another", LastJob: j.ID, ClosedBy: j.ID})
}

func TestAJobWithoutAPeriodClosesNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request()
	r.Period, r.Slot = once.Period(""), "monthly-point:list"
	j, _, err := w.jobs.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if j, err = w.jobs.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	w.list(t, j)
	if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Errorf("got %v, %v", closed, err)
	}
}
