package reaper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
)

const (
	// Grace is how long after its scheduled time a period may wait for its firing before the reaper opens it.
	Grace = 15 * time.Minute

	// periodsBack is how many of the latest due periods are looked at. Earlier ones are an operator's business.
	periodsBack = 3
)

// watchCalendars opens periods whose firing never came and reports those that are overdue. It goes by each kind's calendar, not by records: a firing that never came left none.
// The metric PeriodOverdue is sent in every run, also as 0, so that an alarm on missing data notices a dead reaper.
func (r *Reaper) watchCalendars(ctx context.Context) []error {
	var errs []error
	names := make([]once.Kind, 0, len(r.kinds))
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		kind, err := r.kinds.Scheduled(name)
		if err != nil {
			continue // a kind without a calendar
		}
		overdue := 0
		due := kind.Calendar(r.calendar.Start, r.env.Now())
		for _, d := range due[max(0, len(due)-periodsBack):] {
			late, err := r.watch(ctx, kind, d)
			if err != nil {
				errs = append(errs, fmt.Errorf("period %s of %s: %w", d.Period, name, err))
			}
			if late {
				overdue++
			}
		}
		r.env.Metric(name, "PeriodOverdue", float64(overdue))
	}
	return errs
}

func (r *Reaper) watch(ctx context.Context, kind job.Scheduled, d job.Due) (overdue bool, err error) {
	rec, _, err := r.jobs.FindPeriod(ctx, kind.Kind(), d.Period)
	if err != nil {
		return false, err
	}
	now := r.env.Now()
	log := r.env.Log.With("kind", kind.Kind(), "period", d.Period, "scheduled", d.Scheduled)
	overdue = rec.ClosedBy == "" && now.After(d.Deadline)
	if overdue {
		log.ErrorContext(ctx, "period overdue: not closed", "deadline", d.Deadline, "lastJob", rec.LastJob,
			"hint", fmt.Sprintf("hanbeon run %s --period %s", kind.Kind(), d.Period))
	}
	if rec.LastJob != "" || now.Before(d.Scheduled.Add(Grace)) {
		return overdue, nil
	}
	if !r.calendar.AutoOpen {
		log.WarnContext(ctx, "period was never fired, and opening by the reaper is off")
		return overdue, nil
	}
	input, ok := r.calendar.Inputs[kind.Kind()]
	if !ok {
		return overdue, fmt.Errorf("never fired, and the reaper has no input to open it with")
	}
	res, err := r.dispatcher.FireDue(ctx, kind, d, input)
	if err == nil {
		log.WarnContext(ctx, "firing never came: opened by the reaper", "job", res.Job.ID)
	}
	return overdue, err
}
