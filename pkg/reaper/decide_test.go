package reaper_test

import (
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/reaper"
)

// The table is the specification of the reaper. Times are how long ago something happened; a bulk job has 2 segments and a total of 10 unless said otherwise, a single job 3 attempts.
func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2024, 4, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const (
		m       = reaper.Margin
		moment  = time.Millisecond
		stalled = reaper.Stalled
	)
	pending := func(created time.Duration, resends int, resent time.Duration) reaper.Snapshot {
		j := job.Job{State: job.Pending, Segments: 2, CreatedAt: ago(created), SegmentResends: resends}
		if resends > 0 {
			j.ResentAt = ago(resent)
		}
		return reaper.Snapshot{Job: j, Segments: make([]job.Segment, 2)}
	}
	// running is a job of which something moved last so long ago, with its fan-out finished or not and so many subjects settled.
	running := func(quiet time.Duration, done int, settled int64, resends int) reaper.Snapshot {
		return reaper.Snapshot{
			Job:   job.Job{State: job.Running, Segments: 2, SegmentsDone: done, Total: 10, CreatedAt: ago(30 * 24 * time.Hour), StartedAt: ago(quiet), SegmentResends: resends, SubjectResends: resends},
			Tally: job.Tally{Counts: job.Counts{Applied: settled}},
		}
	}
	ending := func(state job.State) reaper.Snapshot {
		s := running(0, 1, 0, 0)
		s.Job.State, s.Job.Ending = state, job.Cancelled
		return s
	}
	// waits is a single job that waits for its first attempt since it was opened, or for a later one since its pause was over; works is one with a lease until so long from now.
	waits := func(attempt int, since time.Duration, resends int, resent time.Duration) reaper.Snapshot {
		j := job.Job{State: job.Pending, MaxAttempts: 3, Attempt: attempt, CreatedAt: ago(since), Resends: resends}
		if attempt > 0 {
			j.CreatedAt, j.NotBefore, j.StartedAt, j.LeaseUntil = ago(since+24*time.Hour), ago(since), ago(since+time.Hour), ago(since+time.Hour)
		}
		if resends > 0 {
			j.ResentAt = ago(resent)
		}
		return reaper.Snapshot{Job: j}
	}
	works := func(attempt int, left time.Duration) reaper.Snapshot {
		return reaper.Snapshot{Job: job.Job{State: job.Running, MaxAttempts: 3, Attempt: attempt, CreatedAt: ago(30 * 24 * time.Hour), StartedAt: ago(29 * 24 * time.Hour), LeaseUntil: ago(-left)}}
	}
	with := func(s reaper.Snapshot, f func(*reaper.Snapshot)) reaper.Snapshot {
		f(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		s    reaper.Snapshot
		want reaper.Action
	}{
		// The slot's job is over or gone.
		{"a slot without a job", reaper.Snapshot{}, reaper.FreeSlot},
		{"a slot of a COMPLETED job", reaper.Snapshot{Job: job.Job{State: job.Completed}}, reaper.FreeSlot},
		{"a slot of a FAILED job", reaper.Snapshot{Job: job.Job{State: job.Failed, Ending: job.Failed}}, reaper.FreeSlot},
		{"a slot of a CANCELLED job", reaper.Snapshot{Job: job.Job{State: job.Cancelled, Ending: job.Cancelled}}, reaper.FreeSlot},

		// An ending that has begun waits for nothing.
		{"an ending begun just now while PENDING", ending(job.Pending), reaper.Finish},
		{"an ending begun just now while RUNNING", ending(job.Running), reaper.Finish},
		{"an ending begun after everything was settled", with(running(0, 2, 10, 0), func(s *reaper.Snapshot) { s.Job.Ending = job.Cancelled }), reaper.Finish},

		// PENDING: its segments may never have been sent. The pauses double; a backlog of hours is no death.
		{"just opened", pending(0, 0, 0), reaper.Leave},
		{"opened two minutes ago by a clock that is ahead", pending(reaper.Unsent+m, 0, 0), reaper.Leave},
		{"opened two minutes ago", pending(reaper.Unsent+m+moment, 0, 0), reaper.SendSegments},
		{"sent again a moment ago", pending(time.Hour, 1, 0), reaper.Leave},
		{"sent again once, four minutes ago", pending(time.Hour, 1, 2*reaper.Unsent+m), reaper.Leave},
		{"sent again once, and more than four minutes ago", pending(time.Hour, 1, 2*reaper.Unsent+m+moment), reaper.SendSegments},
		{"sent again five times, an hour ago", pending(5*time.Hour, 5, time.Hour), reaper.Leave},
		{"sent again five times, and more than an hour ago", pending(5*time.Hour, 5, 32*reaper.Unsent+m+moment), reaper.SendSegments},
		{"PENDING for six hours by a clock that is ahead", pending(reaper.NeverStarted+m, 6, 0), reaper.Leave},
		{"PENDING for more than six hours", pending(reaper.NeverStarted+m+moment, 6, 0), reaper.FailUnsent},
		{"opened in the future", pending(-time.Hour, 0, 0), reaper.Leave},

		// Everything is settled, and nobody closed.
		{"all settled just now", running(0, 2, 10, 0), reaper.Close},
		{"all settled long ago", running(10*stalled, 2, 10, 3), reaper.Close},
		{"nobody to settle", with(running(0, 2, 0, 0), func(s *reaper.Snapshot) { s.Job.Total = 0 }), reaper.Close},
		{"settled in every way", with(running(0, 2, 0, 0), func(s *reaper.Snapshot) { s.Tally.Counts = job.Counts{Applied: 5, Already: 3, Failed: 2} }), reaper.Close},
		{"all that are known so far are settled, and the fan-out goes on", running(0, 1, 10, 0), reaper.Leave},

		// The fan-out is not finished.
		{"the fan-out moves", running(0, 1, 0, 0), reaper.Leave},
		{"the fan-out was quiet as long as a message may be out of sight", running(stalled+m, 1, 0, 0), reaper.Leave},
		{"the fan-out was quiet longer", running(stalled+m+moment, 1, 0, 0), reaper.SendSegments},
		{"sent again once, quiet for twice as long", running(2*stalled+m, 1, 0, 1), reaper.Leave},
		{"sent again once, quiet for longer", running(2*stalled+m+moment, 1, 0, 1), reaper.SendSegments},
		{"sent again twice, quiet for four times as long", running(4*stalled+m, 1, 0, 2), reaper.Leave},
		{"sent again twice, quiet for longer", running(4*stalled+m+moment, 1, 0, 2), reaper.SendSegments},
		{"sent again three times, quiet for eight times as long", running(8*stalled+m, 1, 0, 3), reaper.Leave},
		{"sent again three times, quiet for longer", running(8*stalled+m+moment, 1, 0, 3), reaper.FailFanOut},
		{"a segment was advanced a moment ago", with(running(9*stalled, 1, 0, 3), func(s *reaper.Snapshot) { s.Segments = []job.Segment{{}, {TouchedAt: ago(0)}} }), reaper.Leave},
		{"a subject was settled a moment ago", with(running(9*stalled, 1, 0, 3), func(s *reaper.Snapshot) { s.Tally.TouchedAt = ago(0) }), reaper.Leave},
		{"its messages were sent again a moment ago", with(running(9*stalled, 1, 0, 3), func(s *reaper.Snapshot) { s.Job.ResentAt = ago(0) }), reaper.Leave},

		// The fan-out is finished, subjects are missing.
		{"the workers move", running(0, 2, 9, 0), reaper.Leave},
		{"the workers were quiet as long as a message may be out of sight", running(stalled+m, 2, 9, 0), reaper.Leave},
		{"the workers were quiet longer", running(stalled+m+moment, 2, 9, 0), reaper.SendSubjects},
		{"subjects sent again once, quiet for twice as long", running(2*stalled+m, 2, 9, 1), reaper.Leave},
		{"subjects sent again once, quiet for longer", running(2*stalled+m+moment, 2, 9, 1), reaper.SendSubjects},
		{"subjects sent again twice, quiet for four times as long", running(4*stalled+m, 2, 9, 2), reaper.Leave},
		{"subjects sent again twice, quiet for longer", running(4*stalled+m+moment, 2, 9, 2), reaper.SendSubjects},
		{"subjects sent again three times, quiet for eight times as long", running(8*stalled+m, 2, 9, 3), reaper.Leave},
		{"subjects sent again three times, quiet for longer", running(8*stalled+m+moment, 2, 9, 3), reaper.Exhaust},
		{"settling as exhausted has begun and did not get through", running(0, 2, 9, 4), reaper.Exhaust},
		{"a worker settled one a moment ago", with(running(9*stalled, 2, 9, 3), func(s *reaper.Snapshot) { s.Tally.TouchedAt = ago(0) }), reaper.Leave},

		// A single job that runs: its lease tells whether it lives, never how long it takes. JOB-05
		{"claimed just now", works(1, job.Lease), reaper.Leave},
		{"works for a month, its lease moves", works(1, time.Second), reaper.Leave},
		{"its lease ends now", works(1, 0), reaper.Leave},
		{"its lease has run out by a clock that is ahead", works(1, -m), reaper.Leave},
		{"its lease has run out", works(1, -m-moment), reaper.Requeue},
		{"... long ago", works(2, -30*24*time.Hour), reaper.Requeue},
		{"in its last attempt its lease has run out by a clock that is ahead", works(3, -m), reaper.Leave},
		{"in its last attempt its lease has run out", works(3, -m-moment), reaper.FailOrphan},
		{"in an attempt beyond the last", works(4, -m-moment), reaper.FailOrphan},
		{"in its only attempt", with(works(1, -m-moment), func(s *reaper.Snapshot) { s.Job.MaxAttempts = 1 }), reaper.FailOrphan},
		{"its message was sent again often, and it works", with(works(1, time.Second), func(s *reaper.Snapshot) { s.Job.Resends, s.Job.ResentAt = 9, ago(time.Hour) }), reaper.Leave},

		// A single job that waits: its message may never have been sent, or be lost. The pauses double; a backlog of hours is no death. JOB-03
		{"asked for just now", waits(0, 0, 0, 0), reaper.Leave},
		{"asked for two minutes ago by a clock that is ahead", waits(0, reaper.Unsent+m, 0, 0), reaper.Leave},
		{"asked for two minutes ago", waits(0, reaper.Unsent+m+moment, 0, 0), reaper.SendMessage},
		{"its message was sent again a moment ago", waits(0, time.Hour, 1, 0), reaper.Leave},
		{"its message was sent again once, four minutes ago", waits(0, time.Hour, 1, 2*reaper.Unsent+m), reaper.Leave},
		{"its message was sent again once, and more than four minutes ago", waits(0, time.Hour, 1, 2*reaper.Unsent+m+moment), reaper.SendMessage},
		{"its message was sent again five times, an hour ago", waits(0, 5*time.Hour, 5, time.Hour), reaper.Leave},
		{"its message was sent again five times, and more than an hour ago", waits(0, 5*time.Hour, 5, 32*reaper.Unsent+m+moment), reaper.SendMessage},
		{"sent again more often than hours have pauses", waits(0, 5*time.Hour, 1000, time.Hour), reaper.Leave},
		{"waits for six hours by a clock that is ahead", waits(0, reaper.NeverStarted+m, 9, 0), reaper.Leave},
		{"waits for more than six hours", waits(0, reaper.NeverStarted+m+moment, 9, 0), reaper.FailUnsent},
		{"asked for in the future", waits(0, -time.Hour, 0, 0), reaper.Leave},

		// ... or waits for its next attempt: time counts from the end of the pause.
		{"in its pause", waits(1, -10*time.Minute, 0, 0), reaper.Leave},
		{"its pause is over now", waits(1, 0, 0, 0), reaper.Leave},
		{"its pause is over for two minutes by a clock that is ahead", waits(1, reaper.Unsent+m, 0, 0), reaper.Leave},
		{"its pause is over for two minutes", waits(1, reaper.Unsent+m+moment, 0, 0), reaper.SendMessage},
		{"its pause is over, and it was sent again before", with(waits(2, reaper.Unsent+m, 0, 0), func(s *reaper.Snapshot) { s.Job.ResentAt = ago(24 * time.Hour) }), reaper.Leave},
		{"its pause is over for long, and it was sent again twice", waits(2, time.Hour, 2, 4*reaper.Unsent+m), reaper.Leave},
		{"its pause is over for long, and it was sent again twice and long ago", waits(2, time.Hour, 2, 4*reaper.Unsent+m+moment), reaper.SendMessage},
		{"waits for its next attempt for six hours", waits(1, reaper.NeverStarted+m, 9, 0), reaper.Leave},
		{"waits for its next attempt for more", waits(1, reaper.NeverStarted+m+moment, 9, 0), reaper.FailOrphan},

		// The slot's single job is over.
		{"a slot of a single job that is COMPLETED", with(works(1, time.Hour), func(s *reaper.Snapshot) { s.Job.State = job.Completed }), reaper.FreeSlot},
		{"a slot of a single job that is FAILED", with(works(3, -time.Hour), func(s *reaper.Snapshot) { s.Job.State = job.Failed }), reaper.FreeSlot},
		{"a slot of a single job that is CANCELLED", with(waits(0, 7*time.Hour, 0, 0), func(s *reaper.Snapshot) { s.Job.State = job.Cancelled }), reaper.FreeSlot},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := reaper.Decide(tt.s, now); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
