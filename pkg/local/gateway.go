package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/api/request"
)

// Limits of API Gateway (quotas, HTTP API) and of a synchronous invocation (Lambda quotas).
const (
	maxGatewayBody = 10 << 20         // bytes of a request
	maxPayload     = 6 << 20          // bytes of an event, as JSON
	gatewayTimeout = 30 * time.Second // for the answer of an integration
)

// Gateway plays API Gateway in front of the function that has an event of type HttpApi: each request becomes an event of payload format 2.0, and the function's answer
// becomes that of the request. It checks no signature; who called, and the id of the request, are in the context (hanbeon/pkg/api/request).
//
// As in AWS: the path is decoded once, repeated headers are joined by commas, cookies stand by themselves, a body that is not text travels as base64, the function goes on when the client has
// left or 30 seconds have passed (503), and an invocation that fails is a 500 without a reason. Not played: throttling, stages with a name, access logs.
func (s *Stack) Gateway() (http.Handler, error) {
	for _, f := range s.functions {
		if f.served {
			return &front{s, f}, nil
		}
	}
	return nil, errors.New("local: no function of the template has an event of type HttpApi")
}

type front struct {
	s        *Stack
	function *function
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" || r.URL.Path == "" { // {proxy+} wants at least one character
		reply(w, http.StatusNotFound, "Not Found")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxGatewayBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		reply(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		return
	case err != nil:
		reply(w, http.StatusBadRequest, "Bad Request")
		return
	}
	payload, err := json.Marshal(f.event(r, body))
	if err != nil {
		panic(err) // strings always marshal
	}
	if len(payload) > maxPayload {
		reply(w, http.StatusRequestEntityTooLarge, "Request Entity Too Large")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), gatewayTimeout)
	defer cancel()
	answer, err := f.s.request(ctx, f.function, payload)
	switch {
	case r.Context().Err() != nil: // nobody listens any more
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, ErrStopped):
		reply(w, http.StatusServiceUnavailable, "Service Unavailable")
	case err != nil:
		reply(w, http.StatusInternalServerError, "Internal Server Error")
	default:
		respond(w, answer)
	}
}

// request invokes a function and waits for its answer, at most until ctx ends: the invocation goes on by itself. What it knows is in the payload, nothing is in its context. ErrStopped if the stack does not run.
func (s *Stack) request(ctx context.Context, f *function, payload []byte) ([]byte, error) {
	type outcome struct {
		answer []byte
		err    error
	}
	done := make(chan outcome, 1)
	s.mu.Lock()
	if !s.started || s.ending {
		s.mu.Unlock()
		return nil, ErrStopped
	}
	s.begin(func() {
		answer, err := s.invoke(context.Background(), f, "", payload)
		done <- outcome{answer, err}
	})
	s.setQuiet(false)
	s.mu.Unlock()
	cutOff := time.NewTimer(f.timeout)
	defer cutOff.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-cutOff.C:
		return nil, errTimedOut
	case o := <-done:
		return o.answer, o.err
	}
}

// event is the request as the function gets it.
func (f *front) event(r *http.Request, body []byte) events.APIGatewayV2HTTPRequest {
	const route = "ANY /{proxy+}"
	now := f.s.clock.Now()
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	e := events.APIGatewayV2HTTPRequest{
		Version: "2.0", RouteKey: route, RawPath: r.URL.Path, RawQueryString: r.URL.RawQuery,
		Headers: headersOf(r, host), QueryStringParameters: joined(r.URL.Query()), PathParameters: map[string]string{"proxy": strings.TrimPrefix(r.URL.Path, "/")},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			RouteKey: route, AccountID: account, Stage: "$default", APIID: stackName, DomainName: r.Host, DomainPrefix: stackName,
			RequestID: cmp.Or(request.ID(r.Context()), request.NewID()), Time: now.Format("02/Jan/2006:15:04:05 -0700"), TimeEpoch: now.UnixMilli(),
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{
				Method: r.Method, Path: r.URL.Path, Protocol: r.Proto, SourceIP: host, UserAgent: r.UserAgent(),
			},
		},
	}
	for _, c := range r.Header.Values("Cookie") {
		for one := range strings.SplitSeq(c, ";") {
			e.Cookies = append(e.Cookies, strings.TrimSpace(one))
		}
	}
	if c := request.From(r.Context()); c.ARN != request.Unknown {
		e.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			IAM: &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: c.ARN, AccountID: c.Account},
		}
	}
	e.Body = string(body)
	if len(body) > 0 && !isText(r.Header.Get("Content-Type"), body) {
		e.Body, e.IsBase64Encoded = base64.StdEncoding.EncodeToString(body), true
	}
	return e
}

// headersOf are the headers as the gateway passes them on: lower case, with its own, without cookies.
func headersOf(r *http.Request, from string) map[string]string {
	h := joined(map[string][]string(r.Header))
	all := make(map[string]string, len(h)+4)
	for name, value := range h {
		all[strings.ToLower(name)] = value
	}
	delete(all, "cookie")
	all["host"] = r.Host
	all["x-forwarded-for"] = from
	all["x-forwarded-proto"] = "http"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		all["x-forwarded-port"] = port
	}
	return all
}

// joined makes one value of several.
func joined(values map[string][]string) map[string]string {
	if len(values) == 0 {
		return nil
	}
	m := make(map[string]string, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		m[name] = strings.Join(values[name], ",")
	}
	return m
}

// isText is whether the gateway passes a body on as it is (HTTP API, "Working with AWS Lambda proxy integrations": these types; any other is base64).
func isText(contentType string, body []byte) bool {
	t, _, _ := mime.ParseMediaType(contentType)
	known := strings.HasPrefix(t, "text/") || t == "application/json" || t == "application/javascript" || t == "application/xml"
	return known && utf8.Valid(body)
}

// respond writes the answer of the function. One that is not of format 2.0 with a status is the gateway's 500.
func respond(w http.ResponseWriter, answer []byte) {
	var a events.APIGatewayV2HTTPResponse
	err := json.Unmarshal(answer, &a)
	body := []byte(a.Body)
	if err == nil && a.IsBase64Encoded {
		body, err = base64.StdEncoding.DecodeString(a.Body)
	}
	if err != nil || a.StatusCode < 200 || a.StatusCode > 599 {
		reply(w, http.StatusInternalServerError, "Internal Server Error")
		return
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	for _, c := range a.Cookies {
		w.Header().Add("Set-Cookie", c)
	}
	w.WriteHeader(a.StatusCode)
	_, _ = io.Copy(w, bytes.NewReader(body)) // whoever asked is gone
}

// reply is an answer of the gateway itself.
func reply(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"message":"`+text+`"}`) // whoever asked is gone
}
