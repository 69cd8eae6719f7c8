package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/worker"
)

// Any order of firings, operators' runs, cancels, deliveries, duplicates and reaper runs, with processes that die anywhere, answers that are lost, conflicts and throttling:
// the invariants hold after every step, and when the faults stop, everybody is granted once and nobody is forgotten. DSP-10, DSP-11, JOB-13, TXN-10, TXN-17
func TestAnyOrderOfCrashes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		seed := rapid.Uint64().Draw(r, "seed")
		members := names("member", rapid.IntRange(0, 60).Draw(r, "members"))
		c := sim.Config{Seed: seed, Kill: 0.05, Fail: 0.03, Lose: 0.05, Throttle: 0.03, Conflicts: true}
		if rapid.Bool().Draw(r, "only messages suffer") {
			c = sim.Config{}
		}
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{
			"fire", "segment", "segment", "segment", "deliver", "deliver", "deliver", "run", "cancel", "reap", "join", "lose a message",
		}), 1, 60).Draw(r, "steps")
		var failure string
		synctest.Test(t, func(t *testing.T) { // for the pauses
			x := &crashing{world: newWorld(t, members...), faults: sim.New(c), random: rand.New(rand.NewPCG(seed, 1))}
			failure = x.play(steps)
		})
		if failure != "" {
			r.Fatal(failure)
		}
	})
}

// play says what is wrong, "" for nothing.
func (x *crashing) play(steps []string) string {
	for i, s := range steps {
		x.step(s)
		if v := x.violations(); v != "" {
			return fmt.Sprintf("after step %d, %s: %s", i, s, v)
		}
	}
	if v := x.finish(); v != "" {
		return fmt.Sprintf("in the end: %s\n%s", v, x.tail())
	}
	return ""
}

type crashing struct {
	*world
	faults *sim.Faults
	random *rand.Rand
	joined int
}

// process is one life of a process; call says whether its answer was seen.
func (x *crashing) process(call func(ctx context.Context, env job.Env)) (killed bool) {
	env := x.env(nil)
	env.Store, env.Queue = x.faults.Store(env.Store), x.faults.Queue(env.Queue)
	ctx, end := x.faults.Invocation(context.Background())
	call(ctx, env)
	return end()
}

func (x *crashing) step(s string) {
	switch s {
	case "fire":
		x.process(func(ctx context.Context, env job.Env) {
			_ = dispatch.NewDispatcher(env, x.kind).Handle(ctx, json.RawMessage(firing))
		})
	case "run":
		x.process(func(ctx context.Context, env job.Env) {
			_, _ = dispatch.NewDispatcher(env, x.kind).Run(ctx, dispatch.Run{Kind: "monthly-point", Period: "2024-04", Input: []byte(`{"amount":100}`)})
		})
	case "cancel":
		if jobs := x.list(); len(jobs) > 0 && x.random.IntN(3) == 0 {
			x.process(func(ctx context.Context, env job.Env) {
				ctx, stop := context.WithTimeout(ctx, time.Minute)
				defer stop()
				_, _, _ = job.NewStore(env.Store, env.Now).Cancel(ctx, jobs[x.random.IntN(len(jobs))].ID)
			})
		}
	case "segment":
		for _, body := range x.some(queue.Segments, 4) {
			x.deliver(queue.Segments, []string{body})
		}
	case "deliver":
		x.deliver(points, x.some(points, 1+x.random.IntN(98)))
	case "reap":
		x.later(time.Duration(x.random.IntN(60)) * time.Minute)
		x.process(func(ctx context.Context, env job.Env) {
			_ = reaper.New(env, job.Calendar{Start: "2024-04", AutoOpen: true, Inputs: map[once.Kind]json.RawMessage{"monthly-point": []byte(`{"amount":100}`)}}, x.kind).Handle(ctx)
		})
	case "join":
		x.joined++
		x.addMembers(fmt.Sprintf("late-%03d", x.joined))
	case "lose a message":
		_ = x.some([]queue.Name{points, queue.Segments}[x.random.IntN(2)], 1)
	}
}

// some takes messages from anywhere in a queue; a few stay there as duplicates.
func (x *crashing) some(from queue.Name, n int) []string {
	x.box.mu.Lock()
	defer x.box.mu.Unlock()
	all := x.box.bodies[from]
	x.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n = min(n, len(all))
	taken := append([]string(nil), all[:n]...)
	rest := all[n:]
	for _, b := range taken {
		if x.random.IntN(10) == 0 {
			rest = append(rest, b)
		}
	}
	x.box.bodies[from] = rest
	return taken
}

// deliver hands messages to a process of their own; those that it does not acknowledge, or all when it dies, come back.
func (x *crashing) deliver(from queue.Name, bodies []string) {
	var again []string
	killed := x.process(func(ctx context.Context, env job.Env) {
		handle := worker.NewBulk(env, x.kind).Handle
		if from == queue.Segments {
			handle = dispatch.NewFanout(env, x.kind).Handle
		}
		e := event(bodies...)
		answer, err := handle(ctx, e)
		if err != nil {
			again = bodies
			return
		}
		for _, f := range answer.BatchItemFailures {
			for _, r := range e.Records {
				if r.MessageId == f.ItemIdentifier {
					again = append(again, r.Body)
				}
			}
		}
	})
	if killed {
		again = bodies
	}
	_ = x.box.Send(context.Background(), from, again...)
}

func (x *crashing) violations() string {
	r, err := audit.Check(context.Background(), x.store, x.clock(), nil, x.kind)
	if err != nil {
		return err.Error()
	}
	for _, v := range r.Violations {
		return v
	}
	return ""
}

// finish ends the faults and lets everything come to its end; a run after that finds nothing to do.
func (x *crashing) finish() string {
	x.faults.Stop()
	x.fire()
	for range 20 {
		if err := reaper.New(x.env(nil), job.Calendar{Start: "2024-04"}, x.kind).Recover(context.Background()); err != nil {
			return err.Error()
		}
		x.drain()
		slots, err := x.jobs.Slots(context.Background())
		if err != nil {
			return err.Error()
		}
		if len(slots) > 0 {
			return fmt.Sprintf("job %s does not end", slots[0].Job)
		}
		if v := x.violations(); v != "" {
			return v
		}
		r, err := x.again(100)
		if err != nil {
			return err.Error()
		}
		x.drain()
		j, err := x.jobs.Find(context.Background(), r.Job.ID)
		if err != nil {
			return err.Error()
		}
		if j.State != job.Completed || j.Failed > 0 {
			return fmt.Sprintf("job %s ends %s with %d failures", j.ID, j.State, j.Failed)
		}
		if j.Applied == 0 {
			return x.everybodyOnce(j)
		}
	}
	return "runs go on finding something to do"
}

func (x *crashing) everybodyOnce(last job.Job) string {
	report, err := audit.Check(context.Background(), x.store, x.clock(), nil, x.kind)
	if err != nil || !report.OK() {
		return fmt.Sprint(err, report.Violations)
	}
	if report.Entries != last.Total || report.BalanceSum["points"] != 100*last.Total {
		return fmt.Sprintf("%d entries and %d points for %d members", report.Entries, report.BalanceSum["points"], last.Total)
	}
	return ""
}
