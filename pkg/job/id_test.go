package job_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
)

// JOB-24: what is no id of ours is no such job: never a panic, never another item, and no read of the table for what cannot be one.
func TestWhatIsNoIDIsNoSuchJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.open(t)
	ulid := strings.TrimPrefix(j.ID, string(kind)+"-")
	for _, id := range []string{
		"", " ", "-", "--", "a", "monthly-point", "monthly-point-", "-" + ulid, ulid, "monthly-point:2024-04:member-42", "monthly-point%3A2024-04%3Amember-42", "a/b", "a%2Fb", "%20",
		"550e8400-e29b-41d4-a716-446655440000", strings.Repeat("x", 3000), strings.Repeat("x", 3000) + "-" + ulid, "JOBS#monthly-point#2024-04", "SLOTS#1", "monthly-point#-" + ulid,
		"Monthly-Point-" + ulid, "monthly-point-" + strings.ToLower(ulid), "monthly-point--" + ulid, "monthly-point-" + ulid + " ", " " + j.ID, j.ID + "\x00", "monthly-point-8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
		"monthly-point-ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "monthly-point-\xff", "월-" + ulid, "til-" + ulid, "monthly-point-00000000000000000000000000", "monthly-point-7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
	} {
		if _, err := w.jobs.Find(t.Context(), id); !errors.Is(err, job.ErrNoSuchJob) {
			t.Errorf("find %.60q: %v, want ErrNoSuchJob", id, err)
		}
		if _, done, err := w.jobs.Cancel(t.Context(), id); done || !errors.Is(err, job.ErrNoSuchJob) {
			t.Errorf("cancel %.60q: %v, %v, want ErrNoSuchJob", id, done, err)
		}
		if closed, err := w.jobs.Close(t.Context(), id); closed || !errors.Is(err, job.ErrNoSuchJob) {
			t.Errorf("close %.60q: %v, %v, want ErrNoSuchJob", id, closed, err)
		}
		if r := w.request(); true {
			r.ID = id
			if _, _, err := job.ParseID(id); err == nil {
				continue // well formed, and of nobody
			}
			if _, opened, err := w.jobs.Open(t.Context(), r); opened || !errors.Is(err, job.ErrNoSuchJob) {
				t.Errorf("open %.60q: %v, %v, want ErrNoSuchJob", id, opened, err)
			}
		}
	}
}

// TIM-01: an id tells its kind and the time of its creation in UTC, to the millisecond, in any zone of the process.
func TestAnIDTellsKindAndTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := once.Kind(rapid.StringMatching(`[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,5}){0,3}`).Draw(t, "kind"))
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		at := time.UnixMilli(rapid.Int64Range(0, 253402300799999).Draw(t, "time")).In(zone)
		id := job.NewID(kind, at)
		k, got, err := job.ParseID(id)
		if err != nil || k != kind || !got.Equal(at) || got.Location() != time.UTC {
			t.Fatalf("ParseID(%s) = %s, %s (%v), want %s, %s", id, k, got, err, kind, at)
		}
		if other := job.NewID(kind, at); other == id {
			t.Fatalf("two ids are %s", id)
		}
		if later := job.NewID(kind, at.Add(time.Millisecond)); later <= id {
			t.Fatalf("%s is before %s", later, id)
		}
	})
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"monthly-point-01HTCZP1G00000000000000000", "til-", "-", "", "a-7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "a-8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "a--01HTCZP1G00000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, at, err := job.ParseID(s)
		if err != nil {
			if !errors.Is(err, job.ErrNoSuchJob) {
				t.Fatalf("%q: %v is not ErrNoSuchJob", s, err)
			}
			return
		}
		if !strings.HasPrefix(s, string(k)+"-") || len(s) != len(k)+27 || at.IsZero() && at.UnixMilli() != 0 {
			t.Fatalf("ParseID(%q) = %s, %s", s, k, at)
		}
		if _, err := once.ParseKind(string(k)); err != nil {
			t.Fatalf("kind of %q: %v", s, err)
		}
	})
}

func TestStatesAndSegments(t *testing.T) {
	t.Parallel()
	for s, want := range map[job.State]bool{job.Pending: true, job.Running: true, job.Completed: false, job.Failed: false, job.Cancelled: false, "": false} {
		if got := s.Active(); got != want {
			t.Errorf("%q is active: %v, want %v", s, got, want)
		}
	}
	// A subject belongs to its segment for ever: pages of jobs under way were made with it.
	for s, want := range map[string]int{"member-42": 8, "": 5, "a": 12} {
		if got := job.SegmentOf(s, 16); got != want {
			t.Errorf("segment of %q is %d, want %d", s, got, want)
		}
	}
	counts := make([]int, 16)
	for _, s := range subjects(16_000) {
		counts[job.SegmentOf(s, 16)]++
	}
	for n, c := range counts {
		if c < 500 || c > 1500 {
			t.Errorf("segment %d has %d of 16,000 subjects", n, c)
		}
	}
	if id := job.IllegalID("회원"); !job.IsIllegalID(id) || once.CheckSubject(id) == nil || job.IsIllegalID("member-42") || id == job.IllegalID("회원 ") {
		t.Errorf("illegal id %s", id)
	}
}
