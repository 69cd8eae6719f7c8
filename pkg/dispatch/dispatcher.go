package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// Dispatcher opens jobs.
type Dispatcher struct {
	env   job.Env
	jobs  *job.Store
	kinds job.Kinds
}

// NewDispatcher makes a Dispatcher for these kinds.
func NewDispatcher(env job.Env, kinds ...job.Kind) *Dispatcher {
	return &Dispatcher{env, job.NewStore(env.Store, env.Now), job.NewKinds(kinds...)}
}

// Result says what became of a request.
type Result struct {
	Job    job.Job
	Opened bool // false: a firing that had been here before, or that found its period in hand
}

// Handle takes one event of EventBridge Scheduler:
//
//	{"kind":"monthly-point","scheduledTime":"<aws.scheduler.scheduled-time>","amount":100}
//
// An error means that nothing was opened, or that messages may not have been sent; the same event again is always correct.
func (d *Dispatcher) Handle(ctx context.Context, event json.RawMessage) error {
	r, err := d.fire(ctx, event)
	if err != nil {
		d.env.Log.ErrorContext(ctx, "firing refused or unfinished", "error", err)
		return err
	}
	d.env.Log.InfoContext(ctx, "firing", "kind", r.Job.Kind, "job", r.Job.ID, "period", r.Job.Period, "opened", r.Opened, "state", r.Job.State)
	return nil
}

func (d *Dispatcher) fire(ctx context.Context, event json.RawMessage) (Result, error) {
	var head struct {
		Kind          *string `json:"kind"`
		ScheduledTime *string `json:"scheduledTime"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(event), &head); err != nil {
		return Result{}, fmt.Errorf("scheduler event: want a JSON object with the texts kind and scheduledTime: %w", err)
	}
	if head.Kind == nil {
		return Result{}, errors.New("scheduler event: field kind is missing")
	}
	kind, err := d.kinds.Scheduled(once.Kind(*head.Kind))
	if err != nil {
		return Result{}, fmt.Errorf("scheduler event: field kind: %w", err)
	}
	if head.ScheduledTime == nil {
		return Result{}, errors.New("scheduler event: field scheduledTime is missing; there is no fallback to the clock")
	}
	scheduled, err := d.scheduledTime(*head.ScheduledTime)
	if err != nil {
		return Result{}, fmt.Errorf("scheduler event: field scheduledTime: %w", err)
	}
	return d.Fire(ctx, kind, scheduled, event)
}

// How far ahead of the clock a scheduled time may be: EventBridge Scheduler fires within the minute, the rest is for clocks that differ.
const aheadOfClock = time.Hour

// earliest is the first scheduled time that is believed: whatever is before is a zero value or a unit mistake.
var earliest = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (d *Dispatcher) scheduledTime(s string) (time.Time, error) {
	if strings.Contains(s, "aws.scheduler") {
		return time.Time{}, fmt.Errorf("%q was not substituted: the event did not come through EventBridge Scheduler", s)
	}
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%.60q is not an RFC 3339 date-time with an offset", s)
	case t.Before(earliest):
		return time.Time{}, fmt.Errorf("%s is before %s", s, earliest.Format(time.RFC3339))
	case t.After(d.env.Now().Add(aheadOfClock)):
		return time.Time{}, fmt.Errorf("%s lies in the future", s)
	}
	return t.UTC(), nil
}

// Fire opens the job of a scheduled time as a firing does: once per period, for ever. The reaper uses it for a firing that never came. input is the Scheduler's JSON object.
func (d *Dispatcher) Fire(ctx context.Context, kind job.Scheduled, scheduled time.Time, input []byte) (Result, error) {
	o, err := kind.Open(scheduled, input)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", kind.Kind(), err)
	}
	return d.Open(ctx, job.Request{Opening: o, RequestedBy: "scheduler", Fired: true})
}

// Run is an operator's request to run a period, again or for the first time.
type Run struct {
	Kind         once.Kind
	Period       once.Period
	Input        json.RawMessage // as in a Scheduler event, without kind and scheduledTime: {"amount":100}
	RequestedBy  string
	AllowFuture  bool // a period whose scheduled time has not come
	ChangeAmount bool // other inputs than the period was opened with before

	Idempotency *job.Idempotency // nil: every request is a new one
}

// FutureError says that the scheduled time of a period has not come.
type FutureError struct {
	Period    once.Period
	Scheduled time.Time
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("period %s is scheduled for %s, which lies in the future", e.Period, e.Scheduled.Format(time.RFC3339))
}

// Run opens a job for a period at its scheduled time of the calendar. It may be repeated at will: what is applied already is looked up and left out.
// Errors: *FutureError, *job.ActiveError, *job.InputsError, *store.Busy, a wrong field of the input; after any other error the same request again is safe.
func (d *Dispatcher) Run(ctx context.Context, r Run) (Result, error) {
	kind, err := d.kinds.Scheduled(r.Kind)
	if err != nil {
		return Result{}, err
	}
	due, ok := DueOf(kind, r.Period)
	if !ok {
		return Result{}, fmt.Errorf("%s has no period %s in its calendar", r.Kind, r.Period)
	}
	scheduled := due.Scheduled
	if scheduled.After(d.env.Now()) && !r.AllowFuture {
		return Result{}, &FutureError{r.Period, scheduled}
	}
	input, err := withHead(r.Kind, scheduled, r.Input)
	if err != nil {
		return Result{}, err
	}
	o, err := kind.Open(scheduled, input)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", r.Kind, err)
	}
	return d.Open(ctx, job.Request{Opening: o, RequestedBy: r.RequestedBy, ChangeInputs: r.ChangeAmount, Idempotency: r.Idempotency})
}

// DueOf finds a period in the calendar of a kind, past or future; ok is false where the calendar does not have it.
func DueOf(kind job.Scheduled, p once.Period) (due job.Due, ok bool) {
	// Up to the end of the next period: in every zone the scheduled time of this one is before that.
	all := kind.Calendar(p, p.Next().Next().Start(time.UTC))
	if len(all) == 0 || all[0].Period != p {
		return job.Due{}, false
	}
	return all[0], true
}

// withHead makes the Scheduler's event of an input without kind and scheduledTime.
func withHead(kind once.Kind, scheduled time.Time, input json.RawMessage) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(input, &fields); err != nil {
		return nil, fmt.Errorf("input of %s: want a JSON object: %w", kind, err)
	}
	fields["kind"], _ = json.Marshal(kind)
	fields["scheduledTime"], _ = json.Marshal(scheduled.UTC().Format(time.RFC3339))
	return json.Marshal(fields)
}

// FireDue opens a period of the calendar whose firing never came, with the input of the configuration.
func (d *Dispatcher) FireDue(ctx context.Context, kind job.Scheduled, due job.Due, input json.RawMessage) (Result, error) {
	event, err := withHead(kind.Kind(), due.Scheduled, input)
	if err != nil {
		return Result{}, err
	}
	return d.Fire(ctx, kind, due.Scheduled, event)
}

// openTries is for answers that were lost: with the same id a later try recognises an earlier one.
const openTries = 3

// Open opens a job, under an id that it chooses, and sends its messages. Errors: those of job.Store.Open; *queue.Unsent, together with the job, when the job is open and not all of its messages
// were accepted: the reaper sends them in a few minutes. After any other error the same request again is safe.
func (d *Dispatcher) Open(ctx context.Context, r job.Request) (Result, error) {
	r.ID = job.NewID(r.Kind, d.env.Now())
	var out Result
	var err error
	for range openTries {
		out.Job, out.Opened, err = d.jobs.Open(ctx, r)
		if err == nil || definite(err) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return out, fmt.Errorf("open %s: %w", r.Slot, err)
	}
	if out.Job.State != job.Pending {
		return out, nil
	}
	if out.Job.Single() {
		return out, SendSingle(ctx, d.env.Queue, out.Job)
	}
	return out, SendSegments(ctx, d.env.Queue, out.Job, nil)
}

// definite tells errors that the same call would meet again from answers that were lost.
func definite(err error) bool {
	var active *job.ActiveError
	var inputs *job.InputsError
	var reused *job.ReusedError
	var busy *store.Busy
	return errors.As(err, &active) || errors.As(err, &inputs) || errors.As(err, &reused) || errors.As(err, &busy)
}

// SendSingle sends the message of a single job.
func SendSingle(ctx context.Context, q queue.Queue, j job.Job) error {
	if err := q.Send(ctx, queue.Name(j.Kind), queue.Single{Job: j.ID}.Encode()); err != nil {
		return fmt.Errorf("job %s is open, but its message was not sent: %w", j.ID, err)
	}
	return nil
}

// SendSegments sends the messages of segments that are not done (nil: of all).
func SendSegments(ctx context.Context, q queue.Queue, j job.Job, segments []job.Segment) error {
	var bodies []string
	for n := range j.Segments {
		if n < len(segments) && segments[n].Done {
			continue
		}
		bodies = append(bodies, queue.Segment{Job: j.ID, Segment: n}.Encode())
	}
	if err := q.Send(ctx, queue.Segments, bodies...); err != nil {
		return fmt.Errorf("job %s is open, but not all its segments were sent: %w", j.ID, err)
	}
	return nil
}
