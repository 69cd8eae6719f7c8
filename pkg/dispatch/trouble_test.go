package dispatch_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// Members who were granted another amount before are no `already`: they get a message, and end in the failure log.
func TestRerunWithAnotherAmountLeavesNobodyOut(t *testing.T) {
	t.Parallel()
	m := names("member", 40)
	w := newWorld(t, m[:30]...)
	w.fire()
	w.drain()
	w.addMembers(m...)
	r, err := w.dispatcher(nil).Run(t.Context(), dispatch.Run{
		Kind: monthlypoint.Name, Period: "2024-04", Input: []byte(monthlypoint.Inputs(200)), RequestedBy: "test", ChangeAmount: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.drain()
	j := must(w.jobs.Find(t.Context(), r.Job.ID))(t)
	equal(t, "counts", []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{40, 10, 0, 30})
	equal(t, "failures", must(w.jobs.FailuresByReason(t.Context(), j.ID))(t), map[string]int64{job.ReasonConflictingEntry: 30})
	w.granted(100, m[:30]...)
	w.granted(200, m[30:]...)
}

// A re-run gets past an entry that cannot be read: whoever else is on the page, or behind it, is granted, and the one is a failure.
func TestRerunPastAnEntryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 6)
	w := newWorld(t, m...)
	w.kind.subjects = pages(3, m[:2])
	w.fire()
	w.drain()
	key := store.Key{Table: monthlypoint.Table, PK: m[1], SK: "monthly-point:2024-04:" + m[1]}
	before := must(w.store.Get(t.Context(), key))(t)[0].Attrs
	if err := w.store.Transact(t.Context(), store.Put(key, store.Attrs{"state": int64(1)})); err != nil {
		t.Fatal(err)
	}
	w.kind.subjects = pages(3, m[:4], m[4:])
	r, err := w.again(100)
	if err != nil {
		t.Fatal(err)
	}
	w.drain()
	j := must(w.jobs.Find(t.Context(), r.Job.ID))(t)
	equal(t, "counts", []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{6, 4, 1, 1})
	equal(t, "state", j.State, job.Completed)
	w.granted(100, m[2:]...)
	if err := w.store.Transact(t.Context(), store.Put(key, before)); err != nil { // the audit looks at it at the end
		t.Fatal(err)
	}
}

// A settlement or an advance that can never be accepted does not say that the job is over: the segment comes again.
func TestWhatIsNeverAcceptedIsNotTheEnd(t *testing.T) {
	t.Parallel()
	illegal := "no key"
	n := job.SegmentOf(illegal, job.Segments)
	m := inSegment(n, 3)
	w := newWorld(t, m...)
	all := append(slices.Clone(m), illegal)
	slices.Sort(all)
	w.kind.subjects = pages(n, all)
	j, segments := w.open()
	for _, what := range []string{"SETTLED#", "SEGMENTS#"} {
		for _, index := range []int{0, 1} {
			f := w.fanout(func(c sim.Call) (bool, error) {
				if c.Op == sim.Transact && slices.ContainsFunc(c.Keys, func(k store.Key) bool { return strings.HasPrefix(k.PK, what) }) {
					return false, &store.Refused{By: []store.Refusal{{Index: index, Invalid: "a number added to a text"}}}
				}
				return true, nil
			})
			if again := w.segments(f, segmentBody(j, n)); len(again) != 1 {
				t.Errorf("%s: write %d can never be accepted, and the segment was acknowledged", what, index)
			}
		}
	}
	w.segments(w.fanout(nil), segments...)
	w.drain()
	now := must(w.jobs.Find(t.Context(), j.ID))(t)
	equal(t, "counts", []int64{now.Total, now.Applied, now.Already, now.Failed}, []int64{4, 3, 0, 1})
	w.granted(100, m...)
}

// A store or a queue that does not answer uses up the time of the work and not that of the answer: the segment is put off, with a pause, before the function is cut off.
func TestAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]func(c sim.Call) bool{
		"queue": func(c sim.Call) bool { return c.Op == sim.Send && c.Queue != queue.Segments },
		"store": func(c sim.Call) bool {
			return c.Op == sim.Transact && slices.ContainsFunc(c.Keys, func(k store.Key) bool { return strings.HasPrefix(k.PK, "SEGMENTS#") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := inSegment(3, 3)
				w := newWorld(t, m...)
				j, _ := w.open()
				f := w.fanout(func(c sim.Call) (bool, error) {
					if hangs(c) {
						<-c.Ctx.Done()
						return false, errNoAnswer
					}
					return true, nil
				})
				ctx, stop := context.WithTimeout(t.Context(), 120*time.Second)
				defer stop()
				answer, err := f.Handle(ctx, event(segmentBody(j, 3)))
				if left := job.Left(ctx); left < 2*time.Second {
					t.Errorf("%s left for the answer", left)
				}
				if err != nil || len(answer.BatchItemFailures) != 1 {
					t.Errorf("got %v, %v, want the segment", answer, err)
				}
				if len(w.box.putOffs) != 1 || w.box.putOffs[0] == 0 {
					t.Errorf("put off by %v, want one pause", w.box.putOffs)
				}
			})
		})
	}
}
