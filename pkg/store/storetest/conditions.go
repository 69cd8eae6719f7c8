package storetest

import (
	"testing"

	"hanbeon/pkg/store"
)

// What a condition means, for every kind of write alike.
var conditionCases = []testCase{
	{"a condition holds or fails by presence, name, type and value", conditionTable},
	{"insert creates an absent item and is refused by an existing one", func(t *testing.T, s store.Store) {
		write(t, s, store.Insert(alpha("a"), store.Attrs{"n": 1}))
		has(t, s, alpha("a"), store.Attrs{"n": int64(1)})
		refusedBy(t, s, map[int]store.Attrs{0: {"n": int64(1)}}, store.Insert(alpha("a"), store.Attrs{"n": 2}))
		has(t, s, alpha("a"), store.Attrs{"n": int64(1)})
	}},
	{"an item that was deleted is absent again", func(t *testing.T, s store.Store) {
		write(t, s, store.Insert(alpha("a"), store.Attrs{"n": 1}))
		write(t, s, store.Delete(alpha("a")))
		write(t, s, store.Insert(alpha("a"), store.Attrs{"n": 2}))
		has(t, s, alpha("a"), store.Attrs{"n": int64(2)})
	}},
	{"all conditions of a write must hold", func(t *testing.T, s store.Store) {
		item := store.Attrs{"state": "RUNNING", "attempt": int64(2), "open": true}
		write(t, s, store.Put(alpha("a"), item))
		write(t, s, store.Check(alpha("a"), store.Equals("state", "RUNNING"), store.Equals("attempt", 2), store.Equals("open", true)))
		refusedBy(t, s, map[int]store.Attrs{0: item},
			store.Update(alpha("a"), store.Attrs{"state": "DONE"}, nil, store.Equals("state", "RUNNING"), store.Equals("attempt", 3)))
		has(t, s, alpha("a"), item)
	}},
	{"absent and equals together never hold", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"n": 1}))
		refusedBy(t, s, map[int]store.Attrs{0: {"n": int64(1)}}, store.Check(alpha("a"), store.Absent(), store.Equals("n", 1)))
		refusedBy(t, s, map[int]store.Attrs{0: nil}, store.Check(alpha("b"), store.Absent(), store.Equals("n", 1)))
	}},
	{"a condition sees the item as it stands before the write", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"n": 1}))
		write(t, s, store.Update(alpha("a"), store.Attrs{"s": "new"}, map[string]int64{"n": 1}, store.Equals("n", 1)))
		has(t, s, alpha("a"), store.Attrs{"n": int64(2), "s": "new"})
	}},
	{"several conditions may name one attribute", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"n": 1}))
		write(t, s, store.Check(alpha("a"), store.Equals("n", 1), store.Equals("n", 1)))
		refusedBy(t, s, map[int]store.Attrs{0: {"n": int64(1)}}, store.Check(alpha("a"), store.Equals("n", 1), store.Equals("n", 2)))
	}},
}

func conditionTable(t *testing.T, s store.Store) {
	item := store.Attrs{
		"text": "abc", "empty": "", "n": int64(100), "zero": int64(0), "big": int64(9007199254740993), "yes": true, "no": false,
		"list": []any{"abc"}, "map": map[string]any{"text": "abc"},
	}
	cases := []struct {
		name   string
		cond   store.Cond
		exists bool // it holds of the item
		absent bool // it holds of no item
	}{
		{"absent", store.Absent(), false, true},
		{"same text", store.Equals("text", "abc"), true, false},
		{"other text", store.Equals("text", "abd"), false, false},
		{"text in other case", store.Equals("text", "ABC"), false, false},
		{"empty text", store.Equals("empty", ""), true, false},
		{"empty text is not a missing attribute", store.Equals("missing", ""), false, false},
		{"same integer", store.Equals("n", 100), true, false},
		{"other integer", store.Equals("n", 101), false, false},
		{"zero", store.Equals("zero", 0), true, false},
		{"zero is not a missing attribute", store.Equals("missing", 0), false, false},
		{"integer beyond 53 bits", store.Equals("big", int64(9007199254740993)), true, false},
		{"its neighbour", store.Equals("big", int64(9007199254740992)), false, false},
		{"true", store.Equals("yes", true), true, false},
		{"false", store.Equals("no", false), true, false},
		{"the other bool", store.Equals("yes", false), false, false},
		{"false is not a missing attribute", store.Equals("missing", false), false, false},
		{"integer as text", store.Equals("n", "100"), false, false},
		{"text as integer", store.Equals("text", 0), false, false},
		{"bool as text", store.Equals("yes", "true"), false, false},
		{"bool as integer", store.Equals("yes", 1), false, false},
		{"list as text", store.Equals("list", "abc"), false, false},
		{"map as text", store.Equals("map", "abc"), false, false},
		{"name in other case", store.Equals("Text", "abc"), false, false},
		{"a dot is part of the name", store.Equals("map.text", "abc"), false, false},
	}
	there, gone := alpha("there"), alpha("gone")
	write(t, s, store.Put(there, item))
	for _, c := range cases {
		for _, at := range []struct {
			key   store.Key
			old   store.Attrs
			holds bool
		}{{there, item, c.exists}, {gone, nil, c.absent}} {
			t.Run(c.name+" of "+at.key.SK, func(t *testing.T) {
				for _, w := range []store.Write{
					store.Check(at.key, c.cond),
					store.Put(at.key, item, c.cond),
					store.Update(at.key, store.Attrs{"text": "abc"}, nil, c.cond),
					store.Delete(at.key, c.cond),
				} {
					if !at.holds {
						refusedBy(t, s, map[int]store.Attrs{0: at.old}, w)
						refusedBy(t, s, map[int]store.Attrs{1: at.old}, store.Put(key(Beta, "p", "neighbour"), item), w)
						continue
					}
					write(t, s, w)
					reset := store.Put(at.key, item)
					if at.old == nil {
						reset = store.Delete(at.key)
					}
					write(t, s, reset)
				}
			})
		}
	}
	has(t, s, key(Beta, "p", "neighbour"), nil)
}

// What a refused transaction says and leaves.
var refusalCases = []testCase{
	{"a refused transaction names every false condition by index, with the old items", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"job": "one"}), store.Put(alpha("c"), store.Attrs{"open": false}))
		refusedBy(t, s, map[int]store.Attrs{0: {"job": "one"}, 2: {"open": false}, 4: nil},
			store.Insert(alpha("a"), store.Attrs{"job": "two"}),
			store.Update(alpha("b"), nil, map[string]int64{"n": 100}),
			store.Update(alpha("c"), nil, map[string]int64{"applied": 1}, store.Equals("open", true)),
			store.Delete(alpha("d")),
			store.Check(alpha("e"), store.Equals("state", "RUNNING")))
		for k, want := range map[string]store.Attrs{"a": {"job": "one"}, "b": nil, "c": {"open": false}, "d": nil, "e": nil} {
			has(t, s, alpha(k), want)
		}
	}},
	// EMU-01
	{"a grant whose balance is refused leaves nothing, whatever the order of its writes", func(t *testing.T, s store.Store) {
		entry, balance := key(Gold, "member-42", "monthly-point:2024-04:member-42"), key(Gold, "member-42", "points")
		write(t, s, store.Put(balance, store.Attrs{"n": 100, "open": false}))
		insert := store.Insert(entry, store.Attrs{"amount": 100})
		add := store.Update(balance, nil, map[string]int64{"n": 100}, store.Equals("open", true))
		old := store.Attrs{"n": int64(100), "open": false}
		refusedBy(t, s, map[int]store.Attrs{1: old}, insert, add)
		refusedBy(t, s, map[int]store.Attrs{0: old}, add, insert)
		has(t, s, entry, nil)
		has(t, s, balance, old)
	}},
	{"the last of 100 writes can refuse the 99 before it", func(t *testing.T, s store.Store) {
		gate := key(Beta, "gate", "gate")
		writes := make([]store.Write, 0, store.MaxWrites)
		for i := range store.MaxWrites - 1 {
			writes = append(writes, store.Insert(alpha(number(i)), store.Attrs{"n": i}))
		}
		writes = append(writes, store.Check(gate, store.Equals("open", true)))
		refusedBy(t, s, map[int]store.Attrs{99: nil}, writes...)
		if got := sortKeys(t, s, store.Query{Table: Alpha, PK: "p"}); len(got) != 0 {
			t.Errorf("a refused transaction left %d items", len(got))
		}
		write(t, s, store.Put(gate, store.Attrs{"open": true}))
		write(t, s, writes...)
		if got := sortKeys(t, s, store.Query{Table: Alpha, PK: "p"}); len(got) != 99 {
			t.Errorf("the transaction left %d items, want 99", len(got))
		}
	}},
	{"a transaction over three tables happens in all of them or in none", func(t *testing.T, s store.Store) {
		keys := []store.Key{key(Alpha, "p", "a"), key(Beta, "p", "a"), key(Gold, "p", "a")}
		insert := func(n int) (writes []store.Write) {
			for _, k := range keys {
				writes = append(writes, store.Insert(k, store.Attrs{"n": n}))
			}
			return writes
		}
		write(t, s, store.Put(keys[1], store.Attrs{"n": 0}))
		refusedBy(t, s, map[int]store.Attrs{1: {"n": int64(0)}}, insert(1)...)
		has(t, s, keys[0], nil)
		has(t, s, keys[2], nil)
		write(t, s, store.Delete(keys[1]))
		write(t, s, insert(2)...)
		for _, k := range keys {
			has(t, s, k, store.Attrs{"n": int64(2)})
		}
	}},
	{"the same transaction again is refused by what it wrote itself", func(t *testing.T, s store.Store) {
		grant := []store.Write{
			store.Insert(key(Gold, "m", "k:1:m"), store.Attrs{"job": "one"}),
			store.Update(key(Gold, "m", "points"), nil, map[string]int64{"n": 100}),
		}
		write(t, s, grant...)
		refusedBy(t, s, map[int]store.Attrs{0: {"job": "one"}}, grant...)
		has(t, s, key(Gold, "m", "points"), store.Attrs{"n": int64(100)})
	}},
}
