package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// MaxNoteText is the longest text of a note in bytes of UTF-8.
const MaxNoteText = 64 * 1024

// Note is one thing that a member wrote down on a day. Its id belongs to the member and the day: the same id of another member or day is another note.
type Note struct {
	ID     string      `json:"id"`          // see once.CheckSubject
	Member string      `json:"memberId"`    // of the catalog
	Date   once.Period `json:"date"`        // a day of the business time zone
	At     time.Time   `json:"at,omitzero"` // when it was put, in UTC, kept to the millisecond; zero if nobody said. It is no content: putting a note that is otherwise equal leaves it as it was
	Text   string      `json:"text"`
}

// ErrNoSuchMember marks a note of a member that the catalog does not have.
var ErrNoSuchMember = errors.New("there is no such member")

// Check tells whether the note may be stored, as far as it can be told from the note alone. The error names the field that is wrong, by its name in
// JSON, and never quotes the text. Whether the day has come depends on the clock and is for the caller to say.
func (n Note) Check() error {
	if err := once.CheckSubject(n.ID); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	if err := once.CheckSubject(n.Member); err != nil {
		return fmt.Errorf("memberId: %w", err)
	}
	if err := checkDay(n.Date); err != nil {
		return err
	}
	if y := n.At.UTC().Year(); !n.At.IsZero() && (y < minYear || y > maxYear) {
		return fmt.Errorf("at: year %d is not between %d and %d", y, minYear, maxYear)
	}
	return checkNoteText(n.Text)
}

func checkDay(d once.Period) error {
	if day, err := once.ParsePeriod(string(d)); err != nil || day.IsMonth() {
		return fmt.Errorf("date %.40q: want a real day such as 2024-04-15, from 2000 on", string(d))
	}
	return nil
}

// checkNoteText takes lines of text: line feeds, tabs, and the carriage return that some systems put before a line feed.
func checkNoteText(text string) error {
	if text == "" {
		return errors.New("text is empty")
	}
	if len(text) > MaxNoteText {
		return fmt.Errorf("text has %d bytes, at most %d are allowed", len(text), MaxNoteText)
	}
	if !utf8.ValidString(text) {
		return errors.New("text is not valid UTF-8")
	}
	for at, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' && !strings.HasPrefix(text[at:], "\r\n") {
			return fmt.Errorf("text has a control character, %U at byte %d: only line breaks and tabs are allowed", r, at+1)
		}
	}
	return nil
}

// PutNotes is PutMembers for notes. A note of an unknown member is an error of that note, ErrNoSuchMember.
func (c *Catalog) PutNotes(ctx context.Context, notes []Note) ([]Result, error) {
	wrong := checkEach(notes)
	var members []string
	seen := map[string]bool{}
	for i, n := range notes {
		if wrong[i] == nil && !seen[n.Member] {
			seen[n.Member] = true
			members = append(members, n.Member)
		}
	}
	known, err := c.Known(ctx, members...)
	if err != nil {
		return nil, err
	}
	for i, id := range members {
		seen[id] = known[i]
	}
	for i, n := range notes {
		if wrong[i] == nil && !seen[n.Member] {
			wrong[i] = fmt.Errorf("memberId: %w", ErrNoSuchMember)
		}
	}
	return put(ctx, c.store, notes, wrong)
}

// NotesOf reads all notes of a member's day, in byte order of their ids. A member or day that no note can have is an error.
func (c *Catalog) NotesOf(ctx context.Context, member string, date once.Period) ([]Note, error) {
	var notes []Note
	err := c.EachNote(ctx, member, date, func(n Note) error {
		notes = append(notes, n)
		return nil
	})
	return notes, err
}

// EachNote is NotesOf for who may stop early: an error of f ends it and is returned as it is. At most store.MaxPage of the notes are in memory at once.
func (c *Catalog) EachNote(ctx context.Context, member string, date once.Period, f func(Note) error) error {
	if err := once.CheckSubject(member); err != nil {
		return fmt.Errorf("memberId: %w", err)
	}
	if err := checkDay(date); err != nil {
		return err
	}
	for q := (store.Query{Table: Table, PK: notesPK(member), Prefix: string(date) + "#"}); ; {
		page, err := c.store.Query(ctx, q)
		if err != nil {
			return fmt.Errorf("list notes of %s on %s: %w", member, date, err)
		}
		for _, item := range page.Items {
			n, err := decodeNote(item)
			if err != nil {
				return err
			}
			if err := f(n); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		q.Cursor = page.Next
	}
}

// noteContent is what makes two notes equal.
type noteContent struct {
	ID     string      `json:"id"`
	Member string      `json:"memberId"`
	Date   once.Period `json:"date"`
	Text   string      `json:"text"`
}

// noteItem is a note in the table.
type noteItem struct {
	ID     string      `json:"id"`
	Member string      `json:"memberId"`
	Date   once.Period `json:"date"`
	Text   string      `json:"text"`
	At     string      `json:"at,omitempty"`
}

func (n Note) key() store.Key {
	return store.Key{Table: Table, PK: notesPK(n.Member), SK: string(n.Date) + "#" + n.ID}
}

func (n Note) content() noteContent { return noteContent{n.ID, n.Member, n.Date, n.Text} }

func (n Note) item() any {
	at := ""
	if !n.At.IsZero() {
		at = n.At.UTC().Truncate(time.Millisecond).Format(timeLayout)
	}
	return noteItem{n.ID, n.Member, n.Date, n.Text, at}
}

func decodeNote(item store.Item) (Note, error) {
	var i noteItem
	if err := item.Decode(&i); err != nil {
		return Note{}, err
	}
	n := Note{ID: i.ID, Member: i.Member, Date: i.Date, Text: i.Text}
	if i.At == "" {
		return n, nil
	}
	at, err := time.Parse(timeLayout, i.At)
	if err != nil {
		return Note{}, fmt.Errorf("item %s: at: %w", item.Key, err)
	}
	n.At = at.UTC()
	return n, nil
}

func notesPK(member string) string { return "NOTES#" + member }
