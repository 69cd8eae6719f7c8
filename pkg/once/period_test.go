package once_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"hanbeon/pkg/once"

	"pgregory.net/rapid"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TIM-01: the month is that of the business time zone, whatever the notation of the instant.
func TestMonthOfIsTheMonthOfTheBusinessZone(t *testing.T) {
	t.Parallel()
	seoul := zone(t, "Asia/Seoul")
	for _, tt := range []struct {
		at    string
		month once.Period
		day   once.Period
	}{
		{"2024-03-31T15:30:00Z", "2024-04", "2024-04-01"},
		{"2024-03-31T14:59:59Z", "2024-03", "2024-03-31"},
		{"2024-03-31T15:00:00Z", "2024-04", "2024-04-01"},
		{"2024-02-29T15:00:00Z", "2024-03", "2024-03-01"},
		{"2024-02-29T14:59:59Z", "2024-02", "2024-02-29"},
		{"2024-12-31T15:00:00Z", "2025-01", "2025-01-01"},
		{"2024-04-01T00:30:00+09:00", "2024-04", "2024-04-01"},
		{"2024-03-31T23:59:59+09:00", "2024-03", "2024-03-31"},
		{"2024-03-01T00:00:00+09:00", "2024-03", "2024-03-01"},
		{"2025-01-01T00:00:00+09:00", "2025-01", "2025-01-01"},
		{"2024-03-31T08:30:00-07:00", "2024-04", "2024-04-01"},
	} {
		at := instant(t, tt.at)
		if got := once.MonthOf(at, seoul); got != tt.month {
			t.Errorf("MonthOf(%s) = %s, want %s", tt.at, got, tt.month)
		}
		if got := once.DayOf(at, seoul); got != tt.day {
			t.Errorf("DayOf(%s) = %s, want %s", tt.at, got, tt.day)
		}
	}
}

// TIM-06: two firings of one cron in a zone with summer time are one business month, and an instant made in any zone gives the same one.
func TestMonthOfDependsOnNoOtherZone(t *testing.T) {
	t.Parallel()
	seoul := zone(t, "Asia/Seoul")
	for _, s := range []string{"2024-03-31T15:00:00Z", "2024-04-01T04:00:00Z"} {
		for _, other := range []string{"America/New_York", "Pacific/Kiritimati", "UTC"} {
			at := instant(t, s).In(zone(t, other))
			if got, want := once.MonthOf(at, seoul), once.Period("2024-04"); got != want {
				t.Errorf("MonthOf(%s) = %s, want %s", at, got, want)
			}
		}
	}
}

// TIM-04: next and previous count months from day 1, so that the 29th to the 31st never lands in the wrong one.
func TestNextAndPrevious(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ period, previous, next once.Period }{
		{"2024-03", "2024-02", "2024-04"},
		{"2024-05", "2024-04", "2024-06"},
		{"2023-03", "2023-02", "2023-04"},
		{"2024-01", "2023-12", "2024-02"},
		{"2024-12", "2024-11", "2025-01"},
		{"2024-03-31", "2024-03-30", "2024-04-01"},
		{"2024-03-01", "2024-02-29", "2024-03-02"},
		{"2023-03-01", "2023-02-28", "2023-03-02"},
		{"2024-12-31", "2024-12-30", "2025-01-01"},
	} {
		if got := tt.period.Previous(); got != tt.previous {
			t.Errorf("%s.Previous() = %s, want %s", tt.period, got, tt.previous)
		}
		if got := tt.period.Next(); got != tt.next {
			t.Errorf("%s.Next() = %s, want %s", tt.period, got, tt.next)
		}
	}
	seoul := zone(t, "Asia/Seoul")
	for at, want := range map[string][2]once.Period{
		"2024-03-31T12:00:00+09:00": {"2024-02", "2024-04"},
		"2024-05-31T12:00:00+09:00": {"2024-04", "2024-06"},
		"2023-03-29T12:00:00+09:00": {"2023-02", "2023-04"},
		"2024-01-31T12:00:00+09:00": {"2023-12", "2024-02"},
	} {
		m := once.MonthOf(instant(t, at), seoul)
		if got := [2]once.Period{m.Previous(), m.Next()}; got != want {
			t.Errorf("around %s: %v, want %v", at, got, want)
		}
	}
}

// CLI-04: a period is a real month or day in one spelling; anything else would become a key of its own.
func TestParsePeriod(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"2024-04", "2024-12", "2024-02-29", "2024-04-15", "2000-01", "9999-12", "9999-12-31"} {
		got, err := once.ParsePeriod(s)
		if err != nil || string(got) != s {
			t.Errorf("ParsePeriod(%q) = %q (%v), want it accepted as it is", s, got, err)
		}
		if got, want := got.IsMonth(), len(s) == 7; got != want {
			t.Errorf("%s.IsMonth() = %v, want %v", s, got, want)
		}
	}
	for _, s := range []string{
		"", "2024-13", "2024-00", "2024-4", "202404", "2024-04 ", " 2024-04", "２０２４-04", "2024-4-15", "2024-04-31", "2023-02-29", "2024-04-00", "2024-04-1", "2024/04", "24-04",
		"1999-12", "0000-01", "10000-01", "-024-04", "+024-04", "2024-04\n", "2024-04T00:00", "2024-04:member-1", "2024-W14", "April 2024", "2024-04-15Z",
	} {
		if got, err := once.ParsePeriod(s); err == nil {
			t.Errorf("ParsePeriod(%q) = %q, want an error", s, got)
		}
	}
}

func TestPeriodProperties(t *testing.T) {
	t.Parallel()
	seoul := zone(t, "Asia/Seoul")
	instants := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(946_684_800, 253_370_764_800).Draw(t, "unix"), 0) // 2000 to 9998
	})
	t.Run("an instant lies between the start of its period and the start of the next", rapid.MakeCheck(func(t *rapid.T) {
		at := instants.Draw(t, "at")
		for _, p := range []once.Period{once.MonthOf(at, seoul), once.DayOf(at, seoul)} {
			if at.Before(p.Start(seoul)) || !at.Before(p.Next().Start(seoul)) {
				t.Fatalf("%s is not in %s: %s to %s", at.In(seoul), p, p.Start(seoul), p.Next().Start(seoul))
			}
			if _, err := once.ParsePeriod(string(p)); err != nil {
				t.Fatal(err)
			}
		}
	}))
	t.Run("next and previous undo each other and keep byte order", rapid.MakeCheck(func(t *rapid.T) {
		at := instants.Draw(t, "at")
		for _, p := range []once.Period{once.MonthOf(at, seoul), once.DayOf(at, seoul)} {
			if p.Next().Previous() != p || p.Previous().Next() != p || p.Next() <= p || p.Previous() >= p || p.Next().IsMonth() != p.IsMonth() {
				t.Fatalf("%s: next %s, previous %s", p, p.Next(), p.Previous())
			}
		}
	}))
	t.Run("the start of a period is in it, in any zone without a gap at midnight", rapid.MakeCheck(func(t *rapid.T) {
		z := zone(t, rapid.SampledFrom([]string{"Asia/Seoul", "UTC", "America/New_York", "Pacific/Kiritimati", "Asia/Kolkata"}).Draw(t, "zone"))
		at := instants.Draw(t, "at")
		if m := once.MonthOf(at, z); once.MonthOf(m.Start(z), z) != m || once.MonthOf(m.Start(z).Add(-time.Nanosecond), z) != m.Previous() {
			t.Fatalf("%s starts at %s", m, m.Start(z))
		}
	}))
}

func FuzzParsePeriod(f *testing.F) {
	for _, s := range []string{"2024-04", "2024-04-15", "2024-13", "0000-00", "２０２４-04", "2024-04 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := once.ParsePeriod(s)
		if err != nil {
			return
		}
		if string(p) != s {
			t.Fatalf("ParsePeriod(%q) = %q", s, p)
		}
		start := p.Start(time.UTC)
		back := once.DayOf(start, time.UTC)
		if p.IsMonth() {
			back = once.MonthOf(start, time.UTC)
		}
		if back != p {
			t.Fatalf("%q starts at %s, which is in %q", s, start, back)
		}
		if err := once.CheckScope(s); err != nil {
			t.Fatalf("a period must be good as a scope: %v", err)
		}
	})
}
