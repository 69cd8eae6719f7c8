package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// class says what has to happen to a subject next.
type class int

const (
	toApply    class = iota // insert the entry, with its effects
	toTakeOver              // the entry is failed: put the applied one over it, with its effects
	toAlready               // applied by another job: settle
	toConflict              // applied by another job with other content: settle as failed
	toFail                  // fails for good: settle as failed, with an entry
	finished                // settled, or not to be settled any more: acknowledge
	handedBack              // not settled: comes again
)

// subject is one subject of a batch on its way.
type subject struct {
	posting      once.Posting
	class        class
	reason       string // of toFail
	failedBefore bool   // of toFail: the entry is failed already
	alone        bool   // goes in a transaction of its own
	invalid      bool   // was found invalid once
	tries        int
	outcome      string // of finished, for the log
	trouble      error  // the last try had no definite answer
	again        error  // of handedBack
}

func (s *subject) finish(outcome string) { s.class, s.outcome = finished, outcome }
func (s *subject) handBack(err error)    { s.class, s.again = handedBack, err }

// Bounds of one batch. What is beyond them is handed back; nothing is lost by that.
const (
	maxRounds = 40
	maxTries  = 8 // of one subject, under contention
	unknowns  = 3 // tries of one group without a definite answer
	parallel  = 2 // groups at a time: a full delivery is two
)

// batch settles the subjects of one job in one delivery.
type batch struct {
	w        *Bulk
	job      job.Job
	cause    ledger.Cause
	subjects []*subject
	byName   map[string]*subject
	fenced   atomic.Bool
	margin   time.Duration
	granted  func(context.Context) bool // the job has applied something: read once
}

func newBatch(w *Bulk, j job.Job) *batch {
	b := &batch{w: w, job: j, cause: ledger.Cause{Job: j.ID, Inputs: j.Inputs, Scheduled: j.Scheduled}, byName: map[string]*subject{}}
	var read sync.Once
	var some bool
	b.granted = func(ctx context.Context) bool {
		read.Do(func() {
			t, err := w.jobs.TallyOf(ctx, j)
			some = err == nil && t.Applied > 0
		})
		return some
	}
	return b
}

// add asks the kind for the effects of a subject. One that occurs twice in a delivery is one.
func (b *batch) add(ctx context.Context, name string) {
	if b.byName[name] != nil {
		return
	}
	s := &subject{}
	b.byName[name] = s
	b.subjects = append(b.subjects, s)
	key, err := once.NewKey(b.job.Kind, b.job.Scope, name)
	if err == nil {
		s.posting.Key = key
		s.posting.Effects, err = b.effects(ctx, name)
	}
	if reason := job.ReasonOf(err); reason != "" {
		s.class, s.reason = toFail, reason
		return
	}
	if err == nil {
		err = s.posting.Check()
	}
	if err != nil {
		s.handBack(fmt.Errorf("effects of %s: %w", name, err))
	}
}

// giveUp adds subjects that are to be settled as failed, unless their entry says otherwise by then.
func (b *batch) giveUp(names []string, reason string) error {
	for _, name := range names {
		key, err := once.NewKey(b.job.Kind, b.job.Scope, name)
		if err != nil {
			return err
		}
		b.subjects = append(b.subjects, &subject{posting: once.Posting{Key: key}, class: toFail, reason: reason})
	}
	return nil
}

func (b *batch) effects(ctx context.Context, name string) (out []once.Effect, err error) {
	defer job.CatchPanic(&err)
	return b.w.kind.Effects(ctx, b.job, name)
}

// run goes round until every subject is finished or handed back.
func (b *batch) run(ctx context.Context) {
	b.margin = min(3*time.Second, job.Left(ctx)/4)
	for range maxRounds {
		groups := b.groups()
		if len(groups) == 0 {
			return
		}
		var wg sync.WaitGroup
		next := make(chan []*subject, len(groups))
		for _, g := range groups {
			next <- g
		}
		close(next)
		for range min(parallel, len(groups)) {
			wg.Go(func() {
				for g := range next {
					b.attempt(ctx, g)
				}
			})
		}
		wg.Wait()
	}
	for _, s := range b.subjects {
		if s.class < finished {
			s.handBack(errors.New("no end after many rounds"))
		}
	}
}

// groups packs what is left, by class. Subjects that go alone wait until the others are through.
func (b *batch) groups() [][]*subject {
	var byClass [finished][]*subject
	var alone [][]*subject
	for _, s := range b.subjects {
		switch {
		case s.class >= finished:
		case s.alone:
			alone = append(alone, []*subject{s})
		default:
			byClass[s.class] = append(byClass[s.class], s)
		}
	}
	size := groupSizes[b.w.size.Load()]
	var out [][]*subject
	for c, all := range byClass {
		most := size
		if class(c) == toTakeOver {
			most = min(size, ledger.MaxTakeOver)
		}
		for len(all) > most {
			out = append(out, all[:most])
			all = all[most:]
		}
		if len(all) > 0 {
			out = append(out, all)
		}
	}
	if len(out) > 0 {
		return out
	}
	return alone
}

// attempt carries out one group and decides what becomes of each of its subjects.
func (b *batch) attempt(ctx context.Context, g []*subject) {
	if b.fenced.Load() {
		b.fence(g)
		return
	}
	if ctx.Err() != nil || job.Left(ctx) < b.margin {
		for _, s := range g {
			s.handBack(cmp.Or(s.trouble, errNoTime)) // after trouble with a pause: the store may need it
		}
		return
	}
	err := b.transact(ctx, g)
	var refused *ledger.Refused
	var busy *ledger.Busy
	switch {
	case err == nil:
		b.succeed(g)
	case errors.As(err, &refused):
		b.refused(ctx, g, refused)
	case errors.As(err, &busy):
		b.busy(g, busy)
	default:
		b.unknown(g, err)
	}
}

// transact writes the group with one shard. The caller's writes are the count, and behind it one per subject where the class has one.
func (b *batch) transact(ctx context.Context, g []*subject) (err error) {
	defer job.CatchPanic(&err)
	jobs, n := b.w.jobs, int64(len(g))
	shard := int(b.w.shard.Add(1) % uint32(b.job.Shards))
	postings := make([]once.Posting, len(g))
	keys := make([]once.Key, len(g))
	before := make([]bool, len(g))
	settle := make([]store.Write, 0, len(g))
	for i, s := range g {
		postings[i], keys[i], before[i] = s.posting, s.posting.Key, s.failedBefore
		name := s.posting.Key.Subject()
		switch s.class {
		case toTakeOver:
			settle = append(settle, jobs.NotSettled(b.job, name))
		case toAlready:
			settle = append(settle, jobs.SettledAlready(b.job, name))
		case toConflict:
			settle = append(settle, jobs.SettledFailed(b.job, name, job.ReasonConflictingEntry))
		case toFail:
			settle = append(settle, jobs.SettledFailed(b.job, name, s.reason))
		}
	}
	with := func(c job.Counts) []store.Write {
		return append([]store.Write{jobs.Count(b.job.ID, shard, c)}, settle...)
	}
	switch g[0].class {
	case toApply:
		return b.w.ledger.Apply(ctx, b.cause, postings, with(job.Counts{Applied: n})...)
	case toTakeOver:
		return b.w.ledger.TakeOver(ctx, b.cause, postings, with(job.Counts{Applied: n})...)
	case toFail:
		return b.w.ledger.Fail(ctx, b.cause, keys, before, with(job.Counts{Failed: n})...)
	case toAlready:
		return asLedger(jobs.Settle(ctx, b.job, shard, job.Counts{Already: n}, settle...))
	default:
		return asLedger(jobs.Settle(ctx, b.job, shard, job.Counts{Failed: n}, settle...))
	}
}

// asLedger gives the errors of a settlement, which concerns no ledger, the form of the others: its writes are in the order of `with`.
func asLedger(err error) error {
	var refused *store.Refused
	var busy *store.Busy
	switch {
	case errors.As(err, &refused):
		return &ledger.Refused{With: refused.By}
	case errors.As(err, &busy):
		return &ledger.Busy{With: busy.Conflicts, Err: err}
	}
	return err
}

func (b *batch) succeed(g []*subject) {
	outcome := map[class]string{toApply: "applied", toTakeOver: "applied", toAlready: "already"}[g[0].class]
	if outcome == "applied" {
		b.w.accepted.Store(true)
	}
	for _, s := range g {
		switch s.class {
		case toConflict:
			s.finish(job.ReasonConflictingEntry)
		case toFail:
			s.finish(s.reason)
		default:
			s.finish(outcome)
		}
	}
	if i := b.w.size.Load(); i > 0 {
		b.w.size.CompareAndSwap(i, i-1)
	}
}

// fence acknowledges: the job is over, nothing may be written for it any more.
func (b *batch) fence(g []*subject) {
	b.fenced.Store(true)
	for _, s := range g {
		s.finish("fenced")
	}
}

func (b *batch) refused(ctx context.Context, g []*subject, r *ledger.Refused) {
	for _, by := range r.With {
		if by.Invalid != "" { // can never be accepted: that says nothing of the shard, nor of what is settled
			b.unknown(g, fmt.Errorf("job %s: a count or a settlement can never be accepted: %s", b.job.ID, by.Invalid))
			return
		}
	}
	for _, by := range r.With {
		if by.Index == 0 {
			b.fence(g)
			return
		}
		g[by.Index-1].finish("settled")
	}
	for _, by := range r.Postings {
		s := g[by.Index]
		if s.class == finished {
			continue
		}
		if by.Why != "" && by.Outcome != ledger.Invalid {
			b.w.env.Log.ErrorContext(ctx, "entry cannot be read, nothing is granted over it", "kind", b.job.Kind, "job", b.job.ID, "key", s.posting.Key.String(), "outcome", by.Outcome.String(), "error", by.Why)
		}
		switch by.Outcome {
		case ledger.Duplicate:
			s.finish("duplicate")
		case ledger.Already:
			s.class = toAlready
		case ledger.Conflicting:
			s.class = toConflict
		case ledger.FailedOnce:
			if s.class == toFail {
				s.failedBefore = true
			} else {
				s.class = toTakeOver
			}
		case ledger.None:
			if s.class == toFail {
				s.failedBefore = false
			} else {
				s.class = toApply
			}
		case ledger.Invalid:
			b.invalid(ctx, s, by.Why)
		}
	}
}

// invalid decides about a posting that the store can never accept. Where nothing of the kind was ever accepted, the deployment is wrong and not the subject.
func (b *batch) invalid(ctx context.Context, s *subject, why string) {
	switch {
	case b.w.accepted.Load() || b.granted(ctx):
		s.class, s.reason = toFail, job.ReasonInvalid
	case !s.invalid:
		s.invalid, s.alone = true, true // once more, after its neighbours have gone through or not
	default:
		s.handBack(fmt.Errorf("%s can never be accepted (%s), and no posting of its kind ever was: is the deployment right?", s.posting.Key, why))
	}
}

// busy: what is in conflict goes alone, a conflict on the shard moves on to the next, throttling halves the group.
func (b *batch) busy(g []*subject, r *ledger.Busy) {
	for _, i := range r.Postings {
		g[i].alone = true
	}
	for _, i := range r.With {
		if i > 0 {
			g[i-1].alone = true
		}
	}
	if len(r.Postings)+len(r.With) == 0 {
		if i := b.w.size.Load(); int(i) < len(groupSizes)-1 {
			b.w.size.CompareAndSwap(i, i+1)
		}
		time.Sleep(rand.N(200 * time.Millisecond))
	}
	for _, s := range g {
		if s.tries++; s.tries >= maxTries {
			s.handBack(r)
		}
	}
}

// unknown: the same call again is always correct. A group that goes on failing is taken apart, so that one subject cannot hold up its neighbours.
func (b *batch) unknown(g []*subject, err error) {
	for _, s := range g {
		s.tries++
		s.trouble = err
		switch {
		case s.tries < unknowns:
		case len(g) > 1:
			s.alone, s.tries = true, unknowns-1
		default:
			s.handBack(err)
		}
	}
}

func (b *batch) outcomes() map[string]int {
	out := map[string]int{}
	for _, s := range b.subjects {
		if s.class == finished {
			out[s.outcome]++
		} else {
			out["again"]++
		}
	}
	return out
}

func (b *batch) settledAny() bool {
	for _, s := range b.subjects {
		if s.class == finished {
			return true
		}
	}
	return false
}
