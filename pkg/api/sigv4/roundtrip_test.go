package sigv4_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/api/sigv4"
)

func TestWhatIsSignedIsLetThroughAsItWasSent(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.SampledFrom([]string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}).Draw(t, "method")
		path := ""
		for _, s := range rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a/b", "a b", "a+b", "한글", "%", "%2F", "..", "", "kim@b.example", "~", "a;b=c:d,e"})), 0, 4).Draw(t, "segments") {
			path += "/" + url.PathEscape(s)
		}
		query := strings.Join(rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"", "a", "a=", "=a", "b=2", "a=2", "a=1", "a=%20", "a=+", "a=%2B", "A=1", "%ED%95%9C=%EA%B8%80", "한=글", "a=b=c", "a/b=c/d", "a-b=c", "cursor=eyJhIjoxfQ=="}),
			rapid.Custom(func(t *rapid.T) string {
				return url.QueryEscape(rapid.String().Draw(t, "key")) + "=" + url.QueryEscape(rapid.String().Draw(t, "value"))
			}),
		), 0, 5).Draw(t, "query"), "&")
		body := string(rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body"))
		header := http.Header{"X-None": nil}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"X-A", "X-B", "Content-Type", "Idempotency-Key", "If-None-Match", "Accept", "User-Agent"}), rapid.ID).Draw(t, "headers") {
			for _, v := range rapid.SliceOfN(rapid.StringMatching(`[!-~][ -~]{0,20}[!-~]|[가-힣]|`), 1, 3).Draw(t, "values") {
				header.Add(name, v)
			}
		}

		r := newRequest(t, method, d.URL+path+"?"+query, body)
		r.Header = header
		resp, got := d.send(t, sign(t, kim, r))
		if resp.StatusCode != 200 || got != kim.ARN {
			t.Fatalf("answer = %d %s, want 200 %s; log: %s", resp.StatusCode, got, kim.ARN, &d.log)
		}
		a := d.arrived()
		if a.request.Method != method || a.request.URL.EscapedPath() != orSlash(path) || a.body != body {
			t.Errorf("arrived = %s %s %q, want %s %s %q", a.request.Method, a.request.URL.EscapedPath(), a.body, method, orSlash(path), body)
		}
		gotQuery, wantQuery := a.request.URL.Query(), r.URL.Query()
		for _, q := range []url.Values{gotQuery, wantQuery} { // the signature sorts the values of one key
			for _, v := range q {
				slices.Sort(v)
			}
		}
		if diff := cmp.Diff(gotQuery, wantQuery); diff != "" {
			t.Errorf("query %q (-got +want):\n%s", query, diff)
		}
		for name, want := range header {
			if diff := cmp.Diff(a.request.Header.Values(name), want); diff != "" && name != "User-Agent" { // of which net/http sends one
				t.Errorf("header %s (-got +want):\n%s", name, diff)
			}
		}
	})
}

func orSlash(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// As the gateway does it, hanbeon/pkg/api/gateway puts the same into the context.
func TestTheHandlerKnowsCallerAndID(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	seen := map[string]bool{}
	for _, c := range []struct {
		key   sigv4.Key
		want  request.Caller
		scope string
	}{
		{kim, request.Caller{ARN: kim.ARN, Account: "123456789012"}, kim.ARN},
		{lee, request.Caller{ARN: lee.ARN, Account: "123456789012"}, "123456789012/role/Spring"},
	} {
		r := newRequest(t, "GET", d.URL+"/", "")
		r.Header.Set("X-Request-Id", "of the client")
		resp, _ := d.send(t, sign(t, c.key, r))
		ctx := d.arrived().request.Context()
		if got := request.From(ctx); got != c.want || got.Scope() != c.scope {
			t.Errorf("caller = %+v of scope %q, want %+v of scope %q", got, got.Scope(), c.want, c.scope)
		}
		id := request.ID(ctx)
		if id == "" || id == "of the client" || seen[id] || resp.Header.Get("X-Request-Id") != id {
			t.Errorf("id in context and answer = %q and %q, want a new one", id, resp.Header.Get("X-Request-Id"))
		}
		seen[id] = true
	}
}

func TestManySignersAtOnce(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	kims, lees := sigv4.Transport(nil, provider(kim), region), sigv4.Transport(nil, provider(lee), region)
	var wg sync.WaitGroup
	for n := range 24 {
		wg.Go(func() {
			signer, key := kims, kim
			if n%2 == 1 {
				signer, key = lees, lee
			}
			for i := range 5 {
				resp, err := signer.RoundTrip(newRequest(t, "POST", d.URL+fmt.Sprintf("/%d?n=%d", i, n), fmt.Sprint(n, i)))
				if err != nil {
					t.Error(err)
					return
				}
				b := make([]byte, 100)
				k, _ := resp.Body.Read(b)
				_ = resp.Body.Close()
				if got := string(b[:k]); resp.StatusCode != 200 || got != key.ARN {
					t.Errorf("answer = %d %q, want 200 %q", resp.StatusCode, got, key.ARN)
				}
				if resp, _ := d.send(t, sign(t, sigv4.Key{ID: fmt.Sprint("NOBODY", n), Secret: "x"}, newRequest(t, "GET", d.URL, ""))); resp.StatusCode != 403 {
					t.Errorf("status of an unknown key = %d, want 403", resp.StatusCode)
				}
			}
		})
	}
	wg.Wait()
}
