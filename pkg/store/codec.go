package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// Attrs are the attributes of an item. A value is a string, an int64, a bool, a []any or a map[string]any of the same, and nothing else.
type Attrs map[string]any

// Encode turns a struct with json tags, or Attrs with Go values, into Attrs. It is the only codec: back ends never see a struct.
//
// A nil pointer, slice, map or interface is left out; zero values are kept unless the tag says omitempty, since conditions compare with "" and 0.
// Floats are refused: money and counts are integers. Strings that are not UTF-8 are refused at this edge, because JSON would replace their bytes silently.
// Types with MarshalJSON or MarshalText (time.Time, json.RawMessage) are stored as what they marshal to.
func Encode(v any) (Attrs, error) {
	if a, ok := v.(Attrs); ok && plain(map[string]any(a)) {
		if err := checkText(map[string]any(a)); err != nil {
			return nil, err
		}
		return a, nil
	}
	e, err := encodeValue(v)
	if err != nil {
		return nil, err
	}
	m, ok := e.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("encode %T: not a struct", v)
	}
	return m, nil
}

func encodeValue(v any) (any, error) {
	switch x := v.(type) {
	case string:
		return x, checkText(x)
	case int64, bool:
		return x, nil
	case int:
		return int64(x), nil
	case time.Time:
		return encodeTime(x)
	case Attrs:
		return encodeAttrs(x)
	}
	if s := reflect.ValueOf(v); s.Kind() == reflect.Struct && direct(s.Type()) && !marshalsItself(v) {
		a, err := encodeStruct(s)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", v, err)
		}
		return map[string]any(a), nil
	}
	if err := checkStrings(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if !utf8.Valid(b.Bytes()) { // what marshalled itself
		return nil, fmt.Errorf("encode %T: its JSON is not valid UTF-8", v)
	}
	out, err := fromJSON(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return out, nil
}

// encodeAttrs encodes attributes with Go values one by one.
func encodeAttrs(a Attrs) (any, error) {
	if a == nil {
		return nil, nil
	}
	out := make(map[string]any, len(a))
	for name, v := range a {
		e, err := encodeValue(v)
		if err == nil {
			err = checkText(name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if e != nil {
			out[name] = e
		}
	}
	return out, nil
}

// UnmarshalJSON keeps integers exact where a struct has a field of type Attrs; encoding/json alone would make them floats.
func (a *Attrs) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	m, err := Unmarshal(b)
	if err != nil {
		return err
	}
	*a = m
	return nil
}

// Decode fills the struct that v points to from attributes. An attribute the struct does not know is ignored, so that an older version reads what a newer one wrote.
// For free content use a field of type Attrs: in one of type any encoding/json makes integers floats.
func Decode(a Attrs, v any) error {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Struct && direct(p.Elem().Type()) {
		if err := decodeStruct(a, p.Elem()); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		}
		return nil
	}
	b, err := json.Marshal(map[string]any(a))
	if err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	return nil
}

// Marshal is the form of attributes in a file: JSON with exact integers.
func Marshal(a Attrs) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]any(a)); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Unmarshal is the inverse of Marshal.
func Unmarshal(b []byte) (Attrs, error) {
	v, err := fromJSON(b)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("attributes are %T, not an object", v)
	}
	return m, nil
}

func fromJSON(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON")
	}
	return normalise(v)
}

// normalise turns what the JSON decoder made into the values of Attrs: integers exact, nulls gone.
func normalise(v any) (any, error) {
	switch x := v.(type) {
	case json.Number:
		n, err := x.Int64()
		if err != nil {
			return nil, fmt.Errorf("number %s is not an integer of 64 bits", x)
		}
		return n, nil
	case map[string]any:
		for k, e := range x {
			n, err := normalise(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			if n == nil {
				delete(x, k)
				continue
			}
			x[k] = n
		}
		return x, nil
	case []any:
		for i, e := range x {
			n, err := normalise(e)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			if n == nil {
				return nil, fmt.Errorf("[%d]: null in a list", i)
			}
			x[i] = n
		}
		return x, nil
	}
	return v, nil // string, bool, nil
}

// plain tells whether v already has the form of Attrs.
func plain(v any) bool {
	switch x := v.(type) {
	case string, int64, bool:
		return true
	case map[string]any:
		for _, e := range x {
			if !plain(e) {
				return false
			}
		}
		return true
	case []any:
		for _, e := range x {
			if !plain(e) {
				return false
			}
		}
		return true
	}
	return false
}

func checkText(v any) error {
	switch x := v.(type) {
	case string:
		if !utf8.ValidString(x) {
			return fmt.Errorf("text %.60q is not valid UTF-8", strings.ToValidUTF8(x, "?"))
		}
	case map[string]any:
		for k, e := range x {
			if err := checkText(k); err != nil {
				return err
			}
			if err := checkText(e); err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
		}
	case []any:
		for _, e := range x {
			if err := checkText(e); err != nil {
				return err
			}
		}
	}
	return nil
}
