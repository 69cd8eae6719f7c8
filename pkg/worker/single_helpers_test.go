package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

const (
	til       once.Kind   = "til"
	summaries store.Table = "summaries"
	today                 = "member-42:2024-04-15"
)

// summary is a single kind whose outside call is what a test says.
type summary struct {
	result func(ctx context.Context, j job.Job) ([]once.Effect, error) // nil: a text at once
	items  func(j job.Job, e []once.Effect) []store.Write              // nil: the text and revision + 1

	wait time.Duration // no call before

	mu    sync.Mutex
	calls []job.Job // the outside calls, with the job as it was claimed
}

var (
	_ job.Single  = (*summary)(nil)
	_ job.Waiting = (*summary)(nil)
)

func (s *summary) Wait() time.Duration { return s.wait }

func (s *summary) Kind() once.Kind { return til }

func (s *summary) Result(ctx context.Context, j job.Job) ([]once.Effect, error) {
	s.mu.Lock()
	s.calls = append(s.calls, j)
	s.mu.Unlock()
	if s.result != nil {
		return s.result(ctx, j)
	}
	return text(j), nil
}

// text is a result that tells its attempt.
func text(j job.Job) []once.Effect {
	return []once.Effect{once.Put{Subject: j.Scope, Name: "til", Doc: fmt.Sprintf("attempt %d", j.Attempt)}}
}

func (s *summary) Items(j job.Job, effects []once.Effect) []store.Write {
	if s.items != nil {
		return s.items(j, effects)
	}
	return []store.Write{store.Update(rowKey(j.Scope), store.Attrs{"text": effects[0].(once.Put).Doc}, map[string]int64{"revision": 1})}
}

func (s *summary) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func rowKey(target string) store.Key { return store.Key{Table: summaries, PK: "row", SK: target} }

// desk is everything around the worker of a single kind: the real store, a queue that keeps what it gets, and the time of the bubble the test runs in.
type desk struct {
	t     *testing.T
	store store.Store
	kind  *summary
	jobs  *job.Store
	box   *box
	logs  *logs
	torn  bool // the test wrote into the store by hand: the audit has nothing to say
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// atDesk runs a test in a bubble of its own, where time passes by itself while everybody waits. A goroutine that is left when it is over fails the test: JOB-23.
func atDesk(t *testing.T, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newDesk(t, openBolt(t))) })
}

func newDesk(t *testing.T, s store.Store) *desk {
	d := &desk{t: t, store: s, kind: &summary{}, box: &box{bodies: map[queue.Name][]string{}}, logs: &logs{}, jobs: job.NewStore(s, now)}
	t.Cleanup(d.check)
	return d
}

// env is the world as a process sees it, with faults from a hook (nil: none).
func (d *desk) env(hook sim.Hook) job.Env {
	s, q := d.store, queue.Queue(d.box)
	if hook != nil {
		s, q = sim.Script(s, hook), sim.ScriptQueue(q, hook)
	}
	return job.Env{Store: s, Queue: q, Now: now, Log: slog.New(slog.NewJSONHandler(d.logs, nil)), Metric: func(once.Kind, string, float64) {}}
}

// open opens a job about a target, and the row of the target with it.
func (d *desk) open(target string) job.Job {
	d.t.Helper()
	j, opened, err := d.jobs.Open(d.t.Context(), job.Request{ID: job.NewID(til, now()), RequestedBy: "web", Opening: job.Opening{
		Kind: til, Slot: "til:" + target, Scope: target, Inputs: `{}`, Attempts: job.Attempts,
		With: []store.Write{store.Update(rowKey(target), nil, map[string]int64{"revision": 0})},
	}})
	if err != nil || !opened {
		d.t.Fatalf("open: %v, %v", opened, err)
	}
	return j
}

func (d *desk) job(j job.Job) job.Job {
	d.t.Helper()
	got, err := d.jobs.Find(context.Background(), j.ID)
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// claim claims a job as another worker does.
func (d *desk) claim(j job.Job) *job.Claim {
	d.t.Helper()
	c, err := d.jobs.Claim(d.t.Context(), d.job(j))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// requeue gives a job back as the reaper does.
func (d *desk) requeue(j job.Job) {
	d.t.Helper()
	if ok, err := d.jobs.Requeue(d.t.Context(), d.job(j)); !ok || err != nil {
		d.t.Fatal(ok, err)
	}
}

func (d *desk) cancel(j job.Job) {
	d.t.Helper()
	if _, done, err := d.jobs.Cancel(d.t.Context(), j.ID); !done || err != nil {
		d.t.Fatal(done, err)
	}
}

func (d *desk) free(j job.Job) bool {
	d.t.Helper()
	_, held, err := d.jobs.Holder(context.Background(), j.Slot)
	if err != nil {
		d.t.Fatal(err)
	}
	return !held
}

// row is the text of a target and how often one was published.
func (d *desk) row(target string) (text string, revision int64) {
	d.t.Helper()
	items, err := d.store.Get(context.Background(), rowKey(target))
	if err != nil {
		d.t.Fatal(err)
	}
	text, _ = items[0].Attrs["text"].(string)
	revision, _ = items[0].Attrs["revision"].(int64)
	return text, revision
}

// deliver hands a message of each job to a worker of a process of its own and returns what comes again.
func (d *desk) deliver(ctx context.Context, hook sim.Hook, list ...job.Job) []string {
	d.t.Helper()
	bodies := make([]string, len(list))
	for i, j := range list {
		bodies[i] = queue.Single{Job: j.ID}.Encode()
	}
	return d.handle(ctx, hook, event(bodies...))
}

func (d *desk) handle(ctx context.Context, hook sim.Hook, e events.SQSEvent) []string {
	d.t.Helper()
	answer, err := worker.NewSingle(d.env(hook), d.kind).Handle(ctx, e)
	if err != nil {
		d.t.Fatalf("Handle: %v", err)
	}
	if answer.BatchItemFailures == nil {
		d.t.Error("a nil list of failures is an answer that some take for a failure of all")
	}
	return failed(answer)
}

// ends checks how a job stands and whether its slot is free, as it is to be.
func (d *desk) ends(j job.Job, state job.State, reason, lastError string, attempt int) {
	d.t.Helper()
	got := d.job(j)
	if got.State != state || got.Reason != reason || got.LastError != lastError || got.Attempt != attempt {
		d.t.Errorf("job is %s %q, last error %q, in attempt %d; want %s %q, %q, %d", got.State, got.Reason, got.LastError, got.Attempt, state, reason, lastError, attempt)
	}
	if free := d.free(j); free == state.Active() {
		d.t.Errorf("%s, and the slot is free: %v", state, free)
	}
}

// snapshot is everything that the store holds of jobs and rows.
func (d *desk) snapshot() string {
	d.t.Helper()
	var b strings.Builder
	parts := []store.Query{{Table: job.Table, PK: "JOBS#til#" + now().Format("2006-01")}, {Table: summaries, PK: "row"}}
	for n := range 16 {
		parts = append(parts, store.Query{Table: job.Table, PK: fmt.Sprintf("SLOTS#%d", n)})
	}
	for _, q := range parts {
		page, err := d.store.Query(context.Background(), q)
		if err != nil || page.Next != "" {
			d.t.Fatal(page.Next, err)
		}
		for _, it := range page.Items {
			text, err := json.Marshal(it.Attrs)
			if err != nil {
				d.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s\n", it.Key, text)
		}
	}
	return b.String()
}

// unchanged runs f and checks that nothing was written and no call was made.
func (d *desk) unchanged(f func()) {
	d.t.Helper()
	calls, before := d.kind.called(), d.snapshot()
	f()
	equal(d.t, "the store afterwards", d.snapshot(), before)
	equal(d.t, "calls afterwards", d.kind.called(), calls)
}

// check asks the audit, counts publications against completed jobs, and looks whether every line of the log is one JSON object.
func (d *desk) check() {
	ctx := context.Background()
	if !d.torn {
		r, err := audit.Check(ctx, d.store, now(), nil, d.kind)
		if err != nil || !r.OK() {
			d.t.Errorf("audit: %v %s", err, strings.Join(r.Violations, "\n"))
		}
		jobs, _, err := d.jobs.List(ctx, til, now(), 0, "")
		if err != nil {
			d.t.Fatal(err)
		}
		completed := map[string]int64{}
		for _, j := range jobs {
			if completed[j.Scope] += 0; j.State == job.Completed {
				completed[j.Scope]++
			}
		}
		for target, n := range completed {
			if _, revision := d.row(target); revision != n {
				d.t.Errorf("%s was published %d times by %d completed jobs", target, revision, n)
			}
		}
	}
	for line := range strings.Lines(d.logs.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil || !strings.HasSuffix(line, "}\n") {
			d.t.Errorf("log line is not one JSON object: %q", line)
		}
	}
	if d.t.Failed() {
		d.t.Logf("log:\n%s", d.logs)
	}
}
