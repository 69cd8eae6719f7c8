package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"

	"github.com/aws/aws-lambda-go/lambda"
	"go.yaml.in/yaml/v3"
)

// plan is what a template says, as far as a laptop runs it.
type plan struct {
	functions []*function
	queues    map[queue.Name]queueSpec
	zone      string // of functions and schedules
	calendar  job.Calendar
}

type function struct {
	name      string
	timeout   time.Duration
	retries   int           // of an asynchronous invocation, after the first try
	maxAge    time.Duration // of an asynchronous invocation
	onFailure queue.Name    // "": none
	mappings  []mapping
	schedules []schedule
	served    bool // an HTTP API is in front of it
}

// mapping is an SQS event source.
type mapping struct {
	queue       queue.Name
	batch       int
	window      time.Duration
	partial     bool // ReportBatchItemFailures
	concurrency int  // most invocations at once
}

type schedule struct {
	name      string
	timetable timetable
	recurring bool // by rate, not by calendar
	input     string
}

// Defaults of AWS where a template is silent.
const (
	defaultTimeout    = 3      // seconds, of a SAM function
	defaultVisibility = 30     // seconds
	defaultRetention  = 345600 // seconds: 4 days
	defaultBatch      = 10     // messages
	defaultPollers    = 5      // at once; Lambda starts with five and goes on growing
	defaultRetries    = 2      // of an asynchronous invocation
	defaultMaxAge     = 21600  // seconds: 6 hours
	defaultZone       = "UTC"
)

// readPlan reads a template. All that is wrong is in the one error.
func readPlan(text string, parameters map[string]string) (*plan, error) {
	r, err := newReader(text, parameters)
	if err != nil {
		return nil, err
	}
	p := &plan{queues: map[queue.Name]queueSpec{}, zone: r.text(r.at(r.globals, "Environment", "Variables", "BUSINESS_ZONE"))}
	names := map[string]queue.Name{} // by logical id
	for id, res := range pairs(r.resources) {
		if r.text(r.at(res, "Type")) == "AWS::SQS::Queue" {
			names[id] = queue.Name(r.name(r.at(res, "Properties", "QueueName")))
		}
	}
	for id, res := range pairs(r.resources) {
		props := r.at(res, "Properties")
		switch r.text(r.at(res, "Type")) {
		case "AWS::SQS::Queue":
			p.queues[names[id]] = r.queue(names[id], props, names)
		case "AWS::Serverless::Function":
			p.functions = append(p.functions, r.function(p, props, names))
		case "AWS::Serverless::HttpApi":
			r.httpAPI(props)
		case "AWS::Lambda::EventSourceMapping", "AWS::Lambda::EventInvokeConfig", "AWS::Scheduler::Schedule", "AWS::Lambda::Function",
			"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Route", "AWS::ApiGatewayV2::Integration", "AWS::Serverless::Api":
			r.fail(res, "%s: a laptop reads these from the resources of SAM only", id)
		}
	}
	if len(p.functions) == 0 {
		r.fail(r.resources, "there is no function")
	}
	return p, errors.Join(r.errs...)
}

func (r *reader) queue(name queue.Name, props *yaml.Node, names map[string]queue.Name) queueSpec {
	r.only(props, "QueueName", "SqsManagedSseEnabled", "VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy", "Tags")
	q := queueSpec{
		name:       name,
		visibility: r.seconds(r.at(props, "VisibilityTimeout"), defaultVisibility),
		retention:  r.seconds(r.at(props, "MessageRetentionPeriod"), defaultRetention),
	}
	if policy := r.at(props, "RedrivePolicy"); policy != nil {
		q.deadLetters = names[r.resource(r.at(policy, "deadLetterTargetArn"))]
		q.maxReceives = r.number(r.at(policy, "maxReceiveCount"), 0)
		if q.maxReceives == 0 || q.deadLetters == "" {
			r.fail(policy, "queue %s: want a dead letter queue and a maxReceiveCount above 0", name)
		}
	}
	return q
}

func (r *reader) function(p *plan, props *yaml.Node, names map[string]queue.Name) *function {
	f := &function{
		name:    r.name(r.at(props, "FunctionName")),
		timeout: r.seconds(r.at(props, "Timeout"), r.number(r.at(r.globals, "Timeout"), defaultTimeout)),
		retries: r.number(r.at(props, "EventInvokeConfig", "MaximumRetryAttempts"), defaultRetries),
		maxAge:  r.seconds(r.at(props, "EventInvokeConfig", "MaximumEventAgeInSeconds"), defaultMaxAge),
	}
	if d := r.at(props, "EventInvokeConfig", "DestinationConfig", "OnFailure", "Destination"); d != nil {
		f.onFailure = names[r.resource(d)]
	}
	r.environment(p, r.at(props, "Environment", "Variables"))
	for name, event := range pairs(r.at(props, "Events")) {
		ep := r.at(event, "Properties")
		switch kind := r.text(r.at(event, "Type")); kind {
		case "SQS":
			if m, enabled := r.mapping(ep, names); enabled {
				f.mappings = append(f.mappings, m)
			}
		case "ScheduleV2":
			if s, enabled := r.schedule(p, ep); enabled {
				f.schedules = append(f.schedules, s)
			}
		case "HttpApi":
			r.route(ep)
			f.served = true
		default:
			r.fail(event, "event %s of type %q is not supported here", name, kind)
		}
	}
	return f
}

func (r *reader) mapping(props *yaml.Node, names map[string]queue.Name) (m mapping, enabled bool) {
	r.only(props, "Queue", "Enabled", "BatchSize", "MaximumBatchingWindowInSeconds", "FunctionResponseTypes", "ScalingConfig")
	m = mapping{
		queue:       names[r.resource(r.at(props, "Queue"))],
		batch:       r.number(r.at(props, "BatchSize"), defaultBatch),
		window:      r.seconds(r.at(props, "MaximumBatchingWindowInSeconds"), 0),
		concurrency: r.number(r.at(props, "ScalingConfig", "MaximumConcurrency"), defaultPollers),
	}
	if types := r.at(props, "FunctionResponseTypes"); types != nil {
		m.partial = slices.ContainsFunc(types.Content, func(n *yaml.Node) bool { return n.Value == "ReportBatchItemFailures" })
	}
	if m.batch < 1 || m.concurrency < 1 || m.batch > 10 && m.window < time.Second {
		r.fail(props, "batch size %d, window %v, concurrency %d: want 1 or more, and a window of at least 1 s for batches above 10", m.batch, m.window, m.concurrency)
	}
	return m, r.text(r.at(props, "Enabled")) != "false"
}

func (r *reader) schedule(p *plan, props *yaml.Node) (s schedule, enabled bool) {
	r.only(props, "Name", "GroupName", "Description", "ScheduleExpression", "ScheduleExpressionTimezone", "State", "FlexibleTimeWindow", "RoleArn",
		"RetryPolicy", "DeadLetterConfig", "Input")
	zoneName := r.text(r.at(props, "ScheduleExpressionTimezone"))
	if zoneName == "" {
		zoneName = defaultZone
	}
	zone, err := time.LoadLocation(zoneName)
	if err != nil {
		r.fail(props, "time zone %q: %w", zoneName, err)
		return s, false
	}
	if p.zone != "" && p.zone != zoneName {
		r.fail(props, "time zone %q of the schedule is not that of the functions, %q", zoneName, p.zone)
	}
	s = schedule{name: r.name(r.at(props, "Name")), input: r.text(r.at(props, "Input"))}
	if s.timetable, err = parseTimetable(r.text(r.at(props, "ScheduleExpression")), zone); err != nil {
		r.fail(props, "%w", err)
		return s, false
	}
	_, s.recurring = s.timetable.(rate)
	return s, r.text(r.at(props, "State")) != "DISABLED"
}

// httpAPI refuses an API that lets in whom a laptop does not. Name, throttling and access logs mean nothing here.
func (r *reader) httpAPI(props *yaml.Node) {
	r.only(props, "Name", "Description", "StageName", "Auth", "AccessLogSettings", "DefaultRouteSettings", "FailOnWarnings", "Tags")
	if stage := r.text(r.at(props, "StageName")); stage != "" && stage != "$default" {
		r.fail(props, "stage %q: want $default, the only one without a prefix of the path", stage)
	}
	if r.text(r.at(props, "Auth", "DefaultAuthorizer")) != "AWS_IAM" {
		r.fail(props, "the API is not behind AWS_IAM, and a laptop lets in signed requests only")
	}
}

// route refuses an event that is not the one route of the API.
func (r *reader) route(props *yaml.Node) {
	r.only(props, "ApiId", "Path", "Method", "PayloadFormatVersion")
	r.resource(r.at(props, "ApiId"))
	method, path := r.text(r.at(props, "Method")), r.text(r.at(props, "Path"))
	if method != "ANY" || path != "/{proxy+}" {
		r.fail(props, "route %s %s: want ANY /{proxy+}, the one that brings unknown paths to the function too", method, path)
	}
	if v := r.text(r.at(props, "PayloadFormatVersion")); v != "" && v != "2.0" {
		r.fail(props, "payload format %s: want 2.0", v)
	}
}

// environment takes from a function's variables what a laptop has to know too.
func (r *reader) environment(p *plan, vars *yaml.Node) {
	if n := r.at(vars, "AUTO_OPEN"); n != nil {
		open, err := strconv.ParseBool(r.text(n))
		if err != nil {
			r.fail(n, "AUTO_OPEN: want true or false")
		}
		p.calendar.AutoOpen = open
	}
	if n := r.at(vars, "SCHEDULE_INPUTS"); n != nil {
		if err := json.Unmarshal([]byte(r.text(n)), &p.calendar.Inputs); err != nil {
			r.fail(n, "SCHEDULE_INPUTS: %w", err)
		}
	}
	// A first month is required of a deployment only: without one there is no calendar to watch here.
	if n := r.at(vars, "CALENDAR_START"); n != nil && (n.Tag != "!Ref" || r.parameters[n.Value] != "") {
		start, err := once.ParsePeriod(r.text(n))
		if err != nil {
			r.fail(n, "CALENDAR_START: %w", err)
		}
		p.calendar.Start = start
	}
}

// checkHandlers tells whether functions and handlers are the same.
func (p *plan) checkHandlers(handlers map[string]lambda.Handler) error {
	var errs []error
	for _, f := range p.functions {
		if handlers[f.name] == nil {
			errs = append(errs, fmt.Errorf("function %s of the template has no handler here", f.name))
		}
	}
	for name := range handlers {
		if !slices.ContainsFunc(p.functions, func(f *function) bool { return f.name == name }) {
			errs = append(errs, fmt.Errorf("handler %s has no function in the template", name))
		}
	}
	return errors.Join(errs...)
}
