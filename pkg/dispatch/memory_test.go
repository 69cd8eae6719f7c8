package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/worker"
)

// through is a queue that hands a full delivery to the worker at once and keeps no message.
type through struct {
	t      testing.TB
	worker *worker.Bulk
	batch  events.SQSEvent
}

func (q *through) Send(ctx context.Context, to queue.Name, bodies ...string) error {
	for i, b := range bodies {
		q.batch.Records = append(q.batch.Records, events.SQSMessage{MessageId: fmt.Sprint("m", i), Body: b})
		if len(q.batch.Records) == 98 {
			q.deliver(ctx)
		}
	}
	return nil
}

func (q *through) deliver(ctx context.Context) {
	out, err := q.worker.Handle(ctx, q.batch)
	if err != nil || len(out.BatchItemFailures) > 0 {
		q.t.Errorf("worker: %v %v", out, err)
	}
	q.batch.Records = nil
}

func (q *through) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

// The memory of fan-out and worker is that of a page and a delivery, however many members there are. Not parallel: what other tests keep would be counted.
func TestMemoryDoesNotGrowWithTheMembers(t *testing.T) {
	const few, many = 4 * job.PageSubjects, 100 * job.PageSubjects
	var last uint64
	heap := map[int]uint64{}
	for _, members := range []int{few, many} {
		w := newWorld(t)
		w.fire()
		j := w.only()
		listed := 0
		w.kind.subjects = func(segment int, cursor string) ([]string, string, error) {
			from := 0
			if cursor != "" {
				var err error
				if from, err = strconv.Atoi(cursor); err != nil {
					return nil, "", err
				}
			}
			var page []string
			i := from
			for ; len(page) < job.PageSubjects; i++ {
				if id := fmt.Sprintf("member-%09d", i); job.SegmentOf(id, job.Segments) == segment {
					page = append(page, id)
				}
			}
			if listed += len(page); listed < members {
				return page, fmt.Sprintf("%09d", i), nil
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			last = m.HeapAlloc
			return page, "", nil
		}
		env := w.env(nil)
		env.Log = slog.New(slog.DiscardHandler) // the world keeps its log
		q := &through{t: t, worker: worker.NewBulk(env, w.kind)}
		env.Queue = q
		if again := w.segments(dispatch.NewFanout(env, w.kind), segmentBody(j, 3)); len(again) > 0 {
			t.Fatal("the segment was not finished")
		}
		q.deliver(t.Context())
		if got := w.segment(j, 3).Count; got != int64(members) {
			t.Errorf("count %d, want %d", got, members)
		}
		heap[members] = last
	}
	const noise = 4 << 20
	if heap[many] > heap[few]+noise {
		t.Errorf("heap of %d bytes with %d members and %d bytes with %d, want no growth", heap[few], few, heap[many], many)
	}
	t.Logf("heap: %d KB with %d members, %d KB with %d", heap[few]>>10, few, heap[many]>>10, many)
}
