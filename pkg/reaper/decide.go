package reaper

import (
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
)

// Times of the decision. All are compared with the clock of the reaper plus a margin for clocks that differ.
const (
	// Margin is how far two clocks may be apart.
	Margin = 10 * time.Second

	// Stalled is how long nothing of a running job may move before its messages count as lost: the visibility timeout of a bulk queue (365 s) and the longest backoff.
	// A message that is only slow has come back by then.
	Stalled = 365*time.Second + queue.LongestBackoff

	// Unsent is how long a job may be PENDING before its messages are sent again; it doubles with each time.
	Unsent = 2 * time.Minute

	// NeverStarted is when a PENDING job fails. It is hours, because a backlog in the queue is no death.
	NeverStarted = 6 * time.Hour

	// Patience is how long after its opening a job is given re-sends that did not get through once more, without counting them.
	Patience = 24 * time.Hour

	// MaxResends is how often a stalled job gets its messages again before it is settled without.
	MaxResends = 3
)

// Snapshot is what the reaper saw of an active job. The parts were read one after the other: every action checks again.
type Snapshot struct {
	Job      job.Job
	Segments []job.Segment
	Tally    job.Tally
}

// touched is when something of the job last moved.
func (s Snapshot) touched() time.Time {
	last := s.Job.CreatedAt
	for _, t := range []time.Time{s.Job.StartedAt, s.Job.ResentAt, s.Tally.TouchedAt} {
		if t.After(last) {
			last = t
		}
	}
	for _, seg := range s.Segments {
		if seg.TouchedAt.After(last) {
			last = seg.TouchedAt
		}
	}
	return last
}

// Action is what the reaper does to a job.
type Action string

// The actions.
const (
	Leave        Action = "leave"             // it moves, or its time has not come
	Finish       Action = "finish-ending"     // an ending has begun
	Close        Action = "close"             // every subject is settled
	SendSegments Action = "send-segments"     // count it, then send the messages of unfinished segments
	SendSubjects Action = "send-subjects"     // count it, then send the messages of unsettled subjects
	Exhaust      Action = "settle-exhausted"  // settle unsettled subjects as failures, then close
	FailUnsent   Action = "fail-unstarted"    // FAILED never-started
	FailFanOut   Action = "fail-fan-out"      // FAILED fan-out
	FreeSlot     Action = "free-corrupt-slot" // the slot's job is over or gone: only a restored table has that

	// Of single jobs.
	SendMessage Action = "send-message"  // count it, then send the message of a PENDING job
	Requeue     Action = "requeue"       // the lease has run out: PENDING for the next attempt, then send the message
	FailOrphan  Action = "fail-orphaned" // FAILED orphaned: the lease of the last attempt has run out, or nobody takes the message of a next attempt
)

// Decide says what to do about a job that was found in a slot. It is pure: the table of its test is its specification.
func Decide(s Snapshot, now time.Time) Action {
	j := s.Job
	quiet := now.Sub(s.touched()) - Margin
	switch {
	case !j.State.Active():
		return FreeSlot
	case j.Single():
		return decideSingle(j, now)
	case j.Ending != "":
		return Finish
	case j.State == job.Pending:
		switch {
		case now.Sub(j.CreatedAt)-Margin > NeverStarted:
			return FailUnsent
		case quiet > Unsent<<min(j.SegmentResends, 10):
			return SendSegments
		}
		return Leave
	case j.TotalKnown() && s.Tally.Settled() == j.Total:
		return Close
	case !j.TotalKnown():
		switch {
		case quiet <= Stalled<<min(j.SegmentResends, MaxResends):
			return Leave
		case j.SegmentResends < MaxResends:
			return SendSegments
		}
		return FailFanOut
	case j.SubjectResends > MaxResends:
		return Exhaust // begun, and not finished in one run
	case quiet <= Stalled<<j.SubjectResends:
		return Leave
	case j.SubjectResends < MaxResends:
		return SendSubjects
	}
	return Exhaust
}

// decideSingle is Decide for an active single job. Whether it lives is told by its lease, never by how long it takes.
func decideSingle(j job.Job, now time.Time) Action {
	if j.State == job.Running {
		switch {
		case !now.After(j.LeaseUntil.Add(Margin)):
			return Leave
		case j.Attempt < j.MaxAttempts:
			return Requeue
		}
		return FailOrphan
	}
	pending := j.CreatedAt // since when it may be claimed
	if j.NotBefore.After(pending) {
		pending = j.NotBefore
	}
	sent := pending
	if j.ResentAt.After(sent) {
		sent = j.ResentAt
	}
	switch {
	case now.Sub(pending)-Margin > NeverStarted && j.Attempt == 0:
		return FailUnsent
	case now.Sub(pending)-Margin > NeverStarted:
		return FailOrphan
	case now.Sub(sent)-Margin > Unsent<<min(j.Resends, 10):
		return SendMessage
	}
	return Leave
}
