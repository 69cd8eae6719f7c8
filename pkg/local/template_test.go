package local_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hanbeon"
	"hanbeon/pkg/job"
	"hanbeon/pkg/local"
)

func TestNewRefusesATemplateItDoesNotHonour(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		old, new   string
		parameters map[string]string
		want       string
	}{
		{"a queue that delays", "VisibilityTimeout: 30", "DelaySeconds: 30", nil, "DelaySeconds is not honoured"},
		{"as it is", "", "", nil, ""},
		{"a filter", "BatchSize: !Ref Batch", "FilterCriteria: {}", nil, "FilterCriteria is not honoured"},
		{"an event of another type", "Work:\n          Type: SQS", "Work:\n          Type: S3", nil, `type "S3" is not supported`},
		{"a cron that is not understood", "30 0 1 * ? *", "30 0 L * ? *", nil, "day of month"},
		{"a time zone that does not exist", "Default: Asia/Seoul", "Default: Asia/Soul", nil, `time zone "Asia/Soul"`},
		{"a schedule in another zone", "ScheduleExpressionTimezone: !Ref BusinessZone", "ScheduleExpressionTimezone: UTC", nil, "is not that of the functions"},
		{"a function without a handler", "-worker", "-other", nil, "function other of the template has no handler"},
		{"a handler without a function", "-worker", "-other", nil, "handler worker has no function"},
		{"a resource that is not there", "!GetAtt Dead.Arn", "!GetAtt Death.Arn", nil, `no resource "Death"`},
		{"a function that is not known here", "!Ref Batch", "!FindInMap [a, b, c]", nil, "want a text"},
		{"a big batch without a window", "Default: 1 }", "Default: 0 }", map[string]string{"Batch": "11"}, "a window of at least 1 s"},
		{"a parameter that is not there", "", "", map[string]string{"Batsh": "1"}, `no parameter "Batsh"`},
		{"a parameter without a value", "Type: Number, Default: 100", "Type: Number", nil, "Amount has no default"},
		{"a name without the stack", "QueueName: !Sub ${AWS::StackName}-work", "QueueName: work", nil, `name "work"`},
		{"no YAML", "Resources:", "Resources: [", nil, "template: yaml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := local.NewWith(local.Config{Store: openStore(t), Template: strings.Replace(small, test.old, test.new, 1), Parameters: test.parameters},
				func(job.Env) map[string]any { return map[string]any{"worker": raw(nil), "dispatcher": raw(nil)} })
			switch {
			case test.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// The template of the stack is understood, whatever its parameters, and its functions are those that have handlers here.
func TestTheTemplateOfTheStack(t *testing.T) {
	t.Parallel()
	for _, parameters := range []map[string]string{nil, {"CalendarStart": "2026-12", "AutoOpen": "false", "MonthlyPointAmount": "5", "MonthlyPointConcurrency": "16"}} {
		s, err := local.New(local.Config{Store: openStore(t), Template: hanbeon.Template, Parameters: parameters})
		if err != nil {
			t.Fatalf("parameters %v: %v", parameters, err)
		}
		if got := s.Zone().String(); got != "Asia/Seoul" {
			t.Errorf("zone %s, want Asia/Seoul", got)
		}
	}
	if _, err := local.New(local.Config{Store: openStore(t), Template: hanbeon.Template, Parameters: map[string]string{"CalendarStart": "2026-13"}}); err == nil {
		t.Error("CalendarStart 2026-13: no error")
	}
}

// Each handler is made by the same line as in the main of its function.
func TestHandlersAreThoseOfTheFunctions(t *testing.T) {
	t.Parallel()
	lines := func(path string) (found []string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "handler := ") {
				found = append(found, l)
			}
		}
		return found
	}
	here := strings.Join(lines("handlers.go"), "\n")
	names := local.Handlers(openStore(t))
	for _, name := range names {
		there := lines("../../functions/" + name + "/main.go")
		if len(there) != 1 || strings.Count(here, there[0]) != 1 {
			t.Errorf("functions/%s/main.go makes its handler by %q, here it is one of:\n%s", name, there, here)
		}
	}
	if n := strings.Count(here, "handler := "); n != len(names) {
		t.Errorf("%d lines that make a handler, want %d", n, len(names))
	}
}

func TestSchedules(t *testing.T) {
	t.Parallel()
	seoul, berlin := zone(t, "Asia/Seoul"), zone(t, "Europe/Berlin")
	for _, test := range []struct {
		expression string
		zone       *time.Location
		after      string
		want       string // the next firings, UTC; "" : never
	}{
		{"cron(30 0 1 * ? *)", seoul, "2024-03-31T15:29:59Z", "2024-03-31T15:30:00Z 2024-04-30T15:30:00Z"},
		{"cron(30 0 1 * ? *)", seoul, "2024-03-31T15:30:00Z", "2024-04-30T15:30:00Z"},
		{"cron(0 9 ? * MON-FRI *)", seoul, "2024-04-05T00:00:00Z", "2024-04-08T00:00:00Z 2024-04-09T00:00:00Z"}, // a Friday at nine
		{"cron(0 9 ? * 2-6 *)", seoul, "2024-04-05T00:00:00Z", "2024-04-08T00:00:00Z"},
		{"cron(0/20 8,20 * JAN ? 2025)", time.UTC, "2024-04-05T00:00:00Z", "2025-01-01T08:00:00Z 2025-01-01T08:20:00Z 2025-01-01T08:40:00Z 2025-01-01T20:00:00Z"},
		{"cron(0 0 29 2 ? *)", time.UTC, "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"cron(0 0 31 2 ? *)", time.UTC, "2024-01-01T00:00:00Z", ""},
		{"cron(0 0 1 1 ? 2023)", time.UTC, "2024-01-01T00:00:00Z", ""},
		{"cron(30 2 * * ? *)", berlin, "2024-03-30T12:00:00Z", "2024-04-01T00:30:00Z"},                      // 02:30 is skipped on 31 March
		{"cron(30 2 * * ? *)", berlin, "2024-10-26T12:00:00Z", "2024-10-27T01:30:00Z 2024-10-28T01:30:00Z"}, // and comes twice on 27 October: once is enough
		{"rate(1 minute)", seoul, "2024-04-05T00:00:01Z", "2024-04-05T00:01:01Z"},
		{"rate(2 hours)", seoul, "2024-04-05T00:00:00Z", "2024-04-05T02:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, test.after)
		if err != nil {
			t.Fatal(err)
		}
		for want := range strings.SplitSeq(test.want, " ") {
			at, err = local.Next(test.expression, test.zone, at)
			got := ""
			if !at.IsZero() {
				got = at.UTC().Format(time.RFC3339)
			}
			if err != nil || got != want {
				t.Errorf("%s in %v after %s: %q, %v; want %q", test.expression, test.zone, test.after, got, err, want)
			}
		}
	}
	for _, wrong := range []string{
		"", "at(2024-01-01T00:00:00)", "rate()", "rate(0 minutes)", "rate(1 week)", "rate(1)", "cron(0 0 * * *)", "cron(0 0 * * * *)", "cron(0 0 ? * ? *)", "cron(60 0 1 * ? *)",
		"cron(0 24 1 * ? *)", "cron(0 0 0 * ? *)", "cron(0 0 L * ? *)", "cron(0 0 15W * ? *)", "cron(0 0 ? * 6#3 *)", "cron(0 0 1 * ? *", "cron(5-1 0 1 * ? *)", "cron(0/0 0 1 * ? *)", "cron(, 0 1 * ? *)",
	} {
		if _, err := local.Next(wrong, time.UTC, time.Now()); err == nil {
			t.Errorf("%q: no error", wrong)
		}
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TIM-06: a process in New York finds the periods of Seoul, and two triggers of one period, as a cron in a zone with daylight saving might give, are one grant.
func TestZoneOfTheProcessDoesNotMatter(t *testing.T) {
	t.Parallel()
	if os.Getenv("TZ") != "America/New_York" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestZoneOfTheProcessDoesNotMatter$", "-test.v")
		cmd.Env = append(os.Environ(), "TZ=America/New_York")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "in the zone of New York") {
			t.Errorf("in another zone: %v\n%s", err, out)
		}
		return
	}
	if _, offset := time.Date(2024, 7, 1, 0, 0, 0, 0, time.Local).Zone(); offset != -4*60*60 {
		t.Fatalf("the process is not in New York: offset %d", offset)
	}
	s := openStore(t)
	addMembers(t, s, 42)
	stack := startStack(t, s, func(c *local.Config) { c.Start = time.Date(2024, 4, 1, 4, 0, 0, 0, time.UTC) })
	for _, at := range []string{"2024-03-31T15:00:00Z", "2024-04-01T04:00:00Z"} {
		if err := stack.Fire(t.Context(), json.RawMessage(`{"kind":"monthly-point","scheduledTime":"`+at+`","amount":100}`)); err != nil {
			t.Fatal(err)
		}
		settle(t, stack)
	}
	checkGranted(t, stack, 42)
	items, err := s.Query(t.Context(), pointsOf("member-000007"))
	if err != nil || len(items.Items) != 2 || items.Items[0].Key.SK != "monthly-point:2024-04:member-000007" {
		t.Errorf("member-000007 has %v, %v; want an entry of 2024-04 and a balance", items.Items, err)
	}
	t.Log("in the zone of New York")
}

// Stop leaves no goroutine, also while handlers are at work: their context ends.
func TestStopEndsInvocations(t *testing.T) {
	t.Parallel()
	at := make(chan struct{})
	s, err := local.NewWith(local.Config{Store: openStore(t), Template: small}, func(job.Env) map[string]any {
		return map[string]any{"dispatcher": raw(nil), "worker": raw(func(ctx context.Context, _ []byte) ([]byte, error) {
			close(at)
			<-ctx.Done()
			return nil, ctx.Err()
		})}
	})
	if err != nil {
		t.Fatal(err)
	}
	stop := s.Start(t.Context())
	send(t, s, "a", "b", "c")
	<-at
	stop()
	if err := s.Until(t.Context(), func() (bool, error) { return false, nil }); err != local.ErrStopped {
		t.Errorf("waiting for a stack that was stopped: %v, want ErrStopped", err)
	}
}
