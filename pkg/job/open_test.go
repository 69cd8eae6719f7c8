package job_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

func TestOpenMakesAJobAndAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.firing()
	j, opened, err := w.jobs.Open(t.Context(), r)
	if err != nil || !opened {
		t.Fatal(opened, err)
	}
	want := job.Job{
		ID: r.ID, Kind: kind, Slot: slot, Scope: "2024-04", Period: april, Scheduled: r.Scheduled, Inputs: inputs, RequestedBy: "scheduler", Fired: true,
		State: job.Pending, Segments: job.Segments, Shards: job.Shards, CreatedAt: w.now, Expires: w.now.Add(job.Retention).Unix(),
	}
	same(t, "job", j, want)
	same(t, "job as stored", w.find(t, r.ID), want)
	same(t, "period", w.period(t), job.Period{Inputs: inputs, ScheduledJob: r.ID, LastJob: r.ID})
	same(t, "slot", w.holder(t), r.ID)
	same(t, "tally", w.tally(t, j), job.Tally{Open: job.Shards, TouchedAt: w.now})
	segments, err := w.jobs.SegmentsOf(t.Context(), j)
	if err != nil || len(segments) != job.Segments {
		t.Fatal(len(segments), err)
	}
	for n, s := range segments {
		same(t, fmt.Sprintf("segment %d", n), s, job.Segment{TouchedAt: w.now, Expires: want.Expires})
	}
	// Whatever belongs to a job expires with it; a period never does.
	for key, attrs := range w.table(t) {
		_, has := attrs["expires"]
		if want := key != job.PeriodKey(kind, april).String() && key != job.SlotKey(slot).String(); has != want {
			t.Errorf("%s has expires: %v, want %v", key, has, want)
		}
	}
}

// What Open answers, row by row. before prepares the world and may change the request; the result is checked against the table.
func TestOpen(t *testing.T) {
	t.Parallel()
	complete := func(t *testing.T, w *world, id string) {
		j, err := w.jobs.Start(t.Context(), w.find(t, id))
		if err != nil {
			t.Fatal(err)
		}
		w.list(t, j)
		if closed, err := w.jobs.Close(t.Context(), j.ID); !closed || err != nil {
			t.Fatal(closed, err)
		}
	}
	fire := func(t *testing.T, w *world) job.Job {
		j, opened, err := w.jobs.Open(t.Context(), w.firing())
		if err != nil || !opened {
			t.Fatal(opened, err)
		}
		return j
	}
	const other = `{"amount":250}`
	for _, tt := range []struct {
		name   string
		fired  bool
		before func(*testing.T, *world, *job.Request) (first job.Job)
		opened bool
		first  bool             // the job that is answered, or named by the error, is the first one and nothing is written
		err    func(error) bool // nil: none
	}{
		{name: "a firing opens", fired: true, opened: true},
		{name: "an operator opens", opened: true},
		{name: "a firing that comes twice finds its job", fired: true, first: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job { return fire(t, w) }},
		{name: "a firing a day later finds its job", fired: true, first: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			complete(t, w, j.ID)
			w.later(24 * time.Hour)
			return j
		}},
		{name: "a firing finds its job that was cancelled, and leaves it so", fired: true, first: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			w.cancel(t, j.ID)
			return j
		}},
		{name: "a firing after its job expired does nothing", fired: true, first: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			complete(t, w, j.ID)
			key, _ := job.KeyOf(j.ID)
			w.transact(t, store.Delete(key))
			return j
		}},
		{name: "a firing while an operator's job is active does nothing", fired: true, first: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job { return w.open(t) }},
		{name: "a firing after an operator's job is over opens", fired: true, opened: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := w.open(t)
			complete(t, w, j.ID)
			return j
		}},
		{
			name: "a firing with another amount than its job", fired: true, first: true, err: is[*job.InputsError],
			before: func(t *testing.T, w *world, r *job.Request) job.Job {
				r.Inputs = other
				return fire(t, w)
			},
		},
		{
			name: "a firing with another amount than the period, and no scheduled job", fired: true, first: true, err: is[*job.InputsError],
			before: func(t *testing.T, w *world, r *job.Request) job.Job {
				r.Inputs = other
				return w.open(t)
			},
		},
		{
			name: "a firing may not change the amount, even where it says so", fired: true, first: true, err: is[*job.InputsError],
			before: func(t *testing.T, w *world, r *job.Request) job.Job {
				r.Inputs, r.ChangeInputs = other, true
				return w.open(t)
			},
		},
		{name: "an operator while a job is active", first: true, err: is[*job.ActiveError], before: func(t *testing.T, w *world, _ *job.Request) job.Job { return fire(t, w) }},
		{name: "an operator while a job is running", first: true, err: is[*job.ActiveError], before: func(t *testing.T, w *world, _ *job.Request) job.Job { return w.start(t) }},
		{name: "an operator after the job completed", opened: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			complete(t, w, j.ID)
			return j
		}},
		{name: "an operator after the job was cancelled", opened: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			w.cancel(t, j.ID)
			return j
		}},
		{name: "an operator after the job failed", opened: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := fire(t, w)
			if _, done, err := w.jobs.Fail(t.Context(), j, job.ReasonNeverStarted); !done || err != nil {
				t.Fatal(done, err)
			}
			return j
		}},
		{name: "an operator after the job expired", opened: true, before: func(t *testing.T, w *world, _ *job.Request) job.Job {
			j := w.open(t)
			w.cancel(t, j.ID)
			key, _ := job.KeyOf(j.ID)
			w.transact(t, store.Delete(key))
			return j
		}},
		{
			name: "an operator with another amount", first: true, err: is[*job.InputsError],
			before: func(t *testing.T, w *world, r *job.Request) job.Job {
				r.Inputs = other
				j := fire(t, w)
				complete(t, w, j.ID)
				return j
			},
		},
		{name: "an operator with another amount who says so", opened: true, before: func(t *testing.T, w *world, r *job.Request) job.Job {
			r.Inputs, r.ChangeInputs = other, true
			j := fire(t, w)
			complete(t, w, j.ID)
			return j
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.request()
			if r.Fired = tt.fired; r.Fired {
				r.RequestedBy = "scheduler"
			}
			var first job.Job
			var had job.Period
			if tt.before != nil {
				first = tt.before(t, w, &r)
				had = w.period(t)
			}
			before := w.table(t)
			j, opened, err := w.jobs.Open(t.Context(), r)
			if opened != tt.opened || (err == nil) != (tt.err == nil) || err != nil && !tt.err(err) {
				t.Fatalf("got opened %v, error %v", opened, err)
			}
			if tt.first {
				same(t, "the table", w.table(t), before)
				if active := new(job.ActiveError); errors.As(err, &active) {
					j = active.Job
				}
				if j.ID != first.ID && !is[*job.InputsError](err) {
					t.Errorf("answered with job %q, want %s", j.ID, first.ID)
				}
				return
			}
			want := job.Period{Inputs: r.Inputs, ScheduledJob: had.ScheduledJob, LastJob: r.ID, ClosedBy: had.ClosedBy}
			if r.Fired {
				want.ScheduledJob = r.ID
			}
			same(t, "period", w.period(t), want)
			same(t, "slot", w.holder(t), r.ID)
			if stored := w.find(t, r.ID); stored.Rerun != (had.LastJob != "") || stored.Inputs != r.Inputs || stored.State != job.Pending {
				t.Errorf("job %+v, want PENDING, a re-run: %v, inputs %s", stored, had.LastJob != "", r.Inputs)
			}
		})
	}
}

// A kind without periods cannot know what was done before: its jobs always look entries up, and no period is written.
func TestAJobWithoutAPeriodIsARerun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := job.Request{Opening: job.Opening{Kind: "keyword-map", Slot: "keyword-map:all", Scope: "d@3", Inputs: "{}"}, ID: job.NewID("keyword-map", w.clock())}
	j, opened, err := w.jobs.Open(t.Context(), r)
	if err != nil || !opened || !j.Rerun {
		t.Errorf("got %v, %v, a re-run: %v", opened, err, j.Rerun)
	}
	if _, ok, err := w.jobs.FindPeriod(t.Context(), "keyword-map", "2024-04"); ok || err != nil {
		t.Errorf("a period was written: %v, %v", ok, err)
	}
}

// TXN-10: an opening whose answer was lost is recognised by its id, whatever the job has become since, and opens nothing else.
func TestOpenRecognisesItsOwnEarlierTry(t *testing.T) {
	t.Parallel()
	for _, fired := range []bool{true, false} {
		for _, between := range []string{"nothing", "cancelled", "cancelled, and another holds the slot"} {
			t.Run(fmt.Sprintf("fired %v, %s", fired, between), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				r := w.request()
				r.Fired = fired
				if _, _, err := w.through(onTransact(1, lost)).Open(t.Context(), r); !errors.Is(err, sim.ErrNoAnswer) {
					t.Fatalf("got %v, want the unknown error as it is", err)
				}
				if between != "nothing" {
					w.cancel(t, r.ID)
				}
				if between == "cancelled, and another holds the slot" {
					w.open(t)
				}
				w.unchanged(t, "the second try", func() {
					j, opened, err := w.jobs.Open(t.Context(), r)
					if err != nil || !opened || j.ID != r.ID {
						t.Errorf("got job %q, opened %v, %v; want our own job", j.ID, opened, err)
					}
				})
			})
		}
	}
}

// DSP-10, DSP-11: the same firing three times at once opens one job, and the others find it.
func TestThreeFiringsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	opened, ids := 0, map[string]bool{}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			j, o, err := w.jobs.Open(t.Context(), w.firing())
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[j.ID] = true
			if o {
				opened++
			}
		})
	}
	wg.Wait()
	if opened != 1 || len(ids) != 1 {
		t.Errorf("%d opened, jobs %v, want one", opened, ids)
	}
}

// JOB-01: of twenty at once one wins, the others are told its id; there is one job.
func TestTwentyAtOnceOpenOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var mu sync.Mutex
	var winners, holders []string
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			j, opened, err := w.jobs.Open(t.Context(), w.request())
			mu.Lock()
			defer mu.Unlock()
			active := new(job.ActiveError)
			switch {
			case err == nil && opened:
				winners = append(winners, j.ID)
			case errors.As(err, &active):
				holders = append(holders, active.Job.ID)
			default:
				t.Errorf("opened %v, %v", opened, err)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 || len(holders) != 19 {
		t.Fatalf("%d winners, %d told of a holder; want 1 and 19", len(winners), len(holders))
	}
	for _, h := range holders {
		if h != winners[0] {
			t.Errorf("told that %s holds the slot, want %s", h, winners[0])
		}
	}
	jobs, _, err := w.jobs.List(t.Context(), kind, w.now, 0, "")
	if err != nil || len(jobs) != 1 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// The holder that was in the way may be gone when it is read: the opening starts over, three times at most.
func TestOpenTriesAgainWhenTheHolderIsGoneOnReading(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		times int
		want  bool
	}{{1, true}, {2, true}, {3, false}} {
		w := newWorld(t)
		gone := 0
		jobs := w.through(func(c sim.Call) (bool, error) {
			if c.Op == sim.Transact && gone < tt.times {
				gone++
				id := w.open(t).ID
				c.After(func() { w.cancel(t, id) }) // refused by the slot, and free when the holder is looked at
			}
			return true, nil
		})
		r := w.request()
		j, opened, err := jobs.Open(t.Context(), r)
		if tt.want && (err != nil || !opened || j.ID != r.ID) {
			t.Errorf("gone %d times: got %v, %v; want it to open", tt.times, opened, err)
		}
		if !tt.want && !is[*store.Busy](err) {
			t.Errorf("gone %d times: got %v, %v; want *store.Busy", tt.times, opened, err)
		}
	}
}

// The period is written as it was read: whatever was done to it in between is seen, and kept.
func TestOpenSeesWhatHappenedToThePeriodInBetween(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		for _, fired := range []bool{false, true} {
			w := newWorld(t)
			if known {
				w.cancel(t, w.open(t).ID)
			}
			var between job.Job
			jobs := w.through(onTransact(1, func(sim.Call) (bool, error) {
				j, opened, err := w.jobs.Open(t.Context(), w.firing())
				if !opened || err != nil {
					t.Fatal(opened, err)
				}
				w.cancel(t, j.ID)
				between = j
				return true, nil
			}))
			r := w.request()
			r.Fired = fired
			j, opened, err := jobs.Open(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if fired { // the other firing was first, for ever
				if opened || j.ID != between.ID {
					t.Errorf("a second firing opened %v job %s, want to find %s", opened, j.ID, between.ID)
				}
				continue
			}
			if !opened || !w.find(t, j.ID).Rerun {
				t.Errorf("opened %v, a re-run %v; want both", opened, j.Rerun)
			}
			same(t, "period", w.period(t), job.Period{Inputs: inputs, ScheduledJob: between.ID, LastJob: j.ID})
		}
	}
}

func TestOpenHandsOnWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	busy := &store.Busy{Reason: "a test"}
	for _, want := range []error{sim.ErrNoAnswer, busy} {
		jobs := w.through(func(c sim.Call) (bool, error) { return c.Op != sim.Transact, pick(c.Op == sim.Transact, want) })
		if _, opened, err := jobs.Open(t.Context(), w.request()); opened || !errors.Is(err, want) {
			t.Errorf("got %v, %v; want %v", opened, err, want)
		}
		jobs = w.through(func(c sim.Call) (bool, error) { return c.Op != sim.Get, pick(c.Op == sim.Get, want) })
		if _, opened, err := jobs.Open(t.Context(), w.request()); opened || !errors.Is(err, want) {
			t.Errorf("got %v, %v; want %v", opened, err, want)
		}
	}
	if n := len(w.table(t)); n > 0 {
		t.Errorf("%d items were written", n)
	}
	r := w.request()
	r.ID = string(once.Kind("monthly-point")) + "-no-ulid"
	if _, _, err := w.jobs.Open(t.Context(), r); !errors.Is(err, job.ErrNoSuchJob) {
		t.Errorf("a malformed id: got %v", err)
	}
}

func pick(yes bool, err error) error {
	if yes {
		return err
	}
	return nil
}
