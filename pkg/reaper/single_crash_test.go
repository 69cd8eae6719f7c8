package reaper_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// fault is a way in which one call of a process goes wrong.
type fault string

const (
	fails  fault = "fails"                            // it does not happen
	lost   fault = "answer lost"                      // it happens
	busy   fault = "turned away"                      // a transaction is; other calls fail
	before fault = "killed before"                    // it does not happen, nor does anything after it in its process
	behind fault = "killed behind"                    // it happens, and nothing after it
	alone  fault = "killed before, its message lost"  // ... and the message that the process had is never seen again
	gone   fault = "killed behind, its message lost"  // ...
	each   fault = "every worker is killed before it" // the n-th call of each worker that makes so many
	after  fault = "every worker is killed behind it" // ...
)

// strike lets the n-th call go wrong: of all processes together, or of each worker.
type strike struct {
	n int
	f fault

	mu      sync.Mutex
	calls   int
	reached bool
}

// victim is one process under a strike.
type victim struct {
	*strike
	ctx    context.Context
	worker bool
	die    context.CancelFunc
	calls  int
	dead   bool
}

func (s *strike) process(ctx context.Context, worker bool) *victim {
	v := &victim{strike: s, worker: worker}
	v.ctx, v.die = context.WithTimeout(ctx, 150*time.Second)
	return v
}

func (v *victim) killed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dead
}

func (v *victim) hook(c sim.Call) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.dead {
		return false, sim.ErrKilled
	}
	v.strike.calls++
	v.calls++
	at := v.strike.calls
	if v.f == each || v.f == after {
		at = v.calls
	}
	if at != v.n || !v.worker && (v.f == each || v.f == after) {
		return true, nil
	}
	v.reached = true
	var unknown error = sim.ErrNoAnswer
	if c.Op == sim.Send {
		unknown = &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: sim.ErrNoAnswer}
	}
	switch v.f {
	case fails:
		return false, unknown
	case lost:
		return true, unknown
	case busy:
		if c.Op == sim.Transact {
			return false, &store.Busy{Reason: "ThrottlingError"}
		}
		return false, unknown
	}
	v.dead = true
	if v.f == before || v.f == alone || v.f == each {
		v.die()
		return false, sim.ErrKilled
	}
	c.After(v.die)
	return true, sim.ErrKilled
}

// life is that of one job from its request to its end, whose first attempt fails and whose second takes longer than two renewals. Its caller repeats a request without an answer, the queue delivers
// what was not acknowledged, the reaper runs each minute, and nobody else lends a hand. The invariants hold at every step.
func (d *desk) life(s *strike) job.Job {
	d.til.result = func(ctx context.Context, j job.Job) ([]once.Effect, error) {
		if j.Attempt == 1 {
			return nil, job.Later("busy", time.Minute, errors.New("no"))
		}
		select {
		case <-time.After(50 * time.Second):
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	request := job.Request{Opening: opening(today), RequestedBy: "web", Idempotency: &job.Idempotency{Caller: "web", Key: "key", Digest: "digest"}}
	var j job.Job
	for range 1000 {
		if j.ID == "" {
			v := s.process(d.t.Context(), false)
			r, err := dispatch.NewDispatcher(d.env(v.hook), d.til).Open(v.ctx, request)
			var unsent *queue.Unsent
			if err == nil || errors.As(err, &unsent) {
				j = r.Job
			}
			v.die()
		}
		for _, m := range d.take(til) {
			v := s.process(d.t.Context(), true)
			d.deliverTo(v.ctx, worker.NewSingle(d.env(v.hook), d.til), v.killed, []message{m})
			if v.killed() && (s.f == alone || s.f == gone) {
				d.take(til)
			}
			v.die()
		}
		v := s.process(d.t.Context(), false)
		if err := d.reaper(v.hook).Handle(v.ctx); err != nil && !s.reached {
			d.t.Error(err)
		}
		v.die()
		d.sound()
		if j.ID != "" && !d.find(j.ID).State.Active() && d.waiting(til) == 0 {
			return d.find(j.ID)
		}
		time.Sleep(time.Minute)
	}
	d.t.Fatal("no end")
	return j
}

// A process may die, or be answered badly, at any call of the store or of the queue in the whole life of a job: the caller's, the worker's in either attempt, its renewal's, the reaper's. The job ends COMPLETED,
// with one publication and a free slot; only where every process dies it ends FAILED at the latest with the attempts. TTL-03, TTL-04, JOB-03, JOB-04
func TestKilledAtAnyCall(t *testing.T) {
	t.Parallel()
	for _, f := range []fault{fails, lost, busy, before, behind, alone, gone, each, after} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			n := 1
			for reached := true; reached; n++ {
				if n > 400 {
					t.Fatal("no end")
				}
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					atDesk(t, func(t *testing.T, d *desk) {
						s := &strike{n: n, f: f}
						j := d.life(s)
						reached = s.reached
						jobs, _, err := d.jobs.List(t.Context(), once.Kind(til), now(), 0, "")
						if err != nil || len(jobs) != 1 {
							t.Errorf("%d jobs, %v; want one: the caller repeated its request", len(jobs), err)
						}
						switch {
						case f != each && f != after:
							if j.State != job.Completed || d.number(today, "revision") != 1 {
								t.Errorf("job is %s %q %q after attempt %d", j.State, j.Reason, j.LastError, j.Attempt)
							}
						case j.State != job.Completed && j.State != job.Failed:
							t.Errorf("job is %s", j.State)
						}
					})
				})
			}
			least := 40
			if f == each || f == after {
				least = 5
			}
			if n-2 < least {
				t.Errorf("only %d calls were struck", n-2)
			}
		})
	}
}
