package catalog

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"hanbeon/pkg/jsonobject"
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

// parseNote reads one line, strictly.
func parseNote(l line) (Note, error) {
	if l.long {
		return Note{}, fmt.Errorf("is longer than %d bytes", maxNoteLine)
	}
	fields, err := jsonobject.Fields([]byte(l.text), "id", "memberId", "date", "text")
	if err != nil {
		return Note{}, err
	}
	var n Note
	for _, f := range []struct {
		name string
		to   *string
	}{{"id", &n.ID}, {"memberId", &n.Member}, {"date", (*string)(&n.Date)}, {"text", &n.Text}} {
		value, ok := fields[f.name]
		if !ok {
			return Note{}, fmt.Errorf("field %s is missing", f.name)
		}
		if value[0] != '"' || json.Unmarshal(value, f.to) != nil {
			return Note{}, fmt.Errorf("%s: want text in quotes", f.name)
		}
	}
	return n, n.Check()
}
