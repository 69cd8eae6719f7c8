package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/user"
	"time"

	hanbeon "hanbeon"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/local"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// engine is the stack at work in this process, for a command that works to the end and exits. Its clock skips the time in which nothing happens.
type engine struct {
	app   *app
	stack *local.Stack
	kinds []job.Kind
	aside *aside     // for looks that are no part of what a run costs
	jobs  *job.Store // on it
	last  *lastError
	stop  func() // waits until nothing runs any more; may be called again
}

// start finishes what an earlier process left in the data file, and leaves the stack running until stop.
func (a *app) start(ctx context.Context, s store.Store, faults local.Faults) (started *engine, err error) {
	e := &engine{app: a, aside: &aside{Store: s}, last: &lastError{}, kinds: a.kinds(s)}
	model, _, stopAI, err := aiFlags{}.open(e.last.logger())
	if err != nil {
		return nil, err
	}
	e.stop = stopAI
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	e.stack, err = local.New(local.Config{
		Store: s, Template: hanbeon.Template, Zone: a.zone, Skip: true, Start: a.now(), Log: e.last.logger(), Faults: faults, Model: model,
		// An operator's command opens no other periods: a watch that begins next month watches nothing.
		Calendar: job.Calendar{Start: once.MonthOf(a.now(), a.zone).Next()},
	})
	if err != nil {
		return nil, err
	}
	e.jobs = job.NewStore(e.aside, e.stack.Env().Now)
	left, err := e.jobs.Slots(ctx)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		if err := e.stack.Recover(ctx); err != nil {
			return nil, err
		}
	}
	stop := e.stack.Start(ctx)
	e.stop = func() {
		stop()
		stopAI()
	}
	for _, held := range left {
		a.note("job %s was left unfinished by an earlier process: finishing it first", held.Job)
		j, err := e.drive(ctx, held.Job)
		if err != nil {
			return nil, err
		}
		if j.Single() {
			a.note("job %s is %s %s", j.ID, j.State, j.Reason)
			continue
		}
		a.note("job %s is %s: %s applied, %s already, %s failed", j.ID, j.State, comma(j.Applied), comma(j.Already), comma(j.Failed))
	}
	return e, nil
}

// How often progress is looked at.
const lookEvery = 200 * time.Millisecond

// drive waits until a job is over, and shows its progress.
func (e *engine) drive(ctx context.Context, id string) (j job.Job, err error) {
	p := e.app.progress(id)
	defer p.end()
	var looked time.Time
	err = e.stack.Until(ctx, func() (bool, error) {
		if j, err = e.jobs.Find(ctx, id); err != nil {
			return false, err
		}
		if !j.State.Active() {
			p.set(j.Applied+j.Already+j.Failed, j.Total)
			return true, nil
		}
		if time.Since(looked) < lookEvery {
			return false, nil
		}
		looked = time.Now()
		t, err := e.jobs.TallyOf(ctx, j)
		if err == nil {
			p.set(t.Settled(), knownTotal(j))
		}
		return false, err
	})
	switch {
	case ctx.Err() != nil:
		return j, fmt.Errorf("interrupted while job %s was at work: nothing is lost, the same command again finishes it first", id)
	case errors.Is(err, local.ErrStuck):
		return j, fmt.Errorf("job %s does not get any further (%s): remove the cause and run again, which only does what is missing", id, e.last)
	}
	return j, err
}

// knownTotal is the total of a job, 0 while it is not known.
func knownTotal(j job.Job) int64 {
	if j.TotalKnown() {
		return j.Total
	}
	return 0
}

// fire delivers a Scheduler event and works until its job is over.
func (e *engine) fire(ctx context.Context, period once.Period, event json.RawMessage) (runReport, error) {
	return e.measure(ctx, func() (string, error) {
		if err := e.stack.Fire(ctx, event); err != nil {
			return "", err
		}
		rec, ok, err := e.jobs.FindPeriod(ctx, monthlypoint.Name, period)
		if err == nil && !ok {
			err = fmt.Errorf("the firing of %s opened nothing (%s)", period, e.last)
		}
		return rec.ScheduledJob, err
	})
}

// run opens a job as an operator does, and works until it is over.
func (e *engine) run(ctx context.Context, r api.StartMonthlyPoints) (runReport, error) {
	return e.measure(ctx, func() (string, error) {
		accepted, err := e.service().StartMonthlyPoints(ctx, r)
		return accepted.ID, err
	})
}

// service is the API's contract on the stack at work.
func (e *engine) service() api.Service { return api.NewService(e.stack.Env(), e.app.zone) }

// finish opens a job, works until it is over, and shows it.
func (e *engine) finish(ctx context.Context, t *target, open func(api.Service) (api.Accepted, error)) error {
	accepted, err := open(e.service())
	if err != nil {
		return t.explain(err)
	}
	if _, err := e.drive(ctx, accepted.ID); err != nil {
		return err
	}
	answer, err := t.Job(ctx, accepted.ID, "")
	if err != nil {
		return t.explainJob(err, accepted.ID)
	}
	if err := e.app.show(ctx, t, answer.Job); err != nil {
		return err
	}
	return t.ended(ctx, answer.Job)
}

// operator names who runs this command.
func operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "cli:" + u.Username
	}
	return "cli"
}

// measure opens a job, works until it is over, and tells what that took: seconds until the job was over, units and requests until its queues were empty too.
func (e *engine) measure(ctx context.Context, open func() (id string, err error)) (runReport, error) {
	begun, units, requests := time.Now(), e.spent(), e.stack.Stats().Requests
	id, err := open()
	if err != nil {
		return runReport{}, err
	}
	j, err := e.drive(ctx, id)
	if err != nil {
		return runReport{}, err
	}
	seconds := time.Since(begun).Seconds()
	if err := e.drain(ctx, j.Kind); err != nil {
		return runReport{}, err
	}
	r := reportOf(j)
	r.Seconds = seconds
	used := e.spent().Since(units)
	r.WriteUnits, r.ReadUnits, r.SQSRequests = used.Write, used.Read, e.stack.Stats().Requests-requests
	r.CostUSD = cost(used, r.SQSRequests)
	r.GrantsPerSecond = ratio(float64(j.Applied), seconds)
	if j.Failed > 0 {
		r.FailedByReason, err = e.jobs.FailuresByReason(ctx, j.ID)
	}
	return r, err
}

// drain waits until the queues of a kind are empty: what the last deliveries cost belongs to their run.
func (e *engine) drain(ctx context.Context, kind once.Kind) error {
	return e.stack.Until(ctx, func() (bool, error) {
		q := e.stack.Stats().Queues
		a, b := q[queue.Segments], q[queue.Name(kind)]
		return a.Visible+a.Hidden+b.Visible+b.Hidden == 0, nil
	})
}

// spent is what the stack and its operator have cost so far, without our looks.
func (e *engine) spent() store.Units {
	return e.aside.Meter().Spent().Since(e.aside.looks.Spent())
}
