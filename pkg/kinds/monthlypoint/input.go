package monthlypoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"hanbeon/pkg/once"
)

// ParseAmount reads how many points each member is granted: decimal digits only, 1 to once.MaxAmount (10^12), without sign, leading zero, point or
// exponent.
//
// 1e3 and 100.0 are refused although JSON calls them numbers equal to an integer: one amount has one spelling, and no float is ever in between. The
// error names the field `amount`.
func ParseAmount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s || n < 1 || n > once.MaxAmount {
		return 0, fmt.Errorf("amount %.40q: want an integer from 1 to %d, in plain digits", s, int64(once.MaxAmount))
	}
	return n, nil
}

// Inputs is the canonical JSON of what decides the content of the postings: `{"amount":100}`. It is part of every digest, so its form is for ever.
func Inputs(amount int64) string { return inputsHead + strconv.FormatInt(amount, 10) + inputsTail }

const (
	inputsHead = `{"amount":`
	inputsTail = `}`
)

// amountOf is the inverse of Inputs and takes nothing else.
func amountOf(inputs string) (int64, error) {
	head, ok := strings.CutPrefix(inputs, inputsHead)
	digits, ok2 := strings.CutSuffix(head, inputsTail)
	if !ok || !ok2 {
		return 0, fmt.Errorf("inputs %.80q are not those of %s", inputs, Name)
	}
	return ParseAmount(digits)
}

// parseInput reads the input of a firing. encoding/json alone would take `AMOUNT`, the last of two amounts, and what follows the object.
func parseInput(input []byte) (amount int64, err error) {
	dec := json.NewDecoder(bytes.NewReader(input))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return 0, errors.New("want a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return 0, fmt.Errorf("malformed JSON: %w", err)
		}
		field, _ := name.(string) // the decoder takes nothing else for a name
		if seen[field] {
			return 0, fmt.Errorf("field %.40q occurs twice", field)
		}
		seen[field] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, fmt.Errorf("field %.40q: malformed JSON: %w", field, err)
		}
		switch field {
		case "amount":
			if amount, err = ParseAmount(string(value)); err != nil {
				return 0, err
			}
		case "kind":
			if string(value) != strconv.Quote(string(Name)) {
				return 0, fmt.Errorf("kind %.40q: want %q", value, Name)
			}
		case "scheduledTime":
			if value[0] != '"' {
				return 0, fmt.Errorf("scheduledTime %.40q: want text", value)
			}
		default:
			return 0, fmt.Errorf("unknown field %.40q", field)
		}
	}
	if _, err := dec.Token(); err != nil {
		return 0, fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return 0, errors.New("text after the JSON object")
	}
	if !seen["amount"] {
		return 0, errors.New("amount is missing")
	}
	return amount, nil
}
