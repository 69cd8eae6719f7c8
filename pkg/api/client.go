package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// client asks an API over HTTP.
type client struct {
	base string
	http *http.Client
}

var _ Service = (*client)(nil)

// answerTimeout is longer than the gateway waits for its function (30 s, API Gateway quotas, HTTP API).
const answerTimeout = 40 * time.Second

// maxAnswer bounds what the client reads, in bytes: Lambda cannot answer more than 6 MB.
const maxAnswer = 8 << 20

// NewClient makes a Service that asks the API at baseURL, such as https://abc.execute-api.ap-northeast-2.amazonaws.com, with its stage if it has one.
// rt signs the requests; nil sends them as they are. The client never sends a request twice by itself.
//
// Errors: *Error for every answer that is no success, also those of the gateway itself (Title and Detail are then the gateway's); any other error
// means that there was no answer, and the request may have been carried out.
func NewClient(baseURL string, rt http.RoundTripper) Service {
	return &client{strings.TrimRight(baseURL, "/"), &http.Client{
		Transport:     rt,
		Timeout:       answerTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signature is good for one address
	}}
}

// ask sends one request and decodes the answer into out, unless it is nil. Answers from 300 on are an *Error, but for 304.
func (c *client) ask(ctx context.Context, method, path string, header http.Header, in, out any) (*http.Response, error) {
	var body io.Reader = http.NoBody
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("Accept", "application/json, "+problemJSON)
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: read the answer: %w", method, path, err)
	case a.StatusCode == http.StatusNotModified:
		return a, nil
	case a.StatusCode < 200 || a.StatusCode > 299:
		return nil, errorOf(a, b)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("%s %s: the answer with status %d is not the API's: %w", method, path, a.StatusCode, err)
	}
	return a, nil
}

// errorOf reads problem details, the {"message"} of the gateway, or neither.
func errorOf(a *http.Response, body []byte) *Error {
	e := problem(a.StatusCode, "")
	var gateway struct {
		Message string `json:"message"`
	}
	switch media, _, _ := mime.ParseMediaType(a.Header.Get("Content-Type")); {
	case media == problemJSON && json.Unmarshal(body, e) == nil:
		e.Status = a.StatusCode
	case json.Unmarshal(body, &gateway) == nil && gateway.Message != "":
		e.Detail = gateway.Message
	default:
		e.Detail = "the answer is not the API's: is the address right?"
	}
	if e.RequestID == "" {
		e.RequestID = a.Header.Get("X-Request-Id")
	}
	if e.RequestID == "" {
		e.RequestID = a.Header.Get("Apigw-Requestid")
	}
	e.RetryAfter = retryAfterOf(a)
	return e
}

// retryAfterOf reads a Retry-After in seconds; the API sends no dates.
func retryAfterOf(a *http.Response) time.Duration {
	n, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || n < 0 || n > 24*3600 {
		return 0
	}
	return time.Duration(n) * time.Second
}

// keyed are the headers of a request that may be repeated.
func keyed(key string) (http.Header, error) {
	if key == "" {
		return nil, nil
	}
	if err := checkIdempotencyKey(key); err != nil { // here, because a header cannot carry every text
		return nil, err
	}
	return http.Header{idempotencyHeader: {key}}, nil
}

func (c *client) StartMonthlyPoints(ctx context.Context, r StartMonthlyPoints) (a Accepted, err error) {
	h, err := keyed(r.IdempotencyKey)
	if err == nil {
		_, err = c.ask(ctx, http.MethodPost, "/v1/monthly-points", h, r, &a)
	}
	return a, err
}

func (c *client) RequestTIL(ctx context.Context, r RequestTIL) (a Accepted, err error) {
	h, err := keyed(r.IdempotencyKey)
	if err == nil {
		_, err = c.ask(ctx, http.MethodPost, "/v1/til-generations", h, r, &a)
	}
	return a, err
}

// query makes the query string of the parameters that are set.
func query(limit int, pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if limit != 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (c *client) Jobs(ctx context.Context, q JobsQuery) (l JobList, err error) {
	_, err = c.ask(ctx, http.MethodGet, "/v1/jobs"+query(q.Limit, "kind", q.Kind, "state", q.State, "month", q.Month, "cursor", q.Cursor), nil, nil, &l)
	return l, err
}

func (c *client) Job(ctx context.Context, id, knownETag string) (JobAnswer, error) {
	h := http.Header{}
	if knownETag != "" {
		h.Set("If-None-Match", knownETag)
	}
	var out JobAnswer
	a, err := c.ask(ctx, http.MethodGet, jobPath(id), h, nil, &out.Job)
	if err != nil {
		return JobAnswer{}, err
	}
	out.ETag, out.RetryAfter, out.NotModified = a.Header.Get("ETag"), retryAfterOf(a), a.StatusCode == http.StatusNotModified
	return out, nil
}

func (c *client) Failures(ctx context.Context, q FailuresQuery) (l FailureList, err error) {
	_, err = c.ask(ctx, http.MethodGet, jobPath(q.Job)+"/failures"+query(q.Limit, "cursor", q.Cursor), nil, nil, &l)
	return l, err
}

func (c *client) Cancel(ctx context.Context, id string) (j Job, err error) {
	_, err = c.ask(ctx, http.MethodPost, jobPath(id)+"/cancel", nil, nil, &j)
	return j, err
}

func (c *client) Points(ctx context.Context, q PointsQuery) (p Points, err error) {
	_, err = c.ask(ctx, http.MethodGet, "/v1/members/"+url.PathEscape(q.Member)+"/points"+query(q.Limit, "cursor", q.Cursor), nil, nil, &p)
	return p, err
}

func (c *client) TIL(ctx context.Context, memberID, date string) (t TIL, err error) {
	_, err = c.ask(ctx, http.MethodGet, "/v1/tils/"+url.PathEscape(memberID)+"/"+url.PathEscape(date), nil, nil, &t)
	return t, err
}

func (c *client) PutMembers(ctx context.Context, members []Member) ([]PutResult, error) {
	if err := checkBatch("members", members, Member.texts); err != nil { // encoding/json would replace what is no UTF-8
		return nil, err
	}
	return c.put(ctx, "/v1/members", putMembers{append([]Member{}, members...)}, len(members))
}

func (c *client) PutNotes(ctx context.Context, notes []Note) ([]PutResult, error) {
	if err := checkBatch("notes", notes, Note.texts); err != nil {
		return nil, err
	}
	return c.put(ctx, "/v1/notes", putNotes{append([]Note{}, notes...)}, len(notes))
}

func (c *client) put(ctx context.Context, path string, in any, n int) ([]PutResult, error) {
	var out putResults
	if _, err := c.ask(ctx, http.MethodPost, path, nil, in, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != n {
		return nil, fmt.Errorf("POST %s: %d results for %d items", path, len(out.Results), n)
	}
	return out.Results, nil
}
