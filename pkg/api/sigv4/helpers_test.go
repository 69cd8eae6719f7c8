package sigv4_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/api/sigv4"
)

const region = "ap-northeast-2"

var (
	kim = sigv4.Key{ID: "LOCALKIM", Secret: "kim/secret+1", ARN: "arn:aws:iam::123456789012:user/kim"}
	lee = sigv4.Key{ID: "LOCALLEE", Secret: "lee/secret+2", ARN: "arn:aws:sts::123456789012:assumed-role/Spring/lee"}
)

func provider(k sigv4.Key) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: k.ID, SecretAccessKey: k.Secret}, nil
	})
}

// tripper is a RoundTripper made of a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// sign returns the request as Transport would send it.
func sign(t tester, k sigv4.Key, r *http.Request) *http.Request {
	t.Helper()
	var sent *http.Request
	if _, err := sigv4.Transport(tripper(func(r *http.Request) (*http.Response, error) { sent = r; return nil, nil }), provider(k), region).RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	return sent
}

// newRequest makes a request of a client.
func newRequest(t tester, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// arrived is what the handler behind the verifier got.
type arrived struct {
	request *http.Request
	body    string
}

// door is a server behind a verifier.
type door struct {
	*httptest.Server
	log lines

	mu   sync.Mutex
	last *arrived
}

func newDoor(t *testing.T, now func() time.Time) *door {
	t.Helper()
	d := &door{}
	v := sigv4.NewVerifier([]sigv4.Key{kim, lee}, region, now)
	v.Log = slog.New(slog.NewJSONHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	d.Server = httptest.NewServer(v.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength || r.URL.RequestURI() != r.RequestURI { // the signer rewrites URLs
			w.WriteHeader(http.StatusTeapot)
		}
		d.mu.Lock()
		d.last = &arrived{r, string(b)}
		d.mu.Unlock()
		_, _ = io.WriteString(w, request.From(r.Context()).ARN)
	})))
	t.Cleanup(d.Close)
	return d
}

// send sends the request as it is and returns status and body of the answer.
func (d *door) send(t tester, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func (d *door) arrived() arrived {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *d.last
}

// lines collects what was logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// byHand signs with the few lines of the specification (IAM User Guide, "Create a signed AWS API request"), so that not only the SDK says what is right.
// canonical are method, path, query and headers as the client canonicalised them; date is X-Amz-Date.
func byHand(k sigv4.Key, date, method, path, query, headers, names, body string) string {
	mac := func(key []byte, s string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(s))
		return h.Sum(nil)
	}
	scope := date[:8] + "/" + region + "/execute-api/aws4_request"
	canonical := method + "\n" + path + "\n" + query + "\n" + headers + "\n" + names + "\n" + hashOf(body)
	key := mac(mac(mac(mac([]byte("AWS4"+k.Secret), date[:8]), region), "execute-api"), "aws4_request")
	signature := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+date+"\n"+scope+"\n"+hashOf(canonical)))
	return "AWS4-HMAC-SHA256 Credential=" + k.ID + "/" + scope + ", SignedHeaders=" + names + ", Signature=" + signature
}

func hashOf(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}
