package aistub_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/ai/aistub"
	"hanbeon/pkg/job"
)

// handler answers a client without a network. As with a server, a panic or an answer that never comes is the client's to see.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func client(t *testing.T, s *aistub.Stub) *ai.Client {
	t.Helper()
	c, err := ai.New(ai.Config{BaseURL: "http://stub.test/v1", Model: "stub", Timeout: 30 * time.Second, Transport: handler{s}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const notes = `# Learned today
- sync.WaitGroup has a method Go since Go 1.25
- a WaitGroup must not be copied
- 오늘은 트랜잭션 격리 수준을 배웠다. 트랜잭션 로그도 보았다.`

// ask returns the text, or the reason of the error.
func ask(ctx context.Context, c *ai.Client, user string) string {
	text, err := c.Complete(ctx, "be brief", user, "til", json.RawMessage(`{"type":"object"}`))
	switch e := err.(type) {
	case nil:
		return text
	case *job.LaterError:
		return e.Reason
	case *job.PermanentError:
		return e.Reason
	}
	return err.Error()
}

type answer struct {
	Title    string
	Text     string
	Keywords []string
}

func parse(t *testing.T, text string) answer {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	var a answer
	if err := d.Decode(&a); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return a
}

func TestAnAnswerSummarisesTheNotes(t *testing.T) {
	t.Parallel()
	text := ask(t.Context(), client(t, aistub.New(aistub.Behaviour{})), notes)
	a := parse(t, text)
	if got, want := a.Title, "Learned today sync WaitGroup has a method Go"; got != want {
		t.Errorf("title %q, want %q", got, want)
	}
	if !strings.Contains(a.Text, "WaitGroup must not be copied\n- 오늘은 트랜잭션") {
		t.Errorf("text %q", a.Text)
	}
	if got, want := strings.Join(a.Keywords[:4], " "), "waitgroup 트랜잭션 learned today"; got != want {
		t.Errorf("keywords begin with %q, want %q: most frequent first, then in order", got, want)
	}
}

func TestTheSameQuestionHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":"one two three"}]}`
	post := func(s *aistub.Stub, body string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/chat/completions", strings.NewReader(body)))
		return w.Body.String()
	}
	s := aistub.New(aistub.Behaviour{})
	first := post(s, body)
	if got := post(s, body); got != first {
		t.Errorf("the second answer differs:\n%s\n%s", got, first)
	}
	if got := post(aistub.New(aistub.Behaviour{FailFirst: 0}), body); got != first {
		t.Errorf("another stub answers differently:\n%s\n%s", got, first)
	}
	if got := post(s, strings.Replace(body, "two", "2", 1)); got == first {
		t.Error("another question has the same answer")
	}
}

// Whatever the notes are, the answer is one that a caller can use.
func FuzzNotes(f *testing.F) {
	for _, seed := range []string{notes, "", " \n\t", "!!!", "한", strings.Repeat("가나다 ", 5000), "x" + strings.Repeat("가", 5000), strings.Repeat("x", 100_000), "\x00\xff\u2028", `{"notes":[{"text":"a"}]}`, strings.Repeat("a\n", 10_000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		c := client(t, aistub.New(aistub.Behaviour{}))
		text := ask(t.Context(), c, user)
		a := parse(t, text)
		if strings.TrimSpace(a.Title) == "" || strings.TrimSpace(a.Text) == "" || len(a.Title) > 120 || len(a.Text) > 2<<10 || len(a.Keywords) > 10 || a.Keywords == nil {
			t.Errorf("%q: got %+v", user, a)
		}
		if utf8.ValidString(user) && !strings.Contains(user, "\uFFFD") && strings.Contains(text, "\uFFFD") {
			t.Errorf("%q: a character was cut in two: %s", user, text)
		}
		seen := map[string]bool{}
		for _, k := range a.Keywords {
			if k == "" || seen[k] || !utf8.ValidString(k) {
				t.Errorf("%q: keyword %q of %q", user, k, a.Keywords)
			}
			seen[k] = true
		}
	})
}

func TestTheSwitches(t *testing.T) {
	t.Parallel()
	good := ask(t.Context(), client(t, aistub.New(aistub.Behaviour{})), notes)
	for _, tt := range []struct {
		name      string
		behaviour aistub.Behaviour
		want      []string // of calls one after the other
		took      time.Duration
	}{
		{"none", aistub.Behaviour{}, []string{good, good}, 0},
		{"latency", aistub.Behaviour{Latency: 3 * time.Second}, []string{good, good}, 6 * time.Second},
		{"busy", aistub.Behaviour{Status: 429}, []string{ai.ReasonBusy, ai.ReasonBusy}, 0},
		{"down", aistub.Behaviour{Status: 503, Latency: time.Second}, []string{ai.ReasonError, ai.ReasonError}, 2 * time.Second},
		{"key not accepted", aistub.Behaviour{Status: 401}, []string{ai.ReasonUnauthorised, ai.ReasonBreakerOpen}, 0},
		{"refusing", aistub.Behaviour{Status: 400}, []string{ai.ReasonRefused}, 0},
		{"hanging", aistub.Behaviour{Hang: true}, []string{ai.ReasonTimeout, ai.ReasonTimeout}, time.Minute},
		{"garbage", aistub.Behaviour{Garbage: true}, []string{ai.ReasonBadAnswer, ai.ReasonBadAnswer}, 0},
		{"truncated", aistub.Behaviour{Truncated: true}, []string{ai.ReasonBadAnswer, ai.ReasonBadAnswer}, 0},
		{"fenced", aistub.Behaviour{Fenced: true}, []string{"```json\n" + good + "\n```"}, 0},
		{"failing first", aistub.Behaviour{FailFirst: 2}, []string{ai.ReasonError, ai.ReasonError, good, good}, 0},
		{"busy first", aistub.Behaviour{FailFirst: 1, Status: 429, RetryAfter: time.Second}, []string{ai.ReasonBusy, good}, 0},
		{"hanging first", aistub.Behaviour{FailFirst: 1, Hang: true, Latency: time.Second}, []string{ai.ReasonTimeout, good}, 31 * time.Second},
		{"fenced first", aistub.Behaviour{FailFirst: 1, Fenced: true}, []string{"```json\n" + good + "\n```", good}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := tt.behaviour.Check(); err != nil {
				t.Error(err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := aistub.New(tt.behaviour)
				c := client(t, s)
				begun, called := time.Now(), 0
				for i, want := range tt.want {
					if got := ask(t.Context(), c, notes); got != want {
						t.Errorf("call %d: got %q, want %q", i+1, got, want)
					}
					if want != ai.ReasonBreakerOpen {
						called++
					}
				}
				if got := time.Since(begun); got != tt.took {
					t.Errorf("took %s, want %s", got, tt.took)
				}
				if got := s.Calls(); got != called {
					t.Errorf("%d calls, want %d", got, called)
				}
			})
		})
	}
}

func TestTheBehaviourChangesWhileItServes(t *testing.T) {
	t.Parallel()
	s := aistub.New(aistub.Behaviour{FailFirst: 1})
	c := client(t, s)
	want := []string{ai.ReasonError, ai.ReasonBusy, ai.ReasonError}
	for i, set := range []*aistub.Behaviour{nil, {Status: 429}, {FailFirst: 1}} { // counted from when it is set, not from the start
		if set != nil {
			s.Set(*set)
		}
		if got := ask(t.Context(), c, notes); got != want[i] {
			t.Errorf("call %d: got %q, want %q", i+1, got, want[i])
		}
	}
	if got := ask(t.Context(), c, notes); !strings.HasPrefix(got, "{") {
		t.Errorf("got %q", got)
	}
	if got := s.Calls(); got != 4 {
		t.Errorf("%d calls, want 4", got)
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "", time.Millisecond: "1", time.Second: "1", 1500 * time.Millisecond: "2", time.Hour: "3600"} {
		w := httptest.NewRecorder()
		aistub.New(aistub.Behaviour{Status: 429, RetryAfter: d}).ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"x"}]}`)))
		if got := w.Header().Get("Retry-After"); got != want || w.Code != 429 {
			t.Errorf("%s: got %d, Retry-After %q, want %q", d, w.Code, got, want)
		}
	}
}

// A request that is none gets an error object with its status, and does not count.
func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	const ok = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	s := aistub.New(aistub.Behaviour{})
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"another path", "POST", "/v1/models", ok, 404},
		{"the root", "GET", "/", "", 404},
		{"another method", "GET", "/v1/chat/completions", "", 405},
		{"nothing", "POST", "/v1/chat/completions", "", 400},
		{"null", "POST", "/v1/chat/completions", "null", 400},
		{"not JSON", "POST", "/v1/chat/completions", "{", 400},
		{"no model", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`, 400},
		{"no messages", "POST", "/v1/chat/completions", `{"model":"m","messages":[]}`, 400},
		{"content of another kind", "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":7}]}`, 400},
		{"a stream", "POST", "/v1/chat/completions", `{"stream":true,` + ok[1:], 400},
		{"too long", "POST", "/v1/chat/completions", strings.Repeat(" ", 8<<20) + ok, 413},
		{"deep", "POST", "/v1/chat/completions", strings.Repeat("[", 100_000), 400},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
		var got struct {
			Error struct{ Message, Type, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != tt.want || got.Error.Message == "" || got.Error.Code == "" {
			t.Errorf("%s: got %d %s, want %d and an error object", tt.name, w.Code, w.Body, tt.want)
		}
	}
	if got := s.Calls(); got != 0 {
		t.Errorf("%d calls, want none", got)
	}
	for _, body := range []string{ok, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"from parts"},{"type":"image_url"}]}]}`, `{"model":"m","messages":[{"role":"assistant","content":null}]}`} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("POST", "/any/where/chat/completions", strings.NewReader(body)))
		if w.Code != 200 || strings.Contains(body, "from parts") && !strings.Contains(w.Body.String(), "from parts") {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]aistub.Behaviour{
		"latency: negative":                          {Latency: -1},
		"status: must be 400 to 599":                 {Status: 200},
		"retry after: negative":                      {Status: 429, RetryAfter: -1},
		"retry after: needs a status":                {RetryAfter: 1},
		"fail first: negative":                       {FailFirst: -1},
		"at most one of them":                        {Hang: true, Status: 500},
		"garbage, truncated, fenced: at most one":    {Garbage: true, Fenced: true},
		"latency: negative\nfail first: negative":    {Latency: -1, FailFirst: -1},
		"status: must be 400 to 599\nretry after: n": {Status: 600, RetryAfter: -1},
	} {
		if err := b.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", b, err, want)
		}
	}
}

// Over a real server: a client that goes away ends a call that hangs, and many may ask while the behaviour changes.
func TestManyAskAtOnce(t *testing.T) {
	t.Parallel()
	s := aistub.New(aistub.Behaviour{Hang: true})
	server := httptest.NewServer(s)
	defer server.Close() // waits for the calls that hang
	ctx, cancel := context.WithCancel(t.Context())
	c, err := ai.New(ai.Config{BaseURL: server.URL, Model: "stub"})
	if err != nil {
		t.Fatal(err)
	}
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() { ask(ctx, c, notes) })
	}
	for s.Calls() < 8 {
		resp, err := http.Post(server.URL, "", nil) // meanwhile the stub answers others
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	cancel()
	asking.Wait()
	s.Set(aistub.Behaviour{})
	for range 8 {
		asking.Go(func() {
			s.Set(aistub.Behaviour{})
			if got := ask(t.Context(), c, notes); !strings.HasPrefix(got, "{") {
				t.Errorf("got %q", got)
			}
		})
	}
	asking.Wait()
	if got := s.Calls(); got != 16 {
		t.Errorf("%d calls, want 16", got)
	}
}
