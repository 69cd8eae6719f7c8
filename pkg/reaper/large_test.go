package reaper_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// slow is a queue whose Send takes a while, and remembers what went through it.
type slow struct {
	*world
	take time.Duration
	sent map[string]int
}

func (s *slow) Send(ctx context.Context, to queue.Name, bodies ...string) error {
	time.Sleep(s.take)
	for _, b := range bodies {
		var m struct{ Subject string }
		json.Unmarshal([]byte(b), &m)
		s.sent[m.Subject]++
	}
	return s.world.Send(ctx, to, bodies...)
}

// Every message of a job is lost; one run of the reaper has time to send a tenth of them again. Nobody fails, the workers are well: nobody may end as exhausted.
func TestAReSendThatIsLargerThanOneRun(t *testing.T) {
	t.Parallel()
	fifty := names(50)
	w := newWorld(t, fifty...)
	w.kind.page = 1
	j := w.open()
	w.fanOut()
	if n := len(w.take(gifts)); n != 50 {
		t.Fatal(n)
	}
	q := &slow{w, 20 * time.Millisecond, map[string]int{}}
	env := w.env(w.store)
	env.Queue = q
	for begin := w.clock(); w.find(j.ID).State == job.Running; {
		if w.clock().Sub(begin) > 24*time.Hour {
			t.Fatal("no end")
		}
		w.later(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+100*time.Millisecond) // 10 s is the reaper's margin
		reaper.New(env, paused, w.kind).Handle(ctx)
		cancel()
		w.work()
	}
	reasons, _ := w.jobs.FailuresByReason(t.Context(), j.ID)
	never := 0
	for _, s := range fifty {
		if q.sent[s] == 0 {
			never++
		}
	}
	if len(reasons) > 0 {
		t.Errorf("job %s: failures %v, of which %d were never sent again", w.find(j.ID).State, reasons, never)
	}
}

// The queue refuses every re-send for hours (SQS is down or its policy wrong, DynamoDB is well): nobody is settled as exhausted without one message sent again.
func TestAReSendThatIsRefusedDoesNotCount(t *testing.T) {
	t.Parallel()
	ten := names(10)
	w := newWorld(t, ten...)
	j := w.open()
	w.fanOut()
	w.take(gifts) // lost
	env := w.env(w.store)
	env.Queue = sim.ScriptQueue(w, func(c sim.Call) (bool, error) {
		if w.clock().Sub(april) < 6*time.Hour {
			return false, &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: errors.New("down")}
		}
		return true, nil
	})
	for w.find(j.ID).State == job.Running {
		w.later(time.Minute)
		reaper.New(env, paused, w.kind).Handle(t.Context())
		w.work()
	}
	if reasons, _ := w.jobs.FailuresByReason(t.Context(), j.ID); len(reasons) > 0 {
		t.Errorf("failures %v although nothing was ever sent again", reasons)
	}
}

// A manifest that takes longer to walk than one run lasts: every run begins somewhere else, so that all of it is looked at in the end, and the one whose message was lost is sent again or settled. The job comes to an end.
func TestAManifestThatIsLongerThanOneRun(t *testing.T) {
	t.Parallel()
	fifty := names(50)
	w := newWorld(t, fifty...)
	w.kind.page = 1
	j := w.open()
	w.fanOut()
	last := ""
	if err := w.jobs.Manifest(t.Context(), j, func(_ int, p job.Page) error {
		if len(p.Subjects) > 0 {
			last = p.Subjects[0]
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	worker := w.worker()
	for _, m := range w.take(gifts) {
		if s, _ := queue.DecodeSubject(m.body); s.Subject != last { // the one message that is lost
			w.deliver(worker, m)
		}
	}
	slowReads := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Op == sim.Get {
			time.Sleep(time.Millisecond)
		}
		return true, nil
	})
	begin := w.clock()
	for w.find(j.ID).State == job.Running && w.clock().Sub(begin) < 12*time.Hour {
		w.later(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+60*time.Millisecond)
		reaper.New(w.env(slowReads), paused, w.kind).Handle(ctx)
		cancel()
		w.work()
	}
	if now := w.find(j.ID); now.State != job.Completed {
		t.Errorf("after 12 h the job is %s with %d re-sends; %s is neither sent again nor settled", now.State, now.SubjectResends, last)
	}
}

// One subject whose entry cannot be read: its neighbours, and those on later pages, are settled all the same.
func TestAnUnreadableEntryHoldsUpNoNeighbour(t *testing.T) {
	t.Parallel()
	thirty := names(30)
	w := newWorld(t, thirty...)
	w.kind.page = 2
	j := w.open()
	w.fanOut()
	w.take(gifts)
	// somebody restored or edited one item of the ledger
	key := store.Key{Table: points, PK: "member-05", SK: "gift:2024-04:member-05"}
	if err := w.store.Transact(t.Context(), store.Put(key, store.Attrs{"state": int64(1)})); err != nil {
		t.Fatal(err)
	}
	for range 24 * 60 {
		w.later(time.Minute)
		reaper.New(w.env(w.store), paused, w.kind).Handle(t.Context())
		w.take(gifts) // workers are off: all is lost
	}
	reasons, _ := w.jobs.FailuresByReason(t.Context(), j.ID)
	if reasons[job.ReasonExhausted] < 29 {
		t.Errorf("after 24 h %d of 29 readable subjects are settled, job %s", reasons[job.ReasonExhausted], w.find(j.ID).State)
	}
}

// A re-run of a period in which one entry cannot be read: whoever is on that page or behind it is granted.
func TestARerunGetsPastAnUnreadableEntry(t *testing.T) {
	t.Parallel()
	thirty := names(30)
	w := newWorld(t, thirty...)
	w.open()
	w.fanOut()
	w.work()
	key := store.Key{Table: points, PK: "member-05", SK: "gift:2024-04:member-05"}
	if err := w.store.Transact(t.Context(), store.Put(key, store.Attrs{"state": int64(1)})); err != nil {
		t.Fatal(err)
	}
	var fresh []string
	for n := range 64 {
		s := "n-" + string(rune('a'+n/8)) + string(rune('a'+n%8))
		fresh = append(fresh, s)
		w.kind.change(func() { w.kind.subjects[s] = true })
	}
	j := w.run()
	for begin := w.clock(); w.find(j.ID).State.Active() && w.clock().Sub(begin) < 24*time.Hour; {
		w.fanOut()
		w.work()
		w.later(time.Minute)
		reaper.New(w.env(w.store), paused, w.kind).Handle(t.Context())
	}
	j = w.find(j.ID)
	if got := len(w.balances(fresh...)); got != len(fresh) {
		t.Errorf("job %s %s: %d of %d new members granted", j.State, j.Reason, got, len(fresh))
	}
}
