package sqs_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"hanbeon/pkg/queue"
	"hanbeon/pkg/sqs"
)

// service is the other end of the SDK's HTTP client: it enforces SQS's rules of a request, keeps what it accepted, and lets a test decide over the rest.
type service struct {
	t *testing.T

	// refuse is asked for each legal entry (request counted from 1) and returns the Failed element to answer with, nil to accept. Optional.
	refuse func(request int, id, body string) map[string]any
	// lose is asked after a request was carried out: true turns the answer into a connection error. Optional.
	lose func(request int) bool
	// status, unless 0 is returned, is the HTTP status to fail a request with before anything is done. Optional.
	status func(request int) int

	mu       sync.Mutex
	requests int
	bodies   []string // accepted, in any order
	putOff   map[string]int
	sizes    []int // entries of each request
	inFlight int
	most     int // requests in flight at once
}

var (
	entryID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)
	illegal = regexp.MustCompile(`[^\x{9}\x{A}\x{D}\x{20}-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]`)
)

func (s *service) queue() *sqs.Queue {
	client := awssqs.New(awssqs.Options{
		Region:       "ap-northeast-2",
		BaseEndpoint: aws.String("http://sqs.test"),
		HTTPClient:   s,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: "secret"}, nil
		}),
	})
	return sqs.New(client, map[queue.Name]string{"monthly-point": "http://sqs.test/1/hanbeon-monthly-point"})
}

// Do implements the SDK's HTTP client.
func (s *service) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.requests++
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	n := s.requests
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inFlight--
		s.mu.Unlock()
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if s.status != nil && s.status(n) != 0 {
		w.WriteHeader(s.status(n))
		fmt.Fprint(w, `{"__type":"com.amazonaws.sqs#InternalError","message":"injected"}`)
		return w.Result(), nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	switch target := r.Header.Get("X-Amz-Target"); target {
	case "AmazonSQS.SendMessageBatch":
		s.send(w, n, body)
	case "AmazonSQS.ChangeMessageVisibilityBatch":
		s.change(w, n, body)
	default:
		s.t.Errorf("unexpected request %q", target)
	}
	if s.lose != nil && s.lose(n) {
		return nil, io.ErrUnexpectedEOF
	}
	return w.Result(), nil
}

type request struct {
	QueueURL string `json:"QueueUrl"`
	Entries  []struct {
		ID                string `json:"Id"`
		MessageBody       string
		ReceiptHandle     string
		VisibilityTimeout int
	}
}

func (s *service) send(w *httptest.ResponseRecorder, n int, body []byte) {
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, len(in.Entries))
	if code := broken(in); code != "" {
		s.t.Errorf("SQS refuses the whole request: %s", code)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"refused"}`, code)
		return
	}
	ok, failed := []any{}, []any{}
	for _, e := range in.Entries {
		if s.refuse != nil {
			if f := s.refuse(n, e.ID, e.MessageBody); f != nil {
				failed = append(failed, f)
				continue
			}
		}
		sum := md5.Sum([]byte(e.MessageBody))
		ok = append(ok, map[string]any{"Id": e.ID, "MessageId": "m-" + e.ID, "MD5OfMessageBody": hex.EncodeToString(sum[:])})
		s.bodies = append(s.bodies, e.MessageBody)
	}
	answer(s.t, w, ok, failed)
}

func (s *service) change(w *httptest.ResponseRecorder, n int, body []byte) {
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.putOff == nil {
		s.putOff = map[string]int{}
	}
	if len(in.Entries) == 0 || len(in.Entries) > queue.MaxBatch {
		s.t.Errorf("%d entries", len(in.Entries))
	}
	ok, failed := []any{}, []any{}
	for _, e := range in.Entries {
		if e.VisibilityTimeout < 0 || e.VisibilityTimeout > 43200 {
			s.t.Errorf("visibility timeout %d", e.VisibilityTimeout)
		}
		if s.refuse != nil {
			if f := s.refuse(n, e.ID, e.ReceiptHandle); f != nil {
				failed = append(failed, f)
				continue
			}
		}
		ok = append(ok, map[string]any{"Id": e.ID})
		s.putOff[e.ReceiptHandle] = e.VisibilityTimeout
	}
	answer(s.t, w, ok, failed)
}

func answer(t *testing.T, w io.Writer, ok, failed []any) {
	if err := json.NewEncoder(w).Encode(map[string]any{"Successful": ok, "Failed": failed}); err != nil {
		t.Error(err)
	}
}

// broken names the rule for which SQS would refuse a whole SendMessageBatch (SendMessageBatch, "Errors").
func broken(in request) string {
	if len(in.Entries) == 0 {
		return "EmptyBatchRequest"
	}
	if len(in.Entries) > 10 {
		return "TooManyEntriesInBatchRequest"
	}
	seen, bytes := map[string]bool{}, 0
	for _, e := range in.Entries {
		if !entryID.MatchString(e.ID) {
			return "InvalidBatchEntryId"
		}
		if seen[e.ID] {
			return "BatchEntryIdsNotDistinct"
		}
		seen[e.ID] = true
		bytes += len(e.MessageBody)
		if e.MessageBody == "" || illegal.MatchString(e.MessageBody) {
			return "InvalidMessageContents"
		}
	}
	if bytes > 1<<20 {
		return "BatchRequestTooLong"
	}
	return ""
}

// accepted is what the service took, sorted; the second result has repeats removed.
func (s *service) accepted() (all, distinct []string) {
	all = append(all, s.bodies...)
	sort.Strings(all)
	for i, b := range all {
		if i == 0 || b != all[i-1] {
			distinct = append(distinct, b)
		}
	}
	return all, distinct
}

func subjects(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = queue.Subject{Job: "monthly-point-01", Subject: fmt.Sprintf("member-%04d", i)}.Encode()
	}
	return out
}

func big(bytes int) string { return `"` + strings.Repeat("x", bytes-2) + `"` }
