package ai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/ai"
)

// secret is a key in a store, of which a process keeps a copy.
type secret struct {
	mu        sync.Mutex
	stored    string
	copied    string
	refreshes int
	err       error
}

func (s *secret) key(_ context.Context, refresh bool) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refresh {
		s.refreshes++
		if s.err != nil {
			return "", s.err
		}
		s.copied = s.stored
	}
	return s.copied, nil
}

func (s *secret) fetched() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes
}

// accept answers those who bring one of the keys.
func accept(status int, keys ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, k := range keys {
			if r.Header.Get("Authorization") == "Bearer "+k {
				say(200, good)(w, r)
				return
			}
		}
		say(status, `{"error":{"message":"canary","code":"invalid_api_key"}}`)(w, r)
	}
}

const unauthorised = "later " + ai.ReasonUnauthorised

// A key that was changed in the store is picked up by the call that meets it, without an attempt of the job being lost.
func TestAKeyThatWasChangedIsFetchedAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403} {
		k := &secret{stored: "new-key-1", copied: "old-key-1"}
		s := serve(t, accept(status, "new-key-1"))
		c := s.client(t, func(cfg *ai.Config) { cfg.Key, cfg.Now = k.key, newClock().now })
		times(t, 3, c, "fine")
		if got, want := s.calls.Load(), int64(4); got != want || k.fetched() != 1 {
			t.Errorf("%d: %d calls, %d fetches, want %d and 1", status, got, k.fetched(), want)
		}
	}
}

// A key that stays wrong: one more call, then the breaker is open; the secret is fetched at most once a minute.
func TestAKeyThatStaysWrongOpensTheBreakerAtOnce(t *testing.T) {
	t.Parallel()
	at := newClock()
	k := &secret{stored: "wrong-key", copied: "wrong-key"}
	s := serve(t, accept(401, "right-key"))
	c := s.client(t, func(cfg *ai.Config) { cfg.Key, cfg.Now = k.key, at.now })
	_, err := ask(t.Context(), c)
	if got := after(t, err); class(err) != unauthorised || got != time.Minute {
		t.Errorf("got %q, pause %s; want %q and a minute", class(err), got, unauthorised)
	}
	if !strings.Contains(err.Error(), "401 (invalid_api_key)") {
		t.Errorf("%q does not name status and code", err)
	}
	times(t, 3, c, open)
	if got, want := s.calls.Load(), int64(2); got != want || k.fetched() != 1 {
		t.Errorf("%d calls, %d fetches, want %d and 1", got, k.fetched(), want)
	}
	at.move(time.Minute)
	k.mu.Lock()
	k.stored = "right-key"
	k.mu.Unlock()
	times(t, 2, c, "fine")
	if got, want := s.calls.Load(), int64(5); got != want || k.fetched() != 2 {
		t.Errorf("%d calls, %d fetches, want %d and 2", got, k.fetched(), want)
	}
}

func TestTheSecretIsFetchedAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	at := newClock()
	k := &secret{stored: "b", copied: "a"}
	s := serve(t, accept(401, "b"))
	c := s.client(t, func(cfg *ai.Config) { cfg.Key, cfg.Now = k.key, at.now })
	times(t, 1, c, "fine")
	at.move(59 * time.Second)
	k.mu.Lock()
	k.stored = "c"
	k.mu.Unlock()
	s.set(accept(401, "c"))
	times(t, 1, c, unauthorised) // within the minute: not fetched, and the key that is known is not tried twice
	if got := s.calls.Load(); got != 3 || k.fetched() != 1 {
		t.Errorf("%d calls, %d fetches, want 3 and 1", got, k.fetched())
	}
	at.move(time.Minute)
	times(t, 1, c, "fine")
	if got := k.fetched(); got != 2 {
		t.Errorf("%d fetches, want 2", got)
	}
}

// The answer to the second call counts as any other.
func TestTheSecondCallHasItsOwnEnd(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{429: busy, 500: failed, 400: "never " + ai.ReasonRefused} {
		k := &secret{stored: "new-key-1", copied: "old-key-1"}
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer new-key-1" {
				w.WriteHeader(status)
				return
			}
			w.WriteHeader(http.StatusForbidden)
		})
		times(t, 1, s.client(t, func(cfg *ai.Config) { cfg.Key = k.key }), want)
		if got := s.calls.Load(); got != 2 {
			t.Errorf("%d: %d calls, want 2", status, got)
		}
	}
}

func TestAServerWithoutKeyThatWantsOne(t *testing.T) {
	t.Parallel()
	s := serve(t, accept(401, "key"))
	c := s.client(t, nil)
	times(t, 1, c, unauthorised)
	times(t, 1, c, open)
	if got := s.calls.Load(); got != 1 {
		t.Errorf("%d calls, want 1", got)
	}
}

// A key that cannot be sent is none: it is fetched again, since an operator may have mended it, and nothing is called with it.
func TestAKeyThatCannotBeSent(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", " \n", "two words", "line\nbreak", "한글", "nul\x00"} {
		at := newClock()
		k := &secret{stored: key, copied: key}
		s := serve(t, accept(401, "right-key"))
		c := s.client(t, func(cfg *ai.Config) { cfg.Key, cfg.Now = k.key, at.now })
		_, err := ask(t.Context(), c)
		if got := s.calls.Load(); class(err) != unauthorised || got != 0 || k.fetched() != 1 {
			t.Errorf("%q: got %q after %d calls and %d fetches", key, class(err), got, k.fetched())
		}
		if strings.TrimSpace(key) != "" && strings.Contains(err.Error(), key) {
			t.Errorf("the error quotes the key: %v", err)
		}
		at.move(time.Minute)
		k.stored = "right-key"
		times(t, 1, c, "fine")
	}
}

func TestAKeyThatIsNotToBeHadPasses(t *testing.T) {
	t.Parallel()
	denied := errors.New("AccessDeniedException")
	s := serve(t, accept(401, "right-key"))
	_, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) {
		cfg.Key = func(context.Context, bool) (string, error) { return "right-key", denied }
	}))
	if class(err) != unauthorised || !errors.Is(err, denied) || s.calls.Load() != 0 {
		t.Errorf("got %v after %d calls", err, s.calls.Load())
	}
	k := &secret{copied: "old-key-1", err: denied}
	_, err = ask(t.Context(), s.client(t, func(cfg *ai.Config) { cfg.Key = k.key }))
	if class(err) != unauthorised || !errors.Is(err, denied) || s.calls.Load() != 1 {
		t.Errorf("fetched again: got %v after %d calls", err, s.calls.Load())
	}
}

// Calls that meet the change of a key together fetch it once, and all of them go through.
func TestCallsThatMeetAChangedKeyTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 8
		k := &secret{stored: "new-key-1", copied: "old-key-1"}
		var met sync.WaitGroup
		met.Add(n)
		var made atomic.Int64
		c := newClient(t, ai.Config{
			BaseURL: "http://ai.test", Model: "m",
			Key: func(ctx context.Context, refresh bool) (string, error) {
				if refresh {
					time.Sleep(time.Second) // until the others wait for it
				}
				return k.key(ctx, refresh)
			},
			Transport: overPipes(t, func(w http.ResponseWriter, r *http.Request) {
				made.Add(1)
				if r.Header.Get("Authorization") == "Bearer old-key-1" {
					met.Done()
					met.Wait() // all of them are refused at once
				}
				accept(401, "new-key-1")(w, r)
			}),
		})
		var calls sync.WaitGroup
		for range n {
			calls.Go(func() {
				if _, err := ask(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if got := made.Load(); got != 2*n || k.fetched() != 1 {
			t.Errorf("%d calls, %d fetches, want %d and 1", got, k.fetched(), 2*n)
		}
	})
}

// Who waits for a key that somebody else fetches is not kept past the deadline.
func TestWaitingForTheKeyEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, ai.Config{
			BaseURL: "http://ai.test", Model: "m", Timeout: 10 * time.Second,
			Transport: overPipes(t, accept(401, "new-key-1")),
			Key: func(_ context.Context, refresh bool) (string, error) {
				if refresh {
					time.Sleep(time.Hour) // deaf to its context
				}
				return "old-key-1", nil
			},
		})
		go ask(t.Context(), c)
		synctest.Wait()
		begun := time.Now()
		_, err := ask(t.Context(), c)
		if got, want := time.Since(begun), 10*time.Second; class(err) != unauthorised || got != want {
			t.Errorf("got %q after %s, want %q after %s", class(err), got, unauthorised, want)
		}
		time.Sleep(2 * time.Hour)
	})
}
