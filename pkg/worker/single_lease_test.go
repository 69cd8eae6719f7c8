package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// beats records when renewals were tried, and decides about each. n counts from 1.
type beats struct {
	mu     sync.Mutex
	begun  time.Time
	at     []time.Duration
	answer func(n int, c sim.Call) (bool, error) // nil: they happen
}

func newBeats() *beats { return &beats{begun: time.Now()} }

func (b *beats) hook(c sim.Call) (bool, error) {
	if c.Op != sim.Transact || len(c.Writes) != 1 || len(c.Writes[0].Set) != 1 || c.Writes[0].Set["leaseUntil"] == nil {
		return true, nil
	}
	b.mu.Lock()
	b.at = append(b.at, time.Since(b.begun))
	n := len(b.at)
	b.mu.Unlock()
	if b.answer == nil {
		return true, nil
	}
	return b.answer(n, c)
}

// takes makes a call that lasts so long, listens if it is told to, and tells what its context said in the end.
func (d *desk) takes(long time.Duration, listens bool) (cause *error) {
	cause = new(error)
	d.kind.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
		if !listens {
			time.Sleep(long)
			*cause = context.Cause(ctx)
			return text(j), nil
		}
		select {
		case <-time.After(long):
			return text(j), nil
		case <-ctx.Done():
			*cause = context.Cause(ctx)
			return nil, ctx.Err()
		}
	}
	return cause
}

// JOB-05, JOB-09: a call of ten minutes beats every 20 s, so that at every moment its lease has 40 s to go; beside it nothing is written. With the call the beats end.
func TestTheLeaseMovesWhileACallLasts(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		d.takes(10*time.Minute, true)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 599 {
				time.Sleep(time.Second)
				got := d.job(j)
				if left := got.LeaseUntil.Sub(now()); got.State != job.Running || got.Attempt != 1 || left < 40*time.Second-time.Millisecond {
					t.Errorf("%s in attempt %d with %v to go", got.State, got.Attempt, left)
				}
			}
		}()
		b := newBeats()
		equal(t, "handed back", d.deliver(t.Context(), b.hook, j), ids())
		<-done
		for i, at := range b.at {
			if want := time.Duration(i+1) * 20 * time.Second; at != want {
				t.Errorf("beat %d after %v, want %v", i+1, at, want)
			}
		}
		if n := len(b.at); n < 29 || n > 30 { // the last at the very moment of the end, or not
			t.Errorf("%d beats in ten minutes", n)
		}
		n := len(b.at)
		time.Sleep(time.Hour)
		equal(t, "beats afterwards", len(b.at), n)
		d.ends(j, job.Completed, "", "", 1)
	})
}

// JOB-07, JOB-19, JOB-22: a job that is taken away during the call: the call is stopped at the next renewal, or its result refused when it is faster or does not listen;
// what stands stays. The message is not needed any more.
func TestAJobThatIsTakenAwayDuringItsCall(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		take     func(d *desk, j job.Job)
		state    job.State
		reason   string
		error    string
		attempt  int
		text     string
		revision int64
	}{
		"cancelled": {func(d *desk, j job.Job) { d.cancel(j) }, job.Cancelled, "", "", 1, "", 0},
		"cancelled, and the next job is completed": {func(d *desk, j job.Job) {
			d.cancel(j)
			c := d.claim(d.open(today))
			if err := c.Complete(d.t.Context(), d.kind.Items(j, []once.Effect{once.Put{Doc: "of the next job"}})...); err != nil {
				d.t.Error(err)
			}
		}, job.Cancelled, "", "", 1, "of the next job", 1},
		"reaped": {func(d *desk, j job.Job) { d.requeue(j) }, job.Pending, "", "lease-expired", 1, "", 0},
		"reaped, and claimed by another": {func(d *desk, j job.Job) {
			d.requeue(j)
			d.claim(j)
		}, job.Running, "", "lease-expired", 2, "", 0},
		"reaped, and completed by another": {func(d *desk, j job.Job) {
			d.requeue(j)
			c := d.claim(j)
			if err := c.Complete(d.t.Context(), d.kind.Items(j, text(c.Job()))...); err != nil {
				d.t.Error(err)
			}
		}, job.Completed, "", "lease-expired", 2, "attempt 2", 1},
		"reaped, and failed by another": {func(d *desk, j job.Job) {
			d.requeue(j)
			if err := d.claim(j).Fail(d.t.Context(), "refused"); err != nil {
				d.t.Error(err)
			}
		}, job.Failed, "refused", "refused", 2, "", 0},
	} {
		for how, call := range map[string]struct {
			lasts   time.Duration
			listens bool
			err     error // of the call
			ends    time.Duration
		}{
			"the call listens":                            {10 * time.Minute, true, nil, 40 * time.Second},
			"the call does not listen":                    {3 * time.Minute, false, nil, 3 * time.Minute},
			"the call is faster than the renewal":         {30 * time.Second, true, nil, 30 * time.Second},
			"the call fails, faster than the renewal":     {30 * time.Second, false, errors.New("no"), 30 * time.Second},
			"the call fails for good, faster than it":     {30 * time.Second, false, job.Permanent("late", errors.New("no")), 30 * time.Second},
			"the call fails for good and does not listen": {3 * time.Minute, false, job.Permanent("late", errors.New("no")), 3 * time.Minute},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				atDesk(t, func(t *testing.T, d *desk) {
					j := d.open(today)
					cause := d.takes(call.lasts, call.listens)
					if inner := d.kind.result; call.err != nil {
						d.kind.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
							_, _ = inner(ctx, j)
							return nil, call.err
						}
					}
					then := make(chan string, 1)
					time.AfterFunc(25*time.Second, func() {
						tt.take(d, j)
						then <- d.snapshot()
					})
					b := newBeats()
					equal(t, "handed back", d.deliver(t.Context(), b.hook, j), ids())
					equal(t, "ended after", time.Since(b.begun), call.ends)
					equal(t, "the store, as it was when the job was taken away", d.snapshot(), <-then)
					if call.ends > 30*time.Second {
						equal(t, "beats", b.at, []time.Duration{20 * time.Second, 40 * time.Second})
						if !errors.Is(*cause, job.ErrLost) {
							t.Errorf("the call's context ended for %v, want ErrLost", *cause)
						}
					}
					got := d.job(j)
					if got.State != tt.state || got.Reason != tt.reason || got.LastError != tt.error || got.Attempt != tt.attempt {
						t.Errorf("job is %s %q %q in attempt %d", got.State, got.Reason, got.LastError, got.Attempt)
					}
					text, revision := d.row(today)
					equal(t, "text", text, tt.text)
					equal(t, "publications", revision, tt.revision)
					equal(t, "put off", len(d.box.putOffs), 0)
				})
			})
		}
	}
}

// Renewals that have no answer are tried again every two seconds. When none gets through the worker stops by its own clock at the end of its lease, before anybody else may take the job; a lease that
// was moved without its answer is not believed, one that is renewed in time goes on.
func TestRenewalsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	always := func(int) bool { return true }
	for name, tt := range map[string]struct {
		answer func(c sim.Call) (bool, error)
		which  func(n int) bool
		ends   time.Duration
		state  job.State
	}{
		"none happens":             {func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }, always, 60 * time.Second, job.Running},
		"all happen":               {func(sim.Call) (bool, error) { return true, sim.ErrNoAnswer }, always, 60 * time.Second, job.Running},
		"none after the second":    {func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }, func(n int) bool { return n > 2 }, 100 * time.Second, job.Running},
		"every other":              {func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }, func(n int) bool { return n%2 == 1 }, 10 * time.Minute, job.Completed},
		"every other answer":       {func(sim.Call) (bool, error) { return true, sim.ErrNoAnswer }, func(n int) bool { return n%2 == 1 }, 10 * time.Minute, job.Completed},
		"all but each twentieth":   {func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }, func(n int) bool { return n%20 != 0 }, 10 * time.Minute, job.Completed},
		"they hang":                {hang, always, 60 * time.Second, job.Running},
		"they hang from the third": {hang, func(n int) bool { return n > 2 }, 100 * time.Second, job.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				cause := d.takes(10*time.Minute, true)
				b := newBeats()
				b.answer = func(n int, c sim.Call) (bool, error) {
					if tt.which(n) {
						return tt.answer(c)
					}
					return true, nil
				}
				equal(t, "handed back", d.deliver(t.Context(), b.hook, j), ids())
				equal(t, "ended after", time.Since(b.begun), tt.ends)
				equal(t, "state", d.job(j).State, tt.state)
				if tt.state == job.Running && !errors.Is(*cause, job.ErrLost) {
					t.Errorf("the call's context ended for %v, want ErrLost", *cause)
				}
				if name == "none happens" {
					want := []time.Duration{}
					for at := 20 * time.Second; at < 60*time.Second; at += 2 * time.Second {
						want = append(want, at)
					}
					equal(t, "beats", b.at, want)
				}
			})
		})
	}
}

// hang is a store that does not answer until the caller gives up.
func hang(c sim.Call) (bool, error) {
	<-c.Ctx.Done()
	return false, c.Ctx.Err()
}

// A renewal that hangs when the call is over does not hold up the result: it is cut short. One that cannot be is waited for: nothing goes on beside the completion, or behind the handler. JOB-23
func TestARenewalThatHangsAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(sim.Call) (bool, error)
		ends   time.Duration
	}{
		"and does not happen": {hang, 21 * time.Second},
		"and happens": {func(c sim.Call) (bool, error) {
			<-c.Ctx.Done()
			return true, c.Ctx.Err()
		}, 21 * time.Second},
		"and does not listen": {func(sim.Call) (bool, error) {
			time.Sleep(3 * time.Second)
			return true, nil
		}, 23 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atDesk(t, func(t *testing.T, d *desk) {
				j := d.open(today)
				d.takes(21*time.Second, true)
				b := newBeats()
				b.answer = func(_ int, c sim.Call) (bool, error) { return tt.answer(c) }
				equal(t, "handed back", d.deliver(t.Context(), b.hook, j), ids())
				equal(t, "ended after", time.Since(b.begun), tt.ends)
				d.ends(j, job.Completed, "", "", 1)
			})
		})
	}
}

// TTL-04: the answer comes after the worker's time, again and again, and the message is delivered all the while: the calls are bounded by the attempts and told by the job, and one result is published.
func TestAnswersThatComeTooLate(t *testing.T) {
	t.Parallel()
	for _, inTime := range []int{1, 2, 3, 4} { // the attempt whose answer comes in time; the fourth would, and there is none
		atDesk(t, func(t *testing.T, d *desk) {
			j := d.open(today)
			d.kind.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
				if j.Attempt == inTime {
					return text(j), nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}
			for range 60 { // copies, early and late
				ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
				d.deliver(ctx, nil, j, j)
				cancel()
				time.Sleep(7 * time.Second)
			}
			calls := min(inTime, job.Attempts)
			equal(t, "calls", d.kind.called(), calls)
			_, revision := d.row(today)
			if inTime > job.Attempts {
				d.ends(j, job.Failed, job.ReasonAttemptsUsedUp, "timeout", job.Attempts)
				equal(t, "publications", revision, int64(0))
				return
			}
			equal(t, "state and attempt", [2]any{d.job(j).State, d.job(j).Attempt}, [2]any{job.Completed, calls})
			equal(t, "publications", revision, int64(1))
		})
	}
}

// Two workers with a copy of the same message at the same moment: one makes the call.
func TestTwoWorkersOnOneJob(t *testing.T) {
	t.Parallel()
	atDesk(t, func(t *testing.T, d *desk) {
		j := d.open(today)
		d.takes(5*time.Second, true)
		var meet sync.WaitGroup
		meet.Add(2)
		hook := func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && c.N == 1 {
				meet.Done()
				meet.Wait()
			}
			return true, nil
		}
		var mu sync.Mutex
		back := 0
		deliver := func() {
			n := len(d.deliver(t.Context(), hook, j))
			mu.Lock()
			defer mu.Unlock()
			back += n
		}
		parallel(deliver, deliver)
		equal(t, "handed back", back, 1) // to be acknowledged when it comes again
		equal(t, "calls", d.kind.called(), 1)
		d.ends(j, job.Completed, "", "", 1)
	})
}
