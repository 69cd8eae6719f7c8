package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) cancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel an active job; what it has done stays done",
		Long: `Cancels an active job. What it has done stays done, nothing is done once it is CANCELLED, and running it again does what is missing. A call of the AI server that is under way
is stopped within half a minute, and its result refused. Cancelling a cancelled job is success.`,
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
			j, err := t.Cancel(ctx, args[0])
			if err != nil {
				return t.explainJob(err, args[0])
			}
			return a.show(ctx, t, j)
		}),
	}
}
