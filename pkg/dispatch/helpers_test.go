package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// box is a queue that keeps what it gets.
type box struct {
	mu       sync.Mutex
	bodies   map[queue.Name][]string
	sent     int
	requests int // as SQS would bill them: sends
	putOffs  []time.Duration
}

func (b *box) Send(_ context.Context, to queue.Name, bodies ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies[to] = append(b.bodies[to], bodies...)
	b.sent += len(bodies)
	b.requests += (len(bodies) + queue.MaxBatch - 1) / queue.MaxBatch
	return nil
}

func (b *box) PutOff(_ context.Context, _ queue.Name, d time.Duration, _ ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putOffs = append(b.putOffs, d)
	return nil
}

// take takes up to n messages, all if n is 0.
func (b *box) take(from queue.Name, n int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.bodies[from]
	if n == 0 || n > len(all) {
		n = len(all)
	}
	b.bodies[from] = all[n:]
	return all[:n:n]
}

func (b *box) waiting(name queue.Name) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.bodies[name])
}

// event makes a delivery.
func event(bodies ...string) events.SQSEvent {
	var e events.SQSEvent
	for i, b := range bodies {
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: fmt.Sprintf("m%d", i), ReceiptHandle: fmt.Sprintf("r%d", i), Body: b, Attributes: map[string]string{"ApproximateReceiveCount": "1"},
		})
	}
	return e
}

// names makes member ids: prefix-000 and so on.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// inSegment makes n member ids of one segment, in order.
func inSegment(segment, n int) []string {
	var out []string
	for i := 0; len(out) < n; i++ {
		if id := fmt.Sprintf("member-%06d", i); job.SegmentOf(id, job.Segments) == segment {
			out = append(out, id)
		}
	}
	return out
}

func segmentBody(j job.Job, n int) string { return queue.Segment{Job: j.ID, Segment: n}.Encode() }

// subjectsOf reads the subjects of messages.
func subjectsOf(t testing.TB, bodies []string) []string {
	t.Helper()
	out := []string{}
	for _, b := range bodies {
		s, err := queue.DecodeSubject(b)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s.Subject)
	}
	return out
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	g, _ := json.Marshal(got)
	x, _ := json.Marshal(want)
	if !bytes.Equal(g, x) {
		t.Errorf("%s: got %s, want %s", what, g, x)
	}
}

// errNoAnswer leaves open what happened.
var errNoAnswer = errors.New("no answer")

// fault is a way in which one call of a process goes wrong.
type fault string

const (
	fails  fault = "fails"          // it does not happen
	lost   fault = "answer lost"    // it happens
	before fault = "killed before"  // it does not happen, nor does anything after it
	behind fault = "killed behind"  // it happens, and nothing after it
	half   fault = "half of a send" // only the first half of the messages are accepted; other calls fail
	busy   fault = "turned away"    // *store.Busy; other calls fail
)

var faults = []fault{fails, lost, before, behind, half, busy}

// strike makes a hook that lets the n-th call of a store or a queue go wrong. reached tells whether there was one.
func (w *world) strike(n int, f fault) (hook sim.Hook, reached func() bool) {
	var mu sync.Mutex
	calls := 0
	return func(c sim.Call) (bool, error) {
			mu.Lock()
			calls++
			at := calls
			mu.Unlock()
			switch {
			case at < n:
				return true, nil
			case at > n:
				if f == before || f == behind {
					return false, sim.ErrKilled
				}
				return true, nil
			}
			switch f {
			case lost, behind:
				return true, errNoAnswer
			case half:
				if c.Op == sim.Send {
					_ = w.box.Send(c.Ctx, c.Queue, c.Bodies[:len(c.Bodies)/2]...)
					return false, &queue.Unsent{To: c.Queue, Indexes: []int{len(c.Bodies) - 1}, Err: errNoAnswer}
				}
			case busy:
				if c.Op == sim.Transact {
					return false, &store.Busy{Reason: "ThrottlingError"}
				}
			}
			return false, errNoAnswer
		}, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return calls >= n
		}
}
