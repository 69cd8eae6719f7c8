package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/worker"
)

// pages makes a source of one segment that answers by cursor: "" is the first page, "1" the second, and so on. Other segments are empty.
func pages(segment int, list ...[]string) func(int, string) ([]string, string, error) {
	return func(n int, cursor string) ([]string, string, error) {
		if n != segment {
			return nil, "", nil
		}
		at := 0
		if cursor != "" {
			if _, err := fmt.Sscan(cursor, &at); err != nil {
				return nil, "", err
			}
		}
		next := ""
		if at+1 < len(list) {
			next = fmt.Sprint(at + 1)
		}
		return list[at], next, nil
	}
}

// open fires and returns the job and the messages of its segments, in order of segments.
func (w *world) open() (job.Job, []string) {
	w.t.Helper()
	w.fire()
	return w.only(), w.box.take(queue.Segments, 0)
}

func (w *world) segment(j job.Job, n int) job.Segment {
	w.t.Helper()
	s, err := w.jobs.SegmentAt(context.Background(), j, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// An empty page is no end: only an empty next is. DSP-08
func TestEmptyPageIsNoEnd(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 5)
	w := newWorld(t, m...)
	w.kind.subjects = pages(3, nil, m[:3], nil, m[3:], nil)
	w.fire()
	w.drain()
	w.granted(100, m...)
	j := w.only()
	equal(t, "state", j.State, job.Completed)
	equal(t, "total", j.Total, int64(5))
	equal(t, "pages", w.segment(j, 3).Ordinal, int64(5))
}

// Repeats are dropped before anything is counted: total and counts go by the same rule. DSP-05, JOB-18
func TestRepeats(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 2)
	w := newWorld(t, m...)
	w.kind.subjects = pages(3, []string{m[0], m[0], m[1], m[1], m[1]}, []string{m[1], m[1]}, nil) // the last one of a page may come again on the next
	w.fire()
	w.drain()
	w.granted(100, m...)
	j := w.only()
	equal(t, "state, total, applied", fmt.Sprintf("%s %d %d", j.State, j.Total, j.Applied), "COMPLETED 2 2")
	equal(t, "messages", w.box.sent, job.Segments+2)
}

// Nobody to grant: the fan-out itself closes the job.
func TestNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fire()
	w.drain()
	j := w.only()
	equal(t, "state, total", fmt.Sprintf("%s %d", j.State, j.Total), "COMPLETED 0")
}

// The workers may be done before the total is known: the fan-out that makes it known closes the job.
func TestWorkersFasterThanTheTotal(t *testing.T) {
	t.Parallel()
	m := names("member", 40)
	w := newWorld(t, m...)
	j, segments := w.open()
	f, b := w.fanout(nil), worker.NewBulk(w.env(nil), w.kind)
	for _, s := range segments {
		equal(t, "state", w.only().State != job.Completed, true)
		w.segments(f, s)
		if bodies := w.box.take(points, 0); len(bodies) > 0 {
			if answer, err := b.Handle(t.Context(), event(bodies...)); err != nil || len(answer.BatchItemFailures) > 0 {
				t.Fatal(answer, err)
			}
		}
	}
	w.granted(100, m...)
	if w.only().State != job.Completed { // the last segment had somebody: its worker has closed the job
		w.segments(f, segmentBody(j, 0))
	}
	equal(t, "state", w.only().State, job.Completed)
}

// A segment that comes again sends the page it froze, whatever the source says by now, and does not look further than the end it froze.
func TestFrozenPage(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 6)
	w := newWorld(t, m...)
	w.kind.subjects = pages(3, m[:4]) // the end
	j, segments := w.open()
	others := slices.Delete(slices.Clone(segments), 3, 4)
	w.segments(w.fanout(nil), others...)
	dies := w.fanout(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send { // frozen, not sent
			return false, &queue.Unsent{To: c.Queue, Indexes: []int{0, 1, 2, 3}, Err: errNoAnswer}
		}
		return true, nil
	})
	equal(t, "again", w.segments(dies, segments[3]), []string{segments[3]})
	equal(t, "total known", w.only().TotalKnown(), false)

	w.kind.subjects = func(n int, cursor string) ([]string, string, error) { // two have left, two have come
		t.Errorf("the source is asked again for segment %d", n)
		return pages(3, m[2:5], m[5:])(n, cursor)
	}
	equal(t, "again", w.segments(w.fanout(nil), segments[3]), []string(nil))
	equal(t, "messages", subjectsOf(t, w.box.waiting(points)), m[:4])
	equal(t, "done", w.segment(j, 3).Done, true)
	w.drain()
	w.granted(100, m[:4]...)
	w.granted(0, m[4:]...)
	equal(t, "total", w.only().Total, int64(4))
}

// A subject that cannot be a key is a failure of the job under a hash, and is settled before the page counts. Its neighbours are granted. JOB-15, KEY-02
func TestIllegalSubjects(t *testing.T) {
	t.Parallel()
	const segment = 3
	m := inSegment(segment, 7)
	w := newWorld(t, m...)
	var illegal []string
	for i := 0; len(illegal) < 120; i++ { // more than one transaction of them
		if s := fmt.Sprintf("회원:%d\n", i); job.SegmentOf(s, job.Segments) == segment {
			illegal = append(illegal, s)
		}
	}
	all := append(slices.Clone(m), illegal...)
	slices.Sort(all)
	w.kind.subjects = pages(segment, all)
	for n := 1; ; n++ { // dies at each step of the segment
		if n == 1 {
			w.fire()
			w.segments(w.fanout(nil), slices.Delete(w.box.take(queue.Segments, 0), segment, segment+1)...)
		}
		hook, reached := w.strike(n, behind)
		w.segments(w.fanout(hook), segmentBody(w.only(), segment))
		if s := w.segment(w.only(), segment); s.Done {
			if c, err := w.jobs.CountsOf(t.Context(), w.only()); err != nil || c.Failed != 120 {
				t.Errorf("call %d: the page has been advanced with %d of 120 settled, %v", n, c.Failed, err)
			}
		}
		if !reached() {
			break
		}
	}
	w.segments(w.fanout(nil), segmentBody(w.only(), segment))
	w.drain()
	w.granted(100, m...)
	j := w.only()
	equal(t, "counts", []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{127, 7, 0, 120})
	equal(t, "state", j.State, job.Completed)
	equal(t, "failed", must(w.jobs.FailuresByReason(t.Context(), j.ID))(t), map[string]int64{job.ReasonIllegalSubject: 120})
	settled, _, err := w.jobs.Settled(t.Context(), j.ID, "", 0)
	if err != nil || len(settled) != 120 {
		t.Fatal(len(settled), err)
	}
	for _, s := range settled {
		if !job.IsIllegalID(s.Subject) {
			t.Errorf("the failure log holds %q", s.Subject)
		}
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// A kind that breaks its contract is stopped before anything is frozen, sent or counted.
func TestKindThatMisbehaves(t *testing.T) {
	t.Parallel()
	const segment = 3
	m := inSegment(segment, 600)
	stranger := inSegment(4, 1)[0]
	answer := func(subjects []string, next string, err error) func(int, string) ([]string, string, error) {
		return func(n int, cursor string) ([]string, string, error) {
			if n != segment {
				return nil, "", nil
			}
			return subjects, next, err
		}
	}
	for name, source := range map[string]func(int, string) ([]string, string, error){
		"decreasing":       answer([]string{m[1], m[0]}, "", nil),
		"an earlier page":  pages(segment, []string{m[1]}, []string{m[0]}),
		"of another":       answer([]string{stranger}, "", nil),
		"too many":         answer(m[:job.PageSubjects+1], "", nil),
		"fails":            answer(nil, "", errors.New("the source does not answer")),
		"cursor not text":  answer([]string{m[0]}, "\xff", nil),
		"panics":           func(n int, _ string) ([]string, string, error) { panic("nil map") },
		"cursor goes back": pagesThenBack(segment, m, "5", "4"),
		"cursor stays":     pagesThenBack(segment, m, "5", "5"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.kind.subjects = source
			j, segments := w.open()
			for range 3 {
				equal(t, "again", len(w.segments(w.fanout(nil), segments[segment])), 1)
			}
			s := w.segment(j, segment)
			if s.Done || s.Ordinal > 1 || len(w.box.waiting(points)) > 1 {
				t.Errorf("%+v with %d messages, want the segment to stand", s, len(w.box.waiting(points)))
			}
			if w.only().TotalKnown() {
				t.Error("the total is known")
			}
		})
	}
}

// pagesThenBack gives one subject and a cursor, and after it another cursor that is not greater.
func pagesThenBack(segment int, m []string, first, second string) func(int, string) ([]string, string, error) {
	return func(n int, cursor string) ([]string, string, error) {
		switch {
		case n != segment:
			return nil, "", nil
		case cursor == "":
			return m[:1], first, nil
		}
		return m[1:2], second, nil
	}
}

// Messages of the segments queue that are not ours, or of jobs that do not run: no panic, nothing written, and what might still matter is handed back.
func TestSegmentMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	j, _ := w.open()
	w.box.take(queue.Segments, 0)
	unknown := job.Job{ID: "monthly-point-01HTAJ3RYGWCN3PCDVENG1K4WQ"}
	again := []string{
		"", "null", "{}", "[]", `"text"`, `{"v":2,"job":"` + j.ID + `","segment":1}`, `{"v":1,"job":"` + j.ID + `"}`, `{"v":1,"job":"` + j.ID + `","segment":-1}`,
		`{"v":1,"job":"` + j.ID + `","segment":1.5}`, `{"v":1,"job":"` + j.ID + `","segment":"1"}`, queue.Subject{Job: j.ID, Subject: "member-1"}.Encode(),
		segmentBody(j, job.Segments), segmentBody(j, 1<<40), segmentBody(job.Job{ID: "x"}, 1), segmentBody(job.Job{ID: strings.ToLower(j.ID)}, 1),
	}
	equal(t, "handed back", w.segments(w.fanout(nil), again...), again)
	equal(t, "a job that is gone", w.segments(w.fanout(nil), segmentBody(unknown, 1)), []string(nil))
	if len(w.box.waiting(points)) > 0 || w.segment(j, 1).Ordinal > 0 {
		t.Error("something was sent or advanced")
	}
	if _, done, err := w.jobs.Cancel(t.Context(), j.ID); err != nil || !done {
		t.Fatal(done, err)
	}
	equal(t, "a job that is over", w.segments(w.fanout(nil), segmentBody(j, 1)), []string(nil))
	if len(w.box.waiting(points)) > 0 {
		t.Error("a cancelled job sent messages")
	}
}

// A message without an id cannot be listed.
func TestSegmentWithoutID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer, err := w.fanout(nil).Handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{Body: "x"}}})
	if err == nil || len(answer.BatchItemFailures) > 0 {
		t.Errorf("got %v, %v, want an error and no list", answer, err)
	}
	answer, err = w.fanout(nil).Handle(t.Context(), events.SQSEvent{})
	if err != nil || answer.BatchItemFailures == nil || len(answer.BatchItemFailures) > 0 {
		t.Errorf("got %v, %v, want an empty list", answer, err)
	}
}

// A run of a finished period reads half a unit per member instead of writing four, and sends nothing.
func TestRerunLooksUp(t *testing.T) {
	t.Parallel()
	const n = 600
	m := names("member", n)
	w := newWorld(t, m...)
	w.fire()
	w.drain()
	sent, spent := w.box.sent, w.store.Meter().Spent()
	if _, err := w.again(100); err != nil {
		t.Fatal(err)
	}
	w.drain()
	cost := w.store.Meter().Spent().Since(spent)
	equal(t, "messages", w.box.sent-sent, job.Segments)
	// What a run costs that does nothing: opening, pages, advances, close. It does not grow with the members.
	if cost.Write > 400 || cost.Read < n/2 || cost.Read > n/2+600 {
		t.Errorf("cost %+v, want half a read unit per member and hardly a write", cost)
	}
	w.granted(100, m...)
	j := w.list()[0]
	if j.Applied == n {
		j = w.list()[1]
	}
	equal(t, "counts", []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{n, 0, n, 0})
	equal(t, "state", j.State, job.Completed)
}

// A run after others has what is missing only: members who joined the catalog later and those who failed.
func TestRerunGrantsWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := names("member", 50)
	w := newWorld(t, m[:30]...)
	w.fire()
	w.drain()
	w.addMembers(m...)
	if _, err := w.again(100); err != nil {
		t.Fatal(err)
	}
	w.drain()
	w.granted(100, m...)
	var applied, left int64
	for _, j := range w.list() {
		equal(t, "state", j.State, job.Completed)
		applied += j.Applied
		left += j.Already
	}
	equal(t, "applied, already", []int64{applied, left}, []int64{50, 30})
}

// A page that a dying re-run froze keeps what it left out, even if the entries look different by then.
func TestLeftOutIsFrozen(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 5)
	w := newWorld(t, m...)
	w.kind.subjects = pages(3, m[:3])
	w.fire()
	w.drain()
	w.kind.subjects = pages(3, m)
	r, err := w.again(100)
	if err != nil {
		t.Fatal(err)
	}
	dies := w.fanout(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			return false, errNoAnswer
		}
		return true, nil
	})
	w.segments(dies, segmentBody(r.Job, 3))
	w.kind.subjects = pages(3, nil)
	w.drain()
	j := must(w.jobs.Find(t.Context(), r.Job.ID))(t)
	equal(t, "counts", []int64{j.Total, j.Applied, j.Already, j.Failed}, []int64{5, 2, 3, 0})
	equal(t, "state", j.State, job.Completed)
	w.granted(100, m...)
}

// A member who leaves after the page was frozen is granted all the same; who leaves before is not.
func TestMemberLeavesDuringTheRun(t *testing.T) {
	t.Parallel()
	m := inSegment(3, 2)
	w := newWorld(t, m...)
	gone := func(id string) catalog.Member {
		return catalog.Member{ID: id, Status: catalog.Withdrawn, JoinedAt: april.AddDate(-1, 0, 0)}
	}
	j, segments := w.open()
	w.putMembers(gone(m[0]))
	w.segments(w.fanout(nil), segments...)
	w.putMembers(gone(m[1]))
	w.drain()
	w.granted(0, m[0])
	w.granted(100, m[1])
	equal(t, "total", must(w.jobs.Find(t.Context(), j.ID))(t).Total, int64(1))
}
