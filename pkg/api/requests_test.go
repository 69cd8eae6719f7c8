package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
)

// refusal is a request that changes nothing, and how it is answered.
type refusal struct {
	name, method, target, body string
	header                     []string
	status                     int
	field                      string // that the answer names, "" for none
}

const (
	goodTIL    = `{"memberId":"member-42","date":"2024-04-15"}`
	goodPoints = `{"period":"2024-04","amount":100}`
	someJob    = "til-01HTCZP1G00000000000000000"
)

func onTIL(name, body string, status int, field string) refusal {
	return refusal{name, "POST", "/v1/til-generations", body, nil, status, field}
}

func onPoints(name, body string, status int, field string) refusal {
	return refusal{name, "POST", "/v1/monthly-points", body, nil, status, field}
}

// KEY-04, KEY-09, KEY-10, KEY-01, KEY-02: bodies that are not what they must be, to the letter.
var badBodies = []refusal{
	onTIL("no body", "", 400, "body"),
	onTIL("white space", " \n", 400, "body"),
	onTIL("not JSON", "memberId=member-42", 400, "body"),
	onTIL("cut off", `{"memberId":"member-42"`, 400, "body"),
	onTIL("text behind", goodTIL+"x", 400, "body"),
	onTIL("another object behind", goodTIL+goodTIL, 400, "body"),
	onTIL("null", "null", 400, "body"),
	onTIL("a list", "["+goodTIL+"]", 400, "body"),
	onTIL("text", `"memberId"`, 400, "body"),
	onTIL("invalid UTF-8", "{\"memberId\":\"member-\xff\",\"date\":\"2024-04-15\"}", 400, "body"),
	onTIL("deeper than anything", strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 400, "body"),
	onTIL("deep in a field", `{"memberId":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`,"date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a NUL", "{\"memberId\":\"\x00\"}", 400, "body"),
	onTIL("a byte order mark", "\ufeff"+goodTIL, 400, "body"),

	onTIL("nothing in it", `{}`, 422, "memberId"),
	onTIL("a million fields", "{"+strings.Repeat(`"a":0,`, 600_000)+`"a":0}`, 400, "body"),
	onTIL("thirty unknown fields", `{"a":0`+strings.Repeat(`,"b":0`, 30)+`}`, 422, "memberId"),
	onTIL("no date", `{"memberId":"member-42"}`, 422, "date"),
	onTIL("an unknown field", `{"memberId":"member-42","date":"2024-04-15","force":true}`, 422, "force"),
	onTIL("another case", `{"memberid":"member-42","date":"2024-04-15"}`, 422, "memberid"),
	onTIL("a field twice", `{"memberId":"member-42","memberId":"member-42","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("null for text", `{"memberId":null,"date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a number for text", `{"memberId":0,"date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a huge number for text", `{"memberId":1`+strings.Repeat("0", 400)+`,"date":"2024-04-15"}`, 422, "memberId"),
	onTIL("an object for text", `{"memberId":{},"date":"2024-04-15"}`, 422, "memberId"),
	onTIL("the key in the body", `{"memberId":"member-42","date":"2024-04-15","IdempotencyKey":"k"}`, 422, "IdempotencyKey"),
	onTIL("an empty member", `{"memberId":"","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member of spaces", `{"memberId":"   ","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with a colon", `{"memberId":"a:b","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with a slash", `{"memberId":"a/b","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with an escape", `{"memberId":"a%2Fb","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with a newline", `{"memberId":"x\n{\"level\":\"info\"}","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with a zero-width space", `{"memberId":"member-42\u200b","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member with half a surrogate pair", `{"memberId":"member-42\ud800","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member in Hangul", `{"memberId":"회원","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member of 3,000 characters", `{"memberId":"`+strings.Repeat("x", 3000)+`","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("an unknown member", `{"memberId":"member-43","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("a member in another case", `{"memberId":"Member-42","date":"2024-04-15"}`, 422, "memberId"),
	onTIL("an impossible date", `{"memberId":"member-42","date":"2024-02-30"}`, 422, "date"),
	onTIL("tomorrow", `{"memberId":"member-42","date":"2024-04-16"}`, 422, "date"),
	onTIL("a month", `{"memberId":"member-42","date":"2024-04"}`, 422, "date"),
	onTIL("a date and a time", `{"memberId":"member-42","date":"2024-04-15T00:00:00Z"}`, 422, "date"),
	onTIL("another calendar", `{"memberId":"member-42","date":"15/04/2024"}`, 422, "date"),
	onTIL("a year of five digits", `{"memberId":"member-42","date":"12024-04-15"}`, 422, "date"),
	onTIL("digits that are no ASCII", `{"memberId":"member-42","date":"２０２４-04-15"}`, 422, "date"),

	onPoints("no amount", `{"period":"2024-04"}`, 422, "amount"),
	onPoints("nothing", `{"period":"2024-04","amount":0}`, 422, "amount"),
	onPoints("less than nothing", `{"period":"2024-04","amount":-5}`, 422, "amount"),
	onPoints("minus nothing", `{"period":"2024-04","amount":-0}`, 422, "amount"),
	onPoints("a fraction", `{"period":"2024-04","amount":12.7}`, 422, "amount"),
	onPoints("a fraction of nothing", `{"period":"2024-04","amount":100.0}`, 422, "amount"),
	onPoints("an exponent", `{"period":"2024-04","amount":1e3}`, 422, "amount"),
	onPoints("more than a float", `{"period":"2024-04","amount":1e400}`, 422, "amount"),
	onPoints("more than an int64", `{"period":"2024-04","amount":9223372036854775808}`, 422, "amount"),
	onPoints("beyond the limit", `{"period":"2024-04","amount":1000000000001}`, 422, "amount"),
	onPoints("beyond what a float tells apart", `{"period":"2024-04","amount":9007199254740993}`, 422, "amount"),
	onPoints("an amount in text", `{"period":"2024-04","amount":"100"}`, 422, "amount"),
	onPoints("true", `{"period":"2024-04","amount":true}`, 422, "amount"),
	onPoints("null", `{"period":"2024-04","amount":null}`, 422, "amount"),
	onPoints("a flag that is none", `{"period":"2024-04","amount":100,"changeAmount":"yes"}`, 422, "changeAmount"),
	onPoints("a flag of null", `{"period":"2024-04","amount":100,"allowFuture":null}`, 422, "allowFuture"),
	onPoints("no month", `{"period":"2024-13","amount":100}`, 422, "period"),
	onPoints("a day", `{"period":"2024-04-15","amount":100}`, 422, "period"),
	onPoints("next month", `{"period":"2024-05","amount":100}`, 422, "period"),
	onPoints("before the beginning", `{"period":"1999-12","amount":100}`, 422, "period"),
	onPoints("the end of the calendar", `{"period":"9999-12","amount":100,"allowFuture":true}`, 422, "period"),
}

// JOB-24, KEY-01: paths, queries, methods and headers that lead nowhere.
var badRequests = []refusal{
	{"the root", "GET", "/", "", nil, 404, ""},
	{"an unknown path", "GET", "/v1/nothing", "", nil, 404, ""},
	{"another version", "GET", "/v2/jobs", "", nil, 404, ""},
	{"a slash behind", "GET", "/v1/jobs/", "", nil, 404, ""},
	{"two slashes", "GET", "/v1//jobs", "", nil, 404, ""},
	{"dots", "GET", "/v1/members/../jobs", "", nil, 404, ""},
	{"the documentation", "GET", "/docs", "", nil, 404, ""},
	{"another method", "PUT", "/v1/jobs", "", nil, 405, ""},
	{"OPTIONS", "OPTIONS", "/v1/jobs", "", nil, 405, ""},
	{"an invented method", "BREW", "/v1/til-generations", goodTIL, nil, 405, ""},
	{"GET of what is posted", "GET", "/v1/til-generations", "", nil, 405, ""},

	{"an unknown job", "GET", "/v1/jobs/" + someJob, "", nil, 404, "id"},
	{"a key as a job", "GET", "/v1/jobs/monthly-point%3A2024-04%3Amember-42", "", nil, 404, "id"},
	{"a space as a job", "GET", "/v1/jobs/%20", "", nil, 404, "id"},
	{"a slash in a job", "GET", "/v1/jobs/a%2Fb", "", nil, 404, "id"},
	{"a member as a job", "GET", "/v1/jobs/member-42", "", nil, 404, "id"},
	{"a UUID as a job", "GET", "/v1/jobs/0b8e7b0e-1d0c-4d7b-8f3e-0a8e6f1d2c3b", "", nil, 404, "id"},
	{"a newline in a job", "GET", "/v1/jobs/" + someJob + "%0A", "", nil, 404, "id"},
	{"a NUL in a job", "GET", "/v1/jobs/" + someJob + "%00", "", nil, 404, "id"},
	{"bytes as a job", "GET", "/v1/jobs/%FF%FE", "", nil, 404, "id"},
	{"a job in lower case", "GET", "/v1/jobs/" + strings.ToLower(someJob), "", nil, 404, "id"},
	{"a job of an unknown kind", "GET", "/v1/jobs/slots-01HTCZP1G00000000000000000", "", nil, 404, "id"},
	{"a job of 3,000 characters", "GET", "/v1/jobs/" + strings.Repeat("x", 3000), "", nil, 404, "id"},
	{"failures of an unknown job", "GET", "/v1/jobs/" + someJob + "/failures", "", nil, 404, "id"},
	{"failures of no job", "GET", "/v1/jobs/monthly-point%3A2024-04/failures", "", nil, 404, "id"},
	{"cancel an unknown job", "POST", "/v1/jobs/" + someJob + "/cancel", "", nil, 404, "id"},
	{"cancel no job", "POST", "/v1/jobs/a%2Fb/cancel", "", nil, 404, "id"},
	{"points of an unknown member", "GET", "/v1/members/member-43/points", "", nil, 404, "id"},
	{"points of a member that cannot be", "GET", "/v1/members/a%3Ab/points", "", nil, 404, "id"},
	{"points of a slash", "GET", "/v1/members/a%2Fb/points", "", nil, 404, "id"},
	{"points of 3,000 characters", "GET", "/v1/members/" + strings.Repeat("x", 3000) + "/points", "", nil, 404, "id"},
	{"a TIL that is not there", "GET", "/v1/tils/member-42/2024-04-15", "", nil, 404, ""},
	{"a TIL of a member that cannot be", "GET", "/v1/tils/a%3Ab/2024-04-15", "", nil, 404, "memberId"},
	{"a TIL of an impossible day", "GET", "/v1/tils/member-42/2024-02-30", "", nil, 422, "date"},
	{"a TIL of a slash", "GET", "/v1/tils/member-42/2024%2F04", "", nil, 422, "date"},
	{"a TIL of a month", "GET", "/v1/tils/member-42/2024-04", "", nil, 422, "date"},

	{"an unknown parameter", "GET", "/v1/jobs?kinds=til", "", nil, 422, "kinds"},
	{"an unknown parameter of one job", "GET", "/v1/jobs/" + someJob + "?verbose=1", "", nil, 422, "verbose"},
	{"a parameter on a POST", "POST", "/v1/til-generations?memberId=member-42", goodTIL, nil, 422, "memberId"},
	{"a parameter twice", "GET", "/v1/jobs?limit=1&limit=2", "", nil, 422, "limit"},
	{"a malformed query", "GET", "/v1/jobs?limit=%zz", "", nil, 422, "query"},
	{"a semicolon", "GET", "/v1/jobs?limit=1;kind=til", "", nil, 422, "query"},
	{"no limit", "GET", "/v1/jobs?limit=0", "", nil, 422, "limit"},
	{"too high a limit", "GET", "/v1/jobs?limit=101", "", nil, 422, "limit"},
	{"a limit in words", "GET", "/v1/jobs?limit=ten", "", nil, 422, "limit"},
	{"a huge limit", "GET", "/v1/jobs?limit=99999999999999999999", "", nil, 422, "limit"},
	{"an unknown kind", "GET", "/v1/jobs?kind=slots", "", nil, 422, "kind"},
	{"an empty kind", "GET", "/v1/jobs?kind=", "", nil, 422, "kind"},
	{"an unknown state", "GET", "/v1/jobs?state=pending", "", nil, 422, "state"},
	{"an impossible month", "GET", "/v1/jobs?month=2024-13", "", nil, 422, "month"},
	{"a day for a month", "GET", "/v1/jobs?month=2024-04-15", "", nil, 422, "month"},
	{"a cursor that is none", "GET", "/v1/jobs?cursor=x", "", nil, 400, "cursor"},
	{"a cursor of padding", "GET", "/v1/jobs?cursor=AAAA%3D%3D", "", nil, 400, "cursor"},
	{"a long cursor", "GET", "/v1/jobs?cursor=" + strings.Repeat("A", 5000), "", nil, 400, "cursor"},
	{"a cursor that is no text", "GET", "/v1/members/member-42/points?cursor=%FF", "", nil, 400, "cursor"},

	{"a form", "POST", "/v1/til-generations", "memberId=member-42", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "Content-Type"},
	{"plain text", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", "text/plain"}, 415, "Content-Type"},
	{"no content type", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", ""}, 415, "Content-Type"},
	{"another charset", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", "application/json; charset=euc-kr"}, 415, "Content-Type"},
	{"a content type that is none", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", "json;;"}, 415, "Content-Type"},
	{"two content types", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", "application/json", "Content-Type", "text/plain"}, 422, "Content-Type"},
	{"JSON of another kind", "POST", "/v1/til-generations", goodTIL, []string{"Content-Type", "application/merge-patch+json"}, 415, "Content-Type"},
	{"an empty idempotency key", "POST", "/v1/til-generations", goodTIL, []string{"Idempotency-Key", ""}, 422, "Idempotency-Key"},
	{"two idempotency keys", "POST", "/v1/til-generations", goodTIL, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 422, "Idempotency-Key"},
	{"an idempotency key of 256 characters", "POST", "/v1/til-generations", goodTIL, []string{"Idempotency-Key", strings.Repeat("k", 256)}, 422, "Idempotency-Key"},
	{"an idempotency key in Hangul", "POST", "/v1/til-generations", goodTIL, []string{"Idempotency-Key", "키"}, 422, "Idempotency-Key"},
	{"an idempotency key with a tab", "POST", "/v1/til-generations", goodTIL, []string{"Idempotency-Key", "a\tb"}, 422, "Idempotency-Key"},

	{"too large a body", "POST", "/v1/notes", `{"notes":[` + strings.Repeat(" ", 5<<20) + `]}`, nil, 413, "body"},
	{"too large a body where none belongs", "POST", "/v1/jobs/" + someJob + "/cancel", strings.Repeat("x", 5<<20), nil, 413, "body"},
	{"a million members", "POST", "/v1/members", `{"members":[` + strings.Repeat("0,", 2_000_000) + `0]}`, nil, 422, "members"},
	{"no list of members", "POST", "/v1/members", `{}`, nil, 422, "members"},
	{"null for members", "POST", "/v1/members", `{"members":null}`, nil, 422, "members"},
	{"an object for members", "POST", "/v1/members", `{"members":{"id":"a"}}`, nil, 422, "members"},
	{"more beside the members", "POST", "/v1/members", `{"members":[],"dryRun":true}`, nil, 422, "dryRun"},
	{"members twice", "POST", "/v1/members", `{"members":[],"members":[]}`, nil, 422, "members"},
	{"a list by itself", "POST", "/v1/members", `[]`, nil, 400, "body"},
	{"too many members", "POST", "/v1/members", `{"members":[` + strings.Repeat("0,", api.MaxItems) + `0]}`, nil, 422, "members"},
	{"too many notes", "POST", "/v1/notes", `{"notes":[` + strings.Repeat("0,", api.MaxItems) + `0]}`, nil, 422, "notes"},
}

func TestWhatCannotBeIsRefusedByNameAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	h := w.handler(spring, nil)
	before := w.store.Meter().Spent().Write
	for _, c := range append(badBodies, badRequests...) {
		t.Run(c.method+" "+c.name, func(t *testing.T) {
			r := send(h, c.method, c.target, c.body, c.header...)
			e := r.problem(t)
			conforms(t, c.method, urlOf(c.target), r)
			if r.StatusCode != c.status {
				t.Errorf("status %d, want %d: %.300s", r.StatusCode, c.status, r.body)
			}
			if c.field != "" && !e.Field(c.field) || c.field == "" && len(e.Errors) > 0 {
				t.Errorf("fields %v, want %q", e.Errors, c.field)
			}
			if c.status == 405 && r.Header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if len(r.body) > 3000 {
				t.Errorf("the answer has %d bytes: %.300s", len(r.body), r.body)
			}
		})
	}
	if after := w.store.Meter().Spent().Write; after != before {
		t.Errorf("%v write units were spent", after-before)
	}
	if n := w.jobCount("til") + w.jobCount("monthly-point"); n != 0 || len(w.box.bodies) > 0 {
		t.Errorf("%d jobs, messages %v", n, w.box.bodies)
	}
}

// A problem says everything that is wrong at once.
func TestAProblemNamesEveryField(t *testing.T) {
	t.Parallel()
	r := send(newWorld(t).handler(spring, nil), "POST", "/v1/monthly-points", `{"amount":1.5,"b":1,"a":2}`)
	got := r.problem(t)
	want := []string{"period", "amount", "b", "a"}
	var fields []string
	for _, f := range got.Errors {
		fields = append(fields, f.Field)
	}
	if diff := cmp.Diff(fields, want); diff != "" || r.StatusCode != 422 {
		t.Errorf("status %d (-got +want):\n%s", r.StatusCode, diff)
	}
}

func TestWhatIsEquivalentIsTaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		header []string
	}{
		"white space":              {" \r\n\t{ \"date\" : \"2024-04-15\" , \"memberId\" : \"member-42\" }\n", nil},
		"escapes":                  {`{"memberI\u0064":"member\u002d42","date":"2024-04-15"}`, nil},
		"a charset":                {goodTIL, []string{"Content-Type", "application/json; charset=UTF-8"}},
		"upper case":               {goodTIL, []string{"Content-Type", "Application/JSON"}},
		"any accepted answer":      {goodTIL, []string{"Content-Type", "application/json", "Accept", "text/html, application/cbor;q=0.1"}},
		"no media type accepted":   {goodTIL, []string{"Content-Type", "application/json", "Accept", "json"}},
		"problem details accepted": {goodTIL, []string{"Content-Type", "application/json", "Accept", "application/problem+json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := send(newWorld(t, "member-42").handler(spring, nil), "POST", "/v1/til-generations", c.body, c.header...)
			var a api.Accepted
			r.json(t, &a)
			if r.StatusCode != http.StatusAccepted || a.Slot != "til:member-42:2024-04-15" || r.Header.Get("Location") != "/v1/jobs/"+a.ID || a.Links.Job != "/v1/jobs/"+a.ID {
				t.Errorf("status %d, Location %q, %+v", r.StatusCode, r.Header.Get("Location"), a)
			}
		})
	}
}

func TestHEADIsGETWithoutABody(t *testing.T) {
	t.Parallel()
	h := newWorld(t, "member-42").handler(spring, nil)
	for target, want := range map[string]int{"/v1/jobs": 200, "/v1/members/member-42/points": 200, "/v1/jobs/x": 404, "/v1/notes": 405} {
		if r := send(h, "HEAD", target, ""); r.StatusCode != want {
			t.Errorf("HEAD %s = %d, want %d", target, r.StatusCode, want)
		}
	}
}

// JOB-24, LOG-01: a 5xx says nothing of the inside, whatever broke.
func TestAnErrorOfTheStoreSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42")
	for _, broken := range []struct {
		name   string
		hook   func() (bool, error)
		status int
	}{
		{"a canary", func() (bool, error) { return false, fmt.Errorf("CANARY jobs/SLOTS#1") }, 500},
		{"a panic", func() (bool, error) { panic("CANARY") }, 500},
	} {
		h := w.handler(spring, onEvery(broken.hook))
		for _, c := range []struct{ method, target, body string }{
			{"POST", "/v1/til-generations", goodTIL}, {"POST", "/v1/monthly-points", goodPoints}, {"GET", "/v1/jobs", ""}, {"GET", "/v1/jobs/" + someJob, ""},
			{"GET", "/v1/jobs/" + someJob + "/failures", ""}, {"POST", "/v1/jobs/" + someJob + "/cancel", ""}, {"GET", "/v1/members/member-42/points", ""},
			{"GET", "/v1/tils/member-42/2024-04-15", ""}, {"POST", "/v1/members", `{"members":[{"id":"a","status":"ACTIVE","joinedAt":"2024-01-01T00:00:00Z"}]}`},
			{"POST", "/v1/notes", `{"notes":[{"id":"a","memberId":"member-42","date":"2024-04-15","text":"x"}]}`},
		} {
			if broken.name == "a panic" && strings.HasPrefix(c.body, `{"members"`) {
				continue // the catalog calls the store in goroutines of its own
			}
			r := send(h, c.method, c.target, c.body)
			e := r.problem(t)
			if r.StatusCode != broken.status || e.Detail != "" || strings.Contains(r.body, "CANARY") || strings.Contains(r.body, "SLOTS") {
				t.Errorf("%s: %s %s = %d %s", broken.name, c.method, c.target, r.StatusCode, r.body)
			}
			if !strings.Contains(w.log(), e.RequestID) {
				t.Errorf("%s: %s %s is not in the log", broken.name, c.method, c.target)
			}
		}
	}
}
