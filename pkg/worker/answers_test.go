package worker_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// Payloads of the console's test button and of warm-up calls. SQS-18
func TestOddEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	for _, payload := range []string{`{}`, `{"Records":[]}`, `{"Records":null}`} {
		answer, err := lambda.NewHandler(w.worker(nil).Handle).Invoke(t.Context(), []byte(payload))
		if err != nil || string(answer) != `{"batchItemFailures":[]}` {
			t.Errorf("%s: got %s, %v, want an empty list", payload, answer, err)
		}
	}
}

// The answer has exactly the form that Lambda reads, and no error beside the list. SQS-04, SQS-05
func TestAnswerAsTheRuntimeMarshalsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2", "member-3")
	j := w.fire(april, 100)
	w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
		if subject == "member-2" {
			return nil, errors.New("not now")
		}
		return w.kind.monthly.Effects(t.Context(), j, subject)
	}
	payload, err := json.Marshal(event(bodies(j, "member-1", "member-2", "member-3")...))
	if err != nil {
		t.Fatal(err)
	}
	handler := lambda.NewHandler(w.worker(nil).Handle)
	for range 2 {
		answer, err := handler.Invoke(t.Context(), payload)
		if want := `{"batchItemFailures":[{"itemIdentifier":"m1"}]}`; err != nil || string(answer) != want {
			t.Errorf("got %s, %v, want %s", answer, err, want)
		}
	}
	equal(t, "balances", []int64{w.balance("member-1"), w.balance("member-2"), w.balance("member-3")}, []int64{100, 0, 100})
	w.kind.effects = nil
	if answer, err := handler.Invoke(t.Context(), payload); err != nil || string(answer) != `{"batchItemFailures":[]}` {
		t.Errorf("got %s, %v, want an empty list", answer, err)
	}
}

// A failed record without an id cannot be listed: the whole batch comes back, which is harmless. SQS-03
func TestMessageWithoutID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2", "member-3")
	j := w.fire(april, 100)
	e := event(bodies(j, "member-1", "member-2", "member-3")...)
	e.Records[1].MessageId = ""
	down := w.worker(func(c sim.Call) (bool, error) {
		if c.Touches("points/member-2/") {
			return false, errors.New("no answer")
		}
		return true, nil
	})
	answer, err := down.Handle(t.Context(), e)
	if err == nil || len(answer.BatchItemFailures) > 0 {
		t.Errorf("got %v, %v, want an error and no list", answer, err)
	}
	answer, err = w.worker(nil).Handle(t.Context(), e)
	if err != nil || len(answer.BatchItemFailures) > 0 {
		t.Errorf("again: got %v, %v, want no failures", answer, err)
	}
	equal(t, "job", w.job(j.ID).State, job.Completed)
	equal(t, "counts", w.counts(j), job.Counts{Applied: 3})
}

// The pause before the next delivery grows with the receives and stays in its range; only the messages that come again are put off.
func TestBackoff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2")
	j := w.fire(april, 100)
	w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
		if subject == "member-2" {
			return nil, errors.New("not now")
		}
		return w.kind.monthly.Effects(t.Context(), j, subject)
	}
	longest := map[string]time.Duration{}
	most := map[string]time.Duration{"1": 4 * time.Second, "3": 16 * time.Second, "8": 512 * time.Second, "200": 900 * time.Second, "": 4 * time.Second, "-1": 4 * time.Second, "x": 4 * time.Second}
	for receives, limit := range most {
		for range 30 {
			e := event(bodies(j, "member-1", "member-2")...)
			e.Records[1].Attributes = map[string]string{"ApproximateReceiveCount": receives}
			w.box.putOffs = nil
			if answer, err := w.worker(nil).Handle(t.Context(), e); err != nil || len(answer.BatchItemFailures) != 1 {
				t.Fatal(answer, err)
			}
			if len(w.box.putOffs) != 1 {
				t.Fatalf("%d calls of PutOff, want 1", len(w.box.putOffs))
			}
			p := w.box.putOffs[0]
			equal(t, "receipts", p.receipts, []string{"r1"})
			equal(t, "queue", string(p.from), "monthly-point")
			if p.delay < time.Second || p.delay > limit {
				t.Errorf("receive %s: pause of %s, want 1 s to %s", receives, p.delay, limit)
			}
			longest[receives] = max(longest[receives], p.delay)
		}
	}
	// Of thirty draws with full jitter the longest is below an eighth of the bound once in 8^30.
	if longest["8"] < most["8"]/8 || longest["200"] < most["200"]/8 {
		t.Errorf("pauses do not grow: %v", longest)
	}
}

// Without PutOff a message comes back when its visibility timeout ends: the answer is the same.
func TestPutOffMayFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1", "member-2")
	j := w.fire(april, 100)
	w.kind.effects = func(job.Job, string) ([]once.Effect, error) { return nil, errors.New("not now") }
	b := w.worker(func(c sim.Call) (bool, error) {
		if c.Op == sim.PutOff {
			return false, errors.New("ChangeMessageVisibilityBatch: 500")
		}
		return true, nil
	})
	equal(t, "handed back", w.deliver(b, bodies(j, "member-1", "member-2")...), ids(0, 1))
	if !strings.Contains(w.logs.String(), "after the visibility timeout") {
		t.Error("nothing is logged")
	}
}

// Nothing of a body, an attribute or a header is logged, and what an id holds cannot forge a line. LOG-01, LOG-03
func TestLogHoldsNoContent(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a"
	w := newWorld(t, "member-1", "member-2")
	j := w.fire(april, 100)
	w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
		if subject == "member-2" {
			return nil, errors.New("not now\n{\"level\":\"INFO\",\"msg\":\"granted\"}")
		}
		return w.kind.monthly.Effects(t.Context(), j, subject)
	}
	e := event(
		canary,
		`{"v":1,"job":"`+j.ID+`","subject":"member-1","note":"`+canary+`"}`,
		`{"v":9,"note":"`+canary+`"}`,
		`{"v":1,"job":"`+j.ID+`","subject":"x\n{\"level\":\"info\",\"msg\":\"granted\"}"}`,
		bodies(j, "member-2")[0],
	)
	text := canary
	for i := range e.Records {
		e.Records[i].Attributes["Authorization"] = canary
		e.Records[i].MessageAttributes = map[string]events.SQSMessageAttribute{"X-Amz-Security-Token": {StringValue: &text, DataType: "String"}}
		e.Records[i].Md5OfBody = canary
	}
	answer, err := w.worker(nil).Handle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "handed back", failed(answer), ids(0, 2, 3, 4))
	log := w.logs.String()
	if strings.Contains(log, canary) {
		t.Errorf("the log holds what was in a message:\n%s", log)
	}
	for line := range strings.Lines(log) {
		var one struct {
			Msg, Message, Error string
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Errorf("not one JSON object: %q", line)
		}
		if one.Msg == "granted" {
			t.Errorf("forged: %s", line)
		}
	}
	for _, id := range ids(0, 2, 3) {
		if !strings.Contains(log, `"message":"`+id+`"`) {
			t.Errorf("message %s is not mentioned in the log", id)
		}
	}
}
