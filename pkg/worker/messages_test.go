package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// otherID is the id of a job that does not exist.
func otherID(kind string) string { return kind + "-01HTAJ3RYGWCN3PCDVENG1K4WQ" }

// What is not a message of ours is handed back for its DLQ, again and again, writes nothing, and keeps no neighbour from its grant. SQS-07, SQS-18, KEY-02, KEY-04
func TestMessagesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2", "member-42")
	j := w.fire(april, 100)
	subject := func(s string) string {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"v":1,"job":%q,"subject":%s}`, j.ID, text)
	}
	bad := []string{
		"", "null", "[]", `"text"`, "{}", "0", `{"month":`, "\xff\xfe", `{"v":1}`, `{"memberId":"member-42"}`,
		fmt.Sprintf(`{"v":2,"job":%q,"subject":"member-42"}`, j.ID), // a newer version
		fmt.Sprintf(`{"v":0,"job":%q,"subject":"member-42"}`, j.ID),
		fmt.Sprintf(`{"v":"1","job":%q,"subject":"member-42"}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q,"subject":null}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q,"subject":0}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q,"memberid":"x"}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q,"segment":1}`, j.ID), // of another queue
		fmt.Sprintf(`{"v":1,"job":%q,"segment":1,"subject":"member-42"}`, j.ID),
		fmt.Sprintf(`{"v":1,"job":%q,"subject":"member-42"} {}`, j.ID),
		subject(""), subject("   "), subject(" member-42"), subject("member-42\u200b"), subject("회원"), subject("회원"),
		subject("2024-05:member-42"), subject("%3A"), subject("member/42"), subject("x\n{\"level\":\"info\",\"msg\":\"granted\"}"), subject(strings.Repeat("x", 129)),
		bodies(job.Job{ID: otherID("keyword-map")}, "record-1")[0], // another kind's
		bodies(job.Job{ID: "monthly-point"}, "member-42")[0], bodies(job.Job{ID: "monthly-point-"}, "member-42")[0], bodies(job.Job{ID: "-"}, "member-42")[0],
		bodies(job.Job{ID: "monthly-point-01HTAJ3RYGWCN3PCDVENG1K4W"}, "member-42")[0],                 // too short
		bodies(job.Job{ID: strings.ToLower(j.ID)}, "member-42")[0],                                     // not canonical
		bodies(job.Job{ID: strings.Repeat("monthly-point-", 300)}, "member-42")[0],                     // 4,200 bytes
		bodies(job.Job{ID: "monthly-point:2024-04:member-42"}, "member-42")[0],                         // a key
		bodies(job.Job{ID: "monthly-point-01HTAJ3RYGWCN3PCDVENG1K4WQ\nmonthly-point"}, "member-42")[0], // a newline
	}
	all := append([]string{bodies(j, "member-1")[0]}, append(bad, bodies(j, "member-2")[0])...)
	want := []string{}
	for i := range bad {
		want = append(want, fmt.Sprintf("m%d", i+1))
	}
	want = sorted(want)
	equal(t, "handed back", w.deliver(w.worker(nil), all...), want)
	equal(t, "balances", []int64{w.balance("member-1"), w.balance("member-2"), w.balance("member-42")}, []int64{100, 100, 0})
	before := w.snapshot()
	equal(t, "handed back again", w.deliver(w.worker(nil), all...), want)
	if after := w.snapshot(); after != before {
		t.Errorf("the second delivery wrote something:\n%s\nbefore:\n%s", after, before)
	}
	if w.balance("member-42") != 0 {
		t.Error("member-42 was granted by a message that is not ours")
	}
}

// Member and member are two subjects: nothing is folded on the way. KEY-02
func TestIdsAreNotNormalised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "Member-42")
	j := w.fire(april, 100)
	equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, "member-42", "Member-42")...), []string{})
	equal(t, "balances", []int64{w.balance("member-42"), w.balance("Member-42")}, []int64{100, 100})
	equal(t, "job", w.job(j.ID).State, job.Completed)
}

// half cancels a job and stops before its shards are closed.
func half(t *testing.T, w *world, j job.Job) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.Touches("jobs/TALLY#") {
			stop()
			return false, context.Canceled
		}
		return true, nil
	})
	if _, done, err := job.NewStore(s, w.clock).Cancel(ctx, j.ID); done || err == nil {
		t.Fatalf("cancel: %v, %v, want it to stop half way", done, err)
	}
}

// Messages of a job that is not RUNNING write nothing; those that still have to be granted are never acknowledged.
func TestMessagesOfJobsThatDoNotRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		set   func(t *testing.T, w *world) (id string)
		again []string // of member-1 and member-2
	}{
		{"unknown", func(*testing.T, *world) string { return otherID("monthly-point") }, ids()},
		{"pending", func(t *testing.T, w *world) string {
			r, err := dispatch.NewDispatcher(w.env(nil), w.kind).Fire(t.Context(), w.kind, april, []byte(monthlypoint.Inputs(100)))
			if err != nil {
				t.Fatal(err)
			}
			return r.Job.ID
		}, ids(0, 1)},
		{"cancelled", func(t *testing.T, w *world) string {
			j := w.fire(april, 100)
			w.cancel(j)
			return j.ID
		}, ids()},
		{"failed", func(t *testing.T, w *world) string {
			j := w.fire(april, 100)
			if _, done, err := w.jobs.Fail(t.Context(), j, job.ReasonFanOut); !done || err != nil {
				t.Fatal(done, err)
			}
			return j.ID
		}, ids()},
		{"ending", func(t *testing.T, w *world) string {
			j := w.fire(april, 100)
			half(t, w, j)
			return j.ID
		}, ids()},
		{"completed, both applied", func(t *testing.T, w *world) string {
			j := w.fire(april, 100)
			w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...)
			return j.ID
		}, ids()},
		{"completed, one failed", func(t *testing.T, w *world) string {
			j := w.fire(april, 100)
			w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
				if subject == "member-2" {
					return nil, job.Permanent(reasonGone, errors.New("gone"))
				}
				return w.kind.monthly.Effects(t.Context(), j, subject)
			}
			w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...)
			w.kind.effects = nil
			return j.ID
		}, ids(1)},
		{"completed, one conflicting", func(t *testing.T, w *world) string {
			first := w.fire(april, 200)
			w.deliver(w.worker(nil), bodies(first, "member-2")...)
			w.cancel(first)
			j := w.run(100)
			w.deliver(w.worker(nil), bodies(j, "member-1", "member-2")...)
			return j.ID
		}, ids()},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-1", "member-2")
			id := test.set(t, w)
			before := w.snapshot()
			b := w.worker(nil)
			for range 2 {
				equal(t, "handed back", w.deliver(b, bodies(job.Job{ID: id}, "member-1", "member-2")...), test.again)
			}
			if after := w.snapshot(); after != before {
				t.Errorf("something was written:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// Messages that come back from the DLQ a month after their job: the one whose grant exists is acknowledged, the other returns to the DLQ and tells which run to start.
// That run grants it in the old period. SQS-16, TIM-02, TXN-12, TTL: entries have no expiry
func TestRedriveOfACompletedJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "member-43")
	j := w.fire(april, 100)
	b := w.worker(nil)
	equal(t, "first delivery", w.deliver(b, bodies(j, "member-42")...), ids())
	if err := b.GiveUp(t.Context(), j, []string{"member-43"}, job.ReasonExhausted); err != nil {
		t.Fatal(err)
	}
	if _, err := w.jobs.Close(t.Context(), j.ID); err != nil {
		t.Fatal(err)
	}
	equal(t, "job", w.job(j.ID).State, job.Completed)

	w.later(31 * 24 * time.Hour) // it is May
	for range 2 {
		equal(t, "redriven", w.deliver(w.worker(nil), bodies(j, "member-42", "member-43")...), ids(1))
	}
	equal(t, "balances", []int64{w.balance("member-42"), w.balance("member-43")}, []int64{100, 0})
	if !strings.Contains(w.logs.String(), "hanbeon run monthly-point --period 2024-04") {
		t.Error("the log does not say which run to start")
	}

	again := w.run(100)
	equal(t, "delivery of the run", w.deliver(w.worker(nil), bodies(again, "member-42", "member-43")...), ids())
	equal(t, "balances", []int64{w.balance("member-42"), w.balance("member-43")}, []int64{100, 100})
	equal(t, "key", w.history("member-43").Entries[0].Key, "monthly-point:2024-04:member-43")
	equal(t, "counts", w.counts(again), job.Counts{Applied: 1, Already: 1})
	equal(t, "redriven once more", w.deliver(w.worker(nil), bodies(j, "member-42", "member-43")...), ids())

	items, err := w.store.Get(t.Context(), store.Key{Table: monthlypoint.Table, PK: "member-43", SK: "monthly-point:2024-04:member-43"},
		store.Key{Table: monthlypoint.Table, PK: "member-43", SK: monthlypoint.Balance})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		for name := range it.Attrs {
			if slices.Contains([]string{"expires", "ttl", "expiresAt"}, name) {
				t.Errorf("%s expires", it.Key)
			}
		}
	}
}

// The April grant that is worked on in May is April's, and does not stand in the way of May's. TIM-02, TXN-12
func TestPeriodComesFromTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	j := w.fire(april, 100)
	w.later(30 * 24 * time.Hour)
	may := w.fire(april.AddDate(0, 0, 30), 100)
	equal(t, "handed back", w.deliver(w.worker(nil), append(bodies(j, "member-1"), bodies(may, "member-1")...)...), ids())
	var keys []string
	for _, e := range w.history("member-1").Entries {
		keys = append(keys, e.Key)
	}
	equal(t, "keys", keys, []string{"monthly-point:2024-04:member-1", "monthly-point:2024-05:member-1"})
	w.later(366 * 24 * time.Hour) // the jobs are gone or over; the entries are not
	equal(t, "a year later", w.deliver(w.worker(nil), append(bodies(j, "member-1"), bodies(may, "member-1")...)...), ids())
	equal(t, "balance", w.balance("member-1"), int64(200))
}

// Two periods in one delivery are two jobs; what is wrong with one does not concern the other.
func TestTwoJobsInOneDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2")
	march := w.fire(april.AddDate(0, 0, -31), 50)
	now := w.fire(april, 100)
	w.cancel(march)
	all := append(bodies(march, "member-1", "member-2"), append(bodies(now, "member-1", "member-2"), "nonsense")...)
	equal(t, "handed back", w.deliver(w.worker(nil), all...), ids(4))
	equal(t, "balances", []int64{w.balance("member-1"), w.balance("member-2")}, []int64{100, 100})
	equal(t, "job", w.job(now.ID).State, job.Completed)
}

// The reaper's way to give up settles each subject as what it is by then, once, whatever is delivered before and after.
func TestGiveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cast := map[row][]string{}
	for _, r := range []row{fresh, duplicate, already, conflicting, failedBefore, settledFailed, settledAlready} {
		cast[r] = names(strings.ReplaceAll(string(r), " ", "-"), 7)
	}
	j := stage(t, w, cast)
	w.kind.effects = nil
	members, _ := interleave(cast)

	down := w.worker(func(c sim.Call) (bool, error) { return false, errors.New("no answer") })
	before := w.snapshot()
	if err := down.GiveUp(t.Context(), j, members, job.ReasonExhausted); err == nil {
		t.Error("GiveUp without a store succeeded")
	}
	if w.snapshot() != before {
		t.Error("something was written")
	}

	x := map[row]want{}
	for r := range cast {
		x[r] = wants[r]
	}
	x[fresh] = want{ledger.Failed, 0, job.ReasonExhausted, false}
	x[failedBefore] = want{ledger.Failed, 0, job.ReasonExhausted, false}
	for range 2 {
		if err := w.worker(nil).GiveUp(t.Context(), j, members, job.ReasonExhausted); err != nil {
			t.Fatal(err)
		}
		verify(t, w, j, cast, x)
	}
	// A late copy of a message is refused by the same items.
	equal(t, "late", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
	verify(t, w, j, cast, x)
	if err := w.worker(nil).GiveUp(t.Context(), j, []string{"not:a:subject"}, job.ReasonExhausted); err == nil {
		t.Error("an illegal subject was given up under a key")
	}
}
