package jsonobject_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"hanbeon/pkg/jsonobject"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestFieldsTakesOneObject(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text string
		want map[string]string
	}{
		"all of them":           {`{"a":1,"b":"x"}`, map[string]string{"a": "1", "b": `"x"`}},
		"none":                  {`{}`, map[string]string{}},
		"white space":           {" \t{\r\n\"b\" : [ 1, 2 ] , \"a\":null } \n", map[string]string{"b": "[ 1, 2 ]", "a": "null"}},
		"an escaped name":       {`{"\u0061":1}`, map[string]string{"a": "1"}},
		"a pair":                {`{"a":"\uD83D\uDE00"}`, map[string]string{"a": `"\uD83D\uDE00"`}},
		"U+FFFD that was meant": {`{"a":"\ufffd�"}`, map[string]string{"a": `"\ufffd�"`}},
		"no escape":             {`{"a":"\\ud83d"}`, map[string]string{"a": `"\\ud83d"`}},
		"5000 levels":           {`{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, map[string]string{"a": strings.Repeat("[", 5000) + strings.Repeat("]", 5000)}},
	} {
		fields, err := jsonobject.Fields([]byte(tt.text), "a", "b")
		got := map[string]string{}
		for n, v := range fields {
			got[n] = string(v)
		}
		if diff := cmp.Diff(got, tt.want); err != nil || diff != "" {
			t.Errorf("%s: %v, got (-) and want (+):\n%.500s", name, err, diff)
		}
	}
}

func TestFieldsRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                         {"", "is not JSON: byte 0 is wrong, or the last"},
		"blanks":                          {" \n", "is not JSON: byte 2 is wrong, or the last"},
		"null":                            {"null", "want a JSON object"},
		"a list":                          {`[{"a":1}]`, "want a JSON object"},
		"text":                            {`"a"`, "want a JSON object"},
		"a number":                        {"1", "want a JSON object"},
		"a byte order mark":               {"\ufeff{}", "is not JSON: byte 1 is wrong, or the last"},
		"cut short":                       {`{"a":1`, "is not JSON: byte 6 is wrong, or the last"},
		"cut in the middle":               {`{"a":`, "is not JSON: byte 5 is wrong, or the last"},
		"a comma too many":                {`{"a":1,}`, "is not JSON: byte 8 is wrong, or the last"},
		"a leading zero":                  {`{"a":01}`, "is not JSON: byte 7 is wrong, or the last"},
		"a raw control character":         {"{\"a\":\"\n\"}", "is not JSON: byte 7 is wrong, or the last"},
		"a second object":                 {`{"a":1}{"a":2}`, "is not JSON: byte 8 is wrong, or the last"},
		"text behind":                     {`{"a":1} x`, "is not JSON: byte 9 is wrong, or the last"},
		"NUL behind":                      {"{\"a\":1}\x00", "is not JSON: byte 8 is wrong, or the last"},
		"nested too deeply":               {strings.Repeat(`{"a":`, 10_001), "is not JSON: byte 50001 is wrong, or the last"},
		"invalid UTF-8 in a value":        {"{\"a\":\"\xff\"}", "is not valid UTF-8"},
		"invalid UTF-8 in a name":         {"{\"\xff\":1}", "is not valid UTF-8"},
		"a surrogate in UTF-8":            {"{\"a\":\"\xed\xa0\x80\"}", "is not valid UTF-8"},
		"other case":                      {`{"A":1}`, `unknown field "A", want a, b`},
		"an unknown field":                {`{"a":1,"c":2,"c":3}`, `unknown field "c", want a, b`},
		"a long unknown field":            {`{"` + strings.Repeat("한", 100) + `":1}`, `unknown field "` + strings.Repeat("한", 40) + `", want a, b`},
		"a name with a line break":        {`{"c\n":1}`, `unknown field "c\n", want a, b`},
		"half of a pair in a name":        {`{"a\ud800":1}`, `unknown field "a�", want a, b`},
		"a field twice":                   {`{"a":1,"a":1}`, `field "a" occurs twice`},
		"a field twice, once escaped":     {`{"a":1,"\u0061":2}`, `field "a" occurs twice`},
		"the first half of a pair":        {`{"b":"\ud83d"}`, "b: has half of a surrogate pair, which is no character"},
		"the second half of a pair":       {`{"b":"\uDE00"}`, "b: has half of a surrogate pair, which is no character"},
		"the halves in the wrong order":   {`{"b":"\uDE00\uD83D"}`, "b: has half of a surrogate pair, which is no character"},
		"the first half twice":            {`{"b":"\uD83D\uD83D\uDE00"}`, "b: has half of a surrogate pair, which is no character"},
		"half of a pair and an escape":    {`{"b":"\uD83D\nDE00"}`, "b: has half of a surrogate pair, which is no character"},
		"half of a pair beside U+FFFD":    {`{"b":"\ufffd�\\ufffd\ud83d"}`, "b: has half of a surrogate pair, which is no character"},
		"half of a pair deep in a value":  {`{"b":[{"x":"\ud83d"}]}`, "b: has half of a surrogate pair, which is no character"},
		"half of a pair in a deeper name": {`{"b":{"\ud83d":1}}`, "b: has half of a surrogate pair, which is no character"},
		"too many fields":                 {"{" + strings.Repeat(`"a":1,`, jsonobject.MaxFields) + `"a":1}`, "has more than 50 fields"},
	} {
		if fields, err := jsonobject.Fields([]byte(tt.text), "a", "b"); err == nil || err.Error() != tt.want || fields != nil {
			t.Errorf("%s: %v, error %v, want %s", name, fields, err, tt.want)
		}
	}
	var unknown *jsonobject.UnknownError
	if _, err := jsonobject.Fields([]byte(`{"c":1}`), "a"); !errors.As(err, &unknown) || unknown.Name != "c" {
		t.Errorf("%v, want an UnknownError of c", err)
	}
}

// Split leaves to its caller what names there are and how often.
func TestSplitKeepsOrderAndRepeats(t *testing.T) {
	t.Parallel()
	got, err := jsonobject.Split([]byte(`{"b": 1, "a":"x", "b":null, "\u0061":[ ]}`))
	want := []jsonobject.Field{{"b", json.RawMessage("1")}, {"a", json.RawMessage(`"x"`)}, {"b", json.RawMessage("null")}, {"a", json.RawMessage("[ ]")}}
	if diff := cmp.Diff(got, want); err != nil || diff != "" {
		t.Errorf("%v, got (-) and want (+):\n%s", err, diff)
	}
	most := "{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, jsonobject.MaxFields), ",") + "}"
	if got, err := jsonobject.Split([]byte(most)); err != nil || len(got) != jsonobject.MaxFields {
		t.Errorf("%d fields, %v, want %d", len(got), err, jsonobject.MaxFields)
	}
}

// Any sequence of UTF-16 code units, escaped: a text exactly where each surrogate has its other half, and then the same text.
func TestHalvesOfSurrogatePairs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOfN(rapid.OneOf(rapid.Uint16(), rapid.SampledFrom([]uint16{'u', '\\', 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xfffd})), 1, 6).Draw(t, "units")
		text := ""
		for _, u := range units {
			text += fmt.Sprintf(rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "escape"), u)
		}
		runes := utf16.Decode(units)
		whole := len(utf16.Encode(runes)) == len(units)
		for i, u := range utf16.Encode(runes) {
			whole = whole && u == units[i] // a half has become U+FFFD
		}
		values, err := jsonobject.Fields([]byte(`{"a":"`+text+`"}`), "a")
		if (err == nil) != whole {
			t.Fatalf("%s: error %v, want one: %v", text, err, !whole)
		}
		var got string
		if err == nil && (json.Unmarshal(values["a"], &got) != nil || got != string(runes)) {
			t.Fatalf("%s: got %q, want %q", text, got, string(runes))
		}
	})
}

// Any bytes: what is taken is what encoding/json reads and nothing else, and what it would read but is refused has a reason.
func FuzzFields(f *testing.F) {
	for _, text := range []string{`{"a":1,"b":"x"}`, `{"a":1,"a":2}`, `{"A":1}`, `{"a":"\ud83d\ude00\ud83d"}`, "{\"a\":\"\xff\"}", `{"a":1}{"b":2}`, ` {"a" : [ {"b":null} ] } `, `null`, `[]`, `{"\u0061":"\\u"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var read map[string]json.RawMessage
		ok := json.Unmarshal(text, &read) == nil && read != nil
		got, err := jsonobject.Fields(text, "a", "b")
		if err == nil {
			if !ok || !utf8.Valid(text) {
				t.Fatalf("%q is taken as %s", text, got)
			}
			if diff := cmp.Diff(got, read); diff != "" {
				t.Fatalf("%q, got (-) and want (+):\n%s", text, diff)
			}
			return
		}
		if got != nil || len(err.Error()) > 300 {
			t.Fatalf("%q: %s, %v", text, got, err)
		}
		if !ok || !utf8.Valid(text) {
			return
		}
		fields, splitErr := jsonobject.Split(text)
		_, a := read["a"]
		_, b := read["b"]
		known := len(read) == 2 && a && b || len(read) == 1 && (a || b) || len(read) == 0
		if splitErr == nil && known && len(fields) == len(read) && !strings.Contains(strings.ToLower(string(text)), `\ud`) {
			t.Fatalf("%q is refused: %v", text, err)
		}
	})
}
