package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

func TestAHangingConnectionCostsOneAttempt(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, func(c *dynamo.Config) { c.AttemptTimeout = 20 * time.Millisecond })
	hang := dynamotest.Hang(false)
	faults.Script("TransactWriteItems", hang, hang)
	faults.Always("TransactWriteItems", yes)
	if err := s.Transact(t.Context(), grant()...); err != nil {
		t.Errorf("transaction = %v, want nil at the third attempt", err)
	}
	if calls := faults.Calls("TransactWriteItems"); len(calls) != 3 || distinct(calls) != 1 {
		t.Errorf("%d attempts with %d tokens, want 3 with 1", len(calls), distinct(calls))
	}

	faults.Always("PutItem", hang)
	err := s.Transact(t.Context(), store.Put(key(alpha, "p", "a"), store.Attrs{}))
	if outcome(err) != "error" || !errors.Is(err, context.DeadlineExceeded) || len(faults.Calls("PutItem")) != 1 {
		t.Errorf("single write = %v after %d attempts, want a timeout after 1", err, len(faults.Calls("PutItem")))
	}

	faults.Script("BatchGetItem", hang)
	faults.Always("BatchGetItem", yes)
	if _, err := s.Get(t.Context(), key(alpha, "p", "a")); err != nil {
		t.Errorf("Get = %v, want nil at the second attempt", err)
	}
	faults.Always("Query", hang)
	if _, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p"}); err == nil || len(faults.Calls("Query")) != 7 {
		t.Errorf("Query = %v after %d attempts, want an error after 7", err, len(faults.Calls("Query")))
	}
}

func TestAContextThatEndsEndsTheCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		then  dynamotest.Answer
		busy  bool // everything was answered
		calls int
	}{
		{"while throttled", throttle, true, 1},
		{"while in conflict", conflict, true, 1},
		{"without an answer", cut, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			s, faults, _ := scripted(t, func(cfg *dynamo.Config) {
				cfg.Sleep = func(context.Context, time.Duration) error { cancel(); return nil }
			})
			faults.Always("TransactWriteItems", c.then)
			err := s.Transact(ctx, grant()...)
			var busy *store.Busy
			if !errors.Is(err, context.Canceled) || errors.As(err, &busy) != c.busy || len(faults.Calls("")) != c.calls {
				t.Errorf("Transact = %v after %d attempts, want context canceled, busy %t, after %d", err, len(faults.Calls("")), c.busy, c.calls)
			}
		})
	}
	t.Run("before the call", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s, faults, _ := scripted(t, nil)
		if err := s.Transact(ctx, grant()...); !errors.Is(err, context.Canceled) {
			t.Errorf("Transact = %v, want context canceled", err)
		}
		if _, err := s.Get(ctx, key(alpha, "p", "a")); !errors.Is(err, context.Canceled) {
			t.Errorf("Get = %v, want context canceled", err)
		}
		if _, err := s.Query(ctx, store.Query{Table: alpha, PK: "p"}); !errors.Is(err, context.Canceled) {
			t.Errorf("Query = %v, want context canceled", err)
		}
		if got := len(faults.Calls("")); got != 0 {
			t.Errorf("%d requests were sent, want none", got)
		}
	})
}

func TestTheDefaultPauseEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	s, faults, _ := scripted(t, func(c *dynamo.Config) { c.Sleep = nil })
	faults.Hook(func(dynamotest.Call) dynamotest.Answer { cancel(); return dynamotest.Fail("ThrottlingException", "") })
	if err := s.Transact(ctx, grant()...); !errors.Is(err, context.Canceled) {
		t.Errorf("Transact = %v, want context canceled", err)
	}
}

func TestNoRetriesMeansOneAttempt(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, func(c *dynamo.Config) { c.Retries = -1 })
	faults.Always("TransactWriteItems", conflict)
	if err := s.Transact(t.Context(), grant()...); outcome(err) != "busy" || len(faults.Calls("")) != 1 {
		t.Errorf("Transact = %v after %d attempts, want busy after 1", err, len(faults.Calls("")))
	}
}
