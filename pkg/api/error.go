package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Types of problems that a caller may want to tell apart where the status alone does not. All others are TypeBlank.
const (
	TypeBlank       = "about:blank"
	TypeActive      = "urn:hanbeon:problem:active"       // 409: the slot is held by Error.Job; try again when that is over
	TypeOver        = "urn:hanbeon:problem:over"         // 409: Error.Job is over, or about to be
	TypeOtherAmount = "urn:hanbeon:problem:other-amount" // 409: the period was opened with another amount before
	TypeFuture      = "urn:hanbeon:problem:future"       // 422: the scheduled time of the period has not come
	TypeKeyReused   = "urn:hanbeon:problem:key-reused"   // 422: the Idempotency-Key came with another request before
)

// Error is what the API answers instead of success: problem details (RFC 9457), with what is wrong field by field, and the job that is in the way.
// Status 503 with a RetryAfter means that nothing was done. After any other 5xx the request may have been carried out. In both cases the same request
// again is right, for every route: with an Idempotency-Key it gets the first answer, without one at worst a 409 with the job.
type Error struct {
	Type      string       `json:"type" format:"uri-reference" example:"about:blank"`
	Title     string       `json:"title" example:"Unprocessable Entity" doc:"Text of the type, or of the status"`
	Status    int          `json:"status" example:"422"`
	Detail    string       `json:"detail,omitempty"`
	Errors    []FieldError `json:"errors,omitempty" nullable:"false" doc:"What is wrong, field by field"`
	Job       *JobRef      `json:"job,omitempty" doc:"Of 409: the job that is in the way, or over"`
	RequestID string       `json:"requestId,omitempty" doc:"Also in the header X-Request-Id and in the log"`

	RetryAfter time.Duration `json:"-"` // of the header, whole seconds; 0: none

	allow string // of the header, of 405
	cause error  // for the log of the service only
}

// FieldError is one thing that is wrong with a request.
type FieldError struct {
	Field   string `json:"field" example:"date" doc:"Name of the field, parameter or header; body for the body as a whole"`
	Message string `json:"message" doc:"What is wrong; never the value itself in full"`
}

// JobRef is a job as a problem names it.
type JobRef struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"`
	Slot  string `json:"slot"`
	State string `json:"state" enum:"PENDING,RUNNING,COMPLETED,FAILED,CANCELLED"`
	Link  string `json:"link" example:"/v1/jobs/til-01HTCZP1G00000000000000000"`
}

// Error says status, detail and fields in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", e.Status, e.Title)
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, f := range e.Errors {
		fmt.Fprintf(&b, "; %s: %s", f.Field, f.Message)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap is what went wrong inside the service, nil from the client.
func (e *Error) Unwrap() error { return e.cause }

// Field tells whether the error names a field.
func (e *Error) Field(name string) bool {
	for _, f := range e.Errors {
		if f.Field == name {
			return true
		}
	}
	return false
}

// GetStatus makes huma answer with this status.
func (e *Error) GetStatus() int { return e.Status }

// ContentType makes huma answer with the media type of problem details.
func (e *Error) ContentType(string) string { return problemJSON }

// GetHeaders are the headers of the answer.
func (e *Error) GetHeaders() http.Header {
	h := http.Header{}
	if e.Job != nil {
		h.Set("Location", e.Job.Link)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(e.RetryAfter/time.Second)))
	}
	if e.allow != "" {
		h.Set("Allow", e.allow)
	}
	return h
}

// problemJSON is the media type of every error.
const problemJSON = "application/problem+json"

// problem is an error of type about:blank.
func problem(status int, detail string, fields ...FieldError) *Error {
	return &Error{Type: TypeBlank, Title: http.StatusText(status), Status: status, Detail: detail, Errors: fields}
}

// invalid is the 422 that names one field.
func invalid(field, format string, args ...any) *Error {
	return problem(http.StatusUnprocessableEntity, "", FieldError{field, fmt.Sprintf(format, args...)})
}
