package ledger_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// points is the table of the ledger under test, tally one of a caller.
const (
	points store.Table = "points"
	tally  store.Table = "tally"
)

// epoch is when the tests play.
var epoch = time.Date(2024, 4, 1, 0, 30, 0, 0, time.UTC)

func clock() time.Time { return epoch }

func open(t testing.TB) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{points}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func key(t testing.TB, period, subject string) once.Key {
	t.Helper()
	k, err := once.NewKey("monthly-point", period, subject)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// grant is the posting that adds points to a member in a period.
func grant(t testing.TB, period, member string, n int64) once.Posting {
	t.Helper()
	return once.Posting{Key: key(t, period, member), Effects: []once.Effect{once.Add{Subject: member, Name: "points", N: n}}}
}

func grants(t testing.TB, period string, n int64, members ...string) []once.Posting {
	t.Helper()
	out := make([]once.Posting, len(members))
	for i, m := range members {
		out[i] = grant(t, period, m, n)
	}
	return out
}

func keysOf(postings []once.Posting) []once.Key {
	out := make([]once.Key, len(postings))
	for i, p := range postings {
		out[i] = p.Key
	}
	return out
}

// by is the cause of a job that grants an amount.
func by(job string, amount int64) ledger.Cause {
	return ledger.Cause{Job: job, Inputs: fmt.Sprintf(`{"amount":%d}`, amount), Scheduled: epoch}
}

// count is a write of the caller: what a job counts in the same transaction.
func count(job string, n int64) store.Write {
	return store.Update(countKey(job), nil, map[string]int64{"n": n})
}

func countKey(job string) store.Key { return store.Key{Table: tally, PK: job, SK: "n"} }

func items(t testing.TB, s store.Store, table store.Table, pks ...string) []store.Item {
	t.Helper()
	var out []store.Item
	for _, pk := range pks {
		page, err := s.Query(t.Context(), store.Query{Table: table, PK: pk})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, page.Items...)
	}
	return out
}

// books is everything that the tests write for these members and jobs.
func books(t testing.TB, s store.Store, pks ...string) []store.Item {
	t.Helper()
	return append(items(t, s, points, pks...), items(t, s, tally, pks...)...)
}

// refused takes the refusal out of an error, in the order of postings.
func refused(t testing.TB, err error) *ledger.Refused {
	t.Helper()
	var r *ledger.Refused
	if !errors.As(err, &r) {
		t.Fatalf("got error %v, want *ledger.Refused", err)
	}
	return r
}

// outcomes are the postings in the way by index, without the explanation.
func outcomes(r *ledger.Refused) map[int]string {
	out := map[int]string{}
	for _, x := range r.Postings {
		out[x.Index] = x.Outcome.String()
	}
	return out
}

func balance(t testing.TB, l *ledger.Ledger, member string) ledger.Balance {
	t.Helper()
	h, err := l.History(t.Context(), member, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return h.Balances["points"]
}

// sums checks, for each member, that the balance is the sum of the applied entries and that nothing in the ledger can expire.
func sums(t testing.TB, s store.Store, members ...string) {
	t.Helper()
	l := ledger.New(s, points, clock)
	for _, m := range members {
		h, err := l.History(t.Context(), m, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		var want ledger.Balance
		for _, e := range h.Entries {
			if e.State == ledger.Applied {
				want.N += e.Amount
				want.Entries++
			}
		}
		if got := h.Balances["points"]; got != want {
			t.Errorf("balance of %s = %+v, its applied entries give %+v", m, got, want)
		}
		for _, it := range items(t, s, points, m) {
			for _, name := range []string{"expires", "ttl"} {
				if v, ok := it.Attrs[name]; ok {
					t.Errorf("%s has %s = %v: nothing in a ledger may expire", it.Key, name, v)
				}
			}
		}
	}
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
