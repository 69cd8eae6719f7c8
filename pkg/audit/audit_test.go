package audit_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/aws/aws-lambda-go/events"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// line is a queue that keeps everything until it is taken.
type line struct {
	mu     sync.Mutex
	bodies map[queue.Name][]string
}

func (l *line) Send(_ context.Context, to queue.Name, bodies ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies[to] = append(l.bodies[to], bodies...)
	return nil
}

func (l *line) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

func (l *line) take(from queue.Name, n int) events.SQSEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.bodies[from]))
	var e events.SQSEvent
	for i, b := range l.bodies[from][:n] {
		e.Records = append(e.Records, events.SQSMessage{MessageId: fmt.Sprint("m", i), ReceiptHandle: fmt.Sprint("r", i), Body: b})
	}
	l.bodies[from] = l.bodies[from][n:]
	return e
}

// month is a store in which the points of one month were granted, by the real engines.
type month struct {
	env   job.Env
	zone  *time.Location
	queue *line
	bulk  job.Bulk // the kind whose messages are worked on
	kinds []job.Kind
}

func newMonth(t *testing.T) *month {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	m := &month{zone: zone, queue: &line{bodies: map[queue.Name][]string{}}, bulk: monthlypoint.New(s, zone), kinds: kinds.All(s, zone)}
	m.env = job.Env{
		Store: s, Queue: m.queue, Now: func() time.Time { return time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC) },
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Metric: func(once.Kind, string, float64) {},
	}
	return m
}

func (m *month) members(t *testing.T, n int) {
	t.Helper()
	var list []catalog.Member
	for i := range n {
		list = append(list, catalog.Member{ID: fmt.Sprintf("member-%04d", i), Status: catalog.Active, JoinedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)})
	}
	if _, err := catalog.New(m.env.Store).PutMembers(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// work delivers until both queues are empty.
func (m *month) work(t *testing.T) {
	t.Helper()
	fanout := dispatch.NewFanout(m.env, m.kinds...)
	points := worker.NewBulk(m.env, m.bulk)
	for {
		segments, subjects := m.queue.take(queue.Segments, 1), m.queue.take("monthly-point", 98)
		if len(segments.Records)+len(subjects.Records) == 0 {
			return
		}
		a, err := fanout.Handle(t.Context(), segments)
		if err != nil || len(a.BatchItemFailures) > 0 {
			t.Fatalf("fan-out: %v %v", a, err)
		}
		if a, err = points.Handle(t.Context(), subjects); err != nil || len(a.BatchItemFailures) > 0 {
			t.Fatalf("worker: %v %v", a, err)
		}
	}
}

func (m *month) fire(t *testing.T) {
	t.Helper()
	d := dispatch.NewDispatcher(m.env, m.kinds...)
	if err := d.Handle(t.Context(), []byte(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`)); err != nil {
		t.Fatal(err)
	}
}

func (m *month) run(t *testing.T) dispatch.Result {
	t.Helper()
	res, err := dispatch.NewDispatcher(m.env, m.kinds...).Run(t.Context(), dispatch.Run{Kind: "monthly-point", Period: "2024-04", Input: []byte(`{"amount":100}`), RequestedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (m *month) check(t *testing.T) audit.Report {
	t.Helper()
	r, err := audit.Check(t.Context(), m.env.Store, m.env.Now(), nil, m.kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAMonthHoldsEveryInvariant(t *testing.T) {
	t.Parallel()
	const members = 1200
	m := newMonth(t)
	m.members(t, members)
	m.fire(t)
	m.work(t)
	m.fire(t)
	m.work(t)
	again := m.run(t)
	m.work(t)
	r := m.check(t)
	if !r.OK() || r.Entries != members || r.BalanceSum["points"] != 100*members || r.EntrySum["points"] != 100*members || r.Jobs != 2 || r.Active != 0 {
		t.Errorf("got %+v, want %d entries of 100 in 2 jobs and no violation", r, members)
	}
	j, err := job.NewStore(m.env.Store, m.env.Now).Find(t.Context(), again.Job.ID)
	if err != nil || j.State != job.Completed || j.Applied != 0 || j.Already != members || j.Total != members {
		t.Errorf("second run: got %+v (%v), want COMPLETED with %d already", j, err, members)
	}
}

// Each way to break a store is found, and named by its invariant.
func TestEveryBreakIsFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		want string
		with func(m *month, j job.Job) []store.Write
	}{
		"a balance that was edited": {"I2", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(store.Key{Table: "points", PK: "member-0001", SK: "points"}, nil, map[string]int64{"n": 100})}
		}},
		"an entry that was deleted": {"I2", func(*month, job.Job) []store.Write {
			return []store.Write{store.Delete(store.Key{Table: "points", PK: "member-0001", SK: "monthly-point:2024-04:member-0001"})}
		}},
		"an entry and its balance that were deleted": {"I3", func(*month, job.Job) []store.Write {
			return []store.Write{
				store.Delete(store.Key{Table: "points", PK: "member-0001", SK: "monthly-point:2024-04:member-0001"}),
				store.Delete(store.Key{Table: "points", PK: "member-0001", SK: "points"}),
			}
		}},
		"an entry under another subject": {"I1", func(*month, job.Job) []store.Write {
			return []store.Write{store.Put(store.Key{Table: "points", PK: "member-0002", SK: "monthly-point:2024-04:member-0001"},
				store.Attrs{"key": "monthly-point:2024-04:member-0001", "state": "failed"})}
		}},
		"an entry that cannot be read": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{store.Put(entryKey("member-0001"), store.Attrs{"state": int64(1)})}
		}},
		"an entry in no known state": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(entryKey("member-0001"), store.Attrs{"state": "granted"}, nil)}
		}},
		"another amount than the job's, and the balance with it": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{
				store.Update(entryKey("member-0001"), store.Attrs{"amount": 1000}, nil),
				store.Update(store.Key{Table: "points", PK: "member-0001", SK: "points"}, store.Attrs{"n": 1000}, nil),
			}
		}},
		"an amount on another balance": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{
				store.Update(entryKey("member-0001"), store.Attrs{"balance": "coins"}, nil),
				store.Put(store.Key{Table: "points", PK: "member-0001", SK: "coins"}, store.Attrs{"n": 100, "entries": 1}),
				store.Delete(store.Key{Table: "points", PK: "member-0001", SK: "points"}),
			}
		}},
		"another digest than the job's": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(entryKey("member-0001"), store.Attrs{"digest": "?"}, nil)}
		}},
		"a document where the job adds": {"I1 points/member-0001", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(entryKey("member-0001"), store.Attrs{"doc": store.Attrs{"text": "x"}}, nil)}
		}},
		"an entry of another period of the job": {"I1 points/member-0001", func(_ *month, j job.Job) []store.Write {
			k, _ := once.NewKey("monthly-point", "2024-03", "member-0001")
			return []store.Write{store.Put(store.Key{Table: "points", PK: "member-0001", SK: k.String()},
				store.Attrs{"key": k.String(), "state": "failed", "jobId": j.ID, "digest": once.Digest(k, j.Inputs)})}
		}},
		"an entry that expires": {"I1", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(store.Key{Table: "points", PK: "member-0001", SK: "monthly-point:2024-04:member-0001"}, store.Attrs{"expires": int64(1)}, nil)}
		}},
		"a subject settled twice": {"I3", func(m *month, j job.Job) []store.Write {
			return []store.Write{job.NewStore(m.env.Store, m.env.Now).SettledFailed(j, "member-0001", "invalid")}
		}},
		"a count after the end": {"I5", func(m *month, j job.Job) []store.Write {
			return []store.Write{job.NewStore(m.env.Store, m.env.Now).Count(j.ID, 3, job.Counts{Already: 1})}
		}},
		"a slot of a job that is over": {"I4", func(_ *month, j job.Job) []store.Write {
			return []store.Write{store.Insert(store.Key{Table: "jobs", PK: "SLOTS#3", SK: j.Slot}, job.Slot{Slot: j.Slot, Job: j.ID})}
		}},
		"an active job without its slot": {"I4", func(_ *month, j job.Job) []store.Write {
			return []store.Write{store.Update(jobKey(j), store.Attrs{"state": "RUNNING"}, nil)}
		}},
		"a total that is too small": {"I6", func(_ *month, j job.Job) []store.Write {
			return []store.Write{store.Update(jobKey(j), store.Attrs{"total": int64(7)}, nil)}
		}},
		"a period that was not closed": {"period", func(*month, job.Job) []store.Write {
			return []store.Write{store.Update(store.Key{Table: "jobs", PK: "PERIODS#monthly-point", SK: "2024-04"}, store.Attrs{"closedBy": ""}, nil)}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMonth(t)
			m.members(t, 40)
			m.fire(t)
			m.work(t)
			jobs, _, err := job.NewStore(m.env.Store, m.env.Now).List(t.Context(), "monthly-point", m.env.Now(), 0, "")
			if err != nil || len(jobs) != 1 {
				t.Fatal(jobs, err)
			}
			if err := m.env.Store.Transact(t.Context(), tt.with(m, jobs[0])...); err != nil {
				t.Fatal(err)
			}
			r := m.check(t)
			if !slices.ContainsFunc(r.Violations, func(v string) bool { return strings.HasPrefix(v, tt.want) }) {
				t.Errorf("got %q, want a violation of %s", r.Violations, tt.want)
			}
		})
	}
}

func entryKey(member string) store.Key {
	return store.Key{Table: "points", PK: member, SK: "monthly-point:2024-04:" + member}
}

func jobKey(j job.Job) store.Key {
	return store.Key{Table: "jobs", PK: "JOBS#" + string(j.Kind) + "#" + j.CreatedAt.Format("2006-01"), SK: j.ID}
}
