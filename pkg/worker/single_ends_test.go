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
)

// How a call may end, and what follows: the specification of the worker.
func TestHowACallEnds(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	fails := func(err error) func(d *desk) {
		return func(d *desk) {
			d.kind.result = func(context.Context, job.Job) ([]once.Effect, error) { return nil, err }
		}
	}
	items := func(f func(j job.Job) []store.Write) func(d *desk) {
		return func(d *desk) { d.kind.items = func(j job.Job, _ []once.Effect) []store.Write { return f(j) } }
	}
	const own = queue.LongestBackoff // the pause is the engine's own
	for _, tt := range []struct {
		name  string
		lead  func(d *desk)
		state job.State // what it is after one attempt
		error string    // its last error, and the reason of FAILED
		least time.Duration
		most  time.Duration // of the pause
	}{
		{"a reason that does not pass", fails(job.Permanent("nothing-to-summarise", no)), job.Failed, "nothing-to-summarise", 0, 0},
		{"... wrapped", fails(fmt.Errorf("til: %w", job.Permanent("refused", no))), job.Failed, "refused", 0, 0},
		{"a result that is too large", items(func(j job.Job) []store.Write {
			return []store.Write{store.Put(rowKey(j.Scope), store.Attrs{"text": string(make([]byte, store.MaxItem))})}
		}), job.Failed, job.ReasonInvalid, 0, 0},

		{"a reason that passes", fails(job.Later("busy", 0, no)), job.Pending, "busy", time.Second, 32 * time.Second},
		{"... in five minutes", fails(job.Later("busy", 5*time.Minute, no)), job.Pending, "busy", 5*time.Minute + time.Second, 5*time.Minute + 32*time.Second},
		{"... in a second", fails(job.Later("busy", time.Second, no)), job.Pending, "busy", 2 * time.Second, 33 * time.Second},
		{"... tomorrow", fails(job.Later("busy", 24*time.Hour, no)), job.Pending, "busy", own, own},
		{"... in the past", fails(job.Later("busy", -time.Hour, no)), job.Pending, "busy", time.Second, 32 * time.Second},
		{"... wrapped", fails(fmt.Errorf("til: %w", job.Later("busy", 5*time.Minute, no))), job.Pending, "busy", 5*time.Minute + time.Second, 5*time.Minute + 32*time.Second},
		{"any other error", fails(no), job.Pending, "error", time.Second, 32 * time.Second},
		{"a time-out of its own", fails(fmt.Errorf("post: %w", context.DeadlineExceeded)), job.Pending, "timeout", time.Second, 32 * time.Second},
		{"a panic of the call", func(d *desk) {
			d.kind.result = func(context.Context, job.Job) ([]once.Effect, error) { panic("of the call") }
		}, job.Pending, "error", time.Second, 32 * time.Second},
		{"a panic of the writes", items(func(job.Job) []store.Write { panic("of the writes") }), job.Pending, "error", time.Second, 32 * time.Second},
		{"writes with a condition that is false", items(func(j job.Job) []store.Write {
			return []store.Write{store.Insert(rowKey(j.Scope), store.Attrs{"text": "x"})}
		}), job.Pending, "error", time.Second, 32 * time.Second},
		{"too many writes", items(func(j job.Job) (out []store.Write) {
			for i := range store.MaxWrites - 1 {
				out = append(out, store.Put(rowKey(fmt.Sprint(i)), store.Attrs{"text": "x"}))
			}
			return out
		}), job.Pending, "error", time.Second, 32 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				tt.lead(d)
				j := d.open(today)
				again := d.deliver(t.Context(), nil, j)
				if tt.state == job.Failed {
					equal(t, "handed back", again, ids())
					d.ends(j, job.Failed, tt.error, tt.error, 1)
					equal(t, "put off", len(d.box.putOffs), 0)
					equal(t, "calls", d.kind.called(), 1)
					return
				}
				equal(t, "handed back", again, ids(0))
				d.ends(j, job.Pending, "", tt.error, 1)
				equal(t, "put off", len(d.box.putOffs), 1)
				pause := d.box.putOffs[0].delay
				if pause < tt.least || pause > tt.most {
					t.Errorf("pause %v, want %v to %v", pause, tt.least, tt.most)
				}
				equal(t, "not before", d.job(j).NotBefore, now().Add(pause).Truncate(time.Millisecond))

				// JOB-04, TTL-04: every attempt is a call, none comes early, and after the last the job fails and its slot is free.
				for attempt := 2; attempt <= job.Attempts; attempt++ {
					time.Sleep(pause)
					again = d.deliver(t.Context(), nil, j)
					pause = d.box.putOffs[len(d.box.putOffs)-1].delay
				}
				equal(t, "handed back in the end", again, ids())
				d.ends(j, job.Failed, job.ReasonAttemptsUsedUp, tt.error, job.Attempts)
				d.unchanged(func() { equal(t, "a late copy", d.deliver(t.Context(), nil, j), ids()) })
				equal(t, "calls", d.kind.called(), job.Attempts)
				equal(t, "put off", len(d.box.putOffs), job.Attempts-1)

				// The same target may be asked again, and nothing of the failures is left in the way.
				d.kind.result, d.kind.items = nil, nil
				next := d.open(today)
				equal(t, "handed back", d.deliver(t.Context(), nil, next), ids())
				d.ends(next, job.Completed, "", "", 1)
			})
		})
	}
}

// The pauses of the attempts grow: up to half a minute, then up to a minute.
func TestPausesGrow(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		d.kind.result = func(context.Context, job.Job) ([]once.Effect, error) { return nil, errors.New("no") }
		longest := [2]time.Duration{}
		for i := range 60 {
			j := d.open(fmt.Sprint("target-", i))
			for attempt := range longest {
				d.deliver(t.Context(), nil, j)
				pause := d.box.putOffs[len(d.box.putOffs)-1].delay
				longest[attempt] = max(longest[attempt], pause)
				time.Sleep(pause)
			}
		}
		if longest[0] < 20*time.Second || longest[0] > 32*time.Second || longest[1] < 40*time.Second || longest[1] > 64*time.Second {
			t.Errorf("longest pauses %v, want just below 32 s and 64 s", longest)
		}
	})
}

// AI-01: a call that never returns by itself ends with time to spare: the attempt is written down as a time-out, the handler returns normally, the heartbeat has stopped. A call that goes on
// although it was told to stop ends as late as it returns, and its result counts.
func TestACallThatHangs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		result func(ctx context.Context, j job.Job) ([]once.Effect, error)
		took   time.Duration
		state  job.State
	}{
		"until it is told to stop": {func(ctx context.Context, _ job.Job) ([]once.Effect, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("post: %w", ctx.Err())
		}, 135 * time.Second, job.Pending},
		"a byte now and then, until it is told to stop": {func(ctx context.Context, _ job.Job) ([]once.Effect, error) {
			for ctx.Err() == nil {
				time.Sleep(700 * time.Millisecond)
			}
			return nil, ctx.Err()
		}, 135*time.Second + 100*time.Millisecond, job.Pending},
		"and does not listen": {func(_ context.Context, j job.Job) ([]once.Effect, error) {
			time.Sleep(140 * time.Second)
			return text(j), nil
		}, 140 * time.Second, job.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				d.kind.result = tt.result
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				defer cancel()
				begun := time.Now()
				again := d.deliver(ctx, nil, j)
				equal(t, "took", time.Since(begun), tt.took)
				if tt.state == job.Pending {
					equal(t, "handed back", again, ids(0))
					d.ends(j, job.Pending, "", "timeout", 1)
				} else {
					equal(t, "handed back", again, ids())
					d.ends(j, job.Completed, "", "", 1)
				}
				// JOB-23: whatever the worker does it has done by now.
				then := d.snapshot()
				time.Sleep(time.Hour)
				equal(t, "the store an hour later", d.snapshot(), then)
			})
		})
	}
}

// JOB-23: on every way out the handler has written what it writes when it returns, and makes no call of the store afterwards. (A goroutine that is left fails the bubble.)
func TestNothingGoesOnBehindTheHandler(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]func(d *desk) ([]once.Effect, error){
		"completed": func(*desk) ([]once.Effect, error) { return []once.Effect{once.Put{Doc: "x"}}, nil },
		"failed":    func(*desk) ([]once.Effect, error) { return nil, job.Permanent("refused", errors.New("no")) },
		"released":  func(*desk) ([]once.Effect, error) { return nil, errors.New("no") },
		"a panic":   func(*desk) ([]once.Effect, error) { panic("x") },
		"cancelled": func(d *desk) ([]once.Effect, error) {
			d.cancel(d.kind.calls[0])
			time.Sleep(30 * time.Second)
			return nil, nil
		},
		"cancelled, and not noticed by a renewal": func(d *desk) ([]once.Effect, error) {
			d.cancel(d.kind.calls[0])
			return []once.Effect{once.Put{Doc: "x"}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				d.kind.result = func(context.Context, job.Job) ([]once.Effect, error) {
					time.Sleep(50 * time.Second)
					return result(d)
				}
				over, late := false, 0
				d.deliver(t.Context(), func(sim.Call) (bool, error) {
					if over {
						late++
					}
					return true, nil
				}, j)
				over = true
				state := d.job(j).State
				time.Sleep(time.Hour)
				equal(t, "calls of the store afterwards", late, 0)
				equal(t, "state", d.job(j).State, state)
				if state == job.Running {
					t.Error("the end was not written down")
				}
			})
		})
	}
}

// The answer of what ends an attempt is lost, once or for good: an end that happened is found again and stands; one that did not is left to the lease, or to the next attempt.
func TestEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	permanent := job.Permanent("refused", errors.New("no"))
	for _, tt := range []struct {
		name    string
		err     error // of the call
		happens bool  // the transactions that have no answer do happen
		first   int   // transactions without an answer, of those after the claim
		last    int
		state   job.State
		error   string
		back    bool
	}{
		{"completed, once lost", nil, true, 1, 1, job.Completed, "", false},
		{"completed, twice lost", nil, true, 1, 2, job.Completed, "", false},
		{"completed, always lost", nil, true, 1, 9, job.Completed, "", false},
		{"completed, once failed", nil, false, 1, 1, job.Completed, "", false},
		{"completed, twice failed", nil, false, 1, 2, job.Completed, "", false},
		{"completed, failed as often as it is tried", nil, false, 1, 3, job.Pending, "error", true}, // released: the next attempt makes the call again
		{"completed, always failed", nil, false, 1, 99, job.Running, "", false},
		{"failed, once lost", permanent, true, 1, 1, job.Failed, "refused", false},
		{"failed, always lost", permanent, true, 1, 99, job.Failed, "refused", false},
		{"failed, once failed", permanent, false, 1, 1, job.Failed, "refused", false},
		{"failed, always failed", permanent, false, 1, 99, job.Running, "", false},
		{"released, once lost", errors.New("no"), true, 1, 1, job.Pending, "error", true},
		{"released, always lost", errors.New("no"), true, 1, 99, job.Pending, "error", false}, // the reaper sends its message
		{"released, once failed", errors.New("no"), false, 1, 1, job.Pending, "error", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				d.kind.result = func(_ context.Context, j job.Job) ([]once.Effect, error) { return text(j), tt.err }
				again := d.deliver(t.Context(), func(c sim.Call) (bool, error) {
					if c.Op == sim.Transact && c.N > tt.first && c.N <= tt.last+1 {
						return tt.happens, sim.ErrNoAnswer
					}
					return true, nil
				}, j)
				want := ids()
				if tt.back {
					want = ids(0)
				}
				equal(t, "handed back", again, want)
				got := d.job(j)
				equal(t, "state and last error", fmt.Sprint(got.State, got.LastError), fmt.Sprint(tt.state, tt.error))
				if _, revision := d.row(today); (revision == 1) != (tt.state == job.Completed) {
					t.Errorf("published %d times by a job that is %s", revision, tt.state)
				}
				if tt.state == job.Running && !strings.Contains(d.logs.String(), "not written down") {
					t.Error("the log does not tell that the end is not written down")
				}
			})
		})
	}
}
