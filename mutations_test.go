package hanbeon_test

// mutation is an edit of the transformed template that a rule must notice.
type mutation struct {
	rule  string
	name  string
	edits map[string]any // see template.set
}

type object = map[string]any

// one is an edit of a single place.
func one(path string, value any) map[string]any { return map[string]any{path: value} }

func getAtt(id string) any { return object{"Fn::GetAtt": []any{id, "Arn"}} }

const (
	grants       = "MonthlyPointFunctionMonthlyPoint.Properties."
	fires        = "DispatcherFunctionMonthlyPoint.Properties."
	retries      = "DispatcherFunctionEventInvokeConfig.Properties."
	reaps        = "ReaperFunctionEachMinute.Properties."
	grantStmts   = "MonthlyPointRole.Properties.Policies.0.PolicyDocument.Statement."
	fanoutStmts  = "FanoutRole.Properties.Policies.0.PolicyDocument.Statement."
	reaperStmts  = "ReaperRole.Properties.Policies.0.PolicyDocument.Statement."
	pointsWrites = grantStmts + "4." // the statement that writes the ledger
)

var mutations = []mutation{
	{"SQS-06 mappings report partial failures", "no response types", one(grants+"FunctionResponseTypes", removed{})},
	{"SQS-06 mappings report partial failures", "a mapping that is off", one(grants+"Enabled", false)},

	{"SQS-12 memory, time and batches are explicit", "default memory", one("FanoutFunction.Properties.MemorySize", removed{})},
	{"SQS-12 memory, time and batches are explicit", "default timeout", one("MonthlyPointFunction.Properties.Timeout", removed{})},
	{"SQS-12 memory, time and batches are explicit", "a large batch without a window", one(grants+"MaximumBatchingWindowInSeconds", 0.0)},

	{"SQS-13 visibility outlasts the function", "the default of 30 s", one("SegmentsQueue.Properties.VisibilityTimeout", removed{})},
	{"SQS-13 visibility outlasts the function", "a longer timeout alone", one("MonthlyPointFunction.Properties.Timeout", 61.0)},
	{"SQS-13 visibility outlasts the function", "a longer window alone", one(grants+"MaximumBatchingWindowInSeconds", 6.0)},

	{"DSP-11 asynchronous retries end in a queue", "no failure destination", one(retries+"DestinationConfig", removed{})},
	{"DSP-11 asynchronous retries end in a queue", "no bound of retries", one(retries+"MaximumRetryAttempts", removed{})},
	{"DSP-11 asynchronous retries end in a queue", "no dead letters of the schedule", one(fires+"Target.DeadLetterConfig", removed{})},
	{"DSP-11 asynchronous retries end in a queue", "no retry policy of the schedule", one(fires+"Target.RetryPolicy", removed{})},
	{"DSP-11 asynchronous retries end in a queue", "the reaper's retries are Lambda's", one("ReaperFunctionEventInvokeConfig.Properties.MaximumRetryAttempts", removed{})},
	{"DSP-11 asynchronous retries end in a queue", "a destination that is no queue", one(retries+"DestinationConfig.OnFailure.Destination", getAtt("PointsTable"))},

	{"SAM-03 schedules know the business zone", "a rule of EventBridge", one("DispatcherFunctionMonthlyPoint.Type", "AWS::Events::Rule")},
	{"SAM-03 schedules know the business zone", "no zone", one(fires+"ScheduleExpressionTimezone", removed{})},
	{"SAM-03 schedules know the business zone", "a zone of its own", one(fires+"ScheduleExpressionTimezone", "UTC")},
	{"SAM-03 schedules know the business zone", "another default", one("/Parameters.BusinessZone.Default", "UTC")},
	{"SAM-03 schedules know the business zone", "disabled", one(fires+"State", "DISABLED")},
	{"SAM-03 schedules know the business zone", "flexible", one(fires+"FlexibleTimeWindow.Mode", "FLEXIBLE")},
	{"SAM-03 schedules know the business zone", "the default group", one(fires+"GroupName", removed{})},
	{"SAM-03 schedules know the business zone", "no scheduled time", one(fires+"Target.Input", object{"Fn::Sub": `{"kind":"monthly-point","amount":${MonthlyPointAmount}}`})},
	{"SAM-03 schedules know the business zone", "a function in another zone", one("DispatcherFunction.Properties.Environment.Variables.BUSINESS_ZONE", "UTC")},

	{"JOB-12 the reaper has its own enabled schedule", "disabled", one(reaps+"State", "DISABLED")},
	{"JOB-12 the reaper has its own enabled schedule", "seldom", one(reaps+"ScheduleExpression", "rate(1 hour)")},
	{"JOB-12 the reaper has its own enabled schedule", "in some stages only", one("ReaperFunctionEachMinute.Condition", "LeaveCold")},
	{"JOB-12 the reaper has its own enabled schedule", "gone", one("ReaperFunctionEachMinute", removed{})},

	{"schedules say what the calendars say", "another hour", one(fires+"ScheduleExpression", "cron(30 1 1 * ? *)")},
	{"schedules say what the calendars say", "another amount", one(fires+"Target.Input", object{"Fn::Sub": `{"kind":"monthly-point","scheduledTime":"<aws.scheduler.scheduled-time>","amount":100}`})},
	{"schedules say what the calendars say", "a kind nobody knows", one(fires+"Target.Input", object{"Fn::Sub": `{"kind":"monthly-points","scheduledTime":"<aws.scheduler.scheduled-time>","amount":${MonthlyPointAmount}}`})},
	{"schedules say what the calendars say", "the reaper has another amount", one("ReaperFunction.Properties.Environment.Variables.SCHEDULE_INPUTS", object{"Fn::Sub": `{"monthly-point":{"amount":100}}`})},

	{"names come from the stack", "a generated table name", one("PointsTable.Properties.TableName", removed{})},
	{"names come from the stack", "a fixed queue name", one("SegmentsQueue.Properties.QueueName", "segments")},
	{"names come from the stack", "a name twice", one("SegmentsQueue.Properties.QueueName", object{"Fn::Sub": "${AWS::StackName}-monthly-point"})},
	{"names come from the stack", "a schedule named by its logical id", one(fires+"Name", "DispatcherFunctionMonthlyPoint")},
	{"names come from the stack", "an alarm named by CloudFormation", one("TilAgeAlarm.Properties.AlarmName", removed{})},
	{"names come from the stack", "a group for all stacks", one("Schedules.Properties.Name", "default")},

	{"tables outlive the stack", "no PITR", one("PointsTable.Properties.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", false)},
	{"tables outlive the stack", "deleted with the stack", one("PointsTable.DeletionPolicy", removed{})},
	{"tables outlive the stack", "lost in a replacement", one("CatalogTable.UpdateReplacePolicy", "Delete")},
	{"tables outlive the stack", "no protection", one("JobsTable.Properties.DeletionProtectionEnabled", removed{})},
	{"tables outlive the stack", "provisioned", one("JobsTable.Properties.BillingMode", "PROVISIONED")},
	{"tables outlive the stack", "an index", one("JobsTable.Properties.GlobalSecondaryIndexes", []any{object{}})},

	{"nothing of a ledger expires", "TTL on points", one("PointsTable.Properties.TimeToLiveSpecification", object{"AttributeName": "expires", "Enabled": true})},
	{"nothing of a ledger expires", "TTL on summaries", one("SummariesTable.Properties.TimeToLiveSpecification", object{"AttributeName": "expires", "Enabled": true})},
	{"nothing of a ledger expires", "no TTL on jobs", one("JobsTable.Properties.TimeToLiveSpecification", removed{})},

	{"tables are cold unless asked for", "always warm", one("PointsTable.Properties.WarmThroughput", object{"WriteUnitsPerSecond": 4000.0})},
	{"tables are cold unless asked for", "warm by default", one("/Parameters.WarmWriteUnits.Default", 4000.0)},
	{"tables are cold unless asked for", "the condition turned round", one("/Conditions.LeaveCold", object{"Fn::Equals": []any{object{"Ref": "WarmWriteUnits"}, 4000.0}})},

	{"queues are encrypted and refuse plain HTTP", "no encryption", one("MonthlyPointDeadLetters.Properties.SqsManagedSseEnabled", removed{})},
	{"queues are encrypted and refuse plain HTTP", "dead letters without a policy", one("MonthlyPointPolicy.Properties.Queues", []any{object{"Ref": "MonthlyPointQueue"}})},
	{"queues are encrypted and refuse plain HTTP", "the condition turned round", one("SegmentsPolicy.Properties.PolicyDocument.Statement.0.Condition.Bool", object{"aws:SecureTransport": "true"})},
	{"queues are encrypted and refuse plain HTTP", "a policy that speaks of another queue", one("FiringFailuresPolicy.Properties.PolicyDocument.Statement.0.Resource", getAtt("SegmentsQueue"))},

	{"messages end in dead letters, late enough and for long enough", "no redrive policy", one("MonthlyPointQueue.Properties.RedrivePolicy", removed{})},
	{"messages end in dead letters, late enough and for long enough", "after three receives", one("MonthlyPointQueue.Properties.RedrivePolicy.maxReceiveCount", 3.0)},
	{"messages end in dead letters, late enough and for long enough", "segments after eight", one("SegmentsQueue.Properties.RedrivePolicy.maxReceiveCount", 8.0)},
	{"messages end in dead letters, late enough and for long enough", "before the job gives up", one("TilQueue.Properties.RedrivePolicy.maxReceiveCount", 3.0)},
	{"messages end in dead letters, late enough and for long enough", "the dead letters of another", one("MonthlyPointQueue.Properties.RedrivePolicy.deadLetterTargetArn", getAtt("SegmentsDeadLetters"))},
	{"messages end in dead letters, late enough and for long enough", "kept for four days", one("SegmentsDeadLetters.Properties.MessageRetentionPeriod", removed{})},

	{"concurrency fits SQS and the tally", "one", one("FanoutFunctionSegments.Properties.ScalingConfig.MaximumConcurrency", 1.0)},
	{"concurrency fits SQS and the tally", "none", one(grants+"ScalingConfig", removed{})},
	{"concurrency fits SQS and the tally", "a parameter down to one", one("/Parameters.MonthlyPointConcurrency.MinValue", 1.0)},
	{"concurrency fits SQS and the tally", "a parameter beyond the shards", one("/Parameters.MonthlyPointConcurrency.MaxValue", 17.0)},

	{"concurrency fits SQS and the tally", "one AI call", one("/Parameters.TilConcurrency.MinValue", 1.0)},
	{"concurrency fits SQS and the tally", "more than SQS takes", one("/Parameters.TilConcurrency.MaxValue", 1001.0)},

	{"no reserved concurrency", "reserved", one("ReaperFunction.Properties.ReservedConcurrentExecutions", 1.0)},

	{"roles are explicit and without wildcards", "any action", one(grantStmts+"2.Action", "dynamodb:*")},
	{"roles are explicit and without wildcards", "any resource", one(grantStmts+"2.Resource", "*")},
	{"roles are explicit and without wildcards", "something from outside", one(grantStmts+"2.Resource", "arn:aws:dynamodb:ap-northeast-2:123456789012:table/other")},
	{"roles are explicit and without wildcards", "a secret of another", one(grantStmts+"2.Resource", object{"Ref": "AiKeySecret"})},
	{"roles are explicit and without wildcards", "by exclusion", one(grantStmts+"2.NotResource", getAtt("PointsTable"))},
	{"roles are explicit and without wildcards", "a managed policy", one("ReaperRole.Properties.ManagedPolicyArns", []any{"arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"})},
	{"roles are explicit and without wildcards", "creates log groups", one(grantStmts+"0.Action", []any{"logs:CreateLogGroup", "logs:PutLogEvents"})},
	{"roles are explicit and without wildcards", "the role of another", one("FanoutFunction.Properties.Role", getAtt("MonthlyPointRole"))},

	{"ledgers have two writers, in transactions only", "outside a transaction", one(pointsWrites+"Condition", removed{})},
	{"ledgers have two writers, in transactions only", "in any operation", one(pointsWrites+"Condition", object{"ForAnyValue:StringEquals": object{"dynamodb:EnclosingOperation": []any{"TransactWriteItems", "BatchWriteItem"}}})},
	{"ledgers have two writers, in transactions only", "the fan-out writes", one(fanoutStmts+"4.Action", []any{"dynamodb:BatchGetItem", "dynamodb:PutItem"})},
	{"ledgers have two writers, in transactions only", "deletes", one(pointsWrites+"Action", []any{"dynamodb:DeleteItem"})},
	{"ledgers have two writers, in transactions only", "the reaper touches balances", one(reaperStmts+"4.Action", []any{"dynamodb:PutItem", "dynamodb:UpdateItem"})},

	{"logs are declared and end", "for ever", one("FanoutLogs.Properties.RetentionInDays", removed{})},
	{"logs are declared and end", "undeclared", one("FanoutFunction.Properties.LoggingConfig.LogGroup", removed{})},
	{"logs are declared and end", "of another function", one("FanoutFunction.Properties.LoggingConfig.LogGroup", object{"Ref": "ReaperLogs"})},
	{"logs are declared and end", "written by another", one(fanoutStmts+"0.Resource", getAtt("ReaperLogs"))},

	{"metrics pass the log filter", "Lambda filters", one("ReaperFunction.Properties.LoggingConfig.ApplicationLogLevel", "WARN")},

	{"functions run our binary", "another handler", one("ReaperFunction.Properties.Handler", "main")},
	{"functions run our binary", "another architecture", one("ReaperFunction.Properties.Architectures", []any{"x86_64"})},

	{"variables point at what they name", "the queue of another", one("FanoutFunction.Properties.Environment.Variables.QUEUE_MONTHLY_POINT", object{"Ref": "SegmentsQueue"})},
	{"variables point at what they name", "the table of another", one("FanoutFunction.Properties.Environment.Variables.TABLE_POINTS", object{"Ref": "JobsTable"})},

	{"the start of the calendar has no default", "a default", one("/Parameters.CalendarStart.Default", "2024-01")},
}
