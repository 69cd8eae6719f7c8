package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Show how far a job has come",
		Long: `Shows how far a job has come. A data file belongs to one process: nobody works on it while this command looks, so it shows the state as it stands and ends.
Commands that work in their own process (run, demo, local) show progress themselves.`,
		Args: cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			v, err := a.find(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(v, func(w io.Writer) { v.write(w, a.zone) })
		}),
	}
}
