package sigv4_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/api/sigv4"
)

// body tells whether it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestTransportLeavesTheRequestOfItsCallerAlone(t *testing.T) {
	t.Parallel()
	r := newRequest(t, "POST", "http://127.0.0.1:1/a%2Fb?b=2&a=1+2", "")
	b := &body{Reader: strings.NewReader("{}")}
	r.Body, r.ContentLength, r.GetBody = b, -1, nil
	r.Header.Set("Accept", "application/json")
	want := r.Clone(t.Context())
	sent := sign(t, kim, r)
	if !b.closed {
		t.Error("the body was not closed")
	}
	if diff := cmp.Diff(r.Header, want.Header); diff != "" || *r.URL != *want.URL || r.ContentLength != -1 {
		t.Errorf("the request was changed: %s", diff)
	}
	if sent.ContentLength != 2 || sent.URL.RawQuery != "a=1%202&b=2" || sent.URL.EscapedPath() != "/a%2Fb" {
		t.Errorf("sent = %d bytes to %s, want 2 bytes to the canonical URL", sent.ContentLength, sent.URL)
	}
	for range 2 {
		again, err := sent.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(again); string(got) != "{}" {
			t.Errorf("GetBody = %q, want {}", got)
		}
	}
}

func TestTransportSendsATokenWithTemporaryCredentials(t *testing.T) {
	t.Parallel()
	var sent *http.Request
	p := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: "ASIA", SecretAccessKey: "s", SessionToken: "token"}, nil
	})
	if _, err := sigv4.Transport(tripper(func(r *http.Request) (*http.Response, error) { sent = r; return nil, nil }), p, region).RoundTrip(newRequest(t, "GET", "https://example.com", "")); err != nil {
		t.Fatal(err)
	}
	if got := sent.Header.Get("X-Amz-Security-Token"); got != "token" {
		t.Errorf("X-Amz-Security-Token = %q, want token", got)
	}
	if a := sent.Header.Get("Authorization"); !strings.Contains(a, "/ap-northeast-2/execute-api/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, ") {
		t.Errorf("Authorization = %q, want the region, execute-api and the token signed", a)
	}
}

func TestTransportSendsNothingThatItCannotSign(t *testing.T) {
	t.Parallel()
	none := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return aws.Credentials{}, errors.New("expired") })
	for _, c := range []struct {
		name        string
		credentials aws.CredentialsProvider
		url         string
		body        io.Reader
		want        string
	}{
		{"no credentials", none, "/", nil, "sign the request: credentials: expired"},
		{"a body that breaks", provider(kim), "/", broken{}, "sign the request: read its body: broken"},
		{"a body that is too large", provider(kim), "/", strings.NewReader(strings.Repeat("a", request.MaxBody+1)), "sign the request: its body has more than 4194304 bytes"},
		{"a query that is none", provider(kim), "/?a=%zz", nil, `sign the request: query: invalid URL escape "%zz"`},
		{"a query with semicolons", provider(kim), "/?a=1;b=2", nil, "sign the request: query: invalid semicolon separator in query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRequest(t, "POST", "http://127.0.0.1:1"+c.url, "")
			b := &body{Reader: c.body}
			if c.body != nil {
				r.Body = b
			}
			_, err := sigv4.Transport(tripper(func(*http.Request) (*http.Response, error) { t.Error("sent"); return nil, nil }), c.credentials, region).RoundTrip(r)
			if err == nil || err.Error() != c.want {
				t.Errorf("error = %v, want %s", err, c.want)
			}
			if c.body != nil && !b.closed {
				t.Error("the body was not closed")
			}
		})
	}
}

func TestTheLargestBodyGetsThrough(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a", request.MaxBody)
	sent := sign(t, kim, newRequest(t, "POST", "http://127.0.0.1:1/", text))
	if sent.ContentLength != request.MaxBody {
		t.Errorf("length = %d, want %d", sent.ContentLength, request.MaxBody)
	}
}
