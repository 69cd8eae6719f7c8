package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hanbeon/pkg/once"
)

// environment reads variables and keeps what is wrong with them, so that all is reported at once. An error names its variable and never quotes credentials.
type environment struct {
	lookup func(string) (string, bool)
	wrong  []error
}

// err is everything wrong so far, nil if nothing.
func (e *environment) err() error { return errors.Join(e.wrong...) }

// problems lists the errors that err joins, one line each.
func problems(err error) []string {
	var all []string
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			all = append(all, one.Error())
		}
		return all
	}
	return []string{err.Error()}
}

func (e *environment) fail(name, format string, args ...any) {
	err := fmt.Errorf("%s: "+format, append([]any{name}, args...)...)
	if !slices.ContainsFunc(e.wrong, func(w error) bool { return w.Error() == err.Error() }) { // one variable serves several clients
		e.wrong = append(e.wrong, err)
	}
}

// text is a variable that must be there and not empty.
func (e *environment) text(name string) string {
	v, ok := e.lookup(name)
	switch {
	case !ok:
		e.fail(name, "not set")
	case v == "":
		e.fail(name, "empty")
	}
	return v
}

var tableName = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,255}$`) // CreateTable, "TableName"

func (e *environment) table(name string) string {
	v := e.text(name)
	if v != "" && !tableName.MatchString(v) {
		e.fail(name, "%q is not a table name", v)
	}
	return v
}

func (e *environment) url(name string) string {
	v := e.text(name)
	if v != "" && !isURL(v) {
		e.fail(name, "%q is not an http or https URL", v)
	}
	return v
}

func isURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// secret is the ARN of a secret. The error does not quote it: whoever mistakes the variable puts the key itself there.
func (e *environment) secret(name string) string {
	v := e.text(name)
	if v != "" && !secretARN.MatchString(v) {
		e.fail(name, "not the ARN of a secret in Secrets Manager")
	}
	return v
}

var secretARN = regexp.MustCompile(`^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:.+$`)

// seconds is a whole number of them, of a call made by a function: 1 to 900, the longest that Lambda lets one live.
func (e *environment) seconds(name string) time.Duration {
	v := e.text(name)
	n, err := strconv.Atoi(v)
	if v != "" && (err != nil || n < 1 || n > 900) {
		e.fail(name, "%q is not a number of seconds from 1 to 900", v)
	}
	return time.Duration(n) * time.Second
}

// zone is nil when the variable is wrong. "Local" is refused: it is whatever the machine says.
func (e *environment) zone(name string) *time.Location {
	v := e.text(name)
	if v == "" {
		return nil
	}
	zone, err := time.LoadLocation(v)
	if err != nil || v == "Local" {
		e.fail(name, "%q is not a time zone such as Asia/Seoul", v)
		return nil
	}
	return zone
}

func (e *environment) period(name string) once.Period {
	v := e.text(name)
	if v == "" {
		return ""
	}
	p, err := once.ParsePeriod(v)
	if err != nil {
		e.fail(name, "%w", err)
	}
	return p
}

func (e *environment) flag(name string) bool {
	v := e.text(name)
	if v != "" && v != "true" && v != "false" {
		e.fail(name, "%q is neither true nor false", v)
	}
	return v == "true"
}

func (e *environment) level(name string) slog.Level {
	levels := map[string]slog.Level{"DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError}
	v := e.text(name)
	level, ok := levels[v]
	if v != "" && !ok {
		e.fail(name, "%q is not DEBUG, INFO, WARN or ERROR", v)
	}
	return level
}

// inputs reads the inputs of firings by kind: {"monthly-point":{"amount":100}}. What an input holds is its kind's to judge.
func (e *environment) inputs(name string) map[once.Kind]json.RawMessage {
	v := e.text(name)
	if v == "" {
		return nil
	}
	var inputs map[once.Kind]json.RawMessage
	if err := json.Unmarshal([]byte(v), &inputs); err != nil || inputs == nil {
		e.fail(name, `want JSON such as {"monthly-point":{"amount":100}}`)
		return nil
	}
	for _, kind := range slices.Sorted(maps.Keys(inputs)) {
		if _, err := once.ParseKind(string(kind)); err != nil {
			e.fail(name, "%w", err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(inputs[kind], &object); err != nil || object == nil {
			e.fail(name, "%s: want a JSON object", kind)
		}
	}
	return inputs
}

// upper is how a name is spelled in a variable: monthly-point, MONTHLY_POINT.
func upper(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
