package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// pointsView is what the ledger has of a member.
type pointsView struct {
	Member  string         `json:"member"`
	Points  int64          `json:"points"`
	Entries []ledger.Entry `json:"entries"`
}

func (a *app) pointsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "points MEMBER",
		Short:   "Show the balance of a member and every entry behind it",
		Example: "  hanbeon points member-000042",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			v, err := a.points(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(v, func(w io.Writer) {
				row(w, "member", "%s", v.Member)
				row(w, "points", "%s", comma(v.Points))
				for _, e := range v.Entries {
					fmt.Fprintf(w, "%s  %s  %s  %s  %s\n", e.At.In(a.zone).Format(time.RFC3339), e.State, comma(e.Amount), e.Key, e.Job)
				}
			})
		}),
	}
}

func (a *app) points(ctx context.Context, member string) (pointsView, error) {
	if err := once.CheckSubject(member); err != nil {
		return pointsView{}, misuse("MEMBER: %w", err)
	}
	s, err := a.open()
	if err != nil {
		return pointsView{}, err
	}
	defer s.Close()
	v := pointsView{Member: member, Entries: []ledger.Entry{}}
	found := false
	l := ledger.New(s, monthlypoint.Table, a.clock)
	for cursor := ""; ; {
		page, err := l.History(ctx, member, cursor, 0)
		if err != nil {
			return v, err
		}
		v.Entries = append(v.Entries, page.Entries...)
		if b, ok := page.Balances[monthlypoint.Balance]; ok {
			v.Points = b.N
		}
		found = found || len(page.Entries)+len(page.Balances) > 0
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !found {
		if _, found, err = catalog.New(s).Member(ctx, member); err == nil && !found {
			err = fmt.Errorf("member %s is not in %s: ids are compared byte by byte, so mind upper and lower case", member, a.data)
		}
	}
	return v, err
}
