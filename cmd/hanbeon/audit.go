package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Check every invariant on the whole data file",
		Long: `Checks on the whole data file that every balance is the sum of its entries, every finished job accounts for every member once, and every slot belongs to an active job.
Nothing is changed. The exit code is 1 if an invariant is broken.`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			s, err := a.open()
			if err != nil {
				return err
			}
			defer s.Close()
			r, err := a.audit(ctx, s, a.now())
			if err != nil {
				return err
			}
			err = a.print(r, func(w io.Writer) {
				row(w, "jobs", "%s, %s active", comma(int64(r.Jobs)), comma(int64(r.Active)))
				writeSums(w, r)
				if r.FailedEntries > 0 {
					row(w, "failed", "%s that a later run may take over", comma(r.FailedEntries)+" entries")
				}
				for _, v := range r.Violations {
					row(w, "broken", "%s", v)
				}
				if r.OK() {
					row(w, "invariants", "ok")
				}
			})
			return errors.Join(err, broken(a.data, r.Violations))
		}),
	}
}
