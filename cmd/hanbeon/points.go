package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/once"
)

func (a *app) pointsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "points MEMBER",
		Short:   "Show the balance of a member and every entry behind it",
		Example: "  hanbeon points member-000042",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			if err := once.CheckSubject(args[0]); err != nil {
				return misuse("MEMBER: %w", err)
			}
			t, err := a.target(ctx, a.open)
			if err != nil {
				return err
			}
			defer t.close()
			p, err := t.points(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(p, func(w io.Writer) {
				row(w, "member", "%s", p.Member)
				row(w, "points", "%s", comma(p.Points))
				for _, e := range p.Entries {
					fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", e.At.In(a.zone).Format(time.RFC3339), e.State, comma(e.Amount), e.Key, e.Job)
				}
			})
		}),
	}
}

// points reads every page of a member.
func (t *target) points(ctx context.Context, member string) (api.Points, error) {
	all := api.Points{Entries: []api.Entry{}}
	for q := (api.PointsQuery{Member: member, Limit: api.MaxLimit}); ; {
		page, err := t.Points(ctx, q)
		if notFound(err) {
			return all, fmt.Errorf("member %s is not in %s: ids are compared byte by byte, so mind upper and lower case", member, t.where)
		}
		if err != nil {
			return all, t.explain(err)
		}
		all.Member, all.Points, all.Entries = page.Member, page.Points, append(all.Entries, page.Entries...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}
