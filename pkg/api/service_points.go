package api

import (
	"context"
	"net/http"
	"strings"

	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// Points implements Service. It reads all that the ledger has of the member for every page: an entry a month is a few units of reading, and the
// balance then fits the entries.
func (s *service) Points(ctx context.Context, q PointsQuery) (Points, error) {
	limit, err := limitOf(q.Limit)
	if err != nil {
		return Points{}, err
	}
	noSuchMember := problem(http.StatusNotFound, "there is no such member; ids are compared byte by byte", FieldError{"id", "no such member"})
	if once.CheckSubject(q.Member) != nil {
		return Points{}, noSuchMember
	}
	scope := cursorScope("points", q.Member)
	after := ""
	if q.Cursor != "" {
		at, err := openCursor(scope, q.Cursor, 1)
		if err != nil {
			return Points{}, err
		}
		after = at[0]
	}
	history, err := s.history(ctx, q.Member)
	if err != nil {
		return Points{}, s.errorOf(err)
	}
	if len(history.Entries)+len(history.Balances) == 0 {
		if _, known, err := s.catalog.Member(ctx, q.Member); err != nil {
			return Points{}, s.errorOf(err)
		} else if !known {
			return Points{}, noSuchMember
		}
	}
	p := Points{Member: q.Member, Points: history.Balances[monthlypoint.Balance].N, Entries: []Entry{}}
	for _, e := range history.Entries {
		if strings.Compare(e.Key, after) <= 0 {
			continue
		}
		if len(p.Entries) == limit {
			p.Next = sealCursor(scope, p.Entries[limit-1].Key)
			break
		}
		v := Entry{Key: e.Key, State: string(e.State), Amount: e.Amount, Job: e.Job, Scheduled: e.Scheduled, At: e.At}
		p.Entries = append(p.Entries, v)
	}
	return p, nil
}

// history is all that the ledger has of a member.
func (s *service) history(ctx context.Context, member string) (ledger.History, error) {
	all := ledger.History{Balances: map[string]ledger.Balance{}}
	for {
		page, err := s.points.History(ctx, member, all.Next, 0)
		if err != nil {
			return all, err
		}
		all.Entries = append(all.Entries, page.Entries...)
		for name, b := range page.Balances {
			all.Balances[name] = b
		}
		if all.Next = page.Next; all.Next == "" {
			return all, nil
		}
	}
}
