package storetest

import (
	"strings"
	"testing"

	"hanbeon/pkg/store"
)

// call is one call with its price. The store holds one item of the size on which the call works.
type call struct {
	name  string
	do    func(t *testing.T, s store.Store)
	write float64
	read  float64
}

// Items of the meter cases: under "has1500" stands an item of 1500 bytes, and so on.
func stocked(table store.Table, size int) store.Key { return key(table, "stock", "has"+number(size)) }

func get(keys ...store.Key) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) {
		if _, err := s.Get(t.Context(), keys...); err != nil {
			t.Error(err)
		}
	}
}

func getStale(keys ...store.Key) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) {
		if _, err := s.GetStale(t.Context(), keys...); err != nil {
			t.Error(err)
		}
	}
}

func query(q store.Query) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) {
		if _, err := s.Query(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
}

// writes puts the calls together at run time, since a put of a size depends on its key.
func writes(w ...store.Write) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) { write(t, s, w...) }
}

func refuses(w ...store.Write) func(*testing.T, store.Store) {
	return func(t *testing.T, s store.Store) { refused(t, s, w...) }
}

func putSized(k store.Key, n int, conds ...store.Cond) store.Write {
	return store.Put(k, sized(k, n), conds...)
}

// setSized is an update that makes the item under k exactly n bytes.
func setSized(k store.Key, n int) store.Write {
	return store.Update(k, sized(k, n), nil)
}

func grantsAndTally() (w []store.Write) {
	for i := range 49 {
		w = append(w,
			store.Insert(key(Gold, "member-"+number(i), "monthly-point:2024-04:member-"+number(i)), store.Attrs{"state": "applied", "amount": 100}),
			store.Update(key(Gold, "member-"+number(i), "points"), nil, map[string]int64{"n": 100, "entries": 1}))
	}
	return append(w, store.Update(key(Alpha, "TALLY", "TALLY"), nil, map[string]int64{"applied": 49}))
}

// What calls cost: DynamoDB's published rules. A single write on a plain table is a plain write, except a check, which exists in transactions only; everything
// else is a transaction at double the price.
var meterTable = []call{
	{"put of a small item", writes(store.Put(alpha("a"), store.Attrs{})), 1, 0},
	{"put of 1 KB", writes(putSized(alpha("a"), 1024)), 1, 0},
	{"put of 1 KB and a byte", writes(putSized(alpha("a"), 1025)), 2, 0},
	{"put of 400 KB", writes(putSized(alpha("a"), 400*1024)), 400, 0},
	{"put of a large item over a small one", writes(putSized(stocked(Alpha, 100), 2500)), 3, 0},
	{"put of a small item over a large one", writes(putSized(stocked(Alpha, 2500), 100)), 3, 0},
	{"put with a condition that holds", writes(putSized(stocked(Alpha, 1500), 1500, store.Equals("n", 1))), 2, 0},
	{"update that grows", writes(setSized(stocked(Alpha, 100), 1500)), 2, 0},
	{"update that shrinks", writes(setSized(stocked(Alpha, 2500), 100)), 3, 0},
	{"update that changes a little of much", writes(store.Update(stocked(Alpha, 2500), store.Attrs{"n": 2}, nil)), 3, 0},
	{"update that creates", writes(store.Update(alpha("a"), store.Attrs{"s": strings.Repeat("a", 1024)}, nil)), 2, 0},
	{"update that adds", writes(store.Update(stocked(Alpha, 1500), nil, map[string]int64{"n": 1})), 2, 0},
	{"update that adds to nothing", writes(store.Update(alpha("a"), nil, map[string]int64{"n": 1})), 1, 0},
	{"delete", writes(store.Delete(stocked(Alpha, 2500))), 3, 0},
	{"delete of nothing", writes(store.Delete(alpha("a"))), 1, 0},
	{"check", writes(store.Check(stocked(Alpha, 1500), store.Equals("n", 1))), 4, 0},

	{"put on a ledger", writes(putSized(key(Gold, "p", "a"), 1025)), 4, 0},
	{"update on a ledger", writes(setSized(stocked(Gold, 1500), 100)), 4, 0},
	{"delete on a ledger", writes(store.Delete(stocked(Gold, 2500))), 6, 0},
	{"delete of nothing on a ledger", writes(store.Delete(key(Gold, "p", "a"))), 2, 0},

	{"transaction of two small puts", writes(store.Put(alpha("a"), store.Attrs{}), store.Put(alpha("b"), store.Attrs{})), 4, 0},
	{"transaction: each item is rounded by itself", writes(putSized(alpha("a"), 1025), putSized(alpha("b"), 1025), store.Put(alpha("c"), store.Attrs{})), 10, 0},
	{"transaction: a put over a larger item", writes(putSized(stocked(Alpha, 2500), 100), store.Put(alpha("b"), store.Attrs{})), 8, 0},
	{"transaction: a check costs what its item would", writes(store.Check(stocked(Alpha, 1500), store.Equals("n", 1)), store.Put(alpha("b"), store.Attrs{})), 6, 0},
	{"transaction: a check of nothing", writes(store.Check(alpha("a"), store.Absent()), store.Put(alpha("b"), store.Attrs{})), 4, 0},
	{"transaction: a delete", writes(store.Delete(stocked(Alpha, 2500)), store.Delete(alpha("b"))), 8, 0},
	{"transaction of 49 grants and a tally shard", writes(grantsAndTally()...), 4*49 + 2, 0},

	{"refused insert costs the item in the way", refuses(store.Insert(stocked(Alpha, 2500), store.Attrs{})), 3, 0},
	{"refused insert of a large item costs the small one in the way", refuses(putSized(stocked(Alpha, 100), 5000, store.Absent())), 1, 0},
	{"refused write where nothing is", refuses(store.Delete(alpha("a"), store.Equals("n", 1))), 1, 0},
	{"refused insert on a ledger", refuses(store.Insert(stocked(Gold, 1500), store.Attrs{})), 4, 0},
	{"refused transaction: every write is paid for", refuses(store.Insert(stocked(Gold, 1500), store.Attrs{}), store.Insert(alpha("a"), store.Attrs{}), store.Insert(alpha("b"), store.Attrs{})), 8, 0},
	{"mistakes cost nothing", func(t *testing.T, s store.Store) { wrong(t, s, store.Check(alpha("a"))) }, 0, 0},
	{"an item too large costs nothing", refuses(putSized(alpha("a"), store.MaxItem+1)), 0, 0},

	{"get of nothing", get(), 0, 0},
	{"get of a small item", get(stocked(Alpha, 100)), 0, 1},
	{"get of an absent item", get(alpha("a")), 0, 1},
	{"get of 4 KB", get(stocked(Alpha, 4096)), 0, 1},
	{"get of 4 KB and a byte", get(stocked(Alpha, 4097)), 0, 2},
	{"get rounds each item by itself", get(stocked(Alpha, 100), stocked(Alpha, 4097), alpha("a")), 0, 4},
	{"get reads a repeated key once", get(stocked(Alpha, 100), stocked(Alpha, 100), stocked(Alpha, 100)), 0, 1},
	{"stale get is half", getStale(stocked(Alpha, 100)), 0, 0.5},
	{"stale get of an absent item", getStale(alpha("a")), 0, 0.5},
	{"stale get of 4 KB and a byte", getStale(stocked(Alpha, 4097)), 0, 1},
	{"stale get of several", getStale(stocked(Alpha, 100), stocked(Alpha, 4096), stocked(Alpha, 4097)), 0, 2},

	{"query of an empty partition", query(store.Query{Table: Alpha, PK: "p"}), 0, 1},
	{"query rounds the sum of its page", query(store.Query{Table: Beta, PK: "stock"}), 0, 3},             // 3 x 1500 + 4096 = 8596
	{"query pays for its page only", query(store.Query{Table: Beta, PK: "stock", Limit: 1}), 0, 1},       // 1500
	{"query pays for its prefix only", query(store.Query{Table: Beta, PK: "stock", Prefix: "a"}), 0, 2},  // 3 x 1500
	{"query of exactly 4 KB", query(store.Query{Table: Beta, PK: "stock", Prefix: "b"}), 0, 1},           // 4096
	{"descending query", query(store.Query{Table: Beta, PK: "stock", Limit: 2, Descending: true}), 0, 2}, // 4096 + 1500
	{"query with a prefix that nothing has", query(store.Query{Table: Beta, PK: "stock", Prefix: "none"}), 0, 1},
}

var meterCases = []testCase{
	{"the meter counts DynamoDB's units", func(t *testing.T, s store.Store) {
		stock := func(t *testing.T) {
			for _, table := range []store.Table{Alpha, Gold} {
				for _, size := range []int{100, 1500, 2500, 4096, 4097} {
					k := stocked(table, size)
					write(t, s, store.Put(k, exact(k, size)))
				}
			}
			for _, k := range []store.Key{alpha("a"), alpha("b"), alpha("c"), key(Gold, "p", "a")} {
				write(t, s, store.Delete(k))
			}
		}
		for i, size := range []int{1500, 1500, 1500, 4096} {
			k := key(Beta, "stock", []string{"a1", "a2", "a3", "b"}[i])
			write(t, s, store.Put(k, sized(k, size)))
		}
		for _, c := range meterTable {
			t.Run(c.name, func(t *testing.T) {
				stock(t)
				before := s.Meter().Spent()
				c.do(t, s)
				got, want := s.Meter().Spent().Since(before), store.Units{Write: c.write, Read: c.read}
				if got != want {
					t.Errorf("cost %+v, want %+v", got, want)
				}
			})
		}
	}},
	{"numbers, lists and maps are billed by their published sizes", func(t *testing.T, s store.Store) {
		// Each item is filled up to 1 KB exactly, and costs one unit; with one byte more it costs two.
		for i, v := range []any{
			int64(0), int64(1), int64(-1), int64(12), int64(100), int64(123), int64(-123), int64(9007199254740993), true, "", "한번",
			[]any{}, map[string]any{}, []any{"a", int64(1)}, map[string]any{"k": []any{true}},
		} {
			k := alpha(number(i))
			for over := range 2 {
				item := store.Attrs{"v": v, "x": ""}
				item["x"] = strings.Repeat("a", 1024+over-store.Size(k, item))
				before := s.Meter().Spent()
				write(t, s, store.Put(k, item))
				if got, want := s.Meter().Spent().Since(before).Write, float64(1+over); got != want {
					t.Errorf("item with %v and %d bytes costs %v, want %v", v, 1024+over, got, want)
				}
			}
		}
	}},
}

// exact is sized with an attribute n = 1 for conditions.
func exact(k store.Key, n int) store.Attrs {
	item := store.Attrs{"n": int64(1), "x": ""}
	item["x"] = strings.Repeat("a", n-store.Size(k, item))
	return item
}
