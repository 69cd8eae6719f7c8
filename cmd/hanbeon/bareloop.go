package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// bareLoop measures what the store itself can do: the transactions of a run, full groups of postings with one tally shard each, sent to a fresh data file one after the other by a loop
// that does nothing else. What an engine reaches of that is what its queues, events and checks leave over. n postings, in grants per second.
func bareLoop(ctx context.Context, dir string, noSync bool, amount, n int64, zone *time.Location, show func(done int64)) (perSecond float64, err error) {
	s, err := openData(filepath.Join(dir, "bare-loop.db"), noSync)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	now := func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
	jobs, points := job.NewStore(s, now), ledger.New(s, monthlypoint.Table, now)
	opening, err := monthlypoint.New(s, zone).Open(now(), []byte(monthlypoint.Inputs(amount)))
	if err != nil {
		return 0, err
	}
	j, _, err := jobs.Open(ctx, job.Request{Opening: opening, ID: job.NewID(monthlypoint.Name, now())})
	if err != nil {
		return 0, err
	}
	cause := ledger.Cause{Job: j.ID, Inputs: j.Inputs, Scheduled: j.Scheduled}
	begun := time.Now()
	for from := int64(0); from < n; from += ledger.MaxGroup {
		var group []once.Posting
		for i := from; i < min(from+ledger.MaxGroup, n); i++ {
			subject := fmt.Sprintf("member-%06d", i)
			key, err := once.NewKey(j.Kind, j.Scope, subject)
			if err != nil {
				return 0, err
			}
			group = append(group, once.Posting{Key: key, Effects: []once.Effect{once.Add{Subject: subject, Name: monthlypoint.Balance, N: amount}}})
		}
		shard := int(from/ledger.MaxGroup) % j.Shards
		if err := points.Apply(ctx, cause, group, jobs.Count(j.ID, shard, job.Counts{Applied: int64(len(group))})); err != nil {
			return 0, fmt.Errorf("bare loop: %w", err)
		}
		show(min(from+ledger.MaxGroup, n))
	}
	return ratio(float64(n), time.Since(begun).Seconds()), nil
}
