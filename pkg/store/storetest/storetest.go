// Package storetest is the conformance suite of store.Store: what every back end must do alike, written as a list of sentences. A back end's own test calls Run
// with a function that opens an empty store; nothing else is known about it.
package storetest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/store"
)

// The tables of the suite. The store that Run is given has exactly these, empty; Gold is declared a ledger, so that every write on it goes as a transaction.
const (
	Alpha store.Table = "alpha"
	Beta  store.Table = "beta"
	Gold  store.Table = "gold"
)

// testCase is one sentence about a store.
type testCase struct {
	name string
	run  func(t *testing.T, s store.Store)
}

// Run checks a back end. The function open gives each case an empty store with the tables Alpha, Beta and Gold, and cleans up by t.Cleanup; cases run in parallel.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	t.Helper()
	for _, group := range [][]testCase{
		conditionCases, refusalCases, writeCases, numberCases, limitCases, readCases, queryCases, textCases, concurrencyCases, meterCases, modelCases,
	} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, open(t))
			})
		}
	}
}

func key(table store.Table, pk, sk string) store.Key { return store.Key{Table: table, PK: pk, SK: sk} }

// alpha is a key in the plain table, for cases that need only one partition.
func alpha(sk string) store.Key { return key(Alpha, "p", sk) }

// write does a transaction that must succeed, and tries again while the store is busy.
func write(t *testing.T, s store.Store, writes ...store.Write) {
	t.Helper()
	if err := persist(t.Context(), s, writes...); err != nil {
		t.Fatalf("Transact(%s) = %v, want nil", describe(writes), err)
	}
}

// persist calls Transact until the answer is not *store.Busy. It is bounded by the tries, not by time.
func persist(ctx context.Context, s store.Store, writes ...store.Write) error {
	var err error
	for range 1000 {
		var busy *store.Busy
		if err = s.Transact(ctx, writes...); !errors.As(err, &busy) {
			return err
		}
	}
	return err
}

// refused does a transaction that must be refused and returns who was in the way.
func refused(t *testing.T, s store.Store, writes ...store.Write) []store.Refusal {
	t.Helper()
	err := persist(t.Context(), s, writes...)
	var r *store.Refused
	if !errors.As(err, &r) {
		t.Fatalf("Transact(%s) = %v, want *store.Refused", describe(writes), err)
	}
	last := -1
	for _, by := range r.By {
		if by.Index <= last || by.Index >= len(writes) {
			t.Fatalf("Transact(%s) refused by %+v: indexes not increasing or not of a write", describe(writes), r.By)
		}
		last = by.Index
	}
	if len(r.By) == 0 {
		t.Fatalf("Transact(%s) refused by nobody", describe(writes))
	}
	return r.By
}

// refusedBy does a transaction that must be refused by false conditions of exactly these writes, on items that stood as given.
func refusedBy(t *testing.T, s store.Store, want map[int]store.Attrs, writes ...store.Write) {
	t.Helper()
	got := map[int]store.Attrs{}
	for _, by := range refused(t, s, writes...) {
		if by.Invalid != "" {
			t.Errorf("Transact(%s): write %d is invalid (%s), want a false condition", describe(writes), by.Index, by.Invalid)
		}
		if by.Old.Key != writes[by.Index].Key {
			t.Errorf("Transact(%s): old item of write %d has key %s", describe(writes), by.Index, by.Old.Key)
		}
		got[by.Index] = by.Old.Attrs
	}
	if diff := difference(got, want); diff != "" {
		t.Errorf("Transact(%s) refused by (-got +want):\n%s", describe(writes), diff)
	}
}

// invalid does a transaction that must be refused because one write can never be accepted.
func invalid(t *testing.T, s store.Store, index int, writes ...store.Write) {
	t.Helper()
	for _, by := range refused(t, s, writes...) {
		if by.Index == index && by.Invalid != "" {
			return
		}
	}
	t.Errorf("Transact(%s): write %d is not named as invalid", describe(writes), index)
}

// wrong does a transaction that is a mistake of the program: an ordinary error, neither *store.Refused nor *store.Busy.
func wrong(t *testing.T, s store.Store, writes ...store.Write) {
	t.Helper()
	err := s.Transact(t.Context(), writes...)
	var r *store.Refused
	var b *store.Busy
	if err == nil || errors.As(err, &r) || errors.As(err, &b) {
		t.Errorf("Transact(%s) = %v, want an ordinary error", describe(writes), err)
	}
}

// has checks what stands under a key; nil: nothing.
func has(t *testing.T, s store.Store, k store.Key, want store.Attrs) {
	t.Helper()
	items, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatalf("Get(%s) = %v", k, err)
	}
	if diff := difference(items, []store.Item{{Key: k, Attrs: want}}); diff != "" {
		t.Errorf("Get(%.80s) (-got +want):\n%s", k, diff)
	}
}

// all reads a query to its end and returns the pages.
func all(t *testing.T, s store.Store, q store.Query) [][]store.Item {
	t.Helper()
	var pages [][]store.Item
	for range 1000 {
		p, err := s.Query(t.Context(), q)
		if err != nil {
			t.Fatalf("Query(%+v) = %v", q, err)
		}
		pages = append(pages, p.Items)
		if p.Next == "" {
			return pages
		}
		q.Cursor = p.Next
	}
	t.Fatalf("Query(%.200v) has no end after 1000 pages", q)
	return nil
}

// sortKeys are those of all items of a query, over all pages.
func sortKeys(t *testing.T, s store.Store, q store.Query) []string {
	t.Helper()
	keys := []string{}
	for _, p := range all(t, s, q) {
		for _, it := range p {
			keys = append(keys, it.Key.SK)
		}
	}
	return keys
}

// sized is an item of exactly n billed bytes.
func sized(k store.Key, n int) store.Attrs {
	return store.Attrs{"x": strings.Repeat("a", n-store.Size(k, store.Attrs{"x": ""}))}
}

// difference is "" for equal values. It looks at them twice because cmp alone takes exponential time on deep nesting.
func difference(got, want any) string {
	if reflect.DeepEqual(got, want) {
		return ""
	}
	return cmp.Diff(got, want)
}

func describe(writes []store.Write) string {
	if len(writes) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, w := range writes {
		if i == 4 {
			b.WriteString(", ...")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString([]string{"?", "put", "update", "delete", "check"}[w.Op] + " " + cut(w.Key.String()))
	}
	return b.String()
}

func cut(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}
