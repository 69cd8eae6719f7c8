package hanbeon_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Who may come in, and by which door. The rules read the OpenAPI body that SAM makes, because that is what API Gateway serves.

var doorRules = []rule{
	{"there is no open route", "API Gateway serves a route without an authorizer to everybody", openRoutes},
	{"there is no other door", "a function URL, a REST API or a load balancer would be outside all rules of the API", otherDoors},
	{"SAM-01 the gateway invokes by its own right", "with the credentials of the caller, every caller would need lambda:InvokeFunction, or get 500", integrations},
	{"the API is throttled and logged, without the text of callers", "a path, a query or a header is what a caller wrote: it may forge a line or hold a token", accessLogs},
	{"the function answers before the gateway gives up", "the gateway answers 503 after 30 s, while the function still works", gatewayTime},
	{"accounts that are named may call, and nothing else", "an example is copied as it stands", callers},
	{"the key of the AI server is read by til alone", "what is in the environment is in every dump and in the console", aiKey},
	{"the AI server has less time than its function", "a function that is cut off writes nothing down", aiTime},
}

// operations calls f for each operation of the body of an API.
func operations(api map[string]any, f func(path, method string, op any)) {
	paths, _ := dig(api, "Body", "paths").(map[string]any)
	for path, methods := range paths {
		m, _ := methods.(map[string]any)
		for method, op := range m {
			f(path, method, op)
		}
	}
}

func openRoutes(tpl template) (broken []string) {
	apis := tpl.ofType("AWS::ApiGatewayV2::Api")
	if len(apis) != 1 {
		broken = append(broken, fmt.Sprintf("%d HTTP APIs, want 1", len(apis)))
	}
	for id, api := range apis {
		var routes []string
		operations(api, func(path, method string, op any) {
			routes = append(routes, method+" "+path)
			if got := asJSON(dig(op, "security")); got != `[{"AWS_IAM":[]}]` {
				broken = append(broken, fmt.Sprintf("%s: security of %s %s is %s", id, method, path, got))
			}
		})
		// $default is missing on purpose: it would be a second route, of every path and method.
		if want := []string{"x-amazon-apigateway-any-method /{proxy+}"}; !slices.Equal(routes, want) {
			broken = append(broken, fmt.Sprintf("%s: routes %q, want %q", id, routes, want))
		}
		scheme := map[string]any{"type": "apiKey", "name": "Authorization", "in": "header", "x-amazon-apigateway-authtype": "awsSigv4"}
		if got := asJSON(dig(api, "Body", "components", "securitySchemes")); got != asJSON(map[string]any{"AWS_IAM": scheme}) {
			broken = append(broken, fmt.Sprintf("%s: security schemes %s", id, got))
		}
		// Anything else that makes routes (quick create, CORS, a body from elsewhere) is in no list above.
		for _, key := range slices.Sorted(maps.Keys(api)) {
			if !slices.Contains([]string{"Body", "FailOnWarnings"}, key) {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, key, asJSON(api[key])))
			}
		}
		body, _ := api["Body"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(body)) {
			if !slices.Contains([]string{"components", "info", "openapi", "paths", "tags"}, key) {
				broken = append(broken, fmt.Sprintf("%s: %s of its body is %s", id, key, asJSON(body[key])))
			}
		}
		if api["FailOnWarnings"] != true {
			broken = append(broken, fmt.Sprintf("%s: what the gateway does not understand, an authorizer say, is left out in silence", id))
		}
	}
	return broken
}

// known are the types of resources that the rules were written for. A new one may be a new door: think, then add it.
var known = []string{
	"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage", "AWS::CloudWatch::Alarm", "AWS::DynamoDB::Table", "AWS::IAM::Role", "AWS::Lambda::EventInvokeConfig",
	"AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function", "AWS::Lambda::Permission", "AWS::Logs::LogGroup", "AWS::SQS::Queue", "AWS::SQS::QueuePolicy",
	"AWS::Scheduler::Schedule", "AWS::Scheduler::ScheduleGroup",
}

func otherDoors(tpl template) (broken []string) {
	resources, _ := tpl["Resources"].(map[string]any)
	for id := range resources {
		if !slices.Contains(known, tpl.typeOf(id)) {
			broken = append(broken, fmt.Sprintf("%s: type %s", id, tpl.typeOf(id)))
		}
	}
	for id, p := range tpl.ofType("AWS::SQS::QueuePolicy") {
		for _, s := range list(dig(p, "PolicyDocument", "Statement")) {
			if dig(s, "Effect") != "Deny" {
				broken = append(broken, fmt.Sprintf("%s: allows", id))
			}
		}
	}
	functions := tpl.ofType("AWS::Lambda::Function")
	trust := func(service string) string {
		return asJSON([]any{map[string]any{"Effect": "Allow", "Principal": map[string]any{"Service": service}, "Action": "sts:AssumeRole"}})
	}
	for _, f := range functions {
		role := target(f["Role"])
		if got := asJSON(dig(tpl.property(role, "AssumeRolePolicyDocument"), "Statement")); got != trust("lambda.amazonaws.com") {
			broken = append(broken, fmt.Sprintf("%s: trusts %s", role, got))
		}
	}
	return broken
}

func integrations(tpl template) (broken []string) {
	found := 0
	for id, api := range tpl.ofType("AWS::ApiGatewayV2::Api") {
		operations(api, func(path, method string, op any) {
			found++
			want := map[string]any{
				"type": "aws_proxy", "httpMethod": "POST", "payloadFormatVersion": "2.0",
				"uri": map[string]any{"Fn::Sub": "arn:${AWS::Partition}:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/${ApiFunction.Arn}/invocations"},
			}
			if got := dig(op, "x-amazon-apigateway-integration"); asJSON(got) != asJSON(want) { // no `credentials`
				broken = append(broken, fmt.Sprintf("%s: integration of %s %s is %s", id, method, path, asJSON(got)))
			}
		})
	}
	permissions := tpl.ofType("AWS::Lambda::Permission")
	if found == 0 || len(permissions) != 1 {
		broken = append(broken, fmt.Sprintf("%d routes and %d permissions to invoke a function, want one of the gateway", found, len(permissions)))
	}
	for id, p := range permissions {
		source := asJSON(map[string]any{"Fn::Sub": []any{
			"arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${__ApiId__}/${__Stage__}/*/*",
			map[string]any{"__ApiId__": map[string]any{"Ref": "HttpApi"}, "__Stage__": "*"},
		}})
		if p["Principal"] != "apigateway.amazonaws.com" || p["Action"] != "lambda:InvokeFunction" || target(p["FunctionName"]) != "ApiFunction" || asJSON(p["SourceArn"]) != source || len(p) != 4 {
			broken = append(broken, fmt.Sprintf("%s: %s", id, asJSON(p)))
		}
	}
	return broken
}

// logged are the variables of an access log that are not the caller's text (API Gateway Developer Guide, "Customize HTTP API access logs").
var logged = []string{
	"$context.requestId", "$context.requestTime", "$context.identity.sourceIp", "$context.identity.userArn", "$context.httpMethod", "$context.routeKey", "$context.status",
	"$context.error.responseType", "$context.integrationStatus", "$context.responseLength", "$context.responseLatency", "$context.integrationLatency",
}

var variableOfLog = regexp.MustCompile(`\$[A-Za-z0-9_.]+`)

func accessLogs(tpl template) (broken []string) {
	stages := tpl.ofType("AWS::ApiGatewayV2::Stage")
	if len(stages) != 1 {
		broken = append(broken, fmt.Sprintf("%d stages, want 1", len(stages)))
	}
	for id, s := range stages {
		if s["StageName"] != "$default" || s["RouteSettings"] != nil || s["StageVariables"] != nil {
			broken = append(broken, fmt.Sprintf("%s: stage %v, route settings %s, variables %s", id, s["StageName"], asJSON(s["RouteSettings"]), asJSON(s["StageVariables"])))
		}
		for limit, parameter := range map[string]string{"ThrottlingRateLimit": "ApiRate", "ThrottlingBurstLimit": "ApiBurst"} {
			v := dig(s, "DefaultRouteSettings", limit)
			if dig(v, "Ref") != parameter || tpl.number(v) < 1 || tpl.number(dig(map[string]any(tpl), "Parameters", parameter, "MinValue")) < 1 {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, limit, asJSON(v)))
			}
		}
		group := target(dig(s, "AccessLogSettings", "DestinationArn"))
		if tpl.typeOf(group) != "AWS::Logs::LogGroup" || dig(tpl.property(group, "RetentionInDays"), "Ref") != "LogRetentionDays" {
			broken = append(broken, fmt.Sprintf("%s: access logs go to %s, whose retention is %s", id, group, asJSON(tpl.property(group, "RetentionInDays"))))
		}
		format, _ := dig(s, "AccessLogSettings", "Format").(string)
		var line map[string]string
		if err := json.Unmarshal([]byte(format), &line); err != nil || line["requestId"] == "" || line["caller"] == "" {
			broken = append(broken, fmt.Sprintf("%s: access logs are no JSON with requestId and caller: %s", id, format))
		}
		for _, v := range variableOfLog.FindAllString(format, -1) {
			if !slices.Contains(logged, v) {
				broken = append(broken, fmt.Sprintf("%s: access logs hold %s", id, v))
			}
		}
	}
	return broken
}

func gatewayTime(tpl template) (broken []string) {
	if got := tpl.number(tpl.property("ApiFunction", "Timeout")); got < 1 || got > 29 {
		broken = append(broken, fmt.Sprintf("ApiFunction: Timeout %v s", got))
	}
	return broken
}

func callers(tpl template) (broken []string) {
	for what, got := range map[string]any{
		"Parameters.CallerAccounts.Default":        dig(map[string]any(tpl), "Parameters", "CallerAccounts", "Default"),
		"Parameters.CallerAccounts.AllowedPattern": dig(map[string]any(tpl), "Parameters", "CallerAccounts", "AllowedPattern"),
		"Conditions.HasCallers":                    dig(map[string]any(tpl), "Conditions", "HasCallers"),
		"Resources.CallerRole.Condition":           dig(map[string]any(tpl), "Resources", "CallerRole", "Condition"),
		"Outputs.CallerRole.Condition":             dig(map[string]any(tpl), "Outputs", "CallerRole", "Condition"),
		"trust":                                    dig(tpl.property("CallerRole", "AssumeRolePolicyDocument"), "Statement"),
		"policies":                                 tpl.property("CallerRole", "Policies"),
	} {
		want := map[string]string{
			"Parameters.CallerAccounts.Default":        `""`,
			"Parameters.CallerAccounts.AllowedPattern": `"^([0-9]{12}(,[0-9]{12})*)?$"`,
			"Conditions.HasCallers":                    `{"Fn::Not":[{"Fn::Equals":[{"Ref":"CallerAccounts"},""]}]}`,
			"Resources.CallerRole.Condition":           `"HasCallers"`,
			"Outputs.CallerRole.Condition":             `"HasCallers"`,
			"trust":                                    `[{"Action":"sts:AssumeRole","Effect":"Allow","Principal":{"AWS":{"Fn::Split":[",",{"Ref":"CallerAccounts"}]}}}]`,
			"policies": `[{"PolicyDocument":{"Statement":[{"Action":"execute-api:Invoke","Effect":"Allow","Resource":` +
				`{"Fn::Sub":"` + thisAPI + `"}}],"Version":"2012-10-17"},"PolicyName":"call"}]`,
		}[what]
		if asJSON(got) != want {
			broken = append(broken, fmt.Sprintf("%s is %s, want %s", what, asJSON(got), want))
		}
	}
	return broken
}

// thisAPI is every route of our API, as a policy names it.
const thisAPI = "arn:${AWS::Partition}:execute-api:${AWS::Region}:${AWS::AccountId}:${HttpApi}/$default/*"

func aiKey(tpl template) (broken []string) {
	p := dig(map[string]any(tpl), "Parameters", "AiKeySecret")
	if pattern, _ := dig(p, "AllowedPattern").(string); !strings.HasPrefix(pattern, "^arn:[a-z-]+:secretsmanager:") || dig(p, "Default") != nil {
		broken = append(broken, fmt.Sprintf("AiKeySecret is %s: want an ARN, without a default", asJSON(p)))
	}
	if strings.Contains(asJSON(tpl), "{{resolve:") {
		broken = append(broken, "a dynamic reference puts what it resolves into the resource")
	}
	for id, f := range tpl.ofType("AWS::Lambda::Function") {
		env, _ := dig(f, "Environment", "Variables").(map[string]any)
		for name, v := range env {
			if strings.HasPrefix(name, "AI_") && ownName(f["FunctionName"]) != "til" || strings.Contains(name, "KEY") && asJSON(v) != `{"Ref":"AiKeySecret"}` {
				broken = append(broken, fmt.Sprintf("%s: %s is %s", id, name, asJSON(v)))
			}
		}
	}
	reads := 0
	for _, s := range tpl.statements() {
		for _, a := range s.actions {
			if !strings.HasPrefix(a, "secretsmanager:") {
				continue
			}
			reads++
			if s.function != "til" || len(s.actions) != 1 || a != "secretsmanager:GetSecretValue" || asJSON(s.resources) != `[{"Ref":"AiKeySecret"}]` {
				broken = append(broken, fmt.Sprintf("%s: %s on %s", s.role, a, asJSON(s.resources)))
			}
		}
	}
	if reads != 1 {
		broken = append(broken, fmt.Sprintf("%d statements read secrets, want 1", reads))
	}
	return broken
}

func aiTime(tpl template) (broken []string) {
	const toBegin = 30.0 // seconds that the single engine wants left over when a call is begun, to write down how it ended
	longest, has := tpl.number(dig(map[string]any(tpl), "Parameters", "AiTimeout", "MaxValue")), tpl.number(tpl.property("TilFunction", "Timeout"))
	if longest < 1 || longest+toBegin > has {
		broken = append(broken, fmt.Sprintf("AiTimeout goes to %v s, TilFunction has %v s", longest, has))
	}
	return broken
}

// Mistakes as somebody would make them, in template.yaml: the rules notice what SAM makes of each. (Mistakes in what SAM makes are with the other mutations.)
func TestOpenDoorsInTheTemplateAreNoticed(t *testing.T) {
	t.Parallel()
	const (
		event = "        Any:\n          Type: HttpApi\n"
		path  = "            Path: /{proxy+}\n            PayloadFormatVersion: \"2.0\"\n"
	)
	for _, m := range []struct{ name, rule, old, text string }{
		{"no default authorizer", "there is no open route", "        DefaultAuthorizer: AWS_IAM\n", ""},
		{"the one route opened", "there is no open route", path, path + "            Auth: { Authorizer: NONE }\n"},
		{"a second route, open", "there is no open route", event, "        Health:\n          Type: HttpApi\n          Properties: { ApiId: !Ref HttpApi, Method: GET, Path: /health, Auth: { Authorizer: NONE } }\n" + event},
		{"a default route", "there is no open route", event, "        Rest:\n          Type: HttpApi\n          Properties: { ApiId: !Ref HttpApi }\n" + event},
		{"an API nobody declared", "there is no open route", "            ApiId: !Ref HttpApi\n", ""},
		{"CORS", "there is no open route", "      FailOnWarnings: true\n", "      FailOnWarnings: true\n      CorsConfiguration: { AllowOrigins: ['*'] }\n"},
		{"warnings that pass", "there is no open route", "      FailOnWarnings: true\n", ""},
		{"a function URL", "there is no other door", "      Timeout: 29 ", "      FunctionUrlConfig: { AuthType: NONE }\n      Timeout: 29 "},
		{"a function URL behind IAM", "there is no other door", "      Timeout: 29 ", "      FunctionUrlConfig: { AuthType: AWS_IAM }\n      Timeout: 29 "},
		{"a REST API", "there is no other door", event, "        Old:\n          Type: Api\n          Properties: { Path: /old, Method: GET }\n" + event},
		{"payload format 1.0", "SAM-01 the gateway invokes by its own right", `PayloadFormatVersion: "2.0"`, `PayloadFormatVersion: "1.0"`},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			transformed(t) // or a skip, for want of Python
			source := read(t, "template.yaml")
			if strings.Count(source, m.old) != 1 {
				t.Fatalf("template.yaml has %d places like %q", strings.Count(source, m.old), m.old)
			}
			file := filepath.Join(t.TempDir(), "template.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(source, m.old, m.text, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			tpl, err := transform(file)
			if err != nil {
				t.Fatal(err)
			}
			if broken := ruleNamed(t, m.rule).check(tpl); len(broken) == 0 {
				t.Errorf("rule %q accepts it", m.rule)
			}
		})
	}
}

const (
	route     = "HttpApi.Properties.Body.paths./{proxy+}.x-amazon-apigateway-any-method"
	stage     = "HttpApiApiGatewayDefaultStage.Properties."
	permitted = "ApiFunctionAnyPermission.Properties."
	tilStmts  = "TilRole.Properties.Policies.0.PolicyDocument.Statement."
)

var doorMutations = []mutation{
	{"there is no open route", "no security", one(route+".security", removed{})},
	{"there is no open route", "security that may be absent", one(route+".security", []any{object{"AWS_IAM": []any{}}, object{}})},
	{"there is no open route", "empty security", one(route+".security", []any{})},
	{"there is no open route", "another method", one("HttpApi.Properties.Body.paths./{proxy+}.get", object{"security": []any{object{"AWS_IAM": []any{}}}})},
	{"there is no open route", "another path", one("HttpApi.Properties.Body.paths./open", object{"get": object{}})},
	{"there is no open route", "a default route", one("HttpApi.Properties.Body.paths.$default", object{"x-amazon-apigateway-any-method": object{}})},
	{"there is no open route", "a scheme that signs nothing", one("HttpApi.Properties.Body.components.securitySchemes.AWS_IAM", object{"type": "apiKey", "name": "Authorization", "in": "header"})},
	{"there is no open route", "CORS in the body", one("HttpApi.Properties.Body.x-amazon-apigateway-cors", object{"allowOrigins": []any{"*"}})},
	{"there is no open route", "CORS beside the body", one("HttpApi.Properties.CorsConfiguration", object{"AllowOrigins": []any{"*"}})},
	{"there is no open route", "a quick create", one("HttpApi.Properties.Target", getAtt("ApiFunction"))},
	{"there is no open route", "no API", one("HttpApi", removed{})},

	{"there is no other door", "a route beside the body", one("Open", object{"Type": "AWS::ApiGatewayV2::Route", "Properties": object{"AuthorizationType": "NONE"}})},
	{"there is no other door", "a function URL", one("Open", object{"Type": "AWS::Lambda::Url", "Properties": object{"AuthType": "NONE"}})},
	{"there is no other door", "a queue for everybody", one("TilPolicy.Properties.PolicyDocument.Statement.0.Effect", "Allow")},
	{"there is no other door", "a role for everybody", one("ApiRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal", object{"AWS": "*"})},

	{"SAM-01 the gateway invokes by its own right", "the caller's credentials", one(route+".x-amazon-apigateway-integration.credentials", "arn:aws:iam::*:user/*")},
	{"SAM-01 the gateway invokes by its own right", "another function", one(route+".x-amazon-apigateway-integration.uri", object{"Fn::Sub": "${TilFunction.Arn}"})},
	{"SAM-01 the gateway invokes by its own right", "any API of the world", one(permitted+"SourceArn", removed{})},
	{"SAM-01 the gateway invokes by its own right", "everybody", one(permitted+"Principal", "*")},
	{"SAM-01 the gateway invokes by its own right", "a function that is no door", one(permitted+"FunctionName", object{"Ref": "ReaperFunction"})},
	{"SAM-01 the gateway invokes by its own right", "no permission", one("ApiFunctionAnyPermission", removed{})},

	{"the API is throttled and logged, without the text of callers", "no throttling", one(stage+"DefaultRouteSettings", removed{})},
	{"the API is throttled and logged, without the text of callers", "a route without", one(stage+"RouteSettings", object{"ANY /{proxy+}": object{"ThrottlingRateLimit": 1e6}})},
	{"the API is throttled and logged, without the text of callers", "nothing passes", one("/Parameters.ApiRate.Default", 0.0)},
	{"the API is throttled and logged, without the text of callers", "no access logs", one(stage+"AccessLogSettings", removed{})},
	{"the API is throttled and logged, without the text of callers", "for ever", one("AccessLogs.Properties.RetentionInDays", removed{})},
	{"the API is throttled and logged, without the text of callers", "the path", one(stage+"AccessLogSettings.Format", `{"requestId":"$context.requestId","caller":"$context.identity.userArn","path":"$context.path"}`)},
	{"the API is throttled and logged, without the text of callers", "plain text", one(stage+"AccessLogSettings.Format", "$context.requestId $context.identity.userArn")},

	{"the function answers before the gateway gives up", "30 s", one("ApiFunction.Properties.Timeout", 30.0)},

	{"accounts that are named may call, and nothing else", "always there", one("CallerRole.Condition", removed{})},
	{"accounts that are named may call, and nothing else", "everybody", one("CallerRole.Properties.AssumeRolePolicyDocument.Statement.0.Principal", object{"AWS": "*"})},
	{"accounts that are named may call, and nothing else", "every API", one("CallerRole.Properties.Policies.0.PolicyDocument.Statement.0.Resource", "*")},
	{"accounts that are named may call, and nothing else", "more than calls", one("CallerRole.Properties.Policies.0.PolicyDocument.Statement.0.Action", []any{"execute-api:Invoke", "execute-api:ManageConnections"})},
	{"accounts that are named may call, and nothing else", "an account by default", one("/Parameters.CallerAccounts.Default", "123456789012")},
	{"accounts that are named may call, and nothing else", "any principal", one("/Parameters.CallerAccounts.AllowedPattern", ".*")},

	{"the key of the AI server is read by til alone", "in the environment", one("TilFunction.Properties.Environment.Variables.AI_KEY", "sk-1")},
	{"the key of the AI server is read by til alone", "resolved by CloudFormation", one("TilFunction.Properties.Environment.Variables.AI_KEY_SECRET", "{{resolve:secretsmanager:ai}}")},
	{"the key of the AI server is read by til alone", "another function knows", one("ApiFunction.Properties.Environment.Variables.AI_KEY_SECRET", object{"Ref": "AiKeySecret"})},
	{"the key of the AI server is read by til alone", "another function reads", one("FanoutRole.Properties.Policies.0.PolicyDocument.Statement.5", object{"Effect": "Allow", "Action": "secretsmanager:GetSecretValue", "Resource": object{"Ref": "AiKeySecret"}})},
	{"the key of the AI server is read by til alone", "every secret", one(tilStmts+"5.Resource", "*")},
	{"the key of the AI server is read by til alone", "writes", one(tilStmts+"5.Action", []any{"secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"})},
	{"the key of the AI server is read by til alone", "the key as a parameter", one("/Parameters.AiKeySecret.AllowedPattern", removed{})},

	{"the AI server has less time than its function", "a longer call", one("/Parameters.AiTimeout.MaxValue", 140.0)},
	{"the AI server has less time than its function", "a shorter function", one("TilFunction.Properties.Timeout", 120.0)},
}
