package job_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// ended checks that a job is over as it should be: counts as the tally has them, every shard closed, no slot.
func (w *world) ended(t testing.TB, id string, want job.State, reason string) {
	t.Helper()
	j := w.find(t, id)
	tally := w.tally(t, j)
	if j.State != want || j.Ending != want || j.Reason != reason || j.FinishedAt.IsZero() {
		t.Errorf("job is %s %s %q, finished at %s; want %s %q", j.State, j.Ending, j.Reason, j.FinishedAt, want, reason)
	}
	if got := (job.Counts{Applied: j.Applied, Already: j.Already, Failed: j.Failed}); tally.Open != 0 || tally.Counts != got {
		t.Errorf("%d shards open, tally %+v, written into the job %+v", tally.Open, tally.Counts, got)
	}
	if got := w.holder(t); got == id {
		t.Error("the slot is still held")
	}
	if got := w.period(t).ClosedBy; got == id {
		t.Error("the period was closed")
	}
}

// JOB-19: a job that is cancelled counts and changes nothing any more, whatever was under way.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, from := range []job.State{job.Pending, job.Running} {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			opened := w.open(t)
			j := opened
			if from == job.Running {
				j, _ = w.jobs.Start(t.Context(), j)
				w.settle(t, j, "", "a", "b")
				w.settle(t, j, job.ReasonInvalid, "c")
			}
			got, done, err := w.jobs.Cancel(t.Context(), j.ID)
			if err != nil || !done || got.State != job.Cancelled {
				t.Fatalf("got %s, %v, %v", got.State, done, err)
			}
			w.ended(t, j.ID, job.Cancelled, "")
			seg, _ := w.jobs.SegmentAt(t.Context(), j, 0)
			w.unchanged(t, "what comes late", func() {
				if _, done, err := w.jobs.Cancel(t.Context(), j.ID); !done || err != nil {
					t.Errorf("a second cancel: %v, %v", done, err)
				}
				if _, done, err := w.jobs.Finish(t.Context(), j); err != nil {
					t.Errorf("a late Finish: %v, %v", done, err)
				}
				if _, done, _ := w.jobs.Fail(t.Context(), j, job.ReasonFanOut); done {
					t.Error("a cancelled job failed")
				}
				for n := range j.Shards {
					if err := w.jobs.Settle(t.Context(), j, n, job.Counts{Failed: 1}, w.jobs.SettledFailed(j, "late", "x")); !is[*store.Refused](err) {
						t.Errorf("a settlement on shard %d: %v", n, err)
					}
				}
				if over, err := w.jobs.Advance(t.Context(), j, 0, seg, job.Page{Last: true}, 3); !over || err != nil {
					t.Errorf("an advance: over %v, %v", over, err)
				}
				for _, what := range []job.Resent{job.ResentSegments, job.ResentSubjects, job.ResentMessage} {
					if ok, err := w.jobs.CountResend(t.Context(), j, what); ok || err != nil {
						t.Errorf("a re-send was counted: %v, %v", ok, err)
					}
				}
				if now, err := w.jobs.Start(t.Context(), opened); err != nil || now.State != job.Cancelled {
					t.Errorf("a start: %s, %v", now.State, err)
				}
				if closed, err := w.jobs.Close(t.Context(), j.ID); closed || err != nil {
					t.Errorf("a close: %v, %v", closed, err)
				}
			})
		})
	}
}

// JOB-22 and its like: who is over stays as it is.
func TestAJobThatIsOverCannotBeCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t))
	if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Fatal(closed, err)
	}
	failed := w.open(t)
	if _, done, err := w.jobs.Fail(t.Context(), failed, job.ReasonNeverStarted); !done || err != nil {
		t.Fatal(done, err)
	}
	w.ended(t, failed.ID, job.Failed, job.ReasonNeverStarted)
	w.unchanged(t, "cancels", func() {
		for _, id := range []string{j.ID, failed.ID} {
			if _, done, err := w.jobs.Cancel(t.Context(), id); done || !errors.Is(err, job.ErrOver) {
				t.Errorf("cancel: %v, %v; want ErrOver", done, err)
			}
		}
		if _, done, err := w.jobs.Fail(t.Context(), j, job.ReasonFanOut); done || err != nil { // as it was seen: RUNNING
			t.Errorf("fail: %v, %v", done, err)
		}
	})
}

// MarkCond: an ending once marked stays the one.
func TestTheFirstEndingWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	if _, _, err := w.through(onTransact(1, lost)).Fail(t.Context(), j, job.ReasonFanOut); !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(err)
	}
	w.unchanged(t, "a cancel of a failing job", func() {
		if _, done, err := w.jobs.Cancel(t.Context(), j.ID); done || !errors.Is(err, job.ErrOver) {
			t.Errorf("got %v, %v; want ErrOver", done, err)
		}
	})
	if now, done, err := w.jobs.Finish(t.Context(), w.find(t, j.ID)); !done || err != nil || now.State != job.Failed {
		t.Fatal(now.State, done, err)
	}
	w.ended(t, j.ID, job.Failed, job.ReasonFanOut)

	// At the latest moment: the mark of the other is set between the read and the own mark.
	j = w.start(t)
	late := w.through(onTransact(1, func(sim.Call) (bool, error) {
		if _, _, err := w.through(onTransact(1, lost)).Fail(t.Context(), j, job.ReasonFanOut); !errors.Is(err, sim.ErrNoAnswer) {
			t.Error(err)
		}
		return true, nil
	}))
	if _, done, err := late.Cancel(t.Context(), j.ID); done || !errors.Is(err, job.ErrOver) {
		t.Errorf("a late cancel: %v, %v; want ErrOver", done, err)
	}
	j = w.find(t, j.ID)
	if j.Ending != job.Failed || j.Reason != job.ReasonFanOut {
		t.Errorf("the job is coming to %s %q", j.Ending, j.Reason)
	}
	if _, done, err := w.jobs.Finish(t.Context(), j); !done || err != nil {
		t.Error(done, err)
	}
}

// A job is failed only as it was seen: one that has moved on since is left alone.
func TestFailNeedsTheJobAsItWasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending := w.open(t)
	running, _ := w.jobs.Start(t.Context(), pending)
	seg, _ := w.jobs.SegmentAt(t.Context(), running, 0)
	if over, err := w.jobs.Advance(t.Context(), running, 0, seg, job.Page{Last: true}, 0); over || err != nil {
		t.Fatal(over, err)
	}
	w.unchanged(t, "failures of a job that moved on", func() {
		for name, seen := range map[string]job.Job{"started since": pending, "a segment finished since": running} {
			if _, done, err := w.jobs.Fail(t.Context(), seen, job.ReasonFanOut); done || err != nil {
				t.Errorf("%s: %v, %v", name, done, err)
			}
		}
	})
}

// The process that ends a job dies between any two store calls, or in one whose answer never comes; another takes up what it finds. Nothing is lost and nothing happens twice.
func TestAnEndingSurvivesACrashAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, ending := range []job.State{job.Cancelled, job.Failed} {
		for _, applied := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, the last call happened: %v", ending, applied), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				for n := 1; ; n++ {
					if n > 200 {
						t.Fatal("no end")
					}
					if n > 6 && n < 30 { // the shards are all alike
						n += 5
					}
					j := w.start(t)
					w.settle(t, j, "", "a", "b")
					ctx, die := context.WithCancel(t.Context())
					calls, dead := 0, false
					jobs := w.through(func(c sim.Call) (bool, error) {
						if calls++; calls < n {
							return true, nil
						}
						first := !dead
						dead = true
						if first && applied {
							c.After(die)
							return true, sim.ErrKilled
						}
						die()
						return false, sim.ErrKilled
					})
					if ending == job.Cancelled {
						jobs.Cancel(ctx, j.ID)
					} else {
						jobs.Fail(ctx, j, job.ReasonFanOut)
					}
					if !dead {
						w.ended(t, j.ID, ending, w.find(t, j.ID).Reason)
						if n < job.Shards {
							t.Errorf("the whole ending took %d calls", n)
						}
						return
					}
					// Between the crash and the next, a job that is not over is active and holds its slot.
					now := w.find(t, j.ID)
					if now.State.Active() != (w.holder(t) == j.ID) {
						t.Fatalf("call %d: job is %s, slot held by %q", n, now.State, w.holder(t))
					}
					var done bool
					var err error
					switch {
					case now.Ending != "" && now.State.Active(): // as the reaper does
						_, done, err = w.jobs.Finish(t.Context(), now)
					case ending == job.Cancelled:
						_, done, err = w.jobs.Cancel(t.Context(), j.ID)
					case now.State.Active():
						_, done, err = w.jobs.Fail(t.Context(), now, job.ReasonFanOut)
					default:
						done = true
					}
					if !done || err != nil {
						t.Fatalf("call %d: taken up: %v, %v", n, done, err)
					}
					w.ended(t, j.ID, ending, w.find(t, j.ID).Reason)
					if again := w.tally(t, j); again.Already != 2 {
						t.Fatalf("call %d: tally %+v", n, again.Counts)
					}
				}
			})
		}
	}
}

// SlotOurs: a process that comes late with the last step of an ending cannot free the slot of the next job.
func TestALateEndDoesNotFreeTheNextJobsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	var next job.Job
	late := w.through(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.Touches("jobs/SLOTS#") { // its last step, at the latest moment
			w.cancel(t, j.ID)
			next = w.open(t)
		}
		return true, nil
	})
	_, done, err := late.Cancel(t.Context(), j.ID)
	if !done || err != nil {
		t.Errorf("got %v, %v; the job is cancelled", done, err)
	}
	if got := w.holder(t); next.ID == "" || got != next.ID {
		t.Errorf("slot held by %q, want the next job %q", got, next.ID)
	}
	if now := w.find(t, next.ID); now.State != job.Pending {
		t.Errorf("the next job is %s", now.State)
	}
}

// Every transaction's answer is lost once: the caller repeats, and it comes to an end.
func TestCancelSurvivesLostAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	seen := map[string]int{}
	jobs := w.through(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact {
			if seen[c.Keys[0].String()]++; seen[c.Keys[0].String()]%2 == 1 {
				return true, sim.ErrNoAnswer
			}
		}
		return true, nil
	})
	for try := 1; ; try++ {
		_, done, err := jobs.Cancel(t.Context(), j.ID)
		if done && err == nil {
			break
		}
		if try == 5 {
			t.Fatalf("not cancelled after %d tries: %v", try, err)
		}
	}
	w.ended(t, j.ID, job.Cancelled, "")
}

// The end comes under 16 busy workers whose transactions conflict with it; afterwards nothing is counted, and what was counted before is exact.
func TestCancelComesToAnEndUnderBusyWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	faults := sim.New(sim.Config{Conflicts: true})
	jobs := job.NewStore(faults.Store(w.Store), w.clock)
	var counted atomic.Int64
	var wg sync.WaitGroup
	begun := make(chan struct{}, 16)
	for g := range 16 {
		wg.Go(func() {
			for n := 0; ; n++ {
				name := fmt.Sprintf("g%d-%d", g, n)
				for {
					err := jobs.Settle(t.Context(), j, (g*7+n)%j.Shards, job.Counts{Already: 1}, jobs.SettledAlready(j, name))
					if err == nil {
						counted.Add(1)
						break
					}
					if is[*store.Refused](err) {
						return // fenced
					}
					if !is[*store.Busy](err) {
						t.Error(err)
						return
					}
				}
				if n == 3 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range 16 {
		<-begun
	}
	if _, done, err := jobs.Cancel(t.Context(), j.ID); !done || err != nil {
		t.Errorf("got %v, %v", done, err)
	}
	at := w.find(t, j.ID)
	wg.Wait()
	w.ended(t, j.ID, job.Cancelled, "")
	if got := w.find(t, j.ID); got.Already != counted.Load() || at.Already != got.Already {
		t.Errorf("%d in the job, %d settled", got.Already, counted.Load())
	}
	if faults.Counts().Conflicts == 0 {
		t.Error("no transaction conflicted")
	}
}

// When time runs out the job is marked, the answer is not done, and whoever comes next finishes.
func TestCancelOutOfTimeLeavesAMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	ctx, stop := context.WithCancel(t.Context())
	jobs := w.through(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.Touches(job.ShardKey(j.ID, 5).String()) {
			stop()
			return false, &store.Busy{Reason: "a test"}
		}
		return true, nil
	})
	if _, done, err := jobs.Cancel(ctx, j.ID); done || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", done, err)
	}
	now := w.find(t, j.ID)
	if now.State != job.Running || now.Ending != job.Cancelled || w.holder(t) != j.ID {
		t.Errorf("job is %s %s, slot held by %q", now.State, now.Ending, w.holder(t))
	}
	if _, done, err := w.jobs.Finish(t.Context(), now); !done || err != nil {
		t.Error(done, err)
	}
	w.ended(t, j.ID, job.Cancelled, "")
}
