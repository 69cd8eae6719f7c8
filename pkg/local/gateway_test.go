package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api/gateway"
	"hanbeon/pkg/api/request"
	"hanbeon/pkg/job"
	"hanbeon/pkg/local"
)

// served is the small stack with an API in front of a third function.
const served = small + `
  Api:
    Type: AWS::Serverless::HttpApi
    Properties:
      Auth: { DefaultAuthorizer: AWS_IAM, EnableIamAuthorizer: true }
  Answerer:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-api
      Timeout: 29
      Events:
        Any:
          Type: HttpApi
          Properties: { ApiId: !Ref Api, Method: ANY, Path: "/{proxy+}" }
`

// serve starts a stack whose API is answered by f, and returns its gateway.
func serve(t *testing.T, template string, f any) (front http.Handler, stop func()) {
	t.Helper()
	s, err := local.NewWith(local.Config{Store: openStore(t), Template: template}, func(job.Env) map[string]any {
		return map[string]any{"worker": raw(nil), "dispatcher": raw(nil), "api": f}
	})
	if err != nil {
		t.Fatal(err)
	}
	front, err = s.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	stop = s.Start(context.WithoutCancel(t.Context()))
	t.Cleanup(stop)
	return front, stop
}

func get(front http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	front.ServeHTTP(w, r)
	return w
}

// signedBy is a request as it comes from the verifier of signatures.
func signedBy(arn, id string, r *http.Request) *http.Request {
	return r.WithContext(request.With(r.Context(), request.Caller{ARN: arn, Account: "123456789012"}, id))
}

func TestARequestBecomesAnEvent(t *testing.T) {
	t.Parallel()
	var got events.APIGatewayV2HTTPRequest
	front, _ := serve(t, served, func(_ context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		got = e
		return events.APIGatewayV2HTTPResponse{StatusCode: 202, Body: "ok"}, nil
	})
	r := httptest.NewRequest("POST", "http://127.0.0.1:8787/v1/a%2Fb/%ED%95%9C?b=2&a=1&a=%20x", strings.NewReader(`{"a":1}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Add("If-None-Match", `"1"`)
	r.Header.Add("If-None-Match", `"2", "3"`)
	r.Header.Add("Cookie", "a=1; b=2")
	r.Header.Add("Cookie", "c=3")
	r.Header.Set("User-Agent", "test")
	r.RemoteAddr = "127.0.0.1:5000"
	if w := get(front, signedBy("arn:aws:iam::123456789012:user/kim", "REQ1", r)); w.Code != 202 || w.Body.String() != "ok" {
		t.Fatalf("answer = %d %q, want 202 ok", w.Code, w.Body)
	}
	got.RequestContext.Time, got.RequestContext.TimeEpoch = "", 0
	want := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: "ANY /{proxy+}", RawPath: "/v1/a/b/한", RawQueryString: "b=2&a=1&a=%20x",
		Cookies: []string{"a=1", "b=2", "c=3"},
		Headers: map[string]string{
			"content-type": "application/json", "if-none-match": `"1","2", "3"`, "user-agent": "test", "host": "127.0.0.1:8787",
			"x-forwarded-for": "127.0.0.1", "x-forwarded-proto": "http", "x-forwarded-port": "8787",
		},
		QueryStringParameters: map[string]string{"a": "1, x", "b": "2"},
		PathParameters:        map[string]string{"proxy": "v1/a/b/한"},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: "ANY /{proxy+}", AccountID: "000000000000", Stage: "$default", RequestID: "REQ1", APIID: "hanbeon", DomainName: "127.0.0.1:8787", DomainPrefix: "hanbeon",
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: "POST", Path: "/v1/a/b/한", Protocol: "HTTP/1.1", SourceIP: "127.0.0.1", UserAgent: "test"},
			Authorizer: &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
				IAM: &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: "arn:aws:iam::123456789012:user/kim", AccountID: "123456789012"},
			},
		},
		Body: `{"a":1}`,
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("event (-got +want):\n%s", diff)
	}
}

// What goes through gateway, event and adapter comes out of the other end as it went in: the same code answers on AWS.
func TestARequestSurvivesTheWayThroughTheAdapter(t *testing.T) {
	t.Parallel()
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Header().Set("Seen", r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery+" "+request.From(r.Context()).ARN+" "+request.ID(r.Context()))
		w.WriteHeader(201)
		_, _ = w.Write(body)
	})
	front, _ := serve(t, served, gateway.New(echo, slog.New(slog.DiscardHandler)).Handle)
	for _, c := range []struct{ name, contentType, body string }{
		{"JSON", "application/json", `{"name":"한"}`},
		{"JSON that is not UTF-8", "application/json", "\"\xff\""},
		{"bytes", "application/octet-stream", "\x00\x01\xff"},
		{"no type", "", "a"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("POST", "/v1/x?q=1", strings.NewReader(c.body))
			if c.contentType != "" {
				r.Header.Set("Content-Type", c.contentType)
			}
			w := get(front, signedBy("arn:aws:iam::1:user/kim", "REQ1", r))
			if w.Code != 201 || w.Body.String() != c.body {
				t.Errorf("answer = %d %q, want 201 %q", w.Code, w.Body, c.body)
			}
			if got, want := w.Header().Get("Seen"), "POST /v1/x?q=1 arn:aws:iam::1:user/kim REQ1"; got != want {
				t.Errorf("the handler saw %q, want %q", got, want)
			}
			if got := w.Header().Values("Set-Cookie"); len(got) != 2 {
				t.Errorf("cookies %q, want two", got)
			}
		})
	}
	if w := get(front, httptest.NewRequest("GET", "/v1/x", nil)); !strings.Contains(w.Header().Get("Seen"), " unknown ") {
		t.Errorf("without a caller the handler saw %q, want unknown", w.Header().Get("Seen")) // EMU-06
	}
}

func TestAnswersOfTheGatewayItself(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	front, stop := serve(t, served, raw(func(_ context.Context, payload []byte) ([]byte, error) {
		calls.Add(1)
		var e events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		switch e.RawPath {
		case "/error":
			return nil, errors.New("CANARY")
		case "/panic":
			panic("CANARY")
		}
		return []byte(e.Body), nil
	}))
	for _, c := range []struct {
		name, path, body string
		status, calls    int
		want             string
	}{
		{"an answer", "/x", `{"statusCode":204}`, 204, 1, ""},
		{"no answer", "/x", ``, 500, 1, "Internal Server Error"},
		{"a status that is none", "/x", `{"statusCode":99}`, 500, 1, "Internal Server Error"},
		{"base64 that is none", "/x", `{"statusCode":200,"isBase64Encoded":true,"body":"%"}`, 500, 1, "Internal Server Error"},
		{"an error", "/error", "", 500, 1, "Internal Server Error"},
		{"a panic", "/panic", "", 500, 1, "Internal Server Error"},
		{"the root, which is no route", "/", "", 404, 0, "Not Found"},
		{"a body of more than 10 MB", "/x", strings.Repeat("a", 10<<20+1), 413, 0, "Request Entity Too Large"},
		{"an event of more than 6 MB", "/x", strings.Repeat("\x01", 2<<20), 413, 0, "Request Entity Too Large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls.Store(0)
			r := httptest.NewRequest("POST", c.path, strings.NewReader(c.body))
			r.Header.Set("Content-Type", "text/plain")
			w := get(front, r)
			want := ""
			if c.want != "" {
				want = `{"message":"` + c.want + `"}`
			}
			if w.Code != c.status || w.Body.String() != want || int(calls.Load()) != c.calls {
				t.Errorf("answer = %d %.100q after %d calls, want %d %q after %d", w.Code, w.Body, calls.Load(), c.status, want, c.calls)
			}
		})
	}
	stop()
	if w := get(front, httptest.NewRequest("GET", "/x", nil)); w.Code != 503 {
		t.Errorf("after the end: %d, want 503", w.Code)
	}
}

// API-02: the gateway stops waiting, the function goes on.
func TestTheGatewayDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, timeout string
		status        int
		after         time.Duration
	}{
		{"the function is cut off", "Timeout: 29", 500, 29 * time.Second},
		{"the gateway is cut off", "Timeout: 60", 503, 30 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				front, _ := serve(t, strings.Replace(served, "Timeout: 29", c.timeout, 1), raw(func(ctx context.Context, _ []byte) ([]byte, error) {
					defer close(ended)
					time.Sleep(40 * time.Second) // deaf to its context
					return []byte(`{"statusCode":202}`), nil
				}))
				begun := time.Now()
				w := get(front, httptest.NewRequest("GET", "/x", nil))
				if took := time.Since(begun); w.Code != c.status || took != c.after {
					t.Errorf("answer = %d after %v, want %d after %v", w.Code, took, c.status, c.after)
				}
				select {
				case <-ended:
				case <-time.After(time.Hour): // not without end: the timers of a stack never run out
				}
				if took := time.Since(begun); took != 40*time.Second {
					t.Errorf("the function ended after %v, want 40 s: nobody stops it", took)
				}
			})
		})
	}
	t.Run("the client has left", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			front, _ := serve(t, served, raw(func(ctx context.Context, _ []byte) ([]byte, error) {
				time.Sleep(time.Second)
				ended <- ctx.Err()
				return []byte(`{"statusCode":202}`), nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			w := get(front, httptest.NewRequestWithContext(ctx, "GET", "/x", bytes.NewReader(nil)))
			select {
			case err := <-ended:
				if err != nil || w.Body.Len() != 0 {
					t.Errorf("the function saw %v, the client %q; want nothing and nothing", err, w.Body)
				}
			case <-time.After(time.Hour):
				t.Error("the function was not invoked")
			}
		})
	})
}

func TestAnAPIThatIsNotHonoured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, old, new, want string }{
		{"as it is", "", "", ""},
		{"an open API", "DefaultAuthorizer: AWS_IAM, ", "", "not behind AWS_IAM"},
		{"another authorizer", "DefaultAuthorizer: AWS_IAM", "DefaultAuthorizer: Token", "not behind AWS_IAM"},
		{"an open route", "Method: ANY,", "Method: ANY, Auth: { Authorizer: NONE },", "Auth is not honoured"},
		{"a narrower route", "Path: \"/{proxy+}\"", "Path: /v1/jobs", "want ANY /{proxy+}"},
		{"another format", "Method: ANY,", "Method: ANY, PayloadFormatVersion: \"1.0\",", "payload format 1.0"},
		{"a stage", "Auth: {", "StageName: prod\n      Auth: {", `stage "prod"`},
		{"browsers", "Auth: {", "CorsConfiguration: true\n      Auth: {", "CorsConfiguration is not honoured"},
		{"an API that is not there", "ApiId: !Ref Api", "ApiId: !Ref Other", `no resource "Other"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := local.NewWith(local.Config{Store: openStore(t), Template: strings.Replace(served, c.old, c.new, 1)}, func(job.Env) map[string]any {
				return map[string]any{"worker": raw(nil), "dispatcher": raw(nil), "api": raw(nil)}
			})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	s, err := local.NewWith(local.Config{Store: openStore(t), Template: small}, func(job.Env) map[string]any {
		return map[string]any{"worker": raw(nil), "dispatcher": raw(nil)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Gateway(); err == nil {
		t.Error("a stack without an API has a gateway")
	}
}

// While a stack ends it waits for the invocations under way, and takes no more.
func TestAnEndingStackTakesNoMoreRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		front, stop := serve(t, served, raw(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(10 * time.Second)
			return []byte(`{"statusCode":202}`), nil
		}))
		first := make(chan int)
		go func() { first <- get(front, httptest.NewRequest("GET", "/first", nil)).Code }()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			stop()
		}()
		synctest.Wait()
		if w := get(front, httptest.NewRequest("GET", "/second", nil)); w.Code != 503 {
			t.Errorf("while it ends: %d, want 503", w.Code)
		}
		if code := <-first; code != 202 {
			t.Errorf("the request under way: %d, want 202", code)
		}
		<-stopped
	})
}
