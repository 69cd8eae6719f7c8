package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

const til = queue.Name("til")

// summary is a single kind, of which the dispatcher needs no more than the name.
type summary struct{}

var _ job.Single = summary{}

func (summary) Kind() once.Kind { return once.Kind(til) }

func (summary) Result(context.Context, job.Job) ([]once.Effect, error) { return nil, nil }

func (summary) Items(job.Job, []once.Effect) []store.Write { return nil }

// ask is a request for a single job about a target; with a key where there is one.
func ask(target, key string) job.Request {
	r := job.Request{RequestedBy: "web", Opening: job.Opening{
		Kind: once.Kind(til), Slot: "til:" + target, Scope: target, Inputs: "{}", Attempts: job.Attempts,
		With: []store.Write{store.Update(store.Key{Table: "summaries", PK: "row", SK: target}, nil, map[string]int64{"revision": 0})},
	}}
	if key != "" {
		r.Idempotency = &job.Idempotency{Caller: "web", Key: key, Digest: "of " + target}
	}
	return r
}

// newDesk is a world whose audit knows the single kind.
func newDesk(t *testing.T) (*world, *dispatch.Dispatcher) {
	w := newWorld(t)
	w.others = []job.Kind{summary{}}
	return w, dispatch.NewDispatcher(w.env(nil), summary{})
}

// singles are the single jobs there are, newest first.
func (w *world) singles() []job.Job {
	w.t.Helper()
	jobs, _, err := w.jobs.List(context.Background(), once.Kind(til), april, 0, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

// An opening sends one message to the queue of the kind, which says which job and nothing else.
func TestOpenASingleJob(t *testing.T) {
	t.Parallel()
	w, d := newDesk(t)
	r, err := d.Open(t.Context(), ask("a", ""))
	if err != nil || !r.Opened || r.Job.State != job.Pending || !strings.HasPrefix(r.Job.ID, "til-") {
		t.Fatalf("got %+v, %v", r, err)
	}
	equal(t, "messages", w.box.waiting(til), []string{`{"v":1,"job":"` + r.Job.ID + `"}`})
	equal(t, "messages in all", w.box.sent, 1)
	equal(t, "jobs", len(w.singles()), 1)
}

// JOB-01: 1,000 requests at once for 100 targets are exactly 100 jobs with one message each, and 900 answers that name them.
func TestAThousandRequestsForAHundredTargets(t *testing.T) {
	t.Parallel()
	const targets, requests = 100, 1000
	w, d := newDesk(t)
	var mu sync.Mutex
	opened, named := map[string]string{}, map[string]int{} // job by target; how often a job was named as the one in the way
	inTheWay := map[string]map[string]bool{}               // jobs that were named, by target
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range requests {
		target := fmt.Sprintf("member-%03d:2024-04-15", i%targets)
		all.Go(func() {
			<-start
			r, err := d.Open(context.Background(), ask(target, ""))
			mu.Lock()
			defer mu.Unlock()
			var active *job.ActiveError
			switch {
			case err == nil && r.Opened && opened[target] == "":
				opened[target] = r.Job.ID
			case errors.As(err, &active):
				named[active.Job.ID]++
				if inTheWay[target] == nil {
					inTheWay[target] = map[string]bool{}
				}
				inTheWay[target][active.Job.ID] = true
			default:
				t.Errorf("%s: got %+v, %v after %q", target, r, err, opened[target])
			}
		})
	}
	close(start)
	all.Wait()
	equal(t, "jobs opened", len(opened), targets)
	equal(t, "jobs", len(w.singles()), targets)
	for target, id := range opened {
		if named[id] != requests/targets-1 || len(inTheWay[target]) != 1 || !inTheWay[target][id] {
			t.Errorf("%s: %s was named %d times, want 9; named were %v", target, id, named[id], inTheWay[target])
		}
	}
	sent := map[string]int{}
	for _, body := range w.box.take(til, 0) {
		m, err := queue.DecodeSingle(body)
		if err != nil {
			t.Fatal(err)
		}
		sent[m.Job]++
	}
	for target, id := range opened {
		if sent[id] != 1 {
			t.Errorf("%s: %d messages", target, sent[id])
		}
	}
	equal(t, "jobs with a message", len(sent), targets)
}

// The same with callers that send each request twice at once, under a key: both copies of the request that wins get its job, and all others are told of it.
func TestCopiesUnderLoad(t *testing.T) {
	t.Parallel()
	const targets, keys, copies = 40, 5, 3
	w, d := newDesk(t)
	var mu sync.Mutex
	answers := map[string]map[string]int{} // by key: the jobs it got, "409 " before those it was told of
	opened := 0
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range targets * keys * copies {
		target := fmt.Sprint("target-", i%targets)
		key := fmt.Sprint(target, "/", i/targets%keys)
		all.Go(func() {
			<-start
			r, err := d.Open(context.Background(), ask(target, key))
			mu.Lock()
			defer mu.Unlock()
			if answers[key] == nil {
				answers[key] = map[string]int{}
			}
			var active *job.ActiveError
			switch {
			case errors.As(err, &active):
				answers[key]["409 "+active.Job.ID]++
			case err != nil:
				t.Error(err)
			default:
				answers[key][r.Job.ID]++
				if r.Opened {
					opened++
				}
			}
		})
	}
	close(start)
	all.Wait()
	equal(t, "opened", opened, targets)
	equal(t, "jobs", len(w.singles()), targets)
	won := 0
	for key, got := range answers {
		if len(got) != 1 {
			t.Errorf("the copies of %s got %v, want one answer", key, got)
		}
		for answer := range got {
			if !strings.HasPrefix(answer, "409 ") {
				won++
			}
		}
	}
	equal(t, "keys that won", won, targets)
}

// A repeated request sends the message again while its job waits, because the first may have died before it did; of a job that is at work or over nothing is sent.
func TestARepeatedRequestSendsAgainOnlyWhatWaits(t *testing.T) {
	t.Parallel()
	w, d := newDesk(t)
	first, err := d.Open(t.Context(), ask("a", "key"))
	if err != nil {
		t.Fatal(err)
	}
	again := func(what string, messages int) {
		w.box.take(til, 0)
		r, err := d.Open(t.Context(), ask("a", "key"))
		if err != nil || r.Opened || r.Job.ID != first.Job.ID {
			t.Errorf("%s: got %s, opened %v, %v", what, r.Job.ID, r.Opened, err)
		}
		equal(t, what+": messages", len(w.box.waiting(til)), messages)
	}
	again("waits", 1)
	c, err := w.jobs.Claim(t.Context(), first.Job)
	if err != nil {
		t.Fatal(err)
	}
	again("works", 0)
	if err := c.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	again("is over", 0)
	// Another request with the key is refused, and sends nothing either.
	var reused *job.ReusedError
	if _, err := d.Open(t.Context(), ask("b", "key")); !errors.As(err, &reused) || reused.Job != first.Job.ID {
		t.Errorf("got %v, want *ReusedError", err)
	}
	equal(t, "messages", len(w.box.waiting(til)), 0)
	equal(t, "jobs", len(w.singles()), 1)
}

// Answers that are lost: an opening is tried three times under one id and finds itself again. When every answer is lost the request fails, the job waits for the reaper, and the same request finds it by its key.
func TestOpeningWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		key     string
		happens bool
		lost    int // transactions without an answer
		fails   bool
	}{
		{"lost once", "", true, 1, false},
		{"lost twice", "", true, 2, false},
		{"failed twice", "", false, 2, false},
		{"always lost", "", true, 9, true},
		{"always failed", "", false, 9, true},
		{"lost once, with a key", "key", true, 1, false},
		{"lost twice, with a key", "key", true, 2, false},
		{"always lost, with a key", "key", true, 9, false}, // found by its record, without another transaction
		{"always failed, with a key", "key", false, 9, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, d := newDesk(t)
			transactions := 0
			bad := dispatch.NewDispatcher(w.env(func(c sim.Call) (bool, error) {
				if c.Op != sim.Transact {
					return true, nil
				}
				if transactions++; c.N <= tt.lost {
					return tt.happens, sim.ErrNoAnswer
				}
				return true, nil
			}), summary{})
			r, err := bad.Open(t.Context(), ask("a", tt.key))
			if tt.fails != errors.Is(err, sim.ErrNoAnswer) || !tt.fails && (!r.Opened || r.Job.ID != w.singles()[0].ID) {
				t.Errorf("got %+v, %v", r, err)
			}
			if transactions > 3 {
				t.Errorf("%d transactions, want at most three", transactions)
			}
			jobs := len(w.singles())
			if want := 1; jobs != want && !(tt.fails && !tt.happens) {
				t.Errorf("%d jobs, want %d", jobs, want)
			}
			if !tt.fails {
				equal(t, "messages", len(w.box.waiting(til)), 1)
				return
			}
			// The caller asks again.
			again, err := d.Open(t.Context(), ask("a", tt.key))
			var active *job.ActiveError
			if !tt.happens && (err != nil || !again.Opened) || tt.happens && !errors.As(err, &active) {
				t.Errorf("again: %+v, %v", again, err)
			}
			equal(t, "jobs", len(w.singles()), 1)
		})
	}
}

// What is definite is not tried again.
func TestDefiniteAnswersAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	w, d := newDesk(t)
	if _, err := d.Open(t.Context(), ask("a", "key")); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		request job.Request
		busy    bool
		calls   int // of the store
	}{
		"active": {ask("a", ""), false, 3}, // the transaction; who was first, itself or the holder
		"reused": {ask("b", "key"), false, 1},
		"busy":   {ask("c", ""), true, 1},
	} {
		calls := 0
		_, err := dispatch.NewDispatcher(w.env(func(c sim.Call) (bool, error) {
			calls++
			if c.Op == sim.Transact && tt.busy {
				return false, &store.Busy{Reason: "ThrottlingError"}
			}
			return true, nil
		}), summary{}).Open(t.Context(), tt.request)
		if err == nil || calls != tt.calls {
			t.Errorf("%s: %v after %d calls, want %d", name, err, calls, tt.calls)
		}
	}
}

// A message that is not accepted is told together with the job, which is open: the reaper sends it. JOB-03
func TestASingleMessageThatIsNotSent(t *testing.T) {
	t.Parallel()
	w, _ := newDesk(t)
	r, err := dispatch.NewDispatcher(w.env(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			return false, &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: errors.New("ServiceUnavailable")}
		}
		return true, nil
	}), summary{}).Open(t.Context(), ask("a", ""))
	var unsent *queue.Unsent
	if !errors.As(err, &unsent) || !r.Opened || r.Job.ID != w.singles()[0].ID || !strings.Contains(err.Error(), r.Job.ID) {
		t.Errorf("got %+v, %v; want the job and *queue.Unsent", r, err)
	}
}

// A run of a period under a key is not run again by its copy, before and after its end.
func TestARepeatedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names("member", 3)...)
	run := func(key string) dispatch.Result {
		r, err := w.dispatcher(nil).Run(t.Context(), dispatch.Run{
			Kind: monthlypoint.Name, Period: "2024-04", Input: []byte(monthlypoint.Inputs(100)), RequestedBy: "test",
			Idempotency: &job.Idempotency{Caller: "operator", Key: key, Digest: "run 2024-04"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := run("key")
	for range 2 {
		if again := run("key"); again.Opened || again.Job.ID != first.Job.ID {
			t.Errorf("got %s, opened %v, want %s", again.Job.ID, again.Opened, first.Job.ID)
		}
		w.drain()
		w.later(time.Hour)
	}
	if next := run("another"); !next.Opened {
		t.Error("a new request opened nothing")
	}
	w.drain()
	equal(t, "jobs", len(w.list()), 2)
	w.granted(100, names("member", 3)...)
}
