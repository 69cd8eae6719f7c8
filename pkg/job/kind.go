package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// This file is the page that the author of a new kind reads. A kind says who, what and when; it returns data and never writes. The engines open, fan out, apply, count, retry and
// close. A kind implements Kind and one or more of the interfaces below; pkg/kinds lists it once, by hand.

// Kind is what every kind is.
type Kind interface {
	Kind() once.Kind
}

// Bulk is a kind with one posting per subject.
type Bulk interface {
	Kind

	// Ledger is the table that holds the entries of this kind.
	Ledger() store.Table

	// Subjects lists who is worked on, in one segment (0 to Segments-1), after a cursor ("" starts), at most PageSubjects of them, strictly increasing in byte order; repeats are dropped by the caller.
	// next is "" at the end, otherwise greater than cursor. A page may be empty and have a next. Eligibility is decided here only: who is listed and leaves
	// afterwards is still worked on. A subject must always be in the same segment (see SegmentOf).
	Subjects(ctx context.Context, j Job, segment int, cursor string) (subjects []string, next string, err error)

	// Effects says what happens to one subject: the engine makes the key. It may read, and must give the same effects for the same job and subject for ever.
	// An error made by Permanent settles the subject as a failure; any other is retried.
	Effects(ctx context.Context, j Job, subject string) ([]once.Effect, error)
}

// Single is a kind whose job is one slow call to somebody outside, made under a lease.
type Single interface {
	Kind

	// Result makes the outside call and returns what to publish. It may run again, in this process or another, after a crash or a lost lease: the call is made at least once, published is one result.
	// ctx ends when the claim is lost (the lease ran out, the job was cancelled) or time runs out; Result must then return soon.
	// An error made by Permanent ends the job as FAILED with its reason. Any other is tried again while attempts last; Later gives it a reason code and a pause.
	Result(ctx context.Context, j Job) ([]once.Effect, error)

	// Items are the writes of the kind's own table that publish the effects. They are part of the transaction that completes the job: at most store.MaxWrites - 2 of them. It
	// must not read or call anything, and its writes have no conditions.
	Items(j Job, effects []once.Effect) []store.Write
}

// Waiting is an optional part of a Single kind whose outside is known, now and then, not to be worth a call: a circuit breaker that is open, a rate limit that named its end.
type Waiting interface {
	// Wait is how long no call should be begun; 0: one may. The worker hands messages back for about that long without claiming their jobs, so that waiting uses up no attempt.
	Wait() time.Duration
}

// Scheduled is a kind with a calendar.
type Scheduled interface {
	Kind

	// Open turns a scheduled time and the input of a firing (the whole JSON object of the Scheduler) into the opening of a job. It is the one place that
	// computes a period. An error names the field that is wrong; nothing has been written.
	Open(scheduled time.Time, input []byte) (Opening, error)

	// Calendar lists the periods from `from` on whose scheduled time is not after now, oldest first.
	Calendar(from once.Period, now time.Time) []Due
}

// Due is one period of a calendar.
type Due struct {
	Period    once.Period
	Scheduled time.Time // when it is to be fired
	Deadline  time.Time // when it is overdue unless closed
}

// Opening says what a job is about. The dispatcher adds who asked for it.
type Opening struct {
	Kind      once.Kind
	Slot      string      // the right to be the one active job: `monthly-point:2024-04`
	Scope     string      // the middle of the keys: `2024-04`
	Period    once.Period // "" for a kind without a calendar
	Scheduled time.Time   // of the period; decides who is eligible
	Inputs    string      // canonical JSON of what decides the content of postings, such as `{"amount":100}`; part of every digest

	Attempts int           // of a single job: how often it may be claimed, usually job.Attempts; 0 makes a bulk job
	With     []store.Write // of the kind's own tables, in the transaction of the opening: at most 10, without conditions
}

// Calendar is the configuration of the reaper's watch over scheduled kinds.
type Calendar struct {
	Start    once.Period                   // the first period that exists for the watch; at a first deployment the next one to come
	AutoOpen bool                          // open a period whose firing never came
	Inputs   map[once.Kind]json.RawMessage // per kind, the input of a firing without kind and scheduledTime: `{"amount":100}`
}

// Env is the world an engine works in: where it writes, sends and reports, and what time it is.
type Env struct {
	Store store.Store
	Queue queue.Queue
	Now   func() time.Time
	Log   *slog.Logger
	// Metric reports a value under a name, with the kind as its only dimension ("" for none). Never nil.
	Metric func(kind once.Kind, name string, value float64)
}

// Left is how long the call may still take: until the deadline of ctx, which is always wall time, or an hour where there is none.
func Left(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline)
	}
	return time.Hour
}

// Reserve is kept back from the deadline of a call for its answer. A store or a queue that does not answer goes on for half a minute, with all its retries: without an end of its own Lambda would cut the
// function off, and all its messages would come again after the visibility timeout, those that are settled too.
const Reserve = 3 * time.Second

// WithReserve is the context of the work of a call: it ends Reserve before that of the answer, or after three quarters of the time where there is little.
func WithReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	left := Left(ctx)
	return context.WithTimeout(ctx, left-min(Reserve, left/4))
}

// CatchPanic turns a panic of the function that defers it into its error: `defer job.CatchPanic(&err)`.
func CatchPanic(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}

// Kinds finds kinds by name.
type Kinds map[once.Kind]Kind

// NewKinds makes a table of kinds. Two of one name are a programming error and panic at start-up.
func NewKinds(list ...Kind) Kinds {
	k := Kinds{}
	for _, x := range list {
		if _, twice := k[x.Kind()]; twice {
			panic("kind " + string(x.Kind()) + " is listed twice")
		}
		k[x.Kind()] = x
	}
	return k
}

// Bulk finds a bulk kind.
func (k Kinds) Bulk(kind once.Kind) (Bulk, error) {
	b, ok := k[kind].(Bulk)
	if !ok {
		return nil, fmt.Errorf("kind %q is not a bulk kind of this program", kind)
	}
	return b, nil
}

// Single finds a single kind.
func (k Kinds) Single(kind once.Kind) (Single, error) {
	s, ok := k[kind].(Single)
	if !ok {
		return nil, fmt.Errorf("kind %q is not a single kind of this program", kind)
	}
	return s, nil
}

// Scheduled finds a kind with a calendar.
func (k Kinds) Scheduled(kind once.Kind) (Scheduled, error) {
	s, ok := k[kind].(Scheduled)
	if !ok {
		return nil, fmt.Errorf("kind %q is not a scheduled kind of this program", kind)
	}
	return s, nil
}

// PermanentError says that a subject can never be worked on; retrying is pointless.
type PermanentError struct {
	Reason string // stable code, see the Reason constants
	Err    error
}

// Permanent marks an error of Effects as final, with a stable reason code that ends in the failure log.
func Permanent(reason string, err error) error { return &PermanentError{reason, err} }

func (p *PermanentError) Error() string { return fmt.Sprintf("%s: %v", p.Reason, p.Err) }

func (p *PermanentError) Unwrap() error { return p.Err }

// LaterError says that an outside call failed for a reason that passes.
type LaterError struct {
	Reason string        // stable code that the job keeps as its lastError
	After  time.Duration // least pause before the next attempt; 0 leaves it to the engine
	Err    error
}

// Later marks an error of Single.Result as one that passes, with a stable reason code and the least pause before the next attempt (0: the engine's own).
func Later(reason string, after time.Duration, err error) error {
	return &LaterError{reason, after, err}
}

func (l *LaterError) Error() string { return fmt.Sprintf("%s: %v", l.Reason, l.Err) }

func (l *LaterError) Unwrap() error { return l.Err }

// ReasonOf is the reason code of an error made by Permanent, "" of any other.
func ReasonOf(err error) string {
	var p *PermanentError
	if errors.As(err, &p) {
		return p.Reason
	}
	return ""
}
