package api_test

import (
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/api"
)

func TestNothingHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	var a api.Accepted
	send(h, "POST", "/v1/til-generations", goodTIL).json(t, &a)
	get := func(header ...string) reply { return send(h, "GET", a.Links.Job, "", header...) }
	etag := get().Header.Get("ETag")
	if !strings.HasPrefix(etag, `"`) || len(etag) < 10 {
		t.Fatalf("ETag %s, want a strong one", etag)
	}
	for name, c := range map[string]struct {
		header []string
		want   int
	}{
		"the same":                 {[]string{"If-None-Match", etag}, 304},
		"weak":                     {[]string{"If-None-Match", "W/" + etag}, 304},
		"any":                      {[]string{"If-None-Match", "*"}, 304},
		"in a list":                {[]string{"If-None-Match", `"a", W/"b,c" ,` + etag + `, "d"`}, 304},
		"in a list without spaces": {[]string{"If-None-Match", `"a",` + etag}, 304},
		"in another header":        {[]string{"If-None-Match", `"a"`, "If-None-Match", etag}, 304},
		"another":                  {[]string{"If-None-Match", `"a"`}, 200},
		"inside another":           {[]string{"If-None-Match", `"a` + strings.Trim(etag, `"`) + `"`}, 200},
		"without quotes":           {[]string{"If-None-Match", strings.Trim(etag, `"`)}, 200},
		"malformed":                {[]string{"If-None-Match", `"a`}, 200},
		"empty":                    {[]string{"If-None-Match", ""}, 200},
		"commas":                   {[]string{"If-None-Match", ",,,"}, 200},
	} {
		r := get(c.header...)
		if r.StatusCode != c.want || r.Header.Get("ETag") != etag || r.Header.Get("Retry-After") == "" || r.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: status %d, want %d; headers %v", name, r.StatusCode, c.want, r.Header)
		}
		if c.want == 304 && (r.body != "" || r.Header.Get("Content-Type") != "") {
			t.Errorf("%s: 304 with a body: %s, %v", name, r.body, r.Header)
		}
	}
	w.later(time.Hour) // the clock is no part of the representation
	if r := get("If-None-Match", etag); r.StatusCode != 304 {
		t.Errorf("later: status %d, want 304", r.StatusCode)
	}
	j, err := w.jobs.Find(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.claim(t, j)
	if r := get("If-None-Match", etag); r.StatusCode != 200 || r.Header.Get("ETag") == etag {
		t.Errorf("after a claim: status %d, ETag %s", r.StatusCode, r.Header.Get("ETag"))
	}
	if r := send(h, "GET", "/v1/jobs/"+someJob, "", "If-None-Match", "*"); r.StatusCode != 404 {
		t.Errorf("of a job that is not there: %d, want 404", r.StatusCode)
	}
}

// The older an active job, the longer until it is worth while to ask again.
func TestRetryAfterGrowsWithTheAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	var a api.Accepted
	send(h, "POST", "/v1/til-generations", goodTIL).json(t, &a)
	for _, c := range []struct {
		wait time.Duration
		want string
	}{{0, "1"}, {15 * time.Second, "1"}, {15 * time.Second, "3"}, {time.Minute, "9"}, {time.Hour, "30"}, {24 * time.Hour, "30"}} {
		w.later(c.wait)
		if got := send(h, "GET", a.Links.Job, "").Header.Get("Retry-After"); got != c.want {
			t.Errorf("Retry-After %q, want %s", got, c.want)
		}
	}
	send(h, "POST", a.Links.Cancel, "")
	if got := send(h, "GET", a.Links.Job, "").Header.Get("Retry-After"); got != "" {
		t.Errorf("Retry-After %q of a job that is over", got)
	}
}
