package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Ledger writes entries of one table.
type Ledger struct {
	store store.Store
	table store.Table
	now   func() time.Time
}

// New makes a ledger on a table. now gives the time that entries carry (UTC); it decides nothing.
func New(s store.Store, table store.Table, now func() time.Time) *Ledger {
	return &Ledger{s, table, now}
}

// The most postings of one transaction, which has room for one more write of the caller (the tally): two writes each for Apply and Fail (an entry and a balance, or an entry
// and a settlement of the caller), three for TakeOver (with a check of the caller).
const (
	MaxGroup    = (store.MaxWrites - 2) / 2 // 49
	MaxTakeOver = (store.MaxWrites - 2) / 3 // 32
)

// Refused says what was in the way of a transaction that therefore wrote nothing.
type Refused struct {
	Postings []InTheWay      // by position in the call
	With     []store.Refusal // the caller's own writes; Index is the position among them
}

// InTheWay is one posting in the way.
type InTheWay struct {
	Index   int
	Outcome Outcome // None: the entry was expected and is absent
	Why     string  // of Invalid; of any other: what is wrong with an entry that cannot be read or has no known state, "" if nothing is
}

func (r *Refused) Error() string {
	return fmt.Sprintf("ledger: refused by %d postings and %d writes of the caller", len(r.Postings), len(r.With))
}

// Busy says that contention outlasted the retries and nothing was written.
type Busy struct {
	Postings []int // positions whose items other transactions held
	With     []int // the same among the caller's own writes. Both empty: the table was throttled
	Err      error
}

func (b *Busy) Error() string { return "ledger: " + b.Err.Error() }

func (b *Busy) Unwrap() error { return b.Err }

// Apply inserts, in one transaction, the entry of each posting as applied and its effects, together with the caller's writes. Errors are
//
//	*Refused    nothing was written by this try
//	*Busy       nothing was written
//	any other   unknown; the same call again is safe: what was written refuses it as Duplicate
func (l *Ledger) Apply(ctx context.Context, c Cause, postings []once.Posting, with ...store.Write) error {
	return l.apply(ctx, c, postings, store.Absent(), with)
}

// TakeOver is Apply for keys whose entry is failed: the applied entry replaces it. The caller's writes must hold what makes it impossible for the job
// that is taking over to have counted the same subject before. A posting in the way with outcome None has no entry any more or never had one.
func (l *Ledger) TakeOver(ctx context.Context, c Cause, postings []once.Posting, with ...store.Write) error {
	return l.apply(ctx, c, postings, store.Equals("state", string(Failed)), with)
}

func (l *Ledger) apply(ctx context.Context, c Cause, postings []once.Posting, cond store.Cond, with []store.Write) error {
	t := transaction{cause: c}
	for i, p := range postings {
		if err := p.Check(); err != nil {
			return err
		}
		t.keys = append(t.keys, p.Key)
		e := l.entry(c, p.Key, Applied)
		for _, effect := range p.Effects {
			switch x := effect.(type) {
			case once.Add:
				e.Amount, e.Balance = x.N, x.Name
				t.add(i, store.Update(store.Key{Table: l.table, PK: x.Subject, SK: x.Name}, nil, map[string]int64{"n": x.N, "entries": 1}))
			case once.Put:
				doc, err := store.Encode(x.Doc)
				if err != nil {
					return fmt.Errorf("posting %s: %w", p.Key, err)
				}
				e.Doc = doc
			}
		}
		t.add(i, store.Put(itemKey(l.table, p.Key), e, cond))
	}
	return l.transact(ctx, t, with)
}

// Fail settles keys as failed, in one transaction with the caller's writes: it inserts the entry, or where failedBefore says so checks that it is failed already.
// A posting in the way with outcome FailedOnce, or None, wants the other of the two. Errors are those of Apply.
func (l *Ledger) Fail(ctx context.Context, c Cause, keys []once.Key, failedBefore []bool, with ...store.Write) error {
	t := transaction{cause: c, keys: keys}
	for i, k := range keys {
		if failedBefore[i] {
			t.add(i, store.Check(itemKey(l.table, k), store.Equals("state", string(Failed))))
		} else {
			t.add(i, store.Insert(itemKey(l.table, k), l.entry(c, k, Failed)))
		}
	}
	return l.transact(ctx, t, with)
}

func (l *Ledger) entry(c Cause, k once.Key, s State) Entry {
	return Entry{Key: k.String(), State: s, Digest: once.Digest(k, c.Inputs), Job: c.Job, Scheduled: c.Scheduled, At: l.now()}
}

// transaction remembers to which posting each write belongs.
type transaction struct {
	cause  Cause
	keys   []once.Key
	writes []store.Write
	owner  []int
}

func (t *transaction) add(posting int, w store.Write) {
	t.writes = append(t.writes, w)
	t.owner = append(t.owner, posting)
}

func (l *Ledger) transact(ctx context.Context, t transaction, with []store.Write) error {
	own := len(t.writes)
	err := l.store.Transact(ctx, append(t.writes, with...)...)
	var refused *store.Refused
	var busy *store.Busy
	switch {
	case errors.As(err, &refused):
		return t.explain(refused, own)
	case errors.As(err, &busy):
		b := &Busy{Err: err}
		for _, i := range busy.Conflicts {
			if i >= own {
				b.With = append(b.With, i-own)
			} else {
				b.Postings = append(b.Postings, t.owner[i])
			}
		}
		return b
	}
	return err
}

func (t *transaction) explain(refused *store.Refused, own int) error {
	out := &Refused{}
	at := map[int]int{} // posting -> position in out.Postings: entry and balance may both be in the way, and the entry decides
	for _, by := range refused.By {
		if by.Index >= own {
			by.Index -= own
			out.With = append(out.With, by)
			continue
		}
		i := t.owner[by.Index]
		w := InTheWay{Index: i, Outcome: Invalid, Why: by.Invalid}
		if by.Invalid == "" {
			w.Outcome, w.Why = judge(by.Old, t.keys[i], t.cause)
		}
		if n, ok := at[i]; !ok {
			at[i] = len(out.Postings)
			out.Postings = append(out.Postings, w)
		} else if out.Postings[n].Outcome == Invalid {
			out.Postings[n] = w
		}
	}
	return out
}
