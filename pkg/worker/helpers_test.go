package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
)

// box is a queue that keeps what it gets.
type box struct {
	mu      sync.Mutex
	bodies  map[queue.Name][]string
	putOffs []putOff
}

type putOff struct {
	from     queue.Name
	delay    time.Duration
	receipts []string
}

func (b *box) Send(_ context.Context, to queue.Name, bodies ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bodies[to] = append(b.bodies[to], bodies...)
	return nil
}

func (b *box) PutOff(_ context.Context, from queue.Name, d time.Duration, receipts ...string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putOffs = append(b.putOffs, putOff{from, d, receipts})
	return nil
}

// take empties a queue.
func (b *box) take(from queue.Name) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.bodies[from]
	delete(b.bodies, from)
	return out
}

// logs keeps what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// bodies are the messages of subjects of a job.
func bodies(j job.Job, subjects ...string) []string {
	out := make([]string, len(subjects))
	for i, s := range subjects {
		out[i] = queue.Subject{Job: j.ID, Subject: s}.Encode()
	}
	return out
}

// event makes a delivery: message ids m0, m1 and so on, received for the first time.
func event(bodies ...string) events.SQSEvent {
	var e events.SQSEvent
	for i, b := range bodies {
		n := strconv.Itoa(i)
		e.Records = append(e.Records, events.SQSMessage{MessageId: "m" + n, ReceiptHandle: "r" + n, Body: b, Attributes: map[string]string{"ApproximateReceiveCount": "1"}})
	}
	return e
}

// failed are the message ids of an answer.
func failed(a events.SQSEventResponse) []string {
	out := []string{}
	for _, f := range a.BatchItemFailures {
		out = append(out, f.ItemIdentifier)
	}
	slices.Sort(out)
	return out
}

// names makes member ids: prefix-000 and so on.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%03d", prefix, i)
	}
	return out
}

// ids are the message ids of positions.
func ids(positions ...int) []string {
	out := []string{}
	for _, p := range positions {
		out = append(out, "m"+strconv.Itoa(p))
	}
	slices.Sort(out)
	return out
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	g, _ := json.Marshal(got)
	x, _ := json.Marshal(want)
	if !bytes.Equal(g, x) {
		t.Errorf("%s: got %s, want %s", what, g, x)
	}
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
