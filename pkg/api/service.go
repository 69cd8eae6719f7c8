package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// service does what the contract says on a store and a queue.
type service struct {
	env        job.Env
	zone       *time.Location
	dispatcher *dispatch.Dispatcher
	jobs       *job.Store
	catalog    *catalog.Catalog
	points     *ledger.Ledger
	til        *til.Kind
}

var _ Service = (*service)(nil)

// NewService makes a Service on a store and a queue. zone is the business time zone.
func NewService(env job.Env, zone *time.Location) Service {
	return newService(env, zone)
}

func newService(env job.Env, zone *time.Location) *service {
	return &service{
		env: env, zone: zone,
		dispatcher: dispatch.NewDispatcher(env, monthlypoint.New(env.Store, zone)),
		jobs:       job.NewStore(env.Store, env.Now),
		catalog:    catalog.New(env.Store),
		points:     ledger.New(env.Store, monthlypoint.Table, env.Now),
		til:        til.New(env.Store, zone, nil),
	}
}

// kinds are those whose jobs the API lists, in alphabetical order, which is that of the list within a month.
var kinds = [...]once.Kind{monthlypoint.Name, til.Name}

// accepted is the answer for a job that was opened now, or before by the same request. A message that was not sent is no error of the caller: the job
// is durable, and the reaper sends again.
func (s *service) accepted(ctx context.Context, r dispatch.Result, err error) (Accepted, error) {
	var unsent *queue.Unsent
	if err != nil && (r.Job.ID == "" || !errors.As(err, &unsent)) {
		return Accepted{}, s.errorOf(err)
	}
	if err != nil {
		s.env.Log.WarnContext(ctx, "the job is open, its messages are not sent: the reaper will", "request", request.ID(ctx), "job", r.Job.ID, "error", err)
	}
	logJob(ctx, r.Job.ID)
	j := r.Job
	return Accepted{
		ID: j.ID, Kind: string(j.Kind), Slot: j.Slot, State: string(job.Pending), CreatedAt: j.CreatedAt.UTC(),
		Links: Links{Job: jobPath(j.ID), Cancel: jobPath(j.ID) + "/cancel"},
	}, nil
}

// How long to wait after an answer that says so: as long as a job is old, within bounds, divided by ten; contention passes sooner.
const (
	minRetryAfter  = 1 * time.Second
	maxRetryAfter  = 30 * time.Second
	busyRetryAfter = 2 * time.Second
)

// retryAfter is when it is worth while to look at an active job again: the longer it has been going on, the later.
func (s *service) retryAfter(j job.Job) time.Duration {
	return min(maxRetryAfter, max(minRetryAfter, (s.env.Now().Sub(j.CreatedAt)/10).Truncate(time.Second)))
}

// errorOf turns an error of the engines into one of the contract. One that is not known is a 500 that says nothing; its cause is for the log.
func (s *service) errorOf(err error) error {
	var (
		known  *Error
		active *job.ActiveError
		inputs *job.InputsError
		reused *job.ReusedError
		future *dispatch.FutureError
		busy   *store.Busy
	)
	var e *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &active):
		e = typed(problem(http.StatusConflict, "a job for this target is active: wait until it is over, or cancel it"), TypeActive, "Already active")
		e.Job, e.RetryAfter = refOf(active.Job), s.retryAfter(active.Job)
	case errors.As(err, &inputs):
		e = typed(problem(http.StatusConflict, "the period was opened with another amount before: say changeAmount to change it",
			FieldError{"amount", fmt.Sprintf("was opened with %s before", inputs.Was)}), TypeOtherAmount, "Other amount than before")
	case errors.As(err, &reused):
		e = typed(invalid(idempotencyHeader, "was used with another request, which opened job %s: use a new key", reused.Job), TypeKeyReused, "Idempotency key reused")
	case errors.As(err, &future):
		e = typed(invalid("period", "is scheduled for %s, which lies in the future: say allowFuture if that is meant", future.Scheduled.In(s.zone).Format(time.RFC3339)), TypeFuture, "Period in the future")
	case errors.Is(err, job.ErrNoSuchJob):
		e = noSuchJob()
	case errors.As(err, &busy):
		e = problem(http.StatusServiceUnavailable, "the store is busy and nothing was done: send the same request again")
		e.RetryAfter = busyRetryAfter
	default:
		e = problem(http.StatusInternalServerError, "")
	}
	e.cause = err
	return e
}

func typed(e *Error, typ, title string) *Error {
	e.Type, e.Title = typ, title
	return e
}

func noSuchJob() *Error {
	return problem(http.StatusNotFound, "there is no such job, or it has expired", FieldError{"id", "no such job"})
}
