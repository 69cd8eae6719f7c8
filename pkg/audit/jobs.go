package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// jobsOf lists the jobs of a kind that are within their retention.
func (c *checker) jobsOf(ctx context.Context, kind once.Kind) ([]job.Job, error) {
	var out []job.Job
	last := c.now.UTC().AddDate(0, 0, 1) // clocks differ
	for month := c.now.UTC().Add(-job.Retention); ; month = time.Date(month.Year(), month.Month()+1, 1, 0, 0, 0, 0, time.UTC) {
		if month.After(last) {
			return out, nil
		}
		for cursor := ""; ; {
			jobs, next, err := c.jobs.List(ctx, kind, month, 0, cursor)
			if err != nil {
				return nil, err
			}
			for _, j := range jobs {
				if j.Expires > c.now.Unix() {
					out = append(out, j)
				}
			}
			if cursor = next; cursor == "" {
				break
			}
		}
	}
}

// bulk checks a bulk kind: first its ledger, then what each job says about it.
func (c *checker) bulk(ctx context.Context, kind job.Bulk, jobs []job.Job) error {
	b := book{table: kind.Ledger(), kind: kind, jobs: map[string]job.Job{}}
	for _, j := range jobs {
		b.jobs[j.ID] = j
	}
	if err := c.members(ctx, b); err != nil {
		return err
	}
	settled := make([]manifest, len(jobs))
	for i, j := range jobs {
		m, err := c.manifest(ctx, b, j)
		if err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
		settled[i] = m
	}
	for i, j := range jobs {
		if err := c.job(ctx, j, settled[i]); err != nil {
			return fmt.Errorf("job %s: %w", j.ID, err)
		}
	}
	return nil
}

// manifest is what the advanced pages of a job account for.
type manifest struct {
	count   int64 // subjects, illegal ones and those left out included
	applied int64 // entries applied by this job
	already int64 // settled as already, and left out
	failed  int64
}

func (c *checker) manifest(ctx context.Context, b book, j job.Job) (manifest, error) {
	var m manifest
	entries := ledger.New(c.store, b.table, func() time.Time { return c.now })
	err := c.jobs.Manifest(ctx, j, func(_ int, p job.Page) error {
		m.count += p.Count()
		m.already += p.LeftOut
		if err := c.strangers(ctx, b, p.Subjects); err != nil {
			return err
		}
		keys := make([]once.Key, len(p.Subjects))
		for i, s := range p.Subjects {
			k, err := once.NewKey(j.Kind, j.Scope, s)
			if err != nil {
				c.violated("I3 job %s: its manifest has subject %q: %v", j.ID, s, err)
				return nil
			}
			keys[i] = k
		}
		how, err := entries.Standing(ctx, ledger.Cause{Job: j.ID, Inputs: j.Inputs}, keys...)
		if err != nil {
			return err
		}
		settled, err := c.jobs.Settlements(ctx, j, append(p.Subjects[:len(p.Subjects):len(p.Subjects)], p.Illegal...)...)
		if err != nil {
			return err
		}
		for i, x := range settled {
			name, own := "", false
			if i < len(keys) {
				name, own = p.Subjects[i], how[i] == ledger.Duplicate
			} else {
				name = p.Illegal[i-len(keys)]
			}
			switch {
			case own:
				m.applied++
			case x.Outcome == job.OutcomeAlready:
				m.already++
			case x.Outcome == job.OutcomeFailed:
				m.failed++
			case j.State == job.Completed:
				c.violated("I3 job %s: %s is not settled", j.ID, name)
			}
			if own && x.Outcome != "" {
				c.violated("I3 job %s: %s is applied by the job and settled as %s too", j.ID, name, x.Outcome)
			}
		}
		return nil
	})
	return m, err
}

// job checks the numbers of one job.
func (c *checker) job(ctx context.Context, j job.Job, m manifest) error {
	c.report.Jobs++
	if j.State.Active() {
		c.report.Active++
	}
	t, err := c.jobs.TallyOf(ctx, j)
	if err != nil {
		return err
	}
	if c.applied[j.ID] != t.Applied {
		c.violated("I3 job %s: counted %d applied, but %d entries are its own", j.ID, t.Applied, c.applied[j.ID])
	}
	if j.TotalKnown() && t.Settled() > j.Total {
		c.violated("I6 job %s: counted %d of a total of %d", j.ID, t.Settled(), j.Total)
	}
	if j.TotalKnown() && m.count != j.Total {
		c.violated("I3 job %s: total %d, but its manifest has %d", j.ID, j.Total, m.count)
	}
	if j.State.Active() {
		return nil
	}
	if end := (job.Counts{Applied: j.Applied, Already: j.Already, Failed: j.Failed}); t.Counts != end {
		c.violated("I5 job %s: ended with %+v, its tally now has %+v", j.ID, end, t.Counts)
	}
	if j.State != job.Completed {
		if t.Open > 0 {
			c.violated("I5 job %s: is %s with %d open shards", j.ID, j.State, t.Open)
		}
		return nil
	}
	if got := (job.Counts{Applied: m.applied, Already: m.already, Failed: m.failed}); got != t.Counts {
		c.violated("I3 job %s: counted %+v, its manifest shows %+v", j.ID, t.Counts, got)
	}
	if t.Settled() != j.Total {
		c.violated("I3 job %s: COMPLETED with %d settled of a total of %d", j.ID, t.Settled(), j.Total)
	}
	return nil
}

// periods checks the records of periods.
func (c *checker) periods(ctx context.Context, kind once.Kind, jobs []job.Job) error {
	byID := map[string]job.Job{}
	fired := map[once.Period]string{}
	for _, j := range jobs {
		byID[j.ID] = j
		if !j.Fired {
			continue
		}
		if other, twice := fired[j.Period]; twice {
			c.violated("period %s of %s: two scheduled jobs, %s and %s", j.Period, kind, other, j.ID)
		}
		fired[j.Period] = j.ID
	}
	return c.jobs.Periods(ctx, kind, func(p once.Period, rec job.Period) error {
		if by, ok := byID[rec.ClosedBy]; ok && (by.State != job.Completed || by.Failed > 0 || by.Period != p) {
			c.violated("period %s of %s: closed by job %s, which is %s with %d failures", p, kind, by.ID, by.State, by.Failed)
		}
		if id, ok := fired[p]; ok && id != rec.ScheduledJob {
			c.violated("period %s of %s: its scheduled job is %q, but job %s was fired", p, kind, rec.ScheduledJob, id)
		}
		if last, ok := byID[rec.LastJob]; ok && rec.ClosedBy == "" && last.State == job.Completed && last.Failed == 0 {
			c.violated("period %s of %s: job %s completed without failures and did not close it", p, kind, last.ID)
		}
		return nil
	})
}

// slots checks I4 from the side of the slots; the active jobs are counted against them.
func (c *checker) slots(ctx context.Context) error {
	held, err := c.jobs.Slots(ctx)
	if err != nil {
		return err
	}
	for _, s := range held {
		j, err := c.jobs.Find(ctx, s.Job)
		switch {
		case errors.Is(err, job.ErrNoSuchJob):
			c.violated("I4 slot %s: its job %s does not exist", s.Slot, s.Job)
		case err != nil:
			return err
		case !j.State.Active() || j.Slot != s.Slot:
			c.violated("I4 slot %s: held by job %s, which is %s with slot %s", s.Slot, j.ID, j.State, j.Slot)
		}
	}
	if len(held) != c.report.Active {
		c.violated("I4 %d slots are held, but %d jobs are active", len(held), c.report.Active)
	}
	return nil
}
