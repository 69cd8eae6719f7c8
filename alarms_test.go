package hanbeon_test

import (
	"fmt"
	"strings"
)

var alarmRules = []rule{
	{"what goes wrong rings", "a dead letter that nobody sees expires after 14 days", alarms},
	{"alarms reach the topic and say what is up", "an alarm is read at night, by somebody else", alarmTexts},
}

// alarms wants one alarm for each way in which a component fails.
func alarms(tpl template) (broken []string) {
	have := map[string]string{} // what is watched, to how
	for _, a := range tpl.ofType("AWS::CloudWatch::Alarm") {
		d := list(a["Dimensions"])
		if len(d) != 1 {
			continue
		}
		watched := fmt.Sprintf("%v %v %v=%s", a["Namespace"], a["MetricName"], dig(d[0], "Name"), watchedBy(dig(d[0], "Value")))
		statistic, _ := a["Statistic"].(string)
		if statistic == "" {
			statistic, _ = a["ExtendedStatistic"].(string)
		}
		have[watched] = fmt.Sprintf("%s %v %v missing=%v", statistic, a["ComparisonOperator"], a["Threshold"], a["TreatMissingData"])
	}
	want := map[string]string{
		"AWS/ApiGateway 5xx ApiId=HttpApi":         "Sum GreaterThanThreshold 0 missing=notBreaching",
		"AWS/ApiGateway Latency ApiId=HttpApi":     "p99 GreaterThanThreshold 3000 missing=notBreaching",
		"hanbeon PeriodOverdue kind=monthly-point": "Maximum GreaterThanThreshold 0 missing=breaching", // it is sent each minute: silence is a dead reaper
		"hanbeon FailedAttempts kind=til":          "Sum GreaterThanThreshold 4 missing=notBreaching",  // a dead AI server fails jobs, never the function
	}
	for id, q := range tpl.ofType("AWS::SQS::Queue") {
		if q["RedrivePolicy"] == nil { // dead letters: none is ever normal
			want["AWS/SQS ApproximateNumberOfMessagesVisible QueueName="+id] = "Maximum GreaterThanThreshold 0 missing=notBreaching"
			continue
		}
		longest := map[string]int{"til": 1800}[ownName(q["QueueName"])] // seconds; somebody waits for a TIL
		if longest == 0 {
			longest = 3600
		}
		want["AWS/SQS ApproximateAgeOfOldestMessage QueueName="+id] = fmt.Sprintf("Maximum GreaterThanThreshold %d missing=notBreaching", longest)
	}
	for id := range tpl.ofType("AWS::Lambda::Function") {
		for _, metric := range []string{"Errors", "Throttles"} {
			want["AWS/Lambda "+metric+" FunctionName="+id] = "Sum GreaterThanThreshold 0 missing=notBreaching"
		}
	}
	for watched, how := range want {
		if have[watched] != how {
			broken = append(broken, fmt.Sprintf("%s is watched by %q, want %q", watched, have[watched], how))
		}
	}
	for watched := range have {
		if _, ok := want[watched]; !ok {
			broken = append(broken, fmt.Sprintf("%s is watched, and no rule says why", watched))
		}
	}
	return broken
}

// watchedBy is the logical id of what a dimension names, or the text it is.
func watchedBy(v any) string {
	id := target(v)
	switch attribute := dig(v, "Fn::GetAtt", "1"); {
	case id == "":
		return fmt.Sprint(v)
	case attribute != nil && attribute != "QueueName":
		return fmt.Sprintf("%s.%v", id, attribute)
	}
	return id
}

func alarmTexts(tpl template) (broken []string) {
	if got := asJSON(dig(map[string]any(tpl), "Conditions", "NoTopic")); got != `{"Fn::Equals":[{"Ref":"AlarmTopic"},""]}` || dig(map[string]any(tpl), "Parameters", "AlarmTopic", "Default") != "" {
		broken = append(broken, fmt.Sprintf("AlarmTopic is required, or NoTopic is %s", got))
	}
	for id, a := range tpl.ofType("AWS::CloudWatch::Alarm") {
		if got := asJSON(a["AlarmActions"]); got != `{"Fn::If":["NoTopic",{"Ref":"AWS::NoValue"},[{"Ref":"AlarmTopic"}]]}` || a["ActionsEnabled"] != nil {
			broken = append(broken, fmt.Sprintf("%s: actions %s", id, got))
		}
		if text, _ := a["AlarmDescription"].(string); len(strings.Fields(text)) < 3 {
			broken = append(broken, fmt.Sprintf("%s: says %q", id, text))
		}
		if tpl.number(a["Period"]) < 60 || tpl.number(a["EvaluationPeriods"]) < 1 {
			broken = append(broken, fmt.Sprintf("%s: %v periods of %v s", id, a["EvaluationPeriods"], a["Period"]))
		}
	}
	return broken
}

var alarmMutations = []mutation{
	{"what goes wrong rings", "no alarm of dead letters", one("TilDeadLettersAlarm", removed{})},
	{"what goes wrong rings", "an alarm of the wrong queue", one("TilAgeAlarm.Properties.Dimensions.0.Value", object{"Fn::GetAtt": []any{"TilDeadLetters", "QueueName"}})},
	{"what goes wrong rings", "an ARN where a name is wanted", one("TilAgeAlarm.Properties.Dimensions.0.Value", getAtt("TilQueue"))},
	{"what goes wrong rings", "a threshold of one", one("ApiErrorsAlarm.Properties.Threshold", 1.0)},
	{"what goes wrong rings", "the wrong way round", one("ApiFaultsAlarm.Properties.ComparisonOperator", "LessThanThreshold")},
	{"what goes wrong rings", "the mean hides the slow", one("ApiLatencyAlarm.Properties.ExtendedStatistic", "p50")},
	{"what goes wrong rings", "a dead reaper is silent", one("ReaperOverdueAlarm.Properties.TreatMissingData", "notBreaching")},
	{"what goes wrong rings", "a dead AI server is silent", one("TilFailedAlarm", removed{})},
	{"what goes wrong rings", "throttles are not seen", one("FanoutThrottlesAlarm.Properties.MetricName", "Invocations")},

	{"alarms reach the topic and say what is up", "no action", one("TilAgeAlarm.Properties.AlarmActions", removed{})},
	{"alarms reach the topic and say what is up", "switched off", one("TilAgeAlarm.Properties.ActionsEnabled", false)},
	{"alarms reach the topic and say what is up", "no text", one("TilAgeAlarm.Properties.AlarmDescription", "til age")},
	{"alarms reach the topic and say what is up", "a topic that is required", one("/Parameters.AlarmTopic.Default", removed{})},
	{"alarms reach the topic and say what is up", "no period", one("TilAgeAlarm.Properties.Period", removed{})},
}
