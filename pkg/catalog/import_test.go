package catalog_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"hanbeon/pkg/catalog"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func importText(t testing.TB, c *catalog.Catalog, text string) (catalog.Report, []catalog.BadRow) {
	t.Helper()
	r, err := catalog.ReadMembers(strings.NewReader(text), seoul(t))
	if err != nil {
		t.Fatal(err)
	}
	var bad []catalog.BadRow
	report, err := catalog.Import(t.Context(), c, r, nil, func(b catalog.BadRow) { bad = append(bad, b) })
	if err != nil {
		t.Fatal(err)
	}
	return report, bad
}

func TestImportKeepsTheGoodRowsAndChangesNothingTheSecondTime(t *testing.T) {
	t.Parallel()
	c := catalog.New(openStore(t))
	const file = header +
		"a,ACTIVE,2024-04-01,김서연\n" +
		"b,ACTIVE,2024-13-01,x\n" +
		"c,INACTIVE,2024-04-01,x\n" +
		"a,ACTIVE,2024-03-31T15:00:00Z,김서연\n" + // the same content in other words
		"a,WITHDRAWN,2024-04-01,김서연\n" +
		"b,ACTIVE,2024-04-01,x\n" + // its first row was bad: this one counts
		",ACTIVE,2024-04-01,x\n" +
		"d,ACTIVE,2024-04-01,\"x\n"
	wantBad := []catalog.BadRow{
		{3, `joined "2024-13-01": want a date-time with offset such as 2024-03-31T15:30:00Z, or a date such as 2024-04-01`},
		{6, "id a: duplicate id with other content"},
		{8, "id: subject is empty"},
		{9, "broken quotes"},
	}
	for _, want := range []catalog.Report{
		{Rows: 8, Added: 3, Unchanged: 1, Bad: 4, FirstBad: wantBad},
		{Rows: 8, Unchanged: 4, Bad: 4, FirstBad: wantBad},
	} {
		report, bad := importText(t, c, file)
		if diff := cmp.Diff(report, want); diff != "" {
			t.Errorf("report, got (-) and want (+):\n%s", diff)
		}
		if diff := cmp.Diff(bad, wantBad); diff != "" {
			t.Errorf("bad rows, got (-) and want (+):\n%s", diff)
		}
	}
	want := catalog.Member{ID: "a", Status: catalog.Active, JoinedAt: time.Date(2024, 3, 31, 15, 0, 0, 0, time.UTC), Name: "김서연"}
	if got := all(t, c, 490); len(got) != 3 || got["a"] != want {
		t.Errorf("stored are %v, want three with %v", got, want)
	}
	report, _ := importText(t, c, header+"a,WITHDRAWN,2024-04-01,김서연\nc,INACTIVE,2024-04-01,x\n")
	if diff := cmp.Diff(report, catalog.Report{Rows: 2, Changed: 1, Unchanged: 1}); diff != "" {
		t.Errorf("a new file, got (-) and want (+):\n%s", diff)
	}
}

// Duplicates are found however far apart they are, against what is stored from the first row.
func TestImportFindsDuplicatesAcrossChunks(t *testing.T) {
	t.Parallel()
	c := catalog.New(openStore(t))
	var file strings.Builder
	file.WriteString(header)
	for i := range 2500 {
		fmt.Fprintf(&file, "member-%d,ACTIVE,2024-04-01,x\n", i)
	}
	file.WriteString("member-0,ACTIVE,2024-04-01,x\nmember-1,ACTIVE,2024-04-01,y\nmember-1,ACTIVE,2024-04-01,x\nmember-2499,INACTIVE,2024-04-01,x\n")
	want := []catalog.BadRow{{2503, "id member-1: duplicate id with other content"}, {2505, "id member-2499: duplicate id with other content"}}
	for _, added := range []int64{2500, 0} {
		report, _ := importText(t, c, file.String())
		if diff := cmp.Diff(report, catalog.Report{Rows: 2504, Added: added, Unchanged: 2502 - added, Bad: 2, FirstBad: want}); diff != "" {
			t.Errorf("got (-) and want (+):\n%s", diff)
		}
	}
}

func TestImportReportsProgressAndKeepsFewBadRows(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	file.WriteString(header)
	for range 3000 {
		file.WriteString("bad\n")
	}
	r, err := catalog.ReadMembers(strings.NewReader(file.String()), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	var steps []int64
	last, found := int64(1), 0
	report, err := catalog.Import(t.Context(), catalog.New(openStore(t)), r, func(rows int64) { steps = append(steps, rows) }, func(b catalog.BadRow) {
		if found++; b.Line <= last {
			t.Errorf("line %d after %d", b.Line, last)
		}
		last = b.Line
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.FirstBad) != catalog.MaxFirstBad || report.Bad != 3000 || found != 3000 {
		t.Errorf("%d bad, %d kept, %d found, want 3000, %d, 3000", report.Bad, len(report.FirstBad), found, catalog.MaxFirstBad)
	}
	if want := []int64{1000, 2000, 3000, 3000}; !slices.Equal(steps, want) {
		t.Errorf("progress %v, want %v", steps, want)
	}
}

func TestImportEndsAtAnErrorAndTheNextOneFinishes(t *testing.T) {
	t.Parallel()
	s := &failing{Store: openStore(t), after: 12} // the second chunk of a thousand rows fails
	c := catalog.New(s)
	var file strings.Builder
	if err := catalog.WriteSample(&file, 3000, seoul(t)); err != nil {
		t.Fatal(err)
	}
	r, err := catalog.ReadMembers(strings.NewReader(file.String()), seoul(t))
	if err != nil {
		t.Fatal(err)
	}
	report, err := catalog.Import(t.Context(), c, r, nil, nil)
	if !errors.Is(err, errDisk) || report.Rows != 1000 || report.Added != 1000 {
		t.Errorf("%+v, error %v, want 1000 rows and %v", report, err, errDisk)
	}
	s.heal()
	if report, _ := importText(t, c, file.String()); report.Bad != 0 || report.Rows != 3000 || report.Added == 0 || report.Unchanged < 1000 || report.Changed != 0 {
		t.Errorf("the import again: %+v, want 3000 rows, those of the first unchanged", report)
	}
	if got := len(all(t, c, 490)); got != 3000 {
		t.Errorf("%d members stored, want 3000", got)
	}

	r, err = catalog.ReadMembers(io.MultiReader(strings.NewReader(header+"last,ACTIVE,2024-04-01,x\n"), iotest.ErrReader(errDisk)), time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := catalog.Import(t.Context(), c, r, nil, nil); !errors.Is(err, errDisk) || report.Added != 1 {
		t.Errorf("a file that breaks off: %+v, error %v, want what was read stored and %v", report, err, errDisk)
	}
}

// The import against a plain map: the first good row of an id counts, whatever was stored before.
func TestImportModel(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		c := catalog.New(store)
		n++ // ids of one round only
		stored := map[string]string{}
		for range rapid.IntRange(1, 3).Draw(r, "files") {
			var file strings.Builder
			file.WriteString("id,status,joined\n")
			var want catalog.Report
			inFile := map[string]string{}
			for range rapid.IntRange(0, 12).Draw(r, "rows") {
				id := fmt.Sprintf("%d-%s", n, rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "id"))
				status := rapid.SampledFrom([]string{"ACTIVE", "INACTIVE", "wrong"}).Draw(r, "status")
				fmt.Fprintf(&file, "%s,%s,2024-04-01\n", id, status)
				want.Rows++
				was, exists := stored[id]
				_, repeated := inFile[id]
				switch {
				case status == "wrong", repeated && was != status:
					want.Bad++
					continue
				case exists && was == status:
					want.Unchanged++
				case exists:
					want.Changed++
				default:
					want.Added++
				}
				stored[id], inFile[id] = status, status
			}
			got, _ := importText(t, c, file.String())
			got.FirstBad = nil
			if diff := cmp.Diff(got, want); diff != "" {
				r.Fatalf("file:\n%sgot (-) and want (+):\n%s", file.String(), diff)
			}
		}
		for id, status := range stored {
			if m, _, err := c.Member(t.Context(), id); err != nil || string(m.Status) != status {
				r.Fatalf("%s is stored as %v (%v), want %s", id, m, err, status)
			}
		}
	})
}

func TestHashSet(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, model := catalog.NewHashSet(), map[uint64]bool{}
		// Multiples of a power of two collide in a table of that size; 0 marks an empty slot there. (0 and 1 are one to the set: never both.)
		start := rapid.SampledFrom([]uint64{0, 2, 1 << 63}).Draw(t, "start")
		stride := uint64(1) << rapid.IntRange(1, 14).Draw(t, "bits")
		n := rapid.SampledFrom([]int{1, 700, 768, 769, 1537, 4000}).Draw(t, "n")
		for i := range uint64(n) {
			h := start + i*stride
			if s.Has(h) != model[h] {
				t.Fatalf("has(%d) = %v", h, s.Has(h))
			}
			s.Put(h)
			s.Put(h)
			model[h] = true
		}
		for h := range model {
			if !s.Has(h) {
				t.Fatalf("%d is lost", h)
			}
		}
		if s.Slots() > 1024 && 3*s.Slots() > 8*len(model) || 4*len(model) > 3*s.Slots() {
			t.Fatalf("%d slots for %d hashes", s.Slots(), len(model))
		}
	})
}

func TestSampleIsWhatItSays(t *testing.T) {
	t.Parallel()
	zone := seoul(t)
	const n = 1000
	var file, again strings.Builder
	if err := errors.Join(catalog.WriteSample(&file, n, zone), catalog.WriteSample(&again, n, zone)); err != nil {
		t.Fatal(err)
	}
	if file.String() != again.String() {
		t.Error("two samples differ")
	}
	c := catalog.New(openStore(t))
	report, bad := importText(t, c, file.String())
	if report.Added != n || len(bad) != 0 {
		t.Fatalf("%+v, want %d added", report, n)
	}
	members := all(t, c, 490)
	for _, tt := range []struct {
		scheduled string
		want      int
	}{
		{"2010-01-01T00:00:00Z", 0},
		{"2024-03-31T15:30:00Z", 970},
		{"2099-06-01T00:00:00Z", 980}, // those of the future have joined
	} {
		at, err := time.Parse(time.RFC3339, tt.scheduled)
		if err != nil {
			t.Fatal(err)
		}
		stored := 0
		for _, m := range members {
			if m.ActiveBefore(at) {
				stored++
			}
		}
		if got := catalog.Eligible(n, zone, at); got != tt.want || stored != tt.want {
			t.Errorf("eligible at %s: %d by Eligible, %d stored, want %d", tt.scheduled, got, stored, tt.want)
		}
	}
	if m := members["member-000001"]; m.Name == "" || m.Status != catalog.Active {
		t.Errorf("member-000001 is %+v", m)
	}
	if err := catalog.WriteSample(brokenWriter{}, 1, zone); !errors.Is(err, errDisk) {
		t.Errorf("a writer that fails: error %v, want %v", err, errDisk)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errDisk }

// BenchmarkImport imports members of the sample into the embedded store, and then once more, when nothing is written.
func BenchmarkImport(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			zone := seoul(b)
			for b.Loop() {
				c := catalog.New(openStore(b))
				for range 2 {
					file, w := io.Pipe()
					go func() { w.CloseWithError(catalog.WriteSample(w, n, zone)) }()
					r, err := catalog.ReadMembers(file, zone)
					if err != nil {
						b.Fatal(err)
					}
					if report, err := catalog.Import(b.Context(), c, r, nil, nil); err != nil || report.Rows != int64(n) {
						b.Fatal(report, err)
					}
				}
			}
			b.ReportMetric(float64(2*n*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
