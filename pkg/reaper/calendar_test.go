package reaper_test

import (
	"encoding/json"
	"testing"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
)

// calendar is a watch that opens what was never fired.
func calendar(start once.Period) job.Calendar {
	return job.Calendar{Start: start, AutoOpen: true, Inputs: map[once.Kind]json.RawMessage{"gift": json.RawMessage(`{"amount":100}`)}}
}

// periods are those that were opened.
func (w *world) periods(t *testing.T, candidates ...once.Period) (out []once.Period) {
	t.Helper()
	for _, p := range candidates {
		if _, ok, err := w.jobs.FindPeriod(t.Context(), w.kind.name, p); err != nil {
			t.Fatal(err)
		} else if ok {
			out = append(out, p)
		}
	}
	return out
}

// run is one run of a reaper with a calendar; it returns the metric that it sent.
func (w *world) watch(t *testing.T, c job.Calendar) float64 {
	t.Helper()
	w.metrics = map[string][]float64{}
	if err := w.reaper(c).Handle(t.Context()); err != nil {
		t.Fatal(err)
	}
	sent := w.metrics["gift/PeriodOverdue"]
	if len(sent) != 1 {
		t.Fatalf("PeriodOverdue was sent %d times in a run, want once", len(sent))
	}
	return sent[0]
}

// A firing that never came left no record: the calendar opens its period after a grace, as the firing would have. TIM-02: it is that of its own month, whatever the clock says.
func TestAPeriodThatWasNeverFiredIsOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(3)...)
	w.later(reaper.Grace - time.Second)
	if w.watch(t, calendar("2024-04")); len(w.periods(t, "2024-04")) != 0 {
		t.Fatal("opened within the grace")
	}
	w.later(time.Second)
	w.watch(t, calendar("2024-04"))
	j := w.latest()
	if !j.Fired || j.RequestedBy != "scheduler" || j.Inputs != `{"amount":100}` || !j.Scheduled.Equal(april) || j.Period != "2024-04" {
		t.Errorf("opened %+v, want the job that the firing would have opened", j)
	}
	rec, _, _ := w.jobs.FindPeriod(t.Context(), "gift", "2024-04")
	if rec.ScheduledJob != j.ID {
		t.Errorf("scheduled job is %q, want %s", rec.ScheduledJob, j.ID)
	}
	if n := w.waiting(queue.Segments); n != job.Segments {
		t.Errorf("%d messages, want %d", n, job.Segments)
	}
	w.watch(t, calendar("2024-04")) // again: it is open
	// The firing comes at last: it finds its job.
	if err := dispatch.NewDispatcher(w.env(w.store), w.kind).Handle(t.Context(), w.event(100)); err != nil {
		t.Fatal(err)
	}
	if now := w.latest(); now.ID != j.ID {
		t.Errorf("a late firing opened %s", now.ID)
	}
	w.fanOut()
	w.work()
	w.over(j.ID, job.Completed, "", job.Counts{Applied: 3})
}

// Pausing is the schedule disabled and AutoOpen off: nothing is opened, and that is told.
func TestAutoOpenOffOpensNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(3)...)
	w.later(reaper.Grace + time.Hour)
	c := calendar("2024-04")
	c.AutoOpen = false
	if got := w.watch(t, c); got != 0 {
		t.Errorf("overdue %v, want 0 before the deadline", got)
	}
	if got := w.periods(t, "2024-04"); len(got) != 0 {
		t.Errorf("opened %v", got)
	}
	if !w.says(`"level":"WARN"`, "never fired", "2024-04") {
		t.Error("the log does not say that the period was never fired")
	}
	w.later(24 * time.Hour)
	if got := w.watch(t, c); got != 1 {
		t.Errorf("overdue %v, want 1: a pause that is forgotten is seen", got)
	}
}

// Earlier periods than CalendarStart do not exist, and only the last three are looked at.
func TestTheCalendarBeginsAndLooksBackThree(t *testing.T) {
	t.Parallel()
	candidates := []once.Period{"2023-12", "2024-01", "2024-02", "2024-03", "2024-04", "2024-05"}
	for _, tt := range []struct {
		start once.Period
		want  []once.Period
	}{
		{"2024-05", nil}, // the next one to come
		{"2024-04", []once.Period{"2024-04"}},
		{"2024-03", []once.Period{"2024-03", "2024-04"}},
		{"2023-01", []once.Period{"2024-02", "2024-03", "2024-04"}},
	} {
		t.Run(string(tt.start), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "a")
			w.later(reaper.Grace)
			got := w.watch(t, calendar(tt.start))
			same(t, "periods opened", w.periods(t, candidates...), tt.want)
			if want := float64(max(0, len(tt.want)-1)); got != want { // April is not due to be closed yet
				t.Errorf("overdue %v, want %v", got, want)
			}
		})
	}
}

// The metric is sent in every run: 1 while a period is not closed a day after its time, 0 when all is well. What closes the period ends the alarm.
func TestAnOverduePeriodIsReportedEveryMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(3)...)
	w.kind.permanent["member-01"] = true
	w.open()
	w.fanOut()
	w.work()
	w.over(w.latest().ID, job.Completed, "", job.Counts{Applied: 2, Failed: 1})
	c := calendar("2024-04")
	w.later(24 * time.Hour)
	if got := w.watch(t, c); got != 0 {
		t.Errorf("at the deadline: %v, want 0", got)
	}
	w.later(time.Second)
	for range 3 {
		if got := w.watch(t, c); got != 1 {
			t.Errorf("after the deadline: %v, want 1", got)
		}
		w.later(time.Minute)
	}
	if !w.says(`"level":"ERROR"`, "period overdue", "2024-04", "hanbeon run gift --period 2024-04") {
		t.Error("the log does not say which run to start")
	}
	w.kind.change(func() { clear(w.kind.permanent) })
	again := w.run()
	w.fanOut()
	w.work()
	w.over(again.ID, job.Completed, "", job.Counts{Applied: 1, Already: 2})
	for range 2 {
		if got := w.watch(t, c); got != 0 {
			t.Errorf("after it was closed: %v, want 0", got)
		}
	}
	same(t, "points", w.balances(names(3)...), all(100, names(3)...))
}

// A period that somebody opened is left to whoever did, however it ended: opening it again is an operator's decision.
func TestAPeriodThatWasOpenedIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names(3)...)
	j := w.run()
	if _, done, err := w.jobs.Cancel(t.Context(), j.ID); !done || err != nil {
		t.Fatal(done, err)
	}
	w.later(48 * time.Hour)
	if got := w.watch(t, calendar("2024-04")); got != 1 {
		t.Errorf("overdue %v, want 1", got)
	}
	if now := w.latest(); now.ID != j.ID {
		t.Errorf("the reaper opened %s", now.ID)
	}
}

// JOB-12: one period that cannot be opened, or read, stops neither the other periods nor the metric.
func TestOneBrokenPeriodDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	w.later(reaper.Grace)
	s := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Touches("jobs/PERIODS#gift/2024-03") {
			return false, sim.ErrNoAnswer
		}
		return true, nil
	})
	if err := reaper.New(w.env(s), calendar("2024-02"), w.kind).Handle(t.Context()); err == nil {
		t.Error("the failure was not told")
	}
	same(t, "periods opened", w.periods(t, "2024-02", "2024-03", "2024-04"), []once.Period{"2024-02", "2024-04"})
	same(t, "metric", w.metrics["gift/PeriodOverdue"], []float64{1})

	// No input to open it with: a mistake of the configuration is told in every run.
	c := calendar("2024-03")
	c.Inputs = nil
	if err := w.reaper(c).Handle(t.Context()); err == nil {
		t.Error("a watch without an input reported success")
	}
	// A wrong one too.
	c.Inputs = map[once.Kind]json.RawMessage{"gift": json.RawMessage(`{"amount":0}`)}
	if err := w.reaper(c).Handle(t.Context()); err == nil {
		t.Error("a watch with a wrong input reported success")
	}
	same(t, "periods opened", w.periods(t, "2024-03"), []once.Period(nil))
}

// At the start of a process whose queue is its memory everything unsettled is sent at once, uncounted; what only needs to be closed or finished is.
func TestRecoverSendsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	ten := names(10)
	stages := map[string]struct {
		prepare func(w *world, j job.Job)
		want    job.Counts
		state   job.State
	}{
		"opened": {func(*world, job.Job) {}, job.Counts{Applied: 10}, job.Completed},
		"half fanned out": {func(w *world, _ job.Job) {
			for _, m := range w.take(queue.Segments)[:7] {
				w.deliver(w.fanout(), m)
			}
		}, job.Counts{Applied: 10}, job.Completed},
		"fanned out": {func(w *world, _ job.Job) { w.fanOut() }, job.Counts{Applied: 10}, job.Completed},
		"half applied": {func(w *world, _ job.Job) {
			w.fanOut()
			w.deliver(w.worker(), w.take(gifts)[:5]...)
		}, job.Counts{Applied: 10}, job.Completed},
		"applied and not closed": {func(w *world, _ job.Job) {
			w.fanOut()
			s := sim.Script(w.store, func(c sim.Call) (bool, error) {
				if c.Touches("jobs/SLOTS#") {
					return false, sim.ErrKilled
				}
				return true, nil
			})
			w.deliver(newWorker(w, s), w.take(gifts)...)
		}, job.Counts{Applied: 10}, job.Completed},
		"cancelled by half": {func(w *world, j job.Job) {
			s := sim.Script(w.store, func(c sim.Call) (bool, error) {
				if c.Op == sim.Transact {
					return c.N == 1, sim.ErrKilled
				}
				return true, nil
			})
			job.NewStore(s, w.clock).Cancel(t.Context(), j.ID)
		}, job.Counts{}, job.Cancelled},
	}
	for name, tt := range stages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, ten...)
			j := w.open()
			tt.prepare(w, j)
			w.take(queue.Segments) // kill -9
			w.take(gifts)
			if err := w.reaper(paused).Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if now := w.find(j.ID); now.SegmentResends+now.SubjectResends != 0 {
				t.Errorf("counted %d and %d re-sends", now.SegmentResends, now.SubjectResends)
			}
			w.fanOut()
			w.work()
			w.over(j.ID, tt.state, "", tt.want)
			if tt.state == job.Completed {
				same(t, "points", w.balances(ten...), all(100, ten...))
			}
			if err := w.reaper(paused).Recover(t.Context()); err != nil { // nothing is active
				t.Error(err)
			}
			if n := w.waiting(queue.Segments) + w.waiting(gifts); n != 0 {
				t.Errorf("%d messages for jobs that are over", n)
			}
		})
	}
}
