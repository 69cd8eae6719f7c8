package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/request"
)

const key = "Idempotency-Key"

// Two sessions of one role are one caller; the answer is the same to the byte, whatever became of the job.
func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	w.later(120 * time.Millisecond) // a time whose text is shorter than its digits
	first := send(w.handler(spring, nil), "POST", "/v1/til-generations", goodTIL, key, "k-1")
	var a api.Accepted
	first.json(t, &a)
	again := func(when string) {
		t.Helper()
		// KEY-06: the request is its parsed fields, not its text.
		for _, body := range []string{goodTIL, "{\n \"date\":\"2024-04-15\", \"memberId\" : \"member-42\" } "} {
			r := send(w.handler(spring2, nil), "POST", "/v1/til-generations", body, key, "k-1")
			if r.StatusCode != first.StatusCode || r.body != first.body || r.Header.Get("Location") != first.Header.Get("Location") {
				t.Errorf("%s: %d %s, want %d %s", when, r.StatusCode, r.body, first.StatusCode, first.body)
			}
		}
	}
	again("PENDING")
	j, err := w.jobs.Find(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	c := w.claim(t, j)
	again("RUNNING")
	if err := c.Complete(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.later(23 * time.Hour)
	again("COMPLETED, a day later")
	if n := w.jobCount("til"); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	if r := send(w.handler(spring, nil), "POST", "/v1/til-generations", `{"memberId":"member-42","date":"2024-04-14"}`, key, "k-1"); r.StatusCode != 422 || r.problem(t).Type != api.TypeKeyReused {
		t.Errorf("another day with the same key = %d %s", r.StatusCode, r.body)
	}
	if r := send(w.handler(spring, nil), "POST", "/v1/monthly-points", goodPoints, key, "k-1"); r.StatusCode != 422 || r.problem(t).Type != api.TypeKeyReused {
		t.Errorf("another operation with the same key = %d %s", r.StatusCode, r.body)
	}
	w.later(time.Hour)
	if r := send(w.handler(spring, nil), "POST", "/v1/til-generations", goodTIL, key, "k-1"); r.StatusCode != 202 || r.body == first.body {
		t.Errorf("after 24 h = %d %s, want a new job", r.StatusCode, r.body)
	}
}

// A key belongs to its role and account.
func TestKeysOfOtherCallersAreOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "member-43")
	elsewhere := request.Caller{ARN: strings.Replace(spring.ARN, "123456789012", "210987654321", 1), Account: "210987654321"}
	ids := map[string]bool{}
	for i, c := range []request.Caller{spring, batch, elsewhere, {ARN: "arn:aws:iam::123456789012:user/Spring"}, {}} {
		date := []string{"2024-04-11", "2024-04-12", "2024-04-13", "2024-04-14", "2024-04-15"}[i]
		var a api.Accepted
		send(w.handler(c, nil), "POST", "/v1/til-generations", `{"memberId":"member-42","date":"`+date+`"}`, key, "k").json(t, &a)
		ids[a.ID] = true
	}
	if len(ids) != 5 {
		t.Errorf("%d jobs, want 5: %v", len(ids), ids)
	}
}

// Copies of one request at the same moment are one job and one answer, not a conflict with themselves.
func TestCopiesAtOnceAreOneRequest(t *testing.T) {
	t.Parallel()
	for target, body := range map[string]string{"/v1/til-generations": goodTIL, "/v1/monthly-points": goodPoints} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "member-42")
			doors := []http.Handler{w.handler(spring, nil), w.handler(spring2, nil)}
			answers := map[string]int{}
			for _, r := range atOnce(20, func(i int) reply { return send(doors[i%2], "POST", target, body, key, "k") }) {
				if r.StatusCode == http.StatusServiceUnavailable { // it lost three races in a row: told to come again
					continue
				}
				if r.StatusCode != http.StatusAccepted {
					t.Errorf("status %d: %s", r.StatusCode, r.body)
				}
				answers[r.body]++
			}
			if n := w.jobCount("til") + w.jobCount("monthly-point"); len(answers) != 1 || n != 1 {
				t.Errorf("%d jobs, answers %v", n, answers)
			}
		})
	}
}

// What was refused is not remembered: the key is free for a request that can be.
func TestARefusalIsNotRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	var a api.Accepted
	send(h, "POST", "/v1/til-generations", goodTIL).json(t, &a)
	if r := send(h, "POST", "/v1/til-generations", goodTIL, key, "k"); r.StatusCode != 409 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	if r := send(h, "POST", "/v1/til-generations", `{"memberId":"member-43","date":"2024-04-15"}`, key, "k"); r.StatusCode != 422 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	send(h, "POST", a.Links.Cancel, "")
	if r := send(h, "POST", "/v1/til-generations", goodTIL, key, "k"); r.StatusCode != 202 {
		t.Errorf("status %d: %s", r.StatusCode, r.body)
	}
}

// A flag that is false and one that is left out are the same request; any other field makes another one.
func TestEveryFieldIsPartOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	first := send(h, "POST", "/v1/monthly-points", goodPoints, key, "k")
	for body, want := range map[string]int{
		`{"amount":100,"period":"2024-04","changeAmount":false}`:  202,
		`{"period":"2024-04","amount":101}`:                       422,
		`{"period":"2024-03","amount":100}`:                       422,
		`{"period":"2024-04","amount":100,"changeAmount":true}`:   422,
		`{"period":"2024-04","amount":100,"allowFuture":true}`:    422,
		`{"period":"2024-04","amount":100,"allowFuture":"false"}`: 422,
	} {
		r := send(h, "POST", "/v1/monthly-points", body, key, "k")
		if r.StatusCode != want || want == 202 && r.body != first.body {
			t.Errorf("%s = %d %s, want %d", body, r.StatusCode, r.body, want)
		}
	}
	for _, k := range []string{"a", strings.Repeat("k", api.MaxIdempotency), `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, "a b", "!#$%&'*+-.^_`|~:/?[]@"} {
		if r := send(h, "POST", "/v1/monthly-points", `{"period":"2024-03","amount":100}`, key, k); r.StatusCode != 202 {
			t.Errorf("key %.20q = %d %s", k, r.StatusCode, r.body)
		} else {
			var a api.Accepted
			r.json(t, &a)
			if _, done, err := w.jobs.Cancel(t.Context(), a.ID); !done || err != nil {
				t.Error(done, err)
			}
		}
	}
}
