package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// A page whose messages were sent and which was not advanced is sent again, and counted once. Two fan-outs of one segment agree.
func TestTwoFanoutsOfOneSegment(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 6)
	w := newWorld(t, m...)
	j, segments := w.open()
	w.segments(w.fanout(nil), slices.Delete(slices.Clone(segments), 3, 4)...)
	w.kind.subjects = pages(3, m[:2], m[2:4], m[4:])
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { w.segments(w.fanout(nil), segments[3]) })
	}
	wg.Wait()
	if again := w.segments(w.fanout(nil), segments[3]); len(again) > 0 {
		t.Errorf("again: %v", again)
	}
	equal(t, "pages, count", []int64{w.segment(j, 3).Ordinal, w.segment(j, 3).Count}, []int64{3, 6})
	w.drain()
	w.granted(100, m...)
	equal(t, "total, segments", []int64{w.only().Total, int64(w.only().SegmentsDone)}, []int64{6, job.Segments})
}

// A job that is cancelled between freeze and advance counts nothing more.
func TestCancelDuringFanout(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 4)
	w := newWorld(t, m...)
	j, segments := w.open()
	f := w.fanout(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			if _, done, err := w.jobs.Cancel(c.Ctx, j.ID); err != nil || !done {
				t.Error(done, err)
			}
		}
		return true, nil
	})
	equal(t, "again", w.segments(f, segments[3]), []string(nil))
	equal(t, "state", w.only().State, job.Cancelled)
	equal(t, "pages", w.segment(j, 3).Ordinal, int64(0))
	w.drain() // the messages that were sent
	w.granted(0, m...)
}

// With little time left a segment goes back at once, between pages; the next receive goes on behind the last one.
func TestFanoutRunsOutOfTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := inSegment(3, 8)
		w := newWorld(t, m...)
		source := pages(3, m[:2], m[2:4], m[4:6], m[6:])
		w.kind.subjects = func(n int, cursor string) ([]string, string, error) {
			time.Sleep(15 * time.Second)
			return source(n, cursor)
		}
		j, _ := w.open()
		for i, ordinal := range []int64{3, 4} { // after three pages 15 s are left, too little for another
			ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
			answer, err := w.fanout(nil).Handle(ctx, event(segmentBody(j, 3)))
			stop()
			if err != nil || len(answer.BatchItemFailures) != 1-i {
				t.Errorf("receive %d: %v, %v", i+1, answer, err)
			}
			equal(t, "pages", w.segment(j, 3).Ordinal, ordinal)
		}
		equal(t, "put off", w.box.putOffs, []time.Duration{0})
		if strings.Contains(w.logs.String(), `"level":"ERROR"`) {
			t.Error("running out of time is no error")
		}
		w.kind.subjects = source
		for n := range job.Segments {
			w.segments(w.fanout(nil), segmentBody(j, n))
		}
		w.drain()
		w.granted(100, m...)
	})
}

// Busy workers hold the shards: the advance takes another one and goes on.
func TestAdvanceUnderConflicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := inSegment(3, 4)
		w := newWorld(t, m...)
		j, segments := w.open()
		n := 0
		shards := map[string]bool{}
		f := w.fanout(func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && c.Touches("jobs/TALLY#") {
				for _, k := range c.Keys {
					if strings.HasPrefix(k.PK, "TALLY#") {
						shards[k.PK] = true
					}
				}
				if n++; n <= 3 {
					return false, &store.Busy{Conflicts: []int{1}, Reason: "TransactionConflict"}
				}
			}
			return true, nil
		})
		equal(t, "again", w.segments(f, segments[3]), []string(nil))
		equal(t, "done", w.segment(j, 3).Done, true)
		equal(t, "shards", len(shards), 4)
	})
}

// Whatever goes wrong at whichever step of a segment of a first run, redelivery brings the job to its end: everybody once, nobody forgotten. DSP-01, DSP-10
func TestFanoutDiesAtEveryStep(t *testing.T) {
	t.Parallel()
	everyStep(t, false)
}

// The same for a run of a period that was run before: who has it already is left out and counted once.
func TestRerunDiesAtEveryStep(t *testing.T) {
	t.Parallel()
	everyStep(t, true)
}

func everyStep(t *testing.T, rerun bool) {
	const segment = 3
	m := inSegment(segment, 9)
	illegal := ""
	for i := 0; illegal == ""; i++ {
		if s := fmt.Sprintf("%s:%d", m[2], i); job.SegmentOf(s, job.Segments) == segment {
			illegal = s
		}
	}
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				w := newWorld(t, m...)
				source := pages(segment, m[:3], append([]string{illegal}, m[3:6]...), nil, m[6:])
				id := ""
				if rerun {
					w.kind.subjects = pages(segment, m[:5])
					w.fire()
					w.drain()
					w.kind.subjects = source
					r, err := w.again(100)
					if err != nil {
						t.Fatal(err)
					}
					id = r.Job.ID
				} else {
					w.kind.subjects = source
					w.fire()
					id = w.only().ID
				}
				segments := w.box.take(queue.Segments, 0)
				first := segments[segment]
				w.segments(w.fanout(nil), slices.Delete(segments, segment, segment+1)...)

				hook, reached := w.strike(n, f)
				w.segments(w.fanout(hook), first)
				if !reached() {
					if n < 20 {
						t.Fatalf("a segment made %d calls, want more than 20", n-1)
					}
					return
				}
				for range 2 {
					if again := w.segments(w.fanout(nil), first); len(again) > 0 {
						t.Fatalf("call %d: the segment fails without a fault:\n%s", n, w.tail())
					}
				}
				w.drain()
				w.granted(100, m...)
				j := must(w.jobs.Find(t.Context(), id))(t)
				already := int64(0)
				if rerun {
					already = 5
				}
				equal(t, fmt.Sprintf("call %d: state", n), j.State, job.Completed)
				equal(t, fmt.Sprintf("call %d: total, applied, already, failed", n), []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{10, 9 - already, already, 1})
			}
		})
	}
}

// 1,200 members: the fan-out dies after 500 messages, the same firing comes again, and a third time after the end. DSP-10
func TestDiesAfterFiveHundred(t *testing.T) {
	t.Parallel()
	m := names("member", 1200)
	w := newWorld(t, m...)
	w.fire()
	sent := 0
	f := w.fanout(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			if sent += len(c.Bodies); sent > 500 {
				return false, sim.ErrKilled
			}
		}
		return true, nil
	})
	w.segments(f, w.box.take(queue.Segments, 0)...) // lost: nobody puts them back
	j := w.only()
	for n := range job.Segments { // their visibility timeout ends
		_ = w.box.Send(t.Context(), queue.Segments, segmentBody(j, n))
	}
	w.fire()
	w.drain()
	w.fire()
	w.drain()
	w.granted(100, m...)
	equal(t, "state, total", fmt.Sprintf("%s %d", w.only().State, w.only().Total), "COMPLETED 1200")
	if n := must(entries(w, m))(t); n != 1200 {
		t.Errorf("%d entries, want 1200", n)
	}
}

func entries(w *world, members []string) (n int, err error) {
	l := ledger.New(w.store, w.kind.Ledger(), w.clock)
	for _, m := range members {
		h, err := l.History(context.Background(), m, "", 0)
		if err != nil {
			return 0, err
		}
		n += len(h.Entries)
	}
	return n, nil
}
