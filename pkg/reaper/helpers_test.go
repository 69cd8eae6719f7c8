package reaper_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

const points store.Table = "points"

// gift is a small kind with a calendar: one posting per name in its map, every month at 00:30 UTC of the first day.
type gift struct {
	name once.Kind

	mu        sync.Mutex
	subjects  map[string]bool
	page      int              // subjects of a page, 0: all
	permanent map[string]bool  // subjects that fail for good
	transient map[string]bool  // subjects that fail every time
	broken    map[int]bool     // segments that cannot be listed
	calls     map[string]int64 // of Effects, by subject
}

var (
	_ job.Bulk      = (*gift)(nil)
	_ job.Scheduled = (*gift)(nil)
)

func newGift(name once.Kind, subjects ...string) *gift {
	g := &gift{name: name, subjects: map[string]bool{}, permanent: map[string]bool{}, transient: map[string]bool{}, broken: map[int]bool{}, calls: map[string]int64{}}
	for _, s := range subjects {
		g.subjects[s] = true
	}
	return g
}

// change alters what the kind says.
func (g *gift) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

func (g *gift) Kind() once.Kind     { return g.name }
func (g *gift) Ledger() store.Table { return points }

func (g *gift) Subjects(_ context.Context, j job.Job, segment int, cursor string) ([]string, string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken[segment] {
		return nil, "", errors.New("the source is broken")
	}
	var out []string
	for s, in := range g.subjects {
		if in && s > cursor && job.SegmentOf(s, j.Segments) == segment {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	if g.page > 0 && len(out) > g.page {
		return out[:g.page], out[g.page-1], nil
	}
	return out, "", nil
}

func (g *gift) Effects(_ context.Context, j job.Job, subject string) ([]once.Effect, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[subject]++
	switch {
	case g.permanent[subject]:
		return nil, job.Permanent("gone", errors.New("no such person"))
	case g.transient[subject]:
		return nil, errors.New("not now")
	}
	var in struct{ Amount int64 }
	if err := json.Unmarshal([]byte(j.Inputs), &in); err != nil {
		return nil, err
	}
	return []once.Effect{once.Add{Subject: subject, Name: "points", N: in.Amount}}, nil
}

func (g *gift) Open(scheduled time.Time, input []byte) (job.Opening, error) {
	var in struct{ Amount int64 }
	if err := json.Unmarshal(input, &in); err != nil || in.Amount < 1 {
		return job.Opening{}, fmt.Errorf("amount: want a number from 1 on: %v", err)
	}
	p := once.MonthOf(scheduled, time.UTC)
	return job.Opening{
		Kind: g.name, Slot: string(g.name) + ":" + string(p), Scope: string(p), Period: p, Scheduled: scheduled.UTC(), Inputs: fmt.Sprintf(`{"amount":%d}`, in.Amount),
	}, nil
}

func (g *gift) Calendar(from once.Period, now time.Time) (due []job.Due) {
	for p := from; ; p = p.Next() {
		at := p.Start(time.UTC).Add(30 * time.Minute)
		if at.After(now) {
			return due
		}
		due = append(due, job.Due{Period: p, Scheduled: at, Deadline: at.Add(24 * time.Hour)})
	}
}

// message is one of a queue.
type message struct {
	to       queue.Name
	body     string
	receives int
}

// world is a whole system in memory: the real engines on the real store, queues that are slices, and a clock that stands still.
type world struct {
	t     testing.TB
	store store.Store
	kind  *gift
	jobs  *job.Store
	log   *bytes.Buffer

	mu      sync.Mutex
	now     time.Time
	queues  map[queue.Name][]message
	dlq     []message
	metrics map[string][]float64 // by kind/name
	logged  sync.Mutex
}

// maxReceives is how often a message is received before it moves to the DLQ.
const maxReceives = 8

var april = time.Date(2024, 4, 1, 0, 30, 0, 0, time.UTC)

func newWorld(t testing.TB, subjects ...string) *world {
	t.Helper()
	b, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{points}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	w := &world{t: t, store: b, kind: newGift("gift", subjects...), log: &bytes.Buffer{}, now: april, queues: map[queue.Name][]message{}, metrics: map[string][]float64{}}
	w.jobs = job.NewStore(b, w.clock)
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) later(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// Send and PutOff make the world a queue.
func (w *world) Send(_ context.Context, to queue.Name, bodies ...string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range bodies {
		w.queues[to] = append(w.queues[to], message{to: to, body: b})
	}
	return nil
}

func (w *world) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

type lockedLog struct{ w *world }

func (l lockedLog) Write(p []byte) (int, error) {
	l.w.logged.Lock()
	defer l.w.logged.Unlock()
	return l.w.log.Write(p)
}

// env is the world of one process. s may put faults before the store.
func (w *world) env(s store.Store) job.Env {
	return job.Env{
		Store: s, Queue: w, Now: w.clock, Log: slog.New(slog.NewJSONHandler(lockedLog{w}, nil)),
		Metric: func(kind once.Kind, name string, v float64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.metrics[string(kind)+"/"+name] = append(w.metrics[string(kind)+"/"+name], v)
		},
	}
}

func (w *world) event(amount int64) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"kind":%q,"scheduledTime":%q,"amount":%d}`, w.kind.name, april.Format(time.RFC3339), amount))
}

// open opens a job of April as a firing does and sends its segments.
func (w *world) open() job.Job {
	w.t.Helper()
	if err := dispatch.NewDispatcher(w.env(w.store), w.kind).Handle(w.t.Context(), w.event(100)); err != nil {
		w.t.Fatal(err)
	}
	return w.latest()
}

// run opens a job of April as an operator does.
func (w *world) run() job.Job {
	w.t.Helper()
	r, err := dispatch.NewDispatcher(w.env(w.store), w.kind).Run(w.t.Context(), dispatch.Run{Kind: w.kind.name, Period: "2024-04", Input: []byte(`{"amount":100}`), RequestedBy: "operator"})
	if err != nil || !r.Opened {
		w.t.Fatal(r.Opened, err)
	}
	return r.Job
}

// latest is the last job of April.
func (w *world) latest() job.Job {
	w.t.Helper()
	rec, ok, err := w.jobs.FindPeriod(w.t.Context(), w.kind.name, "2024-04")
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
	return w.find(rec.LastJob)
}

func (w *world) find(id string) job.Job {
	w.t.Helper()
	j, err := w.jobs.Find(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// handler is a fan-out or a worker.
type handler interface {
	Handle(context.Context, events.SQSEvent) (events.SQSEventResponse, error)
}

// deliver hands messages to a handler; what it does not acknowledge goes back, or to the DLQ.
func (w *world) deliver(h handler, batch ...message) {
	w.t.Helper()
	w.deliverTo(w.t.Context(), h, func() bool { return false }, batch)
}

// deliverTo is deliver to a process that may be dead when it is through: then nobody sees what it answers, and every message goes back.
func (w *world) deliverTo(ctx context.Context, h handler, dead func() bool, batch []message) {
	var e events.SQSEvent
	for i, m := range batch {
		batch[i].receives = m.receives + 1
		e.Records = append(e.Records, events.SQSMessage{MessageId: fmt.Sprint(i), ReceiptHandle: fmt.Sprint(i), Body: m.body, Attributes: map[string]string{"ApproximateReceiveCount": fmt.Sprint(m.receives + 1)}})
	}
	out, err := h.Handle(ctx, e)
	back := map[string]bool{}
	for _, f := range out.BatchItemFailures {
		back[f.ItemIdentifier] = true
	}
	everything := err != nil || dead()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, m := range batch {
		switch {
		case !everything && !back[fmt.Sprint(i)]:
		case m.receives >= maxReceives:
			w.dlq = append(w.dlq, m)
		default:
			w.queues[m.to] = append(w.queues[m.to], m)
		}
	}
}

func (w *world) fanout() *dispatch.Fanout { return dispatch.NewFanout(w.env(w.store), w.kind) }
func (w *world) worker() *worker.Bulk     { return worker.NewBulk(w.env(w.store), w.kind) }

// take empties a queue.
func (w *world) take(from queue.Name) []message {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.queues[from]
	delete(w.queues, from)
	return out
}

// fanOut delivers every segment message once.
func (w *world) fanOut() {
	w.t.Helper()
	for _, m := range w.take(queue.Segments) {
		w.deliver(w.fanout(), m)
	}
}

// work delivers every subject message once.
func (w *world) work() {
	w.t.Helper()
	worker := w.worker()
	for batch := range slices.Chunk(w.take(queue.Name(w.kind.name)), 98) {
		w.deliver(worker, batch...)
	}
}

// waiting counts the messages in a queue.
func (w *world) waiting(in queue.Name) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queues[in])
}

func (w *world) reaper(c job.Calendar, kinds ...job.Kind) *reaper.Reaper {
	if len(kinds) == 0 {
		kinds = []job.Kind{w.kind}
	}
	return reaper.New(w.env(w.store), c, kinds...)
}

// paused is a calendar that begins after the tests: the watch over periods has nothing to do.
var paused = job.Calendar{Start: "2099-01"}

// reap is one run of the reaper, which must go well.
func (w *world) reap() {
	w.t.Helper()
	if err := w.reaper(paused).Handle(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// balances are the points of everybody who has some.
func (w *world) balances(subjects ...string) map[string]int64 {
	w.t.Helper()
	l := ledger.New(w.store, points, w.clock)
	out := map[string]int64{}
	for _, s := range subjects {
		h, err := l.History(w.t.Context(), s, "", 0)
		if err != nil {
			w.t.Fatal(err)
		}
		if b := h.Balances["points"]; b.N != 0 {
			out[s] = b.N
		}
	}
	return out
}

// sound checks the invariants on the whole store.
func (w *world) sound() {
	w.t.Helper()
	r, err := audit.Check(w.t.Context(), w.store, w.clock(), nil, w.kind)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, v := range r.Violations {
		w.t.Error(v)
	}
}

// over checks how a job ended, and the invariants.
func (w *world) over(id string, state job.State, reason string, c job.Counts) {
	w.t.Helper()
	j := w.find(id)
	if got := (job.Counts{Applied: j.Applied, Already: j.Already, Failed: j.Failed}); j.State != state || j.Reason != reason || got != c {
		w.t.Errorf("job is %s %q with %+v of %d, want %s %q with %+v", j.State, j.Reason, got, j.Total, state, reason, c)
	}
	if held, ok, err := w.jobs.Holder(w.t.Context(), j.Slot); err != nil || ok && held.Job == id {
		w.t.Errorf("the slot is held by %s (%v)", held.Job, err)
	}
	w.sound()
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("member-%02d", i)
	}
	return out
}

// all is the same amount for each.
func all(n int64, subjects ...string) map[string]int64 {
	out := map[string]int64{}
	for _, s := range subjects {
		out[s] = n
	}
	return out
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// says tells whether a line of the log has all these texts.
func (w *world) says(texts ...string) bool {
	w.logged.Lock()
	defer w.logged.Unlock()
	for line := range strings.Lines(w.log.String()) {
		if !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
			return true
		}
	}
	return false
}

// newWorker is a worker whose store is s.
func newWorker(w *world, s store.Store) *worker.Bulk { return worker.NewBulk(w.env(s), w.kind) }

// slotKey finds the key of a slot as the store has it.
func slotKey(t testing.TB, w *world, held job.Slot) store.Key {
	t.Helper()
	var key store.Key
	s := sim.Script(w.store, func(c sim.Call) (bool, error) {
		if c.Op == sim.Get {
			key = c.Keys[0]
		}
		return true, nil
	})
	if _, _, err := job.NewStore(s, w.clock).Holder(t.Context(), held.Slot); err != nil {
		t.Fatal(err)
	}
	return key
}
