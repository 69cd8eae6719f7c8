package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"hanbeon/pkg/api/request"
)

// OpenAPI is the description of the API, OpenAPI 3.1 in JSON, made from the routes themselves. It is the same text for the same code.
func OpenAPI() ([]byte, error) {
	_, doc := routes(nil)
	tidy(doc)
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), err
}

// tidy removes what huma says too much: its own form of errors, which we never answer, and that an answer has no other fields, which the next version
// may make untrue. Requests have no others.
func tidy(doc *huma.OpenAPI) {
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	asked := map[string]bool{}
	for _, t := range [...]reflect.Type{reflect.TypeFor[StartMonthlyPoints](), reflect.TypeFor[RequestTIL](), reflect.TypeFor[putMembers](), reflect.TypeFor[Member](), reflect.TypeFor[putNotes](), reflect.TypeFor[Note]()} {
		asked[huma.DefaultSchemaNamer(t, "")] = true
	}
	for name, s := range schemas {
		if !asked[name] {
			s.AdditionalProperties = nil
		}
	}
}

// description is the document without its routes.
func description() *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "hanbeon", Version: "1",
			Description: "Scheduled and requested work, each piece of which takes effect exactly once. Errors are problem details (RFC 9457) in application/problem+json; those that the gateway answers by itself are {\"message\": \"...\"}.",
		},
		Servers:  []*huma.Server{{URL: "/"}},
		Security: []map[string][]string{{"sigv4": {}}},
		Components: &huma.Components{
			Schemas:   huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			Responses: map[string]*huma.Response{},
			SecuritySchemes: map[string]*huma.SecurityScheme{"sigv4": {
				Type: "apiKey", Name: "Authorization", In: "header",
				Description: "AWS Signature Version 4 (AWS4-HMAC-SHA256) for the service execute-api, by an IAM principal that may call the route",
				Extensions:  map[string]any{"x-amazon-apigateway-authtype": "awsSigv4"},
			}},
		},
		Tags: []*huma.Tag{
			{Name: "Work", Description: "Open a job"},
			{Name: "Jobs", Description: "Look at jobs, and end them"},
			{Name: "Results", Description: "What jobs have made"},
			{Name: "Data", Description: "What jobs read"},
		},
	}
}

// operation describes one route.
type operation struct {
	id, method, path, tag, summary, text string

	status      int   // of success, 200 unless set
	also        int   // another success with the same body, 0 for none
	notModified bool  // it may answer 304
	body        any   // of the request, a value of its type; nil for none
	errors      []int // that this route answers beside those of every route
}

// always are the errors of every route: 403 and 429 are the gateway's.
var always = [...]int{403, 405, 422, 429, 500, 503}

// register adds a route with all that it can answer.
func register[I, O any](api huma.API, o operation, serve func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Tags: []string{o.tag}, Summary: o.summary, Description: o.text, DefaultStatus: o.status,
		MaxBodyBytes: request.MaxBody + 1, SkipValidateBody: true, Responses: map[string]*huma.Response{},
	}
	components := api.OpenAPI().Components
	for _, status := range append(always[:], o.errors...) {
		name := strconv.Itoa(status)
		if components.Responses[name] == nil {
			components.Responses[name] = errorResponse(components.Schemas, status)
		}
		op.Responses[name] = &huma.Response{Ref: "#/components/responses/" + name}
	}
	if o.body != nil {
		op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{}}
	}
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := serve(ctx, in)
		if err != nil {
			return nil, failed(ctx, err)
		}
		return out, nil
	})
	if o.body != nil { // what huma wrote there is that the body is bytes
		op.RequestBody.Content["application/json"] = &huma.MediaType{Schema: components.Schemas.Schema(reflect.TypeOf(o.body), true, "")}
	}
	success := op.Responses[strconv.Itoa(max(o.status, http.StatusOK))]
	if o.also != 0 {
		op.Responses[strconv.Itoa(o.also)] = &huma.Response{Description: http.StatusText(o.also), Content: success.Content, Headers: success.Headers}
	}
	if o.notModified {
		op.Responses["304"] = &huma.Response{Description: http.StatusText(http.StatusNotModified), Headers: map[string]*huma.Param{"ETag": success.Headers["ETag"]}}
	}
	for _, r := range op.Responses {
		if r.Ref == "" {
			if r.Headers == nil {
				r.Headers = map[string]*huma.Param{}
			}
			r.Headers[request.IDHeader] = idOfRequest()
		}
	}
}

func idOfRequest() *huma.Param { return textHeader("Id of the request, also in the log") }

func textHeader(description string) *huma.Param {
	return &huma.Header{Description: description, Schema: &huma.Schema{Type: "string"}}
}

// errorResponse describes an error. The gateway answers some by itself, in its own form.
func errorResponse(schemas huma.Registry, status int) *huma.Response {
	r := &huma.Response{
		Description: http.StatusText(status),
		Content:     map[string]*huma.MediaType{problemJSON: {Schema: schemas.Schema(reflect.TypeFor[Error](), true, "")}},
		Headers:     map[string]*huma.Param{request.IDHeader: idOfRequest()},
	}
	switch status {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		delete(r.Headers, request.IDHeader)
		r.Content["application/json"] = &huma.MediaType{Schema: schemas.Schema(reflect.TypeFor[GatewayError](), true, "")}
	}
	switch status {
	case http.StatusConflict, http.StatusServiceUnavailable:
		r.Headers["Retry-After"] = textHeader("Seconds")
	case http.StatusMethodNotAllowed:
		r.Headers["Allow"] = textHeader("Methods of this path")
	}
	if status == http.StatusConflict {
		r.Headers["Location"] = textHeader("Path of the job that is in the way, or over")
	}
	return r
}

// GatewayError is what the gateway answers by itself: to a caller it does not let in, or too often.
type GatewayError struct {
	Message string `json:"message"`
}
