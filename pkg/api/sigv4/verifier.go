package sigv4

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"hanbeon/pkg/api/request"
)

// MaxSkew is how far the time of a signature may be from ours, either way (IAM User Guide, "Elements of an AWS API request signature").
const MaxSkew = 5 * time.Minute

const (
	algorithm  = "AWS4-HMAC-SHA256"
	timeFormat = "20060102T150405Z"
)

// Key is an access key that the laptop made up. Nothing on AWS knows it.
type Key struct {
	ID     string // the access key id
	Secret string
	ARN    string // whose it is: arn:aws:iam::123456789012:user/kim
}

// Verifier lets through the requests that one of its keys has signed. It signs each request again and compares. It is safe for concurrent use.
//
// It takes the place of API Gateway with AWS_IAM and answers like it, 403 and a message. It is narrower than that in four things: presigned URLs, temporary credentials (a session
// token), signed headers that the SDK never signs (User-Agent, Expect, X-Amzn-Trace-Id, Transfer-Encoding) and a signed Content-Length of 0 are refused.
//
// The path is escaped once more for the signature, as every service but S3 does it: `a%2Fb` is signed as `a%252Fb`. curl 7.88 signs path and query as they are in the
// URL: with escapes in its path, an unsorted query or a parameter without `=` it is refused, here and by AWS.
type Verifier struct {
	Log *slog.Logger // says at debug level why a request was refused; nil: does not. Never a key, a signature or anything of the request

	keys   map[string]Key
	region string
	now    func() time.Time
	signer *v4.Signer
}

// NewVerifier knows the keys of one region. A key without id or secret, and two with one id, are programming errors and panic.
func NewVerifier(keys []Key, region string, now func() time.Time) *Verifier {
	v := &Verifier{keys: map[string]Key{}, region: region, now: now, signer: v4.NewSigner()}
	for _, k := range keys {
		if k.ID == "" || k.Secret == "" {
			panic("sigv4: a key without id or secret")
		}
		if _, twice := v.keys[k.ID]; twice {
			panic("sigv4: two keys with one id")
		}
		v.keys[k.ID] = k
	}
	return v
}

var (
	errMissing  = errors.New("no Authorization header")
	errTooLarge = fmt.Errorf("the body has more than %d bytes", request.MaxBody)
	errBody     = errors.New("the body could not be read")
)

// Wrap verifies before next. The requests next sees have the caller and a new id in their context (hanbeon/pkg/api/request), as behind hanbeon/pkg/api/gateway, and a body
// that is in memory. Every answer carries the id. The others are answered here: 403 in the words of the gateway, the same for an unknown key and a wrong signature, and
// with problem details 413 for a body over request.MaxBody and 400 for one that breaks off.
func (v *Verifier) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := request.NewID()
		w.Header().Set(request.IDHeader, id)
		key, body, err := v.verify(w, r)
		if err != nil && v.Log != nil {
			v.Log.DebugContext(r.Context(), "request refused", "request", id, "reason", err.Error())
		}
		switch {
		case err == nil:
			r = r.WithContext(request.With(r.Context(), request.Caller{ARN: key.ARN, Account: accountOf(key.ARN)}, id))
			setBody(r, body)
			next.ServeHTTP(w, r)
		case errors.Is(err, errTooLarge):
			request.Problem(w, http.StatusRequestEntityTooLarge, err.Error())
		case errors.Is(err, errBody):
			request.Problem(w, http.StatusBadRequest, err.Error())
		case errors.Is(err, errMissing):
			forbid(w, "Missing Authentication Token")
		default:
			forbid(w, "Forbidden")
		}
	})
}

func forbid(w http.ResponseWriter, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `{"message":"`+message+`"}`) // whoever asked is gone
}

// accountOf is the account in an ARN, "" if there is none.
func accountOf(arn string) string {
	if parts := strings.SplitN(arn, ":", 6); len(parts) == 6 {
		return parts[4]
	}
	return ""
}

// verify finds the key that signed the request and reads its body. Its errors never quote the request: they are for a log.
func (v *Verifier) verify(w http.ResponseWriter, r *http.Request) (Key, []byte, error) {
	a, err := authorizationOf(r)
	if err != nil {
		return Key{}, nil, err
	}
	// The signature covers the query as parsed: what does not parse would ride along unsigned.
	query, err := url.ParseQuery(r.URL.RawQuery)
	switch {
	case err != nil || r.URL.Opaque != "":
		return Key{}, nil, errors.New("a URL that cannot be signed")
	case query.Has("X-Amz-Signature"):
		return Key{}, nil, errors.New("a presigned URL")
	case len(r.Header.Values("X-Amz-Security-Token")) > 0:
		return Key{}, nil, errors.New("a session token, and local keys have none: is AWS_SESSION_TOKEN set?")
	}
	signed, err := v.timeOf(r)
	if err != nil {
		return Key{}, nil, err
	}
	if want := strings.Join([]string{signed.Format("20060102"), v.region, Service, "aws4_request"}, "/"); a.scope != want {
		return Key{}, nil, fmt.Errorf("the scope of the credential is not %s", want)
	}
	body, err := bodyOf(w, r)
	if err != nil {
		return Key{}, nil, err
	}
	hash := hashOf(body)
	if given := r.Header.Values("X-Amz-Content-Sha256"); len(given) > 0 && !slices.Equal(given, []string{hash}) {
		return Key{}, nil, errors.New("X-Amz-Content-Sha256 is not the hash of the body")
	}

	key, known := v.keys[a.id]
	again := signable(r, a.signedHeaders, len(body))
	// An unknown key is signed for too, with no secret, so that it takes as long to refuse as a wrong signature.
	if err := v.signer.SignHTTP(r.Context(), aws.Credentials{AccessKeyID: a.id, SecretAccessKey: key.Secret}, again, hash, Service, v.region, signed); err != nil {
		return Key{}, nil, errors.New("cannot be signed")
	}
	same := subtle.ConstantTimeCompare([]byte(again.Header.Get("Authorization")), []byte(a.String())) == 1
	if !same || !known {
		return Key{}, nil, errors.New("an unknown key or a wrong signature")
	}
	return key, body, nil
}

// timeOf is when the request says it was signed.
func (v *Verifier) timeOf(r *http.Request) (time.Time, error) {
	dates := r.Header.Values("X-Amz-Date")
	if len(dates) != 1 {
		return time.Time{}, errors.New("not one X-Amz-Date")
	}
	t, err := time.Parse(timeFormat, dates[0])
	if err != nil || t.Format(timeFormat) != dates[0] { // Parse takes fractions of a second, which the signature would not cover
		return time.Time{}, errors.New("X-Amz-Date is not of the form " + timeFormat)
	}
	if skew := v.now().Sub(t); skew.Abs() > MaxSkew {
		return time.Time{}, fmt.Errorf("signed %s before our time, at most %s either way is allowed", skew, MaxSkew)
	}
	return t, nil
}

// bodyOf reads the body of a request that has come in.
func bodyOf(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > request.MaxBody { // do not ask for it ("100 Continue")
		return nil, errTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, request.MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, errTooLarge
	case err != nil:
		return nil, errBody
	}
	return body, nil
}

// signable is the request with nothing but what its signature covers. The signer writes into it, so it shares no slice with r.
func signable(r *http.Request, signedHeaders string, length int) *http.Request {
	u := *r.URL
	s := &http.Request{Method: r.Method, URL: &u, Host: r.Host, Header: http.Header{}}
	for name := range strings.SplitSeq(signedHeaders, ";") {
		if name == "content-length" {
			s.ContentLength = int64(length) // the signer takes it from here, and signs it whenever it is set
		} else if values := r.Header.Values(name); len(values) > 0 {
			s.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	return s
}
