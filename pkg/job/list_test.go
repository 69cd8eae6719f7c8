package job_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// DSP-08, DSP-09: jobs are listed by month, newest first, in pages of any size.
func TestJobsAreListedInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for range 7 {
		j := w.open(t)
		w.cancel(t, j.ID)
		w.later(time.Second)
		want = append([]string{j.ID}, want...)
	}
	w.later(31 * 24 * time.Hour) // the month of UTC decides
	may := w.open(t)
	for _, limit := range []int{0, 1, 2, 7, 8} {
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			jobs, next, err := w.jobs.List(t.Context(), kind, time.Date(2024, 3, 31, 23, 59, 0, 0, time.UTC), limit, cursor)
			if err != nil || pages > 10 {
				t.Fatalf("limit %d: page %d: %v", limit, pages, err)
			}
			for _, j := range jobs {
				got = append(got, j.ID)
			}
			if cursor = next; cursor == "" {
				break
			}
		}
		same(t, fmt.Sprintf("jobs with limit %d", limit), got, want)
	}
	if jobs, _, err := w.jobs.List(t.Context(), kind, w.now, 0, ""); err != nil || len(jobs) != 1 || jobs[0].ID != may.ID {
		t.Errorf("May: %d jobs, %v", len(jobs), err)
	}
	if jobs, _, err := w.jobs.List(t.Context(), "til", w.now, 0, ""); err != nil || len(jobs) != 0 {
		t.Errorf("another kind: %d jobs, %v", len(jobs), err)
	}
}

// DSP-08: a page of the store may be empty and not be the last. The slots are all active jobs, in whatever partition.
func TestSlotsAreReadToTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for i := range 40 {
		r := w.request()
		r.Period, r.Slot = "", fmt.Sprintf("slot-%02d", i)
		if _, opened, err := w.jobs.Open(t.Context(), r); !opened || err != nil {
			t.Fatal(opened, err)
		}
		want = append(want, r.Slot)
	}
	jobs := job.NewStore(emptyPages{w.Store}, w.clock)
	slots, err := jobs.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range slots {
		got = append(got, s.Slot)
	}
	slices.Sort(got)
	same(t, "slots", got, want)
	broken := w.through(func(c sim.Call) (bool, error) {
		return c.Op != sim.Query, pick(c.Op == sim.Query, sim.ErrNoAnswer)
	})
	if _, err := broken.Slots(t.Context()); err == nil {
		t.Error("a list that could not be read was answered")
	}
}

// emptyPages answers every query in pages of one item, each behind an empty page, and ends with an empty one: DynamoDB may.
type emptyPages struct{ store.Store }

func (s emptyPages) Query(ctx context.Context, q store.Query) (store.Page, error) {
	if len(q.Cursor) > 0 && q.Cursor[0] == '+' {
		q.Cursor = q.Cursor[1:]
		q.Limit = 1
		return s.Store.Query(ctx, q)
	}
	return store.Page{Next: "+" + q.Cursor}, nil
}

// JOB-12, TXN-15: 20,000 failures are 20,000 items; the job stays small and comes to its end, and the failure log is paged.
func TestManyFailuresLeaveTheJobSmall(t *testing.T) {
	t.Parallel()
	const n = 20_000
	w := newWorld(t)
	j := w.start(t)
	all := make([][]string, j.Segments)
	for i := range n {
		s := fmt.Sprintf("member-%05d", i)
		at := job.SegmentOf(s, j.Segments)
		all[at] = append(all[at], s)
	}
	var writes []store.Write
	shard := 0
	flush := func() {
		if len(writes) == 0 {
			return
		}
		if err := w.jobs.Settle(t.Context(), j, shard%j.Shards, job.Counts{Failed: int64(len(writes))}, writes...); err != nil {
			t.Fatal(err)
		}
		shard++
		writes = nil
	}
	for segment, subjects := range all {
		for part := range slices.Chunk(subjects, job.PageSubjects) {
			seg, err := w.jobs.SegmentAt(t.Context(), j, segment)
			if err != nil {
				t.Fatal(err)
			}
			last := part[len(part)-1]
			p, err := w.jobs.Freeze(t.Context(), j, segment, seg.Ordinal, job.Page{Subjects: part, Next: last, Last: last == subjects[len(subjects)-1]})
			if err != nil {
				t.Fatal(err)
			}
			if over, err := w.jobs.Advance(t.Context(), j, segment, seg, p, segment); over || err != nil {
				t.Fatal(over, err)
			}
			for _, s := range part {
				if writes = append(writes, w.jobs.SettledFailed(j, s, "a-reason-of-some-length")); len(writes) == store.MaxWrites-1 {
					flush()
				}
			}
		}
	}
	flush()
	if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
		t.Fatal(closed, err)
	}
	if j = w.find(t, j.ID); j.State != job.Completed || j.Failed != n || j.Total != n {
		t.Errorf("job is %s with %d failed of %d", j.State, j.Failed, j.Total)
	}
	key, _ := job.KeyOf(j.ID)
	items, err := w.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if size := store.Size(key, items[0].Attrs); size > 1024 {
		t.Errorf("the job item has %d bytes, want one write unit", size)
	}
	seen, last := 0, ""
	for cursor, pages := "", 0; ; pages++ {
		list, next, err := w.jobs.Settled(t.Context(), j.ID, cursor, 777)
		if err != nil || pages > n/777+2 {
			t.Fatalf("page %d: %v", pages, err)
		}
		for _, x := range list {
			if x.Subject <= last || x.Outcome != job.OutcomeFailed || x.Reason != "a-reason-of-some-length" {
				t.Fatalf("%+v after %s", x, last)
			}
			last = x.Subject
		}
		if seen += len(list); len(list) > 777 {
			t.Errorf("a page of %d", len(list))
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if seen != n {
		t.Errorf("%d failures listed, want %d", seen, n)
	}
	reasons, err := w.jobs.FailuresByReason(t.Context(), j.ID)
	if err != nil || reasons["a-reason-of-some-length"] != n {
		t.Errorf("by reason: %v, %v", reasons, err)
	}
}

// JOB-18: who is settled is settled once, by whichever item came first.
func TestASubjectIsSettledOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	w.settle(t, j, "", "a")
	w.settle(t, j, job.ReasonInvalid, "b")
	w.unchanged(t, "settling again", func() {
		for _, again := range []store.Write{w.jobs.SettledFailed(j, "a", "x"), w.jobs.SettledAlready(j, "b"), w.jobs.NotSettled(j, "a")} {
			err := w.jobs.Settle(t.Context(), j, 9, job.Counts{Failed: 2}, w.jobs.SettledAlready(j, "c"), again)
			r, ok := err.(*store.Refused)
			if !ok || len(r.By) != 1 || r.By[0].Index != 2 {
				t.Errorf("got %v, want write 2 in the way", err)
			}
		}
	})
	got, err := w.jobs.Settlements(t.Context(), j, "a", "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "settlements", got, []job.Settlement{
		{Subject: "a", Outcome: job.OutcomeAlready, At: w.now, Expires: j.Expires},
		{Subject: "b", Outcome: job.OutcomeFailed, Reason: job.ReasonInvalid, At: w.now, Expires: j.Expires},
		{},
	})
	if c, err := w.jobs.CountsOf(t.Context(), j); err != nil || c != (job.Counts{Already: 1, Failed: 1}) {
		t.Errorf("counts %+v, %v", c, err)
	}
}
