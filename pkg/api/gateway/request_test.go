package gateway_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanbeon/pkg/api/gateway"
	"hanbeon/pkg/api/request"
)

// API-01
func TestABodyArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	const doc = `{"targetId":"t1","jobType":"til"}`
	encoded := base64.StdEncoding.EncodeToString([]byte(doc))
	binary := string([]byte{0, 0xff, '\r', '\n', 0xfe})
	for _, c := range []struct {
		name, body string
		isBase64   bool
		status     int
		want       string
	}{
		{"text", doc, false, 200, doc},
		{"base64", encoded, true, 200, doc},
		{"base64 that says it is text is text", encoded, false, 200, encoded},
		{"no base64", "%%%", true, 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the body is not valid base64"}`},
		{"base64 cut off", encoded[:len(encoded)-3], true, 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the body is not valid base64"}`},
		{"base64 for URLs", "_-8=", true, 400, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the body is not valid base64"}`},
		{"bytes that are no text", base64.StdEncoding.EncodeToString([]byte(binary)), true, 200, binary},
		{"Hangul", `{"title":"오늘"}`, false, 200, `{"title":"오늘"}`},
		{"none", "", false, 200, ""},
		{"none in base64", "", true, 200, ""},
		{"as large as allowed", strings.Repeat("a", request.MaxBody), false, 200, strings.Repeat("a", request.MaxBody)},
		{"as large as allowed in base64", base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", request.MaxBody))), true, 200, strings.Repeat("a", request.MaxBody)},
		{"one byte more", strings.Repeat("a", request.MaxBody+1), false, 413, `{"type":"about:blank","title":"Request Entity Too Large","status":413,"detail":"the body has more than 4194304 bytes"}`},
		{"one byte more in base64", base64.StdEncoding.EncodeToString(make([]byte, request.MaxBody+1)), true, 413, `{"type":"about:blank","title":"Request Entity Too Large","status":413,"detail":"the body has more than 4194304 bytes"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := event("POST", "/v1/til-generations")
			e.Body, e.IsBase64Encoded = c.body, c.isBase64
			a, logged := handle(t, echo, e)
			got := a.Body
			if a.IsBase64Encoded {
				b, err := base64.StdEncoding.DecodeString(got)
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if a.StatusCode != c.status || got != c.want {
				t.Errorf("answer = %d %.200q, want %d %.200q", a.StatusCode, got, c.status, c.want)
			}
			if c.status != 200 && a.Headers["Content-Type"] != "application/problem+json" {
				t.Errorf("Content-Type = %q, want application/problem+json", a.Headers["Content-Type"])
			}
			if logged != "" {
				t.Errorf("logged %q, want nothing", logged)
			}
		})
	}
}

func TestAPathKeepsItsSegments(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "root") })
	mux.HandleFunc("GET /v1/members/{id}/points", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "points of "+r.PathValue("id")) })
	mux.HandleFunc("GET /v1/monthly-points", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "grants") })
	for _, c := range []struct{ name, stage, path, want string }{
		{"plain", "$default", "/v1/members/member-42/points", "points of member-42"},
		{"an encoded slash stays in its segment", "$default", "/v1/members/a%2Fb/points", "points of a/b"},
		{"escaped and needed", "$default", "/v1/members/a%20b%3Fc%25d/points", "points of a b?c%d"},
		{"@ may be escaped or not", "$default", "/v1/members/kim%40b.example/points", "points of kim@b.example"},
		{"@ plain", "$default", "/v1/members/kim@b.example/points", "points of kim@b.example"},
		{"+ is itself", "$default", "/v1/members/a+b/points", "points of a+b"},
		{"Hangul escaped", "$default", "/v1/members/%ED%95%9C/points", "points of 한"},
		{"decoded by the gateway: Hangul", "$default", "/v1/members/한/points", "points of 한"},
		{"decoded by the gateway: a space", "$default", "/v1/members/a b/points", "points of a b"},
		{"decoded by the gateway: a bare %", "$default", "/v1/members/100%/points", "points of 100%"},
		{"decoded by the gateway: a space and an escape, sent as %252F", "$default", "/v1/members/a b%2Fc/points", "points of a b%2Fc"},
		{"an escape that nobody needs is not decoded a second time", "$default", "/v1/members/m%65mber/points", "points of m%65mber"},
		{"so a route cannot hide from a policy", "$default", "/v1/monthly%2Dpoints", "404"},
		{"nor in lower case", "$default", "/v1/monthly%2dpoints", "404"},
		{"nor in part", "$default", "/v1/monthly%2dpoint%73", "404"},
		{"no path", "$default", "", "root"},
		{"a stage", "prod", "/prod/v1/members/member-42/points", "points of member-42"},
		{"a stage and an encoded slash", "prod", "/prod/v1/members/a%2Fb/points", "points of a/b"},
		{"nothing but a stage", "prod", "/prod", "root"},
		{"a stage and a slash", "prod", "/prod/", "root"},
		{"a stage is removed once", "v1", "/v1/v1/members/member-42/points", "points of member-42"},
		{"a custom domain has no stage in its path", "prod", "/v1/members/member-42/points", "points of member-42"},
		{"a stage that only begins like the path", "v", "/v1/members/member-42/points", "points of member-42"},
		{"$default is in no path", "$default", "/$default/v1/members/member-42/points", "404"},
		{"no stage", "", "/v1/members/member-42/points", "points of member-42"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := event("GET", c.path)
			e.RequestContext.Stage = c.stage
			a, _ := handle(t, mux.ServeHTTP, e)
			got := a.Body
			if a.StatusCode != 200 {
				got = fmt.Sprint(a.StatusCode)
			}
			if got != c.want {
				t.Errorf("answer for %q in stage %q = %q, want %q", c.path, c.stage, got, c.want)
			}
		})
	}
}

// Whatever net/http makes of a path that a client encoded, we make of it too, but for escapes that nobody needs.
func TestAnEncodedPathIsReadAsInNetHTTP(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segments := rapid.SliceOfN(rapid.String(), 1, 4).Draw(t, "segments")
		path := ""
		for _, s := range segments {
			path += "/" + escape(s)
		}
		want := httptest.NewRequest("GET", path, nil).URL
		var got *http.Request
		e := event("GET", path)
		_, err := gateway.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }), new(lines).log()).Handle(t.Context(), e)
		if err != nil || got == nil {
			t.Fatalf("Handle(%q) = %v", path, err)
		}
		if got.URL.Path != want.Path || got.URL.EscapedPath() != want.EscapedPath() {
			t.Errorf("path %q = %q (%q), want %q (%q)", path, got.URL.Path, got.URL.EscapedPath(), want.Path, want.EscapedPath())
		}
	})
}

// escape escapes what needs it and nothing else.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func TestARequestHasWhatTheGatewaySaw(t *testing.T) {
	t.Parallel()
	e := event("PUT", "/v1/dictionaries/main")
	e.RawQueryString = "b=2&a=1&a=%20+%2B&c&=&%zz"
	e.Headers = map[string]string{"host": "ignored.example", "Accept": "text/html, application/json;q=0.9,*/*", "x-amz-date": "20240415T000000Z", "IDEMPOTENCY-KEY": "k,1", "content-length": "2"}
	e.Cookies = []string{"a=1", "b=2; c=3"}
	e.Body = "{}"
	r := seen(t, e)
	for _, c := range []struct{ what, got, want string }{
		{"method", r.Method, "PUT"},
		{"query", r.URL.RawQuery, "b=2&a=1&a=%20+%2B&c&=&%zz"},
		{"URI", r.RequestURI, "/v1/dictionaries/main?b=2&a=1&a=%20+%2B&c&=&%zz"},
		{"host", r.Host, "abc.execute-api.ap-northeast-2.amazonaws.com"},
		{"remote address", r.RemoteAddr, "203.0.113.7"},
		{"id", request.ID(r.Context()), "JKJaXmPLvHcESHA="},
		{"caller", request.From(r.Context()).ARN, "arn:aws:sts::123456789012:assumed-role/Spring/i-0abc"},
		{"account", request.From(r.Context()).Account, "123456789012"},
		{"scope", request.From(r.Context()).Scope(), "123456789012/role/Spring"},
		{"length", fmt.Sprint(r.ContentLength), "2"},
	} {
		if c.got != c.want {
			t.Errorf("%s = %q, want %q", c.what, c.got, c.want)
		}
	}
	want := http.Header{
		"Accept": {"text/html, application/json;q=0.9,*/*"}, "X-Amz-Date": {"20240415T000000Z"}, "Idempotency-Key": {"k,1"}, "Content-Length": {"2"}, "Cookie": {"a=1; b=2; c=3"},
	}
	if diff := cmp.Diff(r.Header, want); diff != "" {
		t.Errorf("headers (-got +want):\n%s", diff)
	}
	if c, err := r.Cookie("c"); err != nil || c.Value != "3" {
		t.Errorf("cookie c = %v, %v, want 3", c, err)
	}
}

// EMU-06
func TestAnEventWithoutAnIdentityHasAnUnknownCaller(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, event string }{
		{"an empty event", `{}`},
		{"all null", `{"version":null,"rawPath":null,"rawQueryString":null,"cookies":null,"headers":null,"body":null,"isBase64Encoded":null,"requestContext":null}`},
		{"a context of nulls", `{"rawPath":"/v1/jobs","requestContext":{"stage":null,"requestId":null,"domainName":null,"authorizer":null,"http":null,"identity":null}}`},
		{"no IAM authorizer", `{"requestContext":{"authorizer":{"jwt":{"claims":{"sub":"kim"}}}}}`},
		{"a null IAM authorizer", `{"requestContext":{"authorizer":{"iam":null}}}`},
		{"an IAM authorizer of nulls", `{"requestContext":{"authorizer":{"iam":{"accessKey":null,"accountId":null,"callerId":null,"cognitoIdentity":null,"principalOrgId":null,"userArn":null,"userId":null}}}}`},
		{"identity of format 1.0, all null", `{"requestContext":{"identity":{"accountId":null,"caller":null,"userArn":null,"user":null,"accessKey":null}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got *http.Request
			a, logged := handle(t, func(_ http.ResponseWriter, r *http.Request) {
				got = r
				_, _ = io.ReadAll(r.Body)
			}, fromJSON(t, c.event))
			if got == nil || a.StatusCode != 200 || logged != "" {
				t.Fatalf("answer = %+v, logged %q, want the handler's 200 and nothing logged", a, logged)
			}
			if who := request.From(got.Context()); who.ARN != "unknown" || who.Account != "" || who.Scope() != "unknown" {
				t.Errorf("caller = %+v, want unknown", who)
			}
			if id := request.ID(got.Context()); id == "" || a.Headers["X-Request-Id"] != id {
				t.Errorf("ids in context and answer = %q and %q, want one", id, a.Headers["X-Request-Id"])
			}
		})
	}
}
