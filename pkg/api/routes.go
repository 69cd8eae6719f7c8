package api

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// routes makes every route of the service, and their description.
func routes(s Service) (*http.ServeMux, *huma.OpenAPI) {
	mux := http.NewServeMux()
	doc := description()
	api := humago.New(mux, huma.Config{
		OpenAPI:       doc,
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}, // the second for problem+json
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{ours},
	})
	api.UseMiddleware(onlyKnown)
	startRoutes(api, s)
	jobRoutes(api, s)
	resultRoutes(api, s)
	batchRoutes(api, s)
	return mux, doc
}

// ours turns errors that huma makes into our form, without the values that came in, and gives every error the id of the request.
func ours(ctx huma.Context, _ string, v any) (any, error) {
	switch e := v.(type) {
	case *Error:
		return forRequest(ctx.Context(), e), nil
	case *huma.ErrorModel:
		out := problem(e.Status, "")
		for _, d := range e.Errors {
			_, field, ok := strings.Cut(d.Location, ".")
			if !ok {
				field = d.Location
			}
			out.Errors = append(out.Errors, FieldError{short(field), d.Message})
		}
		if len(out.Errors) == 0 {
			out.Errors = []FieldError{{"body", "is missing"}} // the one complaint of huma without a field
		}
		return forRequest(ctx.Context(), out), nil
	}
	return v, nil
}

// onlyKnown refuses query parameters that the route does not have, are empty (huma takes that for absent) or occur twice, and the same of the headers that matter: the first of two
// would be taken silently.
func onlyKnown(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	var wrong []FieldError
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		wrong = append(wrong, FieldError{"query", "is malformed"})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch v := values[name]; {
		case !hasQuery(ctx.Operation(), name):
			wrong = append(wrong, FieldError{short(name), "there is no such query parameter"})
		case len(v) > 1:
			wrong = append(wrong, FieldError{name, "occurs twice"})
		case v[0] == "":
			wrong = append(wrong, FieldError{name, "is empty: leave it out, or give it a value"})
		}
	}
	for _, name := range [...]string{"Content-Type", idempotencyHeader} {
		if len(r.Header.Values(name)) > 1 {
			wrong = append(wrong, FieldError{name, "occurs twice"})
		}
	}
	if v := r.Header.Values(idempotencyHeader); len(v) == 1 && v[0] == "" {
		wrong = append(wrong, FieldError{idempotencyHeader, "is empty: leave it out, or choose a key"})
	}
	if len(wrong) > 0 {
		w.(*answer).problem(r, wrongFields(wrong))
		return
	}
	next(ctx)
}

func hasQuery(op *huma.Operation, name string) bool {
	for _, p := range op.Parameters {
		if p.In == "query" && p.Name == name {
			return true
		}
	}
	return false
}

// failed hands an error of the service to huma, and its cause to the log.
func failed(ctx context.Context, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		e = problem(http.StatusInternalServerError, "")
		e.cause = err
	}
	if e.Job != nil {
		logJob(ctx, e.Job.ID)
	}
	if e.cause != nil {
		logCause(ctx, e.cause)
	}
	return e
}

// acceptedOutput is a 202.
type acceptedOutput struct {
	Location string `header:"Location" doc:"Path of the job"`
	Body     Accepted
}

// workInput is that of a route that opens a job. huma reads embedded structs only if they are exported, so inputs repeat their fields.
type workInput struct {
	Key         string `header:"Idempotency-Key" doc:"Chosen by the caller for this request: printable ASCII, no space at either end. Sent again within 24 hours it gets the answer of the first time and opens nothing; with another request it is refused. Keys belong to the account and role of the caller" minLength:"1" maxLength:"255"`
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

func startRoutes(api huma.API, s Service) {
	register(api, operation{
		id: "startMonthlyPoints", method: http.MethodPost, path: "/v1/monthly-points", tag: "Work", status: http.StatusAccepted,
		summary: "Start or re-run the points of a month", text: "Opens a job. What is granted already stays as it is, so running a period again is always safe.",
		body: StartMonthlyPoints{}, errors: []int{400, 409, 413, 415},
	}, func(ctx context.Context, in *workInput) (*acceptedOutput, error) {
		r := StartMonthlyPoints{IdempotencyKey: in.Key}
		if err := decode(in.ContentType, in.RawBody, &r); err != nil {
			return nil, err
		}
		a, err := s.StartMonthlyPoints(ctx, r)
		return &acceptedOutput{a.Links.Job, a}, err
	})
	register(api, operation{
		id: "requestTil", method: http.MethodPost, path: "/v1/til-generations", tag: "Work", status: http.StatusAccepted,
		summary: "Ask for the summary of a member's day", text: "Opens a job and answers at once; the AI server is called later. While a job is active for the same member and day there is no second one.",
		body: RequestTIL{}, errors: []int{400, 409, 413, 415},
	}, func(ctx context.Context, in *workInput) (*acceptedOutput, error) {
		r := RequestTIL{IdempotencyKey: in.Key}
		if err := decode(in.ContentType, in.RawBody, &r); err != nil {
			return nil, err
		}
		a, err := s.RequestTIL(ctx, r)
		return &acceptedOutput{a.Links.Job, a}, err
	})
}

type jobInput struct {
	ID string `path:"id" doc:"Id of a job" example:"til-01HTCZP1G00000000000000000"`
}

type jobOutput struct {
	Status     int
	ETag       string `header:"ETag" doc:"Strong, of this representation"`
	RetryAfter string `header:"Retry-After" doc:"Seconds until it is worth while to ask again, while the job is active"`
	Body       *Job
}

func jobRoutes(api huma.API, s Service) {
	register(api, operation{
		id: "listJobs", method: http.MethodGet, path: "/v1/jobs", tag: "Jobs",
		summary: "List jobs", text: "The newest month first, in a month by kind, of a kind the newest first. A page may be short, or empty, and have a next.", errors: []int{400},
	}, func(ctx context.Context, in *struct {
		Kind   string `query:"kind" doc:"Only this kind" enum:"monthly-point,til"`
		State  string `query:"state" doc:"Only this state" enum:"PENDING,RUNNING,COMPLETED,FAILED,CANCELLED"`
		Month  string `query:"month" doc:"Only jobs created in this month in UTC" example:"2024-04"`
		Cursor string `query:"cursor" doc:"next of the page before, with the other parameters as they were"`
		Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Most items of the page"`
	}) (*struct{ Body JobList }, error) {
		l, err := s.Jobs(ctx, JobsQuery{in.Kind, in.State, in.Month, in.Cursor, in.Limit})
		return &struct{ Body JobList }{l}, err
	})
	register(api, operation{
		id: "getJob", method: http.MethodGet, path: "/v1/jobs/{id}", tag: "Jobs",
		summary: "Progress of a job", text: "While the job is active the answer has Retry-After. With If-None-Match it is 304 as long as nothing has changed.", errors: []int{404}, notModified: true,
	}, func(ctx context.Context, in *struct {
		ID          string `path:"id" doc:"Id of a job" example:"til-01HTCZP1G00000000000000000"`
		IfNoneMatch string `header:"If-None-Match" doc:"ETags of earlier answers"`
	}) (*jobOutput, error) {
		a, err := s.Job(ctx, in.ID, "")
		if err != nil {
			return nil, err
		}
		out := &jobOutput{Status: http.StatusOK, ETag: a.ETag, Body: &a.Job}
		if a.RetryAfter > 0 {
			out.RetryAfter = strconv.Itoa(int(a.RetryAfter.Seconds()))
		}
		if matches(in.IfNoneMatch, a.ETag) {
			out.Status = http.StatusNotModified
		}
		return out, nil
	})
	register(api, operation{
		id: "listFailures", method: http.MethodGet, path: "/v1/jobs/{id}/failures", tag: "Jobs",
		summary: "Subjects that a job settled as failed", text: "In byte order. A page may be short, or empty, and have a next.", errors: []int{400, 404},
	}, func(ctx context.Context, in *struct {
		ID     string `path:"id" doc:"Id of a job" example:"til-01HTCZP1G00000000000000000"`
		Cursor string `query:"cursor" doc:"next of the page before, with the other parameters as they were"`
		Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Most items of the page"`
	}) (*struct{ Body FailureList }, error) {
		l, err := s.Failures(ctx, FailuresQuery{in.ID, in.Cursor, in.Limit})
		return &struct{ Body FailureList }{l}, err
	})
	register(api, operation{
		id: "cancelJob", method: http.MethodPost, path: "/v1/jobs/{id}/cancel", tag: "Jobs",
		summary: "Cancel a job", text: "200: it is cancelled. 202: it is ending, and its end comes by itself. 409: it is over in another way. What it has applied stays.", errors: []int{400, 404, 409, 413}, also: http.StatusAccepted,
	}, func(ctx context.Context, in *jobInput) (*struct {
		Status int
		Body   Job
	}, error) {
		j, err := s.Cancel(ctx, in.ID)
		out := &struct {
			Status int
			Body   Job
		}{http.StatusOK, j}
		if j.Active() {
			out.Status = http.StatusAccepted
		}
		return out, err
	})
}

func resultRoutes(api huma.API, s Service) {
	register(api, operation{
		id: "getPoints", method: http.MethodGet, path: "/v1/members/{id}/points", tag: "Results",
		summary: "Balance of a member, and the entries behind it", text: "The balance is that of now, whatever the page.", errors: []int{400, 404},
	}, func(ctx context.Context, in *struct {
		ID     string `path:"id" doc:"Id of a member" example:"member-42"`
		Cursor string `query:"cursor" doc:"next of the page before, with the other parameters as they were"`
		Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"Most items of the page"`
	}) (*struct{ Body Points }, error) {
		p, err := s.Points(ctx, PointsQuery{in.ID, in.Cursor, in.Limit})
		return &struct{ Body Points }{p}, err
	})
	register(api, operation{
		id: "getTil", method: http.MethodGet, path: "/v1/tils/{memberId}/{date}", tag: "Results",
		summary: "Published summary of a member's day", text: "404 until the first one is published.", errors: []int{404},
	}, func(ctx context.Context, in *struct {
		MemberID string `path:"memberId" example:"member-42"`
		Date     string `path:"date" doc:"A day in the business time zone" example:"2024-04-15"`
	}) (*struct{ Body TIL }, error) {
		t, err := s.TIL(ctx, in.MemberID, in.Date)
		return &struct{ Body TIL }{t}, err
	})
}

// matches tells whether a list of ETags names one, weak or not (RFC 9110, 13.1.2). What is malformed matches nothing.
func matches(list, etag string) bool {
	if strings.TrimSpace(list) == "*" {
		return true
	}
	for list != "" {
		list = strings.TrimLeft(list, " \t,")
		list = strings.TrimPrefix(list, "W/")
		rest, ok := strings.CutPrefix(list, `"`)
		if !ok {
			return false
		}
		value, after, ok := strings.Cut(rest, `"`)
		if !ok {
			return false
		}
		if `"`+value+`"` == etag {
			return true
		}
		list = after
	}
	return false
}
