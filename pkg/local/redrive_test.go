package local_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/local"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// losing is a fault: messages that speak of a subject are accepted and lost.
type losing struct{ subject string }

var _ local.Faults = losing{}

func (l losing) Store(inner store.Store) store.Store { return inner }

func (l losing) Queue(inner queue.Queue) queue.Queue {
	return sim.ScriptQueue(inner, func(c sim.Call) (bool, error) {
		var kept []string
		for _, b := range c.Bodies {
			if !strings.Contains(b, l.subject) {
				kept = append(kept, b)
			}
		}
		if c.Op != sim.Send || len(kept) == len(c.Bodies) {
			return true, nil
		}
		return false, inner.Send(c.Ctx, c.Queue, kept...)
	})
}

func (l losing) Invocation(ctx context.Context) (context.Context, func() bool) {
	return ctx, func() bool { return false }
}

func (l losing) Arrival(queue.Name) (int, time.Duration) { return 1, 0 }

// SQS-16: a redrive long after the end of the job, twice. The member that was granted stays as it is; the message of the one that was not returns to the dead letters, since a
// finished job changes nothing any more, and a run of that month, not of the current one, grants it once.
func TestRedriveOfAFinishedJob(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	addMembers(t, s, 44)
	stack := startStack(t, s, func(c *local.Config) {
		c.Start = time.Date(2024, 2, 29, 15, 30, 0, 0, time.UTC)
		c.Faults = losing{"member-000043"}
	})
	if err := stack.Fire(t.Context(), json.RawMessage(`{"kind":"monthly-point","scheduledTime":"2024-02-29T15:30:00Z","amount":100}`)); err != nil {
		t.Fatal(err)
	}
	settle(t, stack) // the reaper sends the lost message again, and in the end settles it as exhausted
	checkGranted(t, stack, 43)
	env := stack.Env()
	period, _, err := job.NewStore(env.Store, env.Now).FindPeriod(t.Context(), "monthly-point", "2024-03")
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{"member-000042", "member-000043"} {
		if err := env.Queue.Send(t.Context(), "monthly-point-dlq", queue.Subject{Job: period.LastJob, Subject: member}.Encode()); err != nil {
			t.Fatal(err)
		}
	}
	stack.Skip(13 * 24 * time.Hour) // a day later the dead letters would be gone
	for i, want := range []int{2, 1} {
		moved, err := stack.Redrive("monthly-point")
		if err != nil || moved != want {
			t.Fatalf("redrive %d moved %d messages, %v; want %d", i+1, moved, err, want)
		}
		err = stack.Until(t.Context(), func() (bool, error) {
			q := stack.Stats().Queues
			return q["monthly-point"].Visible+q["monthly-point"].Hidden == 0 && q["monthly-point-dlq"].Visible == 1, nil
		})
		if err != nil {
			t.Fatalf("after redrive %d: %v; queues %+v", i+1, err, stack.Stats().Queues)
		}
		checkGranted(t, stack, 43)
		stack.Skip(5 * 24 * time.Hour)
	}
	// The fault ends with its stack.
	stack = startStack(t, s, func(c *local.Config) { c.Start = env.Now() })
	if j := run(t, stack, "2024-03"); j.State != job.Completed || j.Applied != 1 {
		t.Errorf("run again: %s with %d applied, want COMPLETED with 1", j.State, j.Applied)
	}
	checkGranted(t, stack, 44)
	items, err := s.Query(t.Context(), pointsOf("member-000043"))
	if err != nil || len(items.Items) != 2 || items.Items[0].Key.SK != "monthly-point:2024-03:member-000043" {
		t.Errorf("member-000043 has %v, %v; want an entry of 2024-03 and a balance", items.Items, err)
	}
}
