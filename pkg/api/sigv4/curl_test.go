package sigv4_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// curl runs the command line of the README against the door and returns status and body.
func (d *door) curl(t *testing.T, secret string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		if os.Getenv("HANBEON_REQUIRE_TOOLS") == "1" {
			t.Fatal("curl is missing")
		}
		t.Skip("curl is missing")
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{
		"--silent", "--show-error", "--noproxy", "*", "--write-out", " %{http_code}", "--aws-sigv4", "aws:amz:" + region + ":execute-api", "--user", kim.ID + ":" + secret,
	}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return string(out)
}

func TestCurlSignsWhatIsLetThrough(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	ok := kim.ARN + " 200"
	for _, c := range []struct {
		name, secret string
		args         []string
		want         string
	}{
		{"GET", kim.Secret, []string{d.URL + "/v1/jobs/til-01HV0000000000000000000000"}, ok},
		{"GET with a sorted query", kim.Secret, []string{d.URL + "/v1/jobs?kind=til&state=RUNNING"}, ok},
		{"GET with headers", kim.Secret, []string{"-H", `If-None-Match: "1"`, "-H", "Accept: application/json", d.URL + "/v1/jobs"}, ok},
		{"POST", kim.Secret, []string{"-H", "Content-Type: application/json", "-H", "Idempotency-Key: k-1", "-d", `{"memberId":"member-42","date":"2024-04-15"}`, d.URL + "/v1/til-generations"}, ok},
		{"POST of Hangul", kim.Secret, []string{"-H", "Content-Type: application/json", "--data-binary", `{"text":"오늘 배운 것"}`, d.URL + "/v1/notes"}, ok},
		{"POST without a body", kim.Secret, []string{"-X", "POST", d.URL + "/v1/jobs/til-01HV0000000000000000000000/cancel"}, ok},
		{"PUT", kim.Secret, []string{"-X", "PUT", "-H", "Content-Type: application/json", "-d", `{}`, d.URL + "/v1/dictionaries/main"}, ok},
		{"another secret", lee.Secret, []string{d.URL + "/v1/jobs"}, forbidden + " 403"},
		{"another region", kim.Secret, []string{"--aws-sigv4", "aws:amz:us-east-1:execute-api", d.URL + "/v1/jobs"}, forbidden + " 403"},
		{"another service", kim.Secret, []string{"--aws-sigv4", "aws:amz:" + region + ":lambda", d.URL + "/v1/jobs"}, forbidden + " 403"},
		{"another provider", kim.Secret, []string{"--aws-sigv4", "osc:sdk:" + region + ":execute-api", d.URL + "/v1/jobs"}, forbidden + " 403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := d.curl(t, c.secret, c.args...); got != c.want {
				t.Errorf("curl %q = %q, want %q; log: %s", c.args, got, c.want, &d.log)
			}
		})
	}
}

// The same requests as signed by others. What curl 7.88 signs is written by hand here, since later ones do it otherwise.
func TestSignaturesOfOtherClients(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	host := strings.TrimPrefix(d.URL, "http://")
	date := time.Now().UTC().Format("20060102T150405Z")
	plain := "host:" + host + "\nx-amz-date:" + date + "\n"
	for _, c := range []struct {
		name, target                string // target is what is sent
		path, query, headers, names string // as signed
		body, method                string
		want                        int
	}{
		{"plain", "/v1/jobs", "/v1/jobs", "", plain, "host;x-amz-date", "", "GET", 200},
		{"no path", "/", "/", "", plain, "host;x-amz-date", "", "GET", 200},
		{"a path with escapes, by the specification", "/v1/records/a%2Fb%20c", "/v1/records/a%252Fb%2520c", "", plain, "host;x-amz-date", "", "GET", 200},
		{"a path with escapes, by curl 7.88", "/v1/records/a%2Fb%20c", "/v1/records/a%2Fb%20c", "", plain, "host;x-amz-date", "", "GET", 403},
		{"a path with Hangul, by the specification", "/v1/tils/%ED%95%9C", "/v1/tils/%25ED%2595%259C", "", plain, "host;x-amz-date", "", "GET", 200},
		{"a path with @ = +, by the specification", "/v1/members/a@b=c+d", "/v1/members/a%40b%3Dc%2Bd", "", plain, "host;x-amz-date", "", "GET", 200},
		{"a query in any order", "/v1/jobs?state=RUNNING&kind=til&kind=a", "/v1/jobs", "kind=a&kind=til&state=RUNNING", plain, "host;x-amz-date", "", "GET", 200},
		{"a query in any order, by curl 7.88", "/v1/jobs?state=RUNNING&kind=til", "/v1/jobs", "state=RUNNING&kind=til", plain, "host;x-amz-date", "", "GET", 403},
		{"a parameter without =", "/v1/jobs?a&b=", "/v1/jobs", "a=&b=", plain, "host;x-amz-date", "", "GET", 200},
		{"a parameter without =, by curl 7.88", "/v1/jobs?a", "/v1/jobs", "a", plain, "host;x-amz-date", "", "GET", 403},
		{"a space in a query", "/v1/jobs?a=1%202", "/v1/jobs", "a=1%202", plain, "host;x-amz-date", "", "GET", 200},
		{"a plus sign in a query is a space", "/v1/jobs?a=1+2", "/v1/jobs", "a=1%202", plain, "host;x-amz-date", "", "GET", 200},
		{"an escaped plus sign in a query", "/v1/jobs?a=1%2B2", "/v1/jobs", "a=1%2B2", plain, "host;x-amz-date", "", "GET", 200},
		{"a query sorted as it is escaped: % comes before -", "/v1/jobs?a-b=2&a/b=1", "/v1/jobs", "a%2Fb=1&a-b=2", plain, "host;x-amz-date", "", "GET", 200},
		{"a query sorted before it is escaped", "/v1/jobs?a-b=2&a/b=1", "/v1/jobs", "a-b=2&a%2Fb=1", plain, "host;x-amz-date", "", "GET", 403},
		{"a header with spaces", "/v1/jobs", "/v1/jobs", "", "host:" + host + "\nx-a:a b\nx-amz-date:" + date + "\n", "host;x-a;x-amz-date", "", "GET", 200},
		{"no host signed", "/v1/jobs", "/v1/jobs", "", "x-amz-date:" + date + "\n", "x-amz-date", "", "GET", 403},
		{"no date signed", "/v1/jobs", "/v1/jobs", "", "host:" + host + "\n", "host", "", "GET", 403},
		{"a body, its length signed", "/v1/notes", "/v1/notes", "", "content-length:2\n" + plain, "content-length;host;x-amz-date", "{}", "POST", 200},
		{"a body, its length not signed", "/v1/notes", "/v1/notes", "", plain, "host;x-amz-date", "{}", "POST", 200},
		{"a body, its hash signed", "/v1/notes", "/v1/notes", "", "host:" + host + "\nx-amz-content-sha256:" + hashOf("{}") + "\nx-amz-date:" + date + "\n", "host;x-amz-content-sha256;x-amz-date", "{}", "POST", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRequest(t, c.method, d.URL, c.body)
			var err error
			if r.URL, err = url.Parse(d.URL + c.target); err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{
				"X-Amz-Date": {date}, "X-A": {"  a   b "},
				"Authorization": {byHand(kim, date, c.method, c.path, c.query, c.headers, c.names, c.body)},
			}
			if strings.Contains(c.names, "sha256") {
				r.Header.Set("X-Amz-Content-Sha256", hashOf(c.body))
			}
			resp, got := d.send(t, r)
			if resp.StatusCode != c.want {
				t.Errorf("answer = %d %s, want %d; log: %s", resp.StatusCode, got, c.want, &d.log)
			}
		})
	}
}

// A signed body that is not the one signed for, its hash along with it: the hash says what the body should have been, the signature that nobody signed it.
func TestReplayedWithAnotherBody(t *testing.T) {
	t.Parallel()
	d := newDoor(t, time.Now)
	r := newRequest(t, "POST", d.URL+"/v1/monthly-points", `{"amount":100}`)
	r.Header.Set("X-Amz-Content-Sha256", hashOf(`{"amount":100}`))
	signed := sign(t, kim, r)
	for _, body := range []string{`{"amount":100}`, `{"amount":100}`} { // a replay as it was is AWS's to allow, for five minutes
		newBody(body)(signed)
		if resp, got := d.send(t, signed); resp.StatusCode != 200 {
			t.Fatalf("answer = %d %s, want 200", resp.StatusCode, got)
		}
	}
	newBody(`{"amount":999}`)(signed)
	if resp, got := d.send(t, signed); resp.StatusCode != 403 || got != forbidden {
		t.Errorf("answer to another body = %d %s, want 403", resp.StatusCode, got)
	}
	newBody(`{"amount":999}`)(signed)
	signed.Header.Set("X-Amz-Content-Sha256", hashOf(`{"amount":999}`))
	if resp, got := d.send(t, signed); resp.StatusCode != 403 || got != forbidden {
		t.Errorf("answer to another body and its hash = %d %s, want 403", resp.StatusCode, got)
	}
	// Not even somebody who has a key may leave the hash open.
	newBody(`{"amount":100}`)(r)
	r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	if resp, _ := d.send(t, sign(t, kim, r)); resp.StatusCode != 403 {
		t.Errorf("status of an unsigned payload = %d, want 403", resp.StatusCode)
	}
}
