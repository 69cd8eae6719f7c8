package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// Parallel transactions of the bare loop.
const bareParallel = 2

// bareLoop measures what the store itself can do: the transactions of a run, full groups of postings with one tally shard each, sent to a fresh data file by a loop that does nothing
// else. What an engine reaches of that is what its queues, events and checks leave over. n postings, in grants per second.
func bareLoop(ctx context.Context, dir string, noSync bool, amount, n int64, zone *time.Location, show func(done int64)) (perSecond float64, err error) {
	s, err := openData(filepath.Join(dir, "bare-loop.db"), noSync)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	now := func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
	jobs := job.NewStore(s, now)
	opening, err := monthlypoint.New(s, zone).Open(now(), []byte(monthlypoint.Inputs(amount)))
	if err != nil {
		return 0, err
	}
	j, _, err := jobs.Open(ctx, job.Request{Opening: opening, ID: job.NewID(monthlypoint.Name, now())})
	if err != nil {
		return 0, err
	}
	groups := make(chan []once.Posting)
	stop, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	begun := time.Now()
	for worker := range bareParallel {
		wg.Go(func() {
			l := ledger.New(s, monthlypoint.Table, now)
			cause := ledger.Cause{Job: j.ID, Inputs: j.Inputs, Scheduled: j.Scheduled}
			for shard := worker; ; shard += bareParallel {
				group, ok := <-groups
				if !ok {
					return
				}
				if err := l.Apply(stop, cause, group, jobs.Count(j.ID, shard%j.Shards, job.Counts{Applied: int64(len(group))})); err != nil {
					cancel(fmt.Errorf("bare loop: %w", err))
				}
			}
		})
	}
	err = feed(stop, groups, j, amount, n, show)
	close(groups)
	wg.Wait()
	if err == nil {
		err = context.Cause(stop)
	}
	return ratio(float64(n), time.Since(begun).Seconds()), err
}

// feed makes the groups.
func feed(ctx context.Context, groups chan<- []once.Posting, j job.Job, amount, n int64, show func(done int64)) error {
	for from := int64(0); from < n; from += ledger.MaxGroup {
		var group []once.Posting
		for i := from; i < min(from+ledger.MaxGroup, n); i++ {
			subject := fmt.Sprintf("member-%06d", i)
			key, err := once.NewKey(j.Kind, j.Scope, subject)
			if err != nil {
				return err
			}
			group = append(group, once.Posting{Key: key, Effects: []once.Effect{once.Add{Subject: subject, Name: monthlypoint.Balance, N: amount}}})
		}
		select {
		case groups <- group:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		show(min(from+ledger.MaxGroup, n))
	}
	return nil
}
