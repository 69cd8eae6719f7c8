// Package gateway turns the event of an API Gateway HTTP API (payload format 2.0) into a request of net/http, and what the handler answered into the answer of the function.
//
// It never logs a body, a header or a query string: the event of a signed request holds the caller's Authorization and session token.
package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/api/request"
)

// Handler serves the events of a gateway with an http.Handler. It is safe for concurrent use if that one is.
type Handler struct {
	next http.Handler
	log  *slog.Logger
}

// New makes the handler of a function. log gets one line per request that panicked or whose answer was too large, and no others.
func New(h http.Handler, log *slog.Logger) *Handler { return &Handler{h, log} }

// Handle serves one event. The context of the request holds the caller that the gateway authenticated and the gateway's id of the request (hanbeon/pkg/api/request); the
// answer carries that id. The error is always nil: one would make the gateway answer 500 in a form of its own.
//
// Answers that are not the handler's, all of them problem details: 400 for a body that is not the base64 it claims to be, 413 for one over request.MaxBody, 500
// after a panic and for an answer that Lambda could not return.
func (h *Handler) Handle(ctx context.Context, e events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	id := cmp.Or(e.RequestContext.RequestID, request.NewID()) // none: invoked directly
	ctx = request.With(ctx, callerOf(e), id)
	method := e.RequestContext.HTTP.Method

	a := newAnswer()
	body, err := bodyOf(e)
	switch {
	case errors.Is(err, errTooLarge):
		request.Problem(a, http.StatusRequestEntityTooLarge, err.Error())
	case err != nil:
		request.Problem(a, http.StatusBadRequest, err.Error())
	default:
		a = h.serve(a, requestOf(ctx, e, body))
	}
	response := a.response()
	if n := a.size(response); n > maxAnswer {
		h.log.ErrorContext(ctx, "the answer is too large for Lambda", "request", id, "method", method, "bytes", n, "limit", maxAnswer)
		a = newAnswer()
		request.Problem(a, http.StatusInternalServerError, "")
		response = a.response()
	}
	response.Headers[request.IDHeader] = id
	if method == http.MethodHead {
		response.Body, response.IsBase64Encoded = "", false
	}
	return response, nil
}

// serve returns what the handler answered, or a 500 if it panicked. http.ErrAbortHandler is a panic too: here is no connection to abort, and an answer cut off half-way would look whole.
func (h *Handler) serve(a *answer, r *http.Request) (answered *answer) {
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(r.Context(), "the request panicked", "request", request.ID(r.Context()), "method", r.Method, "route", r.Pattern, "panic", describe(p), "stack", string(debug.Stack()))
			answered = newAnswer()
			request.Problem(answered, http.StatusInternalServerError, "")
		}
	}()
	h.next.ServeHTTP(a, r)
	return a
}

// describe says what a panic was about without quoting what came in: only the runtime's own errors (nil pointer, index out of range) are free of it.
func describe(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

// callerOf is who the IAM authorizer says signed the request. An emulator, or a route without that authorizer, leaves out any part of it.
func callerOf(e events.APIGatewayV2HTTPRequest) request.Caller {
	if a := e.RequestContext.Authorizer; a != nil && a.IAM != nil {
		return request.Caller{ARN: a.IAM.UserARN, Account: a.IAM.AccountID}
	}
	return request.Caller{}
}

var (
	errTooLarge = fmt.Errorf("the body has more than %d bytes", request.MaxBody)
	errBase64   = errors.New("the body is not valid base64")
)

// bodyOf decodes the body. The gateway sends it as base64 unless its content type is a text or JSON.
func bodyOf(e events.APIGatewayV2HTTPRequest) ([]byte, error) {
	body := []byte(e.Body)
	if e.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(e.Body); err != nil {
			return nil, errBase64
		}
	}
	if len(body) > request.MaxBody {
		return nil, errTooLarge
	}
	return body, nil
}

func requestOf(ctx context.Context, e events.APIGatewayV2HTTPRequest, body []byte) *http.Request {
	u := urlOf(withoutStage(e.RawPath, e.RequestContext.Stage))
	u.RawQuery = e.RawQueryString
	header := make(http.Header, len(e.Headers)+1)
	for name, value := range e.Headers {
		header.Add(name, value) // a repeated header has come as one value with commas; a comma may also belong to a value, so nothing is split
	}
	host := cmp.Or(e.RequestContext.DomainName, header.Get("Host"))
	header.Del("Host") // as in net/http
	if len(e.Cookies) > 0 {
		header.Set("Cookie", strings.Join(e.Cookies, "; "))
	}
	r := &http.Request{
		Method: e.RequestContext.HTTP.Method, URL: u, RequestURI: u.RequestURI(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Host: host, RemoteAddr: e.RequestContext.HTTP.SourceIP, Body: http.NoBody, ContentLength: int64(len(body)),
	}
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return r.WithContext(ctx)
}

// withoutStage removes the name of the stage, which is part of the path under the gateway's own domain, except for the stage $default.
func withoutStage(path, stage string) string {
	if stage != "" && stage != "$default" {
		if rest, ok := strings.CutPrefix(path, "/"+stage); ok && (rest == "" || rest[0] == '/') {
			path = rest
		}
	}
	return cmp.Or(path, "/")
}

// escapedPlain finds an escape of a letter, a digit or one of -._~, which need none.
var escapedPlain = regexp.MustCompile(`(?i)%(2[de]|3[0-9]|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9ae])`)

// urlOf reads rawPath. The name promises a path as it was sent, and some emulators and function URLs keep that promise: then `%2F` in an id must stay one segment. HTTP APIs
// themselves decode the path once. So a path that is no encoded path (a space, Hangul, a bare %) is taken literally, and so is one with an escape that nobody needs: `%2D` was
// sent as `%252D`, and to decode it again would turn a path that an IAM policy does not know, /v1/monthly%2Dpoints, into one that it denies.
func urlOf(path string) *url.URL {
	if decoded, err := url.PathUnescape(path); err == nil && !escapedPlain.MatchString(path) {
		if u := (&url.URL{Path: decoded, RawPath: path}); u.EscapedPath() == path {
			return u
		}
	}
	return &url.URL{Path: path}
}
