package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"hanbeon/pkg/jsonobject"
)

// decode reads the body into a flat struct of text, int64 and bool fields. encoding/json alone would take a field in other case, the last of two,
// null, 1e3 for 1000, and what follows the object. Errors: 415; 400 for what is no JSON object; 422 that names every field that is wrong.
func decode(contentType string, body []byte, v any) error {
	fields, err := objectOf(contentType, body)
	if err != nil {
		return err
	}
	if wrong := fill(fields, reflect.ValueOf(v).Elem()); len(wrong) > 0 {
		return wrongFields(wrong)
	}
	return nil
}

// maxWrong is how many fields an answer names: a request can have more than an answer.
const maxWrong = 20

func wrongFields(wrong []FieldError) *Error {
	return problem(http.StatusUnprocessableEntity, "", wrong[:min(len(wrong), maxWrong)]...)
}

// listOf reads a body of one field, a list of at most MaxItems, and leaves the items as they are.
func listOf(contentType string, body []byte, name string) ([]json.RawMessage, error) {
	fields, err := objectOf(contentType, body)
	if err != nil {
		return nil, err
	}
	var items []json.RawMessage
	var wrong []FieldError
	found := false
	for _, f := range fields {
		switch {
		case f.Name != name:
			wrong = append(wrong, unknownField(f.Name))
		case found:
			wrong = append(wrong, FieldError{name, "occurs twice"})
		default:
			var message string
			if items, message = itemsOf(f.Value); message != "" {
				wrong = append(wrong, FieldError{name, message})
			}
		}
		found = found || f.Name == name
	}
	if !found {
		wrong = append(wrong, FieldError{name, "is missing"})
	}
	if len(wrong) > 0 {
		return nil, wrongFields(wrong)
	}
	return items, nil
}

// itemsOf splits a JSON list, or says what is wrong with it. It stops where there are too many: a body has room for millions.
func itemsOf(list json.RawMessage) (items []json.RawMessage, wrong string) {
	dec := json.NewDecoder(bytes.NewReader(list))
	if t, err := dec.Token(); err != nil || t != json.Delim('[') {
		return nil, "want a list"
	}
	for dec.More() {
		if len(items) == MaxItems {
			return nil, fmt.Sprintf("has more than %d items", MaxItems)
		}
		var item json.RawMessage
		if dec.Decode(&item) != nil {
			return nil, "want a list"
		}
		items = append(items, item)
	}
	return items, ""
}

func objectOf(contentType string, body []byte) ([]jsonobject.Field, error) {
	media, params, err := mime.ParseMediaType(contentType)
	if charset := params["charset"]; err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, problem(http.StatusUnsupportedMediaType, "", FieldError{"Content-Type", "want application/json, in UTF-8"})
	}
	fields, err := jsonobject.Split(body)
	if err != nil {
		return nil, badBody(err.Error())
	}
	return fields, nil
}

func badBody(message string) *Error {
	return problem(http.StatusBadRequest, "", FieldError{"body", message})
}

// fill sets the fields of a struct by their json tags and says what is wrong.
func fill(fields []jsonobject.Field, v reflect.Value) (wrong []FieldError) {
	times := map[string]int{}
	given := map[string]json.RawMessage{}
	for _, f := range fields {
		if times[f.Name]++; times[f.Name] == 2 {
			wrong = append(wrong, FieldError{short(f.Name), "occurs twice"})
		}
		given[f.Name] = f.Value
	}
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		value, ok := given[name]
		delete(given, name)
		message := ""
		switch {
		case ok:
			message = set(v.Field(i), value)
		case options != "omitempty":
			message = "is missing"
		}
		if message != "" {
			wrong = append(wrong, FieldError{name, message})
		}
	}
	for _, f := range fields { // in the order of the text
		if _, left := given[f.Name]; left {
			delete(given, f.Name)
			wrong = append(wrong, unknownField(f.Name))
		}
	}
	return wrong
}

// set gives a field a JSON value, or says what is wrong with it.
func set(field reflect.Value, value json.RawMessage) string {
	text := string(value)
	switch field.Kind() {
	case reflect.String:
		if value[0] != '"' || json.Unmarshal(value, field.Addr().Interface()) != nil {
			return "want text"
		}
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "want an integer in plain digits: no fraction, no exponent, no quotes"
		}
		field.SetInt(n)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return "want true or false"
		}
		field.SetBool(text == "true")
	default:
		panic("a field of a request is text, int64 or bool, not " + field.Kind().String())
	}
	return ""
}

func unknownField(name string) FieldError {
	return FieldError{short(name), "there is no such field; names are compared byte by byte"}
}

// maxEcho is how much of a value that came in an answer may repeat, in bytes.
const maxEcho = 80

// short is the beginning of a text that came in.
func short(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	cut := maxEcho - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
