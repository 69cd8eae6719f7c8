package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

const (
	alpha store.Table = "alpha" // plain
	gold  store.Table = "gold"  // ledger
)

func key(table store.Table, pk, sk string) store.Key { return store.Key{Table: table, PK: pk, SK: sk} }

// clock is a time that passes only while a store waits.
type clock struct {
	mu     sync.Mutex
	now    time.Time
	pauses []time.Duration
	leap   time.Duration // passes in addition with each pause
}

func (c *clock) Sleep(_ context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses = append(c.pauses, d)
	c.now = c.now.Add(d + c.leap)
	return nil
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// scripted is a store without an emulator: its client gets the answers that the test gives.
func scripted(t *testing.T, set func(*dynamo.Config)) (*dynamo.Store, *dynamotest.Faults, *clock) {
	t.Helper()
	faults, c := dynamotest.NewFaults(), &clock{now: time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)}
	cfg := dynamo.Config{Tables: map[store.Table]string{alpha: "real-alpha", gold: "real-gold"}, Ledgers: []store.Table{gold}, Sleep: c.Sleep, Now: c.Now}
	if set != nil {
		set(&cfg)
	}
	s, err := dynamo.New(dynamotest.NewClient("http://emulator.invalid", faults), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, faults, c
}

// outcome puts the result of Transact into words.
func outcome(err error) string {
	var refused *store.Refused
	var busy *store.Busy
	switch {
	case err == nil:
		return "written"
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &busy):
		return "busy"
	}
	return "error"
}

// distinct counts different tokens.
func distinct(calls []dynamotest.Call) int {
	tokens := map[string]bool{}
	for _, c := range calls {
		tokens[c.Token] = true
	}
	return len(tokens)
}
