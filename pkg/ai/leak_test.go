package ai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"hanbeon/pkg/ai"
)

// What must never come out. The error codes of a server are quoted if they look like codes, so these look like codes, and share nothing with each other.
const (
	canaryKey    = "sk-Qu4rtzVeins.0123456789abcdef"
	canarySystem = "Moss-grows_under-old-bridges"
	canaryUser   = "herons_wade-in-the-lagoon"
	canaryBody   = "body-canary"
)

// leaks finds a canary, or a good part of one, in any case of letters.
func leaks(s string) string {
	s = strings.ToLower(s)
	for _, c := range []string{canaryKey, canarySystem, canaryUser} {
		c = strings.ToLower(c)
		for i := range len(c) - 11 {
			if strings.Contains(s, c[i:i+12]) {
				return c[i : i+12]
			}
		}
	}
	for _, c := range []string{canaryBody, strings.ToLower(canaryKey[:8]), "bearer"} {
		if strings.Contains(s, c) {
			return c
		}
	}
	return ""
}

// The key, the prompts and the bodies are in no error and in no log line of any level, though the server sends them back in every place that an answer has.
func TestNothingOfWhatIsSentOrComesBackIsQuoted(t *testing.T) {
	t.Parallel()
	echoes := map[string]string{ // what the server makes of what it was sent: %[1]s is a JSON string of it, %[2]s the text
		"message":        `{"error":{"message":%[1]s,"type":"invalid_request_error"}}`,
		"messages":       `{"error":{"message":["` + canaryBody + `",%[1]s]}}`,
		"code":           `{"error":{"message":"m","code":%[1]s}}`,
		"type":           `{"error":{"message":"m","type":%[1]s}}`,
		"code and type":  `{"error":{"message":"m","type":%[1]s,"code":%[1]s,"param":%[1]s}}`,
		"inner error":    `{"error":{"message":"m","innererror":{"code":%[1]s}}}`,
		"a code of code": `{"error":{"message":"m","code":{"x":%[1]s}}}`,
		"an error text":  `{"error":%[1]s}`,
		"another object": `{"detail":%[1]s,"x":"` + canaryBody + `"}`,
		"text":           `%[2]s ` + canaryBody,
		"HTML":           `<html>%[2]s ` + canaryBody,
		"content":        `{"choices":[{"message":{"content":%[1]s},"finish_reason":"length"}]}`,
		"refusal":        `{"choices":[{"message":{"refusal":%[1]s},"finish_reason":"stop"}]}`,
		"finish reason":  `{"choices":[{"message":{"content":""},"finish_reason":%[1]s}]}`,
		"a wrong kind":   `{"choices":%[1]s}`,
		"a number":       `{"choices":[{"index":%[1]s}]}`,
	}
	sent := map[string]func(*http.Request) string{
		"header":      func(r *http.Request) string { return r.Header.Get("Authorization") },
		"key":         func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") },
		"lower case":  func(r *http.Request) string { return strings.ToLower(r.Header.Get("Authorization")[7:]) },
		"half a key":  func(r *http.Request) string { return strings.ToLower(r.Header.Get("Authorization")[7:20]) },
		"around":      func(r *http.Request) string { return "bad." + strings.ToLower(r.Header.Get("Authorization")[7:17]) },
		"half a note": func(*http.Request) string { return "no_" + canaryUser[:16] },
		"question": func(r *http.Request) string {
			b, _ := io.ReadAll(r.Body)
			return string(b)
		},
		"notes":        func(*http.Request) string { return canaryUser },
		"instructions": func(*http.Request) string { return strings.ToLower(canarySystem) },
	}
	for name, echo := range echoes {
		for what, of := range sent {
			for _, status := range []int{200, 302, 400, 401, 403, 404, 429, 500, 503} {
				log := &records{}
				c := newClient(t, ai.Config{
					BaseURL: "http://ai.test/v1", Model: "m", Log: log.logger(),
					Key: func(context.Context, bool) (string, error) { return canaryKey, nil },
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						text := of(r)
						body := fmt.Sprintf(echo+"%[3]s", fmt.Sprintf("%q", text), text, "")
						h := http.Header{"Content-Type": {text}, "Retry-After": {text}, "X-Request-Id": {text}, "Location": {"http://ai.test/?" + canaryBody}}
						return &http.Response{Status: fmt.Sprint(status, " ", text), StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
					}),
				})
				calls := 1
				if name == "message" {
					calls = 6 // to the opening of the breaker
				}
				for range calls {
					_, err := c.Complete(t.Context(), canarySystem, canaryUser, "til", schema)
					if err == nil {
						t.Fatalf("%s in %s with %d: no error", what, name, status)
					}
					for e := err; e != nil; e = errors.Unwrap(e) {
						if found := leaks(fmt.Sprintf("%v %+v %#v", e, e, e)); found != "" {
							t.Fatalf("%s in %s with %d: the error holds %q: %+v", what, name, status, found, e)
						}
					}
				}
				if found := leaks(log.String()); found != "" || !strings.Contains(log.String(), `"msg":"AI call"`) {
					t.Fatalf("%s in %s with %d: the log holds %q:\n%s", what, name, status, found, log)
				}
				if found := leaks(fmt.Sprintf("%v %+v %#v", c, c, c)); found != "" {
					t.Fatalf("the client holds %q", found)
				}
			}
		}
	}
}

// Errors of HTTP itself quote pieces of the answer: a status line, a header, the address of a redirect.
func TestErrorsOfTheTransportAreNotQuoted(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"protocol":    canaryKey + " " + canaryUser + "\r\n\r\n",
		"status":      "HTTP/1.1 " + canaryKey + " OK\r\n\r\n",
		"header":      "HTTP/1.1 200 OK\r\n" + canaryKey + "\r\n\r\n",
		"header name": "HTTP/1.1 200 OK\r\n" + canaryUser + " : x\r\n\r\n",
		"length":      "HTTP/1.1 200 OK\r\nContent-Length: " + canaryKey + "\r\n\r\n",
		"encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + canaryKey + "\r\n\r\n",
		"chunk":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + canaryKey + "\r\n",
		"redirect":    "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://" + canaryKey + "%zz\r\n\r\n",
		"elsewhere":   "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://" + canaryKey + ".invalid/" + canaryUser + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &records{}
			s := serve(t, raw(answer))
			c := s.client(t, func(cfg *ai.Config) {
				cfg.Log = log.logger()
				cfg.Key = func(context.Context, bool) (string, error) { return canaryKey, nil }
			})
			_, err := c.Complete(t.Context(), canarySystem, canaryUser, "til", schema)
			if err == nil || strings.HasPrefix(class(err), "unclassified") {
				t.Fatalf("got %v", err)
			}
			if found := leaks(fmt.Sprintf("%v %+v", err, err) + log.String()); found != "" {
				t.Errorf("the error or the log holds %q: %v\n%s", found, err, log)
			}
		})
	}
}

// A panic beneath brings up what it was raised with, and nothing of ours.
func TestAPanicHoldsNothingOfWhatIsSent(t *testing.T) {
	t.Parallel()
	c := newClient(t, ai.Config{
		BaseURL: "http://ai.test", Model: "m",
		Key:       func(context.Context, bool) (string, error) { return canaryKey, nil },
		Transport: transport(func(*http.Request) (*http.Response, error) { panic("beneath") }),
	})
	defer func() {
		if got := fmt.Sprint(recover()); got != "beneath" {
			t.Errorf("got %q", got)
		}
	}()
	c.Complete(t.Context(), canarySystem, canaryUser, "til", schema)
	t.Error("no panic")
}

// A code that says something and gives nothing away is worth having.
func TestTheServersCodeIsNamed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ body, want string }{
		{`{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`, "the AI server answered 400 (invalid_request_error, context_length_exceeded)"},
		{`{"error":{"message":"m","type":"BadRequestError","code":400}}`, "the AI server answered 400 (400)"},
		{`{"error":{"message":"m","type":"","code":null}}`, "the AI server answered 400"},
		{`{"error":{"message":"m","code":"has space"}}`, "the AI server answered 400"},
		{`{"error":{"message":"m","code":"` + strings.Repeat("a", 41) + `"}}`, "the AI server answered 400"},
		{`{"error":{"message":"m","code":"line\nbreak"}}`, "the AI server answered 400"},
		{`{"error":{"message":"m","code":"trailing\n"}}`, "the AI server answered 400"},
	} {
		s := serve(t, say(400, tt.body))
		_, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) {
			cfg.Key = func(context.Context, bool) (string, error) { return canaryKey, nil }
		}))
		if got, want := fmt.Sprint(err), "ai-refused: "+tt.want; got != want {
			t.Errorf("%s: got %q, want %q", tt.body, got, want)
		}
	}
}
