package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"hanbeon/pkg/store"
)

// How single jobs are claimed. The number of attempts is frozen into each job when it opens.
const (
	Attempts = 3                // claims of a job before it fails
	Lease    = 60 * time.Second // how long a claim lasts unless it is renewed
	Renewal  = 20 * time.Second // how often it is renewed: two renewals may be lost
)

// Claim is the right to work on a single job for a while, in one attempt. Only Store.Claim makes one, and only through it a job can be renewed, completed, released or failed: each of
// these requires the job to be RUNNING in this very attempt, so whoever was reaped, or works on a job that was cancelled, changes nothing any more. Its methods return ErrLost then.
//
// Any method may be called again after any other error: it recognises what an earlier call did. A Claim serves one goroutine, Renew another beside it.
type Claim struct {
	store *Store
	job   Job
}

// ErrLost says that the claim is no longer valid: its lease ran out and the job was handed on, or the job is over. Nothing was written, and nothing by this claim ever will be.
var ErrLost = errors.New("the claim is lost")

// ErrNotClaimable says that a job is not as the caller read it, or not PENDING: somebody else is at work on it, or it is over.
var ErrNotClaimable = errors.New("the job cannot be claimed")

// claimTries is for answers that were lost: the token recognises an earlier try.
const claimTries = 3

// Claim moves a PENDING job, as the caller read it, to RUNNING in its next attempt. ErrNotClaimable: somebody was faster, read again. After any other error the job may be claimed by nobody until the
// lease has run out; the reaper then sees to it.
func (s *Store) Claim(ctx context.Context, seen Job) (*Claim, error) {
	if !seen.Single() || seen.State != Pending || seen.Attempt >= seen.MaxAttempts {
		return nil, fmt.Errorf("%w: %s is %s in attempt %d of %d", ErrNotClaimable, seen.ID, seen.State, seen.Attempt, seen.MaxAttempts)
	}
	key, err := keyOf(seen.ID)
	if err != nil {
		return nil, err
	}
	now := s.now()
	j := seen
	j.State, j.Attempt, j.Claim, j.LeaseUntil, j.StartedAt = Running, seen.Attempt+1, rand.Text(), now.Add(Lease), now
	write := store.Update(key, store.Attrs{"state": string(j.State), "attempt": j.Attempt, "claim": j.Claim, "leaseUntil": j.LeaseUntil, "startedAt": j.StartedAt}, nil,
		store.Equals("state", string(Pending)), store.Equals("attempt", seen.Attempt))
	for range claimTries {
		err = s.store.Transact(ctx, write)
		if by, ok := refusedAt(err, 0); ok {
			if by.Old.Attrs["claim"] != j.Claim || by.Old.Attrs["state"] != string(Running) {
				return nil, fmt.Errorf("%w: %s has moved", ErrNotClaimable, j.ID)
			}
			err = nil // an earlier try, whose answer was lost
		}
		if err == nil {
			return &Claim{s, j}, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("claim job %s: %w", j.ID, err)
}

// Job is the job as it was claimed.
func (c *Claim) Job() Job { return c.job }

// held are the conditions of every write of the claim, besides those of the state.
func (c *Claim) held() []store.Cond { return []store.Cond{store.Equals("claim", c.job.Claim)} }

// Renew moves the lease, and returns until when it then lasts by the clock of the caller. It does not change the Claim: other methods need no lease, only the attempt.
func (c *Claim) Renew(ctx context.Context) (until time.Time, err error) {
	key, err := keyOf(c.job.ID)
	if err != nil {
		return time.Time{}, err
	}
	until = c.store.now().Add(Lease)
	err = c.store.store.Transact(ctx, store.Update(key, store.Attrs{"leaseUntil": until}, nil, append(c.held(), store.Equals("state", string(Running)), store.Equals("attempt", c.job.Attempt))...))
	if isRefused(err) {
		return time.Time{}, ErrLost
	}
	return until, err
}

// Complete publishes the result and completes the job, in one transaction: the writes of the kind's own table, the state, the freed slot. *store.Refused: a write of the result can never be accepted.
func (c *Claim) Complete(ctx context.Context, result ...store.Write) error {
	return c.end(ctx, Completed, nil, result...)
}

// Fail ends the job as FAILED for a reason that does not pass.
func (c *Claim) Fail(ctx context.Context, reason string) error {
	return c.end(ctx, Failed, store.Attrs{"reason": reason, "lastError": reason})
}

func (c *Claim) end(ctx context.Context, to State, set store.Attrs, with ...store.Write) error {
	ended, err := c.store.end(ctx, c.job, to, set, c.held(), with...)
	if err != nil {
		return fmt.Errorf("end job %s as %s: %w", c.job.ID, to, err)
	}
	if ended {
		return nil
	}
	lastError := c.job.LastError
	if text, ok := set["lastError"].(string); ok {
		lastError = text
	}
	return c.recognise(ctx, to, lastError)
}

// Release gives the job back after a failure that passes: PENDING, not to be claimed again before the pause is over; or FAILED attempts-used-up if this was the last attempt. The job is returned as it then
// is. reason is kept as lastError.
func (c *Claim) Release(ctx context.Context, reason string, pause time.Duration) (Job, error) {
	j := c.job
	j.LastError = reason
	if j.Attempt >= j.MaxAttempts {
		j.State, j.Reason = Failed, ReasonAttemptsUsedUp
		return j, c.end(ctx, j.State, store.Attrs{"reason": j.Reason, "lastError": reason})
	}
	j.State, j.NotBefore, j.Resends = Pending, c.store.now().Add(pause.Truncate(time.Millisecond)), 0
	key, err := keyOf(j.ID)
	if err != nil {
		return j, err
	}
	err = c.store.store.Transact(ctx, store.Update(key, store.Attrs{"state": string(j.State), "notBefore": j.NotBefore, "lastError": reason, "resends": j.Resends}, nil,
		append(c.held(), store.Equals("state", string(Running)), store.Equals("attempt", j.Attempt))...))
	if isRefused(err) {
		return j, c.recognise(ctx, Pending, reason)
	}
	return j, err
}

// recognise tells whether a refused call had been done by an earlier try of itself: the job stands in the state it leads to, with this claim the last one, and with its lastError, since the reaper leads to
// the same states. Where the claim still holds, what refused was a write of the kind.
func (c *Claim) recognise(ctx context.Context, to State, lastError string) error {
	j, err := c.store.Find(ctx, c.job.ID)
	switch {
	case errors.Is(err, ErrNoSuchJob):
		return ErrLost
	case err != nil:
		return err
	case j.State == to && j.Claim == c.job.Claim && j.LastError == lastError:
		return nil
	case j.State == Running && j.Claim == c.job.Claim:
		return fmt.Errorf("job %s: a write of its result was refused: such writes have no conditions", j.ID)
	}
	return ErrLost
}

// Requeue gives a RUNNING single job, whose worker is dead, back as PENDING for its next attempt. It must stand as it was seen, lease included: one that was renewed, handed on or ended meanwhile is left
// alone, and requeued is false. Send its message afterwards.
func (s *Store) Requeue(ctx context.Context, seen Job) (requeued bool, err error) {
	key, err := keyOf(seen.ID)
	if err != nil {
		return false, err
	}
	err = s.store.Transact(ctx, store.Update(key, store.Attrs{"state": string(Pending), "notBefore": s.now(), "lastError": lastErrorLease, "resends": 0}, nil,
		store.Equals("state", string(Running)), store.Equals("attempt", seen.Attempt), leaseAsSeen(seen)))
	if isRefused(err) {
		return false, nil
	}
	return err == nil, err
}

// Orphan ends a single job as FAILED: one whose worker died in its last attempt, or whose message nobody takes. Like Requeue it needs the job as it was seen.
func (s *Store) Orphan(ctx context.Context, seen Job, reason string) (ended bool, err error) {
	set := store.Attrs{"reason": reason}
	var also []store.Cond
	if seen.State == Running {
		set["lastError"] = lastErrorLease
		also = append(also, leaseAsSeen(seen))
	}
	return s.end(ctx, seen, Failed, set, also)
}

func leaseAsSeen(seen Job) store.Cond {
	return store.Equals("leaseUntil", seen.LeaseUntil)
}
