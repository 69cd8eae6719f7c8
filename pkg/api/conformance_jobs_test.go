package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
)

// What a caller may rely on who looks at jobs and ends them.
var contractOfJobs = []contractCase{
	{"shows a job, and that nothing has changed", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: "2024-04-14"})
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.Job(ctx, a.ID, "")
		if err != nil || first.NotModified || first.Job.State != "PENDING" || first.Job.Slot != "til:member-42:2024-04-14" || first.ETag == "" || first.RetryAfter != time.Second || first.Job.Total != nil {
			t.Errorf("job %+v (%v)", first, err)
		}
		w.later(time.Hour)
		again, err := s.Job(ctx, a.ID, first.ETag)
		if want := (api.JobAnswer{ETag: first.ETag, RetryAfter: 30 * time.Second, NotModified: true}); err != nil || cmp.Diff(again, want) != "" {
			t.Errorf("again %+v (%v), want %+v", again, err, want)
		}
		if other, err := s.Job(ctx, a.ID, `"other"`); err != nil || other.NotModified || other.Job.ID != a.ID {
			t.Errorf("with another ETag %+v (%v)", other, err)
		}
		if j, err := s.Cancel(ctx, a.ID); err != nil || j.State != "CANCELLED" || j.Active() {
			t.Errorf("cancelled %+v (%v)", j, err)
		}
		after, err := s.Job(ctx, a.ID, first.ETag)
		if err != nil || after.NotModified || after.ETag == first.ETag || after.Job.State != "CANCELLED" || after.RetryAfter != 0 || !after.Job.FinishedAt.Equal(noon.Add(time.Hour)) {
			t.Errorf("afterwards %+v (%v)", after, err)
		}
		if j, err := s.Cancel(ctx, a.ID); err != nil || j.State != "CANCELLED" {
			t.Errorf("cancelled again %+v (%v)", j, err)
		}
	}},
	{"does not cancel what has ended in another way", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		j, err := w.jobs.Find(ctx, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, done, err := w.jobs.Fail(ctx, j, job.ReasonFanOut); err != nil || !done {
			t.Fatal(done, err)
		}
		_, err = s.Cancel(ctx, a.ID)
		if e := wants(t, err, 409, api.TypeOver); e.Job == nil || e.Job.ID != a.ID || e.Job.State != "FAILED" || e.RetryAfter != 0 {
			t.Errorf("job %+v, again after %v", e.Job, e.RetryAfter)
		}
	}},
	// Out of time in the middle: the job is marked, and the answer is that it is ending.
	{"cancels later what it cannot at once", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		a, err := make(nil).StartMonthlyPoints(as(spring), api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		shards := 0
		s := make(func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && c.Touches("jobs/TALLY#") {
				if shards++; shards > 3 {
					panic("the function was cut off") // as a time-out would
				}
			}
			return true, nil
		})
		func() {
			defer func() { _ = recover() }() // the service has no handler around it
			_, err := s.Cancel(as(spring), a.ID)
			wants(t, err, 500, api.TypeBlank)
			panic("done")
		}()
		j, err := make(nil).Job(as(spring), a.ID, "")
		if err != nil || j.Job.State != "PENDING" || j.Job.Ending != "CANCELLED" {
			t.Errorf("job %+v (%v), want PENDING and ending", j.Job, err)
		}
		lost := make(onTransactOf("jobs/SLOTS#", sim.ErrNoAnswer))
		got, err := lost.Cancel(as(spring), a.ID)
		if err != nil || !got.Active() || got.Ending != "CANCELLED" {
			t.Errorf("cancel without an end = %+v, %v", got, err)
		}
		if got, err := make(nil).Cancel(as(spring), a.ID); err != nil || got.Active() {
			t.Errorf("cancel = %+v, %v", got, err)
		}
	}},
	{"knows no job that is not there", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		for _, id := range []string{someJob, "a/b", "a%2Fb", "x\n", " ", "..", "", "jobs?x=1", "a#b", strings.Repeat("x", 3000), "monthly-point:2024-04:member-42"} {
			_, err := s.Job(ctx, id, "")
			wants(t, err, 404, api.TypeBlank)
			_, err = s.Failures(ctx, api.FailuresQuery{Job: id})
			wants(t, err, 404, api.TypeBlank)
			_, err = s.Cancel(ctx, id)
			wants(t, err, 404, api.TypeBlank)
		}
	}},
}
