package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hanbeon/pkg/job"
)

func (a *app) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel an active job; what it has done stays done",
		Long: `Cancels an active job. What it has done stays done, nothing is done after this command has ended, and running the period again does what is missing.
Cancelling a cancelled job is success.`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			v, err := a.cancel(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(v, func(w io.Writer) { v.write(w, a.zone) })
		}),
	}
}

func (a *app) cancel(ctx context.Context, id string) (jobView, error) {
	if _, _, err := job.ParseID(id); err != nil {
		return jobView{}, misuse("%w: see hanbeon jobs", err)
	}
	s, err := a.open()
	if err != nil {
		return jobView{}, err
	}
	defer s.Close()
	jobs := a.jobsOn(s)
	switch j, done, err := jobs.Cancel(ctx, id); {
	case errors.Is(err, job.ErrNoSuchJob):
		return jobView{}, fmt.Errorf("%w in this data file: see hanbeon jobs", err)
	case errors.Is(err, job.ErrOver):
		return jobView{}, fmt.Errorf("job %s is %s%s and cannot be cancelled", id, j.State, endingOf(j))
	case err != nil || !done:
		return jobView{}, fmt.Errorf("cancel job %s: begun, not finished: repeat the command: %w", id, errors.Join(err, ctx.Err()))
	}
	return viewJob(ctx, jobs, id)
}

func endingOf(j job.Job) string {
	if j.State.Active() {
		return ", ending as " + string(j.Ending) + ","
	}
	return " already"
}
