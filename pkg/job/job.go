package job

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Table holds jobs and all that belongs to them.
const Table store.Table = "jobs"

// How a bulk job is divided. The numbers are frozen into each job when it opens, so that a new version may change them between jobs.
const (
	Segments     = 16  // slices of the subjects, by hash
	Shards       = 32  // counters of a tally: at least twice the workers' MaximumConcurrency
	PageSubjects = 490 // most subjects of a page: 49 requests of 10 messages
)

// Retention is how long a job and what belongs to it are kept. Nothing depends on an expired item being gone, or on it being there: DynamoDB deletes
// expired items some time later, in any order.
const Retention = 97 * 24 * time.Hour

// SegmentOf is the segment of a subject among n: a subject belongs to one for ever.
func SegmentOf(subject string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(subject))
	return int(h.Sum32() % uint32(n))
}

// State of a job.
type State string

// The states. A job is active in the first two; the other three are terminal and change no more.
const (
	Pending   State = "PENDING"   // opened; left by the first fan-out, or by an ending
	Running   State = "RUNNING"   // left by the close, or by an ending
	Completed State = "COMPLETED" // every subject of the manifest is settled
	Failed    State = "FAILED"    // could not be carried out; see Reason
	Cancelled State = "CANCELLED" // somebody asked for it
)

// Active tells whether a job in this state holds its slot.
func (s State) Active() bool { return s == Pending || s == Running }

// The reasons of failures. They are stable: operators filter by them.
const (
	// Of a subject, any bulk kind.
	ReasonIllegalSubject   = "illegal-subject"   // the id cannot be a key; the failure log has its hash
	ReasonConflictingEntry = "conflicting-entry" // another job applied the key with other content
	ReasonInvalid          = "invalid"           // the store can never accept the posting
	ReasonExhausted        = "exhausted"         // every delivery failed

	// Of a job.
	ReasonNeverStarted = "never-started" // nobody took its messages for hours
	ReasonFanOut       = "fan-out"       // its subjects could not be listed to the end

	// Of a single job.
	ReasonAttemptsUsedUp     = "attempts-used-up"     // every attempt failed for a reason that passes: see lastError
	ReasonOrphaned           = "orphaned"             // its worker died in the last attempt, or nobody takes its message any more
	ReasonNothingToSummarise = "nothing-to-summarise" // there is nothing to make the result of
	lastErrorLease           = "lease-expired"        // as lastError: the worker of the attempt died or was cut off
)

// Job is one execution of a kind.
type Job struct {
	ID          string      `json:"id"` // `<kind>-<ULID>`: tells kind, creation time and partition
	Kind        once.Kind   `json:"kind"`
	Slot        string      `json:"slot"`
	Scope       string      `json:"scope"`
	Period      once.Period `json:"period"`
	Scheduled   time.Time   `json:"scheduledTime,omitzero"`
	Inputs      string      `json:"inputs"`
	RequestedBy string      `json:"requestedBy"`
	Fired       bool        `json:"fired"` // by the Scheduler or the calendar, not by an operator
	Rerun       bool        `json:"rerun"` // the period was opened before: the fan-out looks entries up

	State  State  `json:"state"`
	Ending State  `json:"ending"` // the terminal state an active job is coming to, "" for none
	Reason string `json:"reason"` // of FAILED

	Segments     int   `json:"segments"`
	Shards       int   `json:"shards"`
	SegmentsDone int   `json:"segmentsDone"`
	Total        int64 `json:"total"` // of the segments done; final when all are, see TotalKnown

	// Of a single job; a bulk job has MaxAttempts 0.
	MaxAttempts int       `json:"maxAttempts"`         // how often it may be claimed
	Attempt     int       `json:"attempt"`             // number of the current or last claim, the fencing token; 0 before the first
	Claim       string    `json:"claim,omitempty"`     // random token of that claim, by which an earlier try recognises itself
	LeaseUntil  time.Time `json:"leaseUntil,omitzero"` // of the current claim, or of the last
	NotBefore   time.Time `json:"notBefore,omitzero"`  // while PENDING again: when the next attempt may begin
	LastError   string    `json:"lastError,omitempty"` // reason code of the last attempt that failed
	Resends     int       `json:"resends"`             // of its message, by the reaper, since it is PENDING

	// The counts as they stood at the end. Of an active job they are 0: its tally has them.
	Applied int64 `json:"applied"`
	Already int64 `json:"already"`
	Failed  int64 `json:"failed"`

	// What the reaper sent again, and when last.
	SegmentResends int       `json:"segmentResends"`
	SubjectResends int       `json:"subjectResends"`
	ResentAt       time.Time `json:"resentAt,omitzero"`

	CreatedAt  time.Time `json:"createdAt"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Expires    int64     `json:"expires"` // epoch seconds
}

// Single tells whether the job is one outside call under a lease, without subjects, segments or a tally.
func (j Job) Single() bool { return j.MaxAttempts > 0 }

// TotalKnown tells whether every segment of a bulk job has been listed to its end.
func (j Job) TotalKnown() bool { return !j.Single() && j.SegmentsDone == j.Segments }

// Counts are numbers of subjects.
type Counts struct {
	Applied int64 `json:"applied"` // by this job
	Already int64 `json:"already"` // applied before, by another job with the same content
	Failed  int64 `json:"failed"`
}

// Settled is how many subjects have been decided.
func (c Counts) Settled() int64 { return c.Applied + c.Already + c.Failed }

// ErrNoSuchJob says that an id is malformed, of nobody, or expired.
var ErrNoSuchJob = errors.New("no such job")

// NewID makes a job id for a kind at a time (UTC). Choose it before the first try of Open: a repeated try recognises itself by it.
func NewID(kind once.Kind, now time.Time) string {
	return string(kind) + "-" + ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()
}

// ParseID splits a job id into its kind and the time of its creation, or fails with ErrNoSuchJob.
func ParseID(id string) (once.Kind, time.Time, error) {
	i := strings.LastIndexByte(id, '-')
	if i < 0 {
		return "", time.Time{}, fmt.Errorf("%w: id %.60q is not kind-ULID", ErrNoSuchJob, id)
	}
	kind, err := once.ParseKind(id[:i])
	if err != nil {
		return "", time.Time{}, fmt.Errorf("%w: id %.60q: %v", ErrNoSuchJob, id, err)
	}
	u, err := ulid.ParseStrict(id[i+1:])
	if err != nil || u.String() != id[i+1:] {
		return "", time.Time{}, fmt.Errorf("%w: id %.60q does not end in a ULID", ErrNoSuchJob, id)
	}
	return kind, ulid.Time(u.Time()).UTC(), nil
}
