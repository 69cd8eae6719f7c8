package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
)

// jobView is a job as this command shows it.
type jobView struct {
	ID          string          `json:"id"`
	Kind        once.Kind       `json:"kind"`
	Period      once.Period     `json:"period,omitempty"`
	State       job.State       `json:"state"`
	Ending      job.State       `json:"ending,omitempty"` // the end that an active job is coming to
	Reason      string          `json:"reason,omitempty"` // of FAILED
	Inputs      json.RawMessage `json:"inputs"`
	RequestedBy string          `json:"requestedBy"`
	Fired       bool            `json:"fired"` // by the Scheduler or the calendar
	Rerun       bool            `json:"rerun"` // the period had been opened before

	Total          *int64           `json:"total"` // null until every segment has been listed
	Applied        int64            `json:"applied"`
	Already        int64            `json:"already"`
	Failed         int64            `json:"failed"`
	FailedByReason map[string]int64 `json:"failedByReason,omitempty"`

	CreatedAt  time.Time `json:"createdAt"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

func viewOf(j job.Job, c job.Counts) jobView {
	v := jobView{
		ID: j.ID, Kind: j.Kind, Period: j.Period, State: j.State, Ending: j.Ending, Reason: j.Reason, Inputs: json.RawMessage(j.Inputs),
		RequestedBy: j.RequestedBy, Fired: j.Fired, Rerun: j.Rerun, Applied: c.Applied, Already: c.Already, Failed: c.Failed,
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt,
	}
	if !j.State.Active() {
		v.Ending = ""
	}
	if j.TotalKnown() {
		v.Total = &j.Total
	}
	return v
}

// settled is how many subjects are decided, of how many.
func (v jobView) settled() string {
	done := v.Applied + v.Already + v.Failed
	switch {
	case v.Total == nil:
		return comma(done) + " settled, total not known yet"
	case *v.Total == 0:
		return "0 of 0"
	}
	return fmt.Sprintf("%s of %s settled (%d %%)", comma(done), comma(*v.Total), 100*done / *v.Total)
}

func (v jobView) write(w io.Writer, zone *time.Location) {
	end := v.Reason
	if v.Ending != "" {
		end = "(ending as " + string(v.Ending) + ")"
	}
	row(w, "job", "%s %s %s", v.ID, v.State, end)
	row(w, "period", "%s, inputs %s", v.Period, v.Inputs)
	row(w, "requested by", "%s", v.RequestedBy)
	row(w, "progress", "%s: %s applied, %s already, %s failed", v.settled(), comma(v.Applied), comma(v.Already), comma(v.Failed))
	if len(v.FailedByReason) > 0 {
		row(w, "failed", "%s", byReason(v.FailedByReason))
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{"created", v.CreatedAt}, {"started", v.StartedAt}, {"finished", v.FinishedAt}} {
		if !t.at.IsZero() {
			row(w, t.name, "%s", t.at.In(zone).Format(time.RFC3339))
		}
	}
	if v.State.Active() {
		fmt.Fprintf(w, "no process works on this data file: `hanbeon local` or `hanbeon run` finishes the job\n")
	} else if v.Failed > 0 || v.State != job.Completed {
		fmt.Fprintf(w, "run the period again to pick up what is missing: hanbeon run %s --period %s\n", v.Kind, v.Period)
	}
}

// find reads one job with its counts.
func (a *app) find(ctx context.Context, id string) (jobView, error) {
	if _, _, err := job.ParseID(id); err != nil {
		return jobView{}, misuse("%w: see hanbeon jobs", err)
	}
	s, err := a.open()
	if err != nil {
		return jobView{}, err
	}
	defer s.Close()
	return viewJob(ctx, a.jobsOn(s), id)
}

func viewJob(ctx context.Context, jobs *job.Store, id string) (jobView, error) {
	j, err := jobs.Find(ctx, id)
	if errors.Is(err, job.ErrNoSuchJob) {
		return jobView{}, fmt.Errorf("%w in this data file: see hanbeon jobs", err)
	}
	if err != nil {
		return jobView{}, err
	}
	c, err := jobs.CountsOf(ctx, j)
	if err != nil {
		return jobView{}, err
	}
	v := viewOf(j, c)
	if c.Failed > 0 {
		v.FailedByReason, err = jobs.FailuresByReason(ctx, id)
	}
	return v, err
}

// jobsFlags are those of `jobs`.
type jobsFlags struct{ kind, month, state string }

func (a *app) jobsCommand() *cobra.Command {
	var f jobsFlags
	c := &cobra.Command{
		Use:     "jobs [ID]",
		Short:   "List jobs, newest first, or show one",
		Example: "  hanbeon jobs --state FAILED\n  hanbeon jobs monthly-point-01HTC4VQ3Y8J6W4E0P2K9R7S5T",
		Args:    cobra.MaximumNArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if len(args) == 1 {
				v, err := a.find(ctx, args[0])
				if err != nil {
					return err
				}
				return a.print(v, func(w io.Writer) { v.write(w, a.zone) })
			}
			return a.listJobs(ctx, f)
		}),
	}
	c.Flags().StringVar(&f.kind, "kind", "", "only this `kind`")
	c.Flags().StringVar(&f.month, "month", "", "only jobs created in this `month` (UTC) such as 2024-04")
	c.Flags().StringVar(&f.state, "state", "", "only this `state`: PENDING, RUNNING, COMPLETED, FAILED or CANCELLED")
	return c
}

func (a *app) listJobs(ctx context.Context, f jobsFlags) error {
	months, err := a.months(f.month)
	if err != nil {
		return err
	}
	states := []job.State{job.Pending, job.Running, job.Completed, job.Failed, job.Cancelled}
	if f.state != "" && !slices.Contains(states, job.State(f.state)) {
		return misuse("--state %.40q: want one of %v", f.state, states)
	}
	known := a.kinds(nil)
	if f.kind != "" {
		known = slices.DeleteFunc(known, func(k job.Kind) bool { return string(k.Kind()) != f.kind })
	}
	if len(known) == 0 {
		return misuse("--kind %.40q: there is no such kind", f.kind)
	}
	s, err := a.open()
	if err != nil {
		return err
	}
	defer s.Close()
	list := []jobView{}
	for _, k := range known {
		for _, month := range months {
			if list, err = appendJobs(ctx, a.jobsOn(s), list, k.Kind(), month, job.State(f.state)); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(list, func(x, y jobView) int { return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID, x.ID)) })
	return a.print(map[string]any{"jobs": list}, func(w io.Writer) {
		for _, v := range list {
			fmt.Fprintf(w, "%s  %-9s  %s  %s\n", v.ID, v.State, v.Period, v.settled())
		}
		if len(list) == 0 {
			fmt.Fprintln(w, "no jobs")
		}
	})
}

// months are those in which a job that still exists may have been created, the newest first; or the one that was asked for.
func (a *app) months(only string) ([]time.Time, error) {
	if only != "" {
		p, err := once.ParsePeriod(only)
		if err != nil || !p.IsMonth() {
			return nil, misuse("--month %.40q: want a month such as 2024-04", only)
		}
		return []time.Time{p.Start(time.UTC)}, nil
	}
	var out []time.Time
	now := a.now()
	oldest := once.MonthOf(now.Add(-job.Retention), time.UTC)
	for p := once.MonthOf(now.AddDate(0, 0, 1), time.UTC); p >= oldest; p = p.Previous() {
		out = append(out, p.Start(time.UTC))
	}
	return out, nil
}

func appendJobs(ctx context.Context, jobs *job.Store, list []jobView, kind once.Kind, month time.Time, state job.State) ([]jobView, error) {
	for cursor := ""; ; {
		page, next, err := jobs.List(ctx, kind, month, 0, cursor)
		if err != nil {
			return nil, err
		}
		for _, j := range page {
			if state != "" && j.State != state {
				continue
			}
			c, err := jobs.CountsOf(ctx, j)
			if err != nil {
				return nil, err
			}
			list = append(list, viewOf(j, c))
		}
		if cursor = next; cursor == "" {
			return list, nil
		}
	}
}
