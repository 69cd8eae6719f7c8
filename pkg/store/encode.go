package store

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// encodeStruct gives the fields of a struct under their json tags, as encoding/json would. Texts, integers, bools and times, which is what items are mostly made of, are taken
// directly: a round trip through JSON costs three times as much, and a worker encodes an entry per grant. Whatever else there is takes that way.
func encodeStruct(v reflect.Value) (Attrs, error) {
	t := v.Type()
	out := make(Attrs, t.NumField())
	for i := range t.NumField() {
		name, options, ok := attribute(t.Field(i))
		if !ok || left(options, v.Field(i)) {
			continue
		}
		e, err := encodeField(v.Field(i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if e != nil {
			out[name] = e
		}
	}
	return out, nil
}

// attribute is the name under which a field is stored and the options of its tag; ok is false for a field that is not.
func attribute(f reflect.StructField) (name, options string, ok bool) {
	tag := f.Tag.Get("json")
	name, options, _ = strings.Cut(tag, ",")
	if name == "" {
		name = f.Name
	}
	return name, options, f.IsExported() && tag != "-"
}

// left tells whether omitempty or omitzero leaves a field out.
func left(options string, v reflect.Value) bool {
	if options == "" {
		return false
	}
	if strings.Contains(options, "omitempty") {
		switch v.Kind() {
		case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
			return v.Len() == 0
		case reflect.Struct:
		default:
			return v.IsZero()
		}
	}
	if strings.Contains(options, "omitzero") {
		if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
		return v.IsZero()
	}
	return false
}

func marshalsItself(v any) bool {
	switch v.(type) {
	case json.Marshaler, encoding.TextMarshaler:
		return true
	}
	return false
}

func encodeField(v reflect.Value) (any, error) {
	x := v.Interface()
	if t, ok := x.(time.Time); ok {
		return encodeTime(t)
	}
	if marshalsItself(x) {
		return encodeValue(x)
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), checkText(v.String())
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return nil, nil
		}
	}
	return encodeValue(x)
}

// encodeTime is what time.Time marshals to: RFC 3339 with as many digits of the second as are needed.
func encodeTime(t time.Time) (any, error) {
	b, err := t.MarshalText()
	return string(b), err
}
