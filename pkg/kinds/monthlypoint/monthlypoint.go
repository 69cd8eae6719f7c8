// Package monthlypoint grants every active member the same number of points once a month.
//
// The kind is scheduled and bulk: one posting `monthly-point:2024-04:member-42` per member, which adds the amount to the balance `points`. Who is
// granted: status ACTIVE and joined before the scheduled time of the period, as the catalog says when the page of the member is made. Which month:
// the one that contains the scheduled time in the business time zone, so that a firing that is late, or comes twice, is still the firing of its own
// month.
package monthlypoint

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Name is the kind.
const Name once.Kind = "monthly-point"

// Table holds the entries and balances of the grants.
const Table store.Table = "points"

// Balance is the name of the balance that the grants add to.
const Balance = "points"

// When a period is due, in the business time zone: on this day of its month at this time. The schedule of the template says the same as `cron(30 0 1
// * ? *)`. Not at midnight: there a zone may skip or repeat an hour, and a second before it is another month.
const (
	DueDay    = 1
	DueHour   = 0
	DueMinute = 30
)

// Deadline is how long after its scheduled time a period is overdue unless closed.
const Deadline = 24 * time.Hour

// Kind is the monthly grant. It keeps nothing in memory and is safe for concurrent use.
type Kind struct {
	members *catalog.Catalog
	zone    *time.Location
}

var (
	_ job.Bulk      = (*Kind)(nil)
	_ job.Scheduled = (*Kind)(nil)
)

// New makes the kind. zone is the business time zone, which must be that of the schedule.
func New(s store.Store, zone *time.Location) *Kind {
	return &Kind{members: catalog.New(s), zone: zone}
}

// Kind implements job.Kind.
func (k *Kind) Kind() once.Kind { return Name }

// Ledger implements job.Bulk.
func (k *Kind) Ledger() store.Table { return Table }

// Subjects implements job.Bulk: the members of the segment that are ACTIVE and joined before the scheduled time. The cursor is that of the catalog.
func (k *Kind) Subjects(ctx context.Context, j job.Job, segment int, cursor string) ([]string, string, error) {
	members, next, err := k.members.Members(ctx, segment, cursor, job.PageSubjects)
	if err != nil {
		return nil, "", err
	}
	var subjects []string
	for _, m := range members {
		if m.ActiveBefore(j.Scheduled) {
			subjects = append(subjects, m.ID)
		}
	}
	return subjects, next, nil
}

// Effects implements job.Bulk: the amount of the job, added to the member's points. It reads nothing; a member who has left meanwhile is still granted.
func (k *Kind) Effects(_ context.Context, j job.Job, subject string) ([]once.Effect, error) {
	amount, err := amountOf(j.Inputs)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	return []once.Effect{once.Add{Subject: subject, Name: Balance, N: amount}}, nil
}

// Open implements job.Scheduled. The input is a JSON object with `amount`, and perhaps the `kind` and `scheduledTime` of the Scheduler; who calls has
// read the time from it already.
func (k *Kind) Open(scheduled time.Time, input []byte) (job.Opening, error) {
	amount, err := parseInput(input)
	if err != nil {
		return job.Opening{}, fmt.Errorf("input of %s: %w", Name, err)
	}
	period, err := once.ParsePeriod(string(once.MonthOf(scheduled, k.zone)))
	if err != nil {
		return job.Opening{}, fmt.Errorf("scheduledTime: %w", err)
	}
	return job.Opening{
		Kind:      Name,
		Slot:      string(Name) + ":" + string(period),
		Scope:     string(period),
		Period:    period,
		Scheduled: scheduled.UTC(),
		Inputs:    Inputs(amount),
	}, nil
}

// Calendar implements job.Scheduled: one period per month. A `from` that is a day stands for the first month that begins on it or later; one that is
// no period gives nothing.
func (k *Kind) Calendar(from once.Period, now time.Time) []job.Due {
	p, err := once.ParsePeriod(string(from))
	if err != nil {
		return nil
	}
	if !p.IsMonth() {
		first := p[len(p)-2:] == "01"
		if p = p[:len("2006-01")]; !first {
			p = p.Next()
		}
	}
	var due []job.Due
	for ; ; p = p.Next() {
		at := k.dueTime(p)
		if at.After(now) {
			return due
		}
		due = append(due, job.Due{Period: p, Scheduled: at, Deadline: at.Add(Deadline)})
	}
}

// dueTime is the scheduled time of a month, in UTC.
func (k *Kind) dueTime(p once.Period) time.Time {
	first, _ := time.Parse("2006-01", string(p)) // a month already parsed
	at := time.Date(first.Year(), first.Month(), DueDay, DueHour, DueMinute, 0, 0, k.zone)
	if once.MonthOf(at, k.zone) != p { // the zone skips that hour, and time.Date went back into the month before
		at = at.Add(time.Hour)
	}
	return at.UTC()
}
