package ai_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/job"
)

// hang never answers. A server sees that its client is gone only once it has read the question.
func hang(_ http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// drip sends headers and then a byte per second.
func drip(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusOK)
	for r.Context().Err() == nil {
		w.Write([]byte(" "))
		w.(http.Flusher).Flush()
		time.Sleep(time.Second)
	}
}

// AI-01: a server that never answers and one that answers a byte at a time both end at the deadline of the whole request, whichever of the two deadlines is earlier.
func TestTheWholeRequestHasADeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		server  http.HandlerFunc
		timeout time.Duration // of the client
		left    time.Duration // of the caller; 0: no deadline
		want    time.Duration
	}{
		{"no answer", hang, 0, 0, 120 * time.Second},
		{"no answer, own timeout", hang, 7 * time.Second, time.Hour, 7 * time.Second},
		{"no answer, less time left", hang, 0, 45 * time.Second, 45 * time.Second},
		{"a byte per second", drip, 0, 0, 120 * time.Second},
		{"a byte per second, own timeout", drip, 7500 * time.Millisecond, 0, 7500 * time.Millisecond},
		{"a byte per second, less time left", drip, time.Hour, 45500 * time.Millisecond, 45500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, ai.Config{BaseURL: "http://ai.test/v1", Model: "m", Timeout: tt.timeout, Transport: overPipes(t, tt.server)})
				ctx := t.Context()
				if tt.left > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.left)
					defer cancel()
				}
				begun := time.Now()
				_, err := ask(ctx, c)
				if got := time.Since(begun); got != tt.want {
					t.Errorf("ended after %s, want %s", got, tt.want)
				}
				if got, want := class(err), "later "+ai.ReasonTimeout; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is no context.DeadlineExceeded", err)
				}
			})
		})
	}
}

// The deadline covers the fetching of the key.
func TestAKeyThatNeverComesEndsAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, ai.Config{
			BaseURL: "http://ai.test", Model: "m", Timeout: 10 * time.Second, Transport: overPipes(t, say(200, good)),
			Key: func(ctx context.Context, _ bool) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			},
		})
		begun := time.Now()
		_, err := ask(t.Context(), c)
		if got, want := time.Since(begun), 10*time.Second; got != want {
			t.Errorf("ended after %s, want %s", got, want)
		}
		if got, want := class(err), "later "+ai.ReasonUnauthorised; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The status of a failure counts, even if its body never ends: a refused question is not asked again.
func TestAStatusCountsThoughItsBodyNeverEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Transport: overPipes(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusBadRequest)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})})
		_, err := ask(t.Context(), c)
		if got, want := class(err), "never "+ai.ReasonRefused; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A call that the caller ends, because the claim is lost, returns the cause as it is: while it waits for an answer, in the middle of one, and before it began.
func TestACallThatTheCallerEndsReturnsItsCause(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]http.HandlerFunc{"no answer": hang, "a byte per second": drip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Transport: overPipes(t, server)})
				ctx, lose := context.WithCancelCause(t.Context())
				limited, cancel := context.WithTimeout(ctx, time.Minute) // as the worker has it
				defer cancel()
				time.AfterFunc(20*time.Second, func() { lose(job.ErrLost) })
				begun := time.Now()
				_, err := ask(limited, c)
				if err != job.ErrLost {
					t.Errorf("got %v, want the cause itself", err)
				}
				if got, want := time.Since(begun), 20*time.Second; got != want {
					t.Errorf("ended after %s, want %s", got, want)
				}
				if _, err := ask(limited, c); err != job.ErrLost {
					t.Errorf("a call of a context that is over: got %v, want the cause itself", err)
				}
			})
		})
	}
}

func TestAContextThatIsOverMakesNoCall(t *testing.T) {
	t.Parallel()
	s := serve(t, say(200, good))
	c := s.client(t, nil)
	own := errors.New("own cause")
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	caused, cancel := context.WithDeadlineCause(t.Context(), time.Unix(0, 0), own)
	defer cancel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(late, c); class(err) != "later "+ai.ReasonTimeout {
		t.Errorf("past its deadline: got %v", err)
	}
	if _, err := ask(caused, c); err != own {
		t.Errorf("past a deadline with a cause: got %v, want %v", err, own)
	}
	if _, err := ask(ended, c); err != context.Canceled {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
	if got := s.calls.Load(); got != 0 {
		t.Errorf("%d calls were made, want none", got)
	}
}
