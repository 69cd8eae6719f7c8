package api_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// open opens a job at the time of the clock.
func (w *world) open(t testing.TB, kind once.Kind, slot string) job.Job {
	t.Helper()
	o := job.Opening{Kind: kind, Slot: slot, Scope: "x", Inputs: "{}"}
	if kind == "til" {
		o.Attempts = job.Attempts
	}
	j, _, err := w.jobs.Open(t.Context(), job.Request{Opening: o, ID: job.NewID(kind, w.clock()), RequestedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// walk reads every page of a list of jobs.
func walk(t *testing.T, s api.Service, q api.JobsQuery) (ids []string, pages int) {
	t.Helper()
	limit := q.Limit
	if limit == 0 {
		limit = api.DefaultLimit
	}
	for {
		l, err := s.Jobs(as(spring), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Jobs) > limit {
			t.Fatalf("a page of %d, want at most %d", len(l.Jobs), limit)
		}
		for _, j := range l.Jobs {
			ids = append(ids, j.ID)
		}
		if pages++; l.Next == "" {
			return ids, pages
		}
		q.Cursor = l.Next
	}
}

func TestJobsComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := noon.AddDate(0, -3, 0)
	w.later(begin.Sub(noon))
	var til, monthly, cancelled []string // oldest first
	for n := range 250 {
		til = append(til, w.open(t, "til", fmt.Sprintf("til:member-%d:x", n)).ID)
		if n%25 == 0 {
			j := w.open(t, "monthly-point", fmt.Sprintf("monthly-point:%d", n))
			monthly = append(monthly, j.ID)
			if _, done, err := w.jobs.Cancel(t.Context(), j.ID); !done || err != nil {
				t.Fatal(done, err)
			}
			cancelled = append(cancelled, j.ID)
		}
		w.later(noon.Sub(begin) / 250)
	}
	// The newest month first, in a month by kind, of a kind the newest first.
	all := slices.Concat(til, monthly)
	month := func(id string) string {
		_, at, err := job.ParseID(id)
		if err != nil {
			t.Fatal(err)
		}
		return at.Format("2006-01")
	}
	slices.SortFunc(all, func(x, y string) int {
		if c := strings.Compare(month(y), month(x)); c != 0 {
			return c
		}
		if c := strings.Compare(x[:3], y[:3]); c != 0 {
			return c
		}
		return strings.Compare(y, x)
	})
	only := func(keep func(string) bool) (out []string) {
		for _, id := range all {
			if keep(id) {
				out = append(out, id)
			}
		}
		return out
	}
	for side, s := range map[string]api.Service{"service": api.NewService(w.env(nil), seoul), "client": w.client(spring, nil)} {
		for name, c := range map[string]struct {
			q    api.JobsQuery
			want []string
		}{
			"all":              {api.JobsQuery{}, all},
			"seven at a time":  {api.JobsQuery{Limit: 7}, all},
			"each by itself":   {api.JobsQuery{Limit: 1}, all},
			"one at a time":    {api.JobsQuery{Limit: 1, Kind: "monthly-point"}, only(func(id string) bool { return id[0] == 'm' })},
			"a hundred":        {api.JobsQuery{Limit: 100}, all},
			"of a kind":        {api.JobsQuery{Kind: "til", Limit: 9}, only(func(id string) bool { return id[0] == 't' })},
			"of a month":       {api.JobsQuery{Month: "2024-02", Limit: 9}, only(func(id string) bool { return month(id) == "2024-02" })},
			"of a month ahead": {api.JobsQuery{Month: "2025-01"}, nil},
			"of a state":       {api.JobsQuery{State: "CANCELLED", Limit: 3}, only(func(id string) bool { return slices.Contains(cancelled, id) })},
			"of no job":        {api.JobsQuery{State: "COMPLETED"}, nil},
		} {
			got, _ := walk(t, s, c.q)
			if diff := cmp.Diff(got, c.want); diff != "" {
				t.Errorf("%s, %s (-got +want):\n%s", side, name, diff)
			}
		}
	}
}

// A filter that matches next to nothing does not make one request read everything.
func TestAPageEndsWhenEnoughHasBeenLookedAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range api.MaxScanned + 200 {
		w.open(t, "til", fmt.Sprintf("til:member-%d:x", n))
	}
	s := api.NewService(w.env(nil), seoul)
	l, err := s.Jobs(as(spring), api.JobsQuery{State: "FAILED", Limit: 100})
	if err != nil || len(l.Jobs) != 0 || l.Next == "" {
		t.Errorf("%d jobs, next %q, %v; want none and a next", len(l.Jobs), l.Next, err)
	}
	if got, pages := walk(t, s, api.JobsQuery{State: "FAILED", Limit: 100}); len(got) != 0 || pages != 2 {
		t.Errorf("%d jobs on %d pages, want 0 on 2", len(got), pages)
	}
}

// Jobs that open while a list is read do not shift what follows.
func TestAListGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want []string
	for n := range 30 {
		want = append(want, w.open(t, "til", fmt.Sprintf("til:member-%d:x", n)).ID)
		w.later(time.Second)
	}
	slices.Reverse(want)
	s := api.NewService(w.env(nil), seoul)
	var got []string
	for n, q := 0, (api.JobsQuery{Limit: 10}); ; n++ {
		l, err := s.Jobs(as(spring), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range l.Jobs {
			got = append(got, j.ID)
		}
		w.open(t, "til", fmt.Sprintf("til:late:%d", n))
		w.later(time.Second)
		if q.Cursor = l.Next; q.Cursor == "" {
			break
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("(-got +want):\n%s", diff)
	}
}

func TestFailuresComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.open(t, "monthly-point", "monthly-point:2024-04")
	var want []string
	for n := range 250 {
		subject := fmt.Sprintf("member-%03d", n)
		settled, counts := w.jobs.SettledAlready(j, subject), job.Counts{Already: 1}
		if n%3 == 0 {
			settled, counts = w.jobs.SettledFailed(j, subject, job.ReasonConflictingEntry), job.Counts{Failed: 1}
			want = append(want, subject)
		}
		if err := w.jobs.Settle(t.Context(), j, n%j.Shards, counts, settled); err != nil {
			t.Fatal(err)
		}
	}
	for side, s := range map[string]api.Service{"service": api.NewService(w.env(nil), seoul), "client": w.client(spring, nil)} {
		for _, limit := range []int{0, 1, 7, 100} {
			var got []string
			for q := (api.FailuresQuery{Job: j.ID, Limit: limit}); ; {
				l, err := s.Failures(as(spring), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range l.Failures {
					got = append(got, f.Subject)
					if f.Reason != job.ReasonConflictingEntry || !f.At.Equal(noon) {
						t.Errorf("failure %+v", f)
					}
				}
				if q.Cursor = l.Next; q.Cursor == "" {
					break
				}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("%s, %d at a time (-got +want):\n%s", side, limit, diff)
			}
		}
		a, err := s.Job(as(spring), j.ID, "")
		if err != nil || a.Job.Failed != int64(len(want)) || a.Job.Already != int64(250-len(want)) || a.Job.Total != nil {
			t.Errorf("%s: job %+v (%v)", side, a.Job, err)
		}
	}
}

func TestEntriesComeInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	want := w.grant(t, "member-42", 105, 10)
	for side, s := range map[string]api.Service{"service": api.NewService(w.env(nil), seoul), "client": w.client(spring, nil)} {
		for _, limit := range []int{0, 1, 7, 35, 100} {
			var got []string
			for q := (api.PointsQuery{Member: "member-42", Limit: limit}); ; {
				p, err := s.Points(as(spring), q)
				if err != nil {
					t.Fatal(err)
				}
				if p.Points != 1050 {
					t.Errorf("balance %d, want 1050", p.Points)
				}
				for _, e := range p.Entries {
					got = append(got, e.Key)
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("%s, %d at a time (-got +want):\n%s", side, limit, diff)
			}
		}
	}
}

// A cursor is good for the list it came from, with the filter it had, and for nothing else.
func TestACursorOfAnotherListIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "member-43")
	w.grant(t, "member-42", 3, 10)
	w.grant(t, "member-43", 3, 10)
	j := w.open(t, "monthly-point", "monthly-point:2024-04")
	j2 := w.open(t, "monthly-point", "monthly-point:2024-05")
	for n := range 3 {
		for _, x := range []job.Job{j, j2} {
			if err := w.jobs.Settle(t.Context(), x, 0, job.Counts{Failed: 1}, w.jobs.SettledFailed(x, fmt.Sprint("m", n), "invalid")); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := w.handler(spring, nil)
	lists := []string{
		"/v1/jobs?limit=1", "/v1/jobs?limit=1&kind=monthly-point", "/v1/jobs?limit=1&state=PENDING", "/v1/jobs?limit=1&month=2024-04", "/v1/jobs/" + j.ID + "/failures?limit=1",
		"/v1/jobs/" + j2.ID + "/failures?limit=1", "/v1/members/member-42/points?limit=1", "/v1/members/member-43/points?limit=1",
	}
	next := make([]string, len(lists))
	for i, l := range lists {
		var page struct{ Next string }
		send(h, "GET", l, "").json(t, &page)
		if next[i] = page.Next; page.Next == "" {
			t.Fatalf("%s has no next", l)
		}
	}
	for i, l := range lists {
		for k, c := range next {
			r := send(h, "GET", l+"&cursor="+url.QueryEscape(c), "")
			if want := map[bool]int{true: 200, false: 400}[i == k]; r.StatusCode != want {
				t.Errorf("%s with the cursor of %s = %d %s, want %d", l, lists[k], r.StatusCode, r.body, want)
			} else if want == 400 && !func() bool { e := r.problem(t); return e.Field("cursor") }() {
				t.Errorf("%s does not name the cursor: %s", l, r.body)
			}
		}
		flipped := []byte(next[i])
		flipped[len(flipped)/2] ^= 1
		if r := send(h, "GET", l+"&cursor="+url.QueryEscape(string(flipped)), ""); r.StatusCode != 400 {
			t.Errorf("%s with a cursor that is off by one bit = %d %s", l, r.StatusCode, r.body)
		}
	}
}

// A page of the store may be empty and have a next.
func TestListsGoOnAfterEmptyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 30 {
		w.open(t, "til", fmt.Sprintf("til:member-%d:x", n))
	}
	env := w.env(nil)
	env.Store = &sparse{Store: env.Store}
	if got, _ := walk(t, api.NewService(env, seoul), api.JobsQuery{Kind: "til", Limit: 4}); len(got) != 30 {
		t.Errorf("%d jobs, want 30", len(got))
	}
	w.grant(t, "member-42", 35, 10)
	if p, err := api.NewService(env, seoul).Points(as(spring), api.PointsQuery{Member: "member-42", Limit: 100}); err != nil || p.Points != 350 || len(p.Entries) != 35 {
		t.Errorf("%d points, %d entries (%v), want 350 and 35", p.Points, len(p.Entries), err)
	}
}

// sparse answers with few items, and every other query with an empty page that has a next.
type sparse struct {
	store.Store
	n int
}

func (s *sparse) Query(ctx context.Context, q store.Query) (store.Page, error) {
	if s.n++; s.n%2 == 0 && q.Cursor != "" {
		return store.Page{Next: q.Cursor}, nil
	}
	if q.Limit == 0 {
		q.Limit = 10
	}
	return s.Store.Query(ctx, q)
}
