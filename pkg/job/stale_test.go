package job_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// claimCalls are the calls that a claim accepts. Each is the whole work of a worker that does not know what has happened meanwhile.
var claimCalls = map[string]func(context.Context, *job.Claim) error{
	"Renew": func(ctx context.Context, c *job.Claim) error {
		_, err := c.Renew(ctx)
		return err
	},
	"Complete": func(ctx context.Context, c *job.Claim) error { return c.Complete(ctx, publication(target, "late")) },
	"Fail":     func(ctx context.Context, c *job.Claim) error { return c.Fail(ctx, "late") },
	"Release": func(ctx context.Context, c *job.Claim) error {
		_, err := c.Release(ctx, "late", time.Minute)
		return err
	},
}

// JOB-07, JOB-22: whoever was overtaken changes nothing any more: no lease, no result, no state, no slot, neither of its own job nor of the next.
func TestAStaleAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	reaped := func(t *testing.T, w *world, j job.Job) {
		if ok, err := w.jobs.Requeue(t.Context(), w.find(t, j.ID)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	again := func(t *testing.T, w *world, j job.Job) *job.Claim {
		reaped(t, w, j)
		return w.claimed(t, w.find(t, j.ID))
	}
	orphaned := func(t *testing.T, w *world, j job.Job) {
		if ok, err := w.jobs.Orphan(t.Context(), w.find(t, j.ID), job.ReasonOrphaned); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for name, overtake := range map[string]func(*testing.T, *world, job.Job){
		"reaped":                          reaped,
		"reaped, and in the next attempt": func(t *testing.T, w *world, j job.Job) { again(t, w, j) },
		"reaped in the last attempt":      orphaned,
		"cancelled":                       func(t *testing.T, w *world, j job.Job) { w.cancel(t, j.ID) },
		"completed by the next attempt": func(t *testing.T, w *world, j job.Job) {
			must(t, again(t, w, j).Complete(t.Context(), publication(target, "second")))
		},
		"failed by the next attempt": func(t *testing.T, w *world, j job.Job) { must(t, again(t, w, j).Fail(t.Context(), "second")) },
		"released by the next attempt": func(t *testing.T, w *world, j job.Job) {
			_, err := again(t, w, j).Release(t.Context(), "second", 0)
			must(t, err)
		},
		"cancelled in the next attempt":  func(t *testing.T, w *world, j job.Job) { again(t, w, j); w.cancel(t, j.ID) },
		"cancelled, and a next job runs": func(t *testing.T, w *world, j job.Job) { w.cancel(t, j.ID); w.claimed(t, w.opened(t, w.ask(target))) },
		"cancelled, and a next job is completed": func(t *testing.T, w *world, j job.Job) {
			w.cancel(t, j.ID)
			must(t, w.claimed(t, w.opened(t, w.ask(target))).Complete(t.Context(), publication(target, "next")))
		},
		"deleted": func(t *testing.T, w *world, j job.Job) { // after 97 days; nothing comes into being
			key, err := job.KeyOf(j.ID)
			must(t, err)
			w.cancel(t, j.ID)
			w.transact(t, store.Delete(key))
		},
	} {
		for _, last := range []bool{false, true} {
			if last && strings.Contains(name, "next attempt") {
				continue
			}
			for call, do := range claimCalls {
				t.Run(fmt.Sprint(name, " ", call, " last ", last), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					r := w.ask(target)
					if last {
						r.Attempts = 1
					}
					c := w.claimed(t, w.opened(t, r))
					w.later(time.Minute)
					overtake(t, w, c.Job())
					w.unchanged(t, call, func() {
						for range 2 {
							if err := do(t.Context(), c); !errors.Is(err, job.ErrLost) {
								t.Errorf("got %v, want ErrLost", err)
							}
						}
					})
				})
			}
		}
	}
}

// A table that was restored to an earlier moment counts its attempts anew: a worker from before the restore meets its own number again, and is told apart by its token.
func TestAClaimFromBeforeARestore(t *testing.T) {
	t.Parallel()
	for call, do := range claimCalls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.opened(t, w.ask(target))
			c := w.claimed(t, j)
			key, err := job.KeyOf(j.ID)
			must(t, err)
			w.transact(t, store.Put(key, j)) // as it was before the claim
			same(t, "attempt", w.claimed(t, j).Job().Attempt, c.Job().Attempt)
			w.unchanged(t, call, func() {
				if err := do(t.Context(), c); !errors.Is(err, job.ErrLost) {
					t.Errorf("got %v, want ErrLost", err)
				}
			})
		})
	}
}

// After a lost answer the same call again recognises what it did, and does not touch the next job that has opened and runs in the slot since.
func TestEndsAfterLostAnswers(t *testing.T) {
	t.Parallel()
	for call, do := range claimCalls {
		for _, last := range []bool{false, true} {
			for _, between := range []bool{false, true} {
				t.Run(fmt.Sprint(call, " last ", last, " between ", between), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					r := w.ask(target)
					if last {
						r.Attempts = 1
					}
					c, err := w.through(onTransact(2, lost)).Claim(t.Context(), w.opened(t, r)) // the claim is the first transaction, its end the second
					must(t, err)
					if err := do(t.Context(), c); !errors.Is(err, sim.ErrNoAnswer) {
						t.Fatalf("first: %v, want that there was no answer", err)
					}
					want := map[string]job.State{"Renew": job.Running, "Complete": job.Completed, "Fail": job.Failed, "Release": job.Pending}[call]
					if last && call == "Release" {
						want = job.Failed
					}
					same(t, "state", w.find(t, r.ID).State, want)
					if between && !want.Active() {
						w.claimed(t, w.opened(t, w.ask(target)))
					}
					w.unchanged(t, "the same call again", func() {
						for range 2 {
							must(t, do(t.Context(), c))
						}
					})
				})
			}
		}
	}
}

// A release that was written without an answer, and whose job was claimed by another meanwhile, is over and done with: the claim is lost.
func TestAReleaseOvertakenAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := w.through(onTransact(2, lost)).Claim(t.Context(), w.opened(t, w.ask(target)))
	must(t, err)
	if _, err := c.Release(t.Context(), "busy", 0); !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(err)
	}
	w.claimed(t, w.find(t, c.Job().ID))
	w.unchanged(t, "the release again", func() {
		if _, err := c.Release(t.Context(), "busy", 0); !errors.Is(err, job.ErrLost) {
			t.Error(err)
		}
	})
}

// An end whose slot is not the job's own is corruption: it is reported by every way to an end, nothing is written, and the slot of the other stays.
func TestASlotThatIsNotOurs(t *testing.T) {
	t.Parallel()
	ends := map[string]func(context.Context, *world, *job.Claim) error{
		"Cancel": func(ctx context.Context, w *world, c *job.Claim) error {
			_, _, err := w.jobs.Cancel(ctx, c.Job().ID)
			return err
		},
		"Orphan": func(ctx context.Context, w *world, c *job.Claim) error {
			_, err := w.jobs.Orphan(ctx, c.Job(), job.ReasonOrphaned)
			return err
		},
	}
	for name, do := range claimCalls {
		if name != "Renew" {
			ends[name] = func(ctx context.Context, _ *world, c *job.Claim) error { return do(ctx, c) }
		}
	}
	for name, damage := range map[string]func(slot string) store.Write{
		"gone": func(slot string) store.Write { return store.Delete(job.SlotKey(slot)) },
		"another's": func(slot string) store.Write {
			return store.Put(job.SlotKey(slot), job.Slot{Slot: slot, Job: "til-other"})
		},
		"without a name":  func(slot string) store.Write { return store.Put(job.SlotKey(slot), job.Slot{Slot: slot}) },
		"not as a slot's": func(slot string) store.Write { return store.Put(job.SlotKey(slot), store.Attrs{"x": "y"}) },
	} {
		for end, do := range ends {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				r := w.ask(target)
				r.Attempts = 1 // so that a release ends it
				c := w.claimed(t, w.opened(t, r))
				w.transact(t, damage(r.Slot))
				w.unchanged(t, end, func() {
					if err := do(t.Context(), w, c); err == nil || errors.Is(err, job.ErrLost) {
						t.Errorf("got %v, want that the table is corrupt", err)
					}
				})
			})
		}
	}
}

// JOB-06: what the reaper saw is what it acts on: a job that moved since, by its lease alone, is left alone.
func TestReapingNeedsTheJobAsItWasSeen(t *testing.T) {
	t.Parallel()
	acts := map[string]func(context.Context, *world, job.Job) (bool, error){
		"Requeue": func(ctx context.Context, w *world, j job.Job) (bool, error) { return w.jobs.Requeue(ctx, j) },
		"Orphan": func(ctx context.Context, w *world, j job.Job) (bool, error) {
			return w.jobs.Orphan(ctx, j, job.ReasonOrphaned)
		},
	}
	for name, move := range map[string]func(*testing.T, *world, *job.Claim){
		"renewed": func(t *testing.T, w *world, c *job.Claim) {
			w.later(time.Second)
			_, err := c.Renew(t.Context())
			must(t, err)
		},
		"completed": func(t *testing.T, w *world, c *job.Claim) { must(t, c.Complete(t.Context(), publication(target, "x"))) },
		"failed":    func(t *testing.T, w *world, c *job.Claim) { must(t, c.Fail(t.Context(), "x")) },
		"released":  func(t *testing.T, w *world, c *job.Claim) { _, err := c.Release(t.Context(), "x", 0); must(t, err) },
		"cancelled": func(t *testing.T, w *world, c *job.Claim) { w.cancel(t, c.Job().ID) },
		"claimed again, with a lease to the same moment": func(t *testing.T, w *world, c *job.Claim) {
			if ok, err := w.jobs.Requeue(t.Context(), c.Job()); !ok || err != nil {
				t.Fatal(ok, err)
			}
			w.claimed(t, w.find(t, c.Job().ID))
		},
		"completed, and the next job runs": func(t *testing.T, w *world, c *job.Claim) {
			must(t, c.Complete(t.Context()))
			w.claimed(t, w.opened(t, w.ask(target)))
		},
	} {
		for act, do := range acts {
			t.Run(name+" "+act, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				c := w.claimed(t, w.opened(t, w.ask(target)))
				seen := w.find(t, c.Job().ID)
				move(t, w, c)
				w.unchanged(t, act, func() {
					if done, err := do(t.Context(), w, seen); done || err != nil {
						t.Errorf("done %v, %v; want it left alone", done, err)
					}
				})
			})
		}
	}
}

// A job that stands as it was seen is given back for its next attempt, or ended, once: a second reaper, or the same after a lost answer, finds it moved.
func TestReaping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.claimed(t, w.opened(t, w.ask(target)))
	w.later(time.Hour)
	if _, err := w.through(onTransact(1, lost)).Requeue(t.Context(), c.Job()); !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(err)
	}
	want := c.Job()
	want.State, want.NotBefore, want.LastError = job.Pending, w.now, "lease-expired"
	same(t, "requeued", w.find(t, want.ID), want)
	w.unchanged(t, "a second reaper", func() {
		if done, err := w.jobs.Requeue(t.Context(), c.Job()); done || err != nil {
			t.Error(done, err)
		}
	})
	c = w.claimed(t, want)
	if _, err := w.through(onTransact(1, lost)).Orphan(t.Context(), c.Job(), job.ReasonOrphaned); !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(err)
	}
	want = c.Job()
	want.State, want.Reason, want.LastError, want.FinishedAt = job.Failed, job.ReasonOrphaned, "lease-expired", w.now
	same(t, "orphaned", w.find(t, want.ID), want)
	same(t, "slot", w.holderOf(t, want.Slot), "")
	w.opened(t, w.ask(target))
	w.unchanged(t, "a second reaper beside the next job", func() {
		if done, err := w.jobs.Orphan(t.Context(), c.Job(), job.ReasonOrphaned); done || err != nil {
			t.Error(done, err)
		}
	})
}

// JOB-19: a cancel takes effect at once, in every active state, also when the job is claimed, released or handed on between reading and writing; a job that is over stays as it is.
func TestCancelOfASingleJob(t *testing.T) {
	t.Parallel()
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.opened(t, w.ask(target))
			tt.do(t, w, j)
			over := w.find(t, j.ID)
			if !tt.state.Active() {
				w.unchanged(t, "a late cancel", func() {
					_, done, err := w.jobs.Cancel(t.Context(), j.ID)
					if cancelled := tt.state == job.Cancelled; done != cancelled || errors.Is(err, job.ErrOver) == cancelled {
						t.Errorf("done %v, %v", done, err)
					}
				})
				return
			}
			if _, _, err := w.through(onTransact(1, lost)).Cancel(t.Context(), j.ID); !errors.Is(err, sim.ErrNoAnswer) {
				t.Fatal(err)
			}
			over.State, over.FinishedAt = job.Cancelled, w.now
			same(t, "job", w.find(t, j.ID), over)
			same(t, "slot", w.holderOf(t, j.Slot), "")
			w.opened(t, w.ask(target))
			w.unchanged(t, "the cancel again beside the next job", func() { w.cancel(t, j.ID) })
		})
	}
	for name, overtake := range map[string]func(*testing.T, *world, job.Job){
		"claimed": func(t *testing.T, w *world, j job.Job) { w.claimed(t, j) },
		"released": func(t *testing.T, w *world, j job.Job) {
			_, err := w.claimed(t, j).Release(t.Context(), "x", 0)
			must(t, err)
		},
		"completed": func(t *testing.T, w *world, j job.Job) { must(t, w.claimed(t, j).Complete(t.Context())) },
	} {
		t.Run(name+" in between", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.opened(t, w.ask(target))
			got, done, err := w.through(onTransact(1, func(sim.Call) (bool, error) {
				overtake(t, w, j)
				return true, nil
			})).Cancel(t.Context(), j.ID)
			if name == "completed" {
				if done || !errors.Is(err, job.ErrOver) || w.find(t, j.ID).State != job.Completed {
					t.Errorf("done %v, %v; want ErrOver", done, err)
				}
				return
			}
			if !done || err != nil || got.State != job.Cancelled || w.find(t, j.ID).State != job.Cancelled {
				t.Errorf("%s, done %v, %v", got.State, done, err)
			}
			same(t, "slot", w.holderOf(t, j.Slot), "")
		})
	}
}

// A re-send is counted once for what was seen: not for a job that moved, and not twice by two reapers.
func TestCountingAResentMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.opened(t, w.ask(target))
	w.later(time.Minute)
	count := func(seen job.Job) bool {
		ok, err := w.jobs.CountResend(t.Context(), seen, job.ResentMessage)
		must(t, err)
		return ok
	}
	if !count(j) || count(j) {
		t.Error("want it counted once")
	}
	want := j
	want.Resends, want.ResentAt = 1, w.now
	same(t, "job", w.find(t, j.ID), want)
	c := w.claimed(t, want)
	if count(want) {
		t.Error("counted for a job that runs")
	}
	if _, err := c.Release(t.Context(), "x", 0); err != nil {
		t.Fatal(err)
	}
	if j.Resends = 0; count(j) {
		t.Error("counted for an attempt that is over")
	}
	if !count(w.find(t, j.ID)) {
		t.Error("not counted for the attempt that waits")
	}
}
