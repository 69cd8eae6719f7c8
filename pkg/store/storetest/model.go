package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hanbeon/pkg/store"
)

var modelCases = []testCase{
	{"random calls do what a map would", func(t *testing.T, s store.Store) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++ // every run, a shrinking one too, has partitions of its own
			m := &model{s: s, run: fmt.Sprint(run), items: map[store.Key]store.Attrs{}}
			rt.Repeat(map[string]func(*rapid.T){
				"transact": m.transact,
				"get":      m.get,
				"query":    m.query,
				"":         m.same,
			})
		})
	}},
}

// model is a store in a dozen lines: a map, and a rule written apart from Write.Apply.
type model struct {
	s     store.Store
	run   string
	items map[store.Key]store.Attrs
}

// meaning tells what a write does to an item: what it leaves, whether its conditions hold, and whether it can be accepted.
func meaning(w store.Write, old store.Attrs) (now store.Attrs, holds, valid bool) {
	for _, c := range w.If {
		if c.Attr == "" && old != nil || c.Attr != "" && (old == nil || !reflect.DeepEqual(old[c.Attr], c.Value)) {
			return nil, false, true
		}
	}
	switch w.Op {
	case store.OpPut:
		return w.Item, true, true
	case store.OpCheck:
		return old, true, true
	case store.OpDelete:
		return nil, true, true
	}
	now = store.Attrs{}
	maps.Copy(now, old)
	maps.Copy(now, w.Set)
	for name, d := range w.Add {
		sum := big.NewInt(d)
		if v, there := old[name]; there {
			n, number := v.(int64)
			if sum.Add(sum, big.NewInt(n)); !number || !sum.IsInt64() {
				return nil, true, false
			}
		}
		now[name] = sum.Int64()
	}
	return now, true, true
}

func (m *model) key() *rapid.Generator[store.Key] {
	return rapid.Custom(func(t *rapid.T) store.Key {
		return store.Key{
			Table: rapid.SampledFrom([]store.Table{Alpha, Beta, Gold}).Draw(t, "table"),
			PK:    m.run + rapid.SampledFrom([]string{"", "p", "pp", "한"}).Draw(t, "pk"),
			SK:    rapid.SampledFrom([]string{"a", "a#1", "ab", "b", "\ufffe", "😀"}).Draw(t, "sk"),
		}
	})
}

var (
	names   = rapid.SampledFrom([]string{"n", "m", "state", "size", "한글"})
	numbers = rapid.OneOf(rapid.Int64Range(-3, 3), rapid.Int64())
	scalars = rapid.OneOf(rapid.Map(numbers, func(n int64) any { return n }), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.SampledFrom([]string{"", "0", "1", "true", "RUNNING", "한번 😀\x00"}), func(s string) any { return s }))
	values = rapid.OneOf(scalars, rapid.Map(rapid.SliceOfN(scalars, 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(names, scalars, 0, 3), func(m map[string]any) any { return m }))
	attrs = rapid.Map(rapid.MapOfN(names, values, 0, 4), func(m map[string]any) store.Attrs { return m })
)

// conds are often those that hold, or a run of random ones would be refused always.
func conds(t *rapid.T, old store.Attrs) []store.Cond {
	var c []store.Cond
	switch rapid.IntRange(0, 5).Draw(t, "conditions") {
	case 0:
		c = append(c, store.Absent())
	case 1:
		c = append(c, store.Equals(names.Draw(t, "attribute"), scalars.Draw(t, "value")))
	case 2, 3:
		for _, name := range slices.Sorted(maps.Keys(old)) {
			switch old[name].(type) {
			case string, int64, bool:
				c = append(c, store.Equals(name, old[name]))
			}
		}
	}
	return c
}

func (m *model) write(t *rapid.T, k store.Key) store.Write {
	old := m.items[k]
	c := conds(t, old)
	switch rapid.SampledFrom([]store.Op{store.OpPut, store.OpUpdate, store.OpUpdate, store.OpDelete, store.OpCheck}).Draw(t, "op") {
	case store.OpPut:
		return store.Put(k, attrs.Draw(t, "item"), c...)
	case store.OpUpdate:
		set := attrs.Draw(t, "set")
		add := rapid.MapOfN(names, numbers, 0, 3).Draw(t, "add")
		for name := range set {
			delete(add, name)
		}
		if len(set)+len(add) == 0 {
			add["n"] = 1
		}
		return store.Update(k, set, add, c...)
	case store.OpDelete:
		return store.Delete(k, c...)
	}
	if len(c) == 0 {
		c = append(c, store.Absent())
	}
	return store.Check(k, c...)
}

func (m *model) transact(t *rapid.T) {
	keys := rapid.SliceOfNDistinct(m.key(), 1, 5, rapid.ID).Draw(t, "keys")
	var calls []store.Write
	after := maps.Clone(m.items)
	refusals := map[int]bool{} // index -> valid
	for i, k := range keys {
		w := m.write(t, k)
		calls = append(calls, w)
		now, holds, valid := meaning(w, m.items[k])
		if !holds || !valid {
			refusals[i] = valid
		}
		if after[k] = now; now == nil {
			delete(after, k)
		}
	}
	err := persist(t.Context(), m.s, calls...)
	if len(refusals) == 0 {
		if err != nil {
			t.Fatalf("Transact(%+v) = %v, want nil", calls, err)
		}
		m.items = after
		return
	}
	var r *store.Refused
	if !errors.As(err, &r) || len(r.By) == 0 {
		t.Fatalf("Transact(%+v) = %v, want refused by %v", calls, err, refusals)
	}
	for _, by := range r.By {
		valid, there := refusals[by.Index]
		if !there || valid != (by.Invalid == "") {
			t.Fatalf("Transact(%+v) refused by %+v, want %v", calls, by, refusals)
		}
		if diff := difference(by.Old.Attrs, m.items[keys[by.Index]]); diff != "" && valid {
			t.Fatalf("old item of write %d (-got +want):\n%s", by.Index, diff)
		}
	}
}

func (m *model) get(t *rapid.T) {
	keys := rapid.SliceOfN(m.key(), 0, 10).Draw(t, "keys")
	items, err := m.s.Get(t.Context(), keys...)
	if err != nil || len(items) != len(keys) {
		t.Fatalf("Get(%v) = %v, %v", keys, items, err)
	}
	for i, k := range keys {
		if diff := difference(items[i], store.Item{Key: k, Attrs: m.items[k]}); diff != "" {
			t.Fatalf("Get(%s) (-got +want):\n%s", k, diff)
		}
	}
}

// query reads all pages of one query.
func (m *model) query(t *rapid.T) {
	k := m.key().Draw(t, "partition")
	q := store.Query{
		Table: k.Table, PK: k.PK, Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Descending: rapid.Bool().Draw(t, "descending"),
		Prefix: rapid.SampledFrom([]string{"", "", "a", "a#", "😀", "z"}).Draw(t, "prefix"),
	}
	m.compare(t, q)
}

// same checks after every step one partition of one table, whole.
func (m *model) same(t *rapid.T) {
	k := m.key().Draw(t, "checked")
	m.compare(t, store.Query{Table: k.Table, PK: k.PK})
}

func (m *model) compare(t *rapid.T, q store.Query) {
	var want []store.Item
	for k, a := range m.items {
		if k.Table == q.Table && k.PK == q.PK && strings.HasPrefix(k.SK, q.Prefix) {
			want = append(want, store.Item{Key: k, Attrs: a})
		}
	}
	slices.SortFunc(want, func(a, b store.Item) int { return strings.Compare(a.Key.SK, b.Key.SK) })
	if q.Descending {
		slices.Reverse(want)
	}
	var got []store.Item
	for next := q; ; {
		p, err := m.s.Query(t.Context(), next)
		if err != nil || q.Limit > 0 && len(p.Items) > q.Limit {
			t.Fatalf("Query(%+v) = %d items, %v", next, len(p.Items), err)
		}
		got = append(got, p.Items...)
		if next.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	if diff := difference(got, want); diff != "" {
		t.Fatalf("Query(%+v) (-got +want):\n%s", q, diff)
	}
}
