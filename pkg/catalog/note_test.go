package catalog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const hangul = "트랜잭션은 모두 되거나 하나도 안 된다.\n\t- 격리 수준 😀"

// noted is when the notes of the tests were put.
var noted = time.Date(2024, 4, 15, 9, 30, 0, 123_000_000, time.UTC)

func note(id string) catalog.Note {
	return catalog.Note{ID: id, Member: "member-42", Date: "2024-04-15", At: noted, Text: hangul}
}

func noteWith(change func(*catalog.Note)) catalog.Note {
	n := note("x")
	change(&n)
	return n
}

// withMembers is a catalog with these members.
func withMembers(t testing.TB, s store.Store, ids ...string) *catalog.Catalog {
	t.Helper()
	c := catalog.New(s)
	var members []catalog.Member
	for _, id := range ids {
		members = append(members, member(id))
	}
	if _, err := c.PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	return c
}

func putNotes(t testing.TB, c *catalog.Catalog, notes ...catalog.Note) []catalog.Result {
	t.Helper()
	results, err := c.PutNotes(t.Context(), notes)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func notesOf(t testing.TB, c *catalog.Catalog, member string, date once.Period) []catalog.Note {
	t.Helper()
	notes, err := c.NotesOf(t.Context(), member, date)
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

func TestPutNotesWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	c := withMembers(t, s, "member-42")
	changed, later := note("b"), note("c")
	changed.Text = "나중에 고쳤다"
	later.At = noted.Add(time.Hour) // when it was put is no content
	for _, step := range []struct {
		name   string
		notes  []catalog.Note
		want   string
		writes float64 // write units: two per note in a transaction, one alone
	}{
		{"all are new", []catalog.Note{note("a"), note("b"), note("c")}, "added added added", 6},
		{"the same again", []catalog.Note{note("a"), note("b"), note("c")}, "unchanged unchanged unchanged", 0},
		{"one differs", []catalog.Note{note("a"), changed, later, note("d")}, "unchanged changed unchanged added", 4},
		{"none", nil, "", 0},
	} {
		before := s.Meter().Spent()
		if got := outcomes(putNotes(t, c, step.notes...)); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if got := s.Meter().Spent().Since(before).Write; got != step.writes {
			t.Errorf("%s: %v write units, want %v", step.name, got, step.writes)
		}
	}
	if diff := cmp.Diff(notesOf(t, c, "member-42", "2024-04-15"), []catalog.Note{note("a"), changed, note("c"), note("d")}); diff != "" {
		t.Errorf("got (-) and want (+):\n%s", diff)
	}
}

// KEY-02 and KEY-04: an id that is no subject never becomes a key, an impossible day neither; what is wrong with a note is said of that note, and holds no neighbour back.
func TestPutNotesAnswersItemByItem(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	c := withMembers(t, s, "member-42")
	type test struct {
		field string // that the error begins with
		note  catalog.Note
	}
	var bad []test
	for _, id := range []string{"", " ", " a", "a\u200b", "메모", "a:b", "a#b", "a/b", "%2F", "a\n", strings.Repeat("x", 129)} {
		bad = append(bad, test{"id: ", note(id)}, test{"memberId: ", noteWith(func(n *catalog.Note) { n.Member = id })})
	}
	for _, date := range []once.Period{"", "2024-04", "2024-04-31", "2023-02-29", "2024-4-15", "1999-12-31", "2024-04-15#", "２０２４-04-15", "0000-00-00", "2024-04-15T00:00:00Z", once.Period(strings.Repeat("2", 3000))} {
		bad = append(bad, test{"date ", noteWith(func(n *catalog.Note) { n.Date = date })})
	}
	for _, text := range []string{"", "a\x00b", "a\rb", "a\r", "a\x1b[31m", "a\x7f", "a\u0085b", "a\xffb", "\xea\xb9", strings.Repeat("한", catalog.MaxNoteText/3) + "xx"} {
		bad = append(bad, test{"text ", noteWith(func(n *catalog.Note) { n.Text = text })})
	}
	bad = append(bad, test{"at: ", noteWith(func(n *catalog.Note) { n.At = time.Unix(1<<40, 0) })}, test{"memberId: ", noteWith(func(n *catalog.Note) { n.Member = "Member-42" })})
	good := []catalog.Note{
		note("first"), noteWith(func(n *catalog.Note) { n.ID, n.Text = "longest", strings.Repeat("한", catalog.MaxNoteText/3)+"x" }),
		noteWith(func(n *catalog.Note) { n.ID, n.Text = "one-byte", "x" }), noteWith(func(n *catalog.Note) { n.ID, n.Text = "crlf", "a\r\nb\r\n\tc\n" }),
		noteWith(func(n *catalog.Note) { n.ID, n.At = "timeless", time.Time{} }), noteWith(func(n *catalog.Note) { n.ID, n.Date = "leap", "2024-02-29" }),
	}
	notes := []catalog.Note{good[0]}
	for _, b := range bad {
		notes = append(notes, b.note)
	}
	results := putNotes(t, c, append(notes, good[1:]...)...)
	for i, r := range results {
		switch {
		case i == 0 || i > len(bad):
			if r.Err != nil || r.Outcome != catalog.Added {
				t.Errorf("note %d: %+v, want added", i, r)
			}
		case r.Err == nil || r.Outcome != "" || !strings.HasPrefix(r.Err.Error(), bad[i-1].field):
			t.Errorf("note %.60q: %+v, want an error that begins with %q", fmt.Sprint(bad[i-1].note), r, bad[i-1].field)
		case len(r.Err.Error()) > 300:
			t.Errorf("the error has %d bytes: %.300s", len(r.Err.Error()), r.Err)
		}
	}
	if got := len(notesOf(t, c, "member-42", "2024-04-15")) + len(notesOf(t, c, "member-42", "2024-02-29")); got != len(good) {
		t.Errorf("%d notes are stored, want %d", got, len(good))
	}
	if err := results[len(bad)].Err; !errors.Is(err, catalog.ErrNoSuchMember) {
		t.Errorf("a note of nobody: %v, want ErrNoSuchMember", err)
	}
}

// Whether there is such a member is not asked for a note that is wrong anyway.
func TestPutNotesSaysWhatIsWrongAlsoWhereNothingIsRight(t *testing.T) {
	t.Parallel()
	c := withMembers(t, openStore(t), "member-42")
	results := putNotes(t, c, noteWith(func(n *catalog.Note) { n.Date = "2024-04-31" }))
	if err := results[0].Err; err == nil || errors.Is(err, catalog.ErrNoSuchMember) {
		t.Errorf("an impossible day: %v, want an error of the date", err)
	}
}

// An id is that of a member's day: elsewhere it is another note.
func TestPutNotesTakesTheFirstOfADuplicate(t *testing.T) {
	t.Parallel()
	c := withMembers(t, openStore(t), "member-42", "member-4")
	other, tomorrow, neighbour := note("a"), note("a"), note("a")
	other.Text, tomorrow.Date, neighbour.Member = "다른 글", "2024-04-16", "member-4"
	ghost := noteWith(func(n *catalog.Note) { n.ID, n.Member = "a", "nobody" })
	results := putNotes(t, c, note("a"), other, note("a"), tomorrow, neighbour, ghost, ghost)
	if got, want := outcomes(results), "added error unchanged added added error error"; got != want || !errors.Is(results[1].Err, catalog.ErrDuplicate) {
		t.Errorf("%s (%v), want %s", got, results[1].Err, want)
	}
	if err := results[6].Err; !errors.Is(err, catalog.ErrNoSuchMember) { // not "duplicate": nothing was stored that it repeats
		t.Errorf("the second note of nobody: %v, want ErrNoSuchMember", err)
	}
	for _, want := range []catalog.Note{note("a"), tomorrow, neighbour} {
		if diff := cmp.Diff(notesOf(t, c, want.Member, want.Date), []catalog.Note{want}); diff != "" {
			t.Errorf("%s on %s, got (-) and want (+):\n%s", want.Member, want.Date, diff)
		}
	}
}

// Seventy of the longest notes are 4.5 MB: more than DynamoDB takes in one transaction.
func TestPutNotesOfMoreThanATransactionTakes(t *testing.T) {
	t.Parallel()
	c := withMembers(t, openStore(t), "member-42")
	var notes []catalog.Note
	for i := range 70 {
		notes = append(notes, noteWith(func(n *catalog.Note) {
			n.ID, n.Text = fmt.Sprintf("n-%03d", i), strings.Repeat("x", catalog.MaxNoteText)
		}))
	}
	if got := strings.Count(outcomes(putNotes(t, c, notes...)), "added"); got != len(notes) {
		t.Errorf("%d added, want %d", got, len(notes))
	}
	if got := notesOf(t, c, "member-42", "2024-04-15"); len(got) != len(notes) || got[69].ID != "n-069" { // five pages of the store
		t.Errorf("%d notes are stored, want %d", len(got), len(notes))
	}
	enough := errors.New("enough")
	read := 0
	err := c.EachNote(t.Context(), "member-42", "2024-04-15", func(catalog.Note) error {
		if read++; read == 3 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || read != 3 {
		t.Errorf("EachNote read %d notes and ended with %v, want 3 and the caller's error", read, err)
	}
}

func TestPutNotesReportsAStoreThatFails(t *testing.T) {
	t.Parallel()
	s := &failing{Store: openStore(t), after: 1} // the member
	c := withMembers(t, s, "member-42")
	if results, err := c.PutNotes(t.Context(), []catalog.Note{note("a")}); !errors.Is(err, errDisk) || results != nil {
		t.Errorf("error %v and %d results, want %v and none", err, len(results), errDisk)
	}
	s.heal()
	if got := outcomes(putNotes(t, c, note("a"))); got != "added" {
		t.Errorf("the same call again: %s, want added", got)
	}
}

// DSP-08: an empty page with a next is not the end of a day. A day has its own notes only, in order of ids, whatever days and members are around it.
func TestNotesOf(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	c := withMembers(t, s, "member-42", "member-4", "member-420")
	var notes, want []catalog.Note
	for i := range 500 {
		n := note(fmt.Sprintf("note-%d", (i*7)%500))
		n.Date = once.Period(fmt.Sprintf("2024-04-%02d", 14+i%3))
		n.Member = []string{"member-42", "member-4", "member-420"}[i/3%3]
		notes = append(notes, n)
	}
	putNotes(t, c, notes...)
	for _, n := range notes {
		if n.Member == "member-42" && n.Date == "2024-04-15" {
			want = append(want, n)
		}
	}
	for name, c := range map[string]*catalog.Catalog{"the embedded store": c, "a store with empty pages": catalog.New(&sparse{Store: s})} {
		got := notesOf(t, c, "member-42", "2024-04-15")
		if len(got) != len(want) || len(want) < 50 {
			t.Errorf("%s: %d notes, want %d", name, len(got), len(want))
		}
		for i, n := range got {
			if n.Member != "member-42" || n.Date != "2024-04-15" || n.Text != hangul || !n.At.Equal(noted) || i > 0 && n.ID <= got[i-1].ID {
				t.Errorf("%s: note %d is %+v", name, i, n)
			}
		}
	}
	if got := notesOf(t, c, "nobody", "2024-04-15"); got != nil {
		t.Errorf("notes of nobody: %v", got)
	}
	for _, bad := range [][2]string{{"a#b", "2024-04-15"}, {"", "2024-04-15"}, {"member-42", "2024-04"}, {"member-42", ""}, {"member-42", "2024-04-31"}} {
		if _, err := c.NotesOf(t.Context(), bad[0], once.Period(bad[1])); err == nil {
			t.Errorf("NotesOf(%q): accepted, want an error", bad)
		}
	}
}

// Notes against a plain map.
func TestPutNotesModel(t *testing.T) {
	t.Parallel()
	c := withMembers(t, openStore(t), "a", "b")
	stored := map[string]string{}
	rapid.Check(t, func(r *rapid.T) {
		notes := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) catalog.Note {
			return catalog.Note{
				ID: rapid.SampledFrom([]string{"1", "2", "10"}).Draw(r, "id"), Member: rapid.SampledFrom([]string{"a", "b", "nobody"}).Draw(r, "member"),
				Date: rapid.SampledFrom([]once.Period{"2024-04-15", "2024-04-16"}).Draw(r, "date"), Text: rapid.SampledFrom([]string{"x", "와", ""}).Draw(r, "text"),
			}
		}), 0, 8).Draw(r, "notes")
		results, err := c.PutNotes(t.Context(), notes)
		if err != nil {
			r.Fatal(err)
		}
		inBatch := map[string]string{}
		for i, n := range notes {
			key := n.Member + " " + string(n.Date) + " " + n.ID
			was, exists := stored[key]
			first, repeated := inBatch[key]
			want := ""
			switch {
			case n.Text == "" || n.Member == "nobody" || repeated && first != n.Text:
				want = "error"
			case repeated || exists && was == n.Text:
				want = "unchanged"
			case exists:
				want = "changed"
			default:
				want = "added"
			}
			if want != "error" && !repeated {
				stored[key], inBatch[key] = n.Text, n.Text
			}
			if got := outcomes(results[i : i+1]); got != want {
				r.Fatalf("note %d of %+v: %s, want %s", i, notes, got, want)
			}
		}
		for _, m := range []string{"a", "b"} {
			for _, d := range []once.Period{"2024-04-15", "2024-04-16"} {
				for _, n := range notesOf(t, c, m, d) {
					if stored[m+" "+string(d)+" "+n.ID] != n.Text {
						r.Fatalf("%+v is stored, want %v", n, stored)
					}
				}
			}
		}
	})
}
