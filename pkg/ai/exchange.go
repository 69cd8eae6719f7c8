package ai

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"hanbeon/pkg/job"
)

const (
	maxBody    = 1 << 20  // bytes of an answer, after decompression
	maxHeaders = 64 << 10 // bytes of its headers
)

// exchange is the HTTP side of one call. It reads the answer to its end, within the bounds, before the library sees any of it.
type exchange struct {
	http *http.Client
	now  func() time.Time

	begun  bool
	status int           // 0: no answer
	after  time.Duration // what the server asks to wait, 0 if it does not
	bytes  int           // of the body, as far as it was read
}

var _ openai.HTTPDoer = (*exchange)(nil)

// Do implements the HTTP client of the library. Its errors are made by job.Later.
func (x *exchange) Do(r *http.Request) (*http.Response, error) {
	x.begun = true
	resp, err := x.http.Do(r)
	if err != nil {
		return nil, job.Later(ReasonUnreachable, 0, errors.New("the AI server is not reached: "+trouble(err)))
	}
	defer resp.Body.Close()
	x.status = resp.StatusCode
	if x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable {
		x.after = retryAfter(resp.Header.Get("Retry-After"), x.now())
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	x.bytes = len(body)
	switch {
	case x.status >= http.StatusBadRequest: // the status decides, not the body
	case x.status < http.StatusOK || x.status >= http.StatusMultipleChoices:
		return nil, bad(fmt.Sprintf("status %d", x.status))
	case err != nil && broken(err):
		return nil, job.Later(ReasonUnreachable, 0, errors.New("the answer of the AI server ended in the middle: "+trouble(err)))
	case err != nil:
		return nil, bad("its body is wrongly encoded")
	case len(body) > maxBody:
		return nil, bad("its body is longer than 1 MB")
	case !json.Valid(body): // the library would stop at the end of the first value
		return nil, bad("its body is not JSON")
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// freshConnections makes a connection for each call. A call takes seconds, so a handshake matters little; a connection that was kept while the sandbox of a function was frozen is often dead, and would cost an attempt.
func freshConnections() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.MaxResponseHeaderBytes = maxHeaders
	return t
}

// sameServer follows a redirect that repeats the request on the same server, as frameworks send for a slash at the end. Any other comes back as it is.
func sameServer(r *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || r.Method != first.Method || r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// broken tells a connection that ended from an answer that is wrong.
func broken(err error) bool {
	var network net.Error
	var errno syscall.Errno
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || errors.As(err, &errno)
}

// trouble says what kind of error one of the network is. The error itself is not quoted: where an answer cannot be read it holds pieces of the answer.
func trouble(err error) string {
	var (
		name    *net.DNSError
		errno   syscall.Errno
		cert    *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		network net.Error
	)
	switch {
	case errors.As(err, &name):
		return "its name has no address"
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &cert):
		return "its certificate is not accepted"
	case errors.As(err, &record):
		return "it does not speak TLS"
	case errors.As(err, &network) && network.Timeout():
		return "time ran out"
	}
	return "the connection broke, or what came is not HTTP"
}
