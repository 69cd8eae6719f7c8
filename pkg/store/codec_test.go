package store_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanbeon/pkg/store"
)

type record struct {
	Name  string          `json:"name"`
	N     int64           `json:"n"`
	Small int8            `json:"small"`
	Open  bool            `json:"open"`
	Skip  string          `json:"skip,omitempty"`
	Note  *string         `json:"note"`
	Tags  []string        `json:"tags"`
	Count map[string]int  `json:"count"`
	At    time.Time       `json:"at"`
	Free  store.Attrs     `json:"free"`
	Raw   json.RawMessage `json:"raw,omitempty"`
	Inner struct {
		Deep []map[string]int64 `json:"deep"`
	} `json:"inner"`
}

var at = time.Date(2024, 4, 1, 0, 0, 0, 5_000_000, time.UTC)

func TestEncodeDropsNullAndKeepsZero(t *testing.T) {
	t.Parallel()
	got, err := store.Encode(record{At: at})
	want := store.Attrs{"name": "", "n": int64(0), "small": int64(0), "open": false, "at": "2024-04-01T00:00:00.005Z", "inner": map[string]any{}}
	if diff := cmp.Diff(got, want); diff != "" || err != nil {
		t.Errorf("Encode, %v (-got +want):\n%s", err, diff)
	}
}

func TestStructRoundTrip(t *testing.T) {
	t.Parallel()
	note := "<&> \u2028 한번 😀 \x00 \ufffe"
	want := record{
		Name: note, N: math.MaxInt64, Small: -128, Open: true, Note: &note, Tags: []string{"", "a"}, Count: map[string]int{"": 0, "k": math.MinInt64}, At: at,
		Free: store.Attrs{"exact": int64(9007199254740993), "l": []any{int64(9007199254740993)}}, Raw: json.RawMessage(`{"n":9007199254740993}`),
	}
	want.Inner.Deep = []map[string]int64{{"n": 9007199254740993}, {}}
	attrs, err := store.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	attrs["added by a newer version"] = "x"
	var got record
	if err := store.Decode(attrs, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("Decode(Encode) (-got +want):\n%s", diff)
	}
}

type embedded struct {
	Text string `json:"text"`
}

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	for name, v := range map[string]any{
		"float":                    struct{ F float64 }{1},
		"float in any":             store.Attrs{"f": 1.0},
		"float deep down":          store.Attrs{"l": []any{map[string]any{"f": float32(0.5)}}},
		"float as raw JSON":        struct{ R json.RawMessage }{json.RawMessage(`1.5`)},
		"exponent":                 struct{ R json.RawMessage }{json.RawMessage(`1e3`)},
		"NaN":                      store.Attrs{"f": math.NaN()},
		"unsigned beyond 63 bits":  struct{ U uint64 }{1 << 63},
		"raw JSON beyond 63 bits":  struct{ R json.RawMessage }{json.RawMessage(`9223372036854775808`)},
		"broken raw JSON":          struct{ R json.RawMessage }{json.RawMessage(`{`)},
		"null in a list":           store.Attrs{"l": []any{nil}},
		"channel":                  store.Attrs{"c": make(chan int)},
		"invalid UTF-8":            store.Attrs{"s": "a\xff"},
		"invalid UTF-8 in struct":  struct{ S string }{"\xc3"},
		"invalid UTF-8 in slice":   struct{ S []string }{[]string{"ok", "\xed\xa0\x80"}},
		"invalid UTF-8 in name":    store.Attrs{"\xff": int64(1)},
		"invalid UTF-8 in map key": struct{ M map[string]int }{map[string]int{"\xff": 1}},
		"invalid UTF-8 by pointer": struct{ P *string }{ptr("\xff")},
		"invalid UTF-8 in any":     struct{ A any }{[]string{"\xff"}},
		"invalid UTF-8 in raw":     struct{ R json.RawMessage }{json.RawMessage("\"\xff\"")},
		"invalid UTF-8 embedded":   struct{ embedded }{embedded{"\xff"}},
		"text":                     "text",
		"number":                   7,
		"list":                     []string{"a"},
		"nil":                      nil,
		"nil pointer":              (*record)(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := store.Encode(v); err == nil {
				t.Errorf("Encode(%#v) = %v, want an error", v, got)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestDecodeAndItemErrors(t *testing.T) {
	t.Parallel()
	var r record
	if err := store.Decode(store.Attrs{"n": "text"}, &r); err == nil {
		t.Error("Decode of text into a number = nil, want an error")
	}
	if err := store.Decode(store.Attrs{"small": int64(128)}, &r); err == nil {
		t.Error("Decode of 128 into int8 = nil, want an error")
	}
	k := store.Key{Table: "t", PK: "p", SK: "s"}
	if err := (store.Item{Key: k}).Decode(&r); err == nil || !strings.Contains(err.Error(), k.String()) {
		t.Errorf("Decode of an absent item = %v, want an error with its key", err)
	}
	if err := (store.Item{Key: k, Attrs: store.Attrs{"n": true}}).Decode(&r); err == nil || !strings.Contains(err.Error(), k.String()) {
		t.Errorf("Decode of a wrong item = %v, want an error with its key", err)
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{``, `null`, `[]`, `"a"`, `1`, `{`, `{"a":1.5}`, `{"a":[null]}`, `{"a":1e2}`, `{"a":9223372036854775808}`, `{} {}`, `{}x`} {
		if got, err := store.Unmarshal([]byte(s)); err == nil {
			t.Errorf("Unmarshal(%s) = %v, want an error", s, got)
		}
	}
	got, err := store.Unmarshal([]byte(`{"a":null,"b":{"c":null}}`))
	if diff := cmp.Diff(got, store.Attrs{"b": map[string]any{}}); diff != "" || err != nil {
		t.Errorf("Unmarshal, %v (-got +want):\n%s", err, diff)
	}
}

// attrs draws attributes of any shape.
func attrs() *rapid.Generator[store.Attrs] {
	scalar := rapid.OneOf(rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }))
	value := scalar
	for range 3 {
		inner := value
		value = rapid.OneOf(scalar, rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(m map[string]any) any { return m }))
	}
	return rapid.Map(rapid.MapOfN(rapid.String(), value, 0, 6), func(m map[string]any) store.Attrs { return m })
}

func TestMarshalRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := attrs().Draw(t, "attrs")
		b, err := store.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := store.Unmarshal(b)
		if diff := cmp.Diff(got, want); diff != "" || err != nil {
			t.Fatalf("Unmarshal(%q), %v (-got +want):\n%s", b, err, diff)
		}
		encoded, err := store.Encode(struct {
			Free store.Attrs `json:"free"`
		}{want})
		if diff := cmp.Diff(encoded, store.Attrs{"free": map[string]any(want)}); diff != "" || err != nil {
			t.Fatalf("Encode, %v (-got +want):\n%s", err, diff)
		}
	})
}

func TestTextIsEncodedExactlyOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { textRoundTrip(t, string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))) })
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"", "한번", "😀", "\ufffe", "\ufffd", "\xff", "\xed\xa0\x80", "a\x00b", `"\u2028`, "<script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { textRoundTrip(t, s) })
}

// textRoundTrip stores a text as value and as name, by a struct and by Attrs: it comes back the same, or was refused.
func textRoundTrip(t interface{ Fatalf(string, ...any) }, s string) {
	for _, v := range []any{struct {
		S string            `json:"s"`
		M map[string]string `json:"m"`
	}{s, map[string]string{s: s}}, store.Attrs{"s": s, "m": map[string]any{s: s}}} {
		got, err := store.Encode(v)
		if valid := strings.ToValidUTF8(s, "") == s; valid != (err == nil) {
			t.Fatalf("Encode(%#v) = %v, %v, but the text is valid: %v", v, got, err, valid)
		}
		if err != nil {
			continue
		}
		b, err := store.Marshal(got)
		if err != nil {
			t.Fatalf("Marshal(%v) = %v", got, err)
		}
		back, err := store.Unmarshal(b)
		if diff := cmp.Diff(back, store.Attrs{"s": s, "m": map[string]any{s: s}}); diff != "" || err != nil {
			t.Fatalf("Unmarshal(%q), %v (-got +want):\n%s", b, err, diff)
		}
	}
}

// FuzzUnmarshal reads what may stand in a damaged file: an error, or attributes that survive another round.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, `{"a":[{"b":null}]}`, `{"a":1.5}`, `{"\ud800":"\udfff"}`, `{"a":1,"a":2}`, `[[[`, `{"a":-0}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := store.Unmarshal(b)
		if err != nil {
			return
		}
		again, err := store.Marshal(want)
		if err != nil {
			t.Fatalf("Marshal(%v) = %v", want, err)
		}
		got, err := store.Unmarshal(again)
		if diff := cmp.Diff(got, want); diff != "" || err != nil {
			t.Fatalf("second round of %q, %v (-got +want):\n%s", b, err, diff)
		}
	})
}
