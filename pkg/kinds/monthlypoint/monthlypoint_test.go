package monthlypoint_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"

	"github.com/google/go-cmp/cmp"
)

func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const input = `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`

// TIM-01 and TIM-02: the period is the month of the scheduled time in the business zone. Open knows no clock, so a firing executed a month late is still of its month.
func TestOpen(t *testing.T) {
	t.Parallel()
	k := monthlypoint.New(nil, seoul(t))
	for scheduled, period := range map[string]once.Period{
		"2024-03-31T15:30:00Z":      "2024-04",
		"2024-04-01T00:30:00+09:00": "2024-04",
		"2024-03-31T14:59:59Z":      "2024-03",
		"2024-03-31T23:59:59+09:00": "2024-03",
		"2024-02-29T15:00:00Z":      "2024-03",
		"2024-12-31T15:00:00Z":      "2025-01",
		"2024-04-30T15:30:00Z":      "2024-05",
		"2024-04-01T04:00:00Z":      "2024-04", // TIM-06: the second firing of a cron in New York is the same month
		"2024-03-31T15:00:00Z":      "2024-04",
	} {
		at, err := time.Parse(time.RFC3339, scheduled)
		if err != nil {
			t.Fatal(err)
		}
		got, err := k.Open(at, []byte(input))
		if err != nil {
			t.Errorf("%s: %v", scheduled, err)
			continue
		}
		want := job.Opening{
			Kind: "monthly-point", Slot: "monthly-point:" + string(period), Scope: string(period), Period: period, Scheduled: at.UTC(), Inputs: `{"amount":100}`,
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s: got (-) and want (+):\n%s", scheduled, diff)
		}
		if _, err := once.NewKey(got.Kind, got.Scope, "member-42"); err != nil {
			t.Errorf("%s: %v", scheduled, err)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Date(12024, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if got, err := k.Open(at, []byte(input)); err == nil || !strings.Contains(err.Error(), "scheduledTime") {
			t.Errorf("Open(%s) = %+v, error %v, want one that names scheduledTime", at, got, err)
		}
	}
}

func TestSubjectsAreTheEligibleMembers(t *testing.T) {
	t.Parallel()
	s, zone := openStore(t), seoul(t)
	const n = 12_000 // more than a page in each segment
	importSample(t, s, n, zone)
	_, err := catalog.New(s).PutMembers(t.Context(), []catalog.Member{
		{ID: "just-before", Status: catalog.Active, JoinedAt: april.Add(-time.Millisecond)},
		{ID: "at-the-time", Status: catalog.Active, JoinedAt: april},
		{ID: "gone", Status: catalog.Withdrawn, JoinedAt: april.Add(-time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := subjects(t, monthlypoint.New(s, zone), job.Job{Scheduled: april})
	if want := catalog.Eligible(n, zone, april) + 1; len(got) != want {
		t.Errorf("%d subjects, want %d", len(got), want)
	}
	for id, want := range map[string]bool{"just-before": true, "at-the-time": false, "gone": false} {
		if slices.Contains(got, id) != want {
			t.Errorf("%s is listed: %v, want %v", id, !want, want)
		}
	}
}

// DSP-08: a page of members none of whom is eligible is an empty page with a next, and so may one of the store be; neither is the end.
func TestSubjectsGoesOnAfterEmptyPages(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var members []catalog.Member
	for i := 0; len(members) < 2*job.PageSubjects; i++ {
		id := fmt.Sprintf("a-%06d", i)
		if job.SegmentOf(id, job.Segments) == 3 {
			members = append(members, catalog.Member{ID: id, Status: catalog.Inactive, JoinedAt: april.Add(-time.Hour)})
		}
	}
	for i := 0; len(members) < 2*job.PageSubjects+5; i++ {
		id := fmt.Sprintf("b-%06d", i)
		if job.SegmentOf(id, job.Segments) == 3 {
			members = append(members, catalog.Member{ID: id, Status: catalog.Active, JoinedAt: april.Add(-time.Hour)})
		}
	}
	if _, err := catalog.New(s).PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	k := monthlypoint.New(s, seoul(t))
	page, next, err := k.Subjects(t.Context(), job.Job{Scheduled: april}, 3, "")
	if err != nil || len(page) != 0 || next == "" {
		t.Fatalf("first page: %v, next %q, %v, want none and a next", page, next, err)
	}
	if got := subjects(t, k, job.Job{Scheduled: april}); len(got) != 5 {
		t.Errorf("%d subjects, want 5: %v", len(got), got)
	}
	if got := subjects(t, monthlypoint.New(&sparse{Store: s}, seoul(t)), job.Job{Scheduled: april}); len(got) != 5 {
		t.Errorf("%d subjects from a store with empty pages, want 5: %v", len(got), got)
	}
}

// sparse is a store whose every other page is empty and has a next.
type sparse struct {
	store.Store
	empty bool
}

func (s *sparse) Query(ctx context.Context, q store.Query) (store.Page, error) {
	q.Cursor = strings.TrimPrefix(q.Cursor, "after:")
	if s.empty = !s.empty; s.empty {
		return store.Page{Next: "after:" + q.Cursor}, nil
	}
	return s.Store.Query(ctx, q)
}

// subjects lists all segments and checks what job.Bulk promises.
func subjects(t *testing.T, k job.Bulk, j job.Job) []string {
	t.Helper()
	var found []string
	for segment := range job.Segments {
		cursor, last := "", ""
		for {
			page, next, err := k.Subjects(t.Context(), j, segment, cursor)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > job.PageSubjects || next != "" && next <= cursor {
				t.Fatalf("segment %d after %q: %d subjects, next %q", segment, cursor, len(page), next)
			}
			for _, id := range page {
				if id <= last || job.SegmentOf(id, job.Segments) != segment {
					t.Fatalf("segment %d: %s after %s", segment, id, last)
				}
				last = id
			}
			found = append(found, page...)
			if next == "" {
				break
			}
			cursor = next
		}
	}
	return found
}

func importSample(t *testing.T, s store.Store, n int, zone *time.Location) {
	t.Helper()
	var file strings.Builder
	if err := catalog.WriteSample(&file, n, zone); err != nil {
		t.Fatal(err)
	}
	r, err := catalog.ReadMembers(strings.NewReader(file.String()), zone)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := catalog.Import(t.Context(), catalog.New(s), r, nil, nil); err != nil || report.Added != int64(n) {
		t.Fatalf("%+v, %v", report, err)
	}
}

// KEY-09: the amount comes from the job, exactly.
func TestEffects(t *testing.T) {
	t.Parallel()
	k := monthlypoint.New(nil, seoul(t))
	for _, amount := range []int64{1, 100, once.MaxAmount} {
		got, err := k.Effects(t.Context(), job.Job{Inputs: monthlypoint.Inputs(amount)}, "member-42")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, []once.Effect{once.Add{Subject: "member-42", Name: "points", N: amount}}); diff != "" {
			t.Errorf("amount %d, got (-) and want (+):\n%s", amount, diff)
		}
		key, err := once.NewKey(k.Kind(), "2024-04", "member-42")
		if err != nil {
			t.Fatal(err)
		}
		if err := (once.Posting{Key: key, Effects: got}).Check(); err != nil {
			t.Error(err)
		}
	}
	// No permanent failure: such a job is a defect, and settling its members as failed would hide it.
	for _, inputs := range []string{"", "{}", `{"amount":0}`, `{"amount":1e3}`, `{"amount": 100}`, `{"amount":100,"x":1}`, `{"amount":1000000000001}`, `{"amount":"100"}`} {
		got, err := k.Effects(t.Context(), job.Job{Inputs: inputs}, "member-42")
		if err == nil || job.ReasonOf(err) != "" {
			t.Errorf("inputs %q: %v, error %v, want one that is retried", inputs, got, err)
		}
	}
}

func TestCalendar(t *testing.T) {
	t.Parallel()
	k := monthlypoint.New(nil, seoul(t))
	due := func(p once.Period, scheduled string) job.Due {
		at, err := time.Parse(time.RFC3339, scheduled)
		if err != nil {
			t.Fatal(err)
		}
		return job.Due{Period: p, Scheduled: at, Deadline: at.Add(24 * time.Hour)}
	}
	march, aprilDue, may := due("2024-03", "2024-02-29T15:30:00Z"), due("2024-04", "2024-03-31T15:30:00Z"), due("2024-05", "2024-04-30T15:30:00Z")
	for _, tt := range []struct {
		name string
		from once.Period
		now  string
		want []job.Due
	}{
		{"a second before it is due", "2024-04", "2024-03-31T15:29:59Z", nil},
		{"the second it is due", "2024-04", "2024-03-31T15:30:00Z", []job.Due{aprilDue}},
		{"a month later", "2024-04", "2024-04-30T15:29:59Z", []job.Due{aprilDue}},
		{"several, oldest first", "2024-03", "2024-05-31T00:00:00+09:00", []job.Due{march, aprilDue, may}},
		{"from the future", "2025-01", "2024-05-31T00:00:00Z", nil},
		{"from the first day of a month", "2024-04-01", "2024-04-30T00:00:00Z", []job.Due{aprilDue}},
		{"from a later day of a month", "2024-03-02", "2024-04-30T00:00:00Z", []job.Due{aprilDue}},
		{"from nothing", "", "2024-04-30T00:00:00Z", nil},
		{"from no month", "2024-13", "2025-04-30T00:00:00Z", nil},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(k.Calendar(tt.from, now), tt.want); diff != "" {
			t.Errorf("%s: got (-) and want (+):\n%s", tt.name, diff)
		}
	}
}

// TIM-06: in every zone, also where a clock changes at midnight of a first day (Asuncion in October 2017, Havana in April 2012), a due period opens as itself.
func TestCalendarAndOpenAgreeInEveryZone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Asia/Seoul", "UTC", "America/New_York", "America/Asuncion", "America/Havana", "Asia/Beirut", "Pacific/Kiritimati", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		k := monthlypoint.New(nil, zone)
		want := once.Period("2000-01")
		for _, due := range k.Calendar(want, time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)) {
			opening, err := k.Open(due.Scheduled, []byte(input))
			if err != nil || due.Period != want || opening.Period != want {
				t.Errorf("%s: due %s, opened as %s (%v), want %s", name, due.Period, opening.Period, err, want)
			}
			want = want.Next()
		}
		if want < "2040-01" {
			t.Errorf("%s: the calendar ends before %s", name, want)
		}
	}
}
