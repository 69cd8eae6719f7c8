package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
)

// An event that is not right is refused with the name of the field, before anything is read or written. DSP-14, KEY-02, KEY-04, KEY-10
func TestBadEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	d := w.dispatcher(func(c sim.Call) (bool, error) {
		t.Errorf("%s of %v", c.Op, c.Keys)
		return false, errNoAnswer
	})
	at := func(when string) string {
		return fmt.Sprintf(`{"kind":"monthly-point","scheduledTime":%s,"amount":100}`, when)
	}
	amount := func(n string) string {
		return fmt.Sprintf(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":%s}`, n)
	}
	for _, test := range []struct{ field, event string }{
		{"kind", `{"scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":null,"scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":"","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":"monthly-points","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":"Monthly-Point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":" monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":"monthly-point\u200b","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":7,"scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"kind", `{"kind":"monthly-point","kind":"til","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`},
		{"scheduledTime", `{"kind":"monthly-point","amount":100}`},
		{"scheduledTime", at(`null`)},
		{"scheduledTime", at(`""`)},
		{"scheduledTime", at(`"<aws.scheduler.scheduled-time>"`)}, {"substituted", at(`"<aws.scheduler.scheduled-time>"`)},
		{"scheduledTime", at(`"2024-04-01"`)},
		{"scheduledTime", at(`"2024-03-31 15:30:00Z"`)},
		{"scheduledTime", at(`"2024-03-31T15:30:00"`)}, // no offset
		{"scheduledTime", at(`"2024-02-30T15:30:00Z"`)},
		{"scheduledTime", at(`"2024-13-01T15:30:00Z"`)},
		{"scheduledTime", at(`"0001-01-01T00:00:00Z"`)},
		{"scheduledTime", at(`"1999-12-31T23:59:59Z"`)},
		{"scheduledTime", at(`"2024-04-30T15:30:00Z"`)}, // a month ahead of the clock
		{"scheduledTime", at(`"9999-12-31T23:59:59Z"`)},
		{"scheduledTime", at(`1711899000`)},
		{"scheduledTime", at(`"last month"`)},
		{"amount", `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z"}`},
		{"Amount", `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","Amount":100}`},
		{"amount", `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100,"amount":200}`},
		{"amount", amount(`0`)}, {"amount", amount(`-5`)}, {"amount", amount(`12.7`)}, {"amount", amount(`100.0`)}, {"amount", amount(`1e3`)},
		{"amount", amount(`"100"`)}, {"amount", amount(`null`)}, {"amount", amount(`true`)}, {"amount", amount(`1e400`)},
		{"amount", amount(`1000000000001`)}, {"amount", amount(`9223372036854775808`)}, {"amount", amount(`[100]`)}, {"amount", amount(`{}`)},
		{"period", `{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100,"period":"2024-05"}`}, // unknown
		{"object", `[]`}, {"object", `"text"`}, {"object", ``}, {"object", `{"kind":`}, {"kind", `null`}, {"object", firing + firing},
	} {
		err := d.Handle(t.Context(), json.RawMessage(test.event))
		if err == nil || !strings.Contains(err.Error(), test.field) {
			t.Errorf("%s: got %v, want an error that names %s", test.event, err, test.field)
		}
	}
	w.untouched()
}

// An amount is taken exactly as it is written, to the last digit. KEY-10
func TestLargestAmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	if err := w.dispatcher(nil).Handle(t.Context(), json.RawMessage(strings.Replace(firing, "100", "1000000000000", 1))); err != nil {
		t.Fatal(err)
	}
	w.drain()
	w.granted(once.MaxAmount, "member-1")
}

// The same event again, three times at once, a day later, and with another notation of its time: one job, one grant each. DSP-11, TIM-01, TIM-06
func TestSameEventAgain(t *testing.T) {
	t.Parallel()
	members := names("member", 60)
	w := newWorld(t, members...)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := w.dispatcher(nil).Handle(t.Context(), json.RawMessage(firing)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.drain()
	w.fire()
	w.drain()
	w.later(24 * time.Hour)
	w.fire()
	for _, same := range []string{"2024-04-01T00:30:00+09:00", "2024-03-31T15:00:00Z", "2024-04-01T04:00:00Z"} { // the last: a laptop's cron in New York
		if err := w.dispatcher(nil).Handle(t.Context(), json.RawMessage(strings.Replace(firing, "2024-03-31T15:30:00Z", same, 1))); err != nil {
			t.Error(err)
		}
	}
	w.drain()
	w.granted(100, members...)
	j := w.only()
	equal(t, "state", j.State, job.Completed)
	equal(t, "total and applied", []int64{j.Total, j.Applied}, []int64{60, 60})
	if left := w.box.waiting(queue.Segments); len(left) > 0 {
		t.Errorf("a finished job sent %d segments", len(left))
	}

	// When the job has expired the period is still remembered.
	w.later(400 * 24 * time.Hour)
	w.fire()
	w.only()
}

// A late firing belongs to its own month, and the next month's is not refused. TIM-01, TIM-02
func TestLateFiring(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	w.later(30 * 24 * time.Hour) // 00:30 of 1 May in Seoul
	w.fire()
	w.drain()
	if err := w.dispatcher(nil).Handle(t.Context(), json.RawMessage(strings.Replace(firing, "2024-03-31", "2024-04-30", 1))); err != nil {
		t.Fatal(err)
	}
	w.drain()
	w.granted(200, "member-1")
	var periods []string
	for _, month := range []time.Time{april, w.clock()} {
		jobs, _, err := w.jobs.List(t.Context(), monthlypoint.Name, month, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			periods = append(periods, string(j.Period))
		}
	}
	slices.Sort(periods)
	equal(t, "periods", periods, []string{"2024-04", "2024-05"})
}

// Which month an instant belongs to is decided in Seoul, in either notation. TIM-01
func TestMonthOfAScheduledTime(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]once.Period{
		"2024-03-31T15:30:00Z": "2024-04", "2024-04-01T00:30:00+09:00": "2024-04",
		"2024-03-31T14:59:59Z": "2024-03", "2024-03-31T23:59:59+09:00": "2024-03",
		"2024-02-29T15:00:00Z": "2024-03", "2024-03-01T00:00:00+09:00": "2024-03",
		"2023-12-31T15:00:00Z": "2024-01", "2024-01-01T00:00:00+09:00": "2024-01",
	} {
		w := newWorld(t)
		if err := w.dispatcher(nil).Handle(t.Context(), json.RawMessage(strings.Replace(firing, "2024-03-31T15:30:00Z", when, 1))); err != nil {
			t.Fatal(err)
		}
		if got := w.only().Period; got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
}

// A firing with another amount is an error, while its job runs and when it is over; nothing is written, and an operator has to say that the amount changes.
func TestAnotherAmount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	w.fire()
	other := json.RawMessage(strings.Replace(firing, "100", "200", 1))
	var inputs *job.InputsError
	for range 2 {
		if err := w.dispatcher(nil).Handle(t.Context(), other); !errors.As(err, &inputs) {
			t.Errorf("got %v, want *job.InputsError", err)
		}
		w.drain()
	}
	if _, err := w.again(200); !errors.As(err, &inputs) || inputs.Was != `{"amount":100}` {
		t.Errorf("got %v, want *job.InputsError that names the first", err)
	}
	w.only()
	w.granted(100, "member-1")
}

// A run while a job is active is refused with that job; a firing meanwhile succeeds and does nothing.
func TestPeriodInHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	r, err := w.again(100) // an operator was faster than the schedule
	if err != nil || !r.Opened {
		t.Fatal(r, err)
	}
	var active *job.ActiveError
	if _, err := w.again(100); !errors.As(err, &active) || active.Job.ID != r.Job.ID {
		t.Errorf("got %v, want *job.ActiveError of %s", err, r.Job.ID)
	}
	w.fire()
	w.only()
	w.drain()
	w.fire() // it opens the period's scheduled job, which finds everything done
	w.drain()
	w.granted(100, "member-1")
	for _, j := range w.list() {
		equal(t, "state", j.State, job.Completed)
	}
}

// A run opens real periods of the calendar, of the future only with a flag.
func TestRunOfAPeriod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	run := func(p once.Period, input string, future bool) error {
		_, err := w.dispatcher(nil).Run(t.Context(), dispatch.Run{Kind: monthlypoint.Name, Period: p, Input: []byte(input), RequestedBy: "test", AllowFuture: future})
		return err
	}
	var future *dispatch.FutureError
	if err := run("2024-05", `{"amount":100}`, false); !errors.As(err, &future) || future.Period != "2024-05" {
		t.Errorf("got %v, want *FutureError", err)
	}
	for _, p := range []once.Period{"", "2024-13", "2024-4", "202404", "2024-04 ", "2024-04-01", "x"} {
		if err := run(p, `{"amount":100}`, true); err == nil {
			t.Errorf("period %q was run", p)
		}
	}
	for _, input := range []string{``, `[]`, `{}`, `{"amount":0}`, `{"amount":"100"}`, `{"amount":100,"x":1}`, `{"amount":100}{}`} {
		if err := run("2024-04", input, false); err == nil {
			t.Errorf("input %q was taken", input)
		}
	}
	if _, err := w.dispatcher(nil).Run(t.Context(), dispatch.Run{Kind: "til", Period: "2024-04", Input: []byte(`{"amount":100}`)}); err == nil {
		t.Error("an unknown kind was run")
	}
	w.untouched()
	if err := run("2024-05", `{"amount":100}`, true); err != nil {
		t.Error(err)
	}
	w.drain()
	w.granted(100, "member-1")
}

// Who is granted is decided by the scheduled time: ACTIVE, and joined before.
func TestEligible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-1")
	w.putMembers(
		catalog.Member{ID: "inactive", Status: catalog.Inactive, JoinedAt: april.AddDate(-1, 0, 0)},
		catalog.Member{ID: "withdrawn", Status: catalog.Withdrawn, JoinedAt: april.AddDate(-1, 0, 0)},
		catalog.Member{ID: "joins-then", Status: catalog.Active, JoinedAt: april},
		catalog.Member{ID: "joined-just-before", Status: catalog.Active, JoinedAt: april.Add(-time.Millisecond)},
	)
	w.later(time.Hour)
	w.fire()
	w.drain()
	w.granted(100, "member-1", "joined-just-before")
	w.granted(0, "inactive", "withdrawn", "joins-then")
	equal(t, "total", w.only().Total, int64(2))
}

// Whatever goes wrong at whichever step of a firing, the same event again and the queues run empty: everybody is granted once, nobody is forgotten. DSP-01, DSP-10, DSP-11
func TestFiringDiesAtEveryStep(t *testing.T) {
	t.Parallel()
	members := names("member", 40)
	for _, f := range faults {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				w := newWorld(t, members...)
				hook, reached := w.strike(n, f)
				err := w.dispatcher(hook).Handle(t.Context(), json.RawMessage(firing))
				if !reached() {
					if n < 4 {
						t.Fatalf("a firing made %d calls, want a read, a write and a send at least", n-1)
					}
					return
				}
				if err == nil && (f == before || f == behind) {
					t.Errorf("call %d: a process that died reports success", n)
				}
				w.fire() // the Scheduler tries again
				w.fire() // and delivers twice
				w.drain()
				w.granted(100, members...)
				if j := w.only(); j.State != job.Completed || j.Total != 40 || j.Applied != 40 {
					t.Errorf("call %d %s: job %s, %d of %d applied", n, f, j.State, j.Applied, j.Total)
				}
			}
		})
	}
}

// A Send that accepts only a part is an error: the Scheduler tries again, and every segment is sent. DSP-01
func TestSegmentsNotSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, names("member", 40)...)
	d := w.dispatcher(func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			_ = w.box.Send(c.Ctx, c.Queue, c.Bodies[:9]...)
			return false, &queue.Unsent{To: c.Queue, Indexes: []int{9, 10, 11, 12, 13, 14, 15}, Err: errors.New("InternalError")}
		}
		return true, nil
	})
	var unsent *queue.Unsent
	if err := d.Handle(t.Context(), json.RawMessage(firing)); !errors.As(err, &unsent) {
		t.Errorf("got %v, want *queue.Unsent", err)
	}
	equal(t, "state", w.only().State, job.Pending)
	w.fire()
	w.drain()
	w.granted(100, names("member", 40)...)
}

// The log of a firing has one line of JSON per event, whatever the event holds. LOG-03
func TestLogOfABadEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	forged := `{"kind":"x\n{\"level\":\"INFO\",\"msg\":\"granted\"}","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`
	if err := w.dispatcher(nil).Handle(context.Background(), json.RawMessage(forged)); err == nil {
		t.Error("no error")
	}
	lines := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
	var one map[string]any
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &one) != nil || one["msg"] == "granted" {
		t.Errorf("log: %q, want one line", lines)
	}
}
