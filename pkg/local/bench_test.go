package local_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// A month from the firing to the close, through queues, events, fan-out and workers, on the embedded store with fsync off. One table for growth: grants/s must stay level from 1,000
// members to 100,000, and so must the units per grant. of-bare-1 and of-bare-8 are the share of what a bare loop of the same transactions reaches on the same kind of store in the same run, with
// one transaction after the other, and with eight in flight, as four workers at once have.
func BenchmarkMonth(b *testing.B) {
	for _, members := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			var run, one, eight time.Duration
			units, requests := 0.0, int64(0)
			for range b.N {
				s := openStore(b)
				addMembers(b, s, members)
				stack := startStack(b, s, nil)
				before, begun := s.Meter().Spent(), time.Now()
				if err := stack.Fire(b.Context(), firing); err != nil {
					b.Fatal(err)
				}
				settle(b, stack)
				run += time.Since(begun)
				units += s.Meter().Spent().Since(before).Write
				requests += int64(stack.Stats().Requests)
				one += bareLoop(b, members, 1)
				eight += bareLoop(b, members, 8)
			}
			grants := float64(members * b.N)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(grants/run.Seconds(), "grants/s")
			b.ReportMetric(one.Seconds()/run.Seconds(), "of-bare-1")
			b.ReportMetric(eight.Seconds()/run.Seconds(), "of-bare-8")
			b.ReportMetric(units/grants, "write-units/grant")
			b.ReportMetric(float64(requests)/grants, "sqs-requests/grant")
		})
	}
}

// bareLoop sends the transactions of a month, full groups with one tally shard each, and nothing else.
func bareLoop(b *testing.B, members, parallel int) time.Duration {
	s := openStore(b)
	now := func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
	jobs, points := job.NewStore(s, now), ledger.New(s, monthlypoint.Table, now)
	opening, err := monthlypoint.New(s, time.UTC).Open(now(), []byte(monthlypoint.Inputs(100)))
	if err != nil {
		b.Fatal(err)
	}
	j, _, err := jobs.Open(b.Context(), job.Request{Opening: opening, ID: job.NewID(monthlypoint.Name, now())})
	if err != nil {
		b.Fatal(err)
	}
	cause := ledger.Cause{Job: j.ID, Inputs: j.Inputs, Scheduled: j.Scheduled}
	begun := time.Now()
	var wg sync.WaitGroup
	for w := range parallel {
		wg.Go(func() {
			for from, shard := w*ledger.MaxGroup, w; from < members; from, shard = from+parallel*ledger.MaxGroup, shard+parallel {
				var group []once.Posting
				for i := from; i < min(from+ledger.MaxGroup, members); i++ {
					subject := fmt.Sprintf("member-%06d", i)
					key, err := once.NewKey(j.Kind, j.Scope, subject)
					if err != nil {
						b.Error(err)
						return
					}
					group = append(group, once.Posting{Key: key, Effects: []once.Effect{once.Add{Subject: subject, Name: monthlypoint.Balance, N: 100}}})
				}
				if err := points.Apply(b.Context(), cause, group, jobs.Count(j.ID, shard%j.Shards, job.Counts{Applied: int64(len(group))})); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}
