package ai_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/ai"
)

// AI-05: which failures pass and which never do, and that nothing beneath Complete tries again by itself.
func TestEachStatusHasItsClassAndItsCalls(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status int
		want   string
		calls  int64
	}{
		{400, "never ai-refused", 1},
		{401, "later ai-unauthorised", 2}, // once more with the key fetched again
		{402, "never ai-refused", 1},
		{403, "later ai-unauthorised", 2},
		{404, "never ai-refused", 1},
		{405, "never ai-refused", 1},
		{408, "later ai-error", 1},
		{409, "never ai-refused", 1},
		{413, "never ai-refused", 1},
		{422, "never ai-refused", 1},
		{425, "later ai-error", 1},
		{429, "later ai-busy", 1},
		{500, "later ai-error", 1},
		{502, "later ai-error", 1},
		{503, "later ai-error", 1},
		{504, "later ai-error", 1},
		{529, "later ai-error", 1},
		{599, "later ai-error", 1},
		{204, "later ai-bad-answer", 1},
		{300, "later ai-bad-answer", 1},
		{304, "later ai-bad-answer", 1},
		{200, "fine", 1},
	} {
		for _, body := range []string{good, "", "<html>", `{"error":{"message":"no","type":"a_type","code":"a.code"}}`} {
			if tt.status == 200 && body != good || tt.status == 204 && body != "" || tt.status == 304 && body != "" {
				continue
			}
			t.Run(fmt.Sprintf("%d with %.9q", tt.status, body), func(t *testing.T) {
				t.Parallel()
				s := serve(t, say(tt.status, body))
				c := s.client(t, func(cfg *ai.Config) {
					cfg.Key = func(context.Context, bool) (string, error) { return "k-1234567", nil }
				})
				text, err := ask(t.Context(), c)
				if got := class(err); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if got := s.calls.Load(); got != tt.calls {
					t.Errorf("%d calls, want %d", got, tt.calls)
				}
				if err != nil && text != "" {
					t.Errorf("a text beside the error: %q", text)
				}
				if err != nil && !strings.Contains(err.Error(), fmt.Sprint(tt.status)) && tt.status >= 300 {
					t.Errorf("%v does not name the status", err)
				}
				if strings.Contains(body, "a.code") && tt.status >= 400 && !strings.Contains(err.Error(), "(a_type, a.code)") {
					t.Errorf("%v does not name the server's code", err)
				}
			})
		}
	}
}

// AI-05: nobody there.
func TestAServerThatIsNotReachedPasses(t *testing.T) {
	t.Parallel()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close() // its port is free again, so it refuses
	noNames := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no name server") }}
	plain := serve(t, say(200, good))
	for _, tt := range []struct {
		name, url string
		transport http.RoundTripper
		says      string
	}{
		{"refused", "http://" + refusing.Addr().String(), nil, "connection refused"},
		{"no such name", "http://ai.invalid", &http.Transport{DialContext: (&net.Dialer{Resolver: noNames}).DialContext}, "its name has no address"},
		{"a server without TLS", strings.Replace(plain.URL, "http:", "https:", 1), nil, "not HTTP"},
		{"a certificate of nobody", tlsServer(t), nil, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ask(t.Context(), newClient(t, ai.Config{BaseURL: tt.url, Model: "m", Transport: tt.transport}))
			if got, want := class(err), "later "+ai.ReasonUnreachable; got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q does not say %q", err, tt.says)
			}
		})
	}
}

// A connection that is closed without an answer, or in the middle of one, costs one call: neither the library nor the transport sends the question again.
func TestABrokenConnectionIsOneCall(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"no answer":         "",
		"half a status":     "HTTP/1.1 2",
		"half the headers":  "HTTP/1.1 200 OK\r\nContent-Le",
		"half of the body":  "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + good[:40],
		"half of the chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + good[:40],
		"another protocol":  "SSH-2.0-OpenSSH_9.2\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, raw(answer))
			_, err := ask(t.Context(), s.client(t, nil))
			if got, want := class(err), "later "+ai.ReasonUnreachable; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := s.calls.Load(); got != 1 {
				t.Errorf("%d calls, want 1", got)
			}
		})
	}
}

func TestRetryAfterIsHonouredWithinBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		header string
		want   time.Duration
	}{
		{"", 0},
		{"7", 7 * time.Second},
		{" 7 ", 7 * time.Second},
		{"0", time.Second},
		{"-5", time.Second},
		{"900", 15 * time.Minute},
		{"901", 15 * time.Minute},
		{"99999999999999999999999999", 15 * time.Minute},
		{"9223372036854775807", 15 * time.Minute},
		{"Mon, 15 Apr 2024 09:01:30 GMT", 90 * time.Second},
		{"Monday, 15-Apr-24 09:01:30 GMT", 90 * time.Second},
		{"Mon, 15 Apr 2024 08:59:00 GMT", time.Second}, // past
		{"Fri, 31 Dec 9999 23:59:59 GMT", 15 * time.Minute},
		{"Mon, 01 Jan 0001 00:00:00 GMT", time.Second},
		{"soon", 0},
		{"1.5", 0},
		{"0x10", 0},
		{"15s", 0},
	} {
		for _, status := range []int{429, 503, 500} {
			t.Run(fmt.Sprintf("%d %q", status, tt.header), func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", tt.header)
					w.WriteHeader(status)
				})
				_, err := ask(t.Context(), s.client(t, func(cfg *ai.Config) { cfg.Now = newClock().now }))
				want := tt.want
				if status == 500 {
					want = 0
				}
				if got := after(t, err); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}
