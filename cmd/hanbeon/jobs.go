package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
)

// jobsFlags are those of `jobs`.
type jobsFlags struct {
	kind, month, state string
	limit              int
	failures           bool
}

func (a *app) jobsCommand() *cobra.Command {
	var f jobsFlags
	c := &cobra.Command{
		Use:   "jobs [ID]",
		Short: "List jobs, newest first, or show one, or what failed in it",
		Example: `  hanbeon jobs --state FAILED
  hanbeon jobs monthly-point-01HTC4VQ3Y8J6W4E0P2K9R7S5T
  hanbeon jobs --failures monthly-point-01HTC4VQ3Y8J6W4E0P2K9R7S5T`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := a.checkJobs(f, args); err != nil {
				return err
			}
			t, err := a.target(ctx, a.open)
			if err != nil {
				return err
			}
			defer t.close()
			switch {
			case f.failures:
				return a.listFailures(ctx, t, args[0])
			case len(args) == 1:
				answer, err := t.Job(ctx, args[0], "")
				if err != nil {
					return t.explainJob(err, args[0])
				}
				return a.show(ctx, t, answer.Job)
			}
			return a.listJobs(ctx, t, f)
		}),
	}
	c.Flags().StringVar(&f.kind, "kind", "", "only this `kind`: monthly-point or til")
	c.Flags().StringVar(&f.month, "month", "", "only jobs created in this `month` (UTC) such as 2024-04")
	c.Flags().StringVar(&f.state, "state", "", "only this `state`: PENDING, RUNNING, COMPLETED, FAILED or CANCELLED")
	c.Flags().IntVar(&f.limit, "limit", 100, "at most this `number` of jobs, 0 for all")
	c.Flags().BoolVar(&f.failures, "failures", false, "list the subjects that the job settled as failed, with the reason")
	return c
}

// checkJobID refuses what cannot be the id of a job.
func checkJobID(id string) error {
	if _, _, err := job.ParseID(id); err != nil {
		return misuse("%w: see hanbeon jobs", err)
	}
	return nil
}

// checkJobs refuses what is wrong before anything is opened.
func (a *app) checkJobs(f jobsFlags, args []string) error {
	if len(args) == 1 {
		return checkJobID(args[0])
	}
	if f.failures {
		return misuse("--failures: of which job? hanbeon jobs --failures ID")
	}
	if f.month != "" {
		if p, err := once.ParsePeriod(f.month); err != nil || !p.IsMonth() {
			return misuse("--month %.40q: want a month such as 2024-04", f.month)
		}
	}
	states := []job.State{job.Pending, job.Running, job.Completed, job.Failed, job.Cancelled}
	if f.state != "" && !slices.Contains(states, job.State(f.state)) {
		return misuse("--state %.40q: want one of %v", f.state, states)
	}
	if f.kind != "" && !slices.ContainsFunc(a.kinds(nil), func(k job.Kind) bool { return string(k.Kind()) == f.kind }) {
		return misuse("--kind %.40q: there is no such kind", f.kind)
	}
	if f.limit < 0 {
		return misuse("--limit %d: want a number, or 0 for all", f.limit)
	}
	return nil
}

func (a *app) listJobs(ctx context.Context, t *target, f jobsFlags) error {
	list := api.JobList{Jobs: []api.Job{}}
	q := api.JobsQuery{Kind: f.kind, State: f.state, Month: f.month, Limit: api.MaxLimit}
	for {
		if f.limit > 0 {
			q.Limit = min(api.MaxLimit, f.limit-len(list.Jobs))
		}
		page, err := t.Jobs(ctx, q)
		if err != nil {
			return t.explain(err)
		}
		list.Jobs = append(list.Jobs, page.Jobs...)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
		if f.limit > 0 && len(list.Jobs) >= f.limit {
			a.note("there may be more jobs: --limit 0 lists all, --month those of one month")
			break
		}
	}
	slices.SortStableFunc(list.Jobs, func(x, y api.Job) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), cmp.Compare(y.ID, x.ID))
	})
	return a.print(list, func(w io.Writer) {
		for _, j := range list.Jobs {
			fmt.Fprintf(w, "%s  %-9s  %s  %s\n", j.ID, j.State, scopeOf(j), progressOf(j))
		}
		if len(list.Jobs) == 0 {
			fmt.Fprintln(w, "no jobs")
		}
	})
}

// listFailures prints each page as it comes: there may be millions.
func (a *app) listFailures(ctx context.Context, t *target, id string) error {
	none := true
	for q := (api.FailuresQuery{Job: id, Limit: api.MaxLimit}); ; {
		page, err := t.Failures(ctx, q)
		if err != nil {
			return t.explainJob(err, id)
		}
		for _, f := range page.Failures {
			none = false
			if err := a.print(f, func(w io.Writer) {
				fmt.Fprintf(w, "%s  %s  %s\n", f.At.In(a.zone).Format(time.RFC3339), f.Reason, f.Subject)
			}); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if none && !a.json {
		return a.print(nil, func(w io.Writer) { fmt.Fprintln(w, "no failures") })
	}
	return nil
}
