package catalog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"hanbeon/pkg/once"
)

// ErrHeader marks a file that is no member list: its first line does not name the columns. Nothing of it was read.
var ErrHeader = errors.New("header")

// Row is one row of a file: a member, or why it is none.
type Row struct {
	Line   int64  // of the file, where the row starts; the header is line 1
	Member Member // set if Bad is ""
	Bad    string // the reason; names the column where there is one
}

// MemberReader reads the members of a CSV file one by one. Its memory does not grow with the file.
type MemberReader struct {
	lines   *lines
	zone    *time.Location
	columns []string
}

// ReadMembers starts to read a CSV file in the format described at the package. zone is the business time zone, in which a plain date begins.
// A wrong header is an error that wraps ErrHeader.
func ReadMembers(r io.Reader, zone *time.Location) (*MemberReader, error) {
	m := &MemberReader{lines: newLines(r, maxLine), zone: zone}
	head, err := m.lines.next()
	if err == io.EOF {
		return nil, fmt.Errorf("%w: the file is empty, want columns id, status, joined and perhaps name", ErrHeader)
	}
	if err != nil {
		return nil, fmt.Errorf("read header: %w", err)
	}
	text := strings.TrimPrefix(head.text, "\ufeff")
	if why := badText(head, text); why != "" {
		return nil, fmt.Errorf("%w: line 1 %s", ErrHeader, why)
	}
	if m.columns, err = fields(text); err != nil {
		return nil, fmt.Errorf("%w: line 1: %w", ErrHeader, err)
	}
	return m, checkColumns(m.columns)
}

func checkColumns(columns []string) error {
	seen := map[string]bool{}
	for _, c := range columns {
		switch c {
		case "id", "status", "joined", "name":
		default:
			return fmt.Errorf("%w: unknown column %.60q, want id, status, joined and perhaps name, separated by commas", ErrHeader, c)
		}
		if seen[c] {
			return fmt.Errorf("%w: column %s occurs twice", ErrHeader, c)
		}
		seen[c] = true
	}
	for _, c := range []string{"id", "status", "joined"} {
		if !seen[c] {
			return fmt.Errorf("%w: column %s is missing", ErrHeader, c)
		}
	}
	return nil
}

// Next is the next row, good or bad; io.EOF at the end. Any other error comes from the file and ends the reading.
func (m *MemberReader) Next() (Row, error) {
	for {
		l, err := m.lines.next()
		if err != nil {
			return Row{}, err
		}
		if l.text == "" {
			continue
		}
		row := Row{Line: l.n}
		if !l.long && strings.Count(l.text, `"`)%2 == 1 { // a quote is open at the end of the line, or the quotes are broken
			row.Bad, err = m.openQuote(l)
			return row, err
		}
		if row.Bad = badText(l, l.text); row.Bad != "" {
			return row, nil
		}
		values, err := fields(l.text)
		if err != nil {
			row.Bad = err.Error()
			return row, nil
		}
		row.Member, row.Bad = m.parse(values)
		return row, nil
	}
}

// openQuote looks for the end of a quoted field that runs over several lines, and says what is wrong with the row. Such a row is bad as a whole: its
// inner lines may look like members and are none. If it turns out not to be one, only its first line is bad.
//
// Outside the quotes a line has an even number of them, so the field ends on the next line with an odd number or is broken. No line is looked
// at more than twice: the work stays linear whatever the file.
func (m *MemberReader) openQuote(l line) (string, error) {
	var text strings.Builder
	text.WriteString(l.text)
	var taken []line
	for {
		more, err := m.lines.next()
		if err != nil && err != io.EOF {
			return "", err
		}
		if err == io.EOF || text.Len()+len(more.text) >= maxLine {
			if err == nil {
				taken = append(taken, more)
			}
			break
		}
		taken = append(taken, more)
		text.WriteString("\n" + more.text)
		if strings.Count(more.text, `"`)%2 == 1 {
			if _, err := fields(text.String()); err == nil {
				return fmt.Sprintf("a quoted field runs on to line %d: line breaks are not allowed", more.n), nil
			}
			break
		}
	}
	m.lines.unread(taken)
	if why := badText(l, l.text); why != "" {
		return why, nil
	}
	return brokenQuotes, nil
}

const brokenQuotes = "broken quotes"

// badText says why a line cannot be text of a member list.
func badText(l line, text string) string {
	switch {
	case l.long:
		return fmt.Sprintf("is longer than %d bytes", maxLine)
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	case strings.IndexByte(text, 0) >= 0:
		return "contains NUL"
	}
	return ""
}

// fields splits one record. Without quotes, the rule, commas are all there is.
func fields(record string) ([]string, error) {
	if strings.IndexByte(record, '"') < 0 {
		return strings.Split(record, ","), nil
	}
	r := csv.NewReader(strings.NewReader(record))
	r.FieldsPerRecord = -1
	values, err := r.Read()
	if err != nil {
		return nil, errors.New(brokenQuotes)
	}
	if _, err := r.Read(); err != io.EOF {
		return nil, errors.New(brokenQuotes)
	}
	return values, nil
}

// parse makes a member of the values of a row.
func (m *MemberReader) parse(values []string) (Member, string) {
	if len(values) != len(m.columns) {
		return Member{}, fmt.Sprintf("%d columns, want %d", len(values), len(m.columns))
	}
	var out Member
	var joined string
	for i, v := range values {
		switch m.columns[i] {
		case "id":
			out.ID = v
		case "status":
			out.Status = Status(v)
		case "joined":
			joined = v
		case "name":
			out.Name = v
		}
	}
	// The id first: a reason that names the wrong row helps nobody.
	if err := once.CheckSubject(out.ID); err != nil {
		return Member{}, "id: " + err.Error()
	}
	var err error
	if out.JoinedAt, err = ParseJoined(joined, m.zone); err != nil {
		return Member{}, err.Error()
	}
	if err := out.Check(); err != nil {
		return Member{}, err.Error()
	}
	return out.normal(), ""
}

const (
	dateLayout   = "2006-01-02"
	secondLayout = "2006-01-02T15:04:05"
)

// ParseJoined reads when a member joined: an RFC 3339 date-time with offset, or a date, which means 00:00 of that day in the business time zone. The
// error names `joined`.
func ParseJoined(s string, zone *time.Location) (time.Time, error) {
	if len(s) == len(dateLayout) {
		// Checked in UTC: where that midnight is skipped the zone gives an instant of the day before, and the date is still a real one.
		if day, err := time.Parse(dateLayout, s); err == nil {
			return time.Date(day.Year(), day.Month(), day.Day(), 0, 0, 0, 0, zone), nil
		}
	} else if t, err := time.Parse(time.RFC3339Nano, s); err == nil && strings.HasPrefix(s, t.Format(secondLayout)) && !strings.Contains(s, ",") {
		return t, nil // time.Parse alone takes T0:00:00 and a comma before the fraction
	}
	return time.Time{}, fmt.Errorf("joined %.40q: want a date-time with offset such as 2024-03-31T15:30:00Z, or a date such as 2024-04-01", s)
}
