package hanbeon_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/ai/aistub"
	"hanbeon/pkg/api"
	"hanbeon/pkg/api/request"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/worker"
)

// apiOffice is an office with an API that can be asked.
type apiOffice struct {
	*office
	http http.Handler
}

// everythingAroundRequests is a day of requests: each route, with each of its answers that needs other rights; TILs that succeed, fail in every way and are cancelled; messages
// that are lost; a month that is asked for and cancelled.
func everythingAroundRequests(t *testing.T) map[string]map[string]bool {
	t.Helper()
	o := &apiOffice{office: newOffice(t, time.Date(2024, 4, 15, 6, 0, 0, 0, time.UTC))}
	stub := aistub.New(aistub.Behaviour{})
	server := httptest.NewServer(stub)
	t.Cleanup(server.Close)
	model, err := ai.New(ai.Config{BaseURL: server.URL + "/v1", Model: "stub", Now: func() time.Time { return o.now }})
	o.must(err)
	o.http = api.New(o.env("api"), o.zone)
	onTil, onReaper, onFanout := o.env("til"), o.env("reaper"), o.env("fanout")
	work := worker.NewSingle(onTil, til.New(onTil.Store, o.zone, model))
	reap := reaper.New(onReaper, job.Calendar{Start: "2099-01"}, kinds.All(onReaper.Store, o.zone)...)
	fanout := dispatch.NewFanout(onFanout, kinds.All(onFanout.Store, o.zone)...)
	jobs := job.NewStore(o.db, func() time.Time { return o.now })

	deliver := func() {
		t.Helper()
		_, err := work.Handle(t.Context(), o.box.take(queue.Name(til.Name)))
		o.must(err)
	}
	lost := func() { o.box.take(queue.Name(til.Name)) }
	reapFor := func(d time.Duration) {
		t.Helper()
		for end := o.now.Add(d); o.now.Before(end); {
			o.now = o.now.Add(5 * time.Minute)
			o.must(reap.Handle(t.Context()))
		}
	}
	ask := func(member string) string { return o.post("/v1/til-generations", asked(member), "", 202) }
	state := func(id string, want job.State) {
		t.Helper()
		if j, err := jobs.Find(t.Context(), id); err != nil || j.State != want {
			t.Fatalf("job %s is %s (%v), want %s", id, j.State, err, want)
		}
	}

	var members, written []string
	for n := range 8 {
		members = append(members, fmt.Sprintf(`{"id":"member-%d","status":"ACTIVE","joinedAt":"2020-01-01T00:00:00Z"}`, n))
		written = append(written, fmt.Sprintf(`{"id":"note-1","memberId":"member-%d","date":"2024-04-15","text":"what was learned"}`, n))
	}
	o.post("/v1/members", `{"members":[`+strings.Join(members, ",")+`]}`, "", 200)
	o.post("/v1/notes", `{"notes":[`+strings.Join(written[1:], ",")+`]}`, "", 200)

	id := ask("member-1")
	o.post("/v1/til-generations", asked("member-1"), "", 409)
	again := o.post("/v1/til-generations", asked("member-2"), "key-1", 202)
	if got := o.post("/v1/til-generations", asked("member-2"), "key-1", 202); got != again {
		t.Errorf("the same request opened %s, then %s", again, got)
	}
	o.post("/v1/til-generations", asked("member-3"), "key-1", 422)
	o.post("/v1/til-generations", asked("nobody"), "", 422)
	o.get("/v1/tils/member-1/2024-04-15", 404)
	deliver()
	state(id, job.Completed)
	o.get("/v1/tils/member-1/2024-04-15", 200)
	o.get("/v1/jobs/"+id, 200)
	o.get("/v1/jobs", 200)
	o.get("/v1/jobs?kind=til&state=COMPLETED", 200)
	o.now = o.now.Add(25 * time.Hour)
	o.post("/v1/til-generations", asked("member-3"), "key-1", 202) // the record of the key is out of date: overwritten
	deliver()

	none := ask("member-0") // without notes
	deliver()
	state(none, job.Failed)

	stub.Set(aistub.Behaviour{Status: http.StatusInternalServerError})
	failing := ask("member-4")
	for range job.Attempts {
		o.box.mu.Lock()
		o.box.bodies["til"] = []string{queue.Single{Job: failing}.Encode()}
		o.box.mu.Unlock()
		deliver()
		o.now = o.now.Add(time.Hour)
	}
	state(failing, job.Failed)
	stub.Set(aistub.Behaviour{})

	cancelled := ask("member-5")
	o.post("/v1/jobs/"+cancelled+"/cancel", "", "", 200)
	o.post("/v1/jobs/"+cancelled+"/cancel", "", "", 200)
	deliver()
	state(cancelled, job.Cancelled)

	unsent := ask("member-6")
	lost()
	reapFor(time.Hour)
	deliver() // what the reaper has sent
	state(unsent, job.Completed)

	never := ask("member-6")
	lost()
	for j, err := jobs.Find(t.Context(), never); j.State.Active(); j, err = jobs.Find(t.Context(), never) {
		o.must(err)
		reapFor(time.Hour)
		lost()
	}
	state(never, job.Failed)

	dead := ask("member-7")
	lost()
	for range job.Attempts { // workers that die with the claim in hand
		j, err := jobs.Find(t.Context(), dead)
		o.must(err)
		_, err = jobs.Claim(t.Context(), j)
		o.must(err)
		reapFor(10 * time.Minute)
	}
	state(dead, job.Failed)

	month := o.post("/v1/monthly-points", `{"period":"2024-04","amount":100}`, "key-2", 202)
	o.post("/v1/monthly-points", `{"period":"2024-04","amount":100}`, "", 409)
	o.post("/v1/monthly-points", `{"period":"2024-04","amount":200}`, "", 409)
	_, err = fanout.Handle(t.Context(), o.box.take(queue.Segments))
	o.must(err)
	o.get("/v1/jobs/"+month, 200)
	o.get("/v1/jobs/"+month+"/failures", 200)
	o.post("/v1/jobs/"+month+"/cancel", "", "", 200)
	state(month, job.Cancelled)
	o.post("/v1/monthly-points", `{"period":"2024-04","amount":100}`, "", 202)
	o.get("/v1/members/member-1/points", 200)
	o.get("/v1/members/nobody/points", 404)
	delete(o.did, "fanout") // not the subject here
	return o.did
}

func asked(member string) string { return `{"memberId":"` + member + `","date":"2024-04-15"}` }

// post returns the id in the answer, if there is one.
func (o *apiOffice) post(path, body, key string, want int) string {
	o.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return o.serve(r, want)
}

func (o *apiOffice) get(path string, want int) {
	o.Helper()
	o.serve(httptest.NewRequest(http.MethodGet, path, nil), want)
}

func (o *apiOffice) serve(r *http.Request, want int) string {
	o.Helper()
	w := httptest.NewRecorder()
	o.http.ServeHTTP(w, r.WithContext(request.With(r.Context(), request.Caller{ARN: "arn:aws:iam::123456789012:user/test", Account: "123456789012"}, "r-1")))
	if w.Code != want {
		o.Fatalf("%s %s: status %d, want %d\n%s", r.Method, r.URL, w.Code, want, w.Body)
	}
	var answer struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		o.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return answer.ID
}
