package local

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/queue"
)

// source is an event source mapping at work: pollers that fill one batch each, and hand it to the function.
type source struct {
	mapping
	function *function
	line     *line
	pollers  []*poller
	turn     int // of the poller that receives next
}

// poller fills a batch by requests of up to ten messages, until it is full or the window has passed since its first message, and is busy until the function has answered.
// The messages are in flight from the moment they are received, as in AWS: batches are rarely full unless there is a backlog.
type poller struct {
	batch []*message
	since time.Time // of the first message
	busy  bool
}

func newSource(f *function, m mapping, l *line) *source {
	src := &source{mapping: m, function: f, line: l}
	for range m.concurrency {
		src.pollers = append(src.pollers, &poller{})
	}
	return src
}

// free is the poller that may receive next, nil if each is busy or full.
func (src *source) free() *poller {
	for range src.pollers {
		p := src.pollers[src.turn%len(src.pollers)]
		src.turn++
		if !p.busy && len(p.batch) < src.batch {
			return p
		}
	}
	return nil
}

func (s *Stack) stepSources(ctx context.Context, now time.Time) {
	for _, src := range s.sources {
		s.fill(ctx, src, now)
		waiting := false
		for _, p := range src.pollers {
			waiting = waiting || !p.busy
			if !p.busy && len(p.batch) > 0 {
				s.soon(p.since.Add(src.window))
			}
		}
		// If every poller is busy, the end of an invocation is what to wait for.
		if at, ok := src.line.nextVisible(); ok && waiting {
			s.soon(at)
		}
	}
}

func (s *Stack) fill(ctx context.Context, src *source, now time.Time) {
	for src.line.ready(now) > 0 {
		p := src.free()
		if p == nil {
			break
		}
		got := src.line.receive(now, min(queue.MaxBatch, src.batch-len(p.batch)))
		if len(p.batch) == 0 {
			p.since = now
		}
		p.batch = append(p.batch, got...)
	}
	for _, p := range src.pollers {
		s.beginIfDue(ctx, src, p, now)
	}
}

func (s *Stack) beginIfDue(ctx context.Context, src *source, p *poller, now time.Time) {
	due := len(p.batch) == src.batch || !now.Before(p.since.Add(src.window))
	if p.busy || len(p.batch) == 0 || !due {
		return
	}
	batch := p.batch
	p.batch, p.busy = nil, true
	s.worked = now
	records := make([]record, len(batch))
	for i, m := range batch {
		records[i] = record{m.messageID(), m.receipt(), m.body, m.receives, m.sent, m.first}
	}
	s.begin(func() {
		acknowledged := s.deliver(ctx, src, records)
		s.mu.Lock()
		defer s.mu.Unlock()
		src.line.remove(acknowledged...)
		p.busy = false
	})
}

// begin runs an invocation in its goroutine. The lock is held.
func (s *Stack) begin(work func()) {
	s.running++
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		work()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
		s.touch()
	}()
}

// deliver invokes the function with a batch and tells the receipts of the messages to delete. The others come back when their visibility timeout ends.
func (s *Stack) deliver(ctx context.Context, src *source, records []record) (acknowledged []string) {
	answer, err := s.invoke(ctx, src.function, "", sqsEvent(src.queue, records))
	if err != nil {
		return nil
	}
	failed := map[string]bool{}
	if src.partial {
		if failed, err = readAnswer(answer, records); err != nil {
			s.log.Warn("answer not understood, the whole batch returns", "function", src.function.name, "error", err)
			return nil
		}
	}
	for _, r := range records {
		if !failed[r.id] {
			acknowledged = append(acknowledged, r.receipt)
		}
	}
	return acknowledged
}

func arnOf(name queue.Name) string {
	return fmt.Sprintf("arn:aws:sqs:%s:%s:%s-%s", region, account, stackName, name)
}
