package api

import (
	"context"
	"encoding/json"
	"time"
)

// Service is what the API can do. NewService does it on a store and a queue, NewClient asks a deployed API or the laptop stack to; whoever calls
// cannot tell them apart. It is safe for concurrent use.
//
// Every error that a caller can do something about is an *Error, the same from both: its Status, Type and the fields it names are part of the
// contract, its texts are not. The service takes the caller from the context (hanbeon/pkg/api/request), the API from the signature of the request.
type Service interface {
	// StartMonthlyPoints opens a job that grants a period, for the first time or again: what is granted already stays as it is. Errors: 409 TypeActive
	// while a job of the period is active, with that job; 409 TypeOtherAmount; 422 naming the field, with TypeFuture for a period that has not come; 422
	// TypeKeyReused.
	StartMonthlyPoints(ctx context.Context, r StartMonthlyPoints) (Accepted, error)

	// RequestTIL opens a job that writes the summary of a member's day. It never waits for the AI server. Errors: 409 TypeActive while one is active for
	// the same member and day, with that job; 422 naming the field; 422 TypeKeyReused.
	RequestTIL(ctx context.Context, r RequestTIL) (Accepted, error)

	// Jobs lists jobs, the newest month first, in a month by kind, of a kind the newest first.
	Jobs(ctx context.Context, q JobsQuery) (JobList, error)

	// Job finds one job. knownETag is the ETag of an earlier answer, or "": where nothing has changed since, the answer is NotModified and has no job. Error: 404.
	Job(ctx context.Context, id, knownETag string) (JobAnswer, error)

	// Failures lists the subjects that a job settled as failed, in byte order. Error: 404.
	Failures(ctx context.Context, q FailuresQuery) (FailureList, error)

	// Cancel ends a job. If it is still active in the answer (see Job.State and Job.Ending) the end is under way and comes by itself. Cancelling a
	// cancelled job is success. Errors: 404; 409 TypeOver, with the job, if it ended in another way or is about to.
	Cancel(ctx context.Context, id string) (Job, error)

	// Points reads the balance of a member and the entries behind it, oldest period first. Error: 404 for a member that neither the catalog nor the ledger has.
	Points(ctx context.Context, q PointsQuery) (Points, error)

	// TIL reads the summary of a member's day (2024-04-15). Errors: 404 until the first one is published; 422 for an impossible date.
	TIL(ctx context.Context, memberID, date string) (TIL, error)

	// PutMembers adds or changes up to MaxItems members, each by itself: one that is wrong keeps no other back. Results are in the order of members.
	// After an error, which is never about a single item, the same call again is right.
	PutMembers(ctx context.Context, members []Member) ([]PutResult, error)

	// PutNotes is PutMembers for notes.
	PutNotes(ctx context.Context, notes []Note) ([]PutResult, error)
}

// Limits of one request.
const (
	MaxItems       = 500 // members or notes in one batch
	MaxLimit       = 100 // items of one page
	DefaultLimit   = 50
	MaxIdempotency = 255 // bytes of an Idempotency-Key
)

// StartMonthlyPoints asks for the points of one month.
type StartMonthlyPoints struct {
	Period       string `json:"period" pattern:"^[0-9]{4}-[0-9]{2}$" example:"2024-04" doc:"The month, in the business time zone"`
	Amount       int64  `json:"amount" minimum:"1" maximum:"1000000000000" example:"100" doc:"Points for each member: an integer in plain digits"`
	ChangeAmount bool   `json:"changeAmount,omitempty" doc:"Allow another amount than the period was opened with before. Who has been granted keeps what they have, and their new posting fails as conflicting-entry"`
	AllowFuture  bool   `json:"allowFuture,omitempty" doc:"Allow a period whose scheduled time has not come"`

	IdempotencyKey string `json:"-"` // see RequestTIL
}

// RequestTIL asks for the summary of one day of one member.
type RequestTIL struct {
	MemberID string `json:"memberId" pattern:"^[A-Za-z0-9._~@+=-]{1,128}$" example:"member-42" doc:"Compared byte by byte"`
	Date     string `json:"date" format:"date" example:"2024-04-15" doc:"A day in the business time zone, not after today"`

	// IdempotencyKey is chosen by the caller for this request, 1 to MaxIdempotency printable ASCII characters: sent again within 24 hours it gets the
	// answer of the first time and opens nothing. The same key with another request is refused. Keys belong to the account and role of the caller, not
	// to a session. "" makes every request a new one.
	IdempotencyKey string `json:"-"`
}

// Accepted is the answer to a request that opened a job. It has only what never changes about the job, so that a repeated request gets the same bytes.
type Accepted struct {
	ID        string    `json:"id" example:"til-01HTCZP1G00000000000000000"`
	Kind      string    `json:"kind" example:"til"`
	Slot      string    `json:"slot" example:"til:member-42:2024-04-15" doc:"The right to be the one active job, which this job holds until it ends"`
	State     string    `json:"state" enum:"PENDING" doc:"As it was when the job was opened"`
	CreatedAt time.Time `json:"createdAt"`
	Links     Links     `json:"links"`
}

// Links are paths of the API.
type Links struct {
	Job    string `json:"job" example:"/v1/jobs/til-01HTCZP1G00000000000000000"`
	Cancel string `json:"cancel" example:"/v1/jobs/til-01HTCZP1G00000000000000000/cancel"`
}

// Job is one execution of a kind.
type Job struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	Slot        string          `json:"slot"`
	Period      string          `json:"period,omitempty" doc:"Of a scheduled kind"`
	State       string          `json:"state" enum:"PENDING,RUNNING,COMPLETED,FAILED,CANCELLED" doc:"PENDING and RUNNING are active"`
	Ending      string          `json:"ending,omitempty" enum:"COMPLETED,FAILED,CANCELLED" doc:"The end that an active job is coming to"`
	Reason      string          `json:"reason,omitempty" doc:"Stable code, of FAILED"`
	Inputs      json.RawMessage `json:"inputs" doc:"What decides the content of the postings, an object"`
	RequestedBy string          `json:"requestedBy" doc:"ARN of the caller, or scheduler"`
	Fired       bool            `json:"fired" doc:"By the scheduler or the calendar, not by a caller"`
	Rerun       bool            `json:"rerun" doc:"The period had been opened before"`

	Total   *int64 `json:"total" doc:"Subjects, null until all of them have been listed and for a kind without subjects"`
	Applied int64  `json:"applied" doc:"Subjects applied by this job"`
	Already int64  `json:"already" doc:"Subjects applied before, by another job, with the same content"`
	Failed  int64  `json:"failed" doc:"Subjects settled as failed: see the failures of the job"`

	Attempt     int    `json:"attempt,omitempty" doc:"Of a job without subjects: number of the current or last attempt"`
	MaxAttempts int    `json:"maxAttempts,omitempty"`
	LastError   string `json:"lastError,omitempty" doc:"Stable code of the last attempt that failed"`

	CreatedAt  time.Time `json:"createdAt"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
}

// Active tells whether the job is not over.
func (j Job) Active() bool { return j.State == "PENDING" || j.State == "RUNNING" }

// JobAnswer is a job, or that nothing about it has changed.
type JobAnswer struct {
	Job         Job           // zero if NotModified
	ETag        string        // of this very representation, quoted (RFC 9110, 8.8.3)
	RetryAfter  time.Duration // while the job is active: when asking again is worth while, in whole seconds, longer for older jobs. 0 once it is over
	NotModified bool
}

// JobsQuery selects jobs; the zero value is all of them.
type JobsQuery struct {
	Kind   string // "": of every kind
	State  string // "": in every state
	Month  string // of creation in UTC, such as 2024-04; "": every month of which there can still be jobs
	Cursor string // JobList.Next of the page before, with the other fields as they were; "" starts
	Limit  int    // 1 to MaxLimit; 0 is DefaultLimit
}

// JobList is one page of jobs. A page may be short, or empty, and have a next.
type JobList struct {
	Jobs []Job  `json:"jobs" nullable:"false"`
	Next string `json:"next,omitempty" doc:"Cursor of the next page; absent at the end"`
}

// FailuresQuery selects failures of one job.
type FailuresQuery struct {
	Job    string
	Cursor string // FailureList.Next of the page before; "" starts
	Limit  int    // 1 to MaxLimit; 0 is DefaultLimit
}

// Failure is a subject that a job settled as failed.
type Failure struct {
	Subject string    `json:"subject" doc:"Or sha256: and a hash of one that cannot be a key"`
	Reason  string    `json:"reason" doc:"Stable code" example:"conflicting-entry"`
	At      time.Time `json:"at"`
}

// FailureList is one page of failures. A page may be short, or empty, and have a next.
type FailureList struct {
	Failures []Failure `json:"failures" nullable:"false"`
	Next     string    `json:"next,omitempty" doc:"Cursor of the next page; absent at the end"`
}

// PointsQuery selects entries of one member.
type PointsQuery struct {
	Member string
	Cursor string // Points.Next of the page before; "" starts
	Limit  int    // 1 to MaxLimit; 0 is DefaultLimit
}

// Points is what the ledger has of a member: the balance, and one page of the entries behind it.
type Points struct {
	Member  string  `json:"member"`
	Points  int64   `json:"points" doc:"The balance now, whatever the page: the sum of all applied entries"`
	Entries []Entry `json:"entries" nullable:"false"`
	Next    string  `json:"next,omitempty" doc:"Cursor of the next page; absent at the end"`
}

// Entry decides the fate of one key.
type Entry struct {
	Key       string    `json:"key" example:"monthly-point:2024-04:member-42"`
	State     string    `json:"state" enum:"applied,failed"`
	Amount    int64     `json:"amount" doc:"Points; 0 of a failed entry"`
	Job       string    `json:"job" doc:"The job that wrote it"`
	Scheduled time.Time `json:"scheduledTime,omitzero" doc:"Of the period"`
	At        time.Time `json:"at"`
}

// TIL is the published summary of a member's day (today I learned).
type TIL struct {
	MemberID  string    `json:"memberId"`
	Date      string    `json:"date"`
	Revision  int64     `json:"revision" minimum:"1" doc:"Grows by one with every summary published for this day"`
	Title     string    `json:"title"`
	Text      string    `json:"text"`
	Keywords  []string  `json:"keywords" nullable:"false"`
	Job       string    `json:"job" doc:"The job that published it"`
	UpdatedAt time.Time `json:"updatedAt" doc:"When the attempt began that made it: later notes are not in it"`
}

// Member is one person of the service.
type Member struct {
	ID       string `json:"id" example:"member-42" doc:"1 to 128 of A-Z a-z 0-9 . _ ~ @ + = -; compared byte by byte"`
	Status   string `json:"status" example:"ACTIVE" doc:"ACTIVE, INACTIVE or WITHDRAWN"`
	JoinedAt string `json:"joinedAt" example:"2024-01-31T09:00:00+09:00" doc:"RFC 3339 with an offset; kept to the millisecond"`
	Name     string `json:"name,omitempty"`
}

// Note is one thing a member wrote down on a day.
type Note struct {
	ID       string `json:"id" example:"note-1" doc:"Chosen by the caller, one per member and day: the same id again changes the note. 1 to 128 of A-Z a-z 0-9 . _ ~ @ + = -"`
	MemberID string `json:"memberId" example:"member-42"`
	Date     string `json:"date" example:"2024-04-15" doc:"A day in the business time zone, not after today"`
	Text     string `json:"text" doc:"1 to 65536 bytes, no control characters but line breaks and tabs"`
}

// Outcomes of one item of a batch.
const (
	Added     = "added"
	Changed   = "changed"
	Unchanged = "unchanged"
	Refused   = "error"
)

// PutResult says what became of one item of a batch.
type PutResult struct {
	ID      string `json:"id" doc:"As it came, at most 80 bytes of it"`
	Outcome string `json:"outcome" enum:"added,changed,unchanged,error"`
	Field   string `json:"field,omitempty" doc:"The field that is wrong, of an error"`
	Message string `json:"message,omitempty" doc:"What is wrong with it"`
}
