package job_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

func TestStartMovesAPendingJobOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	opened := w.open(t)
	if ok, err := w.jobs.CountResend(t.Context(), opened, job.ResentSegments); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.later(time.Minute)
	j, err := w.jobs.Start(t.Context(), opened)
	if err != nil || j.State != job.Running || !j.StartedAt.Equal(w.now) || j.SegmentResends != 0 {
		t.Fatalf("got %s at %s with %d re-sends, %v", j.State, j.StartedAt, j.SegmentResends, err)
	}
	w.later(time.Minute)
	w.unchanged(t, "a second start", func() {
		for name, seen := range map[string]job.Job{"stale": opened, "fresh": j} {
			if again, err := w.jobs.Start(t.Context(), seen); err != nil || again.State != job.Running || !again.StartedAt.Equal(j.StartedAt) {
				t.Errorf("%s: got %s at %s, %v", name, again.State, again.StartedAt, err)
			}
		}
	})
	// An answer that was lost is harmless.
	w2 := newWorld(t)
	o2 := w2.open(t)
	if _, err := w2.through(onTransact(1, lost)).Start(t.Context(), o2); !errors.Is(err, sim.ErrNoAnswer) {
		t.Errorf("got %v, want the unknown error", err)
	}
	if j, err := w2.jobs.Start(t.Context(), o2); err != nil || j.State != job.Running {
		t.Errorf("again: %s, %v", j.State, err)
	}
}

func TestStartLeavesAJobThatIsEndingOrOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := w.open(t)
	// Marked and no more: the process that cancels dies behind the mark.
	_, done, err := w.through(func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.N == 1 {
			return true, sim.ErrNoAnswer
		}
		return true, nil
	}).Cancel(t.Context(), seen.ID)
	if done || !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(done, err)
	}
	w.unchanged(t, "a start of an ending job", func() {
		if j, err := w.jobs.Start(t.Context(), seen); err != nil || j.State != job.Pending || j.Ending != job.Cancelled {
			t.Errorf("got %s %s, %v", j.State, j.Ending, err)
		}
	})
	w.cancel(t, seen.ID)
	w.unchanged(t, "a start of a cancelled job", func() {
		if j, err := w.jobs.Start(t.Context(), seen); err != nil || j.State != job.Cancelled {
			t.Errorf("got %s, %v", j.State, err)
		}
	})
}

// Two fan-outs of one segment, one of which sees other subjects and another end of the source, agree about the page that was frozen first.
func TestTheSecondFreezeGetsThePageOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	first := job.Page{Subjects: []string{"a", "b"}, Illegal: []string{job.IllegalID("회원")}, LeftOut: 3, Next: "b"}
	got, err := w.jobs.Freeze(t.Context(), j, 3, 0, first)
	if err != nil {
		t.Fatal(err)
	}
	first.Expires = j.Expires
	same(t, "the first page", got, first)
	if got.Count() != 6 {
		t.Errorf("counts %d, want 2 + 1 + 3", got.Count())
	}
	for _, late := range []job.Page{{Subjects: []string{"a", "b", "c"}, Next: "c", Last: true}, {Last: true}} {
		w.unchanged(t, "a second freeze", func() {
			got, err := w.jobs.Freeze(t.Context(), j, 3, 0, late)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "what the second gets", got, first)
		})
	}
	p, ok, err := w.jobs.PageAt(t.Context(), j, 3, 0)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	same(t, "the page as read", p, first)
	for _, at := range []struct {
		segment int
		ordinal int64
	}{{3, 1}, {2, 0}} {
		if _, ok, err := w.jobs.PageAt(t.Context(), j, at.segment, at.ordinal); ok || err != nil {
			t.Errorf("page %d of segment %d: %v, %v", at.ordinal, at.segment, ok, err)
		}
	}
	// A lost answer: the same call again gets what it wrote.
	jobs := w.through(onTransact(1, lost))
	page := job.Page{Subjects: []string{"x"}, Next: "x"}
	if _, err := jobs.Freeze(t.Context(), j, 4, 0, page); !errors.Is(err, sim.ErrNoAnswer) {
		t.Errorf("got %v, want the unknown error", err)
	}
	got, err = jobs.Freeze(t.Context(), j, 4, 0, page)
	if page.Expires = j.Expires; err != nil {
		t.Fatal(err)
	}
	same(t, "the page after a lost answer", got, page)
}

func TestAdvanceMovesASegmentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	seg, err := w.jobs.SegmentAt(t.Context(), j, 3)
	if err != nil {
		t.Fatal(err)
	}
	advance := func(from job.Segment, p job.Page) bool {
		t.Helper()
		over, err := w.jobs.Advance(t.Context(), j, 3, from, p, 5)
		if err != nil {
			t.Fatal(err)
		}
		return over
	}
	w.later(time.Minute)
	page := job.Page{Subjects: []string{"a", "b"}, Next: "b"}
	if advance(seg, page) {
		t.Fatal("over")
	}
	moved := job.Segment{Cursor: "b", Ordinal: 1, Count: 2, TouchedAt: w.now, Expires: j.Expires}
	got, err := w.jobs.SegmentAt(t.Context(), j, 3)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the segment", got, moved)
	w.unchanged(t, "an advance from where it was", func() { // by another fan-out, or after a lost answer
		if advance(seg, page) {
			t.Error("a segment that was moved is taken for a job that is over")
		}
	})
	// A page may be empty and have a next; what it left out is counted as already in the same transaction.
	if advance(moved, job.Page{LeftOut: 7, Next: "m"}) {
		t.Fatal("over")
	}
	moved = job.Segment{Cursor: "m", Ordinal: 2, Count: 9, TouchedAt: w.now, Expires: j.Expires}
	if tally := w.tally(t, j); tally.Counts != (job.Counts{Already: 7}) {
		t.Errorf("tally %+v, want 7 already", tally.Counts)
	}
	w.unchanged(t, "a late advance of a page long passed", func() { advance(seg, page) })
	if now := w.find(t, j.ID); now.Total != 0 || now.SegmentsDone != 0 || now.TotalKnown() {
		t.Errorf("total %d of %d segments before the last page", now.Total, now.SegmentsDone)
	}
	last := job.Page{Subjects: []string{"x"}, Illegal: []string{job.IllegalID("회원")}, LeftOut: 1, Last: true}
	if advance(moved, last) {
		t.Fatal("over")
	}
	if now := w.find(t, j.ID); now.Total != 12 || now.SegmentsDone != 1 {
		t.Errorf("total %d of %d segments, want 12 of 1", now.Total, now.SegmentsDone)
	}
	done := job.Segment{Ordinal: 3, Count: 12, Done: true, TouchedAt: w.now, Expires: j.Expires}
	if got, err = w.jobs.SegmentAt(t.Context(), j, 3); err != nil {
		t.Fatal(err)
	}
	same(t, "the segment", got, done)
	w.unchanged(t, "an advance of a segment that is done", func() {
		advance(moved, last)
		advance(done, last)
	})
	for _, n := range []int{-1, job.Segments} {
		if _, err := w.jobs.SegmentAt(t.Context(), j, n); err == nil {
			t.Errorf("segment %d was read", n)
		}
	}
}

// Two fan-outs at the latest moment: only one advance happens, and what the page left out is counted once. JOB-13.
func TestOfTwoAdvancesOneHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	seg, _ := w.jobs.SegmentAt(t.Context(), j, 0)
	p := job.Page{Subjects: []string{"a"}, LeftOut: 5, Last: true}
	jobs := w.through(onTransact(1, func(sim.Call) (bool, error) {
		if over, err := w.jobs.Advance(t.Context(), j, 0, seg, p, 1); over || err != nil {
			t.Error(over, err)
		}
		return true, nil
	}))
	if over, err := jobs.Advance(t.Context(), j, 0, seg, p, 2); over || err != nil {
		t.Error(over, err)
	}
	if now, tally := w.find(t, j.ID), w.tally(t, j); now.Total != 6 || now.SegmentsDone != 1 || tally.Already != 5 {
		t.Errorf("total %d, segments %d, already %d; want 6, 1, 5", now.Total, now.SegmentsDone, tally.Already)
	}
}

// A closed shard, or one that is gone, is the end of the fan-out: nothing is written, whatever the page left out.
func TestAdvanceMeetsAClosedShard(t *testing.T) {
	t.Parallel()
	for name, shut := range map[string]store.Write{
		"closed": store.Update(job.ShardKey("", 7), store.Attrs{"open": false}, nil), "gone": store.Delete(job.ShardKey("", 7)),
	} {
		for _, leftOut := range []int64{0, 4} {
			for _, last := range []bool{false, true} {
				w := newWorld(t)
				j := w.start(t)
				shut.Key = job.ShardKey(j.ID, 7)
				w.transact(t, shut)
				seg, _ := w.jobs.SegmentAt(t.Context(), j, 0)
				w.unchanged(t, "an advance with a shard that is "+name, func() {
					over, err := w.jobs.Advance(t.Context(), j, 0, seg, job.Page{Subjects: []string{"a"}, LeftOut: leftOut, Next: "a", Last: last}, 7)
					if !over || err != nil {
						t.Errorf("%s, left out %d, last %v: over %v, %v", name, leftOut, last, over, err)
					}
				})
			}
		}
	}
}

func TestTheManifestIsTheAdvancedPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	for _, n := range []int{2, 9} {
		for i := range 3 {
			seg, _ := w.jobs.SegmentAt(t.Context(), j, n)
			p, err := w.jobs.Freeze(t.Context(), j, n, int64(i), job.Page{Subjects: []string{fmt.Sprintf("%d-%d", n, i)}, Next: fmt.Sprint(i)})
			if err != nil {
				t.Fatal(err)
			}
			if i == 2 { // frozen and never advanced: no part of it
				continue
			}
			if over, err := w.jobs.Advance(t.Context(), j, n, seg, p, 0); over || err != nil {
				t.Fatal(over, err)
			}
		}
	}
	var got []string
	read := func() error {
		got = nil
		return w.jobs.Manifest(t.Context(), j, func(segment int, p job.Page) error {
			got = append(got, fmt.Sprintf("%d: %s", segment, p.Subjects))
			return nil
		})
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	same(t, "manifest", got, []string{"2: [2-0]", "2: [2-1]", "9: [9-0]", "9: [9-1]"})
	stop := errors.New("stop")
	if err := w.jobs.Manifest(t.Context(), j, func(int, job.Page) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of the caller", err)
	}
	w.transact(t, store.Delete(job.PageKey(j.ID, 2, 1)))
	if err := read(); err == nil {
		t.Error("a manifest with a missing page was read")
	}
}
