package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanbeon/pkg/store"
)

type text string

// fields has every kind of field that items have, and every option.
type fields struct {
	Text    string `json:"text"`
	Named   text   `json:"named"`
	NoTag   string
	Left    string         `json:"left,omitempty"`
	Secret  string         `json:"-"`
	Int     int            `json:"int"`
	Int64   int64          `json:"int64,omitempty"`
	Small   int8           `json:"small"`
	Yes     bool           `json:"yes"`
	No      bool           `json:"no,omitempty"`
	At      time.Time      `json:"at"`
	Since   time.Time      `json:"since,omitzero"`
	List    []string       `json:"list"`
	Few     []string       `json:"few,omitempty"`
	Numbers []int64        `json:"numbers"`
	Map     map[string]int `json:"map"`
	Pointer *int64         `json:"pointer"`
	Doc     store.Attrs    `json:"doc,omitempty"`
	Inner   struct {
		Name string `json:"name"`
		N    int    `json:"n,omitempty"`
	} `json:"inner"`
}

// The direct way of the codec gives what encoding/json would give, there and back.
func TestStructsAreEncodedAsJSONWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := fields{
			Text: rapid.String().Draw(t, "text"), Named: text(rapid.String().Draw(t, "named")), NoTag: rapid.String().Draw(t, "noTag"), Left: rapid.StringN(0, 1, -1).Draw(t, "left"),
			Secret: "secret", Int: rapid.Int().Draw(t, "int"), Int64: rapid.Int64Range(-1, 1).Draw(t, "int64"), Small: rapid.Int8().Draw(t, "small"),
			Yes: rapid.Bool().Draw(t, "yes"), No: rapid.Bool().Draw(t, "no"),
			At: time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "at")).UTC(), List: rapid.SliceOfN(rapid.String(), 0, 2).Draw(t, "list"),
			Few: rapid.SliceOfN(rapid.String(), 0, 1).Draw(t, "few"), Numbers: rapid.SliceOfN(rapid.Int64(), 0, 2).Draw(t, "numbers"), Map: map[string]int{"a": rapid.Int().Draw(t, "map")},
		}
		if rapid.Bool().Draw(t, "nils") {
			v.List, v.Numbers, v.Map = nil, nil, nil
		}
		if rapid.Bool().Draw(t, "set") {
			n := rapid.Int64().Draw(t, "pointer")
			v.Pointer, v.Since, v.Doc = &n, v.At, store.Attrs{"n": n}
		}
		v.Inner.Name, v.Inner.N = v.Text, rapid.IntRange(0, 1).Draw(t, "inner")
		got, err := store.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want, err := store.Unmarshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("Encode (-json +got):\n%s", d)
		}
		var back, wantBack fields
		if err := store.Decode(got, &back); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &wantBack); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(wantBack, back); d != "" {
			t.Fatalf("Decode (-json +got):\n%s", d)
		}
	})
}
