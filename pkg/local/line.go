package local

import (
	"container/heap"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hanbeon/pkg/queue"
)

// queueSpec is what the template says about a queue.
type queueSpec struct {
	name        queue.Name
	visibility  time.Duration
	retention   time.Duration
	deadLetters queue.Name // "": none
	maxReceives int        // of a queue with dead letters
}

// line is one queue: what is visible, oldest first, and what is not visible yet, in a heap by the time at which it will be. Every operation is O(log n) or better.
// It has no lock; its owner has.
type line struct {
	spec queueSpec
	dead *line // dead letters; nil: none

	visible []*message // from head on; a message that was deleted while visible is still there, marked gone
	head    int
	shown   int // messages in visible that are not gone
	hidden  hidden
	by      map[uint64]*message // every message that was received and not deleted, by number

	numbers *uint64 // last number given; shared by all queues of a stack
	counts  counts
}

// counts are what a line did so far.
type counts struct {
	deliveries, duplicates, requests, expired int64
}

// message is one copy of a message.
type message struct {
	number   uint64 // of this copy
	id       uint64 // message id; a duplicate has that of the first copy
	twins    *twins // shared by the copies of a duplicated message; nil: there is one
	body     string
	sent     time.Time
	first    time.Time // first receive
	receives int
	at       time.Time // hidden until
	index    int       // in the heap; -1: not there
	gone     bool
}

type twins struct{ delivered bool }

func newLine(spec queueSpec, numbers *uint64) *line {
	return &line{spec: spec, by: map[uint64]*message{}, numbers: numbers}
}

func (l *line) number() uint64 {
	*l.numbers++
	return *l.numbers
}

// put accepts a message in some copies, the last of them late.
func (l *line) put(now time.Time, body string, copies int, late time.Duration) {
	var t *twins
	if copies > 1 {
		t = &twins{}
	}
	id := uint64(0)
	for i := range copies {
		m := &message{number: l.number(), twins: t, body: body, sent: now, index: -1}
		if id == 0 {
			id = m.number
		}
		m.id = id
		if i == copies-1 && late > 0 {
			l.hide(m, now.Add(late))
		} else {
			l.show(m)
		}
	}
}

func (l *line) show(m *message) {
	if l.head > 1024 && l.head > len(l.visible)/2 {
		n := copy(l.visible, l.visible[l.head:])
		clear(l.visible[n:])
		l.visible, l.head = l.visible[:n], 0
	}
	l.visible = append(l.visible, m)
	l.shown++
}

func (l *line) hide(m *message, until time.Time) {
	m.at = until
	heap.Push(&l.hidden, m)
}

// ready promotes what has become visible and tells how many messages are.
func (l *line) ready(now time.Time) int {
	for len(l.hidden) > 0 && !l.hidden[0].at.After(now) {
		l.show(heap.Pop(&l.hidden).(*message))
	}
	return l.shown
}

// nextVisible is when the next hidden message becomes visible.
func (l *line) nextVisible() (time.Time, bool) {
	if len(l.hidden) == 0 {
		return time.Time{}, false
	}
	return l.hidden[0].at, true
}

// receive takes up to n messages, and hides them for the visibility timeout. A message whose receives are used up goes to the dead letters instead, one
// that is too old is dropped.
func (l *line) receive(now time.Time, n int) []*message {
	var got []*message
	for l.ready(now) > 0 && len(got) < n {
		m := l.visible[l.head]
		l.visible[l.head] = nil
		l.head++
		if m.gone {
			continue
		}
		l.shown--
		switch {
		case !m.sent.Add(l.spec.retention).After(now):
			delete(l.by, m.number)
			m.gone = true
			l.counts.expired++
		case l.dead != nil && m.receives >= l.spec.maxReceives:
			delete(l.by, m.number)
			l.dead.show(m) // keeps its id and its age, as SQS does
		default:
			if m.receives++; m.receives == 1 {
				m.first = now
			}
			l.counts.deliveries++
			if m.receives > 1 || m.twins != nil && m.twins.delivered {
				l.counts.duplicates++
			}
			if m.twins != nil {
				m.twins.delivered = true
			}
			l.by[m.number] = m
			l.hide(m, now.Add(l.spec.visibility))
			got = append(got, m)
		}
	}
	l.counts.requests += requests(len(got))
	return got
}

// receipt stands for one receive of one message.
func (m *message) receipt() string {
	return strconv.FormatUint(m.number, 36) + "." + strconv.Itoa(m.receives)
}

// messageID has the shape of SQS's: a UUID.
func (m *message) messageID() string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", m.id) }

// find is the message of a receipt, nil if it was deleted, moved away or received again since.
func (l *line) find(receipt string) *message {
	number, receives, _ := strings.Cut(receipt, ".")
	n, err := strconv.ParseUint(number, 36, 64)
	if m := l.by[n]; err == nil && m != nil && strconv.Itoa(m.receives) == receives {
		return m
	}
	return nil
}

// remove deletes messages. A receipt that has run out still deletes while nobody has received the message again, as in SQS.
func (l *line) remove(receipts ...string) {
	l.counts.requests += requests(len(receipts))
	for _, r := range receipts {
		m := l.find(r)
		if m == nil {
			continue
		}
		delete(l.by, m.number)
		m.gone = true
		if m.index >= 0 {
			heap.Remove(&l.hidden, m.index)
		} else {
			l.shown--
		}
		m.body = ""
	}
}

// putOff makes messages in flight visible d from now.
func (l *line) putOff(now time.Time, d time.Duration, receipts ...string) {
	l.counts.requests += requests(len(receipts))
	for _, r := range receipts {
		m := l.find(r)
		if m == nil || m.index < 0 || !m.at.After(now) {
			continue // not in flight
		}
		m.at = now.Add(d)
		heap.Fix(&l.hidden, m.index)
	}
}

// redrive moves every message of the dead letters back. They count as new: number, age and receives begin again (SQS Developer Guide, "dead-letter queue redrive").
func (l *line) redrive(now time.Time) (moved int) {
	d := l.dead
	for d != nil && d.ready(now) > 0 {
		m := d.visible[d.head]
		d.visible[d.head] = nil
		d.head++
		if m.gone {
			continue
		}
		d.shown--
		delete(d.by, m.number)
		if m.sent.Add(d.spec.retention).After(now) {
			l.put(now, m.body, 1, 0)
			moved++
		}
	}
	return moved
}

// purge deletes everything, in flight or not.
func (l *line) purge() (deleted int) {
	deleted = l.shown + len(l.hidden)
	for _, m := range l.by {
		m.gone = true
	}
	l.visible, l.head, l.shown, l.hidden = nil, 0, 0, nil
	clear(l.by)
	return deleted
}

// expire drops what is too old. receive does it by the way; a queue that nobody reads needs it before it is counted.
func (l *line) expire(now time.Time) {
	l.ready(now)
	kept := l.visible[:0]
	for _, m := range l.visible[l.head:] {
		switch {
		case m.gone:
		case m.sent.Add(l.spec.retention).After(now):
			kept = append(kept, m)
		default:
			delete(l.by, m.number)
			m.gone = true
			l.counts.expired++
		}
	}
	clear(l.visible[len(kept):])
	l.visible, l.head, l.shown = kept, 0, len(kept)
}

// requests is what AWS bills for so many entries: ten fit a request.
func requests(entries int) int64 { return int64((entries + queue.MaxBatch - 1) / queue.MaxBatch) }

// hidden is a heap of messages by the time at which they become visible, then by number: equal times keep the order of sending.
type hidden []*message

func (h hidden) Len() int { return len(h) }

func (h hidden) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].number < h[j].number
}

func (h hidden) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *hidden) Push(x any) {
	m := x.(*message)
	m.index = len(*h)
	*h = append(*h, m)
}

// Pop implements heap.Interface.
func (h *hidden) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	m.index = -1
	return m
}
