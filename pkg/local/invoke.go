package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
)

// What becomes of an invocation apart from the error of its handler.
var (
	errCrashed  = errors.New("the handler panicked")
	errTimedOut = errors.New("the function timed out: its answer came after the deadline")
	errKilled   = errors.New("the process was killed")
)

// invoke calls the handler of a function as Lambda does: JSON in and out, a deadline, a request id. A panic is a crash, an answer after the deadline is none.
// A handler that never returns cannot be killed here: it is waited for.
func (s *Stack) invoke(ctx context.Context, f *function, requestID string, payload []byte) (answer []byte, err error) {
	if requestID == "" {
		requestID = s.requestID()
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{
		AwsRequestID:       requestID,
		InvokedFunctionArn: functionARN(f.name),
	})
	end := func() bool { return false }
	if s.faults != nil {
		ctx, end = s.faults.Invocation(ctx)
	}
	answer, err = call(ctx, s.handlers[f.name].Invoke, payload)
	switch {
	case end():
		s.log.Debug("invocation killed", "function", f.name, "requestId", requestID)
		return nil, errKilled
	case time.Now().After(deadline):
		err = errTimedOut
	}
	if err != nil {
		s.log.Error("invocation failed", "function", f.name, "requestId", requestID, "error", err)
		return nil, err
	}
	return answer, nil
}

// call turns a panic into an error. Its value is not logged: it may hold a body.
func call(ctx context.Context, invoke func(context.Context, []byte) ([]byte, error), payload []byte) (answer []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			answer, err = nil, fmt.Errorf("%w: %T", errCrashed, v)
		}
	}()
	return invoke(ctx, payload)
}

func functionARN(name string) string {
	return fmt.Sprintf("arn:aws:lambda:%s:%s:function:%s-%s", region, account, stackName, name)
}

func (s *Stack) requestID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers++
	return fmt.Sprintf("00000000-0000-4000-9000-%012x", s.numbers)
}

// timer is a schedule at work.
type timer struct {
	function *function
	schedule schedule
	at       time.Time // of the next firing
}

// placeholder is what EventBridge Scheduler replaces by the scheduled time (User Guide, "Adding context attributes").
const placeholder = "<aws.scheduler.scheduled-time>"

func (s *Stack) stepTimers(now time.Time) {
	alive := s.timers[:0]
	for _, t := range s.timers {
		ok := true
		for ok && !t.at.After(now) {
			scheduled := t.at
			t.at, ok = t.schedule.timetable.next(t.at)
			if t.schedule.recurring && !t.at.After(now) {
				continue // the process slept: one firing makes up for all
			}
			input := t.schedule.input
			if input == "" {
				input = "{}"
			}
			s.enqueue(t.function, []byte(strings.ReplaceAll(input, placeholder, scheduled.UTC().Format(time.RFC3339))))
		}
		if ok {
			s.soon(t.at)
			alive = append(alive, t)
		}
	}
	s.timers = alive
}

// asyncEvent is an event that waits for an asynchronous invocation.
type asyncEvent struct {
	function  *function
	payload   []byte
	requestID string // the same at every try
	tries     int
	born, due time.Time
	settled   chan error // gets what became of it; has room for it
}

// enqueue accepts an event. The lock is held.
func (s *Stack) enqueue(f *function, payload []byte) *asyncEvent {
	now := s.clock.Now()
	s.numbers++
	e := &asyncEvent{f, payload, fmt.Sprintf("00000000-0000-4000-9000-%012x", s.numbers), 0, now, now, make(chan error, 1)}
	s.async = append(s.async, e)
	return e
}

func (s *Stack) stepAsync(ctx context.Context, now time.Time) {
	waiting := s.async[:0]
	for _, e := range s.async {
		if e.due.After(now) {
			s.soon(e.due)
			waiting = append(waiting, e)
			continue
		}
		s.begin(func() { s.try(ctx, e) })
	}
	clear(s.async[len(waiting):])
	s.async = waiting
}

// try invokes once, and after an error decides as Lambda does: again after one minute, then two (Developer Guide, "Error handling for asynchronous invocation"), or the failure queue.
func (s *Stack) try(ctx context.Context, e *asyncEvent) {
	e.tries++
	_, err := s.invoke(ctx, e.function, e.requestID, e.payload)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	e.due = now.Add(time.Duration(e.tries) * time.Minute)
	condition := ""
	switch {
	case err == nil:
		e.settled <- nil
		return
	case e.tries > e.function.retries:
		condition = "RetriesExhausted"
	case e.due.Sub(e.born) > e.function.maxAge:
		condition = "EventAgeExceeded"
	default:
		s.async = append(s.async, e)
		return
	}
	if l := s.lines[e.function.onFailure]; l != nil {
		l.put(now, string(e.envelope(condition, err, now)), 1, 0)
	}
	e.settled <- err
}

// envelope is the record of a failed invocation that Lambda sends to a destination.
func (e *asyncEvent) envelope(condition string, err error, now time.Time) []byte {
	type object = map[string]any
	b, marshalErr := json.Marshal(object{
		"version":   "1.0",
		"timestamp": now,
		"requestContext": object{
			"requestId": e.requestID, "functionArn": functionARN(e.function.name) + ":$LATEST", "condition": condition, "approximateInvokeCount": e.tries,
		},
		"requestPayload":  json.RawMessage(e.payload),
		"responseContext": object{"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
		"responsePayload": object{"errorMessage": err.Error(), "errorType": fmt.Sprintf("%T", err)},
	})
	if marshalErr != nil {
		panic(marshalErr) // payloads are checked when they come in
	}
	return b
}

// Fire hands a Scheduler event to the dispatcher by an asynchronous invocation, and waits until it is dealt with: nil when a try succeeded, otherwise the error of the last
// one; the event then lies in the failure queue. The stack must run.
func (s *Stack) Fire(ctx context.Context, event json.RawMessage) error {
	if !json.Valid(event) {
		return errors.New("the event is not JSON")
	}
	s.mu.Lock()
	var e *asyncEvent
	for _, src := range s.functions {
		if src.name == dispatcherName {
			e = s.enqueue(src, event)
		}
	}
	s.touch()
	s.mu.Unlock()
	if e == nil {
		return fmt.Errorf("there is no function %s", dispatcherName)
	}
	var failed error
	err := s.Until(ctx, func() (bool, error) {
		select {
		case failed = <-e.settled:
			return true, nil
		default:
			return false, nil
		}
	})
	return errors.Join(err, failed)
}
