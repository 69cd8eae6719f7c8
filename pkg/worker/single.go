package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// Single carries out the jobs of one single kind. It is safe for concurrent use.
type Single struct {
	env  job.Env
	jobs *job.Store
	kind job.Single
}

// NewSingle makes the worker of a kind.
func NewSingle(env job.Env, kind job.Single) *Single {
	return &Single{env, job.NewStore(env.Store, env.Now), kind}
}

// Times of an invocation of a single kind.
const (
	// wrapUp is kept for writing down how the call ended: the outside call ends that much before the function would be cut off.
	wrapUp = 15 * time.Second

	// leastTime is what a call must have before it is begun at all: with less the message is handed back at once.
	leastTime = 2 * wrapUp

	// renewAgain is the pause after a renewal that failed without a definite answer.
	renewAgain = 2 * time.Second
)

// Handle takes one delivery, of one message as the template has it. A message whose job is not yet carried out is listed as failed and comes again; everything else is acknowledged: how often a job
// is tried is for the job to say, not for the queue.
func (w *Single) Handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, r := range e.Records {
		again := w.take(ctx, r)
		if again == nil {
			continue
		}
		if r.MessageId == "" { // an empty id would acknowledge or return the whole batch, depending on who reads it
			return events.SQSEventResponse{}, fmt.Errorf("a message without id failed: %w", again.why)
		}
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
		if err := w.env.Queue.PutOff(ctx, queue.Name(w.kind.Kind()), again.pause, r.ReceiptHandle); err != nil {
			w.env.Log.WarnContext(ctx, "message comes back after the visibility timeout", "kind", w.kind.Kind(), "message", r.MessageId, "error", err)
		}
	}
	return out, nil
}

// handBack is a message that comes again after a pause.
type handBack struct {
	why   error
	pause time.Duration
}

// take carries out the job of one message; nil acknowledges it.
func (w *Single) take(ctx context.Context, r events.SQSMessage) *handBack {
	log := w.env.Log.With("kind", w.kind.Kind(), "message", r.MessageId)
	id, err := w.decode(r.Body)
	if err != nil {
		log.ErrorContext(ctx, "message handed back", "error", err)
		return &handBack{err, queue.Backoff(queue.Receives(r.Attributes))}
	}
	log = log.With("job", id)
	if job.Left(ctx) < leastTime {
		log.InfoContext(ctx, "no time to begin, handed back")
		return &handBack{errNoTime, 0}
	}
	j, err := w.jobs.Find(ctx, id)
	switch now := w.env.Now(); {
	case errors.Is(err, job.ErrNoSuchJob):
		log.WarnContext(ctx, "message of a job that is gone, acknowledged")
		return nil
	case err != nil:
		log.ErrorContext(ctx, "job not read, message handed back", "error", err)
		return &handBack{err, queue.Backoff(queue.Receives(r.Attributes))}
	case j.State != job.Pending:
		log.InfoContext(ctx, "message of a job that is at work or over, acknowledged", "state", j.State, "attempt", j.Attempt)
		return nil
	case j.NotBefore.After(now):
		return &handBack{errors.New("its pause is not over"), j.NotBefore.Sub(now)}
	}
	if waiting, ok := w.kind.(job.Waiting); ok {
		if pause := waiting.Wait(); pause > 0 {
			log.InfoContext(ctx, "no call for now, message handed back", "pause", pause.Round(time.Second).String())
			return &handBack{errors.New("no call for now"), min(pause+rand.N(pause/2+time.Second), queue.LongestBackoff)} // spread, so that not all come back at once
		}
	}
	c, err := w.jobs.Claim(ctx, j)
	if err != nil {
		log.WarnContext(ctx, "not claimed, message handed back", "error", err)
		return &handBack{err, queue.Backoff(queue.Receives(r.Attributes))}
	}
	return w.work(ctx, log.With("attempt", c.Job().Attempt), c)
}

// decode reads a message of this worker's kind. The error never holds the body.
func (w *Single) decode(body string) (id string, err error) {
	m, err := queue.DecodeSingle(body)
	if err != nil {
		return "", err
	}
	return m.Job, ours(m.Job, w.kind.Kind())
}

// work makes the outside call of a claimed job and writes down how it ended.
func (w *Single) work(ctx context.Context, log *slog.Logger, c *job.Claim) *handBack {
	begun := w.env.Now()
	effects, err := w.call(ctx, log, c)
	if err == nil {
		err = w.publish(ctx, c, effects)
	}
	took := slog.Duration("took", w.env.Now().Sub(begun))
	if err == nil {
		log.InfoContext(ctx, "job completed", took)
		return nil
	}
	if errors.Is(err, job.ErrLost) {
		log.WarnContext(ctx, "the claim is lost: the job is over or was handed on, nothing was written", took, "error", err)
		return nil
	}
	state, reason, pause := job.Failed, job.ReasonOf(err), time.Duration(0)
	var unwritten error
	if reason != "" {
		unwritten = again(ctx, func() error { return c.Fail(ctx, reason) })
	} else {
		reason, pause = passing(err, c.Job().Attempt)
		unwritten = again(ctx, func() error {
			j, err := c.Release(ctx, reason, pause)
			state = j.State
			return err
		})
	}
	if reason != job.ReasonNothingToSummarise { // that is an answer, nobody need be woken for it
		w.env.Metric(w.kind.Kind(), "FailedAttempts", 1)
	}
	log.ErrorContext(ctx, "attempt failed", took, "reason", reason, "state", state, "pause", pause.Round(time.Second).String(), "error", err)
	switch {
	case unwritten != nil: // lost, or without a definite answer: then the lease decides. The message is not needed any more
		log.ErrorContext(ctx, "the end of the attempt is not written down", "error", unwritten)
		return nil
	case state.Active():
		return &handBack{err, pause}
	}
	return nil
}

// publish completes the job with the writes of its effects.
func (w *Single) publish(ctx context.Context, c *job.Claim, effects []once.Effect) (err error) {
	defer job.CatchPanic(&err)
	err = again(ctx, func() error { return c.Complete(ctx, w.kind.Items(c.Job(), effects)...) })
	var refused *store.Refused
	if errors.As(err, &refused) {
		return job.Permanent(job.ReasonInvalid, err)
	}
	return err
}

// claimTries is how often a call of a claim is made whose outcome is not known: each recognises its own earlier try.
const claimTries = 3

func again(ctx context.Context, call func() error) (err error) {
	for range claimTries {
		if err = call(); err == nil || errors.Is(err, job.ErrLost) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// call makes the outside call under a lease that is renewed beside it. The renewal ends before call returns, cut short if it is under way: the time that is left belongs to the result.
// The call's context ends when the claim is lost, with job.ErrLost as its cause, and soon enough before the function is cut off.
func (w *Single) call(ctx context.Context, log *slog.Logger, c *job.Claim) (effects []once.Effect, err error) {
	held, lose := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(held)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.renew(renewing, log, c, lose)
	}()
	defer func() {
		stop()
		<-ended
		if cause := context.Cause(held); errors.Is(cause, job.ErrLost) {
			effects, err = nil, cause
		}
		lose(nil)
	}()
	limited, cancel := context.WithTimeout(held, job.Left(ctx)-wrapUp)
	defer cancel()
	return w.result(limited, c.Job())
}

func (w *Single) result(ctx context.Context, j job.Job) (effects []once.Effect, err error) {
	defer job.CatchPanic(&err)
	return w.kind.Result(ctx, j)
}

// renew moves the lease until ctx ends, and calls lose when a renewal is refused or the lease has run out by the clock of this worker.
func (w *Single) renew(ctx context.Context, log *slog.Logger, c *job.Claim, lose context.CancelCauseFunc) {
	until := c.Job().LeaseUntil
	for pause := job.Renewal; ; {
		timer := time.NewTimer(min(pause, max(0, until.Sub(w.env.Now()))))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		left := until.Sub(w.env.Now())
		if left <= 0 {
			lose(fmt.Errorf("%w: it could not be renewed in time", job.ErrLost))
			return
		}
		try, cancel := context.WithTimeout(ctx, left)
		next, err := c.Renew(try)
		cancel()
		switch {
		case err == nil:
			until, pause = next, job.Renewal
		case errors.Is(err, job.ErrLost):
			lose(err)
			return
		case ctx.Err() != nil:
			return
		default:
			log.WarnContext(ctx, "lease not renewed, trying again", "until", until, "error", err)
			pause = renewAgain
		}
	}
}

// The reasons of an attempt that failed in a way that is not the kind's to name.
const (
	reasonTimeout = "timeout" // time ran out
	reasonError   = "error"   // anything else, see the log
)

// firstPause is the step of the queue's backoff at which the attempts of a job begin: up to half a minute after the first, a minute after the second. Somebody else's server needs longer to
// recover than a table.
const firstPause = 3

// passing is the reason code of an error that passes, and the pause before the next attempt.
func passing(err error, attempt int) (reason string, pause time.Duration) {
	pause = queue.Backoff(attempt + firstPause)
	var later *job.LaterError
	switch {
	case errors.As(err, &later):
		return later.Reason, min(max(0, later.After)+pause, queue.LongestBackoff) // both: jobs that were sent off together do not come back together
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout, pause
	}
	return reasonError, pause
}
