package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
)

// Bulk applies the messages of one bulk kind. One Bulk serves one process; it is safe for concurrent use.
type Bulk struct {
	env      job.Env
	jobs     *job.Store
	ledger   *ledger.Ledger
	kind     job.Bulk
	shard    atomic.Uint32 // of the tally, the next one to take: parallel groups take different ones
	size     atomic.Int32  // index in groupSizes
	accepted atomic.Bool   // a posting of this kind was accepted by this process
}

// groupSizes are the sizes of a group: one step down on throttling, one up on success.
var groupSizes = [...]int{ledger.MaxGroup, 24, 12, 6}

// NewBulk makes the worker of a kind.
func NewBulk(env job.Env, kind job.Bulk) *Bulk {
	w := &Bulk{env: env, jobs: job.NewStore(env.Store, env.Now), ledger: ledger.New(env.Store, kind.Ledger(), env.Now), kind: kind}
	w.shard.Store(uint32(env.Now().UnixNano())) // processes start at different shards
	return w
}

// message is one record of a delivery and what is to become of it.
type message struct {
	record  *events.SQSMessage
	subject queue.Subject
	again   error // why it is handed back; nil acknowledges it
}

// errNoTime hands a message back at once: that is no failure.
var errNoTime = errors.New("time ran out, handed back")

// Handle applies one delivery. Messages that are not settled are listed as failed and come again, after a pause; the rest is acknowledged.
// An error returns the whole batch, which is always harmless.
func (w *Bulk) Handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	messages := make([]message, len(e.Records))
	byJob := map[string][]*message{}
	var ids []string
	for i := range e.Records {
		m := &messages[i]
		m.record = &e.Records[i]
		m.subject, m.again = w.decode(m.record.Body)
		if m.again != nil {
			continue
		}
		if byJob[m.subject.Job] == nil {
			ids = append(ids, m.subject.Job)
		}
		byJob[m.subject.Job] = append(byJob[m.subject.Job], m)
	}
	work, cancel := job.WithReserve(ctx)
	defer cancel()
	for _, id := range ids {
		w.deliver(work, id, byJob[id])
	}
	return w.answer(ctx, messages)
}

// decode reads a message of this worker's kind. The error never holds the body.
func (w *Bulk) decode(body string) (queue.Subject, error) {
	s, err := queue.DecodeSubject(body)
	if err != nil {
		return s, err
	}
	if err := ours(s.Job, w.kind.Kind()); err != nil {
		return s, err
	}
	if err := once.CheckSubject(s.Subject); err != nil {
		return s, fmt.Errorf("%w: %w", queue.ErrNotOurs, err)
	}
	return s, nil
}

// ours tells whether a job id of a message is one of this worker's kind.
func ours(id string, kind once.Kind) error {
	got, _, err := job.ParseID(id)
	if err != nil {
		return fmt.Errorf("%w: %w", queue.ErrNotOurs, err)
	}
	if got != kind {
		return fmt.Errorf("%w: a job of kind %s came to the worker of %s", queue.ErrNotOurs, got, kind)
	}
	return nil
}

// deliver applies the messages of one job.
func (w *Bulk) deliver(ctx context.Context, id string, messages []*message) {
	all := func(err error) {
		for _, m := range messages {
			m.again = err
		}
	}
	log := w.env.Log.With("kind", w.kind.Kind(), "job", id, "messages", len(messages))
	defer func() {
		if p := recover(); p != nil { // outside the postings, which recover one by one; what is settled by now is acknowledged when it comes again
			err := fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			log.ErrorContext(ctx, "delivery not finished", "error", err)
			all(err)
		}
	}()
	j, err := w.jobs.Find(ctx, id)
	switch {
	case errors.Is(err, job.ErrNoSuchJob):
		log.WarnContext(ctx, "delivery of a job that is gone, acknowledged")
	case err != nil:
		log.ErrorContext(ctx, "delivery not begun", "error", err)
		all(err)
	case j.State == job.Completed:
		w.afterwards(ctx, log, j, messages)
	case !j.State.Active() || j.Ending != "":
		log.InfoContext(ctx, "delivery of a job that is over, acknowledged", "state", j.State, "ending", j.Ending)
	case j.State == job.Pending:
		log.WarnContext(ctx, "delivery of a job whose fan-out has not begun, handed back")
		all(errors.New("the job is PENDING"))
	default:
		w.apply(ctx, log, j, messages)
	}
}

// apply settles the subjects of a running job.
func (w *Bulk) apply(ctx context.Context, log *slog.Logger, j job.Job, messages []*message) {
	start := w.env.Now()
	b := newBatch(w, j)
	for _, m := range messages {
		b.add(ctx, m.subject.Subject)
	}
	b.run(ctx)
	for _, m := range messages {
		m.again = b.byName[m.subject.Subject].again
	}
	attrs := []any{"subjects", len(b.subjects), "outcomes", b.outcomes(), "lag", start.Sub(j.Scheduled).Round(time.Second).String()}
	if m := firstFailed(messages); m != nil {
		log.ErrorContext(ctx, "delivery", append(attrs, "message", m.record.MessageId, "error", m.again)...)
	} else {
		log.InfoContext(ctx, "delivery", attrs...)
	}
	if b.fenced.Load() || !b.settledAny() {
		return
	}
	if closed, err := w.jobs.Close(ctx, j.ID); err != nil {
		log.WarnContext(ctx, "close failed, the reaper will", "error", err)
	} else if closed {
		log.InfoContext(ctx, "job completed")
	}
}

// firstFailed is the first message that comes again for another reason than the time, nil if there is none.
func firstFailed(messages []*message) *message {
	for _, m := range messages {
		if m.again != nil && !errors.Is(m.again, errNoTime) {
			return m
		}
	}
	return nil
}

// GiveUp settles subjects of a running job as failed, with a reason, without working on them: for the reaper. One that is applied by then is settled as what it is, and
// one that is settled stays so. An error says that some are not settled; the same call again is always correct.
func (w *Bulk) GiveUp(ctx context.Context, j job.Job, subjects []string, reason string) error {
	b := newBatch(w, j)
	if err := b.giveUp(subjects, reason); err != nil {
		return err
	}
	work, cancel := job.WithReserve(ctx)
	defer cancel()
	b.run(work)
	w.env.Log.WarnContext(ctx, "gave up", "kind", j.Kind, "job", j.ID, "reason", reason, "outcomes", b.outcomes())
	for _, s := range b.subjects {
		if s.again != nil {
			return s.again
		}
	}
	return nil
}

// afterwards looks at late messages of a COMPLETED job: a subject whose entry is applied is acknowledged; any other is handed back, so that a redrive long after the end
// returns to the DLQ instead of vanishing. The way to grant it is a new run.
func (w *Bulk) afterwards(ctx context.Context, log *slog.Logger, j job.Job, messages []*message) {
	keys := make([]once.Key, 0, len(messages))
	for _, m := range messages {
		k, err := once.NewKey(j.Kind, j.Scope, m.subject.Subject)
		if err != nil {
			m.again = err
			return
		}
		keys = append(keys, k)
	}
	how, err := w.ledger.Standing(ctx, ledger.Cause{Job: j.ID, Inputs: j.Inputs}, keys...)
	missing := 0
	for i, m := range messages {
		switch {
		case err != nil:
			m.again = err
		case how[i] == ledger.None || how[i] == ledger.FailedOnce:
			missing++
			m.again = fmt.Errorf("%s is not applied and its job is COMPLETED", keys[i])
		}
	}
	if err != nil || missing > 0 {
		log.ErrorContext(ctx, "delivery of a COMPLETED job, handed back what is not applied", "missing", missing, "error", err,
			"hint", fmt.Sprintf("hanbeon run %s --period %s", j.Kind, j.Scope))
		return
	}
	log.InfoContext(ctx, "delivery of a COMPLETED job, acknowledged")
}

// answer lists what comes again and puts it off.
func (w *Bulk) answer(ctx context.Context, messages []message) (events.SQSEventResponse, error) {
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	pauses := map[int][]string{} // receives (0: at once) -> receipts
	for _, m := range messages {
		if m.again == nil {
			continue
		}
		if m.record.MessageId == "" { // an empty id would acknowledge or return the whole batch, depending on who reads it
			return events.SQSEventResponse{}, fmt.Errorf("a message without id failed: %w", m.again)
		}
		if errors.Is(m.again, queue.ErrNotOurs) {
			w.env.Log.ErrorContext(ctx, "message handed back", "kind", w.kind.Kind(), "message", m.record.MessageId, "error", m.again)
		}
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.record.MessageId})
		n := queue.Receives(m.record.Attributes)
		if errors.Is(m.again, errNoTime) {
			n = 0
		}
		pauses[n] = append(pauses[n], m.record.ReceiptHandle)
	}
	for n, receipts := range pauses {
		var pause time.Duration
		if n > 0 {
			pause = queue.Backoff(n)
		}
		if err := w.env.Queue.PutOff(ctx, queue.Name(w.kind.Kind()), pause, receipts...); err != nil {
			w.env.Log.WarnContext(ctx, "messages come back after the visibility timeout", "kind", w.kind.Kind(), "messages", len(receipts), "error", err)
		}
	}
	return out, nil
}
