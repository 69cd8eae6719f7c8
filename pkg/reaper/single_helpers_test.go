package reaper_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

const (
	til       queue.Name  = "til"
	summaries store.Table = "summaries"
	today                 = "member-42:2024-04-15"
)

// summary is a small single kind. Its result is a text that names the job, and its writes count the publications of the target and of each job.
type summary struct {
	result func(ctx context.Context, j job.Job) ([]once.Effect, error) // nil: a text at once

	mu    sync.Mutex
	calls map[string]int // by job
}

var _ job.Single = (*summary)(nil)

func (s *summary) Kind() once.Kind { return once.Kind(til) }

func (s *summary) Result(ctx context.Context, j job.Job) ([]once.Effect, error) {
	s.mu.Lock()
	s.calls[j.ID]++
	s.mu.Unlock()
	if s.result != nil {
		return s.result(ctx, j)
	}
	return nil, nil
}

func (s *summary) Items(j job.Job, _ []once.Effect) []store.Write {
	return []store.Write{
		store.Update(rowKey(j.Scope), store.Attrs{"text": j.ID}, map[string]int64{"revision": 1}),
		store.Update(rowKey(j.ID), nil, map[string]int64{"n": 1}),
	}
}

func (s *summary) called(j job.Job) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[j.ID]
}

func rowKey(name string) store.Key { return store.Key{Table: summaries, PK: "row", SK: name} }

// desk is a world with a single kind, in a bubble whose time is the time.
type desk struct {
	*world
	jobs *job.Store
	til  *summary
	seen []string // ids of the jobs that were opened
}

func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// atDesk runs a test in a bubble of its own; in the end the invariants hold.
func atDesk(t *testing.T, f func(t *testing.T, d *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		f(t, d)
		d.sound()
		if t.Failed() {
			lines := strings.Split(d.log.String(), "\n")
			t.Logf("log:\n%s", strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
}

func newDesk(t testing.TB) *desk {
	w := newWorld(t)
	return &desk{world: w, jobs: job.NewStore(w.store, now), til: &summary{calls: map[string]int{}}}
}

// env is the world of a process, with faults from a hook (nil: none).
func (d *desk) env(hook sim.Hook) job.Env {
	s := d.store
	if hook != nil {
		s = sim.Script(s, hook)
	}
	e := d.world.env(s)
	e.Now = now
	if hook != nil {
		e.Queue = sim.ScriptQueue(d.world, hook)
	}
	return e
}

func opening(target string) job.Opening {
	return job.Opening{
		Kind: once.Kind(til), Slot: string(til) + ":" + target, Scope: target, Inputs: `{}`, Attempts: job.Attempts,
		With: []store.Write{store.Update(rowKey(target), nil, map[string]int64{"revision": 0})},
	}
}

// ask opens a job about a target through a dispatcher.
func (d *desk) ask(hook sim.Hook, target string) (job.Job, error) {
	d.t.Helper()
	r, err := dispatch.NewDispatcher(d.env(hook), d.til).Open(d.t.Context(), job.Request{Opening: opening(target), RequestedBy: "web"})
	if r.Opened {
		d.seen = append(d.seen, r.Job.ID)
	}
	return r.Job, err
}

func (d *desk) open() job.Job {
	d.t.Helper()
	j, err := d.ask(nil, today)
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

func (d *desk) claim(j job.Job) *job.Claim {
	d.t.Helper()
	c, err := d.jobs.Claim(d.t.Context(), d.find(j.ID))
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// publish completes a claim as a worker does.
func (d *desk) publish(c *job.Claim) {
	d.t.Helper()
	if err := c.Complete(d.t.Context(), d.til.Items(c.Job(), nil)...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) cancel(j job.Job) {
	d.t.Helper()
	if _, done, err := d.jobs.Cancel(d.t.Context(), j.ID); !done || err != nil {
		d.t.Fatal(done, err)
	}
}

// work delivers every message of the kind once, each to a worker of its own.
func (d *desk) work(hook sim.Hook) {
	d.t.Helper()
	for _, m := range d.take(til) {
		ctx, cancel := context.WithTimeout(d.t.Context(), 150*time.Second)
		d.deliverTo(ctx, worker.NewSingle(d.env(hook), d.til), func() bool { return false }, []message{m})
		cancel()
	}
}

// die delivers every message once to a worker that dies at its n-th transaction, which happens, or not. The message of one that died comes back.
func (d *desk) die(n int, happens bool) {
	d.t.Helper()
	for _, m := range d.take(til) {
		ctx, die := context.WithCancel(d.t.Context())
		dead := false
		hook := func(c sim.Call) (bool, error) {
			if dead {
				return false, sim.ErrKilled
			}
			if c.Op == sim.Transact && c.N == n {
				dead = true
				c.After(die)
				return happens, sim.ErrKilled
			}
			return true, nil
		}
		d.deliverTo(ctx, worker.NewSingle(d.env(hook), d.til), func() bool { return dead }, []message{m})
		die()
	}
}

func (d *desk) reaper(hook sim.Hook) *reaper.Reaper {
	return reaper.New(d.env(hook), paused, d.til)
}

func (d *desk) reap() {
	d.t.Helper()
	if err := d.reaper(nil).Handle(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// reapFor lets the reaper run each minute for a while.
func (d *desk) reapFor(long time.Duration) {
	d.t.Helper()
	for range int(long / time.Minute) {
		time.Sleep(time.Minute)
		d.reap()
	}
}

// ends checks how a job stands, and its slot.
func (d *desk) ends(j job.Job, state job.State, reason string, attempt int) {
	d.t.Helper()
	got := d.find(j.ID)
	if got.State != state || got.Reason != reason || got.Attempt != attempt {
		d.t.Errorf("job is %s %q in attempt %d, last error %q; want %s %q in attempt %d", got.State, got.Reason, got.Attempt, got.LastError, state, reason, attempt)
	}
	held, ok, err := d.jobs.Holder(d.t.Context(), j.Slot)
	if err != nil || (ok && held.Job == j.ID) != state.Active() {
		d.t.Errorf("%s, and its slot is held by %q (%v)", state, held.Job, err)
	}
}

func (d *desk) number(name, attr string) int64 {
	d.t.Helper()
	items, err := d.store.Get(d.t.Context(), rowKey(name))
	if err != nil {
		d.t.Fatal(err)
	}
	n, _ := items[0].Attrs[attr].(int64)
	return n
}

// sound checks the invariants on the whole store, and that each COMPLETED job, and no other, has published once.
func (d *desk) sound() {
	d.t.Helper()
	r, err := audit.Check(d.t.Context(), d.store, now(), nil, d.kind, d.til)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, v := range r.Violations {
		d.t.Error(v)
	}
	completed := map[string]int64{}
	for month := now(); ; month = month.AddDate(0, -1, 0) {
		jobs, _, err := d.jobs.List(d.t.Context(), once.Kind(til), month, 0, "")
		if err != nil {
			d.t.Fatal(err)
		}
		for _, j := range jobs {
			want := int64(0)
			if completed[j.Scope] += 0; j.State == job.Completed {
				want = 1
				completed[j.Scope]++
			}
			if n := d.number(j.ID, "n"); n != want {
				d.t.Errorf("job %s is %s and has published %d times", j.ID, j.State, n)
			}
			if n := d.til.called(j); n > j.MaxAttempts {
				d.t.Errorf("job %s made %d calls in %d attempts", j.ID, n, j.MaxAttempts)
			}
		}
		if month.Year() < 2000 { // bubbles begin with the year 2000
			break
		}
	}
	for target, n := range completed {
		if got := d.number(target, "revision"); got != n {
			d.t.Errorf("%s was published %d times by %d COMPLETED jobs", target, got, n)
		}
	}
}

// bodies are the jobs whose messages wait.
func (d *desk) bodies() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.queues[til] {
		s, err := queue.DecodeSingle(m.body)
		if err != nil {
			d.t.Fatal(err)
		}
		ids = append(ids, s.Job)
	}
	slices.Sort(ids)
	return ids
}

// unchanged runs f and checks that the job, its slot and the queue are as they were.
func (d *desk) unchanged(j job.Job, f func()) {
	d.t.Helper()
	look := func() string {
		held, _, err := d.jobs.Holder(d.t.Context(), j.Slot)
		return fmt.Sprintf("%+v\n%+v\n%v %v", d.find(j.ID), held, d.bodies(), err)
	}
	before := look()
	f()
	same(d.t, "job, slot and queue", look(), before)
}

// newSingle is a worker of a process of its own.
func newSingle(d *desk, hook sim.Hook) *worker.Single { return worker.NewSingle(d.env(hook), d.til) }
