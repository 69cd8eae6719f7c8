package hanbeon_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/once"
)

// rule is one rule of the house: what it is called, why it exists, and what breaks it.
type rule struct {
	name  string
	why   string
	check func(template) []string
}

var rules = []rule{
	{"SQS-06 mappings report partial failures", "without it Lambda takes a list of failures for a success and deletes the messages", partialFailures},
	{"SQS-12 memory, time and batches are explicit", "128 MB and 3 s are the defaults; a batch over 10 needs a window", explicitSizes},
	{"SQS-13 visibility outlasts the function", "a message that becomes visible while its first worker runs is worked on twice; AWS asks for 6 x timeout + window", visibility},
	{"DSP-11 asynchronous retries end in a queue", "Lambda repeats a failed firing on top of the Scheduler and then drops it, unless told otherwise", asynchronousRetries},
	{"SAM-03 schedules know the business zone", "rules of EventBridge know UTC only: 00:30 on the 1st would come at 09:30 in Seoul", schedules},
	{"JOB-12 the reaper has its own enabled schedule", "when the only one who cleans up is off, nothing ever cleans up", reaperSchedule},
	{"schedules say what the calendars say", "the reaper opens a period by the calendar, the Scheduler by its cron: they must mean one time and one amount", calendars},
	{"names come from the stack", "creating a stack again must fail loudly, not start on empty tables; two stacks in an account must not meet", names},
	{"tables outlive the stack", "what a ledger forgets is granted again", tables},
	{"nothing of a ledger expires", "an entry that is gone can be granted again; only items of jobs carry `expires`", timeToLive},
	{"tables are cold unless asked for", "warm throughput is charged once and cannot be lowered", warmth},
	{"queues are encrypted and refuse plain HTTP", "messages name members", queueSecurity},
	{"messages end in dead letters, late enough and for long enough", "handing back costs a receive, and an operator needs days to find a dead letter", deadLetters},
	{"concurrency fits SQS and the tally", "SQS takes 2 to 1,000; workers that outnumber the shards of a tally by half wait for each other", concurrency},
	{"no reserved concurrency", "a reservation below MaximumConcurrency throttles, and each throttled message costs a receive", reservedConcurrency},
	{"roles are explicit and without wildcards", "a generated role allows more than the function does", roles},
	{"ledgers have two writers, in transactions only", "an entry and its balance change together or not at all; nobody else changes them", ledgerWriters},
	{"logs are declared and end", "a log group that Lambda creates keeps everything for ever", logs},
	{"metrics pass the log filter", "Lambda drops lines without a level when its own filter is above INFO", logFilter},
	{"functions run our binary", "`bootstrap` on the runtime without one, on the cheaper architecture", runtimes},
	{"variables point at what they name", "a function with the queue of another sends its messages there", variables},
	{"the start of the calendar has no default", "a default would make the reaper open old months at a first deployment", calendarStart},
}

func partialFailures(tpl template) (broken []string) {
	for id, m := range tpl.ofType("AWS::Lambda::EventSourceMapping") {
		if got := texts(m["FunctionResponseTypes"]); !slices.Equal(got, []string{"ReportBatchItemFailures"}) {
			broken = append(broken, fmt.Sprintf("%s: FunctionResponseTypes is %v", id, got))
		}
		if m["Enabled"] != true {
			broken = append(broken, fmt.Sprintf("%s: not enabled", id))
		}
	}
	return broken
}

func explicitSizes(tpl template) (broken []string) {
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		if tpl.number(f["MemorySize"]) < 256 || tpl.number(f["Timeout"]) < 29 {
			broken = append(broken, fmt.Sprintf("%s: MemorySize %v, Timeout %v", id, f["MemorySize"], f["Timeout"]))
		}
	}
	for id, m := range tpl.ofType("AWS::Lambda::EventSourceMapping") {
		size, window := tpl.number(m["BatchSize"]), tpl.number(m["MaximumBatchingWindowInSeconds"])
		if size < 1 || window < 0 || size > 10 && window < 1 {
			broken = append(broken, fmt.Sprintf("%s: BatchSize %v with a window of %v s", id, m["BatchSize"], m["MaximumBatchingWindowInSeconds"]))
		}
	}
	return broken
}

func visibility(tpl template) (broken []string) {
	for id, m := range tpl.ofType("AWS::Lambda::EventSourceMapping") {
		queue, function := target(m["EventSourceArn"]), target(m["FunctionName"])
		have := tpl.number(tpl.property(queue, "VisibilityTimeout"))
		want := 6*tpl.number(tpl.property(function, "Timeout")) + tpl.number(m["MaximumBatchingWindowInSeconds"])
		if have < want || want < 6 {
			broken = append(broken, fmt.Sprintf("%s: VisibilityTimeout of %s is %v s, want %v", id, queue, have, want))
		}
	}
	return broken
}

func asynchronousRetries(tpl template) (broken []string) {
	configs := map[string]map[string]any{}
	for _, c := range tpl.ofType("AWS::Lambda::EventInvokeConfig") {
		configs[target(c["FunctionName"])] = c
	}
	for id, s := range tpl.ofType("AWS::Scheduler::Schedule") {
		c := configs[target(dig(s, "Target", "Arn"))]
		retries, age := tpl.number(c["MaximumRetryAttempts"]), tpl.number(c["MaximumEventAgeInSeconds"])
		again, until := tpl.number(dig(s, "Target", "RetryPolicy", "MaximumRetryAttempts")), tpl.number(dig(s, "Target", "RetryPolicy", "MaximumEventAgeInSeconds"))
		if retries < 0 || again < 0 || until < 0 {
			broken = append(broken, fmt.Sprintf("%s: retries are not explicit: %v of the function, %v of the schedule", id, c, dig(s, "Target", "RetryPolicy")))
		}
		if firing(s) == nil { // nothing is lost with a minute of the reaper
			continue
		}
		if retries != 2 || age != 21600 {
			broken = append(broken, fmt.Sprintf("%s: its function retries %v times in %v s, want 2 in 21600", id, retries, age))
		}
		for what, arn := range map[string]any{"OnFailure of its function": dig(c, "DestinationConfig", "OnFailure", "Destination"), "DeadLetterConfig": dig(s, "Target", "DeadLetterConfig", "Arn")} {
			if tpl.typeOf(target(arn)) != "AWS::SQS::Queue" {
				broken = append(broken, fmt.Sprintf("%s: %s is no queue of this stack: %v", id, what, arn))
			}
		}
	}
	return broken
}

func schedules(tpl template) (broken []string) {
	for id := range tpl.ofType("AWS::Events::Rule") {
		broken = append(broken, fmt.Sprintf("%s: an EventBridge rule", id))
	}
	all := tpl.ofType("AWS::Scheduler::Schedule")
	if len(all) < 2 {
		broken = append(broken, fmt.Sprintf("%d schedules, want that of the dispatcher and that of the reaper", len(all)))
	}
	if got := dig(map[string]any(tpl), "Parameters", "BusinessZone", "Default"); got != "Asia/Seoul" {
		broken = append(broken, fmt.Sprintf("BusinessZone is %v by default", got))
	}
	for id, s := range all {
		for what, ok := range map[string]bool{
			"ScheduleExpressionTimezone is BusinessZone": dig(s, "ScheduleExpressionTimezone", "Ref") == "BusinessZone",
			"State is ENABLED":                           s["State"] == "ENABLED",
			"FlexibleTimeWindow is OFF":                  dig(s, "FlexibleTimeWindow", "Mode") == "OFF",
			"GroupName is a group of this stack":         tpl.typeOf(target(s["GroupName"])) == "AWS::Scheduler::ScheduleGroup",
			"RoleArn is a role of this stack":            tpl.typeOf(target(dig(s, "Target", "RoleArn"))) == "AWS::IAM::Role",
			"RetryPolicy has both limits":                dig(s, "Target", "RetryPolicy", "MaximumRetryAttempts") != nil && dig(s, "Target", "RetryPolicy", "MaximumEventAgeInSeconds") != nil,
			"BusinessZone of its function is the same":   dig(tpl.property(target(dig(s, "Target", "Arn")), "Environment"), "Variables", "BUSINESS_ZONE", "Ref") == "BusinessZone",
			"its Input, if any, has the scheduled time":  s["Target"] != nil && (dig(s, "Target", "Input") == nil || firing(s)["scheduledTime"] == "<aws.scheduler.scheduled-time>"),
		} {
			if !ok {
				broken = append(broken, fmt.Sprintf("%s: not so: %s", id, what))
			}
		}
	}
	return broken
}

// firing is the Input of a schedule that fires a kind, with the parameters of the template left in as they stand; nil without an Input.
func firing(schedule map[string]any) map[string]any {
	text, _ := dig(schedule, "Target", "Input", "Fn::Sub").(string)
	text = strings.ReplaceAll(text, "${MonthlyPointAmount}", `"${MonthlyPointAmount}"`) // a number once substituted
	var out map[string]any
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil
	}
	return out
}

func reaperSchedule(tpl template) (broken []string) {
	reaper := tpl.named("AWS::Lambda::Function", "FunctionName", "reaper")
	found := 0
	for id, s := range tpl.ofType("AWS::Scheduler::Schedule") {
		if target(dig(s, "Target", "Arn")) != reaper {
			continue
		}
		found++
		if s["ScheduleExpression"] != "rate(1 minute)" || s["State"] != "ENABLED" || dig(map[string]any(tpl), "Resources", id, "Condition") != nil {
			broken = append(broken, fmt.Sprintf("%s: %v, %v, condition %v", id, s["ScheduleExpression"], s["State"], dig(map[string]any(tpl), "Resources", id, "Condition")))
		}
	}
	if reaper == "" || found != 1 {
		broken = append(broken, fmt.Sprintf("function %q has %d schedules, want 1", reaper, found))
	}
	return broken
}

// calendars compares each scheduled kind with the schedule that fires it.
func calendars(tpl template) (broken []string) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		return []string{err.Error()}
	}
	fired := map[once.Kind]map[string]any{}
	for _, s := range tpl.ofType("AWS::Scheduler::Schedule") {
		if kind, ok := firing(s)["kind"].(string); ok {
			fired[once.Kind(kind)] = s
		}
	}
	reaper := tpl.named("AWS::Lambda::Function", "FunctionName", "reaper")
	inputs, _ := dig(tpl.property(reaper, "Environment"), "Variables", "SCHEDULE_INPUTS", "Fn::Sub").(string)
	for _, k := range kinds.All(nil, seoul) {
		kind, ok := k.(job.Scheduled)
		if !ok {
			continue
		}
		s, ok := fired[kind.Kind()]
		if !ok {
			broken = append(broken, fmt.Sprintf("no schedule fires %s", kind.Kind()))
			continue
		}
		delete(fired, kind.Kind())
		for _, due := range kind.Calendar("2024-01", time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC)) {
			at := due.Scheduled.In(seoul)
			if want := fmt.Sprintf("cron(%d %d %d * ? *)", at.Minute(), at.Hour(), at.Day()); s["ScheduleExpression"] != want {
				broken = append(broken, fmt.Sprintf("%s: %v, but period %s is due at %s", kind.Kind(), s["ScheduleExpression"], due.Period, want))
				break
			}
		}
		if want := fmt.Sprintf(`{"%s":{"amount":${MonthlyPointAmount}}}`, kind.Kind()); inputs != want || firing(s)["amount"] != "${MonthlyPointAmount}" {
			broken = append(broken, fmt.Sprintf("%s: the reaper's input is %q, want %q; that of the schedule %v", kind.Kind(), inputs, want, firing(s)))
		}
	}
	for kind := range fired {
		broken = append(broken, fmt.Sprintf("a schedule fires %s, which is no scheduled kind", kind))
	}
	return broken
}

func concurrency(tpl template) (broken []string) {
	for id, m := range tpl.ofType("AWS::Lambda::EventSourceMapping") {
		value := dig(m, "ScalingConfig", "MaximumConcurrency")
		least, most := tpl.number(value), tpl.number(value)
		if p, ok := dig(value, "Ref").(string); ok { // what a deployment may choose
			least, most = tpl.number(dig(map[string]any(tpl), "Parameters", p, "MinValue")), tpl.number(dig(map[string]any(tpl), "Parameters", p, "MaxValue"))
		}
		limit := float64(job.Shards / 2)
		if singles()[ownName(tpl.property(target(m["EventSourceArn"]), "QueueName"))] {
			limit = 1000 // no tally
		}
		if least < 2 || most > limit {
			broken = append(broken, fmt.Sprintf("%s: MaximumConcurrency from %v to %v, want 2 to %v", id, least, most, limit))
		}
	}
	return broken
}

func reservedConcurrency(tpl template) (broken []string) {
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		if f["ReservedConcurrentExecutions"] != nil {
			broken = append(broken, fmt.Sprintf("%s: ReservedConcurrentExecutions %v", id, f["ReservedConcurrentExecutions"]))
		}
	}
	return broken
}

// singles are the names of the single kinds, which are those of their queues.
func singles() map[string]bool {
	out := map[string]bool{}
	for _, k := range kinds.All(nil, time.UTC) {
		if _, ok := k.(job.Single); ok {
			out[string(k.Kind())] = true
		}
	}
	return out
}

// ledgers are the tables that hold entries, and the kinds that write each.
func ledgers() map[string][]string {
	out := map[string][]string{}
	for _, k := range kinds.All(nil, time.UTC) {
		if bulk, ok := k.(job.Bulk); ok {
			name := string(bulk.Ledger())
			out[name] = append(out[name], string(bulk.Kind()))
		}
	}
	return out
}
