package local

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

// NewWith is New with stand-ins for the handlers, by function.
func NewWith(c Config, handlersOf func(env job.Env) map[string]any) (*Stack, error) {
	return newStack(c, func(w wiring) map[string]lambda.Handler {
		all := map[string]lambda.Handler{}
		for name, h := range handlersOf(w.Env) {
			all[name] = environments{h}
		}
		return all
	}, func(wiring) func(context.Context) error { return func(context.Context) error { return nil } })
}

// Next is the next firing of a schedule expression after t; zero: never.
func Next(expression string, zone *time.Location, t time.Time) (time.Time, error) {
	table, err := parseTimetable(expression, zone)
	if err != nil {
		return time.Time{}, err
	}
	at, _ := table.next(t)
	return at, nil
}

// Handlers are the names of the functions that New knows.
func Handlers(s store.Store) []string {
	var names []string
	for name := range handlers(wiring{Env: job.Env{Store: s, Now: time.Now}, Zone: time.UTC}) {
		names = append(names, name)
	}
	return names
}

// Line is a queue with its dead letters, without a stack around it.
type Line struct{ l *line }

// Received is one message of a receive.
type Received struct {
	ID, Receipt, Body string
	Receives          int
}

// NewLine makes a queue.
func NewLine(visibility, retention, deadRetention time.Duration, maxReceives int) Line {
	numbers := new(uint64)
	l := newLine(queueSpec{name: "q", visibility: visibility, retention: retention, deadLetters: "d", maxReceives: maxReceives}, numbers)
	l.dead = newLine(queueSpec{name: "d", visibility: visibility, retention: deadRetention}, numbers)
	return Line{l}
}

func (l Line) Put(now time.Time, body string, copies int, late time.Duration) {
	l.l.put(now, body, copies, late)
}

func (l Line) Receive(now time.Time, n int) []Received {
	var got []Received
	for _, m := range l.l.receive(now, n) {
		got = append(got, Received{m.messageID(), m.receipt(), m.body, m.receives})
	}
	return got
}

func (l Line) Remove(receipts ...string) { l.l.remove(receipts...) }

func (l Line) PutOff(now time.Time, d time.Duration, receipts ...string) {
	l.l.putOff(now, d, receipts...)
}

func (l Line) Redrive(now time.Time) int { return l.l.redrive(now) }

func (l Line) Purge() int { return l.l.purge() }

// Dead are the bodies of the dead letters.
func (l Line) Dead() (bodies []string) {
	for _, m := range l.l.dead.visible[l.l.dead.head:] {
		bodies = append(bodies, m.body)
	}
	return bodies
}

// Counts are the visible and hidden messages of the queue and the dead letters, after what is too old was dropped.
func (l Line) Counts(now time.Time) (visible, hidden, dead int) {
	l.l.expire(now)
	l.l.dead.expire(now)
	return l.l.shown, len(l.l.hidden), l.l.dead.shown
}
