package audit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// summary is a small single kind; what it is asked about says how the call ends.
type summary struct{}

var _ job.Single = summary{}

func (summary) Kind() once.Kind { return "quiz" }

func (summary) Result(_ context.Context, j job.Job) ([]once.Effect, error) {
	switch j.Scope {
	case "fails":
		return nil, job.Permanent("refused", errors.New("no"))
	case "waits again":
		return nil, errors.New("not now")
	}
	return nil, nil
}

func (summary) Items(j job.Job, _ []once.Effect) []store.Write {
	return []store.Write{store.Put(store.Key{Table: "summaries", PK: "row", SK: j.Scope}, store.Attrs{"text": j.ID})}
}

// newDesk is a month with single jobs beside it, one in every state, by the name of its target: waits, waits again, works, is done, fails, is cancelled.
func newDesk(t *testing.T) (m *month, jobs map[string]job.Job) {
	t.Helper()
	m = newMonth(t)
	m.members(t, 5)
	m.fire(t) // an active bulk job beside them
	m.kinds = append(m.kinds, summary{})
	s := job.NewStore(m.env.Store, m.env.Now)
	jobs = map[string]job.Job{}
	for _, target := range []string{"waits", "waits again", "works", "is done", "fails", "is cancelled"} {
		r, err := dispatch.NewDispatcher(m.env, m.kinds...).Open(t.Context(), job.Request{Opening: job.Opening{Kind: "quiz", Slot: "quiz:" + target, Scope: target, Inputs: "{}", Attempts: job.Attempts}})
		if err != nil {
			t.Fatal(err)
		}
		e := m.queue.take("quiz", 1)
		switch target {
		case "works":
			_, err = s.Claim(t.Context(), r.Job)
		case "is done", "fails", "waits again":
			_, err = worker.NewSingle(m.env, summary{}).Handle(t.Context(), e)
		case "is cancelled":
			_, _, err = s.Cancel(t.Context(), r.Job.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if jobs[target], err = s.Find(t.Context(), r.Job.ID); err != nil {
			t.Fatal(err)
		}
	}
	return m, jobs
}

// Single jobs in every state hold the invariants, beside a bulk job, and are counted.
func TestSingleJobsHoldEveryInvariant(t *testing.T) {
	t.Parallel()
	m, jobs := newDesk(t)
	states := map[string]job.State{}
	for target, j := range jobs {
		states[target] = j.State
	}
	if got, want := fmt.Sprint(states), "map[fails:FAILED is cancelled:CANCELLED is done:COMPLETED waits:PENDING waits again:PENDING works:RUNNING]"; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if r := m.check(t); !r.OK() || r.Jobs != 7 || r.Active != 4 {
		t.Errorf("got %+v, want 7 jobs, 4 of them active, and no violation", r)
	}
}

// Each way to break a single job is found, and named by its invariant.
func TestEveryBreakOfASingleJobIsFound(t *testing.T) {
	t.Parallel()
	slot := func(name, job string) store.Write {
		return store.Put(store.Key{Table: "jobs", PK: "SLOTS#3", SK: name}, store.Attrs{"slot": name, "job": job, "at": "2024-04-01T00:00:00Z"})
	}
	set := func(target string, attrs store.Attrs) func(map[string]job.Job) store.Write {
		return func(jobs map[string]job.Job) store.Write { return store.Update(jobKey(jobs[target]), attrs, nil) }
	}
	for name, tt := range map[string]struct {
		want string
		with func(map[string]job.Job) store.Write
	}{
		"RUNNING and never claimed":             {"I5", set("works", store.Attrs{"attempt": 0})},
		"COMPLETED and never claimed":           {"I5", set("is done", store.Attrs{"attempt": 0})},
		"RUNNING without a token":               {"I5", set("works", store.Attrs{"claim": ""})},
		"RUNNING without a lease":               {"I5", set("works", store.Attrs{"leaseUntil": "0001-01-01T00:00:00Z"})},
		"in an attempt too many":                {"I5", set("waits again", store.Attrs{"attempt": 4})},
		"marked as ending":                      {"I5", set("works", store.Attrs{"ending": "CANCELLED"})},
		"a bulk job of a single kind":           {"I5", set("waits", store.Attrs{"maxAttempts": 0})},
		"over, and RUNNING again":               {"I4", set("is cancelled", store.Attrs{"state": "RUNNING", "attempt": 1, "claim": "x", "leaseUntil": "2024-04-01T00:00:00Z"})},
		"over, and PENDING again":               {"I4", set("fails", store.Attrs{"state": "PENDING"})},
		"its slot is under another name":        {"I4", set("waits", store.Attrs{"slot": "quiz:other"})},
		"a slot of a single job that is over":   {"I4", func(jobs map[string]job.Job) store.Write { return slot("quiz:is done", jobs["is done"].ID) }},
		"a second slot of a job":                {"I4", func(jobs map[string]job.Job) store.Write { return slot("quiz:other", jobs["works"].ID) }},
		"a slot of a single job that is no job": {"I4", func(map[string]job.Job) store.Write { return slot("quiz:none", "quiz-01HTCZP1G00000000000000000") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, jobs := newDesk(t)
			if err := m.env.Store.Transact(t.Context(), tt.with(jobs)); err != nil {
				t.Fatal(err)
			}
			r := m.check(t)
			if !slices.ContainsFunc(r.Violations, func(v string) bool { return strings.HasPrefix(v, tt.want) }) {
				t.Errorf("got %q, want a violation of %s", r.Violations, tt.want)
			}
		})
	}
}
