package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// Fanout turns segments into pages and messages.
type Fanout struct {
	env   job.Env
	jobs  *job.Store
	kinds job.Kinds
}

// NewFanout makes a Fanout for these kinds.
func NewFanout(env job.Env, kinds ...job.Kind) *Fanout {
	return &Fanout{env, job.NewStore(env.Store, env.Now), job.NewKinds(kinds...)}
}

// margin is the time that one page may take, besides job.Reserve; with less left the segment is handed back.
const margin = 17 * time.Second

// errHandBack says that time ran out: no failure, the next receive goes on.
var errHandBack = errors.New("time ran out, handed back")

// Handle takes messages of the segments queue. Whatever is not finished is listed as failed and comes again.
func (f *Fanout) Handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	out := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	work, cancel := job.WithReserve(ctx)
	defer cancel()
	for _, m := range e.Records {
		j, pages, err := f.segment(work, m.Body)
		log := f.env.Log.With("message", m.MessageId, "kind", j.Kind, "job", j.ID, "pages", pages)
		switch {
		case err == nil:
			log.InfoContext(ctx, "segment")
			continue
		case errors.Is(err, errHandBack):
			log.InfoContext(ctx, "segment handed back")
			f.putOff(ctx, m, 0)
		default:
			log.ErrorContext(ctx, "segment not finished", "error", err)
			f.putOff(ctx, m, queue.Backoff(queue.Receives(m.Attributes)))
		}
		if m.MessageId == "" { // an empty id would acknowledge or return the whole batch, depending on who reads it
			return events.SQSEventResponse{}, fmt.Errorf("a message without id failed: %w", err)
		}
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: m.MessageId})
	}
	return out, nil
}

// putOff brings a message back earlier than its visibility timeout would; without it that is when it comes.
func (f *Fanout) putOff(ctx context.Context, m events.SQSMessage, d time.Duration) {
	if err := f.env.Queue.PutOff(ctx, queue.Segments, d, m.ReceiptHandle); err != nil {
		f.env.Log.WarnContext(ctx, "segment comes back after the visibility timeout", "message", m.MessageId, "error", err)
	}
}

// segment works on one message as far as time allows. A nil error acknowledges it.
func (f *Fanout) segment(ctx context.Context, body string) (j job.Job, pages int, err error) {
	defer job.CatchPanic(&err)
	m, err := queue.DecodeSegment(body)
	if err != nil {
		return j, 0, err
	}
	if _, _, err := job.ParseID(m.Job); err != nil {
		return j, 0, fmt.Errorf("%w: %w", queue.ErrNotOurs, err)
	}
	j, err = f.jobs.Find(ctx, m.Job)
	if errors.Is(err, job.ErrNoSuchJob) {
		f.env.Log.WarnContext(ctx, "segment of a job that is gone, acknowledged", "job", m.Job)
		return j, 0, nil
	}
	if err != nil {
		return j, 0, err
	}
	kind, err := f.kinds.Bulk(j.Kind)
	if err != nil {
		return j, 0, err
	}
	if j, err = f.jobs.Start(ctx, j); err != nil {
		return j, 0, err
	}
	for {
		if j.State != job.Running || j.Ending != "" {
			return j, pages, nil // over, or about to be: the reaper finishes an ending
		}
		seg, err := f.jobs.SegmentAt(ctx, j, m.Segment)
		if err != nil {
			return j, pages, err
		}
		if seg.Done {
			_, err := f.jobs.Close(ctx, j.ID) // total 0, or workers that were faster than the total
			return j, pages, err
		}
		if job.Left(ctx) < margin {
			return j, pages, errHandBack
		}
		over, err := f.page(ctx, j, kind, m.Segment, seg)
		if err != nil {
			return j, pages, err
		}
		if pages++; over {
			return j, pages, nil
		}
	}
}

// page is one round: freeze, send, settle what cannot be sent, advance.
func (f *Fanout) page(ctx context.Context, j job.Job, kind job.Bulk, n int, seg job.Segment) (over bool, err error) {
	p, ok, err := f.jobs.PageAt(ctx, j, n, seg.Ordinal)
	if err != nil {
		return false, err
	}
	if !ok {
		if p, err = f.read(ctx, j, kind, n, seg); err != nil {
			return false, err
		}
		if p, err = f.jobs.Freeze(ctx, j, n, seg.Ordinal, p); err != nil {
			return false, fmt.Errorf("freeze page %d of segment %d: %w", seg.Ordinal, n, err)
		}
	}
	if err := SendSubjects(ctx, f.env.Queue, j, p.Subjects); err != nil {
		return false, err
	}
	for ids := range slices.Chunk(p.Illegal, store.MaxWrites-1) {
		// Before the advance: after a crash in between the reaper would otherwise fail them as if they had keys.
		if over, err := f.settleIllegal(ctx, j, ids); over || err != nil {
			return over, err
		}
	}
	err = f.whileBusy(ctx, func(shard int) error {
		over, err = f.jobs.Advance(ctx, j, n, seg, p, shard)
		return err
	}, j.Shards)
	return over, err
}

// whileBusy tries again with another shard while busy workers hold the one it took.
func (f *Fanout) whileBusy(ctx context.Context, do func(shard int) error, shards int) error {
	const tries = 8
	first := rand.IntN(shards)
	for try := 1; ; try++ {
		err := do((first + try) % shards)
		var busy *store.Busy
		if !errors.As(err, &busy) || try == tries || ctx.Err() != nil {
			return err
		}
		time.Sleep(rand.N(time.Duration(try) * 20 * time.Millisecond))
	}
}

// read asks the source for the next page and decides who gets a message.
func (f *Fanout) read(ctx context.Context, j job.Job, kind job.Bulk, n int, seg job.Segment) (job.Page, error) {
	subjects, next, err := kind.Subjects(ctx, j, n, seg.Cursor)
	if err != nil {
		return job.Page{}, fmt.Errorf("subjects of segment %d: %w", n, err)
	}
	if next != "" && next <= seg.Cursor || len(subjects) > job.PageSubjects {
		return job.Page{}, fmt.Errorf("kind %s: segment %d: cursor %.60q after %.60q with %d subjects: want a greater cursor and at most %d", j.Kind, n, next, seg.Cursor, len(subjects), job.PageSubjects)
	}
	p := job.Page{Next: next, Last: next == "", Subjects: []string{}}
	last, listed := "", seg.Greatest != ""
	if listed {
		if last, err = strconv.Unquote(seg.Greatest); err != nil {
			return job.Page{}, fmt.Errorf("segment %d: last subject %.60s: %w", n, seg.Greatest, err)
		}
	}
	for _, s := range subjects {
		if listed && s == last {
			continue
		}
		if listed && s < last { // a subject on two pages would be in the total twice and settled once: the job would never end
			return job.Page{}, fmt.Errorf("kind %s: segment %d: subject %.60q comes after %.60q: want strictly increasing ones, on all pages together", j.Kind, n, s, last)
		}
		last, listed = s, true
		if at := job.SegmentOf(s, j.Segments); at != n {
			return job.Page{}, fmt.Errorf("kind %s: subject %.60q belongs to segment %d, not %d", j.Kind, s, at, n)
		}
		if once.CheckSubject(s) != nil {
			p.Illegal = append(p.Illegal, job.IllegalID(s))
			continue
		}
		p.Subjects = append(p.Subjects, s)
	}
	if listed {
		p.Greatest = strconv.QuoteToASCII(last)
	}
	if j.Rerun {
		return f.leaveOut(ctx, j, kind, p)
	}
	return p, nil
}

// leaveOut looks entries up instead of writing: half a read unit instead of four write units. A miss of the stale read ends as `already` in the worker.
func (f *Fanout) leaveOut(ctx context.Context, j job.Job, kind job.Bulk, p job.Page) (job.Page, error) {
	keys := make([]once.Key, len(p.Subjects))
	for i, s := range p.Subjects {
		k, err := once.NewKey(j.Kind, j.Scope, s)
		if err != nil {
			return p, err
		}
		keys[i] = k
	}
	entries := ledger.New(f.env.Store, kind.Ledger(), f.env.Now)
	how, err := entries.StandingStale(ctx, ledger.Cause{Job: j.ID, Inputs: j.Inputs}, keys...)
	if err != nil {
		return p, fmt.Errorf("look entries up: %w", err)
	}
	kept := []string{}
	for i, s := range p.Subjects {
		if how[i] == ledger.Already {
			p.LeftOut++
			continue
		}
		kept = append(kept, s)
	}
	p.Subjects = kept
	return p, nil
}

// settleIllegal settles subjects that cannot be keys, once, as failures under their hash.
func (f *Fanout) settleIllegal(ctx context.Context, j job.Job, ids []string) (over bool, err error) {
	for len(ids) > 0 {
		writes := make([]store.Write, len(ids))
		for i, id := range ids {
			writes[i] = f.jobs.SettledFailed(j, id, job.ReasonIllegalSubject)
		}
		err := f.whileBusy(ctx, func(shard int) error {
			return f.jobs.Settle(ctx, j, shard, job.Counts{Failed: int64(len(ids))}, writes...)
		}, j.Shards)
		var refused *store.Refused
		if !errors.As(err, &refused) {
			return false, err
		}
		var left []string
		there := map[int]bool{}
		for _, by := range refused.By {
			if by.Invalid != "" { // can never be accepted: that says nothing of the shard, nor of what is settled
				return false, err
			}
			there[by.Index] = true
		}
		if there[0] {
			return true, nil // the shard is closed
		}
		for i, id := range ids {
			if !there[i+1] {
				left = append(left, id)
			}
		}
		ids = left
	}
	return false, nil
}

// SendSubjects sends one message per subject to the queue of the job's kind.
func SendSubjects(ctx context.Context, q queue.Queue, j job.Job, subjects []string) error {
	if len(subjects) == 0 {
		return nil
	}
	bodies := make([]string, len(subjects))
	for i, s := range subjects {
		bodies[i] = queue.Subject{Job: j.ID, Subject: s}.Encode()
	}
	if err := q.Send(ctx, queue.Name(j.Kind), bodies...); err != nil {
		var u *queue.Unsent
		if errors.As(err, &u) && len(u.Indexes) > 0 {
			return fmt.Errorf("job %s: %d of %d subjects not sent, the first is %s: %w", j.ID, len(u.Indexes), len(subjects), subjects[u.Indexes[0]], err)
		}
		return fmt.Errorf("job %s: subjects not sent: %w", j.ID, err)
	}
	return nil
}
