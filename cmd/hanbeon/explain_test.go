package main_test

import (
	"context"
	"errors"
	"testing"
	"time"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/api"
)

// Every error of an API is one line that says what to do. A 403 of AWS says nothing itself.
func TestErrorsOfTheAPISayWhatToDo(t *testing.T) {
	t.Parallel()
	job := &api.JobRef{ID: "til-X", Kind: "til", Slot: "til:member-1:2024-04-15", State: "RUNNING", Link: "/v1/jobs/til-X"}
	over := &api.JobRef{ID: "til-X", State: "COMPLETED"}
	for _, c := range []struct {
		name   string
		err    error
		want   string
		misuse bool
	}{
		{"a job is active", &api.Error{Type: api.TypeActive, Status: 409, Job: job},
			"job til-X is RUNNING in slot til:member-1:2024-04-15: wait until it is over (hanbeon watch til-X), or cancel it: hanbeon cancel til-X", false},
		{"a job is over", &api.Error{Type: api.TypeOver, Status: 409, Job: over}, "job til-X is COMPLETED already and cannot be cancelled", false},
		{"a job is ending", &api.Error{Type: api.TypeOver, Status: 409, Job: job}, "job til-X is RUNNING, ending in another way, and cannot be cancelled", false},
		{"another amount", &api.Error{Type: api.TypeOtherAmount, Status: 409, Errors: []api.FieldError{{Field: "amount", Message: `was opened with {"amount":1} before`}}},
			`--amount: the period was opened with {"amount":1} before: use that, or --change-amount; members granted already would then be failures (conflicting-entry)`, true},
		{"the future", &api.Error{Type: api.TypeFuture, Status: 422, Errors: []api.FieldError{{Field: "period", Message: "is scheduled for tomorrow"}}},
			"--period: is scheduled for tomorrow: wait, or allow it by --allow-future", true},
		{"two fields", &api.Error{Status: 422, Title: "Unprocessable Entity", Errors: []api.FieldError{{Field: "date", Message: "is a wish"}, {Field: "memberId", Message: "is unknown"}}},
			"date: is a wish; memberId: is unknown", true},
		{"a body that is none", &api.Error{Status: 400, Title: "Bad Request", Detail: "not JSON"}, "not JSON", true},
		{"nothing there", &api.Error{Status: 404, Title: "Not Found", Errors: []api.FieldError{{Field: "id", Message: "no such job"}}}, "id: no such job in https://api.example", false},
		{"too many", &api.Error{Status: 429, Title: "Too Many Requests", Detail: "Too Many Requests"},
			"https://api.example: nothing was done, repeat the command: 429 Too Many Requests: Too Many Requests", false},
		{"a fault", &api.Error{Status: 500, Title: "Internal Server Error", RequestID: "R1"},
			"https://api.example: 500 Internal Server Error (request R1): it is not known whether the request was carried out, repeating it is safe", false},
		{"another", &api.Error{Status: 415, Title: "Unsupported Media Type"}, "https://api.example: 415 Unsupported Media Type", false},
		{"no answer", errors.New("connection refused"), "no answer from https://api.example: connection refused: it is not known whether the request was carried out, repeating it is safe", false},
		{"interrupted", context.Canceled, "context canceled", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, misuse := main.Explain(false, c.err); got != c.want || misuse != c.misuse {
				t.Errorf("explained as %q (misuse %t), want %q (%t)", got, misuse, c.want, c.misuse)
			}
		})
	}
	forbidden := &api.Error{Status: 403, Title: "Forbidden", Detail: "Forbidden", RetryAfter: time.Second}
	for deployed, want := range map[bool]string{
		true: "https://api.example refuses the request (403 Forbidden): check that the credentials above may execute-api:Invoke it, that the clock is right to five minutes, and that address and region are those of the API; " +
			"inside a VPC with an endpoint for execute-api, its private DNS takes over these names: use a custom domain",
		false: "https://api.example refuses the key beside the data file (403 Forbidden): another process listens at this address, or the clock of this machine was set: start hanbeon local again",
	} {
		if got, _ := main.Explain(deployed, forbidden); got != want {
			t.Errorf("403, deployed %t: %q, want %q", deployed, got, want)
		}
	}
}
