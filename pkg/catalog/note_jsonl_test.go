package catalog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"hanbeon/pkg/catalog"

	"pgregory.net/rapid"
)

// readNotes is readAll for notes.
func readNotes(t testing.TB, r io.Reader) []string {
	t.Helper()
	notes := catalog.ReadNotes(r, noted)
	return rendered(t, func() (int64, string, string, error) {
		row, err := notes.Next()
		return row.Line, row.Note.ID, row.Bad, err
	})
}

func TestReadNotes(t *testing.T) {
	t.Parallel()
	const good = `{"id":"a","memberId":"member-42","date":"2024-04-15","text":"트랜잭션 😀\n둘째 줄"}` + "\n"
	text := func(json string) string { return `{"id":"a","memberId":"m","date":"2024-04-15","text":` + json + "}\n" }
	for _, tt := range []struct {
		name string
		file string
		want []string // each row as `line id`, or the beginning of `line! reason`
	}{
		{"nothing", "", nil},
		{"one row", good, []string{"1 a"}},
		{"without a line end at the end", strings.TrimSuffix(good, "\n"), []string{"1 a"}},
		{"a byte order mark at the start", "\ufeff" + good + good, []string{"1 a", "2 a"}},
		{"a byte order mark elsewhere", good + "\ufeff" + good, []string{"1 a", "2! is not JSON"}},
		{"a byte order mark and nothing else", "\ufeff\n" + good, []string{"2 a"}},
		{"CRLF", strings.ReplaceAll(good, "\n", "\r\n") + "\r\n" + strings.ReplaceAll(good, "\n", "\r\n"), []string{"1 a", "3 a"}},
		{"empty lines are skipped and counted", "\n\n" + good + "\r\n" + good, []string{"3 a", "5 a"}},
		{"a line of blanks is a row", "  \n" + good, []string{"1! is not JSON", "2 a"}},
		{"white space around it", " \t" + strings.TrimSuffix(good, "\n") + " \n", []string{"1 a"}},
		{"fields in another order", `{"text":"x","date":"2024-04-15","memberId":"m","id":"a"}` + "\n", []string{"1 a"}},
		{"escaped Hangul", text(`"\ud55c\u0020\uD83D\uDE00\t\r\n"`), []string{"1 a"}},
		{"an unknown field", `{"id":"a","memberId":"m","date":"2024-04-15","text":"x","at":"now"}` + "\n" + good, []string{`1! unknown field "at"`, "2 a"}},
		{"other case", `{"ID":"a","memberId":"m","date":"2024-04-15","text":"x"}` + "\n", []string{`1! unknown field "ID"`}},
		{"a field missing", `{"id":"a","memberId":"m","date":"2024-04-15"}` + "\n" + `{}` + "\n", []string{"1! field text is missing", "2! field id is missing"}},
		{"a field twice", `{"id":"a","id":"a","memberId":"m","date":"2024-04-15","text":"x"}` + "\n" + good, []string{`1! field "id" occurs twice`, "2 a"}},
		{"a field twice, once escaped", `{"id":"a","\u0069d":"b","memberId":"m","date":"2024-04-15","text":"x"}` + "\n", []string{`1! field "id" occurs twice`}},
		{"no text", text("null") + text("1") + text("true") + text(`["x"]`) + text(`{"a":"b"}`),
			[]string{"1! text: want text", "2! text: want text", "3! text: want text", "4! text: want text", "5! text: want text"}},
		{"no object", "null\n[]\n\"a\"\n1\n[" + strings.TrimSuffix(good, "\n") + "]\n", []string{"1! want a JSON object", "2! want", "3! want", "4! want", "5! want"}},
		{"two objects in a line", strings.Repeat(strings.TrimSuffix(good, "\n"), 2) + "\n", []string{"1! is not JSON"}},
		{"an object over lines", "{\"id\":\"a\",\n\"memberId\":\"m\"}\n" + good, []string{"1! is not JSON", "2! is not JSON", "3 a"}},
		{"not closed", `{"id":"a","memberId":"m","date":"2024-04-15","text":"x` + "\n" + good, []string{"1! is not JSON", "2 a"}},
		{"a comma too many", `{"id":"a",}` + "\n", []string{"1! is not JSON"}},
		{"a raw control character", text("\"a\x01b\"") + text("\"a\tb\""), []string{"1! is not JSON", "2! is not JSON"}},
		{"an escaped control character", text(`"a\u0000b"`) + text(`"a\u001b"`) + text(`"\r"`), []string{"1! text has a control character, U+0000", "2! text has", "3! text has"}},
		{"broken UTF-8", text("\"a\xff\"") + text("\"\xea\xb9\"") + good, []string{"1! is not valid UTF-8", "2! is not valid UTF-8", "3 a"}},
		{"EUC-KR", text("\"\xb1\xe8\""), []string{"1! is not valid UTF-8"}},
		{"half of a surrogate pair", text(`"\ud83d"`) + text(`"\uDE00\uD83D\ufffd"`) + text(`"\ufffd"`) + text("\"\ufffd\""), []string{"1! text: has half", "2! text: has half", "3 a", "4 a"}},
		{"NUL", text("\"a\x00\""), []string{"1! is not JSON"}},
		{"illegal ids", `{"id":"a/b","memberId":"m","date":"2024-04-15","text":"x"}` + "\n" + `{"id":"a","memberId":"회원","date":"2024-04-15","text":"x"}` + "\n" +
			`{"id":"","memberId":"m","date":"2024-04-15","text":"x"}` + "\n" + `{"id":"` + strings.Repeat("x", 3000) + `","memberId":"m","date":"2024-04-15","text":"x"}` + "\n" + good,
			[]string{"1! id: ", "2! memberId: ", "3! id: ", "4! id: ", "5 a"}},
		{"bad dates", `{"id":"a","memberId":"m","date":"2024-04-31","text":"x"}` + "\n" + `{"id":"a","memberId":"m","date":"2024-04","text":"x"}` + "\n", []string{"1! date ", "2! date "}},
		{"an empty text", text(`""`), []string{"1! text is empty"}},
		{"the longest text, every byte escaped", text(`"` + strings.Repeat(`\u0041`, catalog.MaxNoteText) + `"`), []string{"1 a"}},
		{"a text too long", text(`"`+strings.Repeat("x", catalog.MaxNoteText+1)+`"`) + good, []string{"1! text has 65537 bytes", "2 a"}},
		{"a line too long", text(`"`+strings.Repeat("x", 600_000)+`"`) + good + strings.Repeat("y", 600_000), []string{"1! is longer than 524288 bytes", "2 a", "3! is longer"}},
		{"a line of 10 MB", text(`"`+strings.Repeat("x", 10<<20)+`"`) + good, []string{"1! is longer", "2 a"}},
		{"nested deeply", strings.Repeat("[", 100_000) + "\n" + strings.Repeat(`{"id":`, 50_000) + "\n" + text(strings.Repeat("[", 5000)+strings.Repeat("]", 5000)) + good,
			[]string{"1! is not JSON", "2! is not JSON", "3! text: want text", "4 a"}},
	} {
		for kind, r := range map[string]io.Reader{"at once": strings.NewReader(tt.file), "in halves": iotest.HalfReader(strings.NewReader(tt.file))} {
			got := readNotes(t, r)
			ok := len(got) == len(tt.want)
			for i := 0; ok && i < len(got); i++ {
				ok = got[i] == tt.want[i] || strings.Contains(tt.want[i], "!") && strings.HasPrefix(got[i], tt.want[i]) && len(got[i]) < 300
			}
			if !ok {
				t.Errorf("%s, %s:\n got %.1000q\nwant %q", tt.name, kind, got, tt.want)
			}
		}
	}
}

// LOG-01: what somebody wrote down is in no reason.
func TestReasonsOfNotesDoNotQuoteTheText(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	for _, row := range []string{
		`"CANARY`, `{"CANARY`, `CANARY`, `{"id":"a","memberId":"m","date":"2024-04-15","text":"CANARY\u0000"}`, `{"id":"a","memberId":"m","date":"2024-04-15","text":["CANARY"]}`,
		`{"id":"a","memberId":"m","date":"2024-04-15","text":"CANARY` + strings.Repeat("x", catalog.MaxNoteText) + `"}`, `{"id":"a","memberId":"m","date":"2024-04-15","text":"CANARY\ud800"}`,
		"{\"id\":\"a\",\"memberId\":\"m\",\"date\":\"2024-04-15\",\"text\":\"CANARY\xff\"}",
	} {
		got := readNotes(t, strings.NewReader(row))
		if len(got) != 1 || !strings.HasPrefix(got[0], "1! ") || strings.Contains(got[0], canary) {
			t.Errorf("%.80q: %q, want one reason without the text", row, got)
		}
	}
}

func TestReadNotesStopsAtAReadError(t *testing.T) {
	t.Parallel()
	r := catalog.ReadNotes(io.MultiReader(strings.NewReader(`{"id":"a","memberId":"m","date":"2024-04-15","text":"x"}`+"\n{"), iotest.ErrReader(errDisk)), noted)
	want := catalog.NoteRow{Line: 1, Note: catalog.Note{ID: "a", Member: "m", Date: "2024-04-15", At: noted, Text: "x"}}
	if row, err := r.Next(); err != nil || row != want {
		t.Errorf("%+v (%v), want %+v", row, err, want)
	}
	if row, err := r.Next(); !errors.Is(err, errDisk) {
		t.Errorf("%+v, error %v, want %v", row, err, errDisk)
	}
}

func noteLine(n catalog.Note) string {
	b, err := json.Marshal(map[string]string{"id": n.ID, "memberId": n.Member, "date": string(n.Date), "text": n.Text})
	if err != nil {
		panic(err)
	}
	return string(b) + "\n"
}

// Whatever encoding/json writes of a good note reads back.
func TestReadNotesReadsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := catalog.Note{
			ID: rapid.StringMatching(`[A-Za-z0-9._~@+=-]{1,8}`).Draw(r, "id"), Member: "m", Date: "2024-04-15", At: noted,
			Text: rapid.StringMatching(`[<>&",\\a김😀\n\t �]{1,12}`).Draw(r, "text"),
		}
		row, err := catalog.ReadNotes(strings.NewReader(noteLine(want)), noted).Next()
		if err != nil || row != (catalog.NoteRow{Line: 1, Note: want}) {
			r.Fatalf("%+v (%v), want %+v", row, err, want)
		}
	})
}

// Any bytes: no panic, an end, lines in order, and every row is either a good note or bad with a reason.
func FuzzReadNotes(f *testing.F) {
	f.Add([]byte(noteLine(note("a")) + "\r\n{\n"))
	f.Add([]byte("\ufeff{\"id\":\"a\",\"memberId\":\"m\",\"date\":\"2024-04-15\",\"text\":\"\\ud800\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := catalog.ReadNotes(bytes.NewReader(b), time.Time{})
		last := int64(0)
		for {
			row, err := r.Next()
			if err == io.EOF {
				return
			}
			if err != nil || row.Line <= last || row.Line > int64(bytes.Count(b, []byte("\n"))+1) {
				t.Fatalf("%+v after line %d, error %v", row, last, err)
			}
			last = row.Line
			if row.Bad == "" && row.Note.Check() != nil || row.Bad != "" && row.Note != (catalog.Note{}) {
				t.Fatalf("%+v", row)
			}
		}
	})
}
