package ai_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"hanbeon/pkg/ai"
)

// choice is an answer with one choice.
func choice(message, finish string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"message":%s,"finish_reason":%s}]}`, message, finish)
}

// says is an answer with a content.
func says(content string) string {
	b, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return choice(`{"role":"assistant","content":`+string(b)+`}`, `"stop"`)
}

// AI-03, the half of the transport: what is no answer of the protocol passes as ai-bad-answer, and what a model says in one is returned as it is, for the kind to judge.
func TestWhatIsAnAnswerAndWhatIsNot(t *testing.T) {
	t.Parallel()
	const bad, refused = "later ai-bad-answer", "never ai-refused"
	for _, tt := range []struct {
		name, body string
		want       string // the class
		text       string
	}{
		{"good", good, "fine", goodText},
		{"broken JSON", `{"summary":"he said "hi""}`, bad, ""},
		{"a fenced block around it all", "```json\n" + good + "\n```", bad, ""},
		{"HTML", "<!doctype html><html><body>Bad gateway</body></html>", bad, ""},
		{"nothing", "", bad, ""},
		{"an empty string", `""`, bad, ""},
		{"null", "null", bad, ""},
		{"a number", "123", bad, ""},
		{"an empty object", "{}", bad, ""},
		{"an empty list", "[]", bad, ""},
		{"another object", `{"summary":123}`, bad, ""},
		{"cut off", good[:len(good)-5], bad, ""},
		{"two answers", good + good, bad, ""},
		{"something behind it", good + "canary", bad, ""},
		{"space behind it", good + " \r\n\t", "fine", goodText},
		{"a stream", "data: " + good + "\n\ndata: [DONE]\n\n", bad, ""},
		{"a byte order mark", "\uFEFF" + good, bad, ""},
		{"an error with 200", `{"error":{"message":"no","type":"server_error","code":500}}`, bad, ""},
		{"choices null", `{"choices":null}`, bad, ""},
		{"choices empty", `{"choices":[]}`, bad, ""},
		{"choices of another kind", `{"choices":"none"}`, bad, ""},
		{"a choice that is null", `{"choices":[null]}`, bad, ""},
		{"a choice without message", `{"choices":[{"index":0}]}`, bad, ""},
		{"message null", choice(`null`, `"stop"`), bad, ""},
		{"message is text", choice(`"hello"`, `"stop"`), bad, ""},
		{"content missing", choice(`{"role":"assistant"}`, `"stop"`), bad, ""},
		{"content null", choice(`{"role":"assistant","content":null}`, `"stop"`), bad, ""},
		{"content empty", says(""), bad, ""},
		{"content is space", says(" \n\t "), bad, ""},
		{"content is a number", choice(`{"content":42}`, `"stop"`), bad, ""},
		{"content is an object", choice(`{"content":{"title":"x"}}`, `"stop"`), bad, ""},
		{"content in parts", choice(`{"content":[{"type":"text","text":"{\"a\":"},{"type":"text","text":"1}"}]}`, `"stop"`), "fine", `{"a":1}`},
		{"content with thoughts", choice(`{"content":[{"type":"thinking","thinking":[{"text":"hm"}]},{"type":"text","text":"{}"}]}`, `"stop"`), "fine", `{}`},
		{"content without parts", choice(`{"content":[]}`, `"stop"`), bad, ""},
		{"content with a part that is null", choice(`{"content":[null]}`, `"stop"`), bad, ""},
		{"content is a picture", choice(`{"content":[{"type":"image_url","image_url":{"url":"x"}}]}`, `"stop"`), bad, ""},
		{"cut off by the model", choice(`{"content":"{\"title\":"}`, `"length"`), bad, ""},
		{"a call of a tool", choice(`{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `"tool_calls"`), bad, ""},
		{"refused", choice(`{"content":null,"refusal":"I cannot"}`, `"stop"`), refused, ""},
		{"refused beside a text", choice(`{"content":"{}","refusal":"I cannot"}`, `"stop"`), refused, ""},
		{"refused in a part", choice(`{"content":[{"type":"refusal","refusal":"I cannot"}]}`, `"stop"`), refused, ""},
		{"filtered", choice(`{"content":""}`, `"content_filter"`), refused, ""},
		{"no finish reason", choice(`{"content":"{}"}`, `null`), "fine", "{}"},
		{"the first of two choices", `{"choices":[{"message":{"content":"1"}},{"message":{"content":"2"}}]}`, "fine", "1"},
		{"no more than it needs", `{"choices":[{"message":{"content":"1"}}],"unknown":[{"a":{}}],"usage":null}`, "fine", "1"},
		{"content that is fenced", says("```json\n{}\n```"), "fine", "```json\n{}\n```"},
		{"content that is HTML", says("<html>…</html>"), "fine", "<html>…</html>"},
		{"content that is broken JSON", says(`{"summary":"he said "hi""}`), "fine", `{"summary":"he said "hi""}`},
		{"every script", says("한글 émoji 👩‍👩‍👧 \u0000 \u2028 \U0010FFFF"), "fine", "한글 émoji 👩‍👩‍👧 \u0000 \u2028 \U0010FFFF"},
		{"half a surrogate pair", choice(`{"content":"a\ud800b"}`, `"stop"`), "fine", "a\uFFFDb"},
		{"bytes that are not UTF-8", choice("{\"content\":\"a\xffb\"}", `"stop"`), "fine", "a\uFFFDb"},
		{"deeper than the decoder goes", `{"choices":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, bad, ""},
		{"as long as it may be", says(strings.Repeat("x", 1<<20-len(says("")))), "fine", strings.Repeat("x", 1<<20-len(says("")))},
		{"a byte too long", says(strings.Repeat("x", 1<<20+1-len(says("")))), bad, ""},
		{"much too long", says(strings.Repeat("x", 8<<20)), bad, ""},
		{"space for ever", strings.Repeat(" ", 4<<20), bad, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, say(200, tt.body))
			text, err := ask(t.Context(), s.client(t, nil))
			if got := class(err); got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
			if text != tt.text {
				t.Errorf("got text %.80q of %d bytes, want %.80q of %d", text, len(text), tt.text, len(tt.text))
			}
			if err != nil && len(err.Error()) > 200 {
				t.Errorf("the error has %d bytes: %.300s", len(err.Error()), err)
			}
			if got := s.calls.Load(); got != 1 {
				t.Errorf("%d calls, want 1", got)
			}
		})
	}
}

// The bound holds for what an answer becomes when it is unpacked: a bomb of some KB is not blown up to many MB.
func TestAnAnswerIsBoundedAfterItIsUnpacked(t *testing.T) {
	t.Parallel()
	packed := func(size int, head, tail string) []byte {
		var buf bytes.Buffer
		z := gzip.NewWriter(&buf)
		io.WriteString(z, head)
		for space := bytes.Repeat([]byte(" "), 1<<20); size > 0; size -= len(space) {
			z.Write(space)
		}
		io.WriteString(z, tail)
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return buf.Bytes()
	}
	whole := packed(0, good, "")
	for _, tt := range []struct {
		name string
		body []byte
		want string
	}{
		{"packed", whole, "fine"},
		{"a bomb", packed(4<<20, "", good), "later ai-bad-answer"},
		{"a bomb behind an answer", packed(4<<20, good, ""), "later ai-bad-answer"},
		{"not packed at all", []byte(good), "later ai-bad-answer"},
		{"packed and cut off", whole[:len(whole)-20], "later ai-unreachable"},
		{"packed and damaged", append([]byte{whole[0], whole[1], 8, 0, 0, 0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 40)...), "later ai-bad-answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "gzip" {
					t.Errorf("Accept-Encoding %q", r.Header.Get("Accept-Encoding"))
				}
				w.Header().Set("Content-Encoding", "gzip")
				w.Write(tt.body)
			})
			text, err := ask(t.Context(), s.client(t, nil))
			if got := class(err); got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
			if err == nil && text != goodText {
				t.Errorf("got %q", text)
			}
		})
	}
}

// endless is a body without end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 16<<20 {
		return 0, io.EOF
	}
	e.read += len(p)
	return copy(p, bytes.Repeat([]byte(" "), len(p))), nil
}

func (e *endless) Close() error { return nil }

// No more is read than may come, whether it is an answer or an error.
func TestABodyWithoutEndIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{200: "later ai-bad-answer", 302: "later ai-bad-answer", 400: "never ai-refused", 500: "later ai-error"} {
		body := &endless{}
		c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Transport: transport(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: body, Request: r}, nil
		})})
		if _, err := ask(t.Context(), c); class(err) != want {
			t.Errorf("%d: got %q, want %q", status, class(err), want)
		}
		if body.read > 2<<20 {
			t.Errorf("%d: %d bytes were read, want about 1 MB", status, body.read)
		}
	}
}

func TestAnAnswerInBrokenHTTP(t *testing.T) {
	t.Parallel()
	const bad, gone = "later ai-bad-answer", "later ai-unreachable"
	for _, tt := range []struct{ name, raw, want string }{
		{"chunks that are none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ncanary\r\n", bad},
		{"a chunk of a negative size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n", bad},
		{"a chunk of an enormous size", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello\r\n", bad},
		{"the whole answer in chunks", fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(good), good), "fine"},
		{"without a length, to the end of the connection", "HTTP/1.0 200 OK\r\n\r\n" + good, "fine"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", gone},
		{"a length that is less", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n" + good, bad},
		{"headers without end", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Canary: "+strings.Repeat("a", 1000)+"\r\n", 200) + "\r\n" + good, gone},
		{"a status that is none", "HTTP/1.1 canary OK\r\n\r\n", gone},
		{"an upgrade", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: canary\r\n\r\n", bad},
		{"hints for ever", strings.Repeat("HTTP/1.1 103 Early Hints\r\nX-Canary: x\r\n\r\n", 5000), gone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, raw(tt.raw))
			_, err := ask(t.Context(), s.client(t, nil))
			if got := class(err); got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
			if err != nil && strings.Contains(strings.ToLower(err.Error()), "canary") {
				t.Errorf("%q quotes the answer", err)
			}
		})
	}
}

// Whatever comes with whatever status, there is a text or an error with a class, and the error is short and quotes nothing.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{good, "", "null", "[]", "{}", says("x"), `{"error":{"message":"canary","type":"t","code":1}}`, `{"error":"canary"}`, `{"error":{"message":["canary"],"code":{}}}`,
		choice(`{"content":[{"type":"text","text":"canary"}]}`, `"stop"`), `{"error":{"message":"m","innererror":{"code":"x","content_filter_result":{"hate":{"filtered":true}}}}}`} {
		for _, status := range []int{200, 302, 400, 401, 429, 500} {
			f.Add(status, seed)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		status = 200 + (status%400+400)%400
		c := newClient(t, ai.Config{BaseURL: "http://ai.test", Model: "m", Transport: transport(func(r *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, r.Body)
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})})
		text, err := c.Complete(t.Context(), "system-canary-0123456789", "user-canary-0123456789", "til", schema)
		switch got := class(err); {
		case err == nil && (status >= 300 || strings.TrimSpace(text) == ""):
			t.Errorf("status %d gave the text %q", status, text)
		case strings.HasPrefix(got, "unclassified"):
			t.Errorf("got %q", got)
		case err != nil && (text != "" || len(err.Error()) > 200 || strings.Contains(err.Error(), "canary-0123456789")):
			t.Errorf("text %q, error %q", text, err)
		}
	})
}
