package audit

import (
	"context"
	"reflect"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// book is the ledger of a kind, and what tells the content that its entries must have.
type book struct {
	table store.Table
	kind  job.Bulk
	jobs  map[string]job.Job // within their retention, by id: the entries of older ones can only be added up
}

// members walks the ledger of a kind by its catalog.
func (c *checker) members(ctx context.Context, b book) error {
	for segment := range job.Segments {
		for cursor := ""; ; {
			members, next, err := c.catalog.Members(ctx, segment, cursor, job.PageSubjects)
			if err != nil {
				return err
			}
			for _, m := range members {
				if err := c.subject(ctx, b, m.ID); err != nil {
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
func (c *checker) strangers(ctx context.Context, b book, subjects []string) error {
	known, err := c.catalog.Known(ctx, subjects...)
	if err != nil {
		return err
	}
	for i, s := range subjects {
		if known[i] || c.outside[s] {
			continue
		}
		c.outside[s] = true
		if err := c.subject(ctx, b, s); err != nil {
			return err
		}
	}
	return nil
}

// subject checks I1 and I2 for one subject.
func (c *checker) subject(ctx context.Context, in book, subject string) error {
	sums := map[string]ledger.Balance{}
	balances := map[string]ledger.Balance{}
	found := false
	q := store.Query{Table: in.table, PK: subject}
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
			c.entry(ctx, in, it, sums)
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
			c.violated("I2 %s/%s/%s: balance %d of %d entries, but its applied entries are %d and sum up to %d", in.table, subject, name, b.N, b.Entries, sums[name].Entries, sums[name].N)
		}
	}
	if found {
		c.report.Subjects++
		c.progress(c.report.Subjects)
	}
	return nil
}

func (c *checker) entry(ctx context.Context, in book, it store.Item, sums map[string]ledger.Balance) {
	var e ledger.Entry
	if err := it.Decode(&e); err != nil {
		c.violated("I1 %s: %v", it.Key, err)
		return
	}
	k, err := once.ParseKey(e.Key)
	if err != nil || e.Key != it.Key.SK || k.Subject() != it.Key.PK {
		c.violated("I1 %s: holds the entry of key %q", it.Key, e.Key)
	} else if j, ok := in.jobs[e.Job]; ok {
		c.content(ctx, in.kind, j, k, e, it)
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

// content compares an entry with what its job had to write: the digest of its inputs, and while the effects can still be told, these.
func (c *checker) content(ctx context.Context, kind job.Bulk, j job.Job, k once.Key, e ledger.Entry, it store.Item) {
	if k.Kind() != j.Kind || k.Scope() != j.Scope {
		c.violated("I1 %s: is of job %s, whose keys are %s:%s", it.Key, j.ID, j.Kind, j.Scope)
		return
	}
	if e.Digest != once.Digest(k, j.Inputs) {
		c.violated("I1 %s: its digest is not that of the inputs %s of job %s", it.Key, j.Inputs, j.ID)
	}
	if e.State != ledger.Applied {
		return
	}
	effects, err := effectsOf(ctx, kind, j, k.Subject())
	if err != nil {
		return // what they are made of is gone, or out of reach: that breaks no invariant
	}
	var want ledger.Entry
	for _, effect := range effects {
		switch x := effect.(type) {
		case once.Add:
			want.Amount, want.Balance = x.N, x.Name
		case once.Put:
			if want.Doc, err = store.Encode(x.Doc); err != nil {
				return
			}
		}
	}
	if e.Amount != want.Amount || e.Balance != want.Balance {
		c.violated("I1 %s: adds %d to %q, but job %s adds %d to %q", it.Key, e.Amount, e.Balance, j.ID, want.Amount, want.Balance)
	}
	doc, _ := it.Attrs["doc"].(map[string]any) // as the store has it: decoding would make floats of its numbers
	if (len(doc) > 0 || len(want.Doc) > 0) && !reflect.DeepEqual(store.Attrs(doc), want.Doc) {
		c.violated("I1 %s: holds another document than job %s puts there", it.Key, j.ID)
	}
}

func effectsOf(ctx context.Context, kind job.Bulk, j job.Job, subject string) (out []once.Effect, err error) {
	defer job.CatchPanic(&err)
	return kind.Effects(ctx, j, subject)
}
