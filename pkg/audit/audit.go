package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

// Report is what an audit found.
type Report struct {
	Jobs          int              `json:"jobs"`
	Active        int              `json:"active"`
	Subjects      int64            `json:"subjects"`      // with a partition in a ledger
	Entries       int64            `json:"entries"`       // applied
	FailedEntries int64            `json:"failedEntries"` // failed and not taken over
	EntrySum      map[string]int64 `json:"entrySum"`      // by name of the balance, over applied entries
	BalanceSum    map[string]int64 `json:"balanceSum"`
	Violations    []string         `json:"violations"` // empty: every invariant holds. At most MaxViolations
}

// MaxViolations bounds the list of a report.
const MaxViolations = 100

// OK tells whether every invariant holds.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// Check audits everything of these kinds in a store. now is the time (UTC): jobs older than their retention are passed over, since their items vanish one by one.
// Of the others it asks the kind for the effects of every entry, to compare them: a kind that reads something for them reads it once more.
// progress, which may be nil, is called now and then with the number of subjects looked at.
func Check(ctx context.Context, s store.Store, now time.Time, progress func(subjects int64), kinds ...job.Kind) (Report, error) {
	first, err := check(ctx, s, now, progress, kinds)
	if err != nil || first.OK() {
		return first, err
	}
	second, err := check(ctx, s, now, progress, kinds)
	if err != nil {
		return second, err
	}
	second.Violations = slices.DeleteFunc(second.Violations, func(v string) bool { return !slices.Contains(first.Violations, v) })
	return second, nil
}

func check(ctx context.Context, s store.Store, now time.Time, progress func(int64), kinds []job.Kind) (Report, error) {
	clock := func() time.Time { return now }
	c := &checker{
		store: s, jobs: job.NewStore(s, clock), catalog: catalog.New(s), now: now, progress: progress,
		applied: map[string]int64{}, outside: map[string]bool{},
		report: Report{EntrySum: map[string]int64{}, BalanceSum: map[string]int64{}, Violations: []string{}},
	}
	if c.progress == nil {
		c.progress = func(int64) {}
	}
	for _, k := range kinds {
		jobs, err := c.jobsOf(ctx, k.Kind())
		if err != nil {
			return c.report, fmt.Errorf("audit: %w", err)
		}
		if b, ok := k.(job.Bulk); ok {
			if err := c.bulk(ctx, b, jobs); err != nil {
				return c.report, fmt.Errorf("audit of %s: %w", k.Kind(), err)
			}
		}
		if _, ok := k.(job.Single); ok {
			c.single(jobs)
		}
		if err := c.periods(ctx, k.Kind(), jobs); err != nil {
			return c.report, fmt.Errorf("audit of %s: %w", k.Kind(), err)
		}
	}
	if err := c.slots(ctx); err != nil {
		return c.report, fmt.Errorf("audit: %w", err)
	}
	return c.report, nil
}

// checker is one look at a store.
type checker struct {
	store    store.Store
	jobs     *job.Store
	catalog  *catalog.Catalog
	now      time.Time
	progress func(int64)
	report   Report
	applied  map[string]int64 // applied entries by job
	outside  map[string]bool  // subjects of manifests that are no members, looked at already
}

func (c *checker) violated(format string, args ...any) {
	if len(c.report.Violations) < MaxViolations {
		c.report.Violations = append(c.report.Violations, fmt.Sprintf(format, args...))
	}
}
