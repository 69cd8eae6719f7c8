package til_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOpening(t *testing.T) {
	t.Parallel()
	k := til.New(nil, time.UTC, nil)
	got, err := k.Opening("Member-42.a_b~c@d+e=f", "2024-02-29")
	must(t, err)
	if len(got.With) != 1 || len(got.With[0].If) != 0 {
		t.Errorf("writes %+v, want one without a condition", got.With)
	}
	got.With = nil
	want := job.Opening{
		Kind: "til", Slot: "til:Member-42.a_b~c@d+e=f:2024-02-29", Scope: "2024-02-29", Inputs: `{"date":"2024-02-29","memberId":"Member-42.a_b~c@d+e=f"}`, Attempts: job.Attempts,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got (-) and want (+):\n%s", diff)
	}
}

// KEY-01, KEY-02 and KEY-04: what is no member id and no day names its field, in every method, and nothing is read or written.
func TestImpossibleMembersAndDays(t *testing.T) {
	t.Parallel()
	k := til.New(nil, time.UTC, nil) // a store would be a nil pointer
	check := func(member string, date once.Period, field string) {
		_, opening := k.Opening(member, date)
		_, found, find := k.Find(t.Context(), member, date)
		for method, err := range map[string]error{"Opening": opening, "Check": k.Check(t.Context(), member, date, begun), "Find": find} {
			var f *til.FieldError
			if !errors.As(err, &f) || f.Field != field || found || len(err.Error()) > 300 || !strings.HasPrefix(err.Error(), field+": ") {
				t.Errorf("%s(%.60q, %.60q): %v, want an error of %s", method, member, date, err, field)
			}
		}
	}
	for _, id := range []string{"", " ", " member-42", "member-42\u200b", "회원", "2024-05:member-1", "member-42:bonus", "%3A", "a/b", "%2F", "a\n", "a\x00", strings.Repeat("x", 3000)} {
		check(id, day, "memberId")
	}
	for _, date := range []once.Period{"", "2024-04", "2024-04-31", "2023-02-29", "2024-13-01", "2024-4-15", "1999-12-31", "20240415", "２０２４-04-15", "2024-04-15T00:00:00Z", "today", "2024-04-15\n", once.Period(strings.Repeat("2", 3000))} {
		check(member, date, "date")
	}
}

// TIM-01: which day it is, is a matter of the business zone: at 00:00 in Seoul it is still yesterday in UTC.
func TestCheckKnowsTheMemberAndTheDay(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	for _, tt := range []struct {
		zone, now string
		date      once.Period
		want      bool
	}{
		{"Asia/Seoul", "2024-04-14T14:59:59.999Z", "2024-04-15", false},
		{"Asia/Seoul", "2024-04-14T15:00:00Z", "2024-04-15", true},
		{"Asia/Seoul", "2024-04-15T00:00:00+09:00", "2024-04-15", true},
		{"Asia/Seoul", "2024-04-15T14:59:59Z", "2024-04-16", false},
		{"Asia/Seoul", "2024-04-15T14:59:59Z", "2024-04-15", true},
		{"Asia/Seoul", "2024-12-31T15:00:00Z", "2025-01-01", true},
		{"Asia/Seoul", "2024-04-15T00:00:00Z", "9999-12-31", false},
		{"Asia/Seoul", "2024-04-15T00:00:00Z", "2000-01-01", true}, // any day there was
		{"America/New_York", "2024-04-15T03:59:59Z", "2024-04-15", false},
		{"America/New_York", "2024-04-15T04:00:00Z", "2024-04-15", true},
	} {
		now, err := time.Parse(time.RFC3339, tt.now)
		must(t, err)
		for _, now := range []time.Time{now, now.UTC(), now.In(zone(t, "Pacific/Kiritimati"))} {
			err = til.New(d.store, zone(t, tt.zone), nil).Check(t.Context(), member, tt.date, now)
			var f *til.FieldError
			if tt.want && err != nil || !tt.want && (!errors.As(err, &f) || f.Field != "date") {
				t.Errorf("%s in %s at %s: %v, want accepted: %v", tt.date, tt.zone, now, err, tt.want)
			}
		}
	}
	for _, id := range []string{"nobody", "Member-42", "member-4"} {
		var f *til.FieldError
		if err := d.kind.Check(t.Context(), id, day, begun.AddDate(0, 0, 1)); !errors.As(err, &f) || f.Field != "memberId" || !errors.Is(err, catalog.ErrNoSuchMember) {
			t.Errorf("Check(%s): %v, want an error of memberId", id, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var f *til.FieldError
	if err := d.kind.Check(ctx, member, day, begun); err == nil || errors.As(err, &f) {
		t.Errorf("a store that fails: %v, want its error, which is no field's", err)
	}
	if d.rows() != 0 {
		t.Error("Check wrote something")
	}
}

// The whole way, twice: asked for, published, asked for again, replaced.
func TestASummaryIsPublishedAndReplaced(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	if _, ok, err := d.kind.Find(t.Context(), member, day); ok || err != nil {
		t.Errorf("before anything was asked for: %v, %v, want none", ok, err)
	}
	d.note("트랜잭션을 읽었다\r\n\t두 번", "Read about locks.", "끝")
	first := d.open()
	empty := til.Summary{MemberID: member, Date: day}
	if diff := cmp.Diff(d.find(), empty); diff != "" {
		t.Errorf("asked for, got (-) and want (+):\n%s", diff)
	}
	d.publish(d.claim(first))
	want := til.Summary{
		MemberID: member, Date: day, Revision: 1, Title: "트랜잭션 격리 수준", Text: "팬텀 리드를 배웠다.\n\t예제도 읽었다.", Keywords: []string{"트랜잭션", "phantom read"}, Job: first.ID, At: begun,
	}
	if diff := cmp.Diff(d.find(), want); diff != "" {
		t.Errorf("published, got (-) and want (+):\n%s", diff)
	}
	if j, err := d.jobs.Find(t.Context(), first.ID); err != nil || j.State != job.Completed {
		t.Errorf("the job is %s (%v), want COMPLETED", j.State, err)
	}

	second := d.open()
	if diff := cmp.Diff(d.find(), want); diff != "" {
		t.Errorf("asked for again, the text must stay; got (-) and want (+):\n%s", diff)
	}
	d.model.text = `{"title":"새 제목","text":"새 글","keywords":[]}`
	d.publish(d.claim(second))
	want.Revision, want.Title, want.Text, want.Keywords, want.Job = 2, "새 제목", "새 글", []string{}, second.ID
	if diff := cmp.Diff(d.find(), want); diff != "" {
		t.Errorf("replaced, got (-) and want (+):\n%s", diff)
	}
	if got := d.rows(); got != 1 {
		t.Errorf("%d rows, want one", got)
	}

	if len(d.model.asked) != 2 {
		t.Fatalf("the model was asked %d times, want twice", len(d.model.asked))
	}
	q := d.model.asked[0]
	if want := "트랜잭션을 읽었다\n\t두 번\n\nRead about locks.\n\n끝"; q.user != want || q.name != "til" || !strings.Contains(q.system, "JSON") || strings.Contains(q.system, member) {
		t.Errorf("asked %q of %q under %q, want the notes in order", q.user, q.name, q.system)
	}
	var schema struct {
		Type                 string                     `json:"type"`
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required"`
		AdditionalProperties *bool                      `json:"additionalProperties"`
	}
	must(t, json.Unmarshal(q.schema, &schema))
	if schema.Type != "object" || len(schema.Properties) != 3 || len(schema.Required) != 3 || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Errorf("schema %s: strict mode wants all fields required and no other", q.schema)
	}
}

// A text that was published and a job that fails or is cancelled afterwards: the text stays.
func TestAJobThatFailsLeavesTheTextOfTheLast(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("x")
	d.publish(d.claim(d.open()))
	want := d.find()
	must(t, d.claim(d.open()).Fail(t.Context(), "ai-refused"))
	if _, done, err := d.jobs.Cancel(t.Context(), d.open().ID); !done || err != nil {
		t.Fatalf("cancel: %v, %v", done, err)
	}
	if diff := cmp.Diff(d.find(), want); diff != "" {
		t.Errorf("got (-) and want (+):\n%s", diff)
	}
}

// JOB-01: of many first requests at once one opens a job, and there is one row.
func TestFirstRequestsAtOnceMakeOneRow(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	opening := d.opening()
	var wg sync.WaitGroup
	var mu sync.Mutex
	opened, held := 0, 0
	for range 20 {
		wg.Go(func() {
			_, ok, err := d.jobs.Open(t.Context(), job.Request{Opening: opening, ID: job.NewID(til.Name, begun), RequestedBy: "test"})
			mu.Lock()
			defer mu.Unlock()
			var active *job.ActiveError
			switch {
			case ok && err == nil:
				opened++
			case errors.As(err, &active):
				held++
			default:
				t.Errorf("open: %v, %v", ok, err)
			}
		})
	}
	wg.Wait()
	if opened != 1 || held != 19 || d.rows() != 1 || d.find().Revision != 0 {
		t.Errorf("%d opened, %d refused, %d rows in revision %d, want 1, 19, one in revision 0", opened, held, d.rows(), d.find().Revision)
	}
}

// The writes of openings and completions in any order and number: one row, with the text of the last completion and as many revisions as completions. JOB-01 without the slot.
func TestTheRowUnderWritesInAnyOrder(t *testing.T) {
	t.Parallel()
	stores := map[string]*desk{"bolt": newDesk(t, openStore(t)), "dynamo": newDesk(t, openDynamo(t))}
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		for name, d := range stores {
			date := once.Period(time.Date(2024, 1, n, 0, 0, 0, 0, time.UTC).Format("2006-01-02"))
			opening, err := d.kind.Opening(member, date)
			if err != nil {
				r.Fatal(err)
			}
			want := til.Summary{MemberID: member, Date: date}
			for i, completes := range rapid.SliceOfN(rapid.Bool(), 1, 6).Draw(r, "completes") {
				writes := opening.With
				if completes {
					c := til.Content{Title: fmt.Sprint("제목 ", i), Text: "글", Keywords: []string{}}
					j := job.Job{ID: fmt.Sprint("til-", i), StartedAt: begun}
					writes = d.kind.Items(j, []once.Effect{once.Put{Subject: member, Name: string(date), Doc: c}})
					want.Revision++
					want.Title, want.Text, want.Keywords, want.Job, want.At = c.Title, c.Text, c.Keywords, j.ID, begun
				}
				if err := d.store.Transact(t.Context(), writes...); err != nil {
					r.Fatal(err)
				}
				got, ok, err := d.kind.Find(t.Context(), member, date)
				if err != nil || !ok {
					r.Fatalf("%s: %v, %v", name, ok, err)
				}
				if diff := cmp.Diff(got, want); diff != "" {
					r.Fatalf("%s, got (-) and want (+):\n%s", name, diff)
				}
			}
		}
	})
}

// No notes, or too many: failed for good without a call.
func TestNotesThatCannotBeSummarised(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	j := d.claim(d.open()).Job()
	// Neighbours that must not be read for it.
	_, err := d.notes.PutMembers(t.Context(), []catalog.Member{{ID: "member-420", Status: catalog.Active, JoinedAt: begun}})
	must(t, err)
	_, err = d.notes.PutNotes(t.Context(), []catalog.Note{{ID: "a", Member: member, Date: "2024-04-16", Text: "x"}, {ID: "a", Member: "member-420", Date: day, Text: "x"}})
	must(t, err)
	permanent := func(reason string) {
		t.Helper()
		effects, err := d.kind.Result(t.Context(), j)
		if effects != nil || job.ReasonOf(err) != reason || len(d.model.asked) != 0 {
			t.Errorf("%v, %v after %d calls, want %s without a call", effects, err, len(d.model.asked), reason)
		}
	}
	permanent("nothing-to-summarise")
	quarter := strings.Repeat("x", til.MaxNotes/4)
	d.note(quarter, quarter, quarter, quarter, "x")
	permanent("too-large")
	d.note(quarter, quarter, quarter, quarter[1:], "x") // as many bytes as are allowed
	if _, err := d.kind.Result(t.Context(), j); err != nil || len(d.model.asked) != 1 {
		t.Errorf("the most that is allowed: %v after %d calls", err, len(d.model.asked))
	}
}

// An error of the store, inputs that no opening makes and a program without a model pass: none of them is the member's fault.
func TestWhatIsNoFaultOfTheNotesIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("x")
	j := d.claim(d.open()).Job()
	for _, inputs := range []string{
		"", "{}", "null", `{"memberId":"member-42","date":"2024-04-15"}`, `{"date":"2024-04-15","memberId":"member-42"} `, `{"date":"2024-04-15","memberId":"member-42","x":1}`,
		`{"date":"2024-04","memberId":"member-42"}`, `{"date":"2024-04-15","memberId":""}`, `{"Date":"2024-04-15","memberId":"member-42"}`, `{"date":"2024-04-15","memberId":"a#b"}`,
	} {
		wrong := j
		wrong.Inputs = inputs
		if effects, err := d.kind.Result(t.Context(), wrong); effects != nil || err == nil || job.ReasonOf(err) != "" {
			t.Errorf("inputs %q: %v, %v, want an error that passes", inputs, effects, err)
		}
	}
	if effects, err := til.New(d.store, time.UTC, nil).Result(t.Context(), j); effects != nil || err == nil || job.ReasonOf(err) != "" {
		t.Errorf("without a model: %v, %v, want an error that passes", effects, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if effects, err := d.kind.Result(ctx, j); effects != nil || !errors.Is(err, context.Canceled) || job.ReasonOf(err) != "" {
		t.Errorf("a cancelled call: %v, %v, want %v", effects, err, context.Canceled)
	}
	if len(d.model.asked) != 0 {
		t.Errorf("the model was asked %d times", len(d.model.asked))
	}
}

func TestItemsTakesTheEffectOfResultOnly(t *testing.T) {
	t.Parallel()
	k := til.New(nil, time.UTC, nil)
	good := once.Put{Subject: member, Name: string(day), Doc: til.Content{"a", "b", []string{}}}
	writes := k.Items(job.Job{ID: "til-1"}, []once.Effect{good})
	if len(writes) != 1 || len(writes[0].If) != 0 || store.Validate(writes) != nil {
		t.Errorf("writes %+v, want one without a condition", writes)
	}
	for name, effects := range map[string][]once.Effect{"none": nil, "two": {good, good}, "an Add": {once.Add{Subject: member, Name: "points", N: 1}}, "another document": {once.Put{Subject: member, Name: string(day), Doc: "text"}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic: a job would complete without its text", name)
				}
			}()
			k.Items(job.Job{ID: "til-1"}, effects)
		}()
	}
}

// From the request to a text of 4 KB, with title and keywords as long as they may be, on both stores: at most 40 write units, also where it replaces as much, and with the six renewals of a call of two minutes.
func TestCost(t *testing.T) {
	t.Parallel()
	title, keyword := strings.Repeat("t", til.MaxTitle), `"`+strings.Repeat("k", til.MaxKeyword)+`"`
	text := summary(`"`+title+`"`, `"`+strings.Repeat("x", 4096)+`"`, "["+strings.TrimSuffix(strings.Repeat(keyword+",", 10), ",")+"]")
	for name, open := range map[string]func(testing.TB) store.Store{"bolt": openStore, "dynamo": openDynamo} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, open(t))
			d.model.text = text
			d.note("x")
			for _, what := range []string{"the first", "one that replaces it"} {
				before := d.store.Meter().Spent()
				c := d.claim(d.open())
				for range 6 {
					_, err := c.Renew(t.Context())
					must(t, err)
				}
				d.publish(c)
				spent := d.store.Meter().Spent().Since(before)
				t.Logf("%s: %+v", what, spent)
				if spent.Write > 40 {
					t.Errorf("%s costs %v write units, want at most 40", what, spent.Write)
				}
			}
			if s := d.find(); s.Revision != 2 || len(s.Text) != 4096 || len(s.Keywords) != 10 || !s.At.Equal(begun) {
				t.Errorf("published is revision %d with %d bytes", s.Revision, len(s.Text))
			}
		})
	}
}
