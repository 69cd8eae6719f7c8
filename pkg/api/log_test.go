package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hanbeon/pkg/api"
	"hanbeon/pkg/sim"
)

// record is one line of the log.
type record struct {
	Level, Msg, Method, Route, Caller, Request, Job string
	Status                                          int
}

// records are the lines of the log; one that is no JSON object fails the test.
func (w *world) records(t testing.TB) (out []record) {
	t.Helper()
	for s := bufio.NewScanner(strings.NewReader(w.log())); s.Scan(); {
		var r record
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			t.Errorf("a line of the log is no JSON: %v: %s", err, s.Text())
		}
		out = append(out, r)
	}
	return out
}

// LOG-01: nothing that is secret or personal comes into a log line or an answer to a request that is refused, at any level.
func TestSecretsAreInNoLogAndNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	headers := []string{
		"Content-Type", "application/json",
		"Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE-CANARY/20240415/ap-northeast-2/execute-api/aws4_request, Signature=CANARY",
		"X-Amz-Security-Token", "TOKEN-CANARY", "x-aMz-SeCuRiTy-tOkEn", "TOKEN2-CANARY", "Cookie", "s=CANARY", "X-Other", "CANARY", "Idempotency-Key", "KEY-CANARY",
	}
	broken := func(c sim.Call) (bool, error) {
		if c.Op == sim.Send {
			return false, errBusy
		}
		return true, nil
	}
	for _, h := range []http.Handler{w.handler(spring, nil), w.handler(spring, onTransactOf("", errBusy)), w.handler(spring, broken), w.handler(spring, onEvery(func() (bool, error) { panic("CANARY") }))} {
		for _, c := range []struct{ method, target, body string }{
			{"POST", "/v1/til-generations", goodTIL},
			{"POST", "/v1/til-generations", `{"memberId":"CANARY","date":"2024-04-15"}`},
			{"POST", "/v1/til-generations", `{"memberId":"member-42","date":"CANARY"}`},
			{"POST", "/v1/til-generations", `{"memberId":"CANARY`},
			{"POST", "/v1/monthly-points", `{"period":"CANARY","amount":"CANARY"}`},
			{"POST", "/v1/members?CANARY=1", `{"members":[]}`},
			{"GET", "/v1/jobs?cursor=CANARY&state=CANARY&limit=CANARY&kind=CANARY&month=CANARY", ""},
			{"GET", "/v1/jobs/CANARY", ""},
			{"GET", "/v1/CANARY", ""},
			{"CANARY", "/v1/jobs", ""},
			{"GET", "/v1/members/CANARY/points", ""},
			{"GET", "/v1/tils/CANARY/2024-04-15", ""},
			{"GET", "/v1/tils/member-42/CANARY", ""},
		} {
			r := send(h, c.method, c.target, c.body, headers...)
			if strings.Contains(r.body, "CANARY") && !strings.Contains(c.target, "?CANARY") { // the name of an unknown parameter is said
				t.Errorf("%s %s %s is answered with it: %s", c.method, c.target, c.body, r.body)
			}
		}
	}
	if strings.HasPrefix(w.log(), "{") && strings.Contains(w.log(), "CANARY") {
		for _, line := range strings.Split(w.log(), "\n") {
			if strings.Contains(line, "CANARY") {
				t.Errorf("in the log: %.600s", line)
			}
		}
	}
}

// Names of members and texts of notes are personal.
func TestMembersAndNotesAreInNoLogAndNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	for _, h := range []http.Handler{w.handler(spring, nil), w.handler(spring, onTransactOf("", errBusy))} {
		for target, body := range map[string]string{
			"/v1/members": `{"members":[{"id":"m","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","name":"CANARY"},{"id":"n","status":"CANARY","joinedAt":"CANARY","name":"CANARY"},{"id":"o","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","name":"CANARY\n"}]}`,
			"/v1/notes":   `{"notes":[{"id":"n1","memberId":"member-42","date":"2024-04-15","text":"CANARY"},{"id":"n2","memberId":"CANARY:","date":"CANARY","text":"CANARY"},{"id":"n3","memberId":"member-42","date":"2024-04-15","text":7}]}`,
		} {
			if r := send(h, "POST", target, body); strings.Contains(r.body, "CANARY") {
				t.Errorf("%s is answered with it: %s", target, r.body)
			}
		}
	}
	if strings.Contains(w.log(), "CANARY") {
		t.Errorf("in the log: %s", w.log())
	}
}

// LOG-03: one line per request, which says who asked for what and what came of it; nothing that comes in can forge another.
func TestOneLinePerRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	evil := spring
	evil.ARN += "\n{\"level\":\"INFO\",\"msg\":\"granted\"}"
	h := w.handler(evil, nil)
	var a api.Accepted
	send(h, "POST", "/v1/til-generations", goodTIL).json(t, &a)
	send(h, "POST", "/v1/til-generations", goodTIL)
	send(h, "GET", a.Links.Job, "")
	send(h, "POST", "/v1/til-generations", `{"memberId":"x\n{\"level\":\"info\",\"msg\":\"granted\"}","date":"2024-04-15"}`)
	send(h, "GET", "/v1/jobs/x%0A%7B%22msg%22:%22granted%22%7D", "")
	send(h, "GET", "/v1/nothing", "")
	send(h, "DELETE", "/v1/jobs", "")
	send(h, "POST", a.Links.Cancel, strings.Repeat("x", 5<<20))
	r := send(h, "POST", a.Links.Cancel, "")
	want := []record{
		{"INFO", "request", "POST", "POST /v1/til-generations", evil.ARN, "", a.ID, 202},
		{"INFO", "request", "POST", "POST /v1/til-generations", evil.ARN, "", a.ID, 409},
		{"INFO", "request", "GET", "GET /v1/jobs/{id}", evil.ARN, "", a.ID, 200},
		{"INFO", "request", "POST", "POST /v1/til-generations", evil.ARN, "", "", 422},
		{"INFO", "request", "GET", "GET /v1/jobs/{id}", evil.ARN, "", "", 404},
		{"INFO", "request", "GET", "", evil.ARN, "", "", 404},
		{"INFO", "request", "DELETE", "", evil.ARN, "", "", 405},
		{"INFO", "request", "POST", "POST /v1/jobs/{id}/cancel", evil.ARN, "", "", 413},
		{"INFO", "request", "POST", "POST /v1/jobs/{id}/cancel", evil.ARN, "", a.ID, 200},
	}
	got := w.records(t)
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), w.log())
	}
	if id := r.Header.Get("X-Request-Id"); got[len(got)-1].Request != id {
		t.Errorf("request %q in the log, %q in the answer", got[len(got)-1].Request, id)
	}
	for i := range got {
		if got[i].Request == "" {
			t.Errorf("line %d has no request", i)
		}
		got[i].Request = ""
		if got[i] != want[i] {
			t.Errorf("line %d\n  %+v, want\n  %+v", i, got[i], want[i])
		}
	}
}

// EMU-06: nobody vouched for the caller. That is said, and nothing falls over.
func TestACallerNobodyKnows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := api.New(w.env(nil), seoul) // no door at all
	var a api.Accepted
	r := send(h, "POST", "/v1/til-generations", goodTIL, key, "k")
	r.json(t, &a)
	if r.StatusCode != 202 || r.Header.Get("X-Request-Id") == "" {
		t.Fatalf("status %d, headers %v: %s", r.StatusCode, r.Header, r.body)
	}
	if j, err := w.jobs.Find(t.Context(), a.ID); err != nil || j.RequestedBy != "unknown" {
		t.Errorf("requested by %q (%v), want unknown", j.RequestedBy, err)
	}
	if got := w.records(t); len(got) != 1 || got[0].Caller != "unknown" || got[0].Request != r.Header.Get("X-Request-Id") {
		t.Errorf("log %+v", got)
	}
}
