package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
)

// A job without subjects is one call: it has attempts instead of counts.
func single(j api.Job) bool { return j.MaxAttempts > 0 }

// scopeOf is what a job is about: its slot without the kind.
func scopeOf(j api.Job) string { return strings.TrimPrefix(j.Slot, j.Kind+":") }

// progressOf says in a few words how far a job has come.
func progressOf(j api.Job) string {
	if single(j) {
		text := fmt.Sprintf("attempt %d of %d", j.Attempt, j.MaxAttempts)
		if j.LastError != "" {
			text += ", last error " + j.LastError
		}
		return text
	}
	done := j.Applied + j.Already + j.Failed
	switch {
	case j.Total == nil:
		return comma(done) + " settled, total not known yet"
	case *j.Total == 0:
		return "0 of 0"
	}
	return fmt.Sprintf("%s of %s settled (%d %%)", comma(done), comma(*j.Total), 100*done / *j.Total)
}

// show prints one job, with what is to be done about it.
func (a *app) show(ctx context.Context, t *target, j api.Job) error {
	reasons := ""
	if j.Failed > 0 && !a.json {
		var err error
		if reasons, err = t.reasons(ctx, j.ID); err != nil {
			return err
		}
	}
	return a.print(j, func(w io.Writer) {
		writeJob(w, j, reasons, a.zone)
		if hint := t.hint(j); hint != "" {
			fmt.Fprintln(w, hint)
		}
	})
}

func writeJob(w io.Writer, j api.Job, reasons string, zone *time.Location) {
	end := j.Reason
	if j.Ending != "" {
		end = "(ending as " + j.Ending + ")"
	}
	row(w, "job", "%s %s %s", j.ID, j.State, end)
	if single(j) {
		row(w, "target", "%s", scopeOf(j))
		row(w, "requested by", "%s", j.RequestedBy)
		row(w, "progress", "%s", progressOf(j))
	} else {
		row(w, "period", "%s, inputs %s", j.Period, j.Inputs)
		row(w, "requested by", "%s", j.RequestedBy)
		row(w, "progress", "%s: %s applied, %s already, %s failed", progressOf(j), comma(j.Applied), comma(j.Already), comma(j.Failed))
	}
	if reasons != "" {
		row(w, "failed", "%s", reasons)
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"created", j.CreatedAt}, {"started", j.StartedAt}, {"finished", j.FinishedAt}} {
		if !t.at.IsZero() {
			row(w, t.name, "%s", t.at.In(zone).Format(time.RFC3339))
		}
	}
}

// reasons counts the failures of a job by reason, if there are not more than one page of them.
func (t *target) reasons(ctx context.Context, id string) (string, error) {
	page, err := t.Failures(ctx, api.FailuresQuery{Job: id, Limit: api.MaxLimit})
	if err != nil {
		return "", t.explainJob(err, id)
	}
	if page.Next != "" {
		return "see hanbeon jobs --failures " + id, nil
	}
	by := map[string]int64{}
	for _, f := range page.Failures {
		by[f.Reason]++
	}
	return byReason(by), nil
}

// hint says what to do about a job; "" for nothing.
func (t *target) hint(j api.Job) string {
	switch {
	case j.Active() && t.store != nil:
		return "no process works on this data file: `hanbeon local` or `hanbeon run` finishes the job"
	case j.Active():
		return "hanbeon watch " + j.ID + " follows it"
	case !single(j) && (j.Failed > 0 || j.State != string(job.Completed)):
		return fmt.Sprintf("run the period again to pick up what is missing: hanbeon run %s --period %s", j.Kind, j.Period)
	case single(j) && j.State == string(job.Completed):
		return "its result: hanbeon til show " + strings.ReplaceAll(scopeOf(j), ":", " ")
	case single(j):
		return "ask again: hanbeon til request " + strings.ReplaceAll(scopeOf(j), ":", " ")
	}
	return ""
}

// ended is the error of a job that is over and did not do all it was to do, nil otherwise.
func (t *target) ended(ctx context.Context, j api.Job) error {
	switch {
	case j.Active():
		return nil
	case j.State != string(job.Completed):
		return fmt.Errorf("job %s is %s %s: run it again, which only does what is missing", j.ID, j.State, j.Reason)
	case j.Failed > 0:
		reasons, err := t.reasons(ctx, j.ID)
		if err != nil {
			return err
		}
		return fmt.Errorf("%s of job %s failed (%s): remove the cause and run it again, which only does what is missing", number(j.Failed, "member"), j.ID, reasons)
	}
	return nil
}
