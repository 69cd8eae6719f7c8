package main_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/ai/aistub"
	"hanbeon/pkg/api"
)

// killed is a data file, the command, and an AI server that outlives it.
type killed struct {
	t         *testing.T
	bin, data string
	stub      *aistub.Stub
	url       string
}

func startKilled(t *testing.T, members int) *killed {
	t.Helper()
	dir := t.TempDir()
	k := &killed{t: t, bin: filepath.Join(dir, "hanbeon"), data: filepath.Join(dir, "test.db"), stub: aistub.New(aistub.Behaviour{})}
	server := httptest.NewServer(k.stub)
	t.Cleanup(server.Close)
	t.Cleanup(func() { k.stub.Set(aistub.Behaviour{}) })
	k.url = server.URL + "/v1"
	if out, err := exec.Command("go", "build", "-o", k.bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var csv, jsonl strings.Builder
	csv.WriteString("id,status,joined\n")
	for i := range members {
		fmt.Fprintf(&csv, "m-%d,ACTIVE,2020-01-01\n", i)
		fmt.Fprintf(&jsonl, `{"id":"n-1","memberId":"m-%d","date":"2024-04-15","text":"Learned what %d kills leave behind."}`+"\n", i, i)
	}
	for name, text := range map[string]string{"members.csv": csv.String(), "notes.jsonl": jsonl.String()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k.must("members", "import", filepath.Join(dir, "members.csv"))
	k.must("notes", "import", filepath.Join(dir, "notes.jsonl"))
	return k
}

// run runs a command on the data file, through the API of whoever has it.
func (k *killed) run(args ...string) (stdout string, err error) {
	cmd := exec.Command(k.bin, append(args, "--json", "--data", k.data)...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("hanbeon %v: %w: %s", args, err, errs.String())
	}
	return string(out), err
}

func (k *killed) must(args ...string) string {
	k.t.Helper()
	out, err := k.run(args...)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

func (k *killed) start() *process {
	k.t.Helper()
	p := startProcess(k.t, k.bin, "local", "--listen", "127.0.0.1:0", "--data", k.data, "--ai-url", k.url, "--ai-model", "m")
	p.waitFor("serving", 1)
	return p
}

// request asks for a summary and returns the id of its job.
func (k *killed) request(member int) string {
	k.t.Helper()
	var a api.Accepted
	if err := json.Unmarshal([]byte(k.must("til", "request", fmt.Sprint("m-", member), "2024-04-15")), &a); err != nil {
		k.t.Fatal(err)
	}
	return a.ID
}

// at waits until a job is in an attempt, with its call under way.
func (k *killed) at(id string, attempt int) {
	k.t.Helper()
	for begun := time.Now(); ; {
		j := k.job(id)
		if j.Attempt == attempt && j.State == "RUNNING" {
			return
		}
		if time.Since(begun) > patience {
			k.t.Fatalf("job %s does not come to attempt %d: %+v", id, attempt, j)
		}
	}
}

func (k *killed) job(id string) (j api.Job) {
	k.t.Helper()
	if err := json.Unmarshal([]byte(k.must("jobs", id)), &j); err != nil {
		k.t.Fatal(err)
	}
	return j
}

// kill -9 of `hanbeon local` at any moment of a til job: the next start ends it without a hand, in COMPLETED or, after three attempts that were killed, in FAILED; its slot is free, and what is published is
// published once. TTL-04 with the death of the process: a call may be made again, its result is not.
func TestKillInTheMiddleOfATIL(t *testing.T) {
	t.Parallel()
	k := startKilled(t, 5)
	hang, well := aistub.Behaviour{Hang: true}, aistub.Behaviour{}
	published := 0
	for member, c := range []struct {
		name    string
		kill    func() (id string)
		state   string
		attempt int // that it ends in, at least
	}{
		{"right after the answer, when the message is in memory only", func() string {
			k.stub.Set(hang)
			p := k.start()
			id := k.request(0)
			p.end(os.Kill)
			return id
		}, "COMPLETED", 1},
		{"in the first call", func() string {
			k.stub.Set(hang)
			p := k.start()
			id := k.request(1)
			k.at(id, 1)
			p.end(os.Kill)
			return id
		}, "COMPLETED", 2},
		{"in every call", func() (id string) {
			k.stub.Set(hang)
			for attempt := 1; attempt <= 3; attempt++ {
				p := k.start()
				if id == "" {
					id = k.request(2)
				}
				k.at(id, attempt)
				p.end(os.Kill)
			}
			return id
		}, "FAILED", 3},
		{"right after the end", func() string {
			p := k.start()
			id := k.request(3)
			p.waitFor("job completed", 1)
			p.end(os.Kill)
			return id
		}, "COMPLETED", 1},
		{"while the next process starts", func() (id string) {
			k.stub.Set(hang)
			p := k.start()
			id = k.request(4)
			p.end(os.Kill)
			p = startProcess(t, k.bin, "local", "--listen", "127.0.0.1:0", "--data", k.data, "--ai-url", k.url, "--ai-model", "m")
			p.waitFor("serving", 1) // Recover has been, and its message is on the way
			p.end(os.Kill)
			return id
		}, "COMPLETED", 1},
	} {
		id := c.kill()
		if _, err := os.Stat(k.data + ".api.json"); err != nil {
			t.Fatalf("%s: the killed process left no key behind: %v", c.name, err)
		}
		k.stub.Set(well)
		p := k.start()
		_, err := k.run("watch", id)
		j := k.job(id)
		if j.State != c.state || j.Attempt < c.attempt || (err == nil) != (c.state == "COMPLETED") {
			t.Errorf("%s: %+v, %v; want %s in attempt %d or later", c.name, j, err, c.state, c.attempt)
		}
		if c.state == "FAILED" {
			if j.Reason != "orphaned" {
				t.Errorf("%s: reason %q, want orphaned", c.name, j.Reason)
			}
			if out, err := k.run("til", "show", fmt.Sprint("m-", member), "2024-04-15"); err == nil {
				t.Errorf("%s: published %s, want nothing", c.name, out)
			}
			id = k.request(member) // its slot is free
			k.must("watch", id)
		}
		var til api.TIL
		if err := json.Unmarshal([]byte(k.must("til", "show", fmt.Sprint("m-", member), "2024-04-15")), &til); err != nil {
			t.Fatal(err)
		}
		if til.Revision != 1 || til.Job != id || !strings.Contains(til.Text, fmt.Sprintf("what %d kills leave", member)) {
			t.Errorf("%s: published %+v, want revision 1 by %s", c.name, til, id)
		}
		published++
		p.end(os.Interrupt)
	}
	var found struct {
		Jobs, Active int
		Violations   []string
	}
	if err := json.Unmarshal([]byte(k.must("audit")), &found); err != nil {
		t.Fatal(err)
	}
	if found.Jobs != published+1 || found.Active != 0 || len(found.Violations) > 0 {
		t.Errorf("audit: %+v, want %d jobs, none active, nothing broken", found, published+1)
	}
}
