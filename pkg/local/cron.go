package local

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// timetable tells when a schedule fires next, strictly after t. ok is false when it never does.
type timetable interface {
	next(t time.Time) (at time.Time, ok bool)
}

// parseTimetable reads a schedule expression of EventBridge Scheduler: rate(...) or cron(...) (User Guide, "Schedule types").
func parseTimetable(s string, zone *time.Location) (timetable, error) {
	if inner, ok := strings.CutPrefix(s, "rate("); ok && strings.HasSuffix(inner, ")") {
		return parseRate(strings.TrimSuffix(inner, ")"))
	}
	if inner, ok := strings.CutPrefix(s, "cron("); ok && strings.HasSuffix(inner, ")") {
		return parseCron(strings.TrimSuffix(inner, ")"), zone)
	}
	return nil, fmt.Errorf("schedule expression %q: want rate(...) or cron(...)", s)
}

// rate fires every so often, first one interval after the start.
type rate time.Duration

func (r rate) next(t time.Time) (time.Time, bool) { return t.Add(time.Duration(r)), true }

func parseRate(s string) (timetable, error) {
	f := strings.Fields(s)
	if len(f) == 2 {
		n, err := strconv.Atoi(f[0])
		unit, ok := map[string]time.Duration{"minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour}[strings.TrimSuffix(f[1], "s")]
		if err == nil && ok && n > 0 {
			return rate(time.Duration(n) * unit), nil
		}
	}
	return nil, fmt.Errorf("rate(%s): want a number above 0 and minutes, hours or days", s)
}

// cron is a set of local minutes. A local time that is skipped in spring is skipped, one that is repeated in autumn fires once.
type cron struct {
	minute, hour, day, month, weekday, year map[int]bool // nil: any
	zone                                    *time.Location
}

var (
	monthNames   = names(1, "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
	weekdayNames = names(1, "SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
)

func names(from int, list ...string) map[string]int {
	m := map[string]int{}
	for i, n := range list {
		m[n] = from + i
	}
	return m
}

// parseCron reads the six fields: minutes, hours, day of month, month, day of week, year. L, W and # are refused.
func parseCron(s string, zone *time.Location) (timetable, error) {
	f := strings.Fields(s)
	if len(f) != 6 {
		return nil, fmt.Errorf("cron(%s): %d fields, want 6", s, len(f))
	}
	if (f[2] == "?") == (f[4] == "?") {
		return nil, fmt.Errorf("cron(%s): exactly one of day of month and day of week must be ?", s)
	}
	c := cron{zone: zone}
	for i, field := range []struct {
		what     string
		set      *map[int]bool
		min, max int
		names    map[string]int
	}{
		{"minutes", &c.minute, 0, 59, nil},
		{"hours", &c.hour, 0, 23, nil},
		{"day of month", &c.day, 1, 31, nil},
		{"month", &c.month, 1, 12, monthNames},
		{"day of week", &c.weekday, 1, 7, weekdayNames},
		{"year", &c.year, 1970, 2199, nil},
	} {
		set, err := parseField(f[i], field.min, field.max, field.names)
		if err != nil {
			return nil, fmt.Errorf("cron(%s): %s: %w", s, field.what, err)
		}
		*field.set = set
	}
	return c, nil
}

// parseField reads a list of values, ranges and steps; nil is any.
func parseField(s string, low, high int, names map[string]int) (map[int]bool, error) {
	if s == "*" || s == "?" {
		return nil, nil
	}
	set := map[int]bool{}
	for part := range strings.SplitSeq(s, ",") {
		span, stepText, hasStep := strings.Cut(part, "/")
		step := 1
		if hasStep {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q: want a step above 0 after the slash", part)
			}
			step = n
		}
		from, to := low, high
		if span != "*" {
			first, last, isRange := strings.Cut(span, "-")
			var err error
			if from, err = parseValue(first, low, high, names); err != nil {
				return nil, err
			}
			switch {
			case isRange:
				if to, err = parseValue(last, low, high, names); err != nil {
					return nil, err
				}
			case !hasStep:
				to = from
			}
		}
		if from > to {
			return nil, fmt.Errorf("%q: the range is upside down", part)
		}
		for v := from; v <= to; v += step {
			set[v] = true
		}
	}
	return set, nil
}

func parseValue(s string, low, high int, names map[string]int) (int, error) {
	if n, ok := names[strings.ToUpper(s)]; ok {
		return n, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q: want a number from %d to %d, lists, ranges and steps of them; L, W and # are not supported here", s, low, high)
	}
	return n, nil
}

// next tries the local minutes of each day that fits. Nine years hold every pattern that fires at all: a 29 February can be eight years away.
func (c cron) next(t time.Time) (time.Time, bool) {
	y, m, d := t.In(c.zone).Date()
	for i := range 9 * 366 {
		noon := time.Date(y, m, d+i, 12, 0, 0, 0, time.UTC) // only names the day: noon exists on every day
		if !fits(c.year, noon.Year()) || !fits(c.month, int(noon.Month())) || !fits(c.day, noon.Day()) || !fits(c.weekday, int(noon.Weekday())+1) {
			continue
		}
		if at, ok := c.nextOn(noon, t); ok {
			return at, true
		}
	}
	return time.Time{}, false
}

func (c cron) nextOn(day, after time.Time) (first time.Time, ok bool) {
	for hour := range 24 {
		for minute := range 60 {
			if !fits(c.hour, hour) || !fits(c.minute, minute) {
				continue
			}
			at := time.Date(day.Year(), day.Month(), day.Day(), hour, minute, 0, 0, c.zone)
			exists := at.Hour() == hour && at.Minute() == minute
			// A day around a change of clocks is not in order: look at all of it.
			if exists && at.After(after) && (!ok || at.Before(first)) {
				first, ok = at.UTC(), true
			}
		}
	}
	return first, ok
}

func fits(set map[int]bool, v int) bool { return set == nil || set[v] }
