package local_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/local"
)

// With a clock that skips, a wait of minutes is over at once, in the same order, and a wait for what never comes ends.
func TestSkippingClock(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	start := time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)
	var mu sync.Mutex
	var at []time.Duration
	var s *local.Stack
	s = startSmall(t, func(c *local.Config) { c.Skip, c.Start = true, start }, raw(func(context.Context, []byte) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, s.Env().Now().Sub(start).Round(time.Second))
		return nil, errors.New("again")
	}), nil)
	send(t, s, "a")
	err := s.Until(t.Context(), func() (bool, error) { return s.Stats().Queues["work-dlq"].Visible == 1, nil })
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []time.Duration{time.Second, 31 * time.Second, 61 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("delivered at %v, want %v", at, want)
	}
	if err := s.Until(t.Context(), func() (bool, error) { return false, nil }); !errors.Is(err, local.ErrStuck) {
		t.Errorf("waiting for ever: %v, want ErrStuck", err)
	}
	if time.Since(begun) > s.Env().Now().Sub(start) {
		t.Errorf("the clock did not skip")
	}
}

// No time is skipped while a handler runs, however much is due later.
func TestClockDoesNotSkipWhileAHandlerRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took []time.Duration
		var s *local.Stack
		s = startSmall(t, func(c *local.Config) { c.Skip = true }, raw(func(context.Context, []byte) ([]byte, error) {
			begun := s.Env().Now()
			time.Sleep(3 * time.Second)
			took = append(took, s.Env().Now().Sub(begun))
			return nil, errors.New("again")
		}), nil)
		send(t, s, "a")
		if err := s.Until(t.Context(), func() (bool, error) { return s.Stats().Queues["work-dlq"].Visible == 1, nil }); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}; !slices.Equal(took, want) {
			t.Errorf("by the clock the handler ran %v, want %v", took, want)
		}
	})
}

// What a condition sets going counts: a clock that was about to skip does not.
func TestClockDoesNotSkipWhatTheConditionBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		var took time.Duration
		var s *local.Stack
		s = startSmall(t, func(c *local.Config) { c.Skip = true }, raw(func(context.Context, []byte) ([]byte, error) {
			from := s.Env().Now()
			close(begun)
			time.Sleep(3 * time.Second)
			took = s.Env().Now().Sub(from)
			return []byte("null"), nil
		}), nil)
		synctest.Wait() // the stack is quiet
		asked := 0
		if err := s.Until(t.Context(), func() (bool, error) {
			if asked++; asked == 1 {
				send(t, s, "a", "b", "c") // a full batch: it begins at once
				<-begun
			}
			q := s.Stats().Queues["work"]
			return q.Visible+q.Hidden == 0, nil
		}); err != nil {
			t.Fatal(err)
		}
		if took != 3*time.Second {
			t.Errorf("by the clock the handler ran %v, want 3s", took)
		}
	})
}
