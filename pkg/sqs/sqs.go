package sqs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"hanbeon/pkg/queue"
)

const (
	parallel = 4 // requests of one call in flight
	tries    = 5 // requests for one batch, each with the SDK's own retries inside

	// The pause before a further try is random between 0 and a bound that doubles from the first to the longest.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Queue implements queue.Queue. Make one with New.
type Queue struct {
	client   *sqs.Client
	urls     map[queue.Name]string
	requests atomic.Int64
}

var _ queue.Queue = (*Queue)(nil)

// New is the queues whose URLs are given; a queue that is not among them is an error when it is used. The client brings its own timeout per request: an
// attempt without one could hang until the function is killed.
func New(client *sqs.Client, urls map[queue.Name]string) *Queue {
	return &Queue{client: client, urls: urls}
}

// Requests is the number of requests made so far. The SDK's own retries are not among them.
func (q *Queue) Requests() int64 { return q.requests.Load() }

// Send implements queue.Queue. Bodies are JSON; see escape for what SQS does not take.
func (q *Queue) Send(ctx context.Context, to queue.Name, bodies ...string) error {
	url, err := q.url(to)
	if err != nil {
		return &queue.Unsent{To: to, Indexes: positions(len(bodies)), Err: err}
	}
	unsent := &failures{}
	entries := make([]entry, 0, len(bodies))
	for i, body := range bodies {
		legal, err := escape(body)
		if err != nil {
			unsent.add(err, i)
			continue
		}
		entries = append(entries, entry{index: i, body: legal})
	}
	each(batches(entries), func(batch []entry) {
		left, err := q.sendBatch(ctx, url, batch)
		for _, e := range left {
			unsent.add(err, e.index)
		}
	})
	if len(unsent.indexes) == 0 {
		return nil
	}
	slices.Sort(unsent.indexes)
	return &queue.Unsent{To: to, Indexes: unsent.indexes, Err: unsent.err}
}

// PutOff implements queue.Queue. SQS counts in seconds: a part of one is rounded up, so that nothing comes back early.
func (q *Queue) PutOff(ctx context.Context, from queue.Name, d time.Duration, receipts ...string) error {
	url, err := q.url(from)
	if err != nil {
		return err
	}
	d = max(0, min(d, queue.MaxDelay))
	seconds := int32((d + time.Second - 1) / time.Second)
	refused := &failures{}
	each(slices.Collect(slices.Chunk(receipts, queue.MaxBatch)), func(batch []string) {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url}
		for i, r := range batch {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &r, VisibilityTimeout: seconds})
		}
		q.requests.Add(1)
		out, err := q.client.ChangeMessageVisibilityBatch(ctx, in)
		if err != nil {
			refused.add(err, positions(len(batch))...)
			return
		}
		for _, f := range out.Failed {
			refused.add(reason(f), 0)
		}
	})
	if n := len(refused.indexes); n > 0 {
		return fmt.Errorf("queue %s: %d of %d messages not put off: %w", from, n, len(receipts), refused.err)
	}
	return nil
}

func (q *Queue) url(name queue.Name) (string, error) {
	url := q.urls[name]
	if url == "" {
		return "", fmt.Errorf("queue %s: this function was not given its URL", name)
	}
	return url, nil
}

// entry is a body and its position among the bodies of the call.
type entry struct {
	index int
	body  string
}

// sendBatch sends one batch until each entry was accepted or the tries are used up. It returns the entries that were not, and the last reason.
func (q *Queue) sendBatch(ctx context.Context, url string, batch []entry) (left []entry, last error) {
	left = batch
	for try := range tries {
		if try > 0 {
			pause(ctx, try)
		}
		if err := ctx.Err(); err != nil {
			if last == nil {
				last = err
			}
			return left, last
		}
		if left, last = q.request(ctx, url, left); len(left) == 0 {
			return nil, nil
		}
	}
	return left, last
}

// request is one SendMessageBatch. The ids of the entries are their positions: a subject may hold what SQS does not allow in an id, or be there twice.
func (q *Queue) request(ctx context.Context, url string, batch []entry) (left []entry, err error) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &url}
	for i, e := range batch {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &e.body})
	}
	q.requests.Add(1)
	out, err := q.client.SendMessageBatch(ctx, in)
	if err != nil {
		return batch, err
	}
	// An entry counts as sent when the answer says so, not when it fails to say the opposite.
	accepted := make(map[string]bool, len(batch))
	for _, s := range out.Successful {
		accepted[aws.ToString(s.Id)] = true
	}
	err = fmt.Errorf("the answer names %d of %d messages", len(out.Successful)+len(out.Failed), len(batch))
	for _, f := range out.Failed {
		delete(accepted, aws.ToString(f.Id))
		err = reason(f)
	}
	for i, e := range batch {
		if !accepted[strconv.Itoa(i)] {
			left = append(left, e)
		}
	}
	return left, err
}

// reason says why SQS refused an entry. Every field of it is optional.
func reason(f types.BatchResultErrorEntry) error {
	return fmt.Errorf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message))
}

// batches cuts entries into requests that SQS takes: 10 entries, 1 MiB of bodies.
func batches(entries []entry) (out [][]entry) {
	bytes := 0
	for i, e := range entries {
		n := len(out)
		if i == 0 || len(out[n-1]) == queue.MaxBatch || bytes+len(e.body) > queue.MaxBytes {
			out, bytes, n = append(out, nil), 0, n+1
		}
		out[n-1] = append(out[n-1], e)
		bytes += len(e.body)
	}
	return out
}

// each calls do for every element, a few at once, and returns when all have returned.
func each[T any](all []T, do func(T)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for _, one := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			do(one)
		})
	}
	wg.Wait()
}

// pause waits before try number try (1 and up), or until the context ends.
func pause(ctx context.Context, try int) {
	bound := min(firstPause<<(try-1), longestPause)
	t := time.NewTimer(rand.N(bound))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// failures collects what went wrong in parallel requests.
type failures struct {
	mu      sync.Mutex
	indexes []int
	err     error // the last
}

func (f *failures) add(err error, indexes ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.indexes = append(f.indexes, indexes...)
	f.err = err
}

func positions(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
