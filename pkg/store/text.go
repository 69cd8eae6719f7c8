package store

import (
	"fmt"
	"reflect"
)

// checkStrings walks a Go value before it is marshalled: encoding/json would turn invalid UTF-8 into U+FFFD, and two texts could become one.
// Values that marshal themselves are trusted to be text already.
func checkStrings(v any) error { return walk(reflect.ValueOf(v)) }

func walk(v reflect.Value) error {
	switch v.Kind() {
	case reflect.String:
		return checkText(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return walk(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); !f.IsExported() && !f.Anonymous {
				continue // of an embedded struct the exported fields are marshalled, whatever its own name
			}
			if err := walk(v.Field(i)); err != nil {
				return fmt.Errorf("%s: %w", v.Type().Field(i).Name, err)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil // []byte becomes base64; the text of a json.RawMessage is looked at when it is encoded
		}
		for i := range v.Len() {
			if err := walk(v.Index(i)); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := walk(it.Key()); err != nil {
				return err
			}
			if err := walk(it.Value()); err != nil {
				return err
			}
		}
	case reflect.Float32, reflect.Float64:
		return fmt.Errorf("a float (%v) cannot be stored: use an integer or text", v.Float())
	}
	return nil
}
