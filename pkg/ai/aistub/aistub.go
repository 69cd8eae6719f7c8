package aistub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRequest bounds a request, in bytes.
const maxRequest = 8 << 20

// Stub is the server, an http.Handler. It is safe for concurrent use.
type Stub struct {
	mu        sync.Mutex
	behaviour Behaviour
	calls     int
	since     int // calls when the behaviour was set
}

var _ http.Handler = (*Stub)(nil)

// New makes a stub that answers POST at any path that ends in /chat/completions. Call Check on a behaviour that came from outside.
func New(b Behaviour) *Stub { return &Stub{behaviour: b} }

// Set changes the behaviour for calls that begin from now on.
func (s *Stub) Set(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour, s.since = b, s.calls
}

// Calls is the number of questions that have come in, whatever became of them. A request that is none (another path, malformed) does not count.
func (s *Stub) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *Stub) next() Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.behaviour.of(s.calls - 1 - s.since)
}

// request is what the stub reads of a question.
type request struct {
	Model    string    `json:"model"`
	Stream   bool      `json:"stream"`
	Messages []message `json:"messages"`
}

type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is text, or a list of parts of which the texts count.
type content string

func (c *content) UnmarshalJSON(b []byte) error {
	var parts []struct{ Type, Text string }
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(c))
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "text" {
			*c += content(p.Text)
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/chat/completions") {
		fail(w, http.StatusNotFound, "unknown_url")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		fail(w, http.StatusMethodNotAllowed, "method_not_supported")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "request_too_large")
		return
	}
	var q request
	if err := json.Unmarshal(body, &q); err != nil || q.Model == "" || len(q.Messages) == 0 || q.Stream {
		fail(w, http.StatusBadRequest, "invalid_request_error")
		return
	}
	b := s.next()
	if !pause(r, b.Latency) {
		return
	}
	switch {
	case b.Hang:
		<-r.Context().Done()
	case b.Status != 0:
		if b.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((b.RetryAfter+time.Second-1)/time.Second)))
		}
		fail(w, b.Status, "stub_error")
	case b.Garbage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html><html><head><title>Bad gateway</title></head><body><h1>Please come back later</h1></body></html>")
	default:
		answer(w, body, q, b)
	}
}

// pause waits; false: the client is gone.
func pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// fail answers with an error object of the protocol.
func fail(w http.ResponseWriter, status int, code string) {
	send(w, status, map[string]any{"error": map[string]any{"message": "the stub answers " + strconv.Itoa(status), "type": code, "param": nil, "code": code}})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v) // the client may be gone, which is its own affair
}

// answer writes a summary of the last message of the user, in the shape that b asks for.
func answer(w http.ResponseWriter, body []byte, q request, b Behaviour) {
	asked := 0
	user := ""
	for _, m := range q.Messages {
		asked += len(m.Content)
		if m.Role == "user" {
			user = string(m.Content)
		}
	}
	text, finish := summarise(user).json(), "stop"
	switch {
	case b.Truncated:
		text, finish = cut(text, len(text)/2), "length"
	case b.Fenced:
		text = "```json\n" + text + "\n```"
	}
	sum := sha256.Sum256(body)
	prompt, completion := asked/4+1, len(text)/4+1 // about what a tokeniser makes of it
	send(w, http.StatusOK, map[string]any{
		"id":      "chatcmpl-" + hex.EncodeToString(sum[:12]),
		"object":  "chat.completion",
		"created": 0, // the same request has the same answer, so it has no time
		"model":   q.Model,
		"choices": []any{map[string]any{
			"index":         0,
			"message":       map[string]any{"role": "assistant", "content": text},
			"finish_reason": finish,
		}},
		"usage": map[string]any{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
	})
}
