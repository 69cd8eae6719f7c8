package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"hanbeon/pkg/store"
)

// What Get and GetStale answer.
var readCases = []testCase{
	{"get of no keys is an empty answer", func(t *testing.T, s store.Store) {
		items, err := s.Get(t.Context())
		if err != nil || len(items) != 0 {
			t.Errorf("Get() = %v, %v, want no items", items, err)
		}
		if items, err = s.GetStale(t.Context()); err != nil || len(items) != 0 {
			t.Errorf("GetStale() = %v, %v, want no items", items, err)
		}
	}},
	{"get of an absent item has its key and nil attributes", func(t *testing.T, s store.Store) {
		has(t, s, alpha("a"), nil)
		has(t, s, key(Gold, "never", "written"), nil)
	}},
	{"get answers 250 keys in their order, absent and repeated ones too, from every table", func(t *testing.T, s store.Store) {
		tables := []store.Table{Alpha, Beta, Gold}
		var keys []store.Key
		var want []store.Item
		var writes []store.Write
		for i := range 250 {
			// 7 is coprime to 250: the keys come in no order of the store. Every fifth is absent, the last fifty repeat the first ones.
			n := i * 7 % 250
			if i >= 200 {
				n = (i - 200) * 7 % 250
			}
			k := key(tables[n%3], fmt.Sprintf("p%d", n%11), number(n))
			keys = append(keys, k)
			if n%5 == 0 {
				want = append(want, store.Item{Key: k})
				continue
			}
			want = append(want, store.Item{Key: k, Attrs: store.Attrs{"n": int64(n)}})
			if i < 200 {
				writes = append(writes, store.Insert(k, store.Attrs{"n": n}))
			}
		}
		for part := range slices.Chunk(writes, store.MaxWrites) {
			write(t, s, part...)
		}
		got, err := s.Get(t.Context(), keys...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(got, want); diff != "" {
			t.Errorf("Get (-got +want):\n%s", diff)
		}
		stale, err := s.GetStale(t.Context(), keys...)
		if err != nil || len(stale) != len(want) {
			t.Fatalf("GetStale = %d items, %v, want %d", len(stale), err, len(want))
		}
		for i, it := range stale {
			// A stale read may miss a write, but never makes one up.
			if it.Key != keys[i] || it.Exists() && !reflect.DeepEqual(it, want[i]) {
				t.Errorf("GetStale[%d] = %v, want %v or absent", i, it, want[i])
			}
		}
	}},
	{"get reads many large items", func(t *testing.T, s store.Store) {
		var keys []store.Key
		for i := range 45 { // 17 MB: more than DynamoDB gives in one answer
			k := alpha(number(i))
			keys = append(keys, k)
			write(t, s, store.Put(k, sized(k, 390*1024)))
		}
		items, err := s.Get(t.Context(), keys...)
		if err != nil || len(items) != len(keys) {
			t.Fatalf("Get = %d items, %v, want %d", len(items), err, len(keys))
		}
		for i, it := range items {
			if it.Key != keys[i] || store.Size(it.Key, it.Attrs) != 390*1024 {
				t.Errorf("Get[%d] = %s of %d bytes", i, it.Key, store.Size(it.Key, it.Attrs))
			}
		}
	}},
	{"lists and maps keep their nesting", func(t *testing.T, s store.Store) {
		deep := any("bottom")
		for range 12 {
			deep = []any{map[string]any{"down": deep}}
		}
		item := store.Attrs{
			"none": []any{}, "nothing": map[string]any{}, "mixed": []any{"", int64(0), false, []any{}, map[string]any{}},
			"map": map[string]any{"a": []any{int64(1), "1", true}, "b": map[string]any{"c": map[string]any{"d": ""}}}, "deep": deep,
		}
		write(t, s, store.Put(alpha("a"), item))
		has(t, s, alpha("a"), item)
		write(t, s, store.Update(alpha("b"), item, nil))
		has(t, s, alpha("b"), item)
		refusedBy(t, s, map[int]store.Attrs{0: item}, store.Insert(alpha("a"), store.Attrs{}))
	}},
}

// What Query answers.
var queryCases = []testCase{
	{"a query of an empty partition has no items and no next", func(t *testing.T, s store.Store) {
		write(t, s, store.Put(key(Beta, "other", "a"), store.Attrs{}))
		for _, q := range []store.Query{{Table: Alpha, PK: "p"}, {Table: Beta, PK: "p"}, {Table: Beta, PK: "p", Descending: true, Limit: 1, Prefix: "a"}} {
			p, err := s.Query(t.Context(), q)
			if err != nil || len(p.Items) != 0 || p.Next != "" {
				t.Errorf("Query(%+v) = %+v, %v, want nothing", q, p, err)
			}
		}
	}},
	{"a query answers whole items", func(t *testing.T, s store.Store) {
		item := store.Attrs{"n": int64(9007199254740993), "s": "한번", "l": []any{true}}
		write(t, s, store.Put(alpha("a"), item))
		p, err := s.Query(t.Context(), store.Query{Table: Alpha, PK: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if diff := difference(p.Items, []store.Item{{Key: alpha("a"), Attrs: item}}); diff != "" {
			t.Errorf("Query (-got +want):\n%s", diff)
		}
	}},
	{"a query sees only its partition", func(t *testing.T, s store.Store) {
		// Partition keys that are prefixes of each other, or differ in the byte beside a separator.
		for _, pk := range []string{"m", "m-4", "m-42", "m-42\x01", "m-42 ", "m-42a", "m-43", "l"} {
			write(t, s, store.Put(key(Alpha, pk, "a"), store.Attrs{}), store.Put(key(Alpha, pk, pk), store.Attrs{}), store.Put(key(Beta, pk, "b"), store.Attrs{}))
		}
		for _, descending := range []bool{false, true} {
			want := []string{"a", "m-42"}
			if descending {
				slices.Reverse(want)
			}
			for _, limit := range []int{0, 1, 2, 3} {
				got := sortKeys(t, s, store.Query{Table: Alpha, PK: "m-42", Limit: limit, Descending: descending})
				if !slices.Equal(got, want) {
					t.Errorf("limit %d, descending %v: %q, want %q", limit, descending, got, want)
				}
			}
		}
	}},
	{"a query goes in byte order of sort keys, by prefix, page by page, in both directions", pagesOfEverySize},
	{"a cursor goes on where the page ended, although items came and went", func(t *testing.T, s store.Store) {
		for _, sk := range []string{"b", "d", "f", "h"} {
			write(t, s, store.Put(alpha(sk), store.Attrs{}))
		}
		for _, c := range []struct {
			descending  bool
			first, want []string
		}{{false, []string{"b", "d"}, []string{"e", "f", "h"}}, {true, []string{"h", "f"}, []string{"e", "d", "b", "a"}}} {
			q := store.Query{Table: Alpha, PK: "p", Limit: 2, Descending: c.descending}
			p, err := s.Query(t.Context(), q)
			if err != nil || len(p.Items) != 2 || p.Items[0].Key.SK != c.first[0] || p.Items[1].Key.SK != c.first[1] {
				t.Fatalf("first page = %+v, %v, want %q", p.Items, err, c.first)
			}
			// What the cursor stands on goes away; one item comes on either side.
			last := p.Items[1]
			write(t, s, store.Delete(last.Key), store.Put(alpha("a"), store.Attrs{}), store.Put(alpha("e"), store.Attrs{}))
			q.Cursor = p.Next
			if got := sortKeys(t, s, q); !slices.Equal(got, c.want) {
				t.Errorf("descending %v: after %q came %q, want %q", c.descending, last.Key.SK, got, c.want)
			}
			write(t, s, store.Put(last.Key, store.Attrs{}), store.Delete(alpha("a")), store.Delete(alpha("e")))
		}
	}},
	{"a page holds at most 1 MiB of items", func(t *testing.T, s store.Store) {
		want := []string{}
		for i := range 9 {
			k := alpha(number(i))
			want = append(want, k.SK)
			write(t, s, store.Put(k, sized(k, 300*1024)))
		}
		for _, q := range []store.Query{{Table: Alpha, PK: "p"}, {Table: Alpha, PK: "p", Descending: true}, {Table: Alpha, PK: "p", Limit: 5}} {
			var got []string
			for _, p := range all(t, s, q) {
				size := 0
				for _, it := range p {
					size += store.Size(it.Key, it.Attrs)
					got = append(got, it.Key.SK)
				}
				if size > store.MaxPage {
					t.Errorf("Query(%+v): a page of %d bytes, want at most %d", q, size, store.MaxPage)
				}
			}
			if q.Descending {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("Query(%+v) = %q, want %q", q, got, want)
			}
		}
	}},
}

func pagesOfEverySize(t *testing.T, s store.Store) {
	sks := []string{"a", "a#1", "a#10", "a#2", "a~", "ab", "b", "B", "é", "e\u0301", "한", "\u007f", "\u0080", "\ufffd", "\ufffe", "\uffff", "😀", "\U0010ffff", " ", "\x01", "a\x01", "0", "10", "9"}
	for _, sk := range sks {
		write(t, s, store.Put(alpha(sk), store.Attrs{"text": sk}))
	}
	slices.Sort(sks) // Go compares strings by bytes
	for _, prefix := range []string{"", "a", "a#", "a#1", "\uffff", "\U0010ffff", "한", "é", "no such", "z"} {
		want := []string{}
		for _, sk := range sks {
			if strings.HasPrefix(sk, prefix) {
				want = append(want, sk)
			}
		}
		for _, descending := range []bool{false, true} {
			if descending {
				slices.Reverse(want)
			}
			for _, limit := range []int{0, 1, 2, 3, len(want), len(want) + 1, len(sks), 1000} {
				q := store.Query{Table: Alpha, PK: "p", Prefix: prefix, Limit: limit, Descending: descending}
				got := []string{}
				for _, p := range all(t, s, q) {
					if limit > 0 && len(p) > limit {
						t.Errorf("Query(%+v): a page of %d items", q, len(p))
					}
					for _, it := range p {
						got = append(got, it.Key.SK)
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("Query(%+v) = %q, want %q", q, got, want)
				}
			}
		}
	}
}

// Text comes back byte for byte.
var textCases = []testCase{
	{"text is kept byte for byte, as key, name and value", func(t *testing.T, s store.Store) {
		for i, text := range []string{
			"한 번", "가힣ㄱ", "\u1112\u1161\u11ab", "é", "e\u0301", "日本語", "😀👨‍👩‍👧‍👦", "\U0010ffff", "\ufffd", "\ufffe", "\uffff", "\ufeffbom", "\u2028\u2029",
			"\x01\x02\x1f\x7f", "\t\r\n", "<script>&amp;</script>", `"quoted" \back\slash`, `\u0000`, "  spaces  ", "a/b?c=d%20#e", "null", "true", "12", strings.Repeat("긴", 300),
		} {
			k := key(Alpha, "p"+text, text)
			item := store.Attrs{"value": text, "n" + text: []any{text, map[string]any{text: text}}, "NUL": "a\x00b" + text}
			write(t, s, store.Insert(k, item))
			has(t, s, k, item)
			write(t, s, store.Update(k, store.Attrs{"u" + text: text}, map[string]int64{"c" + text: int64(i)}, store.Equals("value", text)))
			item["u"+text], item["c"+text] = text, int64(i)
			refusedBy(t, s, map[int]store.Attrs{0: item}, store.Insert(k, item))
			if got := sortKeys(t, s, store.Query{Table: Alpha, PK: k.PK, Prefix: text}); !slices.Equal(got, []string{text}) {
				t.Errorf("Query(%q) = %q", k, got)
			}
		}
	}},
	{"texts that look alike are different keys and values", func(t *testing.T, s store.Store) {
		alike := []string{"é", "e\u0301", "한", "\u1112\u1161\u11ab", "a", "A", "a ", "\ufffd", "\ufffe"}
		for _, text := range alike {
			write(t, s, store.Insert(alpha(text), store.Attrs{"text": text}))
		}
		for i, text := range alike {
			has(t, s, alpha(text), store.Attrs{"text": text})
			other := alike[(i+1)%len(alike)]
			refusedBy(t, s, map[int]store.Attrs{0: {"text": text}}, store.Delete(alpha(text), store.Equals("text", other)))
		}
	}},
	{"empty text, empty lists and false are values", func(t *testing.T, s store.Store) {
		item := store.Attrs{"text": "", "list": []any{""}, "map": map[string]any{"a": ""}, "no": false, "zero": int64(0)}
		write(t, s, store.Put(alpha("a"), item))
		has(t, s, alpha("a"), item)
		write(t, s, store.Update(alpha("a"), store.Attrs{"zero": "", "no": []any{}}, nil, store.Equals("text", "")))
		item["zero"], item["no"] = "", []any{}
		has(t, s, alpha("a"), item)
	}},
}
