package job_test

import (
	"errors"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// closes is a hook that closes a job right before the first transaction of whoever read it as RUNNING.
func (w *world) closes(t *testing.T, id string) sim.Hook {
	return onTransact(1, func(sim.Call) (bool, error) {
		if closed, err := w.jobs.Close(t.Context(), id); !closed || err != nil {
			t.Error(closed, err)
		}
		return true, nil
	})
}

// A cancel that read the job before it was closed is refused by its state, and leaves no mark on a job that is over.
func TestACancelOvertakenByTheClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	if _, done, err := w.through(w.closes(t, j.ID)).Cancel(t.Context(), j.ID); done || !errors.Is(err, job.ErrOver) {
		t.Errorf("got %v, %v, want ErrOver", done, err)
	}
	if now := w.find(t, j.ID); now.State != job.Completed || now.Ending != "" {
		t.Errorf("job is %s with the mark %q", now.State, now.Ending)
	}
}

// An opening that read the period before the job in hand closed it keeps it closed.
func TestAnOpeningOvertakenByTheClose(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.settle(t, j, "", "a")
	second, opened, err := w.through(w.closes(t, j.ID)).Open(t.Context(), w.request())
	if !opened || err != nil {
		t.Fatal(opened, err)
	}
	same(t, "period", w.period(t), job.Period{Inputs: inputs, LastJob: second.ID, ClosedBy: j.ID})
}

// A holder whose item is gone when it is looked at held the slot for the last time: the opening tries again.
func TestAnOpeningWhoseHolderIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.open(t)
	key := store.Key{Table: job.Table, PK: "JOBS#" + string(kind) + "#" + first.CreatedAt.Format("2006-01"), SK: first.ID}
	slow := w.through(onTransact(1, func(c sim.Call) (bool, error) {
		c.After(func() { // refused by the slot
			w.cancel(t, first.ID)
			w.transact(t, store.Delete(key))
		})
		return true, nil
	}))
	r := w.request()
	j, opened, err := slow.Open(t.Context(), r)
	if !opened || err != nil || j.ID != r.ID {
		t.Errorf("got %v, %v, want it to open", opened, err)
	}
	if got := w.holder(t); got != r.ID {
		t.Errorf("the slot is held by %q", got)
	}
}

// A job that somebody is cancelling does not turn into a failed one, although it stands otherwise as the caller read it.
func TestAFailureOvertakenByTheMarkOfACancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := w.start(t)
	if _, _, err := w.through(onTransact(1, lost)).Cancel(t.Context(), seen.ID); !errors.Is(err, sim.ErrNoAnswer) {
		t.Fatal(err)
	}
	w.unchanged(t, "the failure of a job with a mark", func() {
		if _, done, err := w.jobs.Fail(t.Context(), seen, job.ReasonFanOut); done || err != nil {
			t.Errorf("got %v, %v, want nothing", done, err)
		}
	})
	w.cancel(t, seen.ID)
	w.ended(t, seen.ID, job.Cancelled, "")
}

// A re-send is counted only on a job that stands as the reaper saw it.
func TestAResendOfAJobThatIsEndingOrOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, id string){
		"ending": func(w *world, id string) { w.through(onTransact(1, lost)).Cancel(t.Context(), id) },
		"over":   func(w *world, id string) { w.cancel(t, id) },
	} {
		w := newWorld(t)
		seen := w.start(t)
		end(w, seen.ID)
		for _, what := range []job.Resent{job.ResentSegments, job.ResentSubjects} {
			w.unchanged(t, name, func() {
				if counted, err := w.jobs.CountResend(t.Context(), seen, what); counted || err != nil {
					t.Errorf("%s: counted %v, %v", name, counted, err)
				}
			})
		}
	}
	w := newWorld(t) // RUNNING meanwhile: the segments of a PENDING job were not lost
	seen := w.open(t)
	if _, err := w.jobs.Start(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if counted, err := w.jobs.CountResend(t.Context(), seen, job.ResentSegments); counted || err != nil {
		t.Errorf("started: counted %v, %v", counted, err)
	}
}

// What a worker counts shows that the job moves: otherwise the reaper would send a long job again, and in the end settle its subjects as exhausted, while its workers are well.
func TestACountMovesTheTally(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.list(t, w.start(t), "a")
	w.later(time.Hour)
	w.settle(t, j, "", "a")
	if got, want := w.tally(t, j).TouchedAt, w.clock(); !got.Equal(want) {
		t.Errorf("touched at %s, want %s", got, want)
	}
}

// A write that can never be accepted is an error wherever it occurs. It does not say that a shard is closed, that a job has moved or that somebody else was faster, and nobody
// goes on as if it did, or tries it for ever.
func TestWhatIsNeverAcceptedIsNoAnswer(t *testing.T) {
	t.Parallel()
	page := job.Page{Subjects: []string{"a"}, LeftOut: 1, Next: "a"}
	for _, tt := range []struct {
		name  string
		from  int // the first transaction that is refused
		index int
		call  func(jobs *job.Store, j job.Job) (done bool, err error)
	}{
		{"advance, the segment", 1, 0, func(jobs *job.Store, j job.Job) (bool, error) {
			return jobs.Advance(t.Context(), j, 0, job.Segment{}, page, 7)
		}},
		{"advance, the shard", 1, 1, func(jobs *job.Store, j job.Job) (bool, error) {
			return jobs.Advance(t.Context(), j, 0, job.Segment{}, page, 7)
		}},
		{"the mark of a cancel", 1, 0, func(jobs *job.Store, j job.Job) (bool, error) {
			_, done, err := jobs.Cancel(t.Context(), j.ID)
			return done, err
		}},
		{"the mark of a failure", 1, 0, func(jobs *job.Store, j job.Job) (bool, error) {
			_, done, err := jobs.Fail(t.Context(), j, job.ReasonFanOut)
			return done, err
		}},
		{"the shards of a cancel", 2, 0, func(jobs *job.Store, j job.Job) (bool, error) {
			_, done, err := jobs.Cancel(t.Context(), j.ID)
			return done, err
		}},
		{"the end of a cancel", 2 + job.Shards, 0, func(jobs *job.Store, j job.Job) (bool, error) {
			_, done, err := jobs.Cancel(t.Context(), j.ID)
			return done, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.start(t)
			never := &store.Refused{By: []store.Refusal{{Index: tt.index, Invalid: "a number added to a text"}}}
			tries := 0
			jobs := w.through(func(c sim.Call) (bool, error) {
				if c.Op != sim.Transact || c.N < tt.from {
					return true, nil
				}
				if tries++; tries > 1 {
					return false, errors.New("tried again")
				}
				return false, never
			})
			if done, err := tt.call(jobs, j); done || !errors.Is(err, never) {
				t.Errorf("got %v, %v, want the refusal", done, err)
			}
			if now := w.find(t, j.ID); now.State != job.Running || w.holder(t) != j.ID {
				t.Errorf("job is %s, the slot is held by %q", now.State, w.holder(t))
			}
		})
	}
	w := newWorld(t)
	j := w.open(t)
	never := &store.Refused{By: []store.Refusal{{Invalid: "too large"}}}
	if _, err := w.through(onTransact(1, func(sim.Call) (bool, error) { return false, never })).Start(t.Context(), j); !errors.Is(err, never) {
		t.Errorf("start: got %v, want the refusal", err)
	}
}
