package reaper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// Reaper settles what died.
type Reaper struct {
	env        job.Env
	calendar   job.Calendar
	kinds      job.Kinds
	jobs       *job.Store
	dispatcher *dispatch.Dispatcher
}

// New makes a Reaper for these kinds.
func New(env job.Env, calendar job.Calendar, kinds ...job.Kind) *Reaper {
	return &Reaper{
		env: env, calendar: calendar, kinds: job.NewKinds(kinds...), jobs: job.NewStore(env.Store, env.Now),
		dispatcher: dispatch.NewDispatcher(env, kinds...),
	}
}

// margin is the time that one job may take; with less left the rest waits for the next run.
const margin = 10 * time.Second

// Handle is one run: every active job, then every calendar. What fails for one does not stop the others; the error joins all failures. Safe in parallel and at any time.
func (r *Reaper) Handle(ctx context.Context) error {
	var errs []error
	slots, err := r.jobs.Slots(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	// From somewhere else each time: if time runs out, it is not always the same jobs that wait.
	if n := len(slots); n > 0 {
		first := rand.IntN(n)
		slots = append(slots[first:n:n], slots[:first]...)
	}
	stalled := 0
	for _, held := range slots {
		if job.Left(ctx) < margin {
			errs = append(errs, errors.New("time ran out, the rest waits for the next run"))
			break
		}
		action, err := r.look(ctx, held)
		if slices.Contains(stalling, action) {
			stalled++
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("job %s: %s: %w", held.Job, action, err))
		}
	}
	r.env.Metric("", "StalledJobs", float64(stalled))
	errs = append(errs, r.watchCalendars(ctx)...)
	if err := errors.Join(errs...); err != nil {
		r.env.Log.ErrorContext(ctx, "reaper run with failures", "active", len(slots), "stalled", stalled, "error", err)
		return err
	}
	r.env.Log.InfoContext(ctx, "reaper run", "active", len(slots), "stalled", stalled)
	return nil
}

// stalling are the actions on jobs that did not get on by themselves.
var stalling = []Action{SendSubjects, SendSegments, SendMessage, Exhaust, FailFanOut, FailUnsent, Requeue, FailOrphan}

// look decides about one slot and acts. A panic is the failure of this slot alone.
func (r *Reaper) look(ctx context.Context, held job.Slot) (action Action, err error) {
	defer job.CatchPanic(&err)
	s, err := r.snapshot(ctx, held)
	if err != nil {
		return "snapshot", err
	}
	action = Decide(s, r.env.Now())
	if action == Leave {
		return action, nil
	}
	err = r.act(ctx, action, s, held)
	if action != FreeSlot { // a job that ended since its slot was listed is nothing to tell
		r.env.Log.InfoContext(ctx, "reaper acted", "kind", s.Job.Kind, "job", held.Job, "slot", held.Slot, "action", action, "error", err)
	}
	return action, err
}

func (r *Reaper) snapshot(ctx context.Context, held job.Slot) (Snapshot, error) {
	j, err := r.jobs.Find(ctx, held.Job)
	if errors.Is(err, job.ErrNoSuchJob) {
		return Snapshot{Job: job.Job{ID: held.Job}}, nil
	}
	s := Snapshot{Job: j}
	if err != nil || !j.State.Active() || j.Ending != "" || j.Single() {
		return s, err
	}
	if s.Segments, err = r.jobs.SegmentsOf(ctx, j); err != nil {
		return s, err
	}
	s.Tally, err = r.jobs.TallyOf(ctx, j)
	return s, err
}

func (r *Reaper) act(ctx context.Context, a Action, s Snapshot, held job.Slot) error {
	j := s.Job
	switch a {
	case FreeSlot:
		freed, err := r.jobs.FreeSlot(ctx, held)
		if freed {
			r.env.Log.ErrorContext(ctx, "slot was held by a job that is over or gone: was a table restored?", "job", held.Job, "slot", held.Slot)
		}
		return err
	case Finish:
		_, _, err := r.jobs.Finish(ctx, j)
		return err
	case Close:
		_, err := r.jobs.Close(ctx, j.ID)
		return err
	case SendMessage:
		return r.resend(ctx, j, job.ResentMessage, func() error { return dispatch.SendSingle(ctx, r.env.Queue, j) })
	case Requeue:
		if ok, err := r.jobs.Requeue(ctx, j); !ok || err != nil {
			return err
		}
		return dispatch.SendSingle(ctx, r.env.Queue, j)
	case FailOrphan:
		_, err := r.jobs.Orphan(ctx, j, job.ReasonOrphaned)
		return err
	case FailUnsent:
		if j.Single() {
			_, err := r.jobs.Orphan(ctx, j, job.ReasonNeverStarted)
			return err
		}
		_, _, err := r.jobs.Fail(ctx, j, job.ReasonNeverStarted)
		return err
	case FailFanOut:
		_, _, err := r.jobs.Fail(ctx, j, job.ReasonFanOut)
		return err
	case SendSegments:
		return r.resend(ctx, j, job.ResentSegments, func() error { return dispatch.SendSegments(ctx, r.env.Queue, j, s.Segments) })
	case SendSubjects:
		return r.resend(ctx, j, job.ResentSubjects, func() error { return r.sendUnsettled(ctx, j) })
	case Exhaust:
		if j.SubjectResends <= MaxResends {
			// Counted like a re-send, so that a run that does not get through goes on at the next instead of waiting for the job to stall again.
			if ok, err := r.jobs.CountResend(ctx, j, job.ResentSubjects); !ok || err != nil {
				return err
			}
		}
		return r.exhaust(ctx, j)
	}
	return fmt.Errorf("unknown action %q", a)
}

// resend counts a re-send, and makes it. One that did not get through, because the queue refuses or time runs out on the way through a large manifest, is taken back, so that nobody is given up who was never sent
// again: after the pause the next finds settled what this one has sent, and gets further. A process that dies in between leaves it counted, and a job that is no better off after Patience gets no more
// allowances: both bound what a job can cost.
func (r *Reaper) resend(ctx context.Context, j job.Job, what job.Resent, send func() error) error {
	if ok, err := r.jobs.CountResend(ctx, j, what); !ok || err != nil {
		return err
	}
	err := send()
	if err != nil && r.env.Now().Sub(j.CreatedAt) < Patience {
		err = errors.Join(err, r.jobs.UncountResend(ctx, j, what))
	}
	return err
}

// sendUnsettled sends the messages of all subjects of the manifest that are not settled.
func (r *Reaper) sendUnsettled(ctx context.Context, j job.Job) error {
	kind, err := r.kinds.Bulk(j.Kind)
	if err != nil {
		return err
	}
	return r.unsettled(ctx, j, kind, func(subjects []string) error {
		return dispatch.SendSubjects(ctx, r.env.Queue, j, subjects)
	})
}

// unsettled calls f with the unsettled subjects of each page of the manifest: those without an applied entry of this job and without a settlement.
func (r *Reaper) unsettled(ctx context.Context, j job.Job, kind job.Bulk, f func([]string) error) error {
	entries := ledger.New(r.env.Store, kind.Ledger(), r.env.Now)
	return r.jobs.ManifestFrom(ctx, j, rand.IntN(max(1, j.Segments)), func(_ int, p job.Page) error {
		if len(p.Subjects) == 0 {
			return nil
		}
		if job.Left(ctx) < margin {
			return errors.New("time ran out on the way through the manifest")
		}
		settled, err := r.jobs.Settlements(ctx, j, p.Subjects...)
		if err != nil {
			return err
		}
		keys := make([]once.Key, len(p.Subjects))
		for i, s := range p.Subjects {
			if keys[i], err = once.NewKey(j.Kind, j.Scope, s); err != nil {
				return err
			}
		}
		how, err := entries.Standing(ctx, ledger.Cause{Job: j.ID, Inputs: j.Inputs}, keys...)
		if err != nil {
			return err
		}
		var subjects []string
		for i, s := range p.Subjects {
			if settled[i].Outcome == "" && how[i] != ledger.Duplicate {
				subjects = append(subjects, s)
			}
		}
		if len(subjects) == 0 {
			return nil
		}
		return f(subjects)
	})
}

// Recover sends at once everything unsettled of every active job, and hands on single jobs without waiting for their leases. It is for the start of a process whose queue is its own memory and so is
// known to be empty, and whose workers were those of a process that is dead; on AWS a queue survives, and Handle waits.
func (r *Reaper) Recover(ctx context.Context) error {
	slots, err := r.jobs.Slots(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, held := range slots {
		s, err := r.snapshot(ctx, held)
		switch {
		case err != nil:
		case !s.Job.State.Active():
			err = r.act(ctx, FreeSlot, s, held)
		case s.Job.Single():
			err = r.act(ctx, recoverSingle(s.Job), s, held)
		case s.Job.Ending != "":
			err = r.act(ctx, Finish, s, held)
		default:
			if err = dispatch.SendSegments(ctx, r.env.Queue, s.Job, s.Segments); err == nil && s.Job.State == job.Running {
				err = r.sendUnsettled(ctx, s.Job)
			}
			if err == nil {
				_, err = r.jobs.Close(ctx, s.Job.ID)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("recover job %s: %w", held.Job, err))
		}
	}
	return errors.Join(errs...)
}

// recoverSingle is what a process does at its start about a single job that an earlier one left: its worker is dead, whatever the lease says.
func recoverSingle(j job.Job) Action {
	switch {
	case j.State == job.Pending:
		return SendMessage
	case j.Attempt < j.MaxAttempts:
		return Requeue
	}
	return FailOrphan
}
