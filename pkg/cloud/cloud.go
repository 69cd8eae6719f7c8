// Package cloud is the Lambda side of hanbeon: the configuration of a function from its environment, and what it works with, made from that.
//
// It is the only reader of the environment and the only builder of AWS clients. Every variable it reads is declared in template.yaml; none has a default, so that a
// function that was given no table or no queue stops at its start and says which, instead of working on another one.
package cloud

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
	_ "time/tzdata" // the runtime of a function has no zone data

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sqs"
	"hanbeon/pkg/store"
)

// Needs says what a function works with. For each table and queue it reads one variable: TABLE_JOBS, QUEUE_MONTHLY_POINT.
type Needs struct {
	Tables   []store.Table
	Ledgers  []store.Table // tables that are written only in transactions
	Queues   []queue.Name
	Calendar bool // the reaper's watch: CALENDAR_START, AUTO_OPEN, SCHEDULE_INPUTS

	// Model makes the client of the AI server (hanbeon/pkg/cloud/aiserver), with AI_BASE_URL, AI_MODEL, AI_KEY_SECRET and AI_TIMEOUT; nil needs none of them. It is a function, and not one of this package, so that only
	// a main that names it carries that client and the one of Secrets Manager.
	Model func(ModelConfig) (Model, error)
}

// Function is what a main wires its engine with.
type Function struct {
	job.Env
	Zone     *time.Location // the business time zone
	Calendar job.Calendar   // zero unless needed
	Model    Model          // nil unless needed
}

// MustLoad makes what the function needs from the environment of the process. If that is not complete it logs every variable that is missing or wrong and exits with 1.
func MustLoad(needs Needs) *Function {
	f, err := Load(os.LookupEnv, needs, os.Stdout)
	if err != nil {
		newLog(os.Stdout, slog.LevelError).Error("the environment of this function is not complete", "problems", problems(err))
		os.Exit(1)
	}
	return f
}

// Load is MustLoad on any environment and output. Its error joins one error per variable, each of which begins with the name.
func Load(lookup func(string) (string, bool), needs Needs, out io.Writer) (*Function, error) {
	env := &environment{lookup: lookup}
	tables := map[store.Table]string{}
	for _, t := range append(needs.Tables[:len(needs.Tables):len(needs.Tables)], needs.Ledgers...) {
		tables[t] = env.table("TABLE_" + upper(string(t)))
	}
	queues := map[queue.Name]string{}
	for _, q := range needs.Queues {
		queues[q] = env.url("QUEUE_" + upper(string(q)))
	}
	f := &Function{Zone: env.zone("BUSINESS_ZONE")}
	if needs.Calendar {
		f.Calendar = job.Calendar{Start: env.period("CALENDAR_START"), AutoOpen: env.flag("AUTO_OPEN"), Inputs: env.inputs("SCHEDULE_INPUTS")}
	}
	var model ModelConfig
	if needs.Model != nil {
		model = env.model()
	}
	level := env.level("LOG_LEVEL")
	cfg := env.aws()
	onDynamoDB, onSQS := env.endpoint("AWS_ENDPOINT_URL_DYNAMODB"), env.endpoint("AWS_ENDPOINT_URL_SQS")
	if err := env.err(); err != nil {
		return nil, err
	}

	out = &lockedWriter{w: out}
	log := newLog(out, level)
	db, err := dynamo.New(dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.BaseEndpoint = onDynamoDB }), dynamo.Config{Tables: tables, Ledgers: needs.Ledgers, Log: log})
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	f.Env = job.Env{
		Store:  db,
		Queue:  sqs.New(awssqs.NewFromConfig(cfg, func(o *awssqs.Options) { o.BaseEndpoint = onSQS }), queues),
		Now:    now,
		Log:    log,
		Metric: newMetric(out, now),
	}
	if needs.Model != nil {
		model.AWS, model.Now, model.Log = cfg, now, log
		if f.Model, err = needs.Model(model); err != nil {
			return nil, fmt.Errorf("AI_BASE_URL, AI_MODEL: %w", err)
		}
	}
	return f, nil
}

// now is the clock of everything stored: UTC in whole milliseconds, the precision in which times are written.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// lockedWriter keeps the lines of log and metrics whole: they share one output.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
