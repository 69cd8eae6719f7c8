package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"hanbeon/pkg/jsonobject"
)

// putMembers is the body of POST /v1/members.
type putMembers struct {
	Members []Member `json:"members" nullable:"false" maxItems:"500" doc:"Each is put by itself"`
}

// putNotes is the body of POST /v1/notes.
type putNotes struct {
	Notes []Note `json:"notes" nullable:"false" maxItems:"500" doc:"Each is put by itself"`
}

// batchInput is that of both.
type batchInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/json"`
}

// putResults is the answer to both.
type putResults struct {
	Results []PutResult `json:"results" nullable:"false" doc:"One per item, in their order"`
}

const batchText = "Each item is put by itself and answered in its place: one that is wrong in any way keeps no other back. The same request again is always right."

func batchRoutes(api huma.API, s Service) {
	register(api, operation{
		id: "putMembers", method: http.MethodPost, path: "/v1/members", tag: "Data",
		summary: "Add or change members", text: batchText, body: putMembers{}, errors: []int{400, 413, 415},
	}, func(ctx context.Context, in *batchInput) (*struct{ Body putResults }, error) {
		results, err := putEach(ctx, in, "members", func(m Member) string { return m.ID }, s.PutMembers)
		return &struct{ Body putResults }{putResults{results}}, err
	})
	register(api, operation{
		id: "putNotes", method: http.MethodPost, path: "/v1/notes", tag: "Data",
		summary: "Add or change notes", text: batchText, body: putNotes{}, errors: []int{400, 413, 415},
	}, func(ctx context.Context, in *batchInput) (*struct{ Body putResults }, error) {
		results, err := putEach(ctx, in, "notes", func(n Note) string { return n.ID }, s.PutNotes)
		return &struct{ Body putResults }{putResults{results}}, err
	})
}

// putEach puts the items that can be read; what is wrong with the others is answered in their places.
func putEach[T any](ctx context.Context, in *batchInput, field string, id func(T) string, put func(context.Context, []T) ([]PutResult, error)) ([]PutResult, error) {
	raw, err := listOf(in.ContentType, in.RawBody, field)
	if err != nil {
		return nil, err
	}
	results := make([]PutResult, len(raw))
	var good []T
	var at []int
	for i, text := range raw {
		var item T
		if wrong := read(text, &item); wrong != nil {
			results[i] = refused(id(item), wrong.Field, wrong.Message)
			continue
		}
		good, at = append(good, item), append(at, i)
	}
	done, err := put(ctx, good)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		results[i] = done[n]
	}
	return results, nil
}

// read reads one item into a flat struct; of several faults it returns the first.
func read(text json.RawMessage, v any) *FieldError {
	if text[0] != '{' {
		return &FieldError{"item", "want a JSON object"}
	}
	fields, err := jsonobject.Split(text)
	if err != nil {
		return &FieldError{"item", err.Error()}
	}
	if wrong := fill(fields, reflect.ValueOf(v).Elem()); len(wrong) > 0 {
		return &wrong[0]
	}
	return nil
}

func refused(id, field, message string) PutResult {
	return PutResult{ID: short(id), Outcome: Refused, Field: field, Message: message}
}
