package monthlypoint

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hanbeon/pkg/jsonobject"
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

// parseInput reads the input of a firing, strictly.
func parseInput(input []byte) (amount int64, err error) {
	fields, err := jsonobject.Fields(input, "amount", "kind", "scheduledTime")
	if err != nil {
		return 0, err
	}
	if kind, ok := fields["kind"]; ok && string(kind) != strconv.Quote(string(Name)) {
		return 0, fmt.Errorf("kind %.40q: want %q", kind, Name)
	}
	if at, ok := fields["scheduledTime"]; ok && at[0] != '"' {
		return 0, fmt.Errorf("scheduledTime %.40q: want text", at)
	}
	value, ok := fields["amount"]
	if !ok {
		return 0, errors.New("amount is missing")
	}
	return ParseAmount(string(value))
}
