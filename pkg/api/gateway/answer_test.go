package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api/gateway"
)

const internalError = `{"type":"about:blank","title":"Internal Server Error","status":500}`

func TestAnAnswerKeepsItsHeadersAndCookies(t *testing.T) {
	t.Parallel()
	a, _ := handle(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", "2")
		h.Add("Vary", "Accept")
		h.Add("Vary", "Origin")
		h.Add("Link", `</v1/jobs?cursor=a,b>; rel="next"`)
		h.Set("X-Request-Id", "another")
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		h.Add("Set-Cookie", "b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT")
		w.WriteHeader(http.StatusAccepted)
		w.WriteHeader(http.StatusTeapot)
		h.Set("Late", "too late")
		_, _ = w.Write([]byte("{"))
		_, _ = w.Write([]byte("}"))
	}, event("GET", "/"))
	if a.StatusCode != 202 || a.Body != "{}" || a.IsBase64Encoded {
		t.Errorf("answer = %d %q (base64 %t), want 202 {}", a.StatusCode, a.Body, a.IsBase64Encoded)
	}
	want := map[string]string{"Content-Type": "application/json", "Vary": "Accept, Origin", "Link": `</v1/jobs?cursor=a,b>; rel="next"`, "X-Request-Id": "JKJaXmPLvHcESHA="}
	if diff := cmp.Diff(a.Headers, want); diff != "" {
		t.Errorf("headers (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(a.Cookies, []string{"a=1", "b=2; Expires=Wed, 21 Oct 2026 07:28:00 GMT"}); diff != "" {
		t.Errorf("cookies (-got +want):\n%s", diff)
	}
}

func TestABodyTravelsAsTextOnlyIfItIsText(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte("{}"))
	_ = z.Close()
	for _, c := range []struct {
		name, contentType, encoding, body string
		isBase64                          bool
		wantType                          string
	}{
		{"JSON", "application/json", "", `{"a":"한"}`, false, "application/json"},
		{"problem details", "application/problem+json; charset=utf-8", "", `{}`, false, "application/problem+json; charset=utf-8"},
		{"HTML", "text/html", "", `<p>`, false, "text/html"},
		{"text that is not UTF-8", "text/plain; charset=euc-kr", "", "\xc7\xd1", true, "text/plain; charset=euc-kr"},
		{"JSON, zipped", "application/json", "gzip", zipped.String(), true, "application/json"},
		{"an image", "image/png", "", "\x89PNG\r\n\x1a\n", true, "image/png"},
		{"bytes that happen to be text", "application/octet-stream", "", "abc", true, "application/octet-stream"},
		{"guessed text", "", "", "abc", false, "text/plain; charset=utf-8"},
		{"guessed bytes", "", "", "\x00\x01", true, "application/octet-stream"},
		{"a content type that is none", "///", "", "abc", true, "///"},
		{"nothing", "image/png", "", "", false, "image/png"},
		{"nothing of no type", "", "", "", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, _ := handle(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.contentType != "" {
					w.Header().Set("Content-Type", c.contentType)
				}
				if c.encoding != "" {
					w.Header().Set("Content-Encoding", c.encoding)
				}
				_, _ = w.Write([]byte(c.body))
			}, event("GET", "/"))
			got := a.Body
			if a.IsBase64Encoded {
				b, err := base64.StdEncoding.DecodeString(a.Body)
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != c.body || a.IsBase64Encoded != c.isBase64 || a.Headers["Content-Type"] != c.wantType {
				t.Errorf("answer = %q (base64 %t) of type %q, want %q (base64 %t) of type %q", got, a.IsBase64Encoded, a.Headers["Content-Type"], c.body, c.isBase64, c.wantType)
			}
		})
	}
}

func TestSomeAnswersHaveNoBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method string
		status       int
		writeError   error
	}{
		{"HEAD", "HEAD", 200, nil},
		{"HEAD of what is missing", "HEAD", 404, nil},
		{"no content", "DELETE", 204, http.ErrBodyNotAllowed},
		{"not modified", "GET", 304, http.ErrBodyNotAllowed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, _ := handle(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("ETag", `"1"`)
				w.WriteHeader(103)
				w.WriteHeader(c.status)
				if n, err := w.Write([]byte("\x00body")); !errors.Is(err, c.writeError) || (err == nil) != (n == 5) {
					t.Errorf("Write = %d, %v, want %v", n, err, c.writeError)
				}
			}, event(c.method, "/"))
			if a.StatusCode != c.status || a.Body != "" || a.IsBase64Encoded || a.Headers["Etag"] != `"1"` {
				t.Errorf("answer = %+v, want %d with its headers and no body", a, c.status)
			}
		})
	}
	t.Run("HEAD that is refused", func(t *testing.T) {
		t.Parallel()
		e := event("HEAD", "/")
		e.Body, e.IsBase64Encoded = "%", true
		if a, _ := handle(t, echo, e); a.StatusCode != 400 || a.Body != "" {
			t.Errorf("answer = %+v, want 400 without body", a)
		}
	})
}

// Lambda drops an answer of more than 6 MB and reports an error of the function; the caller would read a 500 or 502 of the gateway, and we no line in the log.
func TestAnAnswerThatLambdaCannotReturnIs500(t *testing.T) {
	t.Parallel()
	const limit = 6 << 20
	for _, c := range []struct {
		name   string
		write  func(w http.ResponseWriter)
		status int
	}{
		{"just small enough", func(w http.ResponseWriter) { write(w, "text/plain", "a", limit-1024) }, 200},
		{"too large in one", func(w http.ResponseWriter) { write(w, "text/plain", "a", limit+1) }, 500},
		{"the headers make it too large", func(w http.ResponseWriter) { write(w, "text/plain", "a", limit) }, 500},
		{"too large in many", func(w http.ResponseWriter) {
			for range 100 {
				write(w, "text/plain", "a", limit/50)
			}
		}, 500},
		{"base64 makes it too large", func(w http.ResponseWriter) { write(w, "image/png", "a", limit-limit/5) }, 500},
		{"quotes make it too large", func(w http.ResponseWriter) { write(w, "application/json", `"`, limit/2) }, 500},
		{"control characters make it too large", func(w http.ResponseWriter) { write(w, "text/plain", "\x01", limit/6) }, 500},
		{"angle brackets do not", func(w http.ResponseWriter) { write(w, "text/plain", "<", limit/2) }, 200},
		{"a small write after a large one is not taken for the whole", func(w http.ResponseWriter) {
			write(w, "text/plain", "a", limit+1)
			write(w, "text/plain", "b", 1)
		}, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, logged := handle(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Secret", "canary")
				c.write(w)
			}, event("GET", "/"))
			if a.StatusCode != c.status {
				t.Fatalf("status = %d, want %d", a.StatusCode, c.status)
			}
			if c.status == 200 {
				if logged != "" {
					t.Errorf("logged %q, want nothing", logged)
				}
				return
			}
			if a.Body != internalError || a.Headers["Secret"] != "" {
				t.Errorf("answer = %.200q with headers %v, want %q and nothing of the handler's", a.Body, a.Headers, internalError)
			}
			if strings.Count(logged, "\n") != 1 || !strings.Contains(logged, `"limit":6291456`) || strings.Contains(logged, "canary") {
				t.Errorf("logged %q, want one line that names the limit and quotes nothing", logged)
			}
		})
	}
}

func write(w http.ResponseWriter, contentType, s string, n int) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write([]byte(strings.Repeat(s, n)))
}

func TestAPanicIsAnswered(t *testing.T) {
	t.Parallel()
	type secret struct{ text string }
	var none *http.Request
	for _, c := range []struct {
		name string
		do   func(w http.ResponseWriter)
		want string // in the log
	}{
		{"a string", func(http.ResponseWriter) { panic("CANARY") }, `"panic":"string"`},
		{"an error", func(http.ResponseWriter) { panic(fmt.Errorf("reading: %w", errors.New("CANARY"))) }, `"panic":"*fmt.wrapError"`},
		{"a struct", func(http.ResponseWriter) { panic(secret{"CANARY"}) }, `"panic":"gateway_test.secret"`},
		{"a nil pointer", func(http.ResponseWriter) { _ = none.Host }, `"panic":"runtime error: invalid memory address or nil pointer dereference"`},
		{"nil", func(http.ResponseWriter) { panic(nil) }, `"panic":"panic called with nil argument`},
		{"an aborted answer", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, `"panic":"*errors.errorString"`},
		{"a status that is none", func(w http.ResponseWriter) { w.WriteHeader(0) }, `"panic":"string"`},
		{"after a part of the answer", func(w http.ResponseWriter) {
			w.Header().Set("Set-Cookie", "CANARY")
			w.WriteHeader(202)
			_, _ = w.Write([]byte("CANARY"))
			panic("CANARY")
		}, `"panic":"string"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/jobs/{id}", func(w http.ResponseWriter, _ *http.Request) { c.do(w) })
			e := event("GET", "/v1/jobs/CANARY")
			e.RawQueryString = "cursor=CANARY"
			a, logged := handle(t, mux.ServeHTTP, e)
			if a.StatusCode != 500 || a.Body != internalError || a.IsBase64Encoded || len(a.Cookies) > 0 {
				t.Errorf("answer = %+v, want 500 %s", a, internalError)
			}
			want := map[string]string{"Content-Type": "application/problem+json", "X-Request-Id": "JKJaXmPLvHcESHA="}
			if diff := cmp.Diff(a.Headers, want); diff != "" {
				t.Errorf("headers (-got +want):\n%s", diff)
			}
			if strings.Count(logged, "\n") != 1 {
				t.Errorf("logged %q, want one line", logged)
			}
			for _, part := range []string{c.want, `"request":"JKJaXmPLvHcESHA="`, `"route":"GET /v1/jobs/{id}"`, `"level":"ERROR"`, "answer_test.go"} {
				if !strings.Contains(logged, part) {
					t.Errorf("logged %q, want %s in it", logged, part)
				}
			}
			if strings.Contains(logged, "CANARY") {
				t.Errorf("logged %q, want nothing of the request or the panic's value", logged)
			}
		})
	}
}

// LOG-01
func TestNoCanaryLeaks(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	e := event("POST", "/v1/til-generations/"+canary)
	e.Headers = map[string]string{
		"Authorization":        "AWS4-HMAC-SHA256 Credential=AKID" + canary + "/20240415/ap-northeast-2/execute-api/aws4_request, SignedHeaders=host, Signature=" + canary,
		"authorization":        canary,
		"X-AMZ-Security-Token": "TOKEN-" + canary,
		"x-amz-security-token": "TOKEN-" + canary,
		"X-Api-Key":            canary,
		"idempotency-key":      canary,
	}
	e.Cookies, e.RawQueryString, e.Body = []string{"session=" + canary}, "X-Amz-Security-Token="+canary, `{"memberId":"`+canary+`"}`
	e.RequestContext.Authorizer.IAM.AccessKey, e.RequestContext.HTTP.UserAgent = canary, canary
	for _, c := range []struct {
		name   string
		do     http.HandlerFunc
		change func(body string) (string, bool)
		status int
	}{
		{"answered", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(202) }, nil, 202},
		{"panicked", func(_ http.ResponseWriter, r *http.Request) { panic(fmt.Sprint(r)) }, nil, 500},
		{"aborted", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 500},
		{"answered too much", func(w http.ResponseWriter, _ *http.Request) { write(w, "text/plain", canary, 1<<20) }, nil, 500},
		{"no base64", echo, func(body string) (string, bool) { return "%" + body, true }, 400},
		{"too large", echo, func(body string) (string, bool) { return strings.Repeat(body, 1<<18), false }, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := e
			if c.change != nil {
				e.Body, e.IsBase64Encoded = c.change(e.Body)
			}
			a, logged := handle(t, c.do, e)
			if a.StatusCode != c.status {
				t.Fatalf("status = %d, want %d", a.StatusCode, c.status)
			}
			if strings.Contains(logged, canary) {
				t.Errorf("logged %q, want no canary", logged)
			}
			answer, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(answer), canary) {
				t.Errorf("answered %s, want no canary", answer)
			}
		})
	}
}

// The Lambda runtime reads and writes the JSON of events with its own codec: an answer comes out of that as the gateway expects it.
func TestTheLambdaRuntimeCarriesIt(t *testing.T) {
	t.Parallel()
	handler := gateway.New(http.HandlerFunc(echo), new(lines).log()).Handle
	event, err := json.Marshal(map[string]any{
		"rawPath": "/v1/notes", "body": base64.StdEncoding.EncodeToString([]byte(`{"text":"<한>"}`)), "isBase64Encoded": true,
		"requestContext": map[string]any{"requestId": "id-1", "http": map[string]any{"method": "POST"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := lambda.NewHandler(handler).Invoke(context.Background(), event)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"statusCode":200,"headers":{"Content-Type":"application/json","X-Request-Id":"id-1"},"multiValueHeaders":null,"body":"{\"text\":\"<한>\"}","cookies":null}`
	if diff := cmp.Diff(strings.TrimSpace(string(got)), want); diff != "" {
		t.Errorf("answer (-got +want):\n%s", diff)
	}
}
