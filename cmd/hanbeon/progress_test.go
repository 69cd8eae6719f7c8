package main_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Elsewhere than on a terminal, progress is one plain line per 10 %, and nothing for what is done at once.
func TestPlainProgress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		step  time.Duration // per call
		total int64
		want  string
	}{
		{"what is quick shows nothing", time.Millisecond, 1000, ""},
		{"a line per ten percent", 100 * time.Millisecond, 1000, `job: 50 % (500 of 1,000)
job: 60 % (600 of 1,000)
job: 70 % (700 of 1,000)
job: 80 % (800 of 1,000)
job: 90 % (900 of 1,000)
job: 100 % (1,000 of 1,000)
`},
		{"a total that is not known yet", 350 * time.Millisecond, 0, "job: 150 so far\njob: 900 so far\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
			var out strings.Builder
			set, end := main.Progress(&out, func() time.Time { return now }, false, "job")
			for done := int64(50); done <= 1000; done += 50 {
				now = now.Add(tt.step)
				set(done, tt.total)
				set(done, tt.total)
			}
			end()
			if out.String() != tt.want {
				t.Errorf("got:\n%swant:\n%s", out.String(), tt.want)
			}
		})
	}
}

// A bar ends, whether it is full or not, and shows where it stood.
func TestBarEnds(t *testing.T) {
	t.Parallel()
	for done, want := range map[int64]string{1000: "1,000 of 1,000, 100 %", 400: "400 of 1,000, 40 %"} {
		now := time.Now()
		var out strings.Builder
		set, end := main.Progress(&out, func() time.Time { return now }, true, "job")
		now = now.Add(time.Minute)
		set(done, 1000)
		end()
		if !strings.Contains(out.String(), want) {
			t.Errorf("bar at %d: got %q, want it to say %q", done, out.String(), want)
		}
	}
}

func TestNumbersHaveCommas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 9223372036854775807: "9,223,372,036,854,775,807", -100: "-100"} {
		if got := main.Comma(n); got != want {
			t.Errorf("comma(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCostIsThatOfThePriceList(t *testing.T) {
	t.Parallel()
	if got, want := main.Cost(store.Units{Write: 1e6, Read: 2e6}, 3e6), 0.68+2*0.1355+3*0.40; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("cost = %v, want %v", got, want)
	}
}

// What our own looks cost is counted to the unit, so that it can be taken off the bill of a run.
func TestLooksAreCountedAsTheStoreCountsThem(t *testing.T) {
	t.Parallel()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "test.db"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j, err := openJob(s, once.Period("2024-04"), 100)
	if err != nil {
		t.Fatal(err)
	}
	aside, looks := main.NewAside(s)
	jobs := job.NewStore(aside, time.Now)
	before := s.Meter().Spent()
	ctx := context.Background()
	if _, err := jobs.TallyOf(ctx, j); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Slots(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Find(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.FailuresByReason(ctx, j.ID); err != nil {
		t.Fatal(err)
	}
	if got, want := looks(), s.Meter().Spent().Since(before); got != want || want.Read == 0 {
		t.Errorf("looks cost %+v, the store says %+v", got, want)
	}
}
