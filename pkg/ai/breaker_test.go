package ai_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/job"
)

const (
	busy   = "later " + ai.ReasonBusy
	failed = "later " + ai.ReasonError
	open   = "later " + ai.ReasonBreakerOpen
)

// times asks so many times and checks how each call ends.
func times(t *testing.T, n int, c *ai.Client, want string) {
	t.Helper()
	for i := range n {
		if _, err := ask(t.Context(), c); class(err) != want {
			t.Errorf("call %d: got %q, want %q", i+1, class(err), want)
		}
	}
}

func TestFiveFailuresInARowOpenTheBreaker(t *testing.T) {
	t.Parallel()
	at, log := newClock(), &records{}
	s := serve(t, say(500, ""))
	c := s.client(t, func(cfg *ai.Config) { cfg.Now, cfg.Log = at.now, log.logger() })

	times(t, 4, c, failed)
	_, err := ask(t.Context(), c)
	if got, want := after(t, err), time.Minute; class(err) != failed || got != want {
		t.Errorf("the failure that opens it: got %q and a pause of %s, want %q and %s, as long as it stays open", class(err), got, failed, want)
	}
	if !strings.Contains(log.String(), `"reason":"ai-error"`) {
		t.Errorf("the log does not say why the server is left alone:\n%s", log)
	}
	at.move(20 * time.Second)
	times(t, 3, c, open)
	_, err = ask(t.Context(), c)
	if got, want := after(t, err), 40*time.Second; got != want {
		t.Errorf("pause %s, want what is left: %s", got, want)
	}
	if got := s.calls.Load(); got != 5 {
		t.Errorf("%d calls, want 5: none while it is open", got)
	}

	at.move(40 * time.Second)
	times(t, 1, c, failed) // half-open: one goes through, fails, and opens it again
	times(t, 2, c, open)
	if got := s.calls.Load(); got != 6 {
		t.Errorf("%d calls, want 6", got)
	}

	at.move(time.Minute)
	s.set(say(200, good))
	times(t, 1, c, "fine") // closed again
	s.set(say(500, ""))
	times(t, 5, c, failed) // and counting from nothing
	times(t, 1, c, open)
}

func TestWhatTheBreakerCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		want   string // of each call
		opens  bool
	}{
		{"busy", say(429, ""), busy, true},
		{"failing", say(503, ""), failed, true},
		{"gone", raw(""), "later " + ai.ReasonUnreachable, true},
		{"bad answers", say(200, "<html>"), "later " + ai.ReasonBadAnswer, false},
		{"empty answers", say(200, says("")), "later " + ai.ReasonBadAnswer, false},
		{"refused questions", say(400, ""), "never " + ai.ReasonRefused, false},
		{"good answers", say(200, good), "fine", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.answer)
			c := s.client(t, func(cfg *ai.Config) { cfg.Now = newClock().now })
			times(t, 5, c, tt.want)
			s.set(say(200, good))
			want := "fine"
			if tt.opens {
				want = open
			}
			times(t, 1, c, want)
		})
	}
}

// The failures must come in a row: a server that answers in between, even with a refusal, is there.
func TestAnAnswerInBetweenStartsTheCountAgain(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{"good": say(200, good), "bad": say(200, "<html>"), "refusal": say(400, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, say(500, ""))
			c := s.client(t, func(cfg *ai.Config) { cfg.Now = newClock().now })
			times(t, 4, c, failed)
			s.set(answer)
			ask(t.Context(), c)
			s.set(say(500, ""))
			times(t, 5, c, failed)
			times(t, 1, c, open)
		})
	}
}

// A server that asks for a longer pause when the breaker opens gets it.
func TestTheBreakerStaysOpenAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	at := newClock()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(429)
	})
	c := s.client(t, func(cfg *ai.Config) { cfg.Now = at.now })
	times(t, 5, c, busy)
	at.move(599 * time.Second)
	_, err := ask(t.Context(), c)
	if got := after(t, err); class(err) != open || got != time.Second {
		t.Errorf("got %q, pause %s; want open for another second", class(err), got)
	}
	at.move(time.Second)
	times(t, 1, c, busy)
}

// A call that the caller ends says nothing of the server: it neither opens the breaker nor, as the one call of a half-open breaker, leaves it without an end.
func TestACallThatTheCallerEndsDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		answer := http.HandlerFunc(hang)
		set := func(h http.HandlerFunc) {
			mu.Lock()
			defer mu.Unlock()
			answer = h
		}
		c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Timeout: 10 * time.Second, Transport: overPipes(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			h := answer
			mu.Unlock()
			h(w, r)
		})})
		lost := func() {
			t.Helper()
			ctx, lose := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { lose(job.ErrLost) })
			if _, err := ask(ctx, c); err != job.ErrLost {
				t.Errorf("got %v, want %v", err, job.ErrLost)
			}
		}
		for range 10 {
			lost()
		}
		times(t, 4, c, "later "+ai.ReasonTimeout) // timeouts do count
		lost()                                    // between two failures: it starts no new count
		times(t, 1, c, "later "+ai.ReasonTimeout)
		times(t, 1, c, open)
		time.Sleep(time.Minute)
		lost() // half-open, and it stays so
		times(t, 1, c, "later "+ai.ReasonTimeout)
		times(t, 1, c, open)
		time.Sleep(time.Minute)
		lost()
		set(say(200, good))
		times(t, 1, c, "fine")
		set(say(500, ""))
		times(t, 5, c, failed)
	})
}

// While the one call of a half-open breaker is under way, others are not made.
func TestAHalfOpenBreakerLetsOneThrough(t *testing.T) {
	t.Parallel()
	at := newClock()
	s := serve(t, say(500, ""))
	c := s.client(t, func(cfg *ai.Config) { cfg.Now = at.now })
	times(t, 5, c, failed)
	at.move(time.Minute)
	inside, leave := make(chan struct{}), make(chan struct{})
	s.set(func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-leave
		say(200, good)(w, r)
	})
	probe := make(chan error)
	go func() {
		_, err := ask(t.Context(), c)
		probe <- err
	}()
	<-inside
	times(t, 3, c, open)
	close(leave)
	if err := <-probe; err != nil {
		t.Error(err)
	}
	s.set(say(200, good))
	times(t, 3, c, "fine")
	if got := s.calls.Load(); got != 9 {
		t.Errorf("%d calls, want 9", got)
	}
}

// A call that began before the breaker opened, and ends after, changes nothing: neither does its success close it nor its failure keep it open.
func TestACallFromBeforeChangesNothing(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]http.HandlerFunc{"success": say(200, good), "failure": say(500, "")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := newClock()
			inside, leave := make(chan struct{}), make(chan struct{})
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				close(inside)
				<-leave
				late(w, r)
			})
			c := s.client(t, func(cfg *ai.Config) { cfg.Now = at.now })
			slow := make(chan error)
			go func() {
				_, err := ask(t.Context(), c)
				slow <- err
			}()
			<-inside
			s.set(say(500, ""))
			times(t, 5, c, failed)
			at.move(30 * time.Second)
			close(leave)
			<-slow
			_, err := ask(t.Context(), c)
			if got := after(t, err); class(err) != open || got != 30*time.Second {
				t.Errorf("got %q, pause %s; want open for 30s as before", class(err), got)
			}
		})
	}
}

// A panic beneath leaves no half-open breaker that waits for ever.
func TestAPanicBeneathIsNoCall(t *testing.T) {
	t.Parallel()
	at := newClock()
	var answer transport
	c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Now: at.now, Transport: transport(func(r *http.Request) (*http.Response, error) { return answer(r) })})
	answer = func(*http.Request) (*http.Response, error) { return nil, errors.New("down") }
	times(t, 5, c, "later "+ai.ReasonUnreachable)
	at.move(time.Minute)
	answer = func(*http.Request) (*http.Response, error) { panic("beneath") }
	func() {
		defer func() { recover() }()
		ask(t.Context(), c)
		t.Error("the panic did not come up")
	}()
	answer = func(*http.Request) (*http.Response, error) { return nil, errors.New("down") }
	times(t, 1, c, "later "+ai.ReasonUnreachable)
}

// Wait tells a worker to begin nothing: as long as the server asked for from its first 429 on, and while the breaker is open. An answer ends it.
func TestWaitIsKnownBeforeTheCall(t *testing.T) {
	t.Parallel()
	at := newClock()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "40")
		w.WriteHeader(429)
	})
	c := s.client(t, func(cfg *ai.Config) { cfg.Now = at.now })
	wait := func(when string, want time.Duration) {
		t.Helper()
		if got := c.Wait(); got != want {
			t.Errorf("%s: wait %s, want %s", when, got, want)
		}
	}
	wait("at first", 0)
	times(t, 1, c, busy)
	wait("after a 429", 40*time.Second)
	at.move(15 * time.Second)
	wait("a while later", 25*time.Second)
	s.set(say(200, good))
	ask(t.Context(), c)
	wait("after an answer", 0)
	s.set(say(500, ""))
	times(t, 5, c, failed)
	wait("with an open breaker", time.Minute)
	at.move(time.Minute)
	wait("half-open", 0)
}
