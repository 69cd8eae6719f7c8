package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

func TestAHangingConnectionCostsOneAttemptOfFiveSeconds(t *testing.T) {
	t.Parallel()
	hang := dynamotest.Hang(false)
	for _, c := range []struct {
		name   string
		op     string
		script answers
		then   dynamotest.Answer
		call   func(context.Context, store.Store) error
		want   string
		hangs  int
		calls  int
	}{
		{"transaction", "TransactWriteItems", answers{hang, hang}, yes, func(ctx context.Context, s store.Store) error { return s.Transact(ctx, grant()...) }, "written", 2, 3},
		{"single write", "PutItem", nil, hang, func(ctx context.Context, s store.Store) error {
			return s.Transact(ctx, store.Put(key(alpha, "p", "a"), store.Attrs{}))
		}, "error", 1, 1},
		{"get", "BatchGetItem", answers{hang}, yes, func(ctx context.Context, s store.Store) error { _, err := s.Get(ctx, key(alpha, "p", "a")); return err }, "written", 1, 2},
		{"query", "Query", nil, hang, func(ctx context.Context, s store.Store) error {
			_, err := s.Query(ctx, store.Query{Table: alpha, PK: "p"})
			return err
		}, "error", 7, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, faults, _ := scripted(t, nil)
				faults.Script(c.op, c.script...)
				faults.Always(c.op, c.then)
				start := time.Now()
				err := c.call(t.Context(), s)
				if got := outcome(err); got != c.want || got == "error" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s (%v), want %s, by the deadline", got, err, c.want)
				}
				if got, want := time.Since(start), time.Duration(c.hangs)*5*time.Second; got != want {
					t.Errorf("it took %s, want %s", got, want)
				}
				if calls := faults.Calls(c.op); len(calls) != c.calls || distinct(calls) != 1 {
					t.Errorf("%d attempts with %d tokens, want %d with 1", len(calls), distinct(calls), c.calls)
				}
			})
		})
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
