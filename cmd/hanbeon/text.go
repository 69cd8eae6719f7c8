package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// comma writes a number with a comma after every three digits.
func comma(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// row writes one line of a report: a name and what it is.
func row(w io.Writer, name, format string, args ...any) {
	fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-15s ", name)+fmt.Sprintf(format, args...), " "))
}

// number is how many there are of something, in the singular or plural.
func number(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + one + "s"
}
