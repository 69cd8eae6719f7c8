package audit

import (
	"context"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// members walks the ledger of a kind by its catalog.
func (c *checker) members(ctx context.Context, table store.Table) error {
	for segment := range job.Segments {
		for cursor := ""; ; {
			members, next, err := c.catalog.Members(ctx, segment, cursor, job.PageSubjects)
			if err != nil {
				return err
			}
			for _, m := range members {
				if err := c.subject(ctx, table, m.ID); err != nil {
					return err
				}
			}
			if cursor = next; cursor == "" {
				break
			}
		}
	}
	return nil
}

// strangers looks at subjects of a manifest that the catalog does not list any more.
func (c *checker) strangers(ctx context.Context, table store.Table, subjects []string) error {
	known, err := c.catalog.Known(ctx, subjects...)
	if err != nil {
		return err
	}
	for i, s := range subjects {
		if known[i] || c.outside[s] {
			continue
		}
		c.outside[s] = true
		if err := c.subject(ctx, table, s); err != nil {
			return err
		}
	}
	return nil
}

// subject checks I1 and I2 for one subject.
func (c *checker) subject(ctx context.Context, table store.Table, subject string) error {
	sums := map[string]ledger.Balance{}
	balances := map[string]ledger.Balance{}
	found := false
	q := store.Query{Table: table, PK: subject}
	for {
		page, err := c.store.Query(ctx, q)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			found = true
			if _, ok := it.Attrs["expires"]; ok {
				c.violated("I1 %s: has an expiry", it.Key)
			}
			if _, err := once.ParseKey(it.Key.SK); err != nil {
				var b ledger.Balance
				if err := it.Decode(&b); err != nil {
					c.violated("I2 %s: %v", it.Key, err)
				}
				balances[it.Key.SK] = b
				c.report.BalanceSum[it.Key.SK] += b.N
				continue
			}
			c.entry(it, sums)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for name := range sums {
		if _, ok := balances[name]; !ok {
			balances[name] = ledger.Balance{}
		}
	}
	for name, b := range balances {
		if b != sums[name] {
			c.violated("I2 %s/%s/%s: balance %d of %d entries, but its applied entries are %d and sum up to %d", table, subject, name, b.N, b.Entries, sums[name].Entries, sums[name].N)
		}
	}
	if found {
		c.report.Subjects++
		c.progress(c.report.Subjects)
	}
	return nil
}

func (c *checker) entry(it store.Item, sums map[string]ledger.Balance) {
	var e ledger.Entry
	if err := it.Decode(&e); err != nil {
		c.violated("I1 %s: %v", it.Key, err)
		return
	}
	k, err := once.ParseKey(e.Key)
	if err != nil || e.Key != it.Key.SK || k.Subject() != it.Key.PK {
		c.violated("I1 %s: holds the entry of key %q", it.Key, e.Key)
	}
	switch e.State {
	case ledger.Applied:
		c.report.Entries++
		c.applied[e.Job]++
		if e.Balance != "" {
			b := sums[e.Balance]
			sums[e.Balance] = ledger.Balance{N: b.N + e.Amount, Entries: b.Entries + 1}
			c.report.EntrySum[e.Balance] += e.Amount
		}
	case ledger.Failed:
		c.report.FailedEntries++
	default:
		c.violated("I1 %s: state %q", it.Key, e.State)
	}
}
