package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
)

// explain makes one line of an error of the target that says what to do. What is wrong with the request itself is misuse: nothing was done.
func (t *target) explain(err error) error {
	var e *api.Error
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &e):
		if t.store != nil {
			return err
		}
		return fmt.Errorf("no answer from %s: %w: it is not known whether the request was carried out, repeating it is safe", t.where, err)
	case e.Type == api.TypeActive && e.Job != nil:
		return fmt.Errorf("job %s is %s in slot %s: wait until it is over (hanbeon watch %s), or cancel it: hanbeon cancel %s", e.Job.ID, e.Job.State, e.Job.Slot, e.Job.ID, e.Job.ID)
	case e.Type == api.TypeOver && e.Job != nil:
		return fmt.Errorf("job %s is %s%s and cannot be cancelled", e.Job.ID, e.Job.State, alreadyOver(e.Job.State))
	case e.Type == api.TypeOtherAmount:
		return misuse("--amount: the period %s: use that, or --change-amount; members granted already would then be failures (%s)",
			strings.TrimPrefix(said(e), "amount: "), job.ReasonConflictingEntry)
	case e.Type == api.TypeFuture:
		return misuse("--%s: wait, or allow it by --allow-future", said(e))
	case e.Status == http.StatusForbidden:
		return t.forbidden(e)
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnprocessableEntity:
		return misuse("%s", said(e))
	case e.Status == http.StatusNotFound:
		return fmt.Errorf("%s in %s", said(e), t.where)
	case e.Status == http.StatusServiceUnavailable, e.Status == http.StatusTooManyRequests:
		return fmt.Errorf("%s: nothing was done, repeat the command: %w", t.where, e)
	case t.store != nil && errors.Unwrap(e) != nil:
		return errors.Unwrap(e) // of this process: it keeps no secrets from its own operator
	case e.Status >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %w: it is not known whether the request was carried out, repeating it is safe", t.where, e)
	}
	return fmt.Errorf("%s: %w", t.where, e)
}

// explainJob is explain for a question about one job.
func (t *target) explainJob(err error, id string) error {
	if notFound(err) {
		return fmt.Errorf("%w: %s in %s: see hanbeon jobs", job.ErrNoSuchJob, id, t.where)
	}
	return t.explain(err)
}

func notFound(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

func alreadyOver(state string) string {
	if job.State(state).Active() {
		return ", ending in another way,"
	}
	return " already"
}

// said is what the API says of a request: field by field where it names any, else the detail, else the title.
func said(e *api.Error) string {
	var parts []string
	for _, f := range e.Errors {
		parts = append(parts, f.Field+": "+f.Message)
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case e.Detail != "":
		return e.Detail
	}
	return e.Title
}

// forbidden says what to look at. An API on AWS answers 403 before any of our code runs, and does not say why.
func (t *target) forbidden(e *api.Error) error {
	if !t.deployed {
		return fmt.Errorf("%s refuses the key beside the data file (403 %s): another process listens at this address, or the clock of this machine was set: start hanbeon local again", t.where, said(e))
	}
	return fmt.Errorf("%s refuses the request (403 %s): check that the credentials above may execute-api:Invoke it, that the clock is right to five minutes, and that address and region are those of the API; "+
		"inside a VPC with an endpoint for execute-api, its private DNS takes over these names: use a custom domain", t.where, said(e))
}
