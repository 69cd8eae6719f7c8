package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

var seoul = time.FixedZone("KST", 9*60*60)

// april is the scheduled time of 2024-04 in UTC: 00:30 of 1 April in Seoul.
var april = time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)

// tables are those of a store under test.
var tables = []store.Table{job.Table, catalog.Table, monthlypoint.Table}

// openBolt makes an embedded store that the test closes.
func openBolt(t testing.TB) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type monthly = monthlypoint.Kind // a name that hides no method

// kind is the monthly grant, with effects that a test may replace.
type kind struct {
	*monthly
	effects func(j job.Job, subject string) ([]once.Effect, error)
}

func (k *kind) Effects(ctx context.Context, j job.Job, subject string) ([]once.Effect, error) {
	if k.effects != nil {
		return k.effects(j, subject)
	}
	return k.monthly.Effects(ctx, j, subject)
}

// world is everything around the worker: the real store, the real dispatcher and fan-out, the catalog, and a queue that keeps what it gets.
type world struct {
	t     *testing.T
	store store.Store
	kind  *kind
	jobs  *job.Store
	box   *box
	logs  *logs

	mu  sync.Mutex
	now time.Time

	members []string
	spoilt  bool // the test wrote into the store by hand: the audit has nothing to say
}

// newWorld makes a world with members, which are eligible. When the test is over it checks the invariants and the log.
func newWorld(t *testing.T, members ...string) *world { return newWorldOn(t, openBolt(t), members...) }

func newWorldOn(t *testing.T, s store.Store, members ...string) *world {
	t.Helper()
	w := &world{
		t: t, store: s, kind: &kind{monthly: monthlypoint.New(s, seoul)}, box: &box{bodies: map[queue.Name][]string{}}, logs: &logs{},
		now: april.Add(10 * time.Second),
	}
	w.jobs = job.NewStore(s, w.clock)
	w.addMembers(members...)
	t.Cleanup(w.check)
	return w
}

func (w *world) addMembers(ids ...string) {
	w.t.Helper()
	list := make([]catalog.Member, len(ids))
	for i, id := range ids {
		list[i] = catalog.Member{ID: id, Status: catalog.Active, JoinedAt: april.AddDate(-1, 0, 0)}
	}
	if _, err := catalog.New(w.store).PutMembers(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	w.members = append(w.members, ids...)
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

// env is the world as an engine sees it, with faults from a hook (nil: none).
func (w *world) env(hook sim.Hook) job.Env {
	s, q := store.Store(w.store), queue.Queue(w.box)
	if hook != nil {
		s, q = sim.Script(s, hook), sim.ScriptQueue(q, hook)
	}
	log := slog.New(slog.NewJSONHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return job.Env{Store: s, Queue: q, Now: w.clock, Log: log, Metric: func(once.Kind, string, float64) {}}
}

// worker is a process of its own.
func (w *world) worker(hook sim.Hook) *worker.Bulk { return worker.NewBulk(w.env(hook), w.kind) }

// forgetful is a store whose stale reads know nothing yet, which is their right.
type forgetful struct{ store.Store }

func (f forgetful) GetStale(_ context.Context, keys ...store.Key) ([]store.Item, error) {
	items := make([]store.Item, len(keys))
	for i, k := range keys {
		items[i].Key = k
	}
	return items, nil
}

// fire opens the job of a scheduled time by a firing and fans it out.
func (w *world) fire(scheduled time.Time, amount int64) job.Job {
	w.t.Helper()
	r, err := dispatch.NewDispatcher(w.env(nil), w.kind).Fire(w.t.Context(), w.kind, scheduled, []byte(monthlypoint.Inputs(amount)))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.fanOut(r.Job)
}

// run opens a job of 2024-04 again as an operator does, and fans it out. Its fan-out finds no entries, so that every member gets a message.
func (w *world) run(amount int64) job.Job {
	w.t.Helper()
	r, err := dispatch.NewDispatcher(w.env(nil), w.kind).Run(w.t.Context(), dispatch.Run{
		Kind: monthlypoint.Name, Period: "2024-04", Input: []byte(monthlypoint.Inputs(amount)), RequestedBy: "test", ChangeAmount: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.fanOut(r.Job)
}

func (w *world) fanOut(j job.Job) job.Job {
	w.t.Helper()
	env := w.env(nil)
	env.Store = forgetful{env.Store}
	f := dispatch.NewFanout(env, w.kind)
	var e events.SQSEvent
	for i, body := range w.box.take(queue.Segments) {
		e.Records = append(e.Records, events.SQSMessage{MessageId: fmt.Sprintf("segment-%d", i), Body: body})
	}
	answer, err := f.Handle(w.t.Context(), e)
	if err != nil || len(answer.BatchItemFailures) > 0 {
		w.t.Fatalf("fan-out: %d segments failed, %v\n%s", len(answer.BatchItemFailures), err, w.logs)
	}
	w.box.take(queue.Name(monthlypoint.Name)) // the tests deliver what they like
	return w.job(j.ID)
}

// cancel ends a job, so that another one of its period can be opened.
func (w *world) cancel(j job.Job) {
	w.t.Helper()
	if _, done, err := w.jobs.Cancel(w.t.Context(), j.ID); err != nil || !done {
		w.t.Fatalf("cancel: %v, %v", done, err)
	}
}

func (w *world) job(id string) job.Job {
	w.t.Helper()
	j, err := w.jobs.Find(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *world) counts(j job.Job) job.Counts {
	w.t.Helper()
	c, err := w.jobs.CountsOf(context.Background(), w.job(j.ID))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) reasons(j job.Job) map[string]int64 {
	w.t.Helper()
	r, err := w.jobs.FailuresByReason(context.Background(), j.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// history is what the ledger has of a member.
func (w *world) history(member string) ledger.History {
	w.t.Helper()
	h, err := ledger.New(w.store, monthlypoint.Table, w.clock).History(context.Background(), member, "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) balance(member string) int64 {
	return w.history(member).Balances[monthlypoint.Balance].N
}

// state is the state of the one entry of a member, "" if there is none.
func (w *world) state(member string) ledger.State {
	w.t.Helper()
	h := w.history(member)
	switch len(h.Entries) {
	case 0:
		return ""
	case 1:
		return h.Entries[0].State
	}
	w.t.Fatalf("%s has %d entries, want at most 1", member, len(h.Entries))
	return ""
}

// check compares counts, entries and balances, then asks the audit, and looks whether every line of the log is one JSON object.
func (w *world) check() {
	ctx := context.Background()
	entries := map[string]int64{}
	for _, m := range w.members {
		h := w.history(m)
		var sum, n int64
		for _, e := range h.Entries {
			if e.State == ledger.Applied {
				entries[e.Job]++
				sum += e.Amount
				if e.Balance != "" {
					n++
				}
			}
		}
		if b := h.Balances[monthlypoint.Balance]; !w.spoilt && (b.N != sum || b.Entries != n) {
			w.t.Errorf("balance of %s is %+v, want the sum %d of %d entries", m, b, sum, n)
		}
	}
	for _, month := range []time.Time{april, w.clock()} {
		jobs, _, err := w.jobs.List(ctx, monthlypoint.Name, month, 0, "")
		if err != nil {
			w.t.Fatal(err)
		}
		for _, j := range jobs {
			c, err := w.jobs.CountsOf(ctx, j)
			if err != nil {
				w.t.Fatal(err)
			}
			if c.Applied != entries[j.ID] {
				w.t.Errorf("job %s (%s) counted %d applied, and has %d applied entries", j.ID, j.State, c.Applied, entries[j.ID])
			}
		}
	}
	if !w.spoilt {
		r, err := audit.Check(ctx, w.store, w.clock(), nil, w.kind)
		if err != nil || !r.OK() {
			w.t.Errorf("audit: %v %s", err, strings.Join(r.Violations, "\n"))
		}
	}
	for line := range strings.Lines(w.logs.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil || !strings.HasSuffix(line, "}\n") {
			w.t.Errorf("log line is not one JSON object: %q", line)
		}
	}
	if w.t.Failed() {
		lines := slices.DeleteFunc(strings.Split(w.logs.String(), "\n"), func(l string) bool { return strings.Contains(l, `"msg":"segment"`) })
		w.t.Logf("log:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
}

// deliver hands bodies to a worker and returns the ids of the messages that come again.
func (w *world) deliver(b *worker.Bulk, bodies ...string) []string {
	w.t.Helper()
	return w.deliverCtx(w.t.Context(), b, bodies...)
}

func (w *world) deliverCtx(ctx context.Context, b *worker.Bulk, bodies ...string) []string {
	w.t.Helper()
	answer, err := b.Handle(ctx, event(bodies...))
	if err != nil {
		w.t.Fatalf("Handle: %v", err)
	}
	return failed(answer)
}

// snapshot is everything that a store holds in the partitions that a test can touch, for "nothing was written".
func (w *world) snapshot() string {
	w.t.Helper()
	all := map[string]store.Attrs{}
	add := func(table store.Table, pk string) {
		for q := (store.Query{Table: table, PK: pk}); ; {
			page, err := w.store.Query(context.Background(), q)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, it := range page.Items {
				all[it.Key.String()] = it.Attrs
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
	for _, m := range w.members {
		add(monthlypoint.Table, m)
	}
	jobs, _, err := w.jobs.List(context.Background(), monthlypoint.Name, april, 0, "")
	if err != nil {
		w.t.Fatal(err)
	}
	add(job.Table, "PERIODS#"+string(monthlypoint.Name))
	for n := range 16 {
		add(job.Table, fmt.Sprintf("SLOTS#%d", n))
	}
	for _, j := range jobs {
		add(job.Table, "JOBS#"+string(j.Kind)+"#"+j.CreatedAt.UTC().Format("2006-01"))
		add(job.Table, "SETTLED#"+j.ID)
		add(job.Table, "SEGMENTS#"+j.ID)
		for n := range j.Shards {
			add(job.Table, fmt.Sprintf("TALLY#%s#%03d", j.ID, n))
		}
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(all)) {
		text, err := json.Marshal(all[k])
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", k, text)
	}
	return b.String()
}
