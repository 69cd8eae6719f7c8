package local

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"hanbeon/pkg/queue"
)

// port is the queue as handlers see it.
type port struct{ s *Stack }

var _ queue.Queue = port{}

// Send implements queue.Queue. What SQS refuses is refused: a queue that does not exist, an empty or oversized body, a character outside its set.
func (p port) Send(ctx context.Context, to queue.Name, bodies ...string) error {
	refused := &queue.Unsent{To: to}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	l := p.s.lines[to]
	now := p.s.clock.Now()
	request := 0 // bytes of the bodies in it
	entries := 0
	for i, body := range bodies {
		err := ctx.Err()
		if err == nil && l == nil {
			err = errors.New("no such queue")
		}
		if err == nil {
			err = checkBody(body)
		}
		if err != nil {
			refused.Indexes, refused.Err = append(refused.Indexes, i), err
			continue
		}
		if entries == queue.MaxBatch || request+len(body) > queue.MaxBytes {
			l.counts.requests += chunks(request)
			request, entries = 0, 0
		}
		request += len(body)
		entries++
		copies, late := 1, time.Duration(0)
		if p.s.faults != nil {
			copies, late = p.s.faults.Arrival(to)
		}
		l.put(now, body, copies, late)
	}
	if entries > 0 {
		l.counts.requests += chunks(request)
	}
	p.s.touch()
	if len(refused.Indexes) > 0 {
		return refused
	}
	return nil
}

// chunks is what AWS bills for a request: each 64 KiB of it counts as one (SQS pricing).
func chunks(bytes int) int64 { return int64(max(1, (bytes+64*1024-1)/(64*1024))) }

// checkBody holds the rules of SendMessage: 1 byte to 1 MiB, and the characters of XML 1.0.
func checkBody(body string) error {
	if body == "" || len(body) > queue.MaxBytes {
		return fmt.Errorf("body of %d bytes, want 1 to %d", len(body), queue.MaxBytes)
	}
	for i, c := range body {
		switch {
		case c >= ' ' && c <= 0x7e, c == '\t', c == '\n', c == '\r':
		case c < ' ', c == 0xfffe, c == 0xffff:
			return fmt.Errorf("character %U at byte %d is outside the set of SQS", c, i)
		case c == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(body[i:]); size == 1 {
				return fmt.Errorf("byte %d is not UTF-8", i)
			}
		}
	}
	return nil
}

// PutOff implements queue.Queue. Receipts of an earlier receive are ignored, as are those of messages that are gone.
func (p port) PutOff(ctx context.Context, from queue.Name, d time.Duration, receipts ...string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d < 0 || d > queue.MaxDelay {
		return fmt.Errorf("queue %s: put off by %v, want 0 to %v", from, d, queue.MaxDelay)
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	l := p.s.lines[from]
	if l == nil {
		return fmt.Errorf("queue %s: no such queue", from)
	}
	l.putOff(p.s.clock.Now(), d, receipts...)
	p.s.touch()
	return nil
}

// Stats are what the queues of a stack hold and did.
type Stats struct {
	Deliveries int64 // messages handed to functions
	Duplicates int64 // of those, messages that had been handed out before
	Requests   int64 // requests that AWS would bill: sends, receives, deletes, visibility changes, ten messages each; not the polling of empty queues
	Queues     map[queue.Name]QueueStats
}

// QueueStats are those of one queue.
type QueueStats struct {
	Visible    int
	Hidden     int // in flight, put off or late
	Deliveries int64
	Duplicates int64
	Requests   int64
	Expired    int64 // dropped after the retention period
}

// Stats adds up the queues.
func (s *Stack) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Queues: map[queue.Name]QueueStats{}}
	now := s.clock.Now()
	for name, l := range s.lines {
		l.expire(now)
		st.Deliveries += l.counts.deliveries
		st.Duplicates += l.counts.duplicates
		st.Requests += l.counts.requests
		st.Queues[name] = QueueStats{l.shown, len(l.hidden), l.counts.deliveries, l.counts.duplicates, l.counts.requests, l.counts.expired}
	}
	return st
}

// Redrive moves the dead letters of a queue back to it and tells how many there were. They count as new messages: their receives and their age begin again.
func (s *Stack) Redrive(to queue.Name) (moved int, err error) {
	return s.operate(to, func(l *line) (int, error) {
		if l.dead == nil {
			return 0, fmt.Errorf("queue %s has no dead letters", to)
		}
		return l.redrive(s.clock.Now()), nil
	})
}

// Purge deletes every message of a queue, also those in flight, and tells how many there were.
func (s *Stack) Purge(name queue.Name) (deleted int, err error) {
	return s.operate(name, func(l *line) (int, error) { return l.purge(), nil })
}

func (s *Stack) operate(name queue.Name, f func(*line) (int, error)) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[name]
	if l == nil {
		return 0, fmt.Errorf("queue %s: no such queue", name)
	}
	defer s.touch()
	return f(l)
}
