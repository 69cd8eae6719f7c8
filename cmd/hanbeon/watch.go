package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job until it is over",
		Long: `Shows how far a job has come, again and again until it is over: a bar on a terminal, lines elsewhere. The exit code is 1 if it did not end as COMPLETED, or with failures.
Interrupting this command leaves the job alone.

On a data file that no process works on there is nothing to follow: the job is shown as it stands.`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := checkJobID(args[0]); err != nil {
				return err
			}
			t, err := a.target(ctx, a.open)
			if err != nil {
				return err
			}
			defer t.close()
			if t.store != nil {
				answer, err := t.Job(ctx, args[0], "")
				if err != nil {
					return t.explainJob(err, args[0])
				}
				return a.show(ctx, t, answer.Job)
			}
			return a.finish(ctx, t, args[0])
		}),
	}
}

// finish follows a job to its end and shows it.
func (a *app) finish(ctx context.Context, t *target, id string) error {
	j, err := a.follow(ctx, t, id)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: job %s goes on without this command: hanbeon watch %s", id, id)
	}
	if err != nil {
		return err
	}
	if err := a.show(ctx, t, j); err != nil {
		return err
	}
	return t.ended(ctx, j)
}
