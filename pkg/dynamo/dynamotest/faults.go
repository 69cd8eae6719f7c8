package dynamotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
)

// Faults is an http.RoundTripper that answers requests in the place of DynamoDB, or loses its answers. For each operation ("TransactWriteItems") it follows a script, one
// answer per request; what no script covers is passed on. Safe for concurrent use.
type Faults struct {
	next http.RoundTripper // nil: there is no emulator, every request must be scripted

	mu      sync.Mutex
	scripts map[string][]Answer
	always  map[string]Answer
	hook    func(Call) Answer
	calls   []Call
}

// NewFaults is a transport without an emulator behind it.
func NewFaults() *Faults { return &Faults{} }

// Answer says what becomes of one request: is it carried out, and what does the client see. The zero value passes it on.
type Answer struct {
	carryOut bool  // send it to the emulator
	hang     bool  // the client sees nothing until it gives up
	err      error // the client sees a broken connection
	status   int   // the client sees this answer; 0: the emulator's
	body     string
}

// Pass carries the request out and delivers the answer.
func Pass() Answer { return Answer{carryOut: true} }

// Cut breaks the connection, after the request was carried out or before.
func Cut(carriedOut bool) Answer {
	return Answer{carryOut: carriedOut, err: fmt.Errorf("read: %w", syscall.ECONNRESET)}
}

// Hang lets the client wait until its own timeout, after the request was carried out or before.
func Hang(carriedOut bool) Answer { return Answer{carryOut: carriedOut, hang: true} }

// Reply answers without carrying the request out.
func Reply(status int, body string) Answer { return Answer{status: status, body: body} }

// Lose carries the request out and answers something else.
func Lose(status int, body string) Answer { return Answer{carryOut: true, status: status, body: body} }

// Fail answers with an exception of DynamoDB: status 400, or 500 for InternalServerError, and its name.
func Fail(exception, message string) Answer {
	status := http.StatusBadRequest
	if exception == "InternalServerError" {
		status = http.StatusInternalServerError
	}
	return Reply(status, object(map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + exception, "message": message, "Message": message}))
}

// Cancel answers with a cancelled transaction, one reason per write, "None" for those not in the way.
func Cancel(codes ...string) Answer {
	reasons := make([]map[string]any, len(codes))
	for i, code := range codes {
		reasons[i] = map[string]any{"Code": code}
		if code != "None" {
			reasons[i]["Message"] = "message of " + code
		}
	}
	return Reply(http.StatusBadRequest, object(map[string]any{
		"__type":              "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
		"Message":             "Transaction cancelled, please refer cancellation reasons for specific reasons [" + strings.Join(codes, ", ") + "]",
		"CancellationReasons": reasons,
	}))
}

func object(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own maps of strings
	}
	return string(b)
}

// Call is a request that came by.
type Call struct {
	Op    string // PutItem, TransactWriteItems, ...
	Token string // ClientRequestToken of a transaction
	Body  string // JSON
}

// Script queues answers for the next requests of an operation.
func (f *Faults) Script(op string, answers ...Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.scripts == nil {
		f.scripts = map[string][]Answer{}
	}
	f.scripts[op] = append(f.scripts[op], answers...)
}

// Always gives one answer to all requests of an operation that no script answers.
func (f *Faults) Always(op string, answer Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.always == nil {
		f.always = map[string]Answer{}
	}
	f.always[op] = answer
}

// Hook decides about all requests that neither Script nor Always answers; the hook is called by many at once. For faults at random: Pass most of them.
func (f *Faults) Hook(hook func(Call) Answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Calls are the requests of an operation so far, in order; "" means all.
func (f *Faults) Calls(op string) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Call
	for _, c := range f.calls {
		if op == "" || c.Op == op {
			out = append(out, c)
		}
	}
	return out
}

// RoundTrip implements http.RoundTripper.
func (f *Faults) RoundTrip(r *http.Request) (*http.Response, error) {
	call, err := readCall(r)
	if err != nil {
		return nil, err
	}
	a := f.answer(call)
	var response *http.Response
	if a.carryOut {
		if f.next == nil {
			return nil, fmt.Errorf("no answer is scripted for this %s", call.Op)
		}
		lost := a.hang || a.err != nil || a.status != 0
		out := r
		if lost { // the client may give up meanwhile, the request is carried out all the same
			out = r.WithContext(context.WithoutCancel(r.Context()))
		}
		if response, err = f.next.RoundTrip(out); err != nil {
			return nil, err
		}
		if lost {
			_, err := io.Copy(io.Discard, response.Body)
			if err := errors.Join(err, response.Body.Close()); err != nil {
				return nil, err
			}
		}
	}
	switch {
	case a.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case a.err != nil:
		return nil, a.err
	case a.status != 0:
		return &http.Response{
			StatusCode: a.status, Status: http.StatusText(a.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "X-Amzn-Requestid": {"test"}},
			Body:   io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r,
		}, nil
	}
	return response, nil
}

func readCall(r *http.Request) (Call, error) {
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return Call{}, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var token struct{ ClientRequestToken string }
	if err := json.Unmarshal(body, &token); err != nil {
		return Call{}, fmt.Errorf("request is no JSON: %w", err)
	}
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	return Call{Op: op, Token: token.ClientRequestToken, Body: string(body)}, nil
}

func (f *Faults) answer(call Call) Answer {
	f.mu.Lock()
	f.calls = append(f.calls, call)
	hook := f.hook
	if script := f.scripts[call.Op]; len(script) > 0 {
		f.scripts[call.Op] = script[1:]
		f.mu.Unlock()
		return script[0]
	}
	a, always := f.always[call.Op]
	f.mu.Unlock()
	switch {
	case always:
		return a
	case hook != nil:
		return hook(call)
	}
	return Pass()
}
