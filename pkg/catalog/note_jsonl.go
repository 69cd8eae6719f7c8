package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// maxNoteLine is the longest line of a file of notes in bytes. The longest text is 384 KB when JSON escapes each of its bytes.
const maxNoteLine = 512 * 1024

// NoteRow is one row of a file: a note, or why it is none.
type NoteRow struct {
	Line int64  // of the file, 1 is the first
	Note Note   // set if Bad is ""
	Bad  string // the reason; names the field where there is one, and never quotes the text of the note
}

// NoteReader reads the notes of a JSONL file one by one. Its memory does not grow with the file.
type NoteReader struct {
	lines *lines
	at    time.Time
}

// ReadNotes starts to read a JSONL file in the format described at the package. at becomes the At of every note.
func ReadNotes(r io.Reader, at time.Time) *NoteReader {
	return &NoteReader{newLines(r, maxNoteLine), at}
}

// Next is the next row, good or bad; io.EOF at the end. Any other error comes from the file and ends the reading.
func (r *NoteReader) Next() (NoteRow, error) {
	for {
		l, err := r.lines.next()
		if err != nil {
			return NoteRow{}, err
		}
		if l.n == 1 {
			l.text = strings.TrimPrefix(l.text, "\ufeff")
		}
		if l.text == "" {
			continue
		}
		n, err := parseNote(l)
		if err != nil {
			return NoteRow{Line: l.n, Bad: err.Error()}, nil
		}
		n.At = r.at
		return NoteRow{Line: l.n, Note: n}, nil
	}
}

// ImportNotes is Import for a file of notes, except that rows are in memory only up to the size of one transaction, and an id is distinct within its
// member and day.
func ImportNotes(ctx context.Context, c *Catalog, r *NoteReader, progress func(rows int64), bad func(BadRow)) (Report, error) {
	next := func() (row[Note], error) {
		n, err := r.Next()
		return row[Note]{n.Line, n.Note, n.Bad, len(n.Note.Text)}, err
	}
	return importRows(ctx, c.store, next, c.PutNotes, progress, bad)
}

// parseNote reads one line, strictly: encoding/json alone would take `ID` for id, the last of two texts, null for none, and a broken surrogate for a
// question mark.
func parseNote(l line) (Note, error) {
	switch {
	case l.long:
		return Note{}, fmt.Errorf("is longer than %d bytes", maxNoteLine)
	case !utf8.ValidString(l.text):
		return Note{}, errors.New("is not valid UTF-8")
	}
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(l.text), &whole); errors.As(err, &syntax) {
		return Note{}, fmt.Errorf("is not JSON, from byte %d on", syntax.Offset)
	} else if err != nil {
		return Note{}, errors.New("is not JSON")
	}
	var n Note
	fields := map[string]*string{"id": &n.ID, "memberId": &n.Member, "date": (*string)(&n.Date), "text": &n.Text}
	dec := json.NewDecoder(bytes.NewReader(whole))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return Note{}, errors.New("want a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return Note{}, errors.New("is not JSON")
		}
		name, _ := token.(string)
		to, ok := fields[name]
		switch {
		case !ok:
			return Note{}, fmt.Errorf("unknown field %.40q, want id, memberId, date and text", name)
		case seen[name]:
			return Note{}, fmt.Errorf("field %s occurs twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return Note{}, errors.New("is not JSON")
		}
		if *to, err = jsonText(value); err != nil {
			return Note{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range []string{"id", "memberId", "date", "text"} {
		if !seen[name] {
			return Note{}, fmt.Errorf("field %s is missing", name)
		}
	}
	return n, n.Check()
}

// jsonText reads a JSON string of valid UTF-8.
func jsonText(value json.RawMessage) (string, error) {
	var s string
	if value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", errors.New("want text in quotes")
	}
	// The decoder writes U+FFFD for half of a surrogate pair: more of them than were written means that text is lost.
	const lost = "\ufffd"
	if n := strings.Count(s, lost); n > 0 && n > strings.Count(string(value), lost)+strings.Count(strings.ToLower(string(value)), `\ufffd`) {
		return "", errors.New("has half of a surrogate pair, which is no character")
	}
	return s, nil
}
