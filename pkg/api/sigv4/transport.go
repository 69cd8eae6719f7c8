// Package sigv4 is AWS Signature Version 4 at both ends: Transport signs what a client sends, Verifier checks it where no API Gateway does, on a laptop.
// Both use the signer of the AWS SDK, so they agree with AWS as far as it does.
package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"hanbeon/pkg/api/request"
)

// Service is the name of API Gateway in the scope of a signature.
const Service = "execute-api"

type transport struct {
	base        http.RoundTripper
	credentials aws.CredentialsProvider
	region      string
	signer      *v4.Signer
}

// Transport signs each request for the API Gateway of a region and passes it to base (nil: http.DefaultTransport). A retry or a redirect that comes through here is signed
// again, with the time of then. The body is read into memory to be hashed, at most request.MaxBody bytes of it.
//
// Its own errors mean that nothing was sent: no credentials, a body that cannot be read or is too large, a query that cannot be parsed (its signature would not cover it).
func Transport(base http.RoundTripper, credentials aws.CredentialsProvider, region string) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base, credentials, region, v4.NewSigner()}
}

func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := drain(r)
	if err != nil {
		return nil, err
	}
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, fmt.Errorf("sign the request: query: %w", err)
	}
	credentials, err := t.credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign the request: credentials: %w", err)
	}
	out := r.Clone(r.Context()) // the signer sets headers and rewrites the query; a RoundTripper must leave its request alone
	for name, values := range out.Header {
		if len(values) == 0 {
			delete(out.Header, name) // would be signed and not sent
		}
	}
	setBody(out, body)
	if err := t.signer.SignHTTP(out.Context(), credentials, out, hashOf(body), Service, t.region, time.Now()); err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	return t.base.RoundTrip(out)
}

// drain reads the body of a request that is about to be sent, and closes it.
func drain(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, request.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("sign the request: read its body: %w", err)
	}
	if len(body) > request.MaxBody {
		return nil, fmt.Errorf("sign the request: its body has more than %d bytes", request.MaxBody)
	}
	return body, nil
}

// setBody gives the request a body that was read before, with its length, and GetBody for a try on another connection.
func setBody(r *http.Request, body []byte) {
	r.ContentLength, r.TransferEncoding, r.Trailer = int64(len(body)), nil, nil
	r.GetBody = func() (io.ReadCloser, error) {
		if len(body) == 0 {
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	r.Body, _ = r.GetBody()
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
