package reaper_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
)

// JOB-03: the message of an opening is refused, or accepted and the answer lost. The caller is told, and gets the job; the reaper sends the message (again), and the job runs once.
func TestAMessageThatMayNotHaveBeenSent(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string]bool{"refused": false, "accepted, the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j, err := d.ask(func(c sim.Call) (bool, error) {
					if c.Op == sim.Send {
						return accepted, &queue.Unsent{To: til, Indexes: []int{0}, Err: errors.New("ServiceUnavailable")}
					}
					return true, nil
				}, today)
				var unsent *queue.Unsent
				if !errors.As(err, &unsent) || j.ID == "" || j.State != job.Pending {
					t.Fatalf("got %+v, %v; want the job, and *queue.Unsent", j, err)
				}
				d.ends(j, job.Pending, "", 0)
				var active *job.ActiveError
				if _, err := d.ask(nil, today); !errors.As(err, &active) || active.Job.ID != j.ID {
					t.Errorf("a second request: %v, want *ActiveError", err)
				}
				waiting := d.waiting(til)
				time.Sleep(reaper.Unsent + reaper.Margin)
				d.unchanged(j, d.reap) // within the margin
				time.Sleep(time.Second)
				d.reap()
				same(t, "messages", d.waiting(til), waiting+1)
				d.unchanged(j, d.reap) // at once: the pause has doubled
				d.work(nil)
				d.ends(j, job.Completed, "", 1)
				same(t, "calls", d.til.called(j), 1)
				if next, err := d.ask(nil, today); err != nil || next.ID == j.ID {
					t.Errorf("a later request: %s, %v", next.ID, err)
				}
			})
		})
	}
}

// A job whose message nobody takes is sent again with doubling pauses for hours, then FAILED never-started. The slot is free, and a copy that comes after all makes no call.
func TestASingleJobThatNeverStartsFails(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open()
		var copies []message
		var at []time.Duration
		for begun := time.Now(); d.find(j.ID).State == job.Pending; {
			if time.Since(begun) > reaper.NeverStarted+time.Hour {
				t.Fatal("no end")
			}
			if sent := d.take(til); len(sent) > 0 {
				copies = append(copies, sent...)
				at = append(at, time.Since(begun).Round(time.Minute))
			}
			d.reapFor(time.Minute)
		}
		minutes := func(m ...int) (out []time.Duration) {
			for _, n := range m {
				out = append(out, time.Duration(n)*time.Minute)
			}
			return out
		}
		// Pauses of 2, 4, 8 minutes and so on, each up to a minute longer: for the margin and until the next run.
		same(t, "sent after", at, minutes(0, 3, 8, 17, 34, 67, 132, 261))
		d.ends(j, job.Failed, job.ReasonNeverStarted, 0)
		next := d.open()
		d.queues[til] = append(d.queues[til], copies...)
		d.work(nil)
		same(t, "calls of the job that is over", d.til.called(j), 0)
		d.ends(next, job.Completed, "", 1)
	})
}

// A job that fails once and whose message is then lost for good ends as orphaned after hours: it had been started.
func TestASingleJobWhoseNextAttemptNobodyTakes(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open()
		d.til.result = func(context.Context, job.Job) ([]once.Effect, error) {
			return nil, job.Later("busy", 10*time.Minute, errors.New("no"))
		}
		d.work(nil)
		d.take(til)
		d.reapFor(12 * time.Minute) // the pause and two minutes
		same(t, "messages", d.waiting(til), 0)
		d.reapFor(time.Minute)
		same(t, "messages", d.waiting(til), 1)
		for range 6*60 - 3 + 1 {
			d.reapFor(time.Minute)
			d.take(til)
		}
		d.ends(j, job.Failed, job.ReasonOrphaned, 1)
		same(t, "last error", d.find(j.ID).LastError, "busy")
	})
}

// TTL-03: a worker dies right after its claim. Before the lease has run out a copy of the message makes no call and uses up no receives; after it the job is handed on and finished.
func TestAWorkerThatDies(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open()
		d.die(1, true)
		d.ends(j, job.Running, "", 1)
		same(t, "calls", d.til.called(j), 0)
		time.Sleep(10 * time.Second)
		d.work(nil)
		same(t, "calls", d.til.called(j), 0)
		same(t, "messages", d.waiting(til), 0)
		time.Sleep(job.Lease - 10*time.Second + reaper.Margin)
		d.unchanged(j, d.reap)
		time.Sleep(time.Second)
		d.reap()
		d.ends(j, job.Pending, "", 1)
		same(t, "last error", d.find(j.ID).LastError, "lease-expired")
		same(t, "messages", d.bodies(), []string{j.ID})
		d.work(nil)
		d.ends(j, job.Completed, "", 2)
		same(t, "calls", d.til.called(j), 1)
	})
}

// JOB-04, TTL-03: workers that die in every attempt, before or behind what they would write, end the job as orphaned with a free slot. Nobody lends a hand.
func TestWorkersThatAlwaysDie(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		transaction int
		happens     bool
		calls       int
	}{
		"behind the claim":      {1, true, 0},
		"before the completion": {2, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open()
				for range 20 {
					d.die(tt.transaction, tt.happens)
					d.reapFor(time.Minute)
				}
				d.ends(j, job.Failed, job.ReasonOrphaned, 3)
				same(t, "last error", d.find(j.ID).LastError, "lease-expired")
				same(t, "calls", d.til.called(j), tt.calls)
				same(t, "messages in the DLQ", len(d.dlq), 0)
				d.work(nil) // what is left in the queue
				same(t, "calls", d.til.called(j), tt.calls)
				d.open()
			})
		})
	}
}

// A worker that dies behind its completion has completed.
func TestAWorkerThatDiesBehindItsCompletion(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open()
		d.die(2, true)
		d.ends(j, job.Completed, "", 1)
		d.reapFor(5 * time.Minute)
		d.work(nil)
		same(t, "calls", d.til.called(j), 1)
	})
}

// JOB-05, JOB-09: a worker that is slow and alive, for ten minutes in one call, is left alone by a reaper that runs each minute.
func TestASlowWorkerIsLeftAlone(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open()
		d.til.result = func(context.Context, job.Job) ([]once.Effect, error) {
			d.reapFor(10 * time.Minute)
			return nil, nil
		}
		m := d.take(til)
		d.deliver(newSingle(d, nil), m...)
		d.ends(j, job.Completed, "", 1)
		got := d.find(j.ID)
		if took := got.FinishedAt.Sub(got.StartedAt); took != 10*time.Minute || got.Resends != 0 || got.LastError != "" || d.waiting(til) > 0 {
			t.Errorf("took %v, sent again %d times, last error %q, %d messages", took, got.Resends, got.LastError, d.waiting(til))
		}
		if d.says("reaper acted") {
			t.Error("the reaper acted")
		}
	})
}

// JOB-06: the reaper has read a job, and before it writes the job moves: by a completion, a release, a cancel, a renewal, a new attempt. What it writes is refused, and it sends no message.
func TestAReaperThatIsPaused(t *testing.T) {
	t.Parallel()
	requeued := func(t *testing.T, d *desk, c *job.Claim) *job.Claim {
		if ok, err := d.jobs.Requeue(t.Context(), d.find(c.Job().ID)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return d.claim(c.Job())
	}
	moves := map[string]func(*testing.T, *desk, *job.Claim){
		"renewed": func(t *testing.T, _ *desk, c *job.Claim) {
			if _, err := c.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"completed": func(_ *testing.T, d *desk, c *job.Claim) { d.publish(c) },
		"failed": func(t *testing.T, _ *desk, c *job.Claim) {
			if err := c.Fail(t.Context(), "refused"); err != nil {
				t.Fatal(err)
			}
		},
		"cancelled": func(_ *testing.T, d *desk, c *job.Claim) { d.cancel(c.Job()) },
		"released": func(t *testing.T, _ *desk, c *job.Claim) {
			if _, err := c.Release(t.Context(), "busy", time.Minute); err != nil {
				t.Fatal(err)
			}
		},
	}
	for attempt, acts := range map[int]string{1: "hands on", 3: "gives up"} {
		for name, move := range moves {
			t.Run(acts+" what was "+name, func(t *testing.T) {
				t.Parallel()
				atDesk(t, func(t *testing.T, d *desk) {
					c := d.claim(d.open())
					for range attempt - 1 {
						c = requeued(t, d, c)
					}
					d.take(til)
					time.Sleep(job.Lease + reaper.Margin + time.Second)
					d.pausedReaper(t, c.Job(), func() { move(t, d, c) })
				})
			})
		}
	}
	t.Run("hands on what was handed on and claimed again", func(t *testing.T) {
		t.Parallel()
		atDesk(t, func(t *testing.T, d *desk) {
			c := d.claim(d.open())
			d.take(til)
			time.Sleep(job.Lease + reaper.Margin + time.Second)
			d.pausedReaper(t, c.Job(), func() { requeued(t, d, c) })
		})
	})
	for name, wait := range map[string]time.Duration{"sends again": reaper.Unsent + reaper.Margin + time.Second, "gives up": reaper.NeverStarted + reaper.Margin + time.Second} {
		for moved, move := range map[string]func(*desk, job.Job){
			"claimed":   func(d *desk, j job.Job) { d.claim(j) },
			"cancelled": func(d *desk, j job.Job) { d.cancel(j) },
			"completed": func(d *desk, j job.Job) { d.publish(d.claim(j)) },
		} {
			t.Run(name+" what waited and was "+moved, func(t *testing.T) {
				t.Parallel()
				atDesk(t, func(t *testing.T, d *desk) {
					j := d.open()
					d.take(til)
					time.Sleep(wait)
					d.pausedReaper(t, j, func() { move(d, j) })
				})
			})
		}
	}
}

// pausedReaper is a run of a reaper in which something happens before its first transaction. It must change nothing of what then stands.
func (d *desk) pausedReaper(t *testing.T, j job.Job, meanwhile func()) {
	t.Helper()
	reached := false
	var then job.Job
	err := d.reaper(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.N == 1 {
			reached = true
			meanwhile()
			then = d.find(j.ID)
		}
		return true, nil
	}).Handle(t.Context())
	if err != nil || !reached {
		t.Fatalf("reached its transaction: %v, %v", reached, err)
	}
	same(t, "job", d.find(j.ID), then)
	same(t, "messages", d.bodies(), []string(nil))
}

// Two reapers at the same moment that have seen the same: one acts, and one message is sent.
func TestTwoReapersOnASingleJob(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		claimed int
		wait    time.Duration
		state   job.State
		sent    int
	}{
		"send again": {0, reaper.Unsent + reaper.Margin + time.Second, job.Pending, 1},
		"hand on":    {1, job.Lease + reaper.Margin + time.Second, job.Pending, 1},
		"give up":    {3, job.Lease + reaper.Margin + time.Second, job.Failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open()
				d.take(til)
				for n := range tt.claimed {
					c := d.claim(j)
					if n < tt.claimed-1 {
						if _, err := c.Release(t.Context(), "x", 0); err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(tt.wait)
				const both = 2
				var meet, over sync.WaitGroup
				meet.Add(both)
				for range both {
					over.Go(func() {
						err := d.reaper(func(c sim.Call) (bool, error) {
							if c.Op == sim.Transact && c.N == 1 {
								meet.Done()
								meet.Wait()
							}
							return true, nil
						}).Handle(t.Context())
						if err != nil {
							t.Error(err)
						}
					})
				}
				over.Wait()
				same(t, "messages", d.waiting(til), tt.sent)
				same(t, "state", d.find(j.ID).State, tt.state)
			})
		})
	}
}

// A reaper that dies, or has no answer, between handing a job on and sending its message: the next finds the job waiting and sends it.
func TestAReaperThatDiesBeforeItSends(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]sim.Hook{
		"dies behind the write": func(c sim.Call) (bool, error) {
			if c.Op == sim.Send {
				return false, sim.ErrKilled
			}
			return true, nil
		},
		"the answer of the write is lost": func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact {
				return true, sim.ErrNoAnswer
			}
			return true, nil
		},
		"the message is accepted and lost": func(c sim.Call) (bool, error) { return c.Op != sim.Send, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open()
				d.die(1, true)
				d.take(til)
				time.Sleep(job.Lease + reaper.Margin + time.Second)
				err := d.reaper(hook).Handle(t.Context())
				if lost := strings.HasPrefix(name, "the message"); (err == nil) != lost {
					t.Errorf("got %v", err)
				}
				d.ends(j, job.Pending, "", 1)
				same(t, "messages", d.waiting(til), 0)
				d.reapFor(3 * time.Minute)
				same(t, "messages", d.bodies(), []string{j.ID})
				d.work(nil)
				d.ends(j, job.Completed, "", 2)
			})
		})
	}
}
