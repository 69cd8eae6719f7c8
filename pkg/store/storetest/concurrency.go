package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"hanbeon/pkg/store"
)

// parallel runs n functions at once and waits for all.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// What holds when many callers write at once.
var concurrencyCases = []testCase{
	// EMU-02
	{"of 50 inserts of one key exactly one wins, and the others see it", func(t *testing.T, s store.Store) {
		errs := make([]error, 50)
		parallel(len(errs), func(i int) {
			w := []store.Write{store.Insert(alpha("a"), store.Attrs{"winner": i})}
			if i%2 == 0 { // alone and in a transaction
				w = append(w, store.Insert(alpha("of "+number(i)), store.Attrs{}))
			}
			errs[i] = persist(t.Context(), s, w...)
		})
		winner := -1
		for i, err := range errs {
			if err == nil && winner >= 0 {
				t.Fatalf("both %d and %d won", winner, i)
			}
			if err == nil {
				winner = i
			}
		}
		if winner < 0 {
			t.Fatalf("nobody won: %v", errs[0])
		}
		has(t, s, alpha("a"), store.Attrs{"winner": int64(winner)})
		for i, err := range errs {
			var r *store.Refused
			if i == winner {
				continue
			}
			if !errors.As(err, &r) || len(r.By) != 1 || r.By[0].Index != 0 || r.By[0].Old.Attrs["winner"] != int64(winner) {
				t.Errorf("insert %d = %v, want refused by the insert of %d", i, err, winner)
			}
			has(t, s, alpha("of "+number(i)), nil)
		}
	}},
	// EMU-02
	{"50 additions of 1 make 50", func(t *testing.T, s store.Store) {
		errs := make([]error, 50)
		parallel(len(errs), func(i int) {
			errs[i] = persist(t.Context(), s, store.Update(alpha("a"), nil, map[string]int64{"n": 1}))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		has(t, s, alpha("a"), store.Attrs{"n": int64(50)})
	}},
	// EMU-02, TXN-13
	{"50 months granted at once make 50 grants", func(t *testing.T, s store.Store) {
		balance := key(Gold, "member-42", "points")
		errs := make([]error, 50)
		parallel(len(errs), func(i int) {
			entry := fmt.Sprintf("monthly-point:%d-%02d:member-42", 2020+i/12, 1+i%12)
			errs[i] = persist(t.Context(), s,
				store.Insert(key(Gold, "member-42", entry), store.Attrs{"amount": 100}),
				store.Update(balance, nil, map[string]int64{"n": 100, "entries": 1}))
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		has(t, s, balance, store.Attrs{"n": int64(5000), "entries": int64(50)})
		if got := sortKeys(t, s, store.Query{Table: Gold, PK: "member-42", Prefix: "monthly-point:"}); len(got) != 50 {
			t.Errorf("%d entries, want 50", len(got))
		}
	}},
	{"one month granted 50 times at once is granted once", func(t *testing.T, s store.Store) {
		errs := make([]error, 50)
		parallel(len(errs), func(i int) {
			errs[i] = persist(t.Context(), s,
				store.Insert(key(Gold, "member-42", "monthly-point:2024-04:member-42"), store.Attrs{"amount": 100}),
				store.Update(key(Gold, "member-42", "points"), nil, map[string]int64{"n": 100}),
				store.Update(key(Beta, "tally", number(i%4)), nil, map[string]int64{"applied": 1}))
		})
		won := 0
		for _, err := range errs {
			var r *store.Refused
			if err == nil {
				won++
			} else if !errors.As(err, &r) {
				t.Errorf("grant = %v, want nil or refused", err)
			}
		}
		if won != 1 {
			t.Errorf("%d grants won, want 1", won)
		}
		has(t, s, key(Gold, "member-42", "points"), store.Attrs{"n": int64(100)})
	}},
	{"transactions over the same items in different order leave them equal", func(t *testing.T, s store.Store) {
		errs := make([]error, 40)
		parallel(len(errs), func(i int) {
			var writes []store.Write
			for j := range 4 {
				k := alpha(number((i + j) % 4))
				writes = append(writes, store.Update(k, store.Attrs{"by": i}, map[string]int64{"n": 1}))
			}
			errs[i] = persist(t.Context(), s, writes...)
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		items, err := s.Get(t.Context(), alpha(number(0)), alpha(number(1)), alpha(number(2)), alpha(number(3)))
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range items {
			if it.Attrs["n"] != int64(len(errs)) || it.Attrs["by"] != items[0].Attrs["by"] {
				t.Errorf("%s = %v, want n %d and by %v", it.Key, it.Attrs, len(errs), items[0].Attrs["by"])
			}
		}
	}},
	{"conditions on what was read make a transfer safe", func(t *testing.T, s store.Store) {
		const accounts, each = 3, 100
		for i := range accounts {
			write(t, s, store.Put(alpha(number(i)), store.Attrs{"n": each, "version": 0}))
		}
		moved := make([]int64, 12)
		errs := make([]error, len(moved))
		parallel(len(moved), func(i int) {
			from, to := alpha(number(i%accounts)), alpha(number((i+1)%accounts))
			for range 10 {
				items, err := s.Get(t.Context(), from, to)
				if err != nil {
					errs[i] = err
					return
				}
				var writes []store.Write
				for j, it := range items {
					n := it.Attrs["n"].(int64) + int64(2*j-1)
					writes = append(writes, store.Update(it.Key, store.Attrs{"n": n}, map[string]int64{"version": 1}, store.Equals("version", it.Attrs["version"])))
				}
				err = persist(t.Context(), s, writes...)
				var r *store.Refused
				if err == nil {
					moved[i]++
				} else if !errors.As(err, &r) {
					errs[i] = err
					return
				}
			}
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		var sum, versions, want int64
		for i := range accounts {
			items, err := s.Get(t.Context(), alpha(number(i)))
			if err != nil {
				t.Fatal(err)
			}
			sum += items[0].Attrs["n"].(int64)
			versions += items[0].Attrs["version"].(int64)
		}
		for _, n := range moved {
			want += 2 * n
		}
		if sum != accounts*each || versions != want {
			t.Errorf("sum %d and versions %d, want %d and %d", sum, versions, accounts*each, want)
		}
	}},
	{"a write that returned is seen by every later read", func(t *testing.T, s store.Store) {
		errs := make([]error, 16)
		parallel(len(errs), func(i int) {
			for j := range 10 {
				k := key(Alpha, number(i), number(j))
				if errs[i] = persist(t.Context(), s, store.Insert(k, store.Attrs{"n": j})); errs[i] != nil {
					return
				}
				items, err := s.Get(t.Context(), k)
				if err != nil || !items[0].Exists() {
					errs[i] = fmt.Errorf("item %s just written: %v, %w", k, items, err)
					return
				}
				p, err := s.Query(t.Context(), store.Query{Table: Alpha, PK: k.PK, Descending: true, Limit: 1})
				if err != nil || len(p.Items) != 1 || p.Items[0].Key != k {
					errs[i] = fmt.Errorf("query after %s: %v, %w", k, p.Items, err)
					return
				}
			}
		})
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}},
}
