package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"hanbeon/pkg/job"
	"hanbeon/pkg/local"
)

// small is a stack with one queue, received three times, and a dispatcher that is fired on the first of each month.
const small = `
Parameters:
  BusinessZone: { Type: String, Default: Asia/Seoul }
  Amount: { Type: Number, Default: 100 }
  Batch: { Type: Number, Default: 3 }
  Window: { Type: Number, Default: 1 }
Globals:
  Function:
    Environment: { Variables: { BUSINESS_ZONE: !Ref BusinessZone } }
Resources:
  Failures:
    Type: AWS::SQS::Queue
    Properties: { QueueName: !Sub "${AWS::StackName}-failures", MessageRetentionPeriod: 1209600 }
  Work:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub ${AWS::StackName}-work
      VisibilityTimeout: 30
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 3 }
  Dead:
    Type: AWS::SQS::Queue
    Properties: { QueueName: !Sub "${AWS::StackName}-work-dlq", MessageRetentionPeriod: 1209600 }
  Dispatcher:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-dispatcher
      Timeout: 60
      EventInvokeConfig:
        MaximumRetryAttempts: 2
        DestinationConfig: { OnFailure: { Type: SQS, Destination: !GetAtt Failures.Arn } }
      Events:
        Monthly:
          Type: ScheduleV2
          Properties:
            Name: !Sub ${AWS::StackName}-monthly
            ScheduleExpression: cron(30 0 1 * ? *)
            ScheduleExpressionTimezone: !Ref BusinessZone
            Input: !Sub '{"scheduledTime":"<aws.scheduler.scheduled-time>","amount":${Amount}}'
  Worker:
    Type: AWS::Serverless::Function
    Properties:
      FunctionName: !Sub ${AWS::StackName}-worker
      Timeout: 5
      Events:
        Work:
          Type: SQS
          Properties:
            Queue: !GetAtt Work.Arn
            BatchSize: !Ref Batch
            FunctionResponseTypes: [ReportBatchItemFailures]
            MaximumBatchingWindowInSeconds: !Ref Window
            ScalingConfig: { MaximumConcurrency: 2 }
`

// raw is a handler that answers bytes, as a function in any language may.
type raw func(ctx context.Context, payload []byte) ([]byte, error)

func (r raw) Invoke(ctx context.Context, payload []byte) ([]byte, error) { return r(ctx, payload) }

// startSmall runs the small stack on the clock of the bubble.
func startSmall(t *testing.T, change func(*local.Config), worker, dispatcher any) *local.Stack {
	t.Helper()
	if worker == nil {
		worker = raw(func(context.Context, []byte) ([]byte, error) { return []byte("null"), nil })
	}
	if dispatcher == nil {
		dispatcher = func(context.Context, json.RawMessage) error { return nil }
	}
	c := local.Config{Store: openStore(t), Template: small}
	if change != nil {
		change(&c)
	}
	s, err := local.NewWith(c, func(job.Env) map[string]any {
		return map[string]any{"worker": worker, "dispatcher": dispatcher}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Start(context.WithoutCancel(t.Context())))
	return s
}

// deliveries notes what a worker got, and answers by a function of the event.
type deliveries struct {
	mu   sync.Mutex
	got  []string // `second: body/receives ...`
	from time.Time
}

func (d *deliveries) handler(answer func(e events.SQSEvent) (string, error)) raw {
	d.from = time.Now()
	return func(_ context.Context, payload []byte) ([]byte, error) {
		var e events.SQSEvent
		if err := json.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		var line []string
		for _, r := range e.Records {
			line = append(line, r.Body+"/"+r.Attributes["ApproximateReceiveCount"])
		}
		slices.Sort(line)
		d.mu.Lock()
		d.got = append(d.got, fmt.Sprintf("%.0fs: %s", time.Since(d.from).Seconds(), strings.Join(line, " ")))
		d.mu.Unlock()
		s, err := answer(e)
		return []byte(s), err
	}
}

func (d *deliveries) check(t *testing.T, want ...string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortStableFunc(d.got, func(a, b string) int { // batches of one moment, by content
		at, rest, _ := strings.Cut(a, " ")
		bt, other, _ := strings.Cut(b, " ")
		if at != bt {
			return 0
		}
		return strings.Compare(rest, other)
	})
	if !slices.Equal(d.got, want) {
		t.Errorf("delivered %q, want %q", d.got, want)
	}
}

func send(t *testing.T, s *local.Stack, bodies ...string) {
	t.Helper()
	if err := s.Env().Queue.Send(t.Context(), "work", bodies...); err != nil {
		t.Fatal(err)
	}
}

func idOf(e events.SQSEvent, body string) string {
	for _, r := range e.Records {
		if r.Body == body {
			return r.MessageId
		}
	}
	return ""
}

// EMU-03: what Lambda makes of an answer. All: the three messages come back after the visibility timeout, three times, and then lie in the dead letters.
func TestAnswersOfAHandler(t *testing.T) {
	t.Parallel()
	all := []string{"0s: a/1 b/1 c/1", "30s: a/2 b/2 c/2", "60s: a/3 b/3 c/3"}
	gone := all[:1]
	for _, test := range []struct {
		name   string
		answer func(e events.SQSEvent) (string, error)
		want   []string
		dead   int
	}{
		{"a handler error returns all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[]}`, errors.New("broken") }, all, 3},
		{"a panic returns all", func(events.SQSEvent) (string, error) { panic("broken") }, all, 3},
		{"malformed JSON returns all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[`, nil }, all, 3},
		{"no answer at all returns all", func(events.SQSEvent) (string, error) { return ``, nil }, all, 3},
		{"a text returns all", func(events.SQSEvent) (string, error) { return `"fine"`, nil }, all, 3},
		{"an unknown id returns all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[{"itemIdentifier":"x"}]}`, nil }, all, 3},
		{"an empty id returns all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[{"itemIdentifier":""}]}`, nil }, all, 3},
		{"a null id returns all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[{"itemIdentifier":null}]}`, nil }, all, 3},
		{"a wrong name returns all", func(e events.SQSEvent) (string, error) {
			return `{"batchItemFailures":[{"id":"` + idOf(e, "a") + `"}]}`, nil
		}, all, 3},
		{"one known and one unknown id return all", func(e events.SQSEvent) (string, error) {
			return `{"batchItemFailures":[{"itemIdentifier":"` + idOf(e, "a") + `"},{"itemIdentifier":"x"}]}`, nil
		}, all, 3},
		{"a list returns the listed", func(e events.SQSEvent) (string, error) {
			return `{"batchItemFailures":[{"itemIdentifier":"` + idOf(e, "b") + `"}]}`, nil
		}, []string{"0s: a/1 b/1 c/1", "31s: b/2", "61s: b/3"}, 1}, // a batch of one waits for the window, in flight
		{"null deletes all", func(events.SQSEvent) (string, error) { return `null`, nil }, gone, 0},
		{"an empty object deletes all", func(events.SQSEvent) (string, error) { return `{}`, nil }, gone, 0},
		{"an empty list deletes all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":[]}`, nil }, gone, 0},
		{"a null list deletes all", func(events.SQSEvent) (string, error) { return `{"batchItemFailures":null}`, nil }, gone, 0},
		{"a bare empty list deletes all", func(events.SQSEvent) (string, error) { return `[]`, nil }, gone, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var d deliveries
				s := startSmall(t, nil, d.handler(test.answer), nil)
				send(t, s, "a", "b", "c")
				time.Sleep(29 * time.Second)
				synctest.Wait()
				d.check(t, test.want[0])
				time.Sleep(10 * time.Minute)
				d.check(t, test.want...)
				q := s.Stats().Queues
				if got := q["work-dlq"].Visible; got != test.dead || q["work"].Visible+q["work"].Hidden != 0 {
					t.Errorf("dead letters %d, queue %+v; want %d and nothing", got, q["work"], test.dead)
				}
			})
		})
	}
}

// An answer that comes after the function's timeout is none.
func TestAnswerAfterTheTimeoutDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d deliveries
		s := startSmall(t, nil, d.handler(func(events.SQSEvent) (string, error) {
			time.Sleep(6 * time.Second)
			return "null", nil
		}), nil)
		send(t, s, "a", "b", "c")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		d.check(t, "0s: a/1 b/1 c/1", "30s: a/2 b/2 c/2", "60s: a/3 b/3 c/3")
	})
}

// A handler sees what Lambda shows it: a deadline, a request id, the queue's ARN.
func TestHandlerSeesALambdaContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		seen := make(chan string, 1)
		s := startSmall(t, nil, func(ctx context.Context, e events.SQSEvent) error {
			deadline, _ := ctx.Deadline()
			lc, ok := lambdacontext.FromContext(ctx)
			if !ok || lc.AwsRequestID == "" {
				return errors.New("no request id")
			}
			seen <- fmt.Sprint(deadline.Sub(begun), " ", e.Records[0].EventSourceARN, " ", e.Records[0].EventSource, " ", e.Records[0].MessageId != "")
			return nil
		}, nil)
		send(t, s, "a")
		got, want := <-seen, "6s arn:aws:sqs:ap-northeast-2:000000000000:hanbeon-work aws:sqs true" // a window of 1 s, a timeout of 5 s
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Two pollers fill batches of three by turns, and wait a second for the rest of a batch; a third batch waits until a poller is free.
func TestBatchesAndConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d deliveries
		s := startSmall(t, nil, d.handler(func(events.SQSEvent) (string, error) {
			time.Sleep(4 * time.Second)
			return "null", nil
		}), nil)
		send(t, s, "a", "b", "c", "d", "e", "f", "g")
		time.Sleep(500 * time.Millisecond)
		if got := s.Stats().Queues["work"]; got.Visible != 1 || got.Hidden != 6 {
			t.Errorf("after two batches: %+v, want 1 visible and 6 in flight", got)
		}
		time.Sleep(time.Minute)
		d.check(t, "0s: a/1 b/1 c/1", "0s: d/1 e/1 f/1", "5s: g/1")
	})
}

// PutOff moves messages in flight, and only those.
func TestPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d deliveries
		var s *local.Stack
		s = startSmall(t, nil, d.handler(func(e events.SQSEvent) (string, error) {
			if e.Records[0].Attributes["ApproximateReceiveCount"] != "1" {
				return "null", nil
			}
			for _, r := range e.Records {
				d := map[string]time.Duration{"now": 0, "late": time.Hour}[r.Body]
				if err := s.Env().Queue.PutOff(context.Background(), "work", d, r.ReceiptHandle); err != nil {
					return "", err
				}
			}
			return "", errors.New("again")
		}), nil)
		send(t, s, "now", "late")
		time.Sleep(2 * time.Hour)
		d.check(t, "1s: late/1 now/1", "2s: now/2", "3602s: late/2")
		for _, wrong := range []time.Duration{-1, 12*time.Hour + 1} {
			if err := s.Env().Queue.PutOff(t.Context(), "work", wrong, "x"); err == nil {
				t.Errorf("put off by %v: no error", wrong)
			}
		}
	})
}

// DSP-11: an asynchronous invocation that fails is tried again after one and two minutes, with the same request id, and then parked.
func TestFiringThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var got []string
		ids := map[string]bool{}
		fails := 3
		s := startSmall(t, nil, nil, func(ctx context.Context, event json.RawMessage) error {
			lc, _ := lambdacontext.FromContext(ctx)
			ids[lc.AwsRequestID] = true
			got = append(got, fmt.Sprintf("%v %s", time.Since(begun), event))
			if len(got) <= fails {
				return errors.New("refused")
			}
			return nil
		})
		if err := s.Fire(t.Context(), json.RawMessage(`{"n":1}`)); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("three failures: %v, want the error of the handler", err)
		}
		want := []string{`0s {"n":1}`, `1m0s {"n":1}`, `3m0s {"n":1}`}
		if !slices.Equal(got, want) || len(ids) != 1 {
			t.Errorf("tries %q with %d request ids, want %q with one", got, len(ids), want)
		}
		if n := s.Stats().Queues["failures"].Visible; n != 1 {
			t.Errorf("failure queue holds %d, want 1", n)
		}
		fails = 4
		if err := s.Fire(t.Context(), json.RawMessage(`{"n":2}`)); err != nil {
			t.Errorf("one failure, then success: %v", err)
		}
		if err := s.Fire(t.Context(), json.RawMessage(`{"n":`)); err == nil {
			t.Errorf("half an object: no error")
		}
	})
}

// The schedule of the template fires by itself, in its zone, with the scheduled time in UTC.
func TestScheduleFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the bubble begins at 2000-01-01T00:00:00Z
		var got []string
		startSmall(t, func(c *local.Config) { c.Parameters = map[string]string{"Amount": "7"} }, nil, func(_ context.Context, event json.RawMessage) error {
			got = append(got, time.Now().UTC().Format(time.RFC3339)+" "+string(event))
			return nil
		})
		time.Sleep(61 * 24 * time.Hour)
		synctest.Wait()
		want := []string{
			`2000-01-31T15:30:00Z {"scheduledTime":"2000-01-31T15:30:00Z","amount":7}`,
			`2000-02-29T15:30:00Z {"scheduledTime":"2000-02-29T15:30:00Z","amount":7}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("fired %q, want %q", got, want)
		}
	})
}

func TestSendRefusesWhatSQSRefuses(t *testing.T) {
	t.Parallel()
	s, err := local.NewWith(local.Config{Store: openStore(t), Template: small}, func(job.Env) map[string]any {
		return map[string]any{"worker": raw(nil), "dispatcher": raw(nil)}
	})
	if err != nil {
		t.Fatal(err)
	}
	q := s.Env().Queue
	for _, body := range []string{"", "\x00", "\uFFFE", "bad \xff", strings.Repeat("x", 1<<20+1)} {
		if err := q.Send(t.Context(), "work", "good", body, "good"); err == nil {
			t.Errorf("body %.10q was accepted", body)
		}
	}
	if err := q.Send(t.Context(), "work", "회원 🎉\t\u007f\uFFFD", strings.Repeat("x", 1<<20)); err != nil {
		t.Errorf("a good body: %v", err)
	}
	if err := q.Send(t.Context(), "elsewhere", "x"); err == nil {
		t.Errorf("a queue that does not exist: no error")
	}
	if got := s.Stats().Queues["work"].Visible; got != 12 {
		t.Errorf("%d messages visible, want the 10 good neighbours and 2", got)
	}
}
