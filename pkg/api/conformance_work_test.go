package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// What a caller may rely on who asks for work.
var contractOfWork = []contractCase{
	{"opens a monthly grant and refuses a second one", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		want := api.Accepted{
			ID: a.ID, Kind: "monthly-point", Slot: "monthly-point:2024-04", State: "PENDING", CreatedAt: noon,
			Links: api.Links{Job: "/v1/jobs/" + a.ID, Cancel: "/v1/jobs/" + a.ID + "/cancel"},
		}
		if diff := cmp.Diff(a, want); diff != "" {
			t.Errorf("accepted (-got +want):\n%s", diff)
		}
		w.later(time.Minute)
		_, err = s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		e := wants(t, err, 409, api.TypeActive)
		if want := (api.JobRef{ID: a.ID, Kind: "monthly-point", Slot: a.Slot, State: "PENDING", Link: a.Links.Job}); e.Job == nil || *e.Job != want || e.RetryAfter != 6*time.Second {
			t.Errorf("job %+v, again after %v, want %+v, 6s", e.Job, e.RetryAfter, want)
		}
		if got := len(w.box.messages("segments")); got != job.Segments {
			t.Errorf("%d messages, want one per segment, %d", got, job.Segments)
		}
	}},
	{"refuses another amount unless told", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(ctx, a.ID); err != nil {
			t.Fatal(err)
		}
		_, err = s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 200})
		if e := wants(t, err, 409, api.TypeOtherAmount, "amount"); !strings.Contains(e.Error(), "100") {
			t.Errorf("error %v does not say what the amount was", e)
		}
		if _, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 200, ChangeAmount: true}); err != nil {
			t.Error(err)
		}
	}},
	{"refuses a period to come unless told", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		_, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-05", Amount: 100})
		wants(t, err, 422, api.TypeFuture, "period")
		if _, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-05", Amount: 100, AllowFuture: true}); err != nil {
			t.Error(err)
		}
	}},
	{"refuses what is no amount and no period", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s := make(nil)
		for _, r := range []api.StartMonthlyPoints{{Amount: 100}, {Period: "2024-04-15", Amount: 100}, {Period: "2024-4", Amount: 100}, {Period: "9999-11", Amount: 100}, {Period: strings.Repeat("9", 3000), Amount: 1}, {Period: "2024-04\n", Amount: 1}} {
			_, err := s.StartMonthlyPoints(as(spring), r)
			wants(t, err, 422, api.TypeBlank, "period")
		}
		for _, n := range []int64{0, -1, once.MaxAmount + 1, -1 << 63} {
			_, err := s.StartMonthlyPoints(as(spring), api.StartMonthlyPoints{Period: "2024-04", Amount: n})
			wants(t, err, 422, api.TypeBlank, "amount")
		}
	}},
	{"keeps who asked", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: "2024-04-15"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{a.ID, b.ID} {
			if got, err := s.Job(ctx, id, ""); err != nil || got.Job.RequestedBy != spring.ARN {
				t.Errorf("%s requested by %q (%v), want %q", id, got.Job.RequestedBy, err, spring.ARN)
			}
		}
	}},
	{"says that the store is busy, and is right when asked again", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		busy := make(onTransactOf("", errBusy))
		for range 2 {
			_, err := busy.RequestTIL(as(spring), api.RequestTIL{MemberID: "member-42", Date: "2024-04-15"})
			if e := wants(t, err, 503, api.TypeBlank); e.RetryAfter <= 0 || e.Job != nil {
				t.Errorf("again after %v, job %v", e.RetryAfter, e.Job)
			}
		}
		if _, err := make(nil).RequestTIL(as(spring), api.RequestTIL{MemberID: "member-42", Date: "2024-04-15"}); err != nil {
			t.Error(err)
		}
	}},
}
