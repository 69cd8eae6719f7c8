package ai_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/ai"
)

// raw answers with bytes that need not be HTTP, and closes the connection.
func raw(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		io.WriteString(conn, answer)
		if c, ok := conn.(*net.TCPConn); ok {
			c.CloseWrite()
		}
	}
}

func tlsServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(say(200, good))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it reports that it is not trusted
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// What goes over the wire, exactly: a gateway that checks its input strictly meets nothing unknown.
func TestTheQuestionIsThatOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, system string
		key          func(context.Context, bool) (string, error)
		auth         string
		messages     []any
	}{
		{
			"with instructions and key", "be brief", func(context.Context, bool) (string, error) { return " k-1234567\n", nil }, "Bearer k-1234567",
			[]any{map[string]any{"role": "system", "content": "be brief"}, map[string]any{"role": "user", "content": "오늘의 <notes> & \"more\"\n"}},
		},
		{"without", "", nil, "", []any{map[string]any{"role": "user", "content": "오늘의 <notes> & \"more\"\n"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got map[string]any
			var header http.Header
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				header = r.Header
				if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
					t.Errorf("got %s %s", r.Method, r.URL)
				}
				if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
					t.Error(err)
				}
				say(200, good)(w, r)
			})
			text, err := s.client(t, func(cfg *ai.Config) { cfg.Key = tt.key }).Complete(t.Context(), tt.system, "오늘의 <notes> & \"more\"\n", "til", schema)
			if err != nil || text != goodText {
				t.Fatalf("got %q, %v", text, err)
			}
			var wantSchema any
			if err := json.Unmarshal(schema, &wantSchema); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"model": "m", "stream": false, "messages": tt.messages,
				"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "til", "strict": true, "schema": wantSchema}},
			}
			if diff := cmp.Diff(got, want); diff != "" {
				t.Errorf("question (-got +want):\n%s", diff)
			}
			if got := header.Get("Authorization"); got != tt.auth {
				t.Errorf("Authorization %q, want %q", got, tt.auth)
			}
			if got, want := header.Get("Content-Type"), "application/json"; got != want {
				t.Errorf("Content-Type %q, want %q", got, want)
			}
		})
	}
}

func TestTheBaseURLMayEndInASlash(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"":            "/chat/completions",
		"/":           "/chat/completions",
		"/v1":         "/v1/chat/completions",
		"/v1/":        "/v1/chat/completions",
		"/v1//":       "/v1/chat/completions",
		"/a%2Fb/v1":   "/a%2Fb/v1/chat/completions",
		"/openai/v1/": "/openai/v1/chat/completions",
	} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.EscapedPath(); got != want {
					t.Errorf("path %q, want %q", got, want)
				}
				say(200, good)(w, r)
			})
			if _, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) { cfg.BaseURL = s.URL + base })); err != nil {
				t.Error(err)
			}
		})
	}
}

// Models whose parameters the library checks by name can be asked, too.
func TestTheLibraryLetsModelsThrough(t *testing.T) {
	t.Parallel()
	for _, model := range []string{"gpt-5", "gpt-5-mini", "o1", "o3-mini", "o4-mini", "gpt-4o", "llama3.2:3b", "Qwen/Qwen3-8B", "한국어"} {
		s := serve(t, say(200, good))
		if _, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) { cfg.Model = model })); err != nil {
			t.Errorf("%s: %v", model, err)
		}
	}
}

// A question that the library cannot even send never passes, and is no call.
func TestAQuestionThatCannotBeSentIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, say(200, good))
	_, err := s.client(t, nil).Complete(t.Context(), "", "canary-notes", "til", json.RawMessage(`{"canary-notes":`))
	if got, want := class(err), "never "+ai.ReasonRefused; got != want {
		t.Errorf("broken schema: got %q, want %q", got, want)
	}
	_, err = ask(t.Context(), s.client(t, func(cfg *ai.Config) { cfg.Model = "text-davinci-003" }))
	if got, want := class(err), "never "+ai.ReasonRefused; got != want {
		t.Errorf("a model of the old protocol: got %q, want %q", got, want)
	}
	if got := s.calls.Load(); got != 0 {
		t.Errorf("%d calls, want none", got)
	}
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		cfg  ai.Config
		want []string
	}{
		{"nothing set", ai.Config{}, []string{"base URL: missing", "model: missing"}},
		{"no scheme", ai.Config{BaseURL: "ai.example.com/v1", Model: "m"}, []string{"base URL: must begin"}},
		{"another scheme", ai.Config{BaseURL: "ftp://ai.example.com", Model: "m"}, []string{"base URL: must begin"}},
		{"no host", ai.Config{BaseURL: "http://:8080/v1", Model: "m"}, []string{"base URL: has no host"}},
		{"not a URL", ai.Config{BaseURL: "http://canary%zz", Model: "m"}, []string{"base URL: not a URL"}},
		{"control character", ai.Config{BaseURL: "http://canary/v1\n", Model: "m"}, []string{"base URL: not a URL"}},
		{"space", ai.Config{BaseURL: "http://h/canary ", Model: "m"}, []string{"base URL: not a URL"}},
		{"password", ai.Config{BaseURL: "https://me:canary@h/v1", Model: "m"}, []string{"base URL: has a user"}},
		{"query", ai.Config{BaseURL: "https://h/v1?key=canary", Model: "m"}, []string{"base URL: has a query"}},
		{"empty query", ai.Config{BaseURL: "https://h/v1?", Model: "m"}, []string{"base URL: has a query"}},
		{"fragment", ai.Config{BaseURL: "https://h/v1#canary", Model: "m"}, []string{"base URL: has a query or fragment"}},
		{"empty fragment", ai.Config{BaseURL: "https://h/v1#", Model: "m"}, []string{"base URL: has a query or fragment"}},
		{"the whole address", ai.Config{BaseURL: "https://h/v1/chat/completions/", Model: "m"}, []string{"base URL: ends in /chat/completions"}},
		{"model of spaces", ai.Config{BaseURL: "https://h/v1", Model: " "}, []string{"model: missing"}},
		{"timeout", ai.Config{BaseURL: "https://h/v1", Model: "m", Timeout: -time.Second}, []string{"timeout: negative"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := ai.New(tt.cfg)
			if err == nil || c != nil {
				t.Fatalf("got %v, %v", c, err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("%q quotes the value", err)
			}
		})
	}
	for _, ok := range []string{"http://localhost:11434/v1", "https://api.openai.com/v1/", "HTTPS://H", "http://[::1]:8080/v1", "http://127.0.0.1"} {
		if _, err := ai.New(ai.Config{BaseURL: ok, Model: "m"}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

// A redirect must not carry the key or the notes to somebody else, nor turn the question into another request.
func TestRedirectsStayOnTheServer(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, say(200, good))
	for _, tt := range []struct {
		name, to string
		status   int
		want     string
		calls    int64
	}{
		{"elsewhere", elsewhere.URL + "/v1/chat/completions", 307, "later ai-bad-answer", 1},
		{"elsewhere, for ever", elsewhere.URL + "/v1/chat/completions", 308, "later ai-bad-answer", 1},
		{"elsewhere, by GET", elsewhere.URL, 302, "later ai-bad-answer", 1},
		{"the same server, by GET", "/other", 302, "later ai-bad-answer", 1},
		{"the same server, see other", "/other", 303, "later ai-bad-answer", 1},
		{"the same server", "/other", 307, "fine", 2},
		{"the same server, for ever", "/other", 308, "fine", 2},
		{"round in circles", "/v1/chat/completions", 307, "later ai-bad-answer", 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/other" {
					if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), "my notes") || r.Header.Get("Authorization") != "Bearer k-1234567" {
						t.Errorf("the question did not come along: %s", body)
					}
					say(200, good)(w, r)
					return
				}
				w.Header().Set("Location", tt.to)
				w.WriteHeader(tt.status)
			})
			_, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) {
				cfg.Key = func(context.Context, bool) (string, error) { return "k-1234567", nil }
			}))
			if got := class(err); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if got := s.calls.Load(); got != tt.calls {
				t.Errorf("%d calls, want %d", got, tt.calls)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.calls.Load(); got != 0 {
			t.Errorf("%d calls elsewhere, want none", got)
		}
	})
}
