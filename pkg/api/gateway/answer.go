package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"
)

// maxAnswer is Lambda's limit for a synchronous answer, in bytes of its JSON (Lambda quotas: 6 MB).
const maxAnswer = 6 << 20

var errAnswerTooLarge = errors.New("the answer is too large for Lambda")

// answer is an http.ResponseWriter that keeps what was written. It follows net/http where handlers can tell: the headers are those at the first WriteHeader or Write, a
// missing Content-Type is guessed, 204 and 304 have no body.
type answer struct {
	header http.Header
	status int         // 0 until written
	sent   http.Header // the headers at that moment
	body   bytes.Buffer
	lost   int // bytes that were not kept, because no answer can be that large
}

var _ http.ResponseWriter = (*answer)(nil)

func newAnswer() *answer { return &answer{header: http.Header{}} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %d", status)) // as net/http does
	}
	if a.status != 0 || status < 200 { // the gateway has no use for an early 1xx
		return
	}
	a.status, a.sent = status, a.header.Clone()
}

func (a *answer) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if a.body.Len()+len(p) > maxAnswer {
		a.lost += len(p)
		return 0, errAnswerTooLarge
	}
	if _, typed := a.sent["Content-Type"]; !typed && len(p) > 0 && a.sent.Get("Content-Encoding") == "" {
		a.sent.Set("Content-Type", http.DetectContentType(p))
	}
	return a.body.Write(p)
}

// response is the answer in the gateway's form. Content-Length is left out: it is the gateway's to say, and wrong for base64.
func (a *answer) response() events.APIGatewayV2HTTPResponse {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	r := events.APIGatewayV2HTTPResponse{StatusCode: a.status, Headers: map[string]string{}, Cookies: a.sent.Values("Set-Cookie")}
	for name, values := range a.sent {
		if name != "Set-Cookie" && name != "Content-Length" { // cookies have commas of their own, in dates
			r.Headers[name] = strings.Join(values, ", ")
		}
	}
	if a.isText() {
		r.Body = a.body.String()
	} else {
		r.Body, r.IsBase64Encoded = base64.StdEncoding.EncodeToString(a.body.Bytes()), true
	}
	return r
}

// isText is whether the body can travel in a JSON string as it is.
func (a *answer) isText() bool {
	if a.body.Len() == 0 {
		return true
	}
	t, _, _ := mime.ParseMediaType(a.sent.Get("Content-Type"))
	text := strings.HasPrefix(t, "text/") || t == "application/json" || strings.HasSuffix(t, "+json")
	return text && utf8.Valid(a.body.Bytes()) // what is zipped is not UTF-8
}

// size is how many bytes of JSON the answer becomes, as the Lambda runtime writes it. Escaping makes at most six bytes of one, so small answers are not counted.
func (a *answer) size(r events.APIGatewayV2HTTPResponse) int {
	if a.lost > 0 {
		return a.body.Len() + a.lost
	}
	if len(r.Body) < maxAnswer/8 {
		return len(r.Body)
	}
	var n counter
	enc := json.NewEncoder(&n)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic(err) // strings always marshal
	}
	return int(n)
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
