package catalog_test

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"hanbeon/pkg/catalog"

	"pgregory.net/rapid"
)

const header = "id,status,joined,name\n"

// readAll renders each row as `line id` or `line! reason`.
func readAll(t testing.TB, r io.Reader) []string {
	t.Helper()
	m, err := catalog.ReadMembers(r, seoul(t))
	if err != nil {
		t.Fatal(err)
	}
	return rendered(t, func() (int64, string, string, error) {
		row, err := m.Next()
		return row.Line, row.Member.ID, row.Bad, err
	})
}

func rendered(t testing.TB, next func() (line int64, id, bad string, err error)) (got []string) {
	t.Helper()
	for {
		line, id, bad, err := next()
		switch {
		case err == io.EOF:
			return got
		case err != nil:
			t.Fatal(err)
		case bad != "":
			got = append(got, fmt.Sprintf("%d! %s", line, bad))
		default:
			got = append(got, fmt.Sprintf("%d %s", line, id))
		}
	}
}

func TestReadMembers(t *testing.T) {
	t.Parallel()
	const good = "a,ACTIVE,2024-04-01,김서연\n"
	for _, tt := range []struct {
		name string
		file string
		want []string // each row as `line id`, or the beginning of `line! reason`
	}{
		{"no rows", header, nil},
		{"one row", header + good, []string{"2 a"}},
		{"without a line end at the end", header + strings.TrimSuffix(good, "\n"), []string{"2 a"}},
		{"columns in another order", "joined,name,id,status\n2024-04-01,,a,ACTIVE\n", []string{"2 a"}},
		{"without names", "id,status,joined\na,ACTIVE,2024-04-01\n", []string{"2 a"}},
		{"a byte order mark at the start", "\ufeff" + header + good, []string{"2 a"}},
		{"a byte order mark elsewhere", header + "\ufeff" + good, []string{`2! id: subject "\ufeffa"`}},
		{"CRLF", "id,status,joined\r\na,ACTIVE,2024-04-01\r\nb,ACTIVE,2024-04-01\r\n", []string{"2 a", "3 b"}},
		{"empty lines are skipped and counted", header + "\n\r\n" + good + "\n", []string{"4 a"}},
		{"a line of blanks is a row", header + "  \n" + good, []string{"2! 1 columns, want 4", "3 a"}},
		{"too few and too many columns", header + "a,ACTIVE,2024-04-01\nb,ACTIVE,2024-04-01,x,y\n" + good, []string{"2! 3 columns, want 4", "3! 5 columns, want 4", "4 a"}},
		{"empty id", header + ",ACTIVE,2024-04-01,x\n" + good, []string{"2! id: subject is empty", "3 a"}},
		{"illegal ids", header + "a:b,ACTIVE,2024-04-01,x\n회원,ACTIVE,2024-04-01,x\n a,ACTIVE,2024-04-01,x\n" + strings.Repeat("x", 129) + ",ACTIVE,2024-04-01,x\n" + good,
			[]string{`2! id: subject "a:b"`, "3! id: subject", `4! id: subject " a"`, "5! id: subject", "6 a"}},
		{"unknown status", header + "a,active,2024-04-01,x\nb,,2024-04-01,x\nc,DELETED,2024-04-01,x\n" + good, []string{`2! status "active"`, `3! status ""`, `4! status "DELETED"`, "5 a"}},
		{"bad dates", header + "a,ACTIVE,2024-13-01,x\nb,ACTIVE,2023-02-29,x\nc,ACTIVE,,x\nd,ACTIVE,2024-04-01T00:00:00,x\ne,ACTIVE,01/04/2024,x\nf,ACTIVE,0001-01-01,x\n" + good,
			[]string{`2! joined "2024-13-01"`, `3! joined "2023-02-29"`, `4! joined ""`, `5! joined "2024-04-01T00:00:00"`, `6! joined "01/04/2024"`, "7! joined: year", "8 a"}},
		{"invalid UTF-8", header + "a,ACTIVE,2024-04-01,\xff\xfe\n\xea\xb9,ACTIVE,2024-04-01,x\n" + good, []string{"2! is not valid UTF-8", "3! is not valid UTF-8", "4 a"}},
		{"EUC-KR", header + "a,ACTIVE,2024-04-01,\xb1\xe8\n" + good, []string{"2! is not valid UTF-8", "3 a"}},
		{"NUL", header + "a\x00,ACTIVE,2024-04-01,x\n" + good, []string{"2! contains NUL", "3 a"}},
		{"a control character in a name", header + "a,ACTIVE,2024-04-01,x\ty\n" + good, []string{"2! name", "3 a"}},
		{"a lone CR inside", header + "a,ACTIVE,2024-04-01,x\rb,ACTIVE,2024-04-01,y\n" + good, []string{"2! 7 columns", "3 a"}},
		{"quoted fields", header + `"a","ACTIVE","2024-04-01","Kim, ""Min"""` + "\n" + good, []string{"2 a", "3 a"}},
		{"a quote in the middle", header + `a,ACTIVE,2024-04-01,x"y"` + "\n" + good, []string{"2! broken quotes", "3 a"}},
		{"text after a quote", header + `a,ACTIVE,2024-04-01,"x"y` + "\n" + good, []string{"2! broken quotes", "3 a"}},
		{"a quote never closed", header + `a,ACTIVE,2024-04-01,"x` + "\n" + good + good, []string{"2! broken quotes", "3 a", "4 a"}},
		{"a quote never closed and not text", header + "a,ACTIVE,2024-04-01,\"\xff\n" + good, []string{"2! is not valid UTF-8", "3 a"}},
		{"a quote never closed in the last line", header + good + `a,ACTIVE,2024-04-01,"`, []string{"2 a", "3! broken quotes"}},
		{"open quotes in two rows", header + `a,ACTIVE,2024-04-01,"x` + "\n" + good + `b,ACTIVE,2024-04-01,"y` + "\n" + good, []string{"2! broken quotes", "3 a", "4! broken quotes", "5 a"}},
		{"a quoted field over lines never hides a member", header + "a,ACTIVE,2024-04-01,\"x\nevil,ACTIVE,2024-04-01,y\"\n" + good, []string{"2! a quoted field runs on to line 3", "4 a"}},
		{"nor one whose first line is not text", header + "a,ACTIVE,2024-04-01,\"\xff\nevil,ACTIVE,2024-04-01,\nevil,ACTIVE,2024-04-01,\"\n" + good, []string{"2! a quoted field runs on to line 4", "5 a"}},
		{"a line too long", header + strings.Repeat("x", 70_000) + "\n" + good + strings.Repeat("x", 200_000), []string{"2! is longer than 65536 bytes", "3 a", "4! is longer"}},
		{"an open quote before a line too long", header + "a,ACTIVE,2024-04-01,\"x\n" + strings.Repeat("y", 70_000) + "\n" + good, []string{"2! broken quotes", "3! is longer", "4 a"}},
	} {
		for kind, r := range map[string]io.Reader{"at once": strings.NewReader(tt.file), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.file))} {
			got := readAll(t, r)
			ok := len(got) == len(tt.want)
			for i := 0; ok && i < len(got); i++ {
				ok = got[i] == tt.want[i] || strings.Contains(tt.want[i], "!") && strings.HasPrefix(got[i], tt.want[i])
			}
			if !ok {
				t.Errorf("%s, %s:\n got %q\nwant %q", tt.name, kind, got, tt.want)
			}
		}
	}
}

func TestReadMembersRefusesAHeaderUpFront(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"an empty file": "", "a byte order mark only": "\ufeff", "an empty line": "\nid,status,joined\n", "an unknown column": "id,status,joined,email\n", "a column missing": "id,status\n",
		"a column twice": "id,status,joined,id\n", "other case": "ID,Status,Joined\n", "spaces": "id, status, joined\n", "semicolons": "id;status;joined\n", "no header": "a,ACTIVE,2024-04-01\n",
		"UTF-16": "\xff\xfei\x00d\x00", "NUL": "id,status,joined\x00\n", "old line ends": "id,status,joined\ra,ACTIVE,2024-04-01\r", "broken quotes": "\"id,status,joined\n", "endless": strings.Repeat("id,", 30_000),
	} {
		if _, err := catalog.ReadMembers(strings.NewReader(file), time.UTC); !errors.Is(err, catalog.ErrHeader) {
			t.Errorf("%s: error %v, want one that wraps ErrHeader", name, err)
		}
	}
	if _, err := catalog.ReadMembers(iotest.ErrReader(errDisk), time.UTC); !errors.Is(err, errDisk) || errors.Is(err, catalog.ErrHeader) {
		t.Errorf("a file that cannot be read: error %v, want %v", err, errDisk)
	}
}

func TestReadMembersStopsAtAReadError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{header + "a,ACTIVE,2024-04-01,x\n", header + "a,ACTIVE,2024-04-01,x\nb,ACT", header + "a,ACTIVE,2024-04-01,x\nb,ACTIVE,2024-04-01,\"x\n",
		header + "a,ACTIVE,2024-04-01,x\n" + strings.Repeat("y", 200_000)} {
		m, err := catalog.ReadMembers(io.MultiReader(strings.NewReader(text), iotest.ErrReader(errDisk)), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if row, err := m.Next(); err != nil || row.Member.ID != "a" {
			t.Fatalf("first row: %+v, %v", row, err)
		}
		if row, err := m.Next(); !errors.Is(err, errDisk) {
			t.Errorf("after %.80q: %+v, error %v, want %v", text, row, err, errDisk)
		}
	}
}

func TestReadMembersKeepsMilliseconds(t *testing.T) {
	t.Parallel()
	m, err := catalog.ReadMembers(strings.NewReader("id,status,joined\na,ACTIVE,2024-04-01T00:30:00.123999+09:00\n"), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	row, err := m.Next()
	want := catalog.Member{ID: "a", Status: catalog.Active, JoinedAt: time.Date(2024, 3, 31, 15, 30, 0, 123_000_000, time.UTC)}
	if err != nil || row.Member != want {
		t.Errorf("%+v (%v), want %+v", row, err, want)
	}
}

// TIM-06: a date is a day of the business zone, whatever the zone of the process.
func TestParseJoined(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"2024-04-01":                     "2024-03-31T15:00:00Z",
		"2024-02-29":                     "2024-02-28T15:00:00Z",
		"2024-03-31T15:30:00Z":           "2024-03-31T15:30:00Z",
		"2024-04-01T00:30:00+09:00":      "2024-03-31T15:30:00Z",
		"2024-03-31T23:59:59.999-05:00":  "2024-04-01T04:59:59.999Z",
		"2024-03-31T15:30:00.123456789Z": "2024-03-31T15:30:00.123456789Z",
	} {
		got, err := catalog.ParseJoined(s, seoul(t))
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("ParseJoined(%q) = %s (%v), want %s", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "2024-04", "2024-4-1", "20240401", "2024-04-31", "2024-04-01 ", "2024-04-01T00:00", "2024-04-01T00:00:00", "2024-04-01 00:00:00Z", "2024-04-01T24:00:00Z", "2024-04-01T0:00:00Z",
		"2024-04-01T00:00:00,5Z", "2024-04-01T00:00:00+25:00", "2024-04-01T00:00:00z", "２０２４-04-01", "1711929600", "now", "2024-04-01T23:59:60Z",
	} {
		if got, err := catalog.ParseJoined(s, seoul(t)); err == nil || !strings.Contains(err.Error(), "joined") {
			t.Errorf("ParseJoined(%q) = %s, error %v, want one that names joined", s, got, err)
		}
	}
	asuncion, err := time.LoadLocation("America/Asuncion")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.ParseJoined("2017-10-01", asuncion); err != nil {
		t.Errorf("a date whose midnight is skipped: %v, want it accepted", err)
	}
}

// Whatever encoding/csv writes without line breaks reads back, quotes and all.
func TestReadMembersReadsWhatEncodingCSVWrites(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		w := csv.NewWriter(&file)
		w.UseCRLF = rapid.Bool().Draw(t, "crlf")
		columns := rapid.Permutation([]string{"id", "status", "joined", "name"}).Draw(t, "columns")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]string {
			return map[string]string{
				"id": rapid.StringMatching(`[A-Za-z0-9._~@+=-]{1,8}`).Draw(t, "id"), "status": rapid.SampledFrom([]string{"ACTIVE", "INACTIVE", "WITHDRAWN"}).Draw(t, "status"),
				"joined": rapid.SampledFrom([]string{"2024-04-01", "2024-04-01T00:00:00+09:00"}).Draw(t, "joined"), "name": rapid.StringMatching(`[",a김 ;'=]{0,8}`).Draw(t, "name"),
			}
		}), 0, 8).Draw(t, "rows")
		must(t, w.Write(columns))
		for _, row := range rows {
			var record []string
			for _, c := range columns {
				record = append(record, row[c])
			}
			must(t, w.Write(record))
		}
		w.Flush()
		m, err := catalog.ReadMembers(&file, zone)
		must(t, err)
		for n, want := range rows {
			row, err := m.Next()
			must(t, err)
			if row.Bad != "" || row.Member.ID != want["id"] || string(row.Member.Status) != want["status"] || row.Member.Name != want["name"] || row.Line != int64(n)+2 {
				t.Fatalf("row %d: %+v, want %v", n, row, want)
			}
		}
		if row, err := m.Next(); err != io.EOF {
			t.Fatalf("after the last row: %+v, %v", row, err)
		}
	})
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// Any bytes: no panic, an end, lines in order, and every row is either good by the rules of a member or bad with a reason.
func FuzzReadMembers(f *testing.F) {
	f.Add([]byte(header + "a,ACTIVE,2024-04-01,김\n\"b\",ACTIVE,2024-04-01,\"x\ny\"\n"))
	f.Add([]byte("\ufeffid,status,joined\r\na,ACTIVE,2024-04-01T00:00:00Z\r\n\"\n\"\"\n\"\"\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := catalog.ReadMembers(bytes.NewReader(b), time.UTC)
		if err != nil {
			return
		}
		last := int64(1)
		for {
			row, err := m.Next()
			if err == io.EOF {
				return
			}
			if err != nil || row.Line <= last || row.Line > int64(bytes.Count(b, []byte("\n"))+1) {
				t.Fatalf("%+v after line %d, error %v", row, last, err)
			}
			last = row.Line
			if row.Bad == "" && row.Member.Check() != nil || row.Bad != "" && row.Member != (catalog.Member{}) {
				t.Fatalf("%+v", row)
			}
		}
	})
}
