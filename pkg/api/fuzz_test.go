package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hanbeon/pkg/api"
)

// described is what the document says of the API: for each route the statuses it answers, with their media types.
var described = sync.OnceValue(func() *http.ServeMux {
	b, err := api.OpenAPI()
	if err != nil {
		panic(err)
	}
	type response struct {
		Ref     string `json:"$ref"`
		Content map[string]any
	}
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]response }

		Components struct{ Responses map[string]response }
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	for path, methods := range doc.Paths {
		for method, op := range methods {
			mux.HandleFunc(strings.ToUpper(method)+" "+path, func(w http.ResponseWriter, _ *http.Request) {
				for status, r := range op.Responses {
					if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
						r = doc.Components.Responses[name]
					}
					media := ""
					for m := range r.Content {
						media += m + " "
					}
					w.Header().Add(status, media)
				}
			})
		}
	}
	return mux
})

// conforms checks that an answer is one that the document has: of its route, or 404 and 405 of what is none.
func conforms(t testing.TB, method string, u *url.URL, r reply) {
	t.Helper()
	media := r.Header.Get("Content-Type")
	if r.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s %s = %d without X-Request-Id", method, u, r.StatusCode)
	}
	rec := httptest.NewRecorder()
	described().ServeHTTP(rec, &http.Request{Method: method, URL: u})
	if rec.Code != http.StatusOK {
		if want := []int{404, 405, 413}; !slices.Contains(want, r.StatusCode) || media != "application/problem+json" {
			t.Errorf("%s %s is not in the document and answered with %d, %q: %.300s", method, u, r.StatusCode, media, r.body)
		}
		return
	}
	of, ok := rec.Header()[http.CanonicalHeaderKey(strconv.Itoa(r.StatusCode))]
	if !ok || media != "" && !slices.Contains(strings.Fields(of[0]), media) || media == "" && of[0] != "" {
		t.Errorf("%s %s = %d, %q; the document has %v: %.300s", method, u, r.StatusCode, media, rec.Header(), r.body)
	}
}

// Whatever comes in, the answer is one that the document has, never a 5xx, and a refusal is problem details.
func FuzzRequests(f *testing.F) {
	for _, c := range append(badBodies, badRequests...) {
		if len(c.body)+len(c.target) > 10_000 {
			continue
		}
		path, query, _ := strings.Cut(c.target, "?")
		contentType, k := "application/json", ""
		for i := 0; i < len(c.header); i += 2 {
			switch c.header[i] {
			case "Content-Type":
				contentType = c.header[i+1]
			case key:
				k = c.header[i+1]
			}
		}
		f.Add(c.method, path, query, contentType, k, c.body)
	}
	f.Add("POST", "/v1/til-generations", "", "application/json", "k", goodTIL)
	f.Add("POST", "/v1/monthly-points", "", "application/json; charset=utf-8", "", `{"period":"2024-04","amount":100,"changeAmount":true}`)
	f.Add("POST", "/v1/members", "", "application/json", "", `{"members":[{"id":"a","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","name":"x"},{"id":1},null,[]]}`)
	f.Add("POST", "/v1/notes", "", "application/json", "", `{"notes":[{"id":"a","memberId":"member-42","date":"2024-04-15","text":"x"},{"id":1},null,[]]}`)
	f.Add("GET", "/v1/jobs", "kind=til&state=PENDING&limit=3&month=2024-04", "", "", "")
	f.Add("HEAD", "/v1/members/member-42/points", "limit=3", "", "", "")
	w := newWorld(f, "member-42")
	h := w.handler(spring, nil)
	f.Fuzz(func(t *testing.T, method, path, query, contentType, k, body string) {
		u := &url.URL{RawQuery: query}
		if decoded, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = decoded, path
		} else {
			u.Path = path
		}
		if !strings.HasPrefix(u.Path, "/") {
			u.Path, u.RawPath = "/"+u.Path, ""
		}
		r := &http.Request{Method: method, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), Host: "api.example"}
		if k != "" {
			r.Header.Set(key, k)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		a := reply{rec.Result(), rec.Body.String()}
		if a.StatusCode >= 500 {
			t.Errorf("%s %s %s = %d %s", method, u, body, a.StatusCode, a.body)
		}
		if a.StatusCode >= 400 {
			a.problem(t)
		}
		if method != http.MethodHead { // not in the document: GET without a body
			conforms(t, method, u, a)
		}
		w.mu.Lock()
		w.logs.Reset()
		w.mu.Unlock()
	})
}
