// Package jsonobject reads a JSON text that is one object, strictly.
//
// encoding/json alone takes a field in other case, the last of two with one name, what follows the object, invalid UTF-8, and half of a surrogate pair. Each of them makes something of a text that its
// author did not write, so each is an error here.
//
// Errors say what is wrong as the end of a sentence ("is not valid UTF-8"). They quote nothing of the text but the name of a field.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxFields is the most fields of an object: far more than any object has that somebody here wants to read.
const MaxFields = 50

// Field is one name and value of an object.
type Field struct {
	Name  string          // as it reads without escapes
	Value json.RawMessage // valid JSON without white space around it
}

// UnknownError tells of a field that nobody asked for. Its name may be any text, and perhaps not one to repeat: who reads what a person wrote makes an error of its own from it.
type UnknownError struct {
	Name string // as it came
	Want []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown field %.40q, want %s", e.Name, strings.Join(e.Want, ", "))
}

// Fields reads an object that has some of the named fields, each at most once, and no other. Names are compared byte by byte. A field that is absent is absent from the map; null is a value. Errors, the
// first of them: those of Split; *UnknownError; a field that occurs twice, or has half of a surrogate pair anywhere in its value.
func Fields(text []byte, names ...string) (map[string]json.RawMessage, error) {
	fields, err := Split(text)
	if err != nil {
		return nil, err
	}
	values := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		if !slices.Contains(names, f.Name) {
			return nil, &UnknownError{f.Name, names}
		}
		if _, again := values[f.Name]; again {
			return nil, fmt.Errorf("field %q occurs twice", f.Name)
		}
		if halfPair(f.Value) {
			return nil, fmt.Errorf("%s: has half of a surrogate pair, which is no character", f.Name)
		}
		values[f.Name] = f.Value
	}
	return values, nil
}

// Split splits an object into its fields, in their order, whatever their names: for who wants to say all that is wrong with them. An error tells that the text is not valid UTF-8, not JSON, nested in more
// than 10,000 levels (the limit of encoding/json, which calls it a syntax error), more than one value, no object, or has more than MaxFields fields.
func Split(text []byte) ([]Field, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("is not valid UTF-8")
	}
	var whole json.RawMessage // it is one value with nothing behind it: what follows needs not look
	var syntax *json.SyntaxError
	if err := json.Unmarshal(text, &whole); errors.As(err, &syntax) {
		return nil, fmt.Errorf("is not JSON: byte %d is wrong, or the last", syntax.Offset)
	} else if err != nil {
		return nil, errors.New("is not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	var fields []Field
	for dec.More() {
		if len(fields) == MaxFields {
			return nil, fmt.Errorf("has more than %d fields", MaxFields)
		}
		name, err := dec.Token()
		if err != nil {
			return nil, errors.New("is not JSON")
		}
		var f Field
		f.Name, _ = name.(string) // the decoder takes nothing else for a name
		if dec.Decode(&f.Value) != nil {
			return nil, errors.New("is not JSON")
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// halfPair tells whether valid JSON escapes half of a surrogate pair without the other half behind it. The decoder makes U+FFFD of that, and what was meant is lost.
func halfPair(value []byte) bool {
	for {
		_, after, ok := bytes.Cut(value, []byte(`\`)) // stands in texts only
		if !ok {
			return false
		}
		if value = after[1:]; after[0] != 'u' {
			continue
		}
		first := unit(after)
		if value = after[5:]; !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := bytes.CutPrefix(value, []byte(`\`))
		if !ok || second[0] != 'u' || utf16.DecodeRune(first, unit(second)) == utf8.RuneError {
			return true
		}
		value = second[5:]
	}
}

// unit is the UTF-16 code unit of an escape such as `u00e9`.
func unit(escape []byte) rune {
	n, _ := strconv.ParseUint(string(escape[1:5]), 16, 16) // four digits: it is valid JSON
	return rune(n)
}
