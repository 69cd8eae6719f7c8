package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// What a caller may rely on who reads results and puts data.
var contractOfData = []contractCase{
	{"shows points to the last digit", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		if p, err := s.Points(ctx, api.PointsQuery{Member: "member-42"}); err != nil || cmp.Diff(p, api.Points{Member: "member-42", Entries: []api.Entry{}}) != "" {
			t.Errorf("points without a grant %+v (%v)", p, err)
		}
		keys := w.grant(t, "member-42", 5, once.MaxAmount-1)
		want := api.Points{Member: "member-42", Points: 5 * (once.MaxAmount - 1)}
		for _, k := range keys {
			want.Entries = append(want.Entries, api.Entry{Key: k, State: "applied", Amount: once.MaxAmount - 1, Job: someJob, Scheduled: noon, At: noon})
		}
		got, err := s.Points(ctx, api.PointsQuery{Member: "member-42"})
		if diff := cmp.Diff(got, want); err != nil || diff != "" {
			t.Errorf("%v (-got +want):\n%s", err, diff)
		}
	}},
	{"has no points of nobody", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		for _, id := range []string{"member-43", "a:b", "a/b", "회원", "", "Member-42", strings.Repeat("x", 3000)} {
			_, err := make(nil).Points(as(spring), api.PointsQuery{Member: id})
			wants(t, err, 404, api.TypeBlank)
		}
	}},
	{"refuses limits and cursors that are none", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		a, err := s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range map[string]func(cursor string, limit int) error{
			"jobs": func(c string, n int) error { _, err := s.Jobs(ctx, api.JobsQuery{Cursor: c, Limit: n}); return err },
			"failures": func(c string, n int) error {
				_, err := s.Failures(ctx, api.FailuresQuery{Job: a.ID, Cursor: c, Limit: n})
				return err
			},
			"points": func(c string, n int) error {
				_, err := s.Points(ctx, api.PointsQuery{Member: "member-42", Cursor: c, Limit: n})
				return err
			},
		} {
			for _, n := range []int{-1, 101, 1 << 40} {
				wants(t, list("", n), 422, api.TypeBlank, "limit")
			}
			for _, c := range []string{"x", "====", "AAAAAAAAAAAAAAAA", strings.Repeat("A", 4000), "a b", "커서"} {
				wants(t, list(c, 0), 400, api.TypeBlank, "cursor")
			}
			if err := list("", 100); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for field, q := range map[string]api.JobsQuery{"kind": {Kind: "nothing"}, "state": {State: "running"}, "month": {Month: "2024"}} {
			_, err := s.Jobs(ctx, q)
			wants(t, err, 422, api.TypeBlank, field)
		}
	}},
	{"shows a summary from the first publication on", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		for revision := range int64(3) {
			a, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: "2024-04-15"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.TIL(ctx, "member-42", "2024-04-15")
			if revision == 0 {
				wants(t, err, 404, api.TypeBlank)
			} else if err != nil || got.Revision != revision {
				t.Errorf("revision %d (%v), want %d", got.Revision, err, revision)
			}
			text := fmt.Sprintf("오늘 배운 것 %d", revision)
			w.publish(t, a.ID, til.Content{Title: "제목", Text: text, Keywords: []string{"고루틴"}})
			got, err = s.TIL(ctx, "member-42", "2024-04-15")
			want := api.TIL{MemberID: "member-42", Date: "2024-04-15", Revision: revision + 1, Title: "제목", Text: text, Keywords: []string{"고루틴"}, Job: a.ID, UpdatedAt: noon}
			if diff := cmp.Diff(got, want); err != nil || diff != "" {
				t.Errorf("%v (-got +want):\n%s", err, diff)
			}
		}
		a, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: "2024-04-14"})
		if err != nil {
			t.Fatal(err)
		}
		w.publish(t, a.ID, til.Content{Title: "제목", Text: "글", Keywords: []string{}})
		if got, err := s.TIL(ctx, "member-42", "2024-04-14"); err != nil || got.Keywords == nil || len(got.Keywords) != 0 {
			t.Errorf("keywords %#v (%v), want an empty list", got.Keywords, err)
		}
	}},
	{"has no summary of nobody, and of no day", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		for _, member := range []string{"member-43", "a:b", "a/b", "회원", strings.Repeat("x", 3000)} {
			_, err := s.TIL(ctx, member, "2024-04-15")
			wants(t, err, 404, api.TypeBlank)
		}
		for _, date := range []string{"2024-02-30", "2024-04", "2024-4-1", "15/04/2024", "x\n", strings.Repeat("2", 3000)} {
			_, err := s.TIL(ctx, "member-42", date)
			wants(t, err, 422, api.TypeBlank, "date")
			_, err = s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: date})
			wants(t, err, 422, api.TypeBlank, "date")
		}
		for _, member := range []string{"", "member-43", "Member-42", " member-42", "a:b", "회원", "a\xffb", strings.Repeat("x", 3000)} {
			_, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: member, Date: "2024-04-15"})
			wants(t, err, 422, api.TypeBlank, "memberId")
		}
		for _, k := range []string{" ", "a ", " a", "키", "a\nb", "a\x7fb", strings.Repeat("k", 256)} {
			_, err := s.RequestTIL(ctx, api.RequestTIL{MemberID: "member-42", Date: "2024-04-15", IdempotencyKey: k})
			wants(t, err, 422, api.TypeBlank, "Idempotency-Key")
			_, err = s.StartMonthlyPoints(ctx, api.StartMonthlyPoints{Period: "2024-04", Amount: 100, IdempotencyKey: k})
			wants(t, err, 422, api.TypeBlank, "Idempotency-Key")
		}
		if n := w.jobCount("til") + w.jobCount("monthly-point"); n != 0 {
			t.Errorf("%d jobs", n)
		}
	}},
	// TIM: today is that of the business time zone.
	{"takes a day when it begins in the business time zone", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		tomorrow := api.RequestTIL{MemberID: "member-42", Date: "2024-04-16"}
		note := []api.Note{{ID: "n", MemberID: "member-42", Date: "2024-04-16", Text: "x"}}
		w.later(12*time.Hour - time.Millisecond) // 23:59:59.999 in Seoul
		_, err := s.RequestTIL(ctx, tomorrow)
		wants(t, err, 422, api.TypeBlank, "date")
		if r, err := s.PutNotes(ctx, note); err != nil || outcomes(r) != "error:date" {
			t.Errorf("%s (%v)", outcomes(r), err)
		}
		w.later(time.Millisecond)
		if _, err := s.RequestTIL(ctx, tomorrow); err != nil {
			t.Error(err)
		}
		if r, err := s.PutNotes(ctx, note); err != nil || outcomes(r) != "added" {
			t.Errorf("%s (%v)", outcomes(r), err)
		}
	}},
	{"puts notes one by one", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		ok := api.Note{ID: "note-1", MemberID: "member-42", Date: "2024-04-15", Text: "고루틴을 배웠다.\n\t끝"}
		with := func(change func(*api.Note)) api.Note {
			n := ok
			change(&n)
			return n
		}
		changed := with(func(n *api.Note) { n.Text = "채널" })
		for _, step := range []struct {
			notes []api.Note
			want  string
		}{
			{nil, ""},
			{[]api.Note{ok, ok, changed}, "added unchanged error:id"},
			{[]api.Note{ok}, "unchanged"},
			{[]api.Note{changed, with(func(n *api.Note) { n.Date = "2024-04-14" })}, "changed added"},
			{[]api.Note{
				{}, with(func(n *api.Note) { n.ID = "a/b" }), with(func(n *api.Note) { n.MemberID = "a:b" }), with(func(n *api.Note) { n.MemberID = "member-43" }),
				with(func(n *api.Note) { n.Date = "2024-02-30" }), with(func(n *api.Note) { n.Date = "2024-04-16" }), with(func(n *api.Note) { n.Date = "2024-04" }),
				with(func(n *api.Note) { n.Text = "" }), with(func(n *api.Note) { n.Text = "a\x00" }), with(func(n *api.Note) { n.Text = strings.Repeat("x", 65537) }),
				with(func(n *api.Note) { n.ID, n.Text = "note-2", strings.Repeat("x", 65536) }),
			}, "error:id error:id error:memberId error:memberId error:date error:date error:date error:text error:text error:text added"},
		} {
			results, err := s.PutNotes(ctx, step.notes)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcomes(results); got != step.want {
				t.Errorf("%s, want %s", got, step.want)
			}
		}
		stored, err := catalog.New(w.store).NotesOf(ctx, "member-42", "2024-04-15")
		if err != nil || len(stored) != 2 || stored[0].Text != changed.Text || !stored[0].At.Equal(noon) {
			t.Errorf("stored %.300v (%v)", stored, err)
		}
		_, err = s.PutNotes(ctx, make501[api.Note]())
		wants(t, err, 422, api.TypeBlank, "notes")
		_, err = s.PutNotes(ctx, []api.Note{ok, with(func(n *api.Note) { n.Text = "a\xff" })})
		wants(t, err, 400, api.TypeBlank, "body")
	}},
	{"puts members one by one", func(t *testing.T, w *world, make func(sim.Hook) api.Service) {
		s, ctx := make(nil), as(spring)
		ok := api.Member{ID: "member-1", Status: "ACTIVE", JoinedAt: "2024-01-31T09:00:00.123456+09:00", Name: "김서연"}
		changed, other := ok, ok
		changed.Status = "WITHDRAWN"
		other.Name = "이민준"
		for _, step := range []struct {
			members []api.Member
			want    string
		}{
			{nil, ""},
			{[]api.Member{ok}, "added"},
			{[]api.Member{ok, changed, {ID: "member-42", Status: "INACTIVE", JoinedAt: "2023-04-15T03:00:00Z"}}, "unchanged error:id changed"},
			{[]api.Member{changed}, "changed"},
			{[]api.Member{
				{}, {ID: "a:b", Status: "ACTIVE", JoinedAt: ok.JoinedAt}, {ID: "b", Status: "active", JoinedAt: ok.JoinedAt}, {ID: "b", Status: "ACTIVE"}, {ID: "b", Status: "ACTIVE", JoinedAt: "2024-01-31"},
				{ID: "b", Status: "ACTIVE", JoinedAt: "2024-02-30T00:00:00Z"}, {ID: "b", Status: "ACTIVE", JoinedAt: "1024-01-31T00:00:00Z"}, {ID: "b", Status: "ACTIVE", JoinedAt: ok.JoinedAt, Name: "a\nb"},
				{ID: "b", Status: "ACTIVE", JoinedAt: ok.JoinedAt, Name: strings.Repeat("이", 86)}, {ID: "c", Status: "ACTIVE", JoinedAt: ok.JoinedAt},
			}, "error:id error:id error:status error:joinedAt error:joinedAt error:joinedAt error:joinedAt error:name error:name added"},
		} {
			results, err := s.PutMembers(ctx, step.members)
			if err != nil {
				t.Fatal(err)
			}
			if got := outcomes(results); got != step.want {
				t.Errorf("%s, want %s", got, step.want)
			}
		}
		_, err := s.PutMembers(ctx, make501[api.Member]())
		wants(t, err, 422, api.TypeBlank, "members")
		_, err = s.PutMembers(ctx, []api.Member{ok, {ID: "d", Status: "ACTIVE", JoinedAt: ok.JoinedAt, Name: "a\xff"}})
		wants(t, err, 400, api.TypeBlank, "body")
	}},
}
