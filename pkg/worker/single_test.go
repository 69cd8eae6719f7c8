package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

func TestASingleJobIsCarriedOut(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
		d.ends(j, job.Completed, "", "", 1)
		got, revision := d.row(today)
		equal(t, "row", fmt.Sprint(got, " revision ", revision), "attempt 1 revision 1")
		equal(t, "calls", d.kind.called(), 1)
		equal(t, "the job that the kind saw", d.kind.calls[0].State, job.Running)
		equal(t, "put off", len(d.box.putOffs), 0)
		// The next job of the slot publishes over it.
		equal(t, "handed back", d.deliver(t.Context(), nil, d.open(today)), ids())
		_, revision = d.row(today)
		equal(t, "revision", revision, int64(2))
	})
}

// JOB-21: a message of a job that is at work or over, gone or never there is acknowledged without a call, however often it comes.
func TestMessagesOfJobsThatAreNotPending(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(d *desk, j job.Job) error{
		"RUNNING": func(d *desk, j job.Job) error { d.claim(j); return nil },
		"RUNNING, its lease run out": func(d *desk, j job.Job) error { // the reaper's business
			d.claim(j)
			time.Sleep(time.Hour)
			return nil
		},
		"COMPLETED": func(d *desk, j job.Job) error { return d.claim(j).Complete(d.t.Context(), d.kind.Items(j, text(j))...) },
		"FAILED":    func(d *desk, j job.Job) error { return d.claim(j).Fail(d.t.Context(), "x") },
		"CANCELLED": func(d *desk, j job.Job) error { d.cancel(j); return nil },
		"over, and the next job of its slot waits": func(d *desk, j job.Job) error {
			d.cancel(j)
			d.open(today)
			return nil
		},
		"deleted": func(d *desk, j job.Job) error {
			d.cancel(j)
			return d.store.Transact(d.t.Context(), store.Delete(store.Key{Table: job.Table, PK: "JOBS#til#" + j.CreatedAt.Format("2006-01"), SK: j.ID}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				if err := lead(d, j); err != nil {
					t.Fatal(err)
				}
				d.unchanged(func() {
					for range 2 {
						equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
					}
				})
				equal(t, "put off", len(d.box.putOffs), 0)
			})
		})
	}
	atDesk(t, func(t *testing.T, d *desk) {
		d.unchanged(func() {
			for range 2 {
				equal(t, "handed back", d.deliver(t.Context(), nil, job.Job{ID: job.NewID(til, now())}), ids())
			}
		})
	})
}

// What is no message of this worker is handed back, never dropped: in the DLQ a newer version, or the right worker, may still take it. Its text is in no log. SQS-18, LOG-03
func TestMessagesThatAreNoSingles(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		bad := []string{
			"", "CANARY-7f3a", "null", "{}", `{"v":1}`, `{"v":1,"job":""}`, `{"v":1,"job":7}`,
			`{"v":2,"job":"` + j.ID + `"}`, `{"v":0,"job":"` + j.ID + `"}`, `{"job":"` + j.ID + `"}`,
			queue.Single{Job: job.NewID("quiz", now())}.Encode(), queue.Single{Job: job.NewID("monthly-point", now())}.Encode(), queue.Single{Job: "til"}.Encode(),
			queue.Single{Job: "til-x"}.Encode(), queue.Single{Job: "til-" + strings.ToLower(j.ID[4:])}.Encode(),
			queue.Subject{Job: j.ID, Subject: "member-42"}.Encode(), queue.Segment{Job: j.ID, Segment: 0}.Encode(),
			`{"v":1,"job":"` + j.ID + `"} CANARY-7f3a`, "{\"v\":1,\"job\":\"\xff\"}",
		}
		d.unchanged(func() {
			for _, body := range bad {
				equal(t, "handed back "+body, d.handle(t.Context(), nil, event(body)), ids(0))
			}
		})
		for i, p := range d.box.putOffs {
			if p.from != "til" || p.delay < time.Second || p.delay > 4*time.Second {
				t.Errorf("%q was put off %+v, want 1 to 4 s of til", bad[i], p)
			}
		}
		equal(t, "put off", len(d.box.putOffs), len(bad))
		if strings.Contains(d.logs.String(), "CANARY") {
			t.Error("the log quotes a body")
		}
		// One among good ones holds up nobody.
		other := d.open("member-43:2024-04-15")
		e := event(queue.Single{Job: j.ID}.Encode(), bad[1], queue.Single{Job: other.ID}.Encode())
		equal(t, "handed back", d.handle(t.Context(), nil, e), ids(1))
		d.ends(j, job.Completed, "", "", 1)
		d.ends(other, job.Completed, "", "", 1)
	})
}

// A message that comes before the pause is over goes back for the rest of it, without a claim and without a call.
func TestAnEarlyMessage(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		if _, err := d.claim(j).Release(t.Context(), "busy", time.Minute); err != nil {
			t.Fatal(err)
		}
		for _, waited := range []time.Duration{0, 20 * time.Second, 39*time.Second + 999*time.Millisecond} {
			time.Sleep(waited)
			d.unchanged(func() { equal(t, "handed back", d.deliver(t.Context(), nil, j), ids(0)) })
		}
		var pauses []time.Duration
		for _, p := range d.box.putOffs {
			pauses = append(pauses, p.delay)
		}
		equal(t, "pauses", pauses, []time.Duration{time.Minute, 40 * time.Second, time.Millisecond})
		time.Sleep(time.Millisecond)
		equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
		d.ends(j, job.Completed, "", "busy", 2)
	})
}

// TTL-03: without the time to begin nothing is claimed: the message goes back at once. A remaining time of 0 is none, not for ever.
func TestNoTimeToBegin(t *testing.T) {
	t.Parallel()
	for _, left := range []time.Duration{-time.Hour, -1, 0, 1, time.Second, 30*time.Second - 1} {
		t.Run(left.String(), func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(left))
				defer cancel()
				d.unchanged(func() { equal(t, "handed back", d.deliver(ctx, nil, j), ids(0)) })
				equal(t, "put off", len(d.box.putOffs), 1)
				equal(t, "pause", d.box.putOffs[0].delay, 0)
				equal(t, "the next", d.deliver(t.Context(), nil, j), ids())
				d.ends(j, job.Completed, "", "", 1)
			})
		})
	}
	atDesk(t, func(t *testing.T, d *desk) { // just enough: half of it is for the call
		d.kind.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
			if left := job.Left(ctx); left != 15*time.Second {
				t.Errorf("the call has %v, want 15 s", left)
			}
			return text(j), nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		equal(t, "handed back", d.deliver(ctx, nil, d.open(today)), ids())
	})
}

// A batch of several, although the template says one: each is carried out, and what there is no time left for goes back.
func TestABatchOfSeveral(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		d.kind.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
			switch time.Sleep(40 * time.Second); j.Scope {
			case "b":
				return nil, job.Permanent("refused", errors.New("no"))
			case "c":
				return nil, job.Later("busy", time.Minute, errors.New("not now"))
			}
			return text(j), nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 175*time.Second)
		defer cancel()
		list := []job.Job{d.open("a"), d.open("b"), d.open("c"), d.open("d"), d.open("e")}
		list = append(list, list[0]) // its job is over by then
		equal(t, "handed back", d.deliver(ctx, nil, list...), ids(2, 4, 5))
		d.ends(list[0], job.Completed, "", "", 1)
		d.ends(list[1], job.Failed, "refused", "refused", 1)
		d.ends(list[2], job.Pending, "", "busy", 1)
		d.ends(list[3], job.Completed, "", "", 1)
		d.ends(list[4], job.Pending, "", "", 0)
		var pauses []time.Duration
		for _, p := range d.box.putOffs {
			pauses = append(pauses, p.delay)
		}
		if len(pauses) == 3 && pauses[0] >= time.Minute && pauses[0] <= time.Minute+32*time.Second {
			pauses[0] = time.Minute // and the engine's own, by chance
		}
		equal(t, "pauses", pauses, []time.Duration{time.Minute, 0, 0})
	})
}

// A message without an id can be handed back only with the whole batch; acknowledged it is like any other.
func TestAMessageWithoutAnID(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		e := event(queue.Single{Job: j.ID}.Encode(), "junk")
		e.Records[0].MessageId, e.Records[1].MessageId = "", ""
		answer, err := worker.NewSingle(d.env(nil), d.kind).Handle(t.Context(), e)
		if err == nil || len(answer.BatchItemFailures) > 0 {
			t.Errorf("got %v, %v; want an error, which returns the batch", answer, err)
		}
		d.ends(j, job.Completed, "", "", 1) // and comes again, to be acknowledged
		e.Records = e.Records[:1]
		d.unchanged(func() { equal(t, "handed back", d.handle(t.Context(), nil, e), ids()) })
	})
}

// Without an answer of the store nothing is taken for done: the message comes again. The queue may fail too: then it comes after the visibility timeout.
func TestNoAnswerBeforeTheCall(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]sim.Hook{
		"reading": func(c sim.Call) (bool, error) { return c.Op != sim.Get, errUnless(c.Op != sim.Get) },
		"claiming": func(c sim.Call) (bool, error) {
			return c.Op != sim.Transact, errUnless(c.Op != sim.Transact)
		},
		"reading and putting off": func(c sim.Call) (bool, error) { return false, sim.ErrNoAnswer },
		"turned away": func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact {
				return false, &store.Busy{Reason: "ThrottlingError"}
			}
			return true, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				d.unchanged(func() { equal(t, "handed back", d.deliver(t.Context(), hook, j), ids(0)) })
				equal(t, "the next", d.deliver(t.Context(), nil, j), ids())
				d.ends(j, job.Completed, "", "", 1)
			})
		})
	}
}

func errUnless(fine bool) error {
	if fine {
		return nil
	}
	return sim.ErrNoAnswer
}

// A claim that was overtaken between reading and claiming makes no call.
func TestAClaimThatIsOvertaken(t *testing.T) {
	t.Parallel()
	for name, overtake := range map[string]func(d *desk, j job.Job){
		"claimed":   func(d *desk, j job.Job) { d.claim(j) },
		"cancelled": func(d *desk, j job.Job) { d.cancel(j) }, // JOB-19
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				var then string
				again := d.deliver(t.Context(), func(c sim.Call) (bool, error) {
					if c.Op == sim.Transact && c.N == 1 {
						overtake(d, j)
						then = d.snapshot()
					}
					return true, nil
				}, j)
				equal(t, "handed back", again, ids(0)) // to be read again
				equal(t, "the store", d.snapshot(), then)
				equal(t, "the next", d.deliver(t.Context(), nil, j), ids())
				equal(t, "calls", d.kind.called(), 0)
			})
		})
	}
}

// While the kind says that no call is worth while, messages are handed back for about as long, spread, and no attempt is used up; afterwards the job is carried out in its first. AI-05: an AI server that was down for a
// while costs nobody the job.
func TestWaitingUsesUpNoAttempt(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		d.kind.wait = 5 * time.Minute
		j := d.open(today)
		for n := range 10 {
			equal(t, "handed back", d.deliver(t.Context(), nil, j), ids(0))
			if pause := d.box.putOffs[n].delay; pause < 5*time.Minute || pause > 5*time.Minute+151*time.Second {
				t.Errorf("pause %v, want five minutes and up to half as much", pause)
			}
		}
		d.kind.wait = time.Hour
		d.deliver(t.Context(), nil, j)
		equal(t, "pause", d.box.putOffs[10].delay, queue.LongestBackoff)
		d.ends(j, job.Pending, "", "", 0)
		equal(t, "calls", d.kind.called(), 0)
		d.kind.wait = 0
		equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
		d.ends(j, job.Completed, "", "", 1)
	})
}
