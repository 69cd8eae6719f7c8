package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"hanbeon/pkg/store"
)

// number is a sort key whose byte order is that of the number.
func number(i int) string { return fmt.Sprintf("%04d", i) }

// What the four writes do.
var writeCases = []testCase{
	{"put replaces the whole item", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"old": 1, "both": "x"}))
		write(t, s, store.Put(alpha("a"), store.Attrs{"both": "y"}))
		has(t, s, alpha("a"), store.Attrs{"both": "y"})
	}},
	{"an item may have no attributes and still exists", func(t *testing.T, s store.Store) {
		write(t, s, store.Insert(alpha("a"), store.Attrs{}))
		has(t, s, alpha("a"), store.Attrs{})
		refusedBy(t, s, map[int]store.Attrs{0: {}}, store.Insert(alpha("a"), store.Attrs{}))
	}},
	{"a struct is stored by its json tags, null left out and zero kept", func(t *testing.T, s store.Store) {
		type record struct {
			Name   string   `json:"name"`
			Amount int64    `json:"amount"`
			Open   bool     `json:"open"`
			Note   *string  `json:"note"`
			Tags   []string `json:"tags"`
			Skip   string   `json:"skip,omitempty"`
		}
		write(t, s, store.Put(alpha("a"), record{}))
		has(t, s, alpha("a"), store.Attrs{"name": "", "amount": int64(0), "open": false})
		want := record{Name: "한번", Amount: math.MaxInt64, Open: true, Tags: []string{"a", ""}}
		write(t, s, store.Put(alpha("a"), want))
		items, err := s.Get(t.Context(), alpha("a"))
		if err != nil {
			t.Fatal(err)
		}
		var got record
		if err := items[0].Decode(&got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("Decode = %+v, %v, want %+v", got, err, want)
		}
	}},
	{"update sets and adds, and leaves the other attributes", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"keep": "k", "change": "c", "n": 5}))
		write(t, s, store.Update(alpha("a"), store.Attrs{"change": []any{"d"}, "fresh": true}, map[string]int64{"n": -7, "m": 3}))
		has(t, s, alpha("a"), store.Attrs{"keep": "k", "change": []any{"d"}, "fresh": true, "n": int64(-2), "m": int64(3)})
	}},
	{"update creates an absent item", func(t *testing.T, s store.Store) {
		write(t, s, store.Update(alpha("a"), store.Attrs{"s": ""}, map[string]int64{"n": 1}))
		has(t, s, alpha("a"), store.Attrs{"s": "", "n": int64(1)})
	}},
	// A heartbeat after deletion must not bring back a ghost.
	{"update with an equals condition creates nothing", func(t *testing.T, s store.Store) {
		refusedBy(t, s, map[int]store.Attrs{0: nil}, store.Update(alpha("a"), store.Attrs{"s": "x"}, nil, store.Equals("state", "RUNNING")))
		has(t, s, alpha("a"), nil)
	}},
	{"update if absent creates and then is refused", func(t *testing.T, s store.Store) {
		w := store.Update(alpha("a"), nil, map[string]int64{"n": 1}, store.Absent())
		write(t, s, w)
		refusedBy(t, s, map[int]store.Attrs{0: {"n": int64(1)}}, w)
	}},
	{"delete removes an item, and an absent one is success", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"n": 1}), store.Put(alpha("b"), store.Attrs{"n": 1}))
		write(t, s, store.Delete(alpha("a")))
		write(t, s, store.Delete(alpha("a")))
		has(t, s, alpha("a"), nil)
		has(t, s, alpha("b"), store.Attrs{"n": int64(1)})
		write(t, s, store.Delete(alpha("a")), store.Delete(alpha("b"), store.Equals("n", 1)), store.Put(alpha("c"), store.Attrs{}))
		has(t, s, alpha("b"), nil)
	}},
	{"delete with an equals condition is refused by an absent item", func(t *testing.T, s store.Store) {
		refusedBy(t, s, map[int]store.Attrs{0: nil}, store.Delete(alpha("a"), store.Equals("job", "one")))
	}},
	{"check writes nothing", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("a"), store.Attrs{"n": 1}))
		write(t, s, store.Check(alpha("a"), store.Equals("n", 1)), store.Check(alpha("b"), store.Absent()), store.Insert(alpha("c"), store.Attrs{}))
		write(t, s, store.Check(alpha("a"), store.Equals("n", 1)))
		has(t, s, alpha("a"), store.Attrs{"n": int64(1)})
		has(t, s, alpha("b"), nil)
		has(t, s, alpha("c"), store.Attrs{})
	}},
	{"one transaction may hold every kind of write", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(alpha("d"), store.Attrs{"n": 1}))
		write(t, s,
			store.Insert(alpha("a"), store.Attrs{"n": 1}), store.Put(alpha("b"), store.Attrs{"n": 2}), store.Update(alpha("c"), nil, map[string]int64{"n": 3}),
			store.Delete(alpha("d"), store.Equals("n", 1)), store.Check(alpha("e"), store.Absent()))
		for k, want := range map[string]store.Attrs{"a": {"n": int64(1)}, "b": {"n": int64(2)}, "c": {"n": int64(3)}, "d": nil, "e": nil} {
			has(t, s, alpha(k), want)
		}
	}},
	{"what was handed in or out is a copy", func(t *testing.T, s store.Store) {
		in := store.Attrs{"list": []any{"x"}}
		write(t, s, store.Put(alpha("a"), in))
		in["list"].([]any)[0] = "changed"
		items, err := s.Get(t.Context(), alpha("a"))
		if err != nil {
			t.Fatal(err)
		}
		items[0].Attrs["list"] = "changed"
		has(t, s, alpha("a"), store.Attrs{"list": []any{"x"}})
	}},
	// TXN-19
	{"words reserved by DynamoDB are ordinary attribute names", func(t *testing.T, s store.Store) {
		words := strings.Fields(`status total ttl error timestamp token name size count data date day hour key language level limit list map month
			number open order owner parameters position range read role rows source state storage system table text time type update user values value year zone`)
		words = append(words, "with space", "dot.ted", "da-shed", "#hash", ":colon", "a[0]", "0digit", "한글", "😀", `quo"te`)
		set, add, conds := store.Attrs{}, map[string]int64{}, []store.Cond(nil)
		for _, w := range words {
			set[w] = "was"
			conds = append(conds, store.Equals(w, "was"))
			add["n."+w] = 1
		}
		write(t, s, store.Put(alpha("a"), set))
		for _, w := range words {
			write(t, s, store.Update(alpha("a"), store.Attrs{w: "was"}, map[string]int64{"n." + w: 1}, store.Equals(w, "was")))
			set["n."+w] = int64(1)
		}
		has(t, s, alpha("a"), set)
		write(t, s, store.Update(alpha("a"), set, nil, conds...), store.Check(alpha("b"), store.Absent()))
		write(t, s, store.Update(alpha("c"), nil, add))
		write(t, s, store.Delete(alpha("a"), conds...))
		has(t, s, alpha("a"), nil)
	}},
}

// Integers are exact, and stay in 64 bits.
var numberCases = []testCase{
	{"integers are exact", func(t *testing.T, s store.Store) {
		item := store.Attrs{}
		for i, n := range []int64{0, 1, -1, 10, 100, 1_000_000_000_000, 1 << 53, 1<<53 + 1, 9007199254740993, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1} {
			item[number(i)] = n
			item["in"+number(i)] = []any{n, map[string]any{"n": n}}
		}
		write(t, s, store.Put(alpha("a"), item))
		has(t, s, alpha("a"), item)
		write(t, s, store.Put(alpha("b"), store.Attrs{"n": int64(9007199254740993)}))
		write(t, s, store.Update(alpha("b"), nil, map[string]int64{"n": 2}))
		has(t, s, alpha("b"), store.Attrs{"n": int64(9007199254740995)})
	}},
	{"an absent attribute counts as 0, and adding 0 creates it", func(t *testing.T, s store.Store) {
		write(t, s, store.Update(alpha("a"), nil, map[string]int64{"n": 0}))
		has(t, s, alpha("a"), store.Attrs{"n": int64(0)})
		write(t, s, store.Update(alpha("a"), nil, map[string]int64{"m": math.MaxInt64, "k": math.MinInt64}))
		has(t, s, alpha("a"), store.Attrs{"n": int64(0), "m": int64(math.MaxInt64), "k": int64(math.MinInt64)})
	}},
	{"a sum may reach the ends of 64 bits and never leave them", func(t *testing.T, s store.Store) {
		for i, c := range []struct {
			n, add int64
			ok     bool
		}{
			{math.MaxInt64 - 1, 1, true},
			{math.MaxInt64, 0, true},
			{math.MaxInt64, 1, false},
			{math.MaxInt64, math.MaxInt64, false},
			{math.MaxInt64, math.MinInt64, true},
			{math.MinInt64 + 1, -1, true},
			{math.MinInt64, -1, false},
			{math.MinInt64, math.MinInt64, false},
			{math.MinInt64, math.MaxInt64, true},
			{-1, math.MinInt64, false},
			{0, math.MinInt64, true},
			{1, math.MaxInt64, false},
			{0, math.MaxInt64, true},
		} {
			k, neighbour := alpha(number(i)), alpha("n"+number(i))
			write(t, s, store.Put(k, store.Attrs{"n": c.n, "s": "as it was"}))
			add := store.Update(k, store.Attrs{"s": "changed"}, map[string]int64{"n": c.add})
			if c.ok {
				write(t, s, add)
				has(t, s, k, store.Attrs{"n": c.n + c.add, "s": "changed"})
				continue
			}
			invalid(t, s, 0, add)
			invalid(t, s, 1, store.Insert(neighbour, store.Attrs{}), add)
			has(t, s, k, store.Attrs{"n": c.n, "s": "as it was"})
			has(t, s, neighbour, nil)
		}
	}},
	{"adding to what is not a number can never be accepted", func(t *testing.T, s store.Store) {
		item := store.Attrs{"text": "100", "bool": true, "list": []any{int64(1)}, "map": map[string]any{"n": int64(1)}}
		write(t, s, store.Put(alpha("a"), item))
		for name := range item {
			add := store.Update(alpha("a"), store.Attrs{"s": "x"}, map[string]int64{name: 1})
			invalid(t, s, 0, add)
			invalid(t, s, 1, store.Insert(alpha("b"), store.Attrs{}), add)
		}
		has(t, s, alpha("a"), item)
		has(t, s, alpha("b"), nil)
	}},
	{"a false condition comes before an impossible sum", func(t *testing.T, s store.Store) {
		item := store.Attrs{"n": int64(math.MaxInt64), "open": false}
		write(t, s, store.Put(alpha("a"), item))
		refusedBy(t, s, map[int]store.Attrs{0: item}, store.Update(alpha("a"), nil, map[string]int64{"n": 1}, store.Equals("open", true)))
	}},
}
