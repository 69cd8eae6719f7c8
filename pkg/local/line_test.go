package local_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"hanbeon/pkg/local"
)

// The rules of the queue under test, and its model: a list that is searched from end to end. A message is known by its body.
const (
	visibility    = 30 * time.Second
	retention     = 2 * time.Minute
	deadRetention = 4 * time.Minute
	maxReceives   = 3
)

type model struct {
	line     local.Line
	now      time.Time
	messages map[string]*modelMessage
	sent     int
}

type modelMessage struct {
	at       time.Time // visible from
	sent     time.Time
	receives int
	receipts []string // the last is the one that counts
	dead     bool
}

func (m *model) visible(x *modelMessage) bool {
	return !x.dead && !x.at.After(m.now) && x.sent.Add(retention).After(m.now)
}

func (m *model) receive(t *rapid.T, n int) (received int) {
	got := m.line.Receive(m.now, n)
	for _, r := range got {
		x := m.messages[r.Body]
		if x == nil || !m.visible(x) || x.receives >= maxReceives {
			t.Fatalf("received %s, which is not to be had: %+v", r.Body, x)
		}
		x.receives++
		x.receipts = append(x.receipts, r.Receipt)
		x.at = m.now.Add(visibility)
		if r.Receives != x.receives {
			t.Fatalf("%s: receive count %d, want %d", r.Body, r.Receives, x.receives)
		}
	}
	for _, b := range m.line.Dead() {
		x := m.messages[b]
		if x == nil || x.receives < maxReceives || !x.dead && !m.visible(x) {
			t.Fatalf("%s is dead: %+v", b, x)
		}
		x.dead, x.receipts = true, nil
	}
	if len(got) > n {
		t.Fatalf("received %d messages, want at most %d", len(got), n)
	}
	if len(got) < n {
		for b, x := range m.messages {
			if m.visible(x) {
				t.Fatalf("received %d of %d, although %s is visible: %+v", len(got), n, b, x)
			}
		}
	}
	return len(got)
}

// pick draws a receipt, perhaps an old one.
func (m *model) pick(t *rapid.T) (body, receipt string, last bool) {
	var bodies []string
	for i := range m.sent {
		if b := fmt.Sprint("m", i); m.messages[b] != nil && len(m.messages[b].receipts) > 0 {
			bodies = append(bodies, b)
		}
	}
	if len(bodies) == 0 {
		t.Skip("nothing was received")
	}
	body = rapid.SampledFrom(bodies).Draw(t, "message")
	receipts := m.messages[body].receipts
	receipt = rapid.SampledFrom(receipts).Draw(t, "receipt")
	return body, receipt, receipt == receipts[len(receipts)-1]
}

// The in-memory queue follows the rules of SQS under any sequence of operations: visibility timeout, receive count, receipts that ran out, dead letters, redrive, retention.
func TestQueueMatchesModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			line:     local.NewLine(visibility, retention, deadRetention, maxReceives),
			now:      time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC),
			messages: map[string]*modelMessage{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(*rapid.T) {
				body := fmt.Sprint("m", m.sent)
				m.sent++
				m.line.Put(m.now, body, 1, 0)
				m.messages[body] = &modelMessage{at: m.now, sent: m.now}
			},
			"receive": func(t *rapid.T) { m.receive(t, rapid.IntRange(1, 10).Draw(t, "n")) },
			"remove": func(t *rapid.T) {
				body, receipt, last := m.pick(t)
				m.line.Remove(receipt)
				if last {
					delete(m.messages, body)
				}
			},
			"put off": func(t *rapid.T) {
				body, receipt, last := m.pick(t)
				d := time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second
				m.line.PutOff(m.now, d, receipt)
				if x := m.messages[body]; last && x.at.After(m.now) {
					x.at = m.now.Add(d)
				}
			},
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			},
			"redrive": func(t *rapid.T) {
				want := 0
				for b, x := range m.messages {
					if !x.dead {
						continue
					}
					delete(m.messages, b)
					if x.sent.Add(deadRetention).After(m.now) {
						want++
						m.messages[b] = &modelMessage{at: m.now, sent: m.now}
					}
				}
				if got := m.line.Redrive(m.now); got != want {
					t.Fatalf("redrive moved %d, want %d", got, want)
				}
			},
			"count": func(t *rapid.T) { // an action, not a check after each: it drops what is too old
				visible, hidden, dead := m.line.Counts(m.now)
				wantVisible, wantHidden, wantDead := 0, 0, 0
				for b, x := range m.messages {
					switch {
					case x.dead && x.sent.Add(deadRetention).After(m.now):
						wantDead++
					case x.dead:
						delete(m.messages, b)
					case x.at.After(m.now):
						wantHidden++
					case m.visible(x):
						wantVisible++
					default:
						delete(m.messages, b) // too old
					}
				}
				if visible != wantVisible || hidden != wantHidden || dead != wantDead {
					t.Fatalf("visible %d, hidden %d, dead %d; want %d, %d, %d", visible, hidden, dead, wantVisible, wantHidden, wantDead)
				}
			},
		})
	})
}

// A receipt that ran out still deletes while nobody received the message again, and does nothing afterwards.
func TestReceiptOfAnEarlierReceiveIsIgnored(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
	l := local.NewLine(30*time.Second, time.Hour, time.Hour, 3)
	l.Put(now, "a", 1, 0)
	first := l.Receive(now, 1)[0]
	now = now.Add(30 * time.Second)
	second := l.Receive(now, 1)[0]
	if first.ID != second.ID || first.Receipt == second.Receipt {
		t.Errorf("received %+v, then %+v, want one message with two receipts", first, second)
	}
	l.Remove(first.Receipt)
	l.PutOff(now, 0, first.Receipt)
	if got := l.Receive(now, 1); got != nil {
		t.Errorf("after an old receipt was put off: received %v, want nothing", got)
	}
	now = now.Add(30 * time.Second)
	l.Remove(second.Receipt)
	if got := l.Receive(now, 1); got != nil {
		t.Errorf("after the last receipt was used: received %v, want nothing", got)
	}
}

// SQS-16, the queue's half: dead letters are kept for 14 days from the sending, a redrive begins a message anew, and it can be done twice.
func TestRedriveBeginsReceivesAnew(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
	const visibility, day = 365 * time.Second, 24 * time.Hour
	l := local.NewLine(visibility, 4*day, 14*day, 8)
	l.Put(now, "member-42", 1, 0)
	l.Put(now, "member-43", 1, 0)
	useUp := func() {
		for i := range 8 {
			got := l.Receive(now, 10)
			if len(got) != 2 || got[0].Receives != i+1 {
				t.Fatalf("receive %d: %v, want two messages, received so often", i+1, got)
			}
			now = now.Add(visibility)
		}
		if got := l.Receive(now, 10); got != nil {
			t.Fatalf("receive 9: %v, want nothing", got)
		}
	}
	for range 2 {
		useUp()
		now = now.Add(13 * day)
		if got := l.Redrive(now); got != 2 {
			t.Fatalf("redrive moved %d, want 2", got)
		}
	}
	useUp()
	now = now.Add(14 * day)
	if got := l.Redrive(now); got != 0 {
		t.Errorf("redrive after 14 days moved %d, want 0", got)
	}
}

func TestCopiesOfAMessageHaveOneID(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
	l := local.NewLine(30*time.Second, time.Hour, time.Hour, 3)
	l.Put(now, "twice", 2, time.Second)
	l.Put(now, "lost", 0, 0)
	first := l.Receive(now, 10)
	l.Remove(first[0].Receipt)
	second := l.Receive(now.Add(time.Second), 10)
	if len(first) != 1 || len(second) != 1 || first[0].ID != second[0].ID {
		t.Errorf("received %v and a second later %v, want the same message twice and nothing else", first, second)
	}
}
