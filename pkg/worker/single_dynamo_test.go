package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// On the strict DynamoDB emulator a job opens, is claimed, fails once, is claimed again and completes as on the embedded store, and a late attempt changes nothing. From the request to a text of 4 KB it
// costs at most 40 write units.
func TestASingleJobOnDynamoDB(t *testing.T) {
	t.Parallel()
	d := newDesk(t, dynamotest.Open(t, job.Table, summaries).Store(t))
	spent := d.store.Meter().Spent()
	j := d.open(today)
	var active *job.ActiveError
	if _, _, err := d.jobs.Open(t.Context(), job.Request{ID: job.NewID(til, now()), Opening: job.Opening{Kind: til, Slot: j.Slot, Attempts: 3}}); !errors.As(err, &active) || active.Job.ID != j.ID {
		t.Errorf("second opening: %v, want *ActiveError", err)
	}
	d.kind.items = func(j job.Job, _ []once.Effect) []store.Write {
		return []store.Write{store.Update(rowKey(j.Scope), store.Attrs{"text": strings.Repeat("x", 4096)}, map[string]int64{"revision": 1})}
	}
	equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
	d.ends(j, job.Completed, "", "", 1)
	if cost := d.store.Meter().Spent().Since(spent); cost.Write > 40 {
		t.Errorf("cost %+v, want at most 40 write units", cost)
	}

	j = d.open(today)
	late := d.claim(j)
	d.requeue(j)
	equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
	d.ends(j, job.Completed, "", "lease-expired", 2)
	d.unchanged(func() {
		_, renewed := late.Renew(t.Context())
		_, released := late.Release(t.Context(), "late", time.Minute)
		for what, err := range map[string]error{
			"renew": renewed, "release": released, "fail": late.Fail(t.Context(), "late"), "complete": late.Complete(t.Context(), d.kind.Items(j, text(late.Job()))...),
		} {
			if !errors.Is(err, job.ErrLost) {
				t.Errorf("%s of a late attempt: %v, want ErrLost", what, err)
			}
		}
	})

	j = d.open(today)
	d.cancel(j)
	d.unchanged(func() { equal(t, "handed back", d.deliver(t.Context(), nil, j), ids()) })
	d.ends(j, job.Cancelled, "", "", 0)
}

// Answers that are lost on the wire: a claim is a single write and is found again by its token, an end by the job as it then stands. TXN-10
func TestSingleAnswersLostOnTheWire(t *testing.T) {
	t.Parallel()
	for op, state := range map[string]job.State{"UpdateItem": job.Completed, "TransactWriteItems": job.Completed} { // the claim; the completion
		for name, answers := range map[string][]dynamotest.Answer{
			"once":        {dynamotest.Cut(true)},
			"twice":       {dynamotest.Cut(true), dynamotest.Cut(true)},
			"never there": {dynamotest.Cut(false)},
			"500":         {dynamotest.Lose(500, `{"__type":"InternalServerError"}`)},
		} {
			t.Run(fmt.Sprint(op, " ", name), func(t *testing.T) {
				t.Parallel()
				db := dynamotest.Open(t, job.Table, summaries)
				d := newDesk(t, db.Store(t))
				j := d.open(today)
				if op == "UpdateItem" {
					db.Faults.Script(op, answers...)
				} else {
					d.kind.result = func(_ context.Context, j job.Job) ([]once.Effect, error) { // not the claim
						db.Faults.Script(op, answers...)
						return text(j), nil
					}
				}
				equal(t, "handed back", d.deliver(t.Context(), nil, j), ids())
				d.ends(j, state, "", "", 1)
				equal(t, "calls", d.kind.called(), 1)
			})
		}
	}
}
