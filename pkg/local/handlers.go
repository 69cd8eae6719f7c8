package local

import (
	"context"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/gateway"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/worker"
)

// dispatcherName is the function that Fire invokes.
const dispatcherName = "dispatcher"

// wiring is what a handler is made from. The names are those of the configuration of the functions, so that the lines below are theirs, word for word.
type wiring struct {
	job.Env
	Zone     *time.Location
	Calendar job.Calendar
	Model    til.Model
}

// handlers are those of the functions, by name.
func handlers(c wiring) map[string]lambda.Handler {
	return map[string]lambda.Handler{
		"api":           apiHandler(c),
		dispatcherName:  dispatcherHandler(c),
		"fanout":        fanoutHandler(c),
		"monthly-point": monthlyPointHandler(c),
		"reaper":        reaperHandler(c),
		"til":           tilHandler(c),
	}
}

// environments runs a function as Lambda does, one invocation at a time in each environment: aws-lambda-go (1.55) hands the buffer of an answer to the next invocation
// of the same lambda.Handler before the caller has read it, so two at once must not share one.
type environments struct{ function any }

// Invoke implements lambda.Handler.
func (e environments) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	return lambda.NewHandler(e.function).Invoke(ctx, payload)
}

func apiHandler(c wiring) lambda.Handler {
	handler := gateway.New(api.New(c.Env, c.Zone), c.Log).Handle
	return environments{handler}
}

func dispatcherHandler(c wiring) lambda.Handler {
	handler := dispatch.NewDispatcher(c.Env, kinds.All(c.Store, c.Zone)...).Handle
	return environments{handler}
}

func fanoutHandler(c wiring) lambda.Handler {
	handler := dispatch.NewFanout(c.Env, kinds.All(c.Store, c.Zone)...).Handle
	return environments{handler}
}

func monthlyPointHandler(c wiring) lambda.Handler {
	handler := worker.NewBulk(c.Env, monthlypoint.New(c.Store, c.Zone)).Handle
	return environments{handler}
}

func reaperHandler(c wiring) lambda.Handler {
	handler := reaper.New(c.Env, c.Calendar, kinds.All(c.Store, c.Zone)...).Handle
	return environments{handler}
}

func tilHandler(c wiring) lambda.Handler {
	handler := worker.NewSingle(c.Env, til.New(c.Store, c.Zone, c.Model)).Handle
	return environments{handler}
}

// recovery is what a stack does first on a store that has been used before.
func recovery(c wiring) func(context.Context) error {
	return reaper.New(c.Env, c.Calendar, kinds.All(c.Store, c.Zone)...).Recover
}
