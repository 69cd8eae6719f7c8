package sigv4_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/api/sigv4"
)

const (
	forbidden = `{"message":"Forbidden"}`
	missing   = `{"message":"Missing Authentication Token"}`
	tooLarge  = `{"type":"about:blank","title":"Request Entity Too Large","status":413,"detail":"the body has more than 4194304 bytes"}`
)

func replaceAuthorization(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), from, to, 1))
	}
}

func setHeader(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[http.CanonicalHeaderKey(name)] = values }
}

func setQuery(query string) func(*http.Request) {
	return func(r *http.Request) { r.URL.RawQuery = query }
}

func newBody(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(strings.NewReader(text)), int64(len(text)), nil
	}
}

func TestWhateverIsChangedAfterSigningIsForbidden(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	unchanged := func(*http.Request) {}
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   string // "": let through
	}{
		{"nothing", unchanged, ""},
		{"method", func(r *http.Request) { r.Method = "PUT" }, forbidden},
		{"method, in small letters", func(r *http.Request) { r.Method = "post" }, forbidden},
		{"path", func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/v1/notes/b", "" }, forbidden},
		{"path, an escape resolved", func(r *http.Request) { r.URL.RawPath = "/v1/notes/a/b" }, forbidden},
		{"path, written another way", func(r *http.Request) { r.URL.RawPath = "/v1/n%6Ftes/a%2Fb" }, forbidden},
		{"path, a slash more", func(r *http.Request) { r.URL.Path, r.URL.RawPath = r.URL.Path+"/", r.URL.RawPath+"/" }, forbidden},
		{"query, a value", setQuery("a=2&b=2"), forbidden},
		{"query, one more", setQuery("a=1&b=2&c=3"), forbidden},
		{"query, one less", setQuery("a=1"), forbidden},
		{"query, one that does not parse more", setQuery("a=1&b=2&c=%zz"), forbidden},
		{"query, one with a semicolon more", setQuery("a=1&b=2&c=3;d=4"), forbidden},
		{"query, in another order", setQuery("b=2&a=1"), ""},
		{"query, presigned", setQuery("a=1&b=2&X-Amz-Signature=00"), forbidden},
		{"body", newBody(`{"memberId":"member-43"}`), forbidden},
		{"body, none", newBody(""), forbidden},
		{"body, a byte more", newBody(`{"memberId":"member-42"} `), forbidden},
		{"body, sent in chunks", func(r *http.Request) { r.ContentLength = -1 }, ""},
		{"a signed header", setHeader("Idempotency-Key", "key-2"), forbidden},
		{"a signed header, one more", setHeader("Idempotency-Key", "key-1", "key-2"), forbidden},
		{"a signed header, none", func(r *http.Request) { r.Header.Del("Idempotency-Key") }, forbidden},
		{"a header that is not signed", setHeader("Accept", "text/html"), ""},
		{"the length, no longer signed", replaceAuthorization("content-length;", ""), forbidden},
		{"a header, no longer signed", replaceAuthorization(";idempotency-key", ""), forbidden},
		{"a header, signed twice", replaceAuthorization(";idempotency-key", ";idempotency-key;idempotency-key"), forbidden},
		{"a header that is not there, signed", replaceAuthorization(";x-amz-date", ";x-amz-date;x-none"), forbidden},
		{"signed headers in another order", replaceAuthorization("idempotency-key;x-amz-date", "x-amz-date;idempotency-key"), forbidden},
		{"signed headers in capitals", replaceAuthorization("idempotency-key", "Idempotency-Key"), forbidden},
		{"host", func(r *http.Request) { r.Host = "abc.execute-api.ap-northeast-2.amazonaws.com" }, forbidden},
		{"host, not signed", replaceAuthorization(";host", ""), forbidden},
		{"date", func(r *http.Request) {
			signed, _ := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
			r.Header.Set("X-Amz-Date", signed.Add(-time.Second).Format("20060102T150405Z"))
		}, forbidden},
		{"date, not signed", replaceAuthorization(";x-amz-date", ""), forbidden},
		{"date, none", func(r *http.Request) { r.Header.Del("X-Amz-Date") }, forbidden},
		{"date, two", func(r *http.Request) { r.Header.Add("X-Amz-Date", r.Header.Get("X-Amz-Date")) }, forbidden},
		{"date, with a fraction", func(r *http.Request) {
			r.Header.Set("X-Amz-Date", strings.Replace(r.Header.Get("X-Amz-Date"), "Z", ".9Z", 1))
		}, forbidden},
		{"date, of another form", setHeader("X-Amz-Date", time.Now().UTC().Format(time.RFC3339)), forbidden},
		{"day of the scope", func(r *http.Request) {
			day := r.Header.Get("X-Amz-Date")[:8]
			replaceAuthorization("/"+day+"/", "/20240415/")(r)
		}, forbidden},
		{"region", replaceAuthorization("/ap-northeast-2/", "/us-east-1/"), forbidden},
		{"service", replaceAuthorization("/execute-api/", "/dynamodb/"), forbidden},
		{"end of the scope", replaceAuthorization("/aws4_request", "/aws5_request"), forbidden},
		{"scope, none", replaceAuthorization("/ap-northeast-2/execute-api/aws4_request", ""), forbidden},
		{"another key that we know", replaceAuthorization(kim.ID, lee.ID), forbidden},
		{"a key that we do not know", replaceAuthorization(kim.ID, "LOCALPARK"), forbidden},
		{"algorithm", replaceAuthorization("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"), forbidden},
		{"algorithm, in small letters", replaceAuthorization("AWS4-HMAC-SHA256", "aws4-hmac-sha256"), forbidden},
		{"no spaces between the parts", replaceAuthorization(", Signature", ",Signature"), ""},
		{"a part twice", replaceAuthorization(", Signature", ", Signature=0, Signature"), forbidden},
		{"a part that nobody knows", replaceAuthorization(", Signature", ", Extra=0, Signature"), forbidden},
		{"a part less", replaceAuthorization(", Signature", ""), forbidden},
		{"an empty signature", func(r *http.Request) {
			before, _, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
			r.Header.Set("Authorization", before+"Signature=")
		}, forbidden},
		{"two Authorization headers", func(r *http.Request) { r.Header.Add("Authorization", r.Header.Get("Authorization")) }, forbidden},
		{"no Authorization header", func(r *http.Request) { r.Header.Del("Authorization") }, missing},
		{"an empty Authorization header", setHeader("Authorization", ""), forbidden},
		{"basic authorization", func(r *http.Request) { r.SetBasicAuth(kim.ID, kim.Secret) }, forbidden},
		{"a session token", setHeader("X-Amz-Security-Token", "token"), forbidden},
		{"the hash of another body", setHeader("X-Amz-Content-Sha256", strings.Repeat("0", 64)), forbidden},
		{"the hash of the body, not signed", setHeader("X-Amz-Content-Sha256", hashOf(`{"memberId":"member-42"}`)), ""},
		{"the hash of the body, twice", setHeader("X-Amz-Content-Sha256", hashOf(`{"memberId":"member-42"}`), hashOf(`{"memberId":"member-42"}`)), forbidden},
		{"an unsigned payload", setHeader("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), forbidden},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRequest(t, "POST", d.URL+"/v1/notes/a%2Fb?b=2&a=1", `{"memberId":"member-42"}`)
			r.Header.Set("Idempotency-Key", "key-1")
			signed := sign(t, kim, r)
			c.change(signed)
			resp, got := d.send(t, signed)
			wantStatus, want := 200, kim.ARN
			if c.want != "" {
				wantStatus, want = 403, c.want
			}
			if resp.StatusCode != wantStatus || got != want {
				t.Errorf("answer = %d %s, want %d %s", resp.StatusCode, got, wantStatus, want)
			}
			if c.want != "" && resp.Header.Get("Content-Type") != "application/json" {
				t.Errorf("Content-Type = %q, want application/json", resp.Header.Get("Content-Type"))
			}
			if resp.Header.Get("X-Request-Id") == "" {
				t.Error("an answer without X-Request-Id")
			}
		})
	}
}

func TestEachCharacterOfTheSignatureCounts(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	r := sign(t, kim, newRequest(t, "GET", d.URL+"/", ""))
	before, signature, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
	for i := range signature {
		changed := []byte(signature)
		changed[i] ^= 1
		r.Header.Set("Authorization", before+"Signature="+string(changed))
		if resp, got := d.send(t, r); resp.StatusCode != 403 || got != forbidden {
			t.Errorf("answer with character %d changed = %d %s, want 403", i, resp.StatusCode, got)
		}
	}
	r.Header.Set("Authorization", before+"Signature="+signature[:63])
	if resp, _ := d.send(t, r); resp.StatusCode != 403 {
		t.Errorf("status of a signature cut short = %d, want 403", resp.StatusCode)
	}
	r.Header.Set("Authorization", before+"Signature="+strings.ToUpper(signature))
	if resp, _ := d.send(t, r); resp.StatusCode != 403 {
		t.Errorf("status of a signature in capitals = %d, want 403", resp.StatusCode)
	}
	r.Header.Set("Authorization", before+"Signature="+signature)
	if resp, _ := d.send(t, r); resp.StatusCode != 200 {
		t.Errorf("status of the signature as it was = %d, want 200", resp.StatusCode)
	}
}

// An unknown key is signed for with an empty secret: whoever guesses that must not get in.
func TestAnEmptySecretOpensNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	r := sign(t, sigv4.Key{ID: "LOCALPARK"}, newRequest(t, "GET", d.URL+"/", ""))
	if resp, got := d.send(t, r); resp.StatusCode != 403 || got != forbidden {
		t.Errorf("answer = %d %s, want 403 %s", resp.StatusCode, got, forbidden)
	}
}

func TestASignatureIsGoodForFiveMinutesEitherWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		off  time.Duration // our clock, as seen from the client's
		want int
	}{
		{"the same time", 0, 200},
		{"just not too old", 5 * time.Minute, 200},
		{"too old", 5*time.Minute + time.Millisecond, 403},
		{"just not too early", -5 * time.Minute, 200},
		{"too early", -5*time.Minute - time.Millisecond, 403},
		{"of another day", 24 * time.Hour, 403},
		{"of another century", -100 * 365 * 24 * time.Hour, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var now time.Time
			d := newDoor(t, func() time.Time { return now })
			r := sign(t, kim, newRequest(t, "GET", d.URL+"/", ""))
			signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
			if err != nil {
				t.Fatal(err)
			}
			now = signed.Add(c.off).In(time.FixedZone("KST", 9*60*60))
			if resp, got := d.send(t, r); resp.StatusCode != c.want {
				t.Errorf("answer = %d %s, want %d", resp.StatusCode, got, c.want)
			}
		})
	}
}

func TestABodyIsLimited(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	for _, c := range []struct {
		name   string
		bytes  int
		chunks bool
		status int
	}{
		{"as large as allowed", request.MaxBody, false, 200},
		{"as large as allowed, in chunks", request.MaxBody, true, 200},
		{"one byte more", request.MaxBody + 1, false, 413},
		{"one byte more, in chunks", request.MaxBody + 1, true, 413},
		{"5 MB", 5 << 20, false, 413},
		{"5 MB in chunks", 5 << 20, true, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat("a", c.bytes)
			r := sign(t, kim, newRequest(t, "POST", d.URL+"/", text[:min(c.bytes, request.MaxBody)]))
			newBody(text)(r)
			r.Header.Set("Expect", "100-continue") // as curl does: a client that does not wait may see the connection end before the answer
			if c.chunks {
				r.ContentLength = -1
			}
			resp, got := d.send(t, r)
			if resp.StatusCode != c.status || c.status == 413 && (got != tooLarge || resp.Header.Get("Content-Type") != "application/problem+json") {
				t.Errorf("answer = %d %s of type %s, want %d", resp.StatusCode, got, resp.Header.Get("Content-Type"), c.status)
			}
		})
	}
}

type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestABodyThatBreaksOffIsNotServed(t *testing.T) {
	t.Parallel()
	v := sigv4.NewVerifier([]sigv4.Key{kim}, region, time.Now)
	r := sign(t, kim, newRequest(t, "POST", "http://127.0.0.1/", "{}"))
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("{"), cutOff{}))
	w := httptest.NewRecorder()
	v.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") })).ServeHTTP(w, r)
	want := `{"type":"about:blank","title":"Bad Request","status":400,"detail":"the body could not be read"}`
	if got := w.Body.String(); w.Code != 400 || got != want {
		t.Errorf("answer = %d %s, want 400 %s", w.Code, got, want)
	}
}

// LOG-01
func TestNoSecretIsLogged(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	const canary = "CANARY"
	for _, change := range []func(*http.Request){
		func(*http.Request) {},
		setQuery("a=" + canary),
		setHeader("x-amz-security-token", "TOKEN-"+canary),
		setHeader("X-Amz-Date", canary),
		setHeader("X-Amz-Content-Sha256", canary),
		setHeader("Authorization", "AWS4-HMAC-SHA256 Credential=AKID"+canary+"/20240415/ap-northeast-2/execute-api/aws4_request, SignedHeaders=host;x-amz-date, Signature="+canary),
		setHeader("Authorization", "AWS4-HMAC-SHA256 Credential=AKID"+canary),
		setHeader("Authorization", canary),
		replaceAuthorization("/ap-northeast-2/", "/"+canary+"/"),
		newBody(canary),
		func(r *http.Request) { r.URL.RawQuery = canary + "=%zz" },
	} {
		r := newRequest(t, "POST", d.URL+"/v1/notes/"+canary, canary)
		r.Header.Set("Idempotency-Key", canary)
		r = sign(t, kim, r)
		signature := r.Header.Get("Authorization")[len(r.Header.Get("Authorization"))-64:]
		change(r)
		before := len(d.log.String())
		resp, got := d.send(t, r)
		line := d.log.String()[before:]
		if (resp.StatusCode == 200) != (line == "") || strings.Count(line, "\n") > 1 {
			t.Errorf("answer = %d, logged %q, want one line for a refusal and none else", resp.StatusCode, line)
		}
		if !strings.Contains(line, resp.Header.Get("X-Request-Id")) && resp.StatusCode != 200 {
			t.Errorf("logged %q, want the id %s of the answer in it", line, resp.Header.Get("X-Request-Id"))
		}
		for _, secret := range []string{canary, kim.ID, kim.Secret, signature} {
			if strings.Contains(line, secret) || strings.Contains(got, secret) {
				t.Errorf("answered %q and logged %q, want no %q", got, line, secret)
			}
		}
	}
}

// The answer does not say why, so that nobody can feel their way; whoever runs the laptop can.
func TestTheLogSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		want   string
	}{
		{"region", replaceAuthorization("/ap-northeast-2/", "/us-east-1/"), "/ap-northeast-2/execute-api/aws4_request"},
		{"clock", setHeader("X-Amz-Date", "20240415T000000Z"), "before our time, at most 5m0s either way is allowed"},
		{"date", func(r *http.Request) { r.Header.Del("X-Amz-Date") }, "not one X-Amz-Date"},
		{"host", replaceAuthorization("host;", ""), "host and x-amz-date are not both signed"},
		{"date not signed", replaceAuthorization(";x-amz-date", ""), "host and x-amz-date are not both signed"},
		{"session", setHeader("X-Amz-Security-Token", "token"), "AWS_SESSION_TOKEN"},
		{"presigned", setQuery("X-Amz-Signature=0"), "a presigned URL"},
		{"hash", setHeader("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"), "X-Amz-Content-Sha256 is not the hash of the body"},
		{"no header", func(r *http.Request) { r.Header.Del("Authorization") }, "no Authorization header"},
		{"key", replaceAuthorization(kim.ID, "LOCALPARK"), "an unknown key or a wrong signature"},
		{"signature", setQuery("a=1"), "an unknown key or a wrong signature"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, time.Now)
			r := sign(t, kim, newRequest(t, "GET", d.URL+"/", ""))
			c.change(r)
			d.send(t, r)
			if got := d.log.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
				t.Errorf("logged %q, want one line with %q", got, c.want)
			}
		})
	}
}

// `GET x:y/v1/jobs` is a request line that net/http takes: its path is empty, and the signer would sign /v1/jobs.
func TestAnOpaqueURLIsForbidden(t *testing.T) {
	t.Parallel()
	h := sigv4.NewVerifier([]sigv4.Key{kim}, region, time.Now).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("served") }))
	r := newRequest(t, "GET", "http://127.0.0.1/", "")
	r.URL.Opaque = "y/v1/jobs"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, sign(t, kim, r))
	if w.Code != 403 {
		t.Errorf("status = %d, want 403", w.Code)
	}
}

// The signer writes the right signature into what it is given. Were that the request itself, whatever looks at a refused one would find it there.
func TestARefusedRequestDoesNotLearnItsSignature(t *testing.T) {
	t.Parallel()
	h := sigv4.NewVerifier([]sigv4.Key{kim}, region, time.Now).Wrap(http.NotFoundHandler())
	r := sign(t, kim, newRequest(t, "GET", "http://127.0.0.1/?b=1&a=2", ""))
	r.URL.RawQuery = "b=1&a=3"
	replaceAuthorization("SignedHeaders=", "SignedHeaders=authorization;")(r)
	want := r.Header.Clone()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if diff := cmp.Diff(r.Header, want); w.Code != 403 || diff != "" || r.URL.RawQuery != "b=1&a=3" {
		t.Errorf("status %d, query %s, headers (-got +want):\n%s", w.Code, r.URL.RawQuery, diff)
	}
}

func TestKeysThatAreAMistakePanic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		keys []sigv4.Key
	}{
		{"no id", []sigv4.Key{{Secret: "s"}}},
		{"no secret", []sigv4.Key{{ID: "i"}}},
		{"one id twice", []sigv4.Key{{ID: "i", Secret: "s"}, {ID: "i", Secret: "t"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			sigv4.NewVerifier(c.keys, region, time.Now)
		})
	}
}

// FuzzAuthorization: no header but the right one gets in, and none makes us panic.
func FuzzAuthorization(f *testing.F) {
	date := "20240415T000000Z"
	right := byHand(kim, date, "GET", "/", "", "host:example.com\nx-amz-date:"+date+"\n", "host;x-amz-date", "")
	for _, seed := range []string{
		right, "", " ", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256 Credential=,SignedHeaders=,Signature=", "AWS4-HMAC-SHA256 ,,,", "Basic a2ltOg==",
		"AWS4-HMAC-SHA256 Credential=a/20240415/ap-northeast-2/execute-api/aws4_request,SignedHeaders=host;x-amz-date;;content-length;authorization;\x00,Signature=0",
		strings.Replace(right, "host;", "authorization;host;", 1), strings.Replace(right, kim.ID, lee.ID, 1), right + right, right[:len(right)-1],
	} {
		f.Add(seed)
	}
	now, err := time.Parse("20060102T150405Z", date)
	if err != nil {
		f.Fatal(err)
	}
	h := sigv4.NewVerifier([]sigv4.Key{kim, lee}, region, func() time.Time { return now }).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	spaces := strings.NewReplacer(" ", "", "\t", "", "\n", "", "\v", "", "\f", "", "\r", "", "\u0085", "", "\u00a0", "", "\u2028", "", "\u3000", "")
	f.Fuzz(func(t *testing.T, authorization string) {
		r := httptest.NewRequest("GET", "http://example.com/", nil)
		r.Header.Set("X-Amz-Date", date)
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == 200 && sorted(spaces.Replace(authorization)) != sorted(spaces.Replace(right)) {
			t.Errorf("%q got in, want only %q", authorization, right)
		}
		if authorization == right && w.Code != 200 {
			t.Errorf("answer to the right header = %d %s, want 200", w.Code, w.Body)
		}
		if w.Code != 200 && (w.Code != 403 || w.Body.String() != forbidden) {
			t.Errorf("answer to %q = %d %s, want 403 %s", authorization, w.Code, w.Body, forbidden)
		}
	})
}

// sorted puts the characters of a header in order: its parts may come in any.
func sorted(s string) string {
	b := []byte(s)
	slices.Sort(b)
	return string(b)
}
