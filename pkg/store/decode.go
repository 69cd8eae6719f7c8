package store

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// decodeStruct fills the fields of a struct by their json tags, as encoding/json would. Texts, integers, bools, times and lists of text, which is what items are mostly made of,
// are set directly: a round trip through JSON costs five times as much, and a fan-out decodes every member. Whatever else there is takes that way.
func decodeStruct(a Attrs, v reflect.Value) error {
	t := v.Type()
	for i := range t.NumField() {
		name, _, ok := attribute(t.Field(i))
		value, there := a[name]
		if !ok || !there {
			continue
		}
		if err := decodeField(value, v.Field(i)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// direct tells whether decodeStruct may take a struct: every field is its own, none is embedded, and no field has the option `string`.
func direct(t reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		if _, options, _ := attribute(f); f.Anonymous || strings.Contains(options, "string") {
			return false
		}
	}
	return true
}

func decodeField(value any, to reflect.Value) error {
	switch x := value.(type) {
	case string:
		if at, ok := to.Addr().Interface().(*time.Time); ok {
			t, err := time.Parse(time.RFC3339Nano, x)
			if err != nil {
				return err
			}
			*at = t
			return nil
		}
		if to.Kind() == reflect.String && !decodesItself(to) {
			to.SetString(x)
			return nil
		}
	case int64:
		if to.CanInt() && !to.OverflowInt(x) && !decodesItself(to) {
			to.SetInt(x)
			return nil
		}
	case bool:
		if to.Kind() == reflect.Bool && !decodesItself(to) {
			to.SetBool(x)
			return nil
		}
	case []any:
		if list, ok := to.Addr().Interface().(*[]string); ok {
			out := make([]string, len(x))
			for i, e := range x {
				s, ok := e.(string)
				if !ok {
					return fmt.Errorf("[%d]: %T is not text", i, e)
				}
				out[i] = s
			}
			*list = out
			return nil
		}
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to.Addr().Interface())
}

func decodesItself(v reflect.Value) bool {
	switch v.Addr().Interface().(type) {
	case json.Unmarshaler, interface{ UnmarshalText([]byte) error }:
		return true
	}
	return false
}
