package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
)

// atOnce sends one request n times at the same moment.
func atOnce(n int, request func(i int) reply) []reply {
	out := make([]reply, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			out[i] = request(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

// JOB-01
func TestTwentyRequestsAtOnceOpenOneJob(t *testing.T) {
	t.Parallel()
	for target, body := range map[string]string{"/v1/til-generations": goodTIL, "/v1/monthly-points": goodPoints} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-42")
			h := w.handler(spring, nil)
			var accepted api.Accepted
			conflicts := map[string]int{}
			for _, r := range atOnce(20, func(int) reply { return send(h, "POST", target, body) }) {
				switch r.StatusCode {
				case http.StatusAccepted:
					if accepted.ID != "" {
						t.Errorf("a second 202: %s", r.body)
					}
					r.json(t, &accepted)
				case http.StatusConflict:
					e := r.problem(t)
					if e.Type != api.TypeActive || r.Header.Get("Location") != e.Job.Link || r.Header.Get("Retry-After") == "" {
						t.Errorf("409 %s, headers %v", r.body, r.Header)
					}
					conflicts[e.Job.ID]++
				default:
					t.Errorf("status %d: %s", r.StatusCode, r.body)
				}
			}
			if accepted.ID == "" || conflicts[accepted.ID] != 19 {
				t.Errorf("accepted %q, conflicts %v; want 19 that name it", accepted.ID, conflicts)
			}
			if n := w.jobCount("til") + w.jobCount("monthly-point"); n != 1 {
				t.Errorf("%d jobs", n)
			}
			if til, segments := len(w.box.messages("til")), len(w.box.messages(queue.Segments)); til+segments/job.Segments != 1 || segments%job.Segments != 0 {
				t.Errorf("%d messages for til, %d segments; want those of one job", til, segments)
			}
		})
	}
}

// A thousand requests at once for a hundred targets are a hundred jobs, and each conflict names the job of its own target.
func TestAThousandRequestsForAHundredTargets(t *testing.T) {
	t.Parallel()
	var members []string
	for n := range 100 {
		members = append(members, fmt.Sprintf("member-%02d", n))
	}
	w := newWorld(t, members...)
	h := w.handler(spring, nil)
	replies := atOnce(1000, func(i int) reply {
		return send(h, "POST", "/v1/til-generations", `{"memberId":"`+members[i%100]+`","date":"2024-04-15"}`)
	})
	accepted, conflicts := map[string]int{}, map[string]int{}
	for i, r := range replies {
		var a struct {
			ID, Slot string
			Job      api.JobRef
		}
		if err := json.Unmarshal([]byte(r.body), &a); err != nil {
			t.Fatal(err)
		}
		slot := "til:" + members[i%100] + ":2024-04-15"
		switch {
		case r.StatusCode == 202 && a.Slot == slot:
			accepted[a.ID]++
		case r.StatusCode == 409 && a.Job.Slot == slot:
			conflicts[a.Job.ID]++
		default:
			t.Errorf("request for %s = %d %s", slot, r.StatusCode, r.body)
		}
	}
	for id, n := range conflicts {
		if n != 9 || accepted[id] != 1 {
			t.Errorf("%s: %d times accepted, %d times in the way, want 1 and 9", id, accepted[id], n)
		}
	}
	if n := len(w.box.messages("til")); len(accepted) != 100 || len(conflicts) != 100 || n != 100 {
		t.Errorf("%d jobs accepted, %d in the way, %d messages, want 100 each", len(accepted), len(conflicts), n)
	}
}

// A job of another kind, another member or another day is in nobody's way.
func TestJobsOfOtherTargetsAreNotInTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "member-43")
	h := w.handler(spring, nil)
	for _, c := range [][2]string{
		{"/v1/til-generations", goodTIL}, {"/v1/til-generations", `{"memberId":"member-43","date":"2024-04-15"}`}, {"/v1/til-generations", `{"memberId":"member-42","date":"2024-04-14"}`},
		{"/v1/monthly-points", goodPoints}, {"/v1/monthly-points", `{"period":"2024-03","amount":100}`},
	} {
		if r := send(h, "POST", c[0], c[1]); r.StatusCode != http.StatusAccepted {
			t.Errorf("POST %s %s = %d %s", c[0], c[1], r.StatusCode, r.body)
		}
	}
}

// JOB-02: whoever is over, in whatever way, is no longer in the way.
func TestATargetIsFreeAgainWhenItsJobIsOver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		status int
		bring  func(t *testing.T, w *world, j job.Job)
	}{
		{"PENDING", 409, func(*testing.T, *world, job.Job) {}},
		{"RUNNING", 409, func(t *testing.T, w *world, j job.Job) { w.claim(t, j) }},
		{"COMPLETED", 202, func(t *testing.T, w *world, j job.Job) {
			if err := w.claim(t, j).Complete(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"FAILED", 202, func(t *testing.T, w *world, j job.Job) {
			if err := w.claim(t, j).Fail(t.Context(), job.ReasonNothingToSummarise); err != nil {
				t.Fatal(err)
			}
		}},
		{"CANCELLED", 202, func(t *testing.T, w *world, j job.Job) {
			if r := send(w.handler(batch, nil), "POST", "/v1/jobs/"+j.ID+"/cancel", ""); r.StatusCode != 200 {
				t.Fatal(r.StatusCode, r.body)
			}
		}},
		{"CANCELLED while RUNNING", 202, func(t *testing.T, w *world, j job.Job) {
			c := w.claim(t, j)
			if r := send(w.handler(batch, nil), "POST", "/v1/jobs/"+j.ID+"/cancel", ""); r.StatusCode != 200 {
				t.Fatal(r.StatusCode, r.body)
			}
			if err := c.Complete(t.Context()); !errors.Is(err, job.ErrLost) {
				t.Fatalf("a late result: %v, want %v", err, job.ErrLost)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-42")
			h := w.handler(spring, nil)
			var first api.Accepted
			send(h, "POST", "/v1/til-generations", goodTIL).json(t, &first)
			j, err := w.jobs.Find(t.Context(), first.ID)
			if err != nil {
				t.Fatal(err)
			}
			c.bring(t, w, j)
			r := send(h, "POST", "/v1/til-generations", goodTIL)
			if r.StatusCode != c.status {
				t.Errorf("status %d, want %d: %s", r.StatusCode, c.status, r.body)
			}
			if c.status == 409 {
				if e := r.problem(t); e.Job.ID != first.ID || e.Job.State != c.name {
					t.Errorf("in the way is %+v, want %s %s", e.Job, first.ID, c.name)
				}
			}
		})
	}
}

func (w *world) claim(t *testing.T, j job.Job) *job.Claim {
	t.Helper()
	c, err := w.jobs.Claim(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// JOB-03: a message that was not sent, or whose answer was lost, leaves a job that is open for all to see, and a line in the log; the next caller is
// told of it, and it can be cancelled.
func TestAJobIsAcceptedAlthoughItsMessageIsNotSent(t *testing.T) {
	t.Parallel()
	for name, apply := range map[string]bool{"not accepted": false, "accepted, the answer lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-42")
			failing := w.handler(spring, func(c sim.Call) (bool, error) {
				if c.Op == sim.Send {
					return apply, &queue.Unsent{To: c.Queue, Indexes: []int{0}, Err: fmt.Errorf("500")}
				}
				return true, nil
			})
			var a api.Accepted
			r := send(failing, "POST", "/v1/til-generations", goodTIL, "Idempotency-Key", "k")
			r.json(t, &a)
			if again := send(failing, "POST", "/v1/til-generations", goodTIL, "Idempotency-Key", "k"); again.StatusCode != 202 || again.body != r.body {
				t.Errorf("the same request again = %d %s", again.StatusCode, again.body)
			}
			if e := send(failing, "POST", "/v1/til-generations", goodTIL).problem(t); e.Status != 409 || e.Job.ID != a.ID {
				t.Errorf("another request = %+v", e)
			}
			if !contains(w.log(), a.ID, `"level":"WARN"`) {
				t.Errorf("no warning in the log:\n%s", w.log())
			}
			if got := send(failing, "POST", a.Links.Cancel, ""); got.StatusCode != 200 {
				t.Errorf("cancel = %d %s", got.StatusCode, got.body)
			}
			if got := send(w.handler(spring, nil), "POST", "/v1/til-generations", goodTIL); got.StatusCode != 202 {
				t.Errorf("after the cancel = %d %s", got.StatusCode, got.body)
			}
		})
	}
}

// API-02: the answer does not wait for the work; when it is lost on the way, the same request again is told of the job that is there.
func TestTheAnswerDoesNotWaitForTheWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	var a api.Accepted
	r := send(h, "POST", "/v1/til-generations", goodTIL)
	r.json(t, &a)
	if r.StatusCode != 202 || len(w.box.messages("til")) != 1 {
		t.Fatalf("status %d, messages %v; want 202 and one message, nothing else done", r.StatusCode, w.box.bodies)
	}
	w.later(29 * time.Second)
	if e := send(h, "POST", "/v1/til-generations", goodTIL).problem(t); e.Status != 409 || e.Job.ID != a.ID {
		t.Errorf("again = %+v, want 409 with %s", e, a.ID)
	}
}

// The handler opens by the dispatcher's own code: a run of an operator on the command line is in the way of one over HTTP.
func TestTheAPIAndTheCommandShareSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	s := api.NewService(w.env(nil), seoul)
	a, err := s.StartMonthlyPoints(as(spring), api.StartMonthlyPoints{Period: "2024-04", Amount: 100})
	if err != nil {
		t.Fatal(err)
	}
	_, err = dispatch.NewDispatcher(w.env(nil), monthly(w)).Run(t.Context(), dispatch.Run{Kind: "monthly-point", Period: "2024-04", Input: []byte(`{"amount":100}`), RequestedBy: "operator"})
	var active *job.ActiveError
	if !errors.As(err, &active) || active.Job.ID != a.ID {
		t.Errorf("run = %v, want refused by %s", err, a.ID)
	}
}
