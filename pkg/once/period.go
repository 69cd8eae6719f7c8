package once

import (
	"fmt"
	"time"
)

// Period is a business interval in the business time zone: a month `2024-04` or a day `2024-04-15`.
// It is computed from a scheduled time, never from the clock. Byte order is time order among periods of one length.
type Period string

// The years a period may lie in: what is outside is a unit or parsing mistake, not a business period.
const (
	minYear = 2000
	maxYear = 9999
)

const (
	monthLayout = "2006-01"
	dayLayout   = "2006-01-02"
)

// ParsePeriod accepts exactly `YYYY-MM` or `YYYY-MM-DD` of a real month or day from 2000 on, in ASCII digits, nothing around it.
func ParsePeriod(s string) (Period, error) {
	layout := monthLayout
	if len(s) == len(dayLayout) {
		layout = dayLayout
	}
	t, err := time.Parse(layout, s)
	// Format again: time.Parse takes some spellings that are not canonical, and a period is a key.
	if err != nil || t.Format(layout) != s || t.Year() < minYear || t.Year() > maxYear {
		return "", fmt.Errorf("period %.40q: want a real month such as 2024-04, or a day such as 2024-04-15, from %d on", s, minYear)
	}
	return Period(s), nil
}

// MonthOf is the month that contains t in the business time zone.
func MonthOf(t time.Time, zone *time.Location) Period { return Period(t.In(zone).Format(monthLayout)) }

// DayOf is the day that contains t in the business time zone.
func DayOf(t time.Time, zone *time.Location) Period { return Period(t.In(zone).Format(dayLayout)) }

// IsMonth tells a month from a day.
func (p Period) IsMonth() bool { return len(p) == len(monthLayout) }

// Start is the first instant of the period in the business time zone. Where that local time is skipped (a zone that changes at midnight) it is the
// instant that time.Date gives.
func (p Period) Start(zone *time.Location) time.Time { return p.date(zone, 0) }

// Next is the following month or day.
func (p Period) Next() Period { return p.shift(1) }

// Previous is the month or day before.
func (p Period) Previous() Period { return p.shift(-1) }

func (p Period) shift(n int) Period {
	if p.IsMonth() {
		return Period(p.date(time.UTC, n).Format(monthLayout))
	}
	return Period(p.date(time.UTC, n).Format(dayLayout))
}

// date counts from day 1 for months: AddDate on the 31st would land in the wrong month.
func (p Period) date(zone *time.Location, n int) time.Time {
	if p.IsMonth() {
		t, _ := time.Parse(monthLayout, string(p))
		return time.Date(t.Year(), t.Month()+time.Month(n), 1, 0, 0, 0, 0, zone)
	}
	t, _ := time.Parse(dayLayout, string(p))
	return time.Date(t.Year(), t.Month(), t.Day()+n, 0, 0, 0, 0, zone)
}
