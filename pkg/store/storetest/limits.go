package storetest

import (
	"context"
	"strings"
	"testing"

	"hanbeon/pkg/store"
)

// Limits of DynamoDB that every back end enforces, and mistakes of a program.
var limitCases = []testCase{
	{"an item of exactly 400 KB is accepted, one byte more never", func(t *testing.T, s store.Store) {
		k := alpha("a")
		write(t, s, store.Put(k, sized(k, store.MaxItem)))
		has(t, s, k, sized(k, store.MaxItem))
		invalid(t, s, 0, store.Put(alpha("b"), sized(alpha("b"), store.MaxItem+1)))
		invalid(t, s, 1, store.Put(alpha("c"), store.Attrs{}), store.Put(alpha("b"), sized(alpha("b"), store.MaxItem+1)))
		has(t, s, alpha("b"), nil)
		has(t, s, alpha("c"), nil)
	}},
	{"an item cannot be grown beyond 400 KB", func(t *testing.T, s store.Store) {
		k, neighbour := alpha("a"), alpha("b")
		item := sized(k, store.MaxItem-10)
		write(t, s, store.Put(k, item))
		grow := store.Update(k, store.Attrs{"more": strings.Repeat("b", 20)}, nil)
		invalid(t, s, 0, grow)
		invalid(t, s, 1, store.Insert(neighbour, store.Attrs{}), grow)
		has(t, s, k, item)
		has(t, s, neighbour, nil)
		write(t, s, store.Update(k, store.Attrs{"more": "123456"}, nil)) // exactly 400 KB
	}},
	{"an item is 32 levels deep at most, itself the first", func(t *testing.T, s store.Store) {
		nested := func(levels int) store.Attrs {
			v := any("bottom")
			for i := range levels {
				if i%2 == 0 {
					v = []any{v}
				} else {
					v = map[string]any{"down": v}
				}
			}
			return store.Attrs{"v": v}
		}
		write(t, s, store.Put(alpha("a"), nested(store.MaxDepth-1)))
		has(t, s, alpha("a"), nested(store.MaxDepth-1))
		invalid(t, s, 0, store.Put(alpha("b"), nested(store.MaxDepth)))
		invalid(t, s, 1, store.Put(alpha("c"), store.Attrs{}), store.Update(alpha("b"), nested(store.MaxDepth), nil))
		has(t, s, alpha("b"), nil)
		has(t, s, alpha("c"), nil)
	}},
	{"no writes, or more than 100, are a mistake", func(t *testing.T, s store.Store) {
		wrong(t, s)
		var writes []store.Write
		for i := range store.MaxWrites + 1 {
			writes = append(writes, store.Put(alpha(number(i)), store.Attrs{}))
		}
		wrong(t, s, writes...)
		has(t, s, alpha(number(0)), nil)
		write(t, s, writes[:store.MaxWrites]...)
	}},
	// TXN-08
	{"a key twice in one transaction is a mistake", func(t *testing.T, s store.Store) {
		wrong(t, s, store.Check(alpha("a"), store.Absent()), store.Update(alpha("a"), nil, map[string]int64{"n": 1}))
		wrong(t, s, store.Put(alpha("a"), store.Attrs{}), store.Put(alpha("b"), store.Attrs{}), store.Put(alpha("a"), store.Attrs{}))
		has(t, s, alpha("a"), nil)
		has(t, s, alpha("b"), nil)
		write(t, s, store.Put(key(Alpha, "p", "a"), store.Attrs{}), store.Put(key(Beta, "p", "a"), store.Attrs{}), store.Put(key(Alpha, "a", "p"), store.Attrs{}))
	}},
	{"keys at their limits are accepted", func(t *testing.T, s store.Store) {
		for _, k := range []store.Key{
			key(Alpha, strings.Repeat("p", store.MaxPK), strings.Repeat("s", store.MaxSK)),
			key(Alpha, strings.Repeat("한", store.MaxPK/3), strings.Repeat("😀", store.MaxSK/4)),
			key(Alpha, "1", "1"),
			key(Alpha, " ", " "),
		} {
			write(t, s, store.Insert(k, store.Attrs{"n": 1}))
			has(t, s, k, store.Attrs{"n": int64(1)})
			if got := sortKeys(t, s, store.Query{Table: k.Table, PK: k.PK, Prefix: k.SK}); len(got) != 1 || got[0] != k.SK {
				t.Errorf("query of a key at its limit found %d items, want it", len(got))
			}
			refusedBy(t, s, map[int]store.Attrs{0: {"n": int64(1)}}, store.Insert(k, store.Attrs{"n": 2}))
		}
	}},
	{"keys beyond their limits are a mistake", func(t *testing.T, s store.Store) {
		for name, k := range map[string]store.Key{
			"no table":               key("", "p", "s"),
			"empty partition key":    key(Alpha, "", "s"),
			"empty sort key":         key(Alpha, "p", ""),
			"long partition key":     key(Alpha, strings.Repeat("p", store.MaxPK+1), "s"),
			"long sort key":          key(Alpha, "p", strings.Repeat("s", store.MaxSK+1)),
			"NUL in partition key":   key(Alpha, "a\x00b", "s"),
			"NUL in sort key":        key(Alpha, "p", "\x00"),
			"partition key not text": key(Alpha, "\xff", "s"),
			"sort key not text":      key(Alpha, "p", "a\xc3"),
		} {
			t.Run(name, func(t *testing.T) {
				wrong(t, s, store.Put(k, store.Attrs{}))
				wrong(t, s, store.Put(alpha("neighbour"), store.Attrs{}), store.Delete(k))
				if _, err := s.Get(t.Context(), alpha("a"), k); err == nil {
					t.Errorf("Get(%q) = nil, want an error", k)
				}
				if _, err := s.GetStale(t.Context(), k); err == nil {
					t.Errorf("GetStale(%q) = nil, want an error", k)
				}
			})
		}
		has(t, s, alpha("neighbour"), nil)
		for _, q := range []store.Query{
			{PK: "p"}, {Table: Alpha}, {Table: Alpha, PK: "p", Limit: -1}, {Table: Alpha, PK: strings.Repeat("p", store.MaxPK+1)}, {Table: Alpha, PK: "a\x00"},
			{Table: Alpha, PK: "p", Prefix: "\xff"}, {Table: Alpha, PK: "p", Prefix: strings.Repeat("s", store.MaxSK+1)},
		} {
			if _, err := s.Query(t.Context(), q); err == nil {
				t.Errorf("Query(%+.100v) = nil, want an error", q)
			}
		}
	}},
	{"writes that make no sense are a mistake", func(t *testing.T, s store.Store) {
		k := alpha("a")
		for name, w := range map[string]store.Write{
			"nothing":                    {},
			"update of nothing":          store.Update(k, nil, nil),
			"nil in a set":               store.Update(k, store.Attrs{"a": nil}, nil),
			"nil put":                    store.Put(k, nil),
			"put of text":                store.Put(k, "text"),
			"float":                      store.Put(k, store.Attrs{"f": 1.5}),
			"number beyond 64 bits":      store.Put(k, store.Attrs{"u": uint64(1 << 63)}),
			"value not text":             store.Put(k, store.Attrs{"s": "\xff"}),
			"name not text":              store.Put(k, store.Attrs{"\xff": "s"}),
			"name of an add not text":    store.Update(k, nil, map[string]int64{"\xff": 1}),
			"empty name":                 store.Put(k, store.Attrs{"": "s"}),
			"empty name of an add":       store.Update(k, nil, map[string]int64{"": 1}),
			"partition key as attribute": store.Update(k, store.Attrs{"pk": "q"}, nil),
			"sort key as attribute":      store.Update(k, nil, map[string]int64{"sk": 1}),
			"set and added to":           store.Update(k, store.Attrs{"n": 1}, map[string]int64{"n": 1}),
			"check of nothing":           store.Check(k),
			"condition on a list":        store.Delete(k, store.Equals("l", []string{"a"})),
			"condition on nil":           store.Delete(k, store.Equals("l", nil)),
			"condition on a float":       store.Delete(k, store.Equals("l", 0.5)),
		} {
			t.Run(name, func(t *testing.T) {
				wrong(t, s, w)
				wrong(t, s, store.Put(alpha("neighbour"), store.Attrs{}), w)
			})
		}
		has(t, s, k, nil)
		has(t, s, alpha("neighbour"), nil)
	}},
	{"more than 4 MB in one transaction are a mistake", func(t *testing.T, s store.Store) {
		var writes []store.Write
		for i := range 11 {
			writes = append(writes, store.Put(alpha(number(i)), sized(alpha(number(i)), 390*1024)))
		}
		wrong(t, s, writes...)
		has(t, s, alpha(number(0)), nil)
		write(t, s, writes[:10]...)
	}},
	{"a call whose context is over does nothing", func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Transact(ctx, store.Put(alpha("a"), store.Attrs{})); err == nil {
			t.Error("Transact = nil, want an error")
		}
		if err := s.Transact(ctx, store.Put(alpha("a"), store.Attrs{}), store.Put(alpha("b"), store.Attrs{})); err == nil {
			t.Error("Transact = nil, want an error")
		}
		if _, err := s.Get(ctx, alpha("a")); err == nil {
			t.Error("Get = nil, want an error")
		}
		if _, err := s.Query(ctx, store.Query{Table: Alpha, PK: "p"}); err == nil {
			t.Error("Query = nil, want an error")
		}
		has(t, s, alpha("a"), nil)
		has(t, s, alpha("b"), nil)
	}},
}
