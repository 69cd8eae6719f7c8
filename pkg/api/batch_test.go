package api_test

import (
	"fmt"
	"strings"
	"testing"

	"hanbeon/pkg/api"
)

// An item that is not even readable is answered in its place, as one with a wrong value is, and keeps no other back.
func TestItemsThatCannotBeReadKeepNoOtherBack(t *testing.T) {
	t.Parallel()
	h := newWorld(t, "member-42").handler(spring, nil)
	for target, items := range map[string][][2]string{
		"/v1/members": {
			{`{"id":"a","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z"}`, "added"},
			{`null`, "error:item"}, {`[]`, "error:item"}, {`"a"`, "error:item"}, {`{}`, "error:id"},
			{`{"id":"b","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","name":null}`, "error:name"},
			{`{"id":"b","status":"ACTIVE","joinedAt":1704067200}`, "error:joinedAt"},
			{`{"id":"b","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","points":1e400}`, "error:points"},
			{`{"id":"b","id":"c","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z"}`, "error:id"},
			{`{"ID":"b","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z"}`, "error:id"},
			{`{` + strings.TrimSuffix(strings.Repeat(`"x":0,`, 60), ",") + `}`, "error:item"},
			{`{"id":"d","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z","name":"이"}`, "added"},
			{`{"id":"member-42","status":"WITHDRAWN","joinedAt":"2023-04-15T03:00:00Z"}`, "changed"},
		},
		"/v1/notes": {
			{`{"id":7,"memberId":"member-42","date":"2024-04-15","text":"x"}`, "error:id"},
			{`{"id":"a","memberId":"member-42","date":"2024-04-15","text":"x"}`, "added"},
			{`{"id":"b","memberId":"member-42","date":"2024-04-15"}`, "error:text"},
			{`{"id":"b","memberId":"member-42","date":"2024-04-15","text":"x","at":"2024-04-15T00:00:00Z"}`, "error:at"},
			{`{"id":"c","memberId":"member-42","date":"2024-04-15","text":"x"}`, "added"},
		},
	} {
		var texts, want []string
		for _, i := range items {
			texts, want = append(texts, i[0]), append(want, i[1])
		}
		r := send(h, "POST", target, fmt.Sprintf(`{%q: [%s]}`, strings.TrimPrefix(target, "/v1/"), strings.Join(texts, " , ")))
		var got struct{ Results []api.PutResult }
		r.json(t, &got)
		if o := outcomes(got.Results); r.StatusCode != 200 || o != strings.Join(want, " ") {
			t.Errorf("%s = %d\n%s, want\n%s", target, r.StatusCode, o, strings.Join(want, " "))
		}
		conforms(t, "POST", urlOf(target), r)
	}
}

// An id comes back as it was sent, but never in full when it is long.
func TestALongIDIsCutInTheAnswer(t *testing.T) {
	t.Parallel()
	r := send(newWorld(t).handler(spring, nil), "POST", "/v1/members", `{"members":[{"id":"`+strings.Repeat("회", 1000)+`","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z"}]}`)
	var got struct{ Results []api.PutResult }
	r.json(t, &got)
	if id := got.Results[0].ID; len(id) > 80 || !strings.HasPrefix(id, "회회") || !strings.HasSuffix(id, "…") || strings.Contains(id, "\ufffd") {
		t.Errorf("id %q of %d bytes", id, len(id))
	}
}

// A request can be wrong in more ways than an answer has room for.
func TestAProblemHasBounds(t *testing.T) {
	t.Parallel()
	var fields, query []string
	for n := range 40 {
		fields = append(fields, fmt.Sprintf(`"%d%s":0`, n, strings.Repeat("x", 300)))
		query = append(query, fmt.Sprintf("%d%s=0", n, strings.Repeat("x", 300)))
	}
	h := newWorld(t).handler(spring, nil)
	for _, r := range []reply{send(h, "POST", "/v1/til-generations", "{"+strings.Join(fields, ",")+"}"), send(h, "GET", "/v1/jobs?"+strings.Join(query, "&"), "")} {
		if e := r.problem(t); e.Status != 422 || len(e.Errors) != 20 || len(r.body) > 5000 {
			t.Errorf("%d fields, %d bytes: %.300s", len(e.Errors), len(r.body), r.body)
		}
	}
}
