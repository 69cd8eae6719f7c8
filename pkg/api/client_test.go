package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/api"
)

// What does not come from the API is still an *api.Error: the gateway answers some requests by itself, and an address may be wrong.
func TestTheClientReadsAnswersThatAreNotTheAPIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status      int
		contentType string
		header      string // a second one, "name: value"
		body        string
		detail, id  string
		after       time.Duration
		typ         string
		fields      int
	}{
		"forbidden by the gateway": {403, "application/json", "Apigw-Requestid: gw-1", `{"message":"Forbidden"}`, "Forbidden", "gw-1", 0, api.TypeBlank, 0},
		"throttled by the gateway": {429, "application/json", "Retry-After: 3", `{"message":"Too Many Requests"}`, "Too Many Requests", "", 3 * time.Second, api.TypeBlank, 0},
		"gateway timed out":        {503, "application/json", "X-Request-Id: r-1", `{"message":"Service Unavailable"}`, "Service Unavailable", "r-1", 0, api.TypeBlank, 0},
		"problem details":          {422, "application/problem+json; charset=utf-8", "Retry-After: x", `{"type":"urn:x","title":"T","status":499,"errors":[{"field":"a","message":"b"}],"requestId":"r","new":1}`, "", "r", 0, "urn:x", 1},
		"a page":                   {502, "text/html", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", "<html>", "the answer is not the API's: is the address right?", "", 0, api.TypeBlank, 0},
		"a redirect":               {302, "text/html", "Location: http://127.0.0.1:1/", "", "the answer is not the API's: is the address right?", "", 0, api.TypeBlank, 0},
		"nothing":                  {404, "", "X-A: b", "", "the answer is not the API's: is the address right?", "", 0, api.TypeBlank, 0},
		"null":                     {500, "application/json", "X-A: b", "null", "the answer is not the API's: is the address right?", "", 0, api.TypeBlank, 0},
		"half a problem":           {500, "application/problem+json", "X-A: b", `{"status":`, "the answer is not the API's: is the address right?", "", 0, api.TypeBlank, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.contentType)
				k, v, _ := strings.Cut(c.header, ": ")
				w.Header().Set(k, v)
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			}))
			defer srv.Close()
			_, err := api.NewClient(srv.URL, nil).Jobs(t.Context(), api.JobsQuery{})
			var e *api.Error
			if !errors.As(err, &e) {
				t.Fatalf("error %v, want an *api.Error", err)
			}
			if e.Status != c.status || e.Detail != c.detail || e.RequestID != c.id || e.RetryAfter != c.after || e.Type != c.typ || len(e.Errors) != c.fields || e.Title == "" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// Whatever is no answer is no *api.Error: the request may have been carried out.
func TestTheClientTellsNoAnswerFromARefusal(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/jobs":
			panic(http.ErrAbortHandler)
		case "/v1/members":
			fmt.Fprint(w, `{"results":[]}`) // one was asked for
		default:
			fmt.Fprint(w, "OK")
		}
	}))
	defer srv.Close()
	c := api.NewClient(srv.URL, nil)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"the connection broke":       func() error { _, err := c.Jobs(t.Context(), api.JobsQuery{}); return err },
		"a success that is none":     func() error { _, err := c.Cancel(t.Context(), someJob); return err },
		"fewer results than items":   func() error { _, err := c.PutMembers(t.Context(), make([]api.Member, 1)); return err },
		"nobody is waiting any more": func() error { _, err := c.Cancel(over, someJob); return err },
		"nobody is there": func() error {
			_, err := api.NewClient("http://127.0.0.1:1", nil).Cancel(t.Context(), someJob)
			return err
		},
		"an address that is none": func() error { _, err := api.NewClient("http://[", nil).Cancel(t.Context(), someJob); return err },
	} {
		err := call()
		var e *api.Error
		if err == nil || errors.As(err, &e) {
			t.Errorf("%s: %v, want an error that is no answer", name, err)
		}
	}
}

// A base URL may have a stage, and every request goes through the given transport.
func TestTheClientKeepsTheStageAndSigns(t *testing.T) {
	t.Parallel()
	var got []string
	c := api.NewClient("https://abc.example/prod/", transport(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.Method+" "+r.URL.String())
		return nil, errors.New("no network")
	}))
	_, _ = c.Job(t.Context(), "a/b c", "")
	_, _ = c.Points(t.Context(), api.PointsQuery{Member: "kim+a@b.example", Limit: 3, Cursor: "a+b/="})
	_, _ = c.TIL(t.Context(), "member-42", "2024-04-15")
	want := []string{
		"GET https://abc.example/prod/v1/jobs/a%2Fb%20c", "GET https://abc.example/prod/v1/members/kim+a@b.example/points?cursor=a%2Bb%2F%3D&limit=3", "GET https://abc.example/prod/v1/tils/member-42/2024-04-15",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
