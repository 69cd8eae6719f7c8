package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/cloud"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

var everything = cloud.Needs{
	Tables:   []store.Table{job.Table, "catalog"},
	Ledgers:  []store.Table{"points"},
	Queues:   []queue.Name{queue.Segments, "monthly-point"},
	Calendar: true,
	Model:    func(cfg cloud.ModelConfig) (cloud.Model, error) { return model{cfg}, nil },
}

// model keeps what it was made from.
type model struct{ cfg cloud.ModelConfig }

func (model) Complete(context.Context, string, string, string, json.RawMessage) (string, error) {
	return "", nil
}

// complete is an environment in which everything works.
func complete() map[string]string {
	return map[string]string{
		"TABLE_JOBS":            "hanbeon-jobs",
		"TABLE_CATALOG":         "hanbeon-catalog",
		"TABLE_POINTS":          "hanbeon-points",
		"QUEUE_SEGMENTS":        "https://sqs.ap-northeast-2.amazonaws.com/123456789012/hanbeon-segments",
		"QUEUE_MONTHLY_POINT":   "https://sqs.ap-northeast-2.amazonaws.com/123456789012/hanbeon-monthly-point",
		"BUSINESS_ZONE":         "Asia/Seoul",
		"CALENDAR_START":        "2026-12",
		"AUTO_OPEN":             "true",
		"SCHEDULE_INPUTS":       `{"monthly-point":{"amount":100}}`,
		"AI_BASE_URL":           "https://ai.example.com/v1",
		"AI_MODEL":              "summariser",
		"AI_KEY_SECRET":         "arn:aws:secretsmanager:ap-northeast-2:123456789012:secret:ai-AbCdEf",
		"AI_TIMEOUT":            "120",
		"LOG_LEVEL":             "INFO",
		"AWS_REGION":            "ap-northeast-2",
		"AWS_ACCESS_KEY_ID":     "AKIDTEST",
		"AWS_SECRET_ACCESS_KEY": "c2VjcmV0",
	}
}

func load(env map[string]string, needs cloud.Needs, out io.Writer) (*cloud.Function, error) {
	return cloud.Load(func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}, needs, out)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	f, err := load(complete(), everything, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if f.Store == nil || f.Queue == nil || f.Log == nil || f.Metric == nil {
		t.Errorf("incomplete: %+v", f.Env)
	}
	if got, want := f.Zone.String(), "Asia/Seoul"; got != want {
		t.Errorf("zone: got %s, want %s", got, want)
	}
	want := job.Calendar{Start: "2026-12", AutoOpen: true, Inputs: map[once.Kind]json.RawMessage{"monthly-point": json.RawMessage(`{"amount":100}`)}}
	if diff := cmp.Diff(f.Calendar, want); diff != "" {
		t.Errorf("calendar (-got +want):\n%s", diff)
	}
	m := f.Model.(model).cfg
	if m.BaseURL != "https://ai.example.com/v1" || m.Name != "summariser" || m.Secret != complete()["AI_KEY_SECRET"] || m.Timeout != 2*time.Minute || m.AWS.Region != "ap-northeast-2" || m.Secrets != nil || m.Now == nil || m.Log == nil {
		t.Errorf("model: %+v", m)
	}
	if now := f.Now(); now.Location() != time.UTC || now.Nanosecond()%int(time.Millisecond) != 0 {
		t.Errorf("now is %v, want UTC in whole milliseconds", now)
	}
}

// SAM-06: a variable that is missing or empty stops the start with its name, whichever it is.
func TestEachVariableIsRequired(t *testing.T) {
	t.Parallel()
	for name := range complete() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := complete()
			delete(env, name)
			_, err := load(env, everything, io.Discard)
			if want := name + ": not set"; err == nil || err.Error() != want {
				t.Errorf("missing: got %v, want %q", err, want)
			}
			env[name] = ""
			_, err = load(env, everything, io.Discard)
			if want := name + ": empty"; err == nil || err.Error() != want {
				t.Errorf("empty: got %v, want %q", err, want)
			}
		})
	}
}

func TestAFunctionReadsOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	read := map[string]bool{}
	env := complete()
	_, err := cloud.Load(func(name string) (string, bool) {
		read[name] = true
		v, ok := env[name]
		return v, ok
	}, cloud.Needs{Tables: []store.Table{job.Table}, Queues: []queue.Name{queue.Segments}}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"AWS_ACCESS_KEY_ID", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"BUSINESS_ZONE", "LOG_LEVEL", "QUEUE_SEGMENTS", "TABLE_JOBS",
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(read)), want); diff != "" {
		t.Errorf("variables (-got +want):\n%s", diff)
	}
}

// SAM-06: all that is wrong is said at once, one line per variable.
func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	env := complete()
	for name, bad := range map[string]string{
		"TABLE_JOBS":            "no such/table",
		"QUEUE_SEGMENTS":        "hanbeon-segments",
		"QUEUE_MONTHLY_POINT":   "ftp://x/y",
		"BUSINESS_ZONE":         "Asia/Soul",
		"CALENDAR_START":        "2026-13",
		"AUTO_OPEN":             "yes",
		"SCHEDULE_INPUTS":       `{"monthly-point":100,"No Kind":{}}`,
		"AI_BASE_URL":           "http//canary@ai",
		"AI_MODEL":              "",
		"AI_KEY_SECRET":         "sk-canary",
		"AI_TIMEOUT":            "2m",
		"LOG_LEVEL":             "info",
		"AWS_ENDPOINT_URL":      "localhost:8000",
		"AWS_ENDPOINT_URL_SQS":  "",
		"AWS_ACCESS_KEY_ID":     "",
		"AWS_SESSION_TOKEN":     "canary",
		"AWS_SECRET_ACCESS_KEY": "canary",
	} {
		env[name] = bad
	}
	delete(env, "TABLE_POINTS")
	_, err := load(env, everything, io.Discard)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`TABLE_JOBS: "no such/table" is not a table name`,
		`TABLE_POINTS: not set`,
		`QUEUE_SEGMENTS: "hanbeon-segments" is not an http or https URL`,
		`QUEUE_MONTHLY_POINT: "ftp://x/y" is not an http or https URL`,
		`BUSINESS_ZONE: "Asia/Soul" is not a time zone such as Asia/Seoul`,
		`CALENDAR_START: period "2026-13": want a real month such as 2024-04, or a day such as 2024-04-15, from 2000 on`,
		`AUTO_OPEN: "yes" is neither true nor false`,
		`SCHEDULE_INPUTS: kind "No Kind": want lower case letters, digits and single hyphens, at most 32, starting with a letter`,
		`SCHEDULE_INPUTS: monthly-point: want a JSON object`,
		`AI_MODEL: empty`,
		`AI_KEY_SECRET: not the ARN of a secret in Secrets Manager`,
		`AI_TIMEOUT: "2m" is not a number of seconds from 1 to 900`,
		`AWS_ENDPOINT_URL: "localhost:8000" is not an http or https URL`,
		`AI_BASE_URL: not an http or https URL`,
		`LOG_LEVEL: "info" is not DEBUG, INFO, WARN or ERROR`,
		`AWS_ACCESS_KEY_ID: empty`,
		`AWS_ENDPOINT_URL_SQS: "" is not an http or https URL`,
	}
	if diff := cmp.Diff(strings.Split(err.Error(), "\n"), want); diff != "" {
		t.Errorf("errors (-got +want):\n%s", diff)
	}
	if strings.Contains(err.Error(), "canary") {
		t.Errorf("credentials are quoted: %v", err)
	}
}

func TestSecondsOfACall(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{"1": true, "900": true, "0": false, "901": false, "-5": false, "1.5": false, "120s": false, " 5": false, "": false} {
		env := complete()
		env["AI_TIMEOUT"] = value
		if _, err := load(env, everything, io.Discard); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "AI_TIMEOUT: ") {
			t.Errorf("%q: got %v, want accepted: %v", value, err, ok)
		}
	}
}

func TestAModelThatCannotBeMadeStopsTheStart(t *testing.T) {
	t.Parallel()
	needs := everything
	needs.Model = func(cloud.ModelConfig) (cloud.Model, error) { return nil, errors.New("no such protocol") }
	if _, err := load(complete(), needs, io.Discard); err == nil || err.Error() != "AI_BASE_URL, AI_MODEL: no such protocol" {
		t.Errorf("got %v", err)
	}
}

func TestScheduleInputsThatAreNoObject(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"null", "[]", "{", `"monthly-point"`, `{"monthly-point":null}`, `{"monthly-point":[1]}`} {
		env := complete()
		env["SCHEDULE_INPUTS"] = bad
		if _, err := load(env, everything, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "SCHEDULE_INPUTS: ") {
			t.Errorf("%s: got %v, want an error of SCHEDULE_INPUTS", bad, err)
		}
	}
}

func TestZoneOfTheMachineIsRefused(t *testing.T) {
	t.Parallel()
	env := complete()
	env["BUSINESS_ZONE"] = "Local"
	if _, err := load(env, everything, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "BUSINESS_ZONE: ") {
		t.Errorf("got %v, want an error of BUSINESS_ZONE", err)
	}
}

// Each client talks to the endpoint of its own service, or to the one of all services, and to nothing else.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  func(dynamodb, sqs string) map[string]string
	}{
		{"each its own", func(d, s string) map[string]string {
			return map[string]string{"AWS_ENDPOINT_URL_DYNAMODB": d, "AWS_ENDPOINT_URL_SQS": s}
		}},
		{"one for all, one of its own", func(d, s string) map[string]string {
			return map[string]string{"AWS_ENDPOINT_URL": d, "AWS_ENDPOINT_URL_SQS": s}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			onDynamoDB, onSQS := listen(t, `{"Responses":{},"UnprocessedKeys":{}}`), listen(t, `{"Successful":[{"Id":"0"}],"Failed":[]}`)
			env := complete()
			maps.Copy(env, c.env(onDynamoDB.URL, onSQS.URL))
			f, err := load(env, everything, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Store.Get(t.Context(), store.Key{Table: job.Table, PK: "p", SK: "s"}); err != nil {
				t.Errorf("store: %v", err)
			}
			if err := f.Queue.PutOff(t.Context(), queue.Segments, 0, "receipt"); err != nil {
				t.Errorf("queue: %v", err)
			}
			if diff := cmp.Diff(onDynamoDB.seen(), []string{"DynamoDB_20120810.BatchGetItem"}); diff != "" {
				t.Errorf("DynamoDB (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(onSQS.seen(), []string{"AmazonSQS.ChangeMessageVisibilityBatch"}); diff != "" {
				t.Errorf("SQS (-got +want):\n%s", diff)
			}
		})
	}
}

// listener keeps the targets of the requests it got.
type listener struct {
	*httptest.Server
	mu      sync.Mutex
	targets []string
}

func listen(t *testing.T, answer string) *listener {
	l := &listener{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.targets = append(l.targets, r.Header.Get("X-Amz-Target"))
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=AKIDTEST/") {
			t.Errorf("not signed with the credentials of the environment: %q", r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(l.Close)
	return l
}

func (l *listener) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.targets
}

func TestLogLinesAreWhatLambdaReads(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f, err := load(complete(), everything, &out)
	if err != nil {
		t.Fatal(err)
	}
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-1"})
	f.Log.DebugContext(ctx, "not at this level")
	f.Log.With("job", "monthly-point-01", "message", "m-1").WarnContext(ctx, "odd", slog.Group("entry", "time", "kept", "msg", "kept"))
	f.Log.ErrorContext(context.Background(), "outside an invocation", "error", errors.New("broken"))

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2:\n%s", len(lines), out.String())
	}
	want := []map[string]any{
		{"level": "WARN", "msg": "odd", "job": "monthly-point-01", "message": "m-1", "requestId": "req-1", "entry": map[string]any{"time": "kept", "msg": "kept"}},
		{"level": "ERROR", "msg": "outside an invocation", "error": "broken"},
	}
	for i, line := range lines {
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, fmt.Sprint(got["timestamp"]))
		if err != nil || at.Location() != time.UTC {
			t.Errorf("timestamp %v: want RFC 3339 in UTC", got["timestamp"])
		}
		delete(got, "timestamp")
		if diff := cmp.Diff(got, want[i]); diff != "" {
			t.Errorf("line %d (-got +want):\n%s", i, diff)
		}
	}
}

func TestMetricsAreEmbeddedInTheLog(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1767225600123)
	for _, c := range []struct {
		name  string
		kind  once.Kind
		value float64
		want  string
	}{
		{"with a kind", "monthly-point", 1, `{"PeriodOverdue":1,"_aws":{"CloudWatchMetrics":[{"Dimensions":[["kind"]],"Metrics":[{"Name":"PeriodOverdue"}],"Namespace":"hanbeon"}],"Timestamp":1767225600123},"kind":"monthly-point"}`},
		{"without", "", 0, `{"PeriodOverdue":0,"_aws":{"CloudWatchMetrics":[{"Dimensions":[[]],"Metrics":[{"Name":"PeriodOverdue"}],"Namespace":"hanbeon"}],"Timestamp":1767225600123}}`},
		{"no number", "", math.NaN(), `{"level":"ERROR","msg":"metric dropped","metric":"PeriodOverdue","error":"json: unsupported value: NaN"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			cloud.NewMetric(&out, func() time.Time { return at })(c.kind, "PeriodOverdue", c.value)
			if got := out.String(); got != c.want+"\n" {
				t.Errorf("got  %swant %s", got, c.want)
			}
		})
	}
}

func TestLogAndMetricsShareOneOutputLineByLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer // without a lock of its own
	f, err := load(complete(), everything, &out)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { f.Log.Info("line") })
		wg.Go(func() { f.Metric("", "Lines", 1) })
	}
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 100 {
		t.Errorf("%d lines, want 100", len(lines))
	}
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
