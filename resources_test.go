package hanbeon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hanbeon/pkg/job"
)

// How rules read a template, and the rules about single resources.

const stackPrefix = "${AWS::StackName}-"

// ofType is the properties of all resources of a type, by logical id.
func (tpl template) ofType(kind string) map[string]map[string]any {
	out := map[string]map[string]any{}
	resources, _ := tpl["Resources"].(map[string]any)
	for id, r := range resources {
		if dig(r, "Type") == kind {
			out[id], _ = dig(r, "Properties").(map[string]any)
		}
	}
	return out
}

func (tpl template) typeOf(id string) string {
	kind, _ := dig(map[string]any(tpl), "Resources", id, "Type").(string)
	return kind
}

func (tpl template) property(id, name string) any {
	return dig(map[string]any(tpl), "Resources", id, "Properties", name)
}

// named is the logical id of the resource whose name is that of the stack and then this.
func (tpl template) named(kind, property, name string) string {
	for id, p := range tpl.ofType(kind) {
		if ownName(p[property]) == name {
			return id
		}
	}
	return ""
}

// number is a number as it stands or the default of a parameter; -1 if there is none.
func (tpl template) number(v any) float64 {
	if p, ok := dig(v, "Ref").(string); ok {
		v = dig(map[string]any(tpl), "Parameters", p, "Default")
	}
	switch x := v.(type) {
	case float64:
		return x
	case string:
		if f, err := strconv.ParseFloat(x, 64); err == nil {
			return f
		}
	}
	return -1
}

// target is the logical id that a Ref or a GetAtt speaks of.
func target(v any) string {
	if id, ok := dig(v, "Ref").(string); ok {
		return id
	}
	id, _ := dig(v, "Fn::GetAtt", "0").(string)
	return id
}

// ownName is what follows the name of the stack in a name, "" if it does not begin with that.
func ownName(v any) string {
	text, _ := dig(v, "Fn::Sub").(string)
	name, ok := strings.CutPrefix(text, stackPrefix)
	if !ok {
		return ""
	}
	return name
}

// list is a value that may stand alone or in a list.
func list(v any) []any {
	switch x := v.(type) {
	case nil:
		return nil
	case []any:
		return x
	}
	return []any{v}
}

func texts(v any) (out []string) {
	for _, e := range list(v) {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func names(tpl template) (broken []string) {
	for kind, property := range map[string]string{
		"AWS::DynamoDB::Table": "TableName", "AWS::SQS::Queue": "QueueName", "AWS::Lambda::Function": "FunctionName", "AWS::Scheduler::Schedule": "Name",
		"AWS::CloudWatch::Alarm": "AlarmName",
	} {
		seen := map[string]bool{}
		for id, p := range tpl.ofType(kind) {
			name := ownName(p[property])
			if name == "" || seen[name] {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, property, asJSON(p[property])))
			}
			seen[name] = true
		}
	}
	for id, p := range tpl.ofType("AWS::Scheduler::ScheduleGroup") {
		if dig(p, "Name", "Ref") != "AWS::StackName" {
			broken = append(broken, fmt.Sprintf("%s: Name is %s", id, asJSON(p["Name"])))
		}
	}
	return broken
}

func tables(tpl template) (broken []string) {
	want := map[string]any{
		"BillingMode": "PAY_PER_REQUEST", "DeletionProtectionEnabled": true,
		"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": true},
		"KeySchema":                        []any{map[string]any{"AttributeName": "pk", "KeyType": "HASH"}, map[string]any{"AttributeName": "sk", "KeyType": "RANGE"}},
		"GlobalSecondaryIndexes":           nil, // there is no index anywhere: an index is read late
		"SSESpecification":                 nil, // encryption with DynamoDB's own key is always on
	}
	for id, p := range tpl.ofType("AWS::DynamoDB::Table") {
		for property, value := range want {
			if asJSON(p[property]) != asJSON(value) {
				broken = append(broken, fmt.Sprintf("%s: %s is %s, want %s", id, property, asJSON(p[property]), asJSON(value)))
			}
		}
		for _, policy := range []string{"DeletionPolicy", "UpdateReplacePolicy"} {
			if got := dig(map[string]any(tpl), "Resources", id, policy); got != "Retain" {
				broken = append(broken, fmt.Sprintf("%s: %s is %v", id, policy, got))
			}
		}
	}
	return broken
}

func timeToLive(tpl template) (broken []string) {
	for id, p := range tpl.ofType("AWS::DynamoDB::Table") {
		got, want := asJSON(p["TimeToLiveSpecification"]), "null"
		if ownName(p["TableName"]) == "jobs" {
			want = `{"AttributeName":"expires","Enabled":true}`
		}
		if got != want {
			broken = append(broken, fmt.Sprintf("%s: TimeToLiveSpecification is %s, want %s", id, got, want))
		}
	}
	return broken
}

func warmth(tpl template) (broken []string) {
	if got := tpl.number(map[string]any{"Ref": "WarmWriteUnits"}); got != 0 {
		broken = append(broken, fmt.Sprintf("WarmWriteUnits is %v by default", got))
	}
	if got, want := asJSON(dig(map[string]any(tpl), "Conditions", "LeaveCold")), `{"Fn::Equals":[{"Ref":"WarmWriteUnits"},0]}`; got != want {
		broken = append(broken, fmt.Sprintf("LeaveCold is %s, want %s", got, want))
	}
	for id, p := range tpl.ofType("AWS::DynamoDB::Table") {
		warm := p["WarmThroughput"]
		if warm != nil && (dig(warm, "Fn::If", "0") != "LeaveCold" || dig(warm, "Fn::If", "1", "Ref") != "AWS::NoValue") {
			broken = append(broken, fmt.Sprintf("%s: WarmThroughput is %s", id, asJSON(warm)))
		}
	}
	return broken
}

func queueSecurity(tpl template) (broken []string) {
	covered := map[string]bool{}
	for _, p := range tpl.ofType("AWS::SQS::QueuePolicy") {
		for _, s := range list(dig(p, "PolicyDocument", "Statement")) {
			if dig(s, "Effect") == "Deny" && dig(s, "Principal") == "*" && dig(s, "Action") == "sqs:*" && asJSON(dig(s, "Condition")) == `{"Bool":{"aws:SecureTransport":"false"}}` {
				for _, q := range list(p["Queues"]) {
					covered[target(q)] = dig(s, "Resource") == "*" || target(dig(s, "Resource")) == target(q)
				}
			}
		}
	}
	for id, q := range tpl.ofType("AWS::SQS::Queue") {
		if q["SqsManagedSseEnabled"] != true {
			broken = append(broken, fmt.Sprintf("%s: SqsManagedSseEnabled is %v", id, q["SqsManagedSseEnabled"]))
		}
		if !covered[id] {
			broken = append(broken, fmt.Sprintf("%s: no policy denies plain HTTP", id))
		}
	}
	return broken
}

const day = 24 * 60 * 60 // seconds

func deadLetters(tpl template) (broken []string) {
	queues := tpl.ofType("AWS::SQS::Queue")
	sources := map[string]string{} // dead letters to source
	for id, q := range queues {
		redrive := q["RedrivePolicy"]
		if redrive == nil {
			continue
		}
		least := 8.0
		if ownName(q["QueueName"]) == "segments" {
			least = 20 // a segment that runs out of time hands itself back, page after page
		}
		if singles()[ownName(q["QueueName"])] {
			least = 2 * job.Attempts // the job gives up by its attempts; a message that comes early or finds no time is handed back
		}
		dlq := target(dig(redrive, "deadLetterTargetArn"))
		if got := tpl.number(dig(redrive, "maxReceiveCount")); got < least {
			broken = append(broken, fmt.Sprintf("%s: maxReceiveCount is %v, want %v", id, got, least))
		}
		if got, want := ownName(dig(queues[dlq], "QueueName")), ownName(q["QueueName"])+"-dlq"; got != want || sources[dlq] != "" {
			broken = append(broken, fmt.Sprintf("%s: its dead letters are %q, want %q and nobody else's", id, got, want))
		}
		sources[dlq] = id
	}
	for id, q := range queues {
		want := 14.0 * day
		if q["RedrivePolicy"] != nil {
			want = 4 * day
		}
		if got := tpl.number(q["MessageRetentionPeriod"]); got != want {
			broken = append(broken, fmt.Sprintf("%s: MessageRetentionPeriod is %v s, want %v", id, got, want))
		}
	}
	for id, m := range tpl.ofType("AWS::Lambda::EventSourceMapping") {
		if queue := target(m["EventSourceArn"]); dig(queues[queue], "RedrivePolicy") == nil {
			broken = append(broken, fmt.Sprintf("%s: %s has no dead letters", id, queue))
		}
	}
	return broken
}

// statement is one statement of a role, of which function ("" for the Scheduler's).
type statement struct {
	role, function string
	effect         string
	actions        []string
	resources      []any
	condition      any
	exclusion      bool
}

func (tpl template) statements() (out []statement) {
	functions := map[string]string{}
	for _, f := range tpl.ofType("AWS::Lambda::Function") {
		functions[target(f["Role"])] = ownName(f["FunctionName"])
	}
	for id, r := range tpl.ofType("AWS::IAM::Role") {
		for _, p := range list(r["Policies"]) {
			for _, s := range list(dig(p, "PolicyDocument", "Statement")) {
				effect, _ := dig(s, "Effect").(string)
				out = append(out, statement{
					role: id, function: functions[id], effect: effect,
					actions: texts(dig(s, "Action")), resources: list(dig(s, "Resource")), condition: dig(s, "Condition"),
					exclusion: dig(s, "NotAction") != nil || dig(s, "NotResource") != nil,
				})
			}
		}
	}
	return out
}

func roles(tpl template) (broken []string) {
	used := map[string]string{}
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		role := target(f["Role"])
		if tpl.typeOf(role) != "AWS::IAM::Role" || used[role] != "" || role != strings.TrimSuffix(id, "Function")+"Role" {
			broken = append(broken, fmt.Sprintf("%s: role %s is not its own", id, asJSON(f["Role"])))
		}
		used[role] = id
	}
	for _, id := range slices.Sorted(maps.Keys(tpl.ofType("AWS::IAM::ManagedPolicy"))) {
		broken = append(broken, fmt.Sprintf("%s: a managed policy", id))
	}
	for id, r := range tpl.ofType("AWS::IAM::Role") {
		if r["ManagedPolicyArns"] != nil {
			broken = append(broken, fmt.Sprintf("%s: managed policies %s", id, asJSON(r["ManagedPolicyArns"])))
		}
	}
	for _, s := range tpl.statements() {
		if s.exclusion || len(s.actions) == 0 || len(s.resources) == 0 {
			broken = append(broken, fmt.Sprintf("%s: a statement without actions or resources, or by exclusion", s.role))
		}
		for _, a := range s.actions {
			if strings.ContainsAny(a, "*?") || a == "logs:CreateLogGroup" {
				broken = append(broken, fmt.Sprintf("%s: action %s", s.role, a))
			}
		}
		for _, r := range s.resources {
			outside := map[string]string{"TilRole": `{"Ref":"AiKeySecret"}`, "CallerRole": `{"Fn::Sub":"` + thisAPI + `"}`}[s.role]
			if tpl.typeOf(target(r)) == "" && asJSON(r) != outside {
				broken = append(broken, fmt.Sprintf("%s: resource %s is not one of this stack", s.role, asJSON(r)))
			}
		}
	}
	return broken
}

func ledgerWriters(tpl template) (broken []string) {
	const inTransaction = `{"ForAnyValue:StringEquals":{"dynamodb:EnclosingOperation":["TransactWriteItems"]}}`
	reads := []string{"dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"}
	for table, writers := range ledgers() {
		id := tpl.named("AWS::DynamoDB::Table", "TableName", table)
		if id == "" {
			broken = append(broken, fmt.Sprintf("no table for the ledger %s", table))
		}
		for _, s := range tpl.statements() {
			if !slices.ContainsFunc(s.resources, func(r any) bool { return target(r) == id }) {
				continue
			}
			for _, a := range s.actions {
				if slices.Contains(reads, a) {
					continue
				}
				if !slices.Contains(writers, s.function) && s.function != "reaper" {
					broken = append(broken, fmt.Sprintf("%s: %s on the ledger %s", s.role, a, table))
				}
				if a == "dynamodb:DeleteItem" || s.function == "reaper" && a == "dynamodb:UpdateItem" {
					broken = append(broken, fmt.Sprintf("%s: %s on the ledger %s, which nothing needs", s.role, a, table))
				}
				if got := asJSON(s.condition); got != inTransaction {
					broken = append(broken, fmt.Sprintf("%s: %s on the ledger %s under the condition %s", s.role, a, table, got))
				}
			}
		}
	}
	return broken
}

func logs(tpl template) (broken []string) {
	groups := tpl.ofType("AWS::Logs::LogGroup")
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		group := target(dig(f, "LoggingConfig", "LogGroup"))
		want := "/aws/lambda/" + stackPrefix + ownName(f["FunctionName"])
		if got := dig(groups[group], "LogGroupName", "Fn::Sub"); got != want {
			broken = append(broken, fmt.Sprintf("%s: logs to %v, want %s", id, got, want))
		}
		if tpl.number(dig(groups[group], "RetentionInDays")) < 1 {
			broken = append(broken, fmt.Sprintf("%s: its logs never end", id))
		}
		for _, s := range tpl.statements() {
			if s.role == target(f["Role"]) && slices.Contains(s.actions, "logs:PutLogEvents") && (len(s.resources) != 1 || target(s.resources[0]) != group) {
				broken = append(broken, fmt.Sprintf("%s: writes logs of others: %s", s.role, asJSON(s.resources)))
			}
		}
	}
	return broken
}

func logFilter(tpl template) (broken []string) {
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		if dig(f, "LoggingConfig", "LogFormat") != "JSON" || dig(f, "LoggingConfig", "ApplicationLogLevel") != "DEBUG" {
			broken = append(broken, fmt.Sprintf("%s: LoggingConfig is %s", id, asJSON(f["LoggingConfig"])))
		}
	}
	return broken
}

func runtimes(tpl template) (broken []string) {
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		if got := asJSON([]any{f["Runtime"], f["Handler"], f["Architectures"]}); got != `["provided.al2023","bootstrap",["arm64"]]` {
			broken = append(broken, fmt.Sprintf("%s: %s", id, got))
		}
	}
	return broken
}

func variables(tpl template) (broken []string) {
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		env, _ := dig(f, "Environment", "Variables").(map[string]any)
		for name, v := range env {
			if bare, ok := strings.CutPrefix(name, "TABLE_"); ok && ownName(tpl.property(target(v), "TableName")) != lower(bare) {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, name, asJSON(v)))
			}
			if bare, ok := strings.CutPrefix(name, "QUEUE_"); ok && ownName(tpl.property(target(v), "QueueName")) != lower(bare) {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, name, asJSON(v)))
			}
		}
	}
	return broken
}

func lower(variable string) string { return strings.ToLower(strings.ReplaceAll(variable, "_", "-")) }

func calendarStart(tpl template) (broken []string) {
	p := dig(map[string]any(tpl), "Parameters", "CalendarStart")
	if p == nil || dig(p, "Default") != nil || dig(p, "AllowedPattern") == nil {
		broken = append(broken, fmt.Sprintf("CalendarStart is %s", asJSON(p)))
	}
	return broken
}
