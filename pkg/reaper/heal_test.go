package reaper_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

const gifts queue.Name = "gift"

// quiet is longer than a stalled job is left alone, before anything was sent again.
const quiet = reaper.Stalled + reaper.Margin + time.Second

// Messages that were never sent: the dispatcher died between opening and sending. DSP-10.
func TestMessagesNeverSentAreSent(t *testing.T) {
	t.Parallel()
	three := names(3)
	w := newWorld(t, three...)
	w.open()
	w.take(queue.Segments)
	w.later(reaper.Unsent)
	w.reap()
	if n := w.waiting(queue.Segments); n != 0 {
		t.Errorf("%d messages were sent again within the margin", n)
	}
	w.later(reaper.Margin + time.Second)
	w.reap()
	if n := w.waiting(queue.Segments); n != job.Segments {
		t.Fatalf("%d messages were sent again, want %d", n, job.Segments)
	}
	w.reap() // at once: the pause has doubled
	if n := w.waiting(queue.Segments); n != job.Segments {
		t.Errorf("%d messages after a second run", n)
	}
	w.fanOut()
	w.work()
	w.over(w.latest().ID, job.Completed, "", job.Counts{Applied: 3})
	same(t, "points", w.balances(three...), all(100, three...))
}

// A job whose fan-out never begins is sent again with doubling pauses for hours, then FAILED never-started; the slot is free, and a later run does everything.
func TestAJobThatNeverStartsFails(t *testing.T) {
	t.Parallel()
	three := names(3)
	w := newWorld(t, three...)
	j := w.open()
	sent := 0
	for at := time.Duration(0); w.find(j.ID).State == job.Pending; at += time.Minute {
		if at > reaper.NeverStarted+time.Hour {
			t.Fatal("no end")
		}
		w.reap()
		if len(w.take(queue.Segments)) > 0 {
			sent++
		}
		w.later(time.Minute)
	}
	if sent < 5 || sent > 9 { // the dispatcher, then 2, 4, 8, 16, ... minutes apart
		t.Errorf("the segments were sent %d times in six hours", sent)
	}
	w.over(j.ID, job.Failed, job.ReasonNeverStarted, job.Counts{})
	again := w.run()
	w.fanOut()
	w.work()
	w.over(again.ID, job.Completed, "", job.Counts{Applied: 3})
}

// A fan-out that died on the way is sent again: the pages it froze are met again, nobody is forgotten.
func TestSegmentsThatWereNeverFinishedAreSentAgain(t *testing.T) {
	t.Parallel()
	twenty := names(20)
	w := newWorld(t, twenty...)
	w.kind.page = 1
	j := w.open()
	// Every fan-out dies behind the send of its first page, before it advances.
	for i, m := range w.take(queue.Segments) {
		if i == 0 {
			w.deliver(w.fanout(), m)
			continue
		}
		dead := false
		s := sim.Script(w.store, func(c sim.Call) (bool, error) {
			if dead = dead || c.Op == sim.Transact && c.Touches("jobs/SEGMENTS#"); dead {
				return false, sim.ErrKilled
			}
			return true, nil
		})
		w.deliver(dispatch.NewFanout(w.env(s), w.kind), m)
	}
	w.take(queue.Segments) // what came back is lost
	w.work()
	w.later(quiet)
	w.reap()
	if n := w.waiting(queue.Segments); n != job.Segments-w.find(j.ID).SegmentsDone {
		t.Errorf("%d segments were sent again, of which %d are done", n, w.find(j.ID).SegmentsDone)
	}
	w.fanOut()
	w.work()
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 20})
	same(t, "points", w.balances(twenty...), all(100, twenty...))
}

// A segment that cannot be listed is sent again three times with doubling pauses; then the job is FAILED fan-out. What was applied stays, and a later run applies exactly the rest.
func TestAFanOutThatCannotFinishFailsTheJob(t *testing.T) {
	t.Parallel()
	forty := names(40)
	w := newWorld(t, forty...)
	w.kind.broken[job.SegmentOf(forty[0], job.Segments)] = true
	j := w.open()
	w.fanOut()
	w.work()
	applied := w.balances(forty...)
	if len(applied) == 0 || len(applied) == 40 {
		t.Fatalf("%d applied", len(applied))
	}
	var resends []time.Duration
	begin := w.clock()
	for w.find(j.ID).State == job.Running {
		if w.clock().Sub(begin) > 24*time.Hour {
			t.Fatal("no end")
		}
		w.later(time.Minute)
		before := w.find(j.ID).SegmentResends
		w.take(queue.Segments)
		w.reap()
		if w.find(j.ID).SegmentResends > before {
			resends = append(resends, w.clock().Sub(begin).Round(time.Minute))
			w.fanOut() // and fails again
		}
	}
	same(t, "sent again after", resends, []time.Duration{22 * time.Minute, 65 * time.Minute, 150 * time.Minute})
	w.over(j.ID, job.Failed, job.ReasonFanOut, job.Counts{Applied: int64(len(applied))})
	w.take(queue.Segments)

	w.kind.change(func() { clear(w.kind.broken) })
	again := w.run()
	w.fanOut()
	if n := w.waiting(gifts); n != 40-len(applied) {
		t.Errorf("the next run sent %d messages, want the %d that are missing", n, 40-len(applied))
	}
	w.work()
	w.over(again.ID, job.Completed, "", job.Counts{Applied: int64(40 - len(applied)), Already: int64(len(applied))})
	same(t, "points", w.balances(forty...), all(100, forty...))
}

// Messages that were lost are sent again to those who are not settled, and to nobody else.
func TestLostMessagesAreSentAgain(t *testing.T) {
	t.Parallel()
	ten := names(10)
	w := newWorld(t, ten...)
	j := w.open()
	w.fanOut()
	messages := w.take(gifts)
	w.deliver(w.worker(), messages[:6]...)
	w.later(reaper.Stalled)
	w.reap()
	if n := w.waiting(gifts); n != 0 {
		t.Errorf("%d messages were sent again while they may only be slow", n)
	}
	w.later(reaper.Margin + time.Second)
	w.reap()
	if n := w.waiting(gifts); n != 4 {
		t.Fatalf("%d messages were sent again, want the 4 that are not settled", n)
	}
	w.work()
	w.deliver(w.worker(), messages...) // those that were lost were only very late
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 10})
	same(t, "points", w.balances(ten...), all(100, ten...))
}

// A whole queue is lost, twice: every active job is found from its slot, and its unsettled subjects from its manifest.
func TestAWholeQueueMayBeLost(t *testing.T) {
	t.Parallel()
	thirty := names(30)
	w := newWorld(t, thirty...)
	w.kind.page = 2
	j := w.open()
	w.take(queue.Segments)
	w.later(reaper.Unsent + reaper.Margin + time.Second)
	w.reap()
	w.fanOut()
	if n := len(w.take(gifts)); n != 30 {
		t.Fatalf("%d messages", n)
	}
	w.later(quiet)
	w.reap()
	w.work()
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 30})
}

// Subjects that fail every time are sent again three times with doubling pauses and then settled as exhausted; the job completes with its failures, and a later run takes over.
func TestWhatNothingSettlesIsExhausted(t *testing.T) {
	t.Parallel()
	ten := names(10)
	w := newWorld(t, ten...)
	w.kind.transient["member-03"], w.kind.transient["member-07"] = true, true
	j := w.open()
	w.fanOut()
	w.work()
	var resends []time.Duration
	begin := w.clock()
	for w.find(j.ID).State == job.Running {
		if w.clock().Sub(begin) > 24*time.Hour {
			t.Fatal("no end")
		}
		w.later(time.Minute)
		before := w.find(j.ID).SubjectResends
		w.reap()
		w.work()
		if n := w.find(j.ID).SubjectResends; n > before && n <= reaper.MaxResends {
			resends = append(resends, w.clock().Sub(begin).Round(time.Minute))
		}
	}
	same(t, "sent again after", resends, []time.Duration{22 * time.Minute, 65 * time.Minute, 150 * time.Minute})
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 8, Failed: 2})
	if got := w.find(j.ID).SubjectResends; got != reaper.MaxResends+1 { // so that a run that did not get through would have gone on at the next
		t.Errorf("%d re-sends counted, want %d and the settling", got, reaper.MaxResends)
	}
	reasons, err := w.jobs.FailuresByReason(t.Context(), j.ID)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "reasons", reasons, map[string]int64{job.ReasonExhausted: 2})
	if len(w.dlq) == 0 {
		t.Error("nothing reached the DLQ")
	}

	// SQS-16: a redrive after the end grants nobody; it returns, since the run is the way.
	w.kind.change(func() { clear(w.kind.transient) })
	redrive := w.dlq
	w.dlq = nil
	w.deliver(w.worker(), redrive...)
	if got := w.balances("member-03", "member-07"); len(got) != 0 {
		t.Errorf("a redrive of a finished job granted %v", got)
	}
	w.sound()

	again := w.run()
	w.fanOut()
	w.take(gifts) // the late copies of the first job are in it too
	for _, s := range []string{"member-03", "member-07"} {
		w.Send(t.Context(), gifts, queue.Subject{Job: again.ID, Subject: s}.Encode())
	}
	w.work()
	w.over(again.ID, job.Completed, "", job.Counts{Applied: 2, Already: 8})
	same(t, "points", w.balances(ten...), all(100, ten...))
}

// A late message and the settlement as exhausted meet: whichever is first decides, and the other is refused by it.
func TestExhaustedMeetsALateMessage(t *testing.T) {
	t.Parallel()
	prepare := func(t *testing.T) (*world, job.Job, []message) {
		w := newWorld(t, names(4)...)
		j := w.open()
		w.fanOut()
		late := w.take(gifts)
		for n := range reaper.MaxResends {
			w.later(quiet << n)
			w.reap()
			if n := len(w.take(gifts)); n != 4 {
				t.Fatalf("%d sent again", n)
			}
		}
		w.later(quiet << reaper.MaxResends)
		return w, j, late
	}
	t.Run("the message is first", func(t *testing.T) {
		t.Parallel()
		w, j, late := prepare(t)
		// The worker comes between the reaper's look at the manifest and its settlement.
		once := false
		s := sim.Script(w.store, func(c sim.Call) (bool, error) {
			if !once && c.Op == sim.Transact && c.Touches("points/") {
				once = true
				w.deliver(w.worker(), late[:3]...)
			}
			return true, nil
		})
		if err := reaper.New(w.env(s), paused, w.kind).Handle(t.Context()); err != nil || !once {
			t.Fatal(once, err)
		}
		w.over(j.ID, job.Completed, "", job.Counts{Applied: 3, Failed: 1})
	})
	t.Run("the settlement is first", func(t *testing.T) {
		t.Parallel()
		w, j, late := prepare(t)
		// The reaper comes between the worker's look at the job and its write.
		once := false
		s := sim.Script(w.store, func(c sim.Call) (bool, error) {
			if !once && c.Op == sim.Transact {
				once = true
				w.reap()
			}
			return true, nil
		})
		w.deliver(newWorker(w, s), late...)
		if !once {
			t.Fatal("the worker wrote nothing")
		}
		w.over(j.ID, job.Completed, "", job.Counts{Failed: 4})
		if got := w.balances(names(4)...); len(got) != 0 {
			t.Errorf("granted after they failed: %v", got)
		}
		again := w.run()
		w.take(gifts)
		w.fanOut()
		w.work()
		w.over(again.ID, job.Completed, "", job.Counts{Applied: 4})
	})
	t.Run("another job applied meanwhile", func(t *testing.T) { // Recheck: a restored slot lets two jobs run; their entries agree
		t.Parallel()
		w, j, late := prepare(t)
		held, _, _ := w.jobs.Holder(t.Context(), j.Slot)
		key := slotKey(t, w, held)
		if err := w.store.Transact(t.Context(), store.Delete(key)); err != nil {
			t.Fatal(err)
		}
		other := w.run()
		w.fanOut()
		w.work()
		if now := w.find(other.ID); now.State != job.Completed || now.Applied != 4 {
			t.Fatalf("the other job is %s with %d", now.State, now.Applied)
		}
		if err := w.store.Transact(t.Context(), store.Insert(key, held)); err != nil {
			t.Fatal(err)
		}
		w.reap()
		w.deliver(w.worker(), late...)
		w.over(j.ID, job.Completed, "", job.Counts{Already: 4})
	})
}

// An ending half done is finished at once, whatever died and wherever.
func TestAnEndingHalfDoneIsFinishedAtOnce(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2, 20, 33} { // the mark, a shard, another, the last
		w := newWorld(t, names(5)...)
		j := w.open()
		w.fanOut()
		messages := w.take(gifts)
		w.deliver(w.worker(), messages[:2]...)
		ctx, die := context.WithCancel(t.Context())
		s := sim.Script(w.store, func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && c.N >= at {
				c.After(die)
				return c.N == at, sim.ErrKilled
			}
			return true, nil
		})
		if _, done, err := job.NewStore(s, w.clock).Cancel(ctx, j.ID); done || err == nil {
			t.Fatal(done, err)
		}
		if now := w.find(j.ID); now.State != job.Running || now.Ending != job.Cancelled {
			t.Fatalf("job is %s %s", now.State, now.Ending)
		}
		w.reap()
		w.over(j.ID, job.Cancelled, "", job.Counts{Applied: 2})
		w.deliver(w.worker(), messages[2:]...)
		w.over(j.ID, job.Cancelled, "", job.Counts{Applied: 2})
	}
}

// A worker that died between its last write and the close leaves a job that only needs to be closed.
func TestAJobThatNobodyClosedIsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(5)...)
	j := w.open()
	w.fanOut()
	s := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Touches("jobs/SLOTS#") {
			return false, sim.ErrKilled
		}
		return true, nil
	})
	w.deliver(newWorker(w, s), w.take(gifts)...)
	if now := w.find(j.ID); now.State != job.Running {
		t.Fatalf("job is %s", now.State)
	}
	w.reap()
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 5})
}

// Two reapers at once, also at the latest moment, do everything once.
func TestTwoReapersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(6)...)
	j := w.open()
	w.fanOut()
	w.take(gifts)
	both := func() {
		t.Helper()
		inner := false
		s := sim.Script(w.store, func(c sim.Call) (bool, error) {
			if !inner && c.Op == sim.Transact {
				inner = true
				w.reap()
			}
			return true, nil
		})
		if err := reaper.New(w.env(s), paused, w.kind).Handle(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for n := range reaper.MaxResends {
		w.later(quiet << n)
		both()
		if sent, now := len(w.take(gifts)), w.find(j.ID); sent != 6 || now.SubjectResends != n+1 {
			t.Errorf("%d messages sent again, counted %d; want 6 and %d", sent, now.SubjectResends, n+1)
		}
	}
	w.later(quiet << reaper.MaxResends)
	both()
	w.over(j.ID, job.Completed, "", job.Counts{Failed: 6})
}

// A slot whose job is gone, or over, comes from a restored table: it is freed, loudly. A job that ended while the slots were read is nothing to tell.
func TestASlotOfAJobThatIsGoneIsFreed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(2)...)
	j := w.open()
	held, _, err := w.jobs.Holder(t.Context(), j.Slot)
	if err != nil {
		t.Fatal(err)
	}
	w.fanOut()
	// It ends between the reaper's list and its look.
	s := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Op == sim.Get && w.waiting(gifts) > 0 {
			w.work()
		}
		return true, nil
	})
	if err := reaper.New(w.env(s), paused, w.kind).Handle(t.Context()); err != nil {
		t.Errorf("a job that ended meanwhile: %v", err)
	}
	if w.says("restored") {
		t.Error("the log speaks of a restored table")
	}
	key := slotKey(t, w, held)
	for _, id := range []string{j.ID, job.NewID("gift", april)} {
		if err := w.store.Transact(t.Context(), store.Insert(key, job.Slot{Slot: j.Slot, Job: id, At: april})); err != nil {
			t.Fatal(err)
		}
		w.reap()
		if _, ok, err := w.jobs.Holder(t.Context(), j.Slot); ok || err != nil {
			t.Errorf("still held: %v", err)
		}
	}
	if !w.says(`"level":"ERROR"`, "restored", j.ID) {
		t.Error("freeing a slot was not told")
	}
}

// JOB-12: one broken job does not stop the others, and the failure is told.
func TestOneBrokenJobDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kinds := []*gift{newGift("gift-a", "a"), newGift("gift-b", "b"), newGift("gift-c", "c")}
	var list []job.Kind
	var jobs []job.Job
	for _, k := range kinds {
		list = append(list, k)
		w.kind = k
		jobs = append(jobs, w.open())
	}
	w.take(queue.Segments)
	w.later(reaper.Unsent + reaper.Margin + time.Second)
	for name, hook := range map[string]sim.Hook{
		"an error": func(c sim.Call) (bool, error) {
			if c.Op == sim.Get && c.Touches("jobs/JOBS#gift-a#") {
				return false, sim.ErrNoAnswer
			}
			return true, nil
		},
		"a panic": func(c sim.Call) (bool, error) {
			if c.Op == sim.Get && c.Touches("jobs/JOBS#gift-a#") {
				panic("a test")
			}
			return true, nil
		},
	} {
		w.metrics = map[string][]float64{}
		err := reaper.New(w.env(sim.Script(w.store, hook)), paused, list...).Handle(t.Context())
		if err == nil || name == "an error" && !errors.Is(err, sim.ErrNoAnswer) {
			t.Errorf("%s: the failure was not told: %v", name, err)
		}
		if n := w.waiting(queue.Segments); n != 2*job.Segments {
			t.Errorf("%s: %d messages sent, want those of the other two", name, n)
		}
		for _, k := range kinds {
			same(t, name+": metric of "+string(k.name), w.metrics[string(k.name)+"/PeriodOverdue"], []float64{0})
		}
		w.take(queue.Segments)
		w.later(10 * reaper.Unsent)
	}
	// Without the fault the first one is healed too.
	if err := reaper.New(w.env(w.store), paused, list...).Handle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.find(jobs[0].ID).SegmentResends; n != 1 {
		t.Errorf("the broken one was sent again %d times", n)
	}
}

// With no time left the rest waits for the next run; the calendar is still watched.
func TestTheReaperStopsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	w.open()
	w.take(queue.Segments)
	w.later(time.Hour)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.reaper(paused).Handle(ctx); err == nil {
		t.Error("a run that did not look at every job reported success")
	}
	if n := w.waiting(queue.Segments); n != 0 {
		t.Errorf("%d messages sent", n)
	}
	same(t, "metric", w.metrics["gift/PeriodOverdue"], []float64{0})
}
