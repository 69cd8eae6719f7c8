package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
)

func jobPath(id string) string { return "/v1/jobs/" + url.PathEscape(id) }

// Job implements Service.
func (s *service) Job(ctx context.Context, id, knownETag string) (JobAnswer, error) {
	j, err := s.jobs.Find(ctx, id)
	if err != nil {
		return JobAnswer{}, s.errorOf(err)
	}
	logJob(ctx, j.ID)
	view, err := s.viewOf(ctx, j)
	if err != nil {
		return JobAnswer{}, s.errorOf(err)
	}
	etag, err := etagOf(view)
	if err != nil {
		return JobAnswer{}, s.errorOf(err)
	}
	a := JobAnswer{Job: view, ETag: etag}
	if view.Active() {
		a.RetryAfter = s.retryAfter(j)
	}
	if knownETag == etag {
		a.Job, a.NotModified = Job{}, true
	}
	return a, nil
}

// etagOf is a strong validator: of one JSON text there is one. The time of the answer is no part of it.
func etagOf(v any) (string, error) {
	b, err := json.Marshal(v)
	sum := sha256.Sum256(b)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`, err
}

func (s *service) viewOf(ctx context.Context, j job.Job) (Job, error) {
	c := job.Counts{Applied: j.Applied, Already: j.Already, Failed: j.Failed}
	if j.State.Active() && !j.Single() {
		var err error
		if c, err = s.jobs.CountsOf(ctx, j); err != nil {
			return Job{}, err
		}
	}
	v := Job{
		ID: j.ID, Kind: string(j.Kind), Slot: j.Slot, Period: string(j.Period), State: string(j.State), Reason: j.Reason, Inputs: json.RawMessage(j.Inputs),
		RequestedBy: j.RequestedBy, Fired: j.Fired, Rerun: j.Rerun && j.Period != "", Applied: c.Applied, Already: c.Already, Failed: c.Failed,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, LastError: j.LastError,
		CreatedAt: j.CreatedAt, StartedAt: j.StartedAt, FinishedAt: j.FinishedAt,
	}
	if !json.Valid(v.Inputs) {
		v.Inputs = json.RawMessage("{}")
	}
	if j.State.Active() {
		v.Ending = string(j.Ending)
	}
	if j.TotalKnown() {
		v.Total = &j.Total
	}
	return v, nil
}

func refOf(j job.Job) *JobRef {
	return &JobRef{ID: j.ID, Kind: string(j.Kind), Slot: j.Slot, State: string(j.State), Link: jobPath(j.ID)}
}

// Cancel implements Service.
func (s *service) Cancel(ctx context.Context, id string) (Job, error) {
	j, _, err := s.jobs.Cancel(ctx, id)
	logJob(ctx, j.ID)
	if errors.Is(err, job.ErrOver) {
		e := typed(problem(http.StatusConflict, "the job is over, or about to be"), TypeOver, "Already over")
		e.Job = refOf(j)
		return Job{}, e
	}
	if err != nil {
		// Marked and not finished in time is success: the end comes by itself.
		if now, again := s.jobs.Find(context.WithoutCancel(ctx), id); again == nil && now.Ending == job.Cancelled {
			j, err = now, nil
		}
	}
	if err != nil {
		return Job{}, s.errorOf(err)
	}
	v, err := s.viewOf(ctx, j)
	if err != nil {
		return Job{}, s.errorOf(err)
	}
	return v, nil
}

// states are those a list may be asked for.
var states = [...]job.State{job.Pending, job.Running, job.Completed, job.Failed, job.Cancelled}

// What one page looks at before it is sent as it is, short or empty: a filter may match one job in thousands.
const (
	maxScanned = 1000
	maxQueries = 30
)

// Jobs implements Service.
func (s *service) Jobs(ctx context.Context, q JobsQuery) (JobList, error) {
	limit, err := limitOf(q.Limit)
	if err != nil {
		return JobList{}, err
	}
	parts, err := s.partitions(q)
	if err != nil {
		return JobList{}, err
	}
	scope := cursorScope("jobs", q.Kind, q.State, q.Month)
	at := []string{"", "", ""} // month, kind, cursor of the store
	if q.Cursor != "" {
		if at, err = openCursor(scope, q.Cursor, len(at)); err != nil {
			return JobList{}, err
		}
		// A month that has expired since is passed over, and so is everything before where the page ended.
		n := slices.IndexFunc(parts, func(p partition) bool { return !p.before(at[0], at[1]) })
		if n < 0 {
			n = len(parts)
		}
		parts = parts[n:]
	}
	list := JobList{Jobs: []Job{}}
	scanned, queries := 0, 0
	for _, p := range parts {
		cursor := ""
		if p.month == at[0] && string(p.kind) == at[1] {
			cursor = at[2]
		}
		for more := true; more; more = cursor != "" {
			if len(list.Jobs) == limit || scanned >= maxScanned || queries >= maxQueries {
				list.Next = sealCursor(scope, p.month, string(p.kind), cursor)
				return list, nil
			}
			page, next, err := s.jobs.List(ctx, p.kind, once.Period(p.month).Start(time.UTC), limit-len(list.Jobs), cursor)
			if err != nil {
				return JobList{}, s.errorOf(err)
			}
			cursor, queries, scanned = next, queries+1, scanned+len(page)
			for _, j := range page {
				if q.State != "" && j.State != job.State(q.State) {
					continue
				}
				v, err := s.viewOf(ctx, j)
				if err != nil {
					return JobList{}, s.errorOf(err)
				}
				list.Jobs = append(list.Jobs, v)
			}
		}
	}
	return list, nil
}

// partition is a month and a kind: the jobs of one are kept together.
type partition struct {
	month string
	kind  once.Kind
}

// before tells whether the partition comes before another in the list: the newest month first, then by kind.
func (p partition) before(month, kind string) bool {
	return p.month > month || p.month == month && string(p.kind) < kind
}

// partitions are those that the query is about, in the order of the list.
func (s *service) partitions(q JobsQuery) ([]partition, error) {
	if q.State != "" && !slices.Contains(states[:], job.State(q.State)) {
		return nil, invalid("state", "want one of %v", states)
	}
	of := kinds[:]
	if q.Kind != "" {
		if !slices.Contains(of, once.Kind(q.Kind)) {
			return nil, invalid("kind", "want one of %v", kinds)
		}
		of = []once.Kind{once.Kind(q.Kind)}
	}
	now := s.env.Now()
	newest, oldest := once.MonthOf(now.AddDate(0, 0, 1), time.UTC), once.MonthOf(now.Add(-job.Retention), time.UTC)
	if q.Month != "" {
		m, err := once.ParsePeriod(q.Month)
		if err != nil || !m.IsMonth() {
			return nil, invalid("month", "want a month such as 2024-04")
		}
		newest, oldest = m, m
	}
	var parts []partition
	for m := newest; m >= oldest; m = m.Previous() {
		for _, k := range of {
			parts = append(parts, partition{string(m), k})
		}
	}
	return parts, nil
}

// Failures implements Service.
func (s *service) Failures(ctx context.Context, q FailuresQuery) (FailureList, error) {
	limit, err := limitOf(q.Limit)
	if err != nil {
		return FailureList{}, err
	}
	j, err := s.jobs.Find(ctx, q.Job)
	if err != nil {
		return FailureList{}, s.errorOf(err)
	}
	logJob(ctx, j.ID)
	scope := cursorScope("failures", j.ID)
	cursor := ""
	if q.Cursor != "" {
		at, err := openCursor(scope, q.Cursor, 1)
		if err != nil {
			return FailureList{}, err
		}
		cursor = at[0]
	}
	list := FailureList{Failures: []Failure{}}
	for queries := 0; ; queries++ {
		if len(list.Failures) == limit || queries == maxQueries {
			list.Next = sealCursor(scope, cursor)
			return list, nil
		}
		page, next, err := s.jobs.Settled(ctx, j.ID, cursor, limit-len(list.Failures))
		if err != nil {
			return FailureList{}, s.errorOf(err)
		}
		for _, x := range page {
			if x.Outcome == job.OutcomeFailed {
				list.Failures = append(list.Failures, Failure{Subject: x.Subject, Reason: x.Reason, At: x.At})
			}
		}
		if cursor = next; cursor == "" {
			return list, nil
		}
	}
}
