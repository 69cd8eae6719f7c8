package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// Near the deadline no group is begun; the rest is handed back at once, without a pause, and what is done is not listed. SQS-11
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		members := names("member", 98)
		w := newWorld(t, members...)
		j := w.fire(april, 100)
		r := &recorder{answer: func(_ int, x try, _ sim.Call) (bool, error) {
			if len(x.members) > 6 {
				return false, &store.Busy{Reason: "ThrottlingError"}
			}
			time.Sleep(4 * time.Second)
			return true, nil
		}}
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		again := w.deliverCtx(ctx, w.worker(r.hook), bodies(j, members...)...)
		if ctx.Err() != nil {
			t.Error("the worker returned after its deadline")
		}
		var unapplied []string
		for i, m := range members {
			if w.state(m) == "" {
				unapplied = append(unapplied, fmt.Sprintf("m%d", i))
			}
		}
		equal(t, "handed back", again, sorted(unapplied))
		if len(again) == 0 || len(again) == 98 {
			t.Errorf("%d handed back, want a part", len(again))
		}
		if len(w.box.putOffs) != 1 || w.box.putOffs[0].delay != 0 || len(w.box.putOffs[0].receipts) != len(again) {
			t.Errorf("put off %+v, want the %d handed back, by 0", w.box.putOffs, len(again))
		}
		if strings.Contains(w.logs.String(), `"level":"ERROR"`) {
			t.Error("handing back is no error")
		}
		equal(t, "the next", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
	})
}

// A deadline that is near from the start begins nothing.
func TestDeadlineAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	j := w.fire(april, 100)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	equal(t, "handed back", w.deliverCtx(ctx, w.worker(nil), bodies(j, "member-1")...), ids(0))
	equal(t, "entry", string(w.state("member-1")), "")
}

// A panic concerns the subject that made it: in its effects or in the store. It is logged with the message and without the body. SQS-09
func TestPanicForOneMember(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w *world) sim.Hook{
		"in the effects": func(w *world) sim.Hook {
			w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
				if subject == "member-13" {
					panic("nil map")
				}
				return w.kind.monthly.Effects(t.Context(), j, subject)
			}
			return nil
		},
		"in the store": func(*world) sim.Hook {
			return func(c sim.Call) (bool, error) {
				if c.Touches("points/member-13/") {
					panic("nil map")
				}
				return true, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-12", "member-13", "member-14")
			j := w.fire(april, 100)
			all := bodies(j, "member-12", "member-13", "member-14")
			equal(t, "handed back", w.deliver(w.worker(spoil(w)), all...), ids(1))
			equal(t, "balances", []int64{w.balance("member-12"), w.balance("member-13"), w.balance("member-14")}, []int64{100, 0, 100})
			log := w.logs.String()
			if !strings.Contains(log, "nil map") || !strings.Contains(log, `"message":"m1"`) || strings.Contains(log, `\"subject\"`) {
				t.Error("want the panic in the log, with the message id and without the body")
			}
			w.kind.effects = nil
			equal(t, "handed back", w.deliver(w.worker(nil), all...), ids())
		})
	}
}

// A panic of the store anywhere else returns the messages of that job and of no other. SQS-09
func TestPanicAnywhere(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"jobs/JOBS#", "jobs/TALLY#", "points/"} {
		for _, op := range []sim.Op{sim.Get, sim.Transact} {
			t.Run(fmt.Sprintf("%s of %s", op, at), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "member-1", "member-2")
				done := w.fire(april.AddDate(0, 0, -31), 100)
				w.deliver(w.worker(nil), bodies(done, "member-1", "member-2")...)
				j := w.fire(april, 100)
				// Every call for the job of April, and any ledger read of March's.
				b := w.worker(func(c sim.Call) (bool, error) {
					if c.Op == op && c.Touches(at) && !(at == "jobs/JOBS#" && c.Touches("jobs/JOBS#monthly-point#2024-03/"+done.ID)) {
						panic("a bug of the store")
					}
					return true, nil
				})
				w.deliver(b, append(bodies(done, "member-1", "member-2"), bodies(j, "member-1", "member-2")...)...)
				equal(t, "without panics", w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...), ids())
				equal(t, "balances", []int64{w.balance("member-1"), w.balance("member-2")}, []int64{200, 200})
				equal(t, "job", w.job(j.ID).State, job.Completed)
			})
		}
	}
}

// Postings so large that they do not fit one transaction go in smaller ones. TXN-15
func TestLargePostings(t *testing.T) {
	t.Parallel()
	members := names("member", 12)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	w.kind.effects = func(_ job.Job, subject string) ([]once.Effect, error) {
		return []once.Effect{once.Put{Subject: subject, Name: "text", Doc: store.Attrs{"text": strings.Repeat("x", 390*1024)}}}, nil
	}
	equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
	equal(t, "counts", w.counts(j), job.Counts{Applied: 12})
}
