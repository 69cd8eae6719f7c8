package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"hanbeon/pkg/store"
)

// Close completes a job if every subject of its manifest is settled, and tells whether this call did. A worker, a fan-out or the reaper may be the one; a
// lost race is no error.
func (s *Store) Close(ctx context.Context, id string) (bool, error) {
	j, err := s.Find(ctx, id)
	if err != nil || j.State != Running || j.Ending != "" || !j.TotalKnown() {
		return false, err
	}
	t, err := s.TallyOf(ctx, j)
	if err != nil || t.Settled() != j.Total {
		return false, err
	}
	var with []store.Write
	if j.Period != "" && t.Failed == 0 {
		rec, ok, err := s.FindPeriod(ctx, j.Kind, j.Period)
		if err != nil || !ok {
			return false, errors.Join(err, fmt.Errorf("period %s of job %s is missing", j.Period, id))
		}
		if rec.ClosedBy == "" { // one that is closed stays closed
			with = append(with, store.Update(periodKey(j.Kind, j.Period), store.Attrs{"closedBy": id}, nil, rec.conds()...))
		}
	}
	return s.end(ctx, j, Completed, countAttrs(t.Counts), nil, with...)
}

// countAttrs are the counts of a bulk job as its end writes them down.
func countAttrs(c Counts) store.Attrs {
	return store.Attrs{"applied": c.Applied, "already": c.Already, "failed": c.Failed}
}

// end is the one way a job ends: its terminal state, with what set adds to it, and its freed slot in one transaction, together with other writes. The job must stand as it was read, a single job in the
// same attempt, and the slot must be its own. ended is false when the job has moved.
func (s *Store) end(ctx context.Context, j Job, to State, set store.Attrs, also []store.Cond, with ...store.Write) (ended bool, err error) {
	key, err := keyOf(j.ID)
	if err != nil {
		return false, err
	}
	conds := append([]store.Cond{store.Equals("state", string(j.State)), store.Equals("ending", string(j.Ending))}, also...)
	if j.Single() {
		conds = append(conds, store.Equals("attempt", j.Attempt))
	}
	all := store.Attrs{"state": string(to), "finishedAt": s.now()}
	maps.Copy(all, set)
	writes := append([]store.Write{
		store.Update(key, all, nil, conds...),
		store.Delete(slotKey(j.Slot), store.Equals("job", j.ID)),
	}, with...)
	err = s.store.Transact(ctx, writes...)
	if !isRefused(err) || neverAccepted(err) {
		return err == nil, err
	}
	if _, moved := refusedAt(err, 0); !moved {
		if _, lost := refusedAt(err, 1); lost {
			// Either somebody ended the job between our read and now, or the slot is not the job's: never skip that silently.
			if now, err := s.Find(ctx, j.ID); err == nil && now.State.Active() {
				return false, fmt.Errorf("job %s is %s and does not hold its slot %s: the table is corrupt", j.ID, now.State, j.Slot)
			}
		}
	}
	return false, nil
}

// ErrOver says that a job is over: it can no longer be cancelled or failed.
var ErrOver = errors.New("the job is over")

// Cancel ends a job as CANCELLED: a single job in one transaction, whose worker stops at its next renewal and whose result is refused; a bulk job in steps. done is false when time
// ran out on the way: the job is marked, and the reaper finishes it at once. ErrOver when the job has ended in another way, or is about to.
func (s *Store) Cancel(ctx context.Context, id string) (j Job, done bool, err error) {
	return s.begin(ctx, id, Cancelled, "")
}

// Fail ends a bulk job as FAILED with a reason, like Cancel. The job must still stand as the caller read it. Single jobs fail by their claim or by Orphan.
func (s *Store) Fail(ctx context.Context, seen Job, reason string) (j Job, done bool, err error) {
	key, err := keyOf(seen.ID)
	if err != nil {
		return Job{}, false, err
	}
	err = s.store.Transact(ctx, store.Update(key, store.Attrs{"ending": string(Failed), "reason": reason}, nil,
		store.Equals("state", string(seen.State)), store.Equals("ending", ""), store.Equals("segmentsDone", seen.SegmentsDone)))
	if isRefused(err) && !neverAccepted(err) {
		return seen, false, nil // it moved: look again later
	}
	if err != nil {
		return seen, false, err
	}
	return s.begin(ctx, seen.ID, Failed, reason)
}

// begin marks the ending of a job, unless it is marked, and finishes it.
func (s *Store) begin(ctx context.Context, id string, to State, reason string) (Job, bool, error) {
	key, err := keyOf(id)
	if err != nil {
		return Job{}, false, err
	}
	for {
		j, err := s.Find(ctx, id)
		switch {
		case err != nil:
			return j, false, err
		case j.State == to:
			return j, true, nil
		case !j.State.Active() || j.Ending != "" && j.Ending != to:
			return j, false, fmt.Errorf("%w: %s is %s %s", ErrOver, id, j.State, j.Ending)
		case j.Ending == to:
			return s.Finish(ctx, j)
		case j.Single():
			if _, err := s.end(ctx, j, to, store.Attrs{"reason": reason}, nil); err != nil {
				return j, false, err
			}
			continue // ended, or moved: look again
		}
		set := store.Attrs{"ending": string(to), "reason": reason}
		err = s.store.Transact(ctx, store.Update(key, set, nil, store.Equals("state", string(j.State)), store.Equals("ending", "")))
		if err != nil && (!isRefused(err) || neverAccepted(err)) { // refused by its conditions: it moved, look again
			return j, false, err
		}
	}
}

// Finish goes on with an ending that has begun: it closes the shards one by one, and when it has itself seen every one closed it ends the job. Anybody may call it, any number of times.
//
// One transaction over all shards would conflict with every busy worker; shard by shard each conflict is short, and a worker that meets a closed shard stops.
// Contention and lost answers are retried for a while, or until ctx ends.
func (s *Store) Finish(ctx context.Context, j Job) (Job, bool, error) {
	for n := range j.Shards {
		if err := s.closeShard(ctx, j, n); err != nil {
			return j, false, err
		}
	}
	t, err := s.TallyOf(ctx, j)
	if err != nil {
		return j, false, err
	}
	// The state may have gone from PENDING to RUNNING just before the mark; from then on it stands.
	now, err := s.Find(ctx, j.ID)
	if err != nil || !now.State.Active() {
		return now, err == nil && now.State == j.Ending, err
	}
	if _, err := s.end(ctx, now, now.Ending, countAttrs(t.Counts), nil); err != nil {
		return now, false, err
	}
	now, err = s.Find(ctx, j.ID)
	return now, err == nil && !now.State.Active(), err
}

func (s *Store) closeShard(ctx context.Context, j Job, n int) error {
	const tries = 20 // about 12 s of waiting
	wait := 5 * time.Millisecond
	for try := 1; ; try++ {
		err := s.store.Transact(ctx, store.Update(shardKey(j.ID, n), store.Attrs{"open": false, "touchedAt": s.now()}, nil, store.Equals("open", true)))
		if err == nil || isRefused(err) && !neverAccepted(err) { // closed already, or expired: refused writes all the same
			return nil
		}
		if try == tries || ctx.Err() != nil || neverAccepted(err) {
			return fmt.Errorf("close shard %d of job %s: %w", n, j.ID, errors.Join(ctx.Err(), err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, time.Second)
	}
}

// Resent names one of the counters of re-sends.
type Resent string

// The counters, by the attribute of the job.
const (
	ResentSegments Resent = "segmentResends"
	ResentSubjects Resent = "subjectResends"
	ResentMessage  Resent = "resends" // of a single job
)

// CountResend counts, before the reaper sends again, that it does. counted is false when the job no longer stands as it was seen.
func (s *Store) CountResend(ctx context.Context, seen Job, what Resent) (counted bool, err error) {
	key, err := keyOf(seen.ID)
	if err != nil {
		return false, err
	}
	was := seen.resends(what)
	conds := []store.Cond{store.Equals("state", string(seen.State)), store.Equals("ending", ""), store.Equals(string(what), was)}
	if seen.Single() {
		conds = append(conds, store.Equals("attempt", seen.Attempt))
	}
	err = s.store.Transact(ctx, store.Update(key, store.Attrs{string(what): was + 1, "resentAt": s.now()}, nil, conds...))
	if isRefused(err) {
		return false, nil
	}
	return err == nil, err
}

// UncountResend takes a counted re-send back that did not get through: it must still be the last. The time of it stays, so that the next is not made at once.
func (s *Store) UncountResend(ctx context.Context, seen Job, what Resent) error {
	key, err := keyOf(seen.ID)
	if err != nil {
		return err
	}
	was := seen.resends(what)
	err = s.store.Transact(ctx, store.Update(key, store.Attrs{string(what): was}, nil,
		store.Equals("state", string(seen.State)), store.Equals("ending", ""), store.Equals(string(what), was+1)))
	if isRefused(err) && !neverAccepted(err) {
		return nil // it went on meanwhile
	}
	return err
}

// resends is one of the counters of a job as it was read.
func (j Job) resends(what Resent) int {
	return map[Resent]int{ResentSegments: j.SegmentResends, ResentSubjects: j.SubjectResends, ResentMessage: j.Resends}[what]
}
