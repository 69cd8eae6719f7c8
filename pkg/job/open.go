package job

import (
	"context"
	"errors"
	"fmt"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Period is what is known of a period of a scheduled kind, for ever. It exists from the first opening on; "" is unset.
type Period struct {
	Inputs       string `json:"inputs"`       // of the opening that was last allowed to choose them
	ScheduledJob string `json:"scheduledJob"` // the one job opened by a firing (or by the calendar in its place)
	LastJob      string `json:"lastJob"`      // the last job over all subjects
	ClosedBy     string `json:"closedBy"`     // the job that completed it without a failure
}

// conds are the conditions that the period still stands as it was read.
func (p Period) conds() []store.Cond {
	return []store.Cond{
		store.Equals("inputs", p.Inputs), store.Equals("scheduledJob", p.ScheduledJob),
		store.Equals("lastJob", p.LastJob), store.Equals("closedBy", p.ClosedBy),
	}
}

// FindPeriod reads a period; ok is false where no job of it was ever opened.
func (s *Store) FindPeriod(ctx context.Context, kind once.Kind, p once.Period) (rec Period, ok bool, err error) {
	items, err := s.store.Get(ctx, periodKey(kind, p))
	if err != nil || !items[0].Exists() {
		return Period{}, false, err
	}
	err = items[0].Decode(&rec)
	return rec, err == nil, err
}

// Periods calls f for every period of a kind that was ever opened, in order of time.
func (s *Store) Periods(ctx context.Context, kind once.Kind, f func(once.Period, Period) error) error {
	return s.each(ctx, periodKey(kind, "").PK, "", func(it store.Item) error {
		var rec Period
		if err := it.Decode(&rec); err != nil {
			return err
		}
		return f(once.Period(it.Key.SK), rec)
	})
}

// Request is an opening and who asks for it.
type Request struct {
	Opening
	ID           string // from NewID, chosen before the first try
	RequestedBy  string
	Fired        bool // by the Scheduler, or by the calendar in its place
	ChangeInputs bool // an operator may open a period with other inputs than before only by saying so

	Idempotency *Idempotency // nil: every request is a new one
}

// ActiveError says that the slot is held.
type ActiveError struct{ Job Job }

func (e *ActiveError) Error() string {
	return fmt.Sprintf("slot %s is held by job %s, which is %s", e.Job.Slot, e.Job.ID, e.Job.State)
}

// InputsError says that the period was opened with other inputs before. Nothing was written.
type InputsError struct {
	Period      once.Period
	Was, Wanted string
}

func (e *InputsError) Error() string {
	return fmt.Sprintf("period %s was opened with inputs %s before, now %s: ask an operator to run it with the change allowed, or correct the schedule", e.Period, e.Was, e.Wanted)
}

// openTries is how often Open starts over when what it read changed under it.
const openTries = 3

// Open opens a job in one transaction: the period as it was read, the slot, the job (PENDING), its segments and its tally shards unless it is a single job, the record of the
// request, and the kind's own writes.
//
// opened is false when the request was answered before (Idempotency), when a firing found that it had been here before, or when it found that a job over all subjects holds the slot: that job
// is returned and nothing was written. If it is PENDING its messages may never have been sent; sending them again is harmless. Errors: *ActiveError, *InputsError,
// *ReusedError, *store.Busy; after any other error the same call (same ID) again is safe and recognises its own earlier try.
func (s *Store) Open(ctx context.Context, r Request) (j Job, opened bool, err error) {
	for range openTries {
		j, opened, err = s.open(ctx, r)
		if !errors.Is(err, errMoved) {
			return j, opened, err
		}
	}
	return Job{}, false, &store.Busy{Reason: fmt.Sprintf("period %s or slot %s changed %d times while it was being opened", r.Period, r.Slot, openTries)}
}

var errMoved = errors.New("what was read has changed")

func (s *Store) open(ctx context.Context, r Request) (Job, bool, error) {
	j := s.newJob(r)
	key, err := keyOf(r.ID)
	if err != nil {
		return Job{}, false, err
	}
	writes := []store.Write{store.Insert(slotKey(r.Slot), Slot{r.Slot, j.ID, j.CreatedAt})} // the slot first: openRefused looks for it
	if r.Idempotency != nil {
		rec, ok, err := s.findRequest(ctx, r.Idempotency)
		if err != nil {
			return Job{}, false, err
		}
		if ok && rec.Expires > j.CreatedAt.Unix() {
			return s.answered(ctx, r, rec)
		}
		writes = append(writes, s.record(r, rec, ok))
	}
	if r.Period != "" {
		rec, known, err := s.FindPeriod(ctx, r.Kind, r.Period)
		if err != nil {
			return Job{}, false, err
		}
		if r.Fired && rec.ScheduledJob != "" {
			first, err := s.Find(ctx, rec.ScheduledJob)
			if errors.Is(err, ErrNoSuchJob) { // expired: it was over long ago
				return Job{ID: rec.ScheduledJob, Kind: r.Kind}, false, nil
			}
			if err == nil && first.Inputs != r.Inputs {
				err = &InputsError{r.Period, first.Inputs, r.Inputs}
			}
			return first, first.ID == r.ID && err == nil, err
		}
		if known && rec.Inputs != r.Inputs && (r.Fired || !r.ChangeInputs) {
			return Job{}, false, &InputsError{r.Period, rec.Inputs, r.Inputs}
		}
		j.Rerun = rec.LastJob != ""
		writes = append(writes, s.openPeriod(r, rec, known))
	}
	writes = append(writes, store.Insert(key, j))
	for n := range j.Segments {
		writes = append(writes, store.Insert(segmentKey(j.ID, n), Segment{TouchedAt: j.CreatedAt, Expires: j.Expires}))
	}
	for n := range j.Shards {
		writes = append(writes, store.Insert(shardKey(j.ID, n), Shard{Open: true, TouchedAt: j.CreatedAt, Expires: j.Expires}))
	}
	switch err := s.store.Transact(ctx, append(writes, r.With...)...); {
	case err == nil:
		return j, true, nil
	case !isRefused(err):
		return Job{}, false, err
	default:
		return s.openRefused(ctx, r, err)
	}
}

// newJob is the job of a request as it is inserted.
func (s *Store) newJob(r Request) Job {
	now := s.now()
	j := Job{
		ID: r.ID, Kind: r.Kind, Slot: r.Slot, Scope: r.Scope, Period: r.Period, Scheduled: r.Scheduled, Inputs: r.Inputs, RequestedBy: r.RequestedBy, Fired: r.Fired, Rerun: true,
		State: Pending, MaxAttempts: r.Attempts, CreatedAt: now, Expires: now.Add(Retention).Unix(),
	}
	if !j.Single() {
		j.Segments, j.Shards = Segments, Shards
	}
	return j
}

func (s *Store) openPeriod(r Request, rec Period, known bool) store.Write {
	next := Period{Inputs: r.Inputs, ScheduledJob: rec.ScheduledJob, LastJob: r.ID, ClosedBy: rec.ClosedBy}
	if r.Fired {
		next.ScheduledJob = r.ID
	}
	if !known {
		return store.Insert(periodKey(r.Kind, r.Period), next)
	}
	return store.Put(periodKey(r.Kind, r.Period), next, rec.conds()...)
}

// openRefused finds out who was first: an earlier try of ours, the holder of the slot, or somebody who is gone again.
func (s *Store) openRefused(ctx context.Context, r Request, refused error) (Job, bool, error) {
	if mine, err := s.Find(ctx, r.ID); err == nil {
		return mine, true, nil
	} else if !errors.Is(err, ErrNoSuchJob) {
		return Job{}, false, err
	}
	if neverAccepted(refused) {
		return Job{}, false, refused // a write of the kind: reading again would not help
	}
	by, ok := refusedAt(refused, 0)
	if !ok {
		return Job{}, false, errMoved // the period, or the record of the request
	}
	var held Slot
	if err := by.Old.Decode(&held); err != nil {
		return Job{}, false, err
	}
	holder, err := s.Find(ctx, held.Job)
	switch {
	case errors.Is(err, ErrNoSuchJob) || err == nil && !holder.State.Active():
		return Job{}, false, errMoved // gone on reading
	case err != nil:
		return Job{}, false, err
	case r.Fired:
		return holder, false, nil
	}
	if r.Idempotency != nil {
		// The holder may be the job of this very request, opened by a copy of it a moment ago: then it is the answer, no conflict.
		rec, ok, err := s.findRequest(ctx, r.Idempotency)
		if err != nil {
			return Job{}, false, err
		}
		if ok && rec.Expires > s.now().Unix() {
			return Job{}, false, errMoved
		}
	}
	return Job{}, false, &ActiveError{holder}
}
