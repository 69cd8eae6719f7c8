package main_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/catalog"
)

// killMembers is enough for a run to be in the middle of its work for seconds.
const killMembers = 20_000

// kill -9 of `hanbeon local` in the middle of a run, again and again: the next start finishes what was left, every member is granted once, and the same firing after each start does nothing more.
func TestKillInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := filepath.Join(dir, "hanbeon")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	hanbeon := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, append(args, "--data", filepath.Join(dir, "test.db"))...)
		cmd.Stderr = io.Discard
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("hanbeon %v: %v", args, err)
		}
		return string(out)
	}
	members, event := filepath.Join(dir, "members.csv"), filepath.Join(dir, "event.json")
	hanbeon("members", "sample", "--count", fmt.Sprint(killMembers), "--out", members)
	hanbeon("members", "import", members)
	scheduled := time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)
	input := fmt.Sprintf(`{"kind":"monthly-point","scheduledTime":%q,"amount":100}`, scheduled.Format(time.RFC3339))
	if err := os.WriteFile(event, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}

	// Killed right after the firing, at the first grants, and later each time; then left alone until the job is over.
	data := filepath.Join(dir, "test.db")
	for _, after := range []struct {
		msg   string
		times int
	}{{"firing", 1}, {"delivery", 1}, {"delivery", 4}, {"delivery", 20}, {"delivery", 60}} {
		p := startLocal(t, bin, data, event)
		p.waitFor(after.msg, after.times)
		p.end(os.Kill)
	}
	p := startLocal(t, bin, data, event)
	p.waitFor("job completed", 1)
	p.end(os.Interrupt)

	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	eligible := int64(catalog.Eligible(killMembers, zone, scheduled))
	var found struct {
		Jobs, Active int
		Entries      int64
		BalanceSum   map[string]int64
		Violations   []string
	}
	if err := json.Unmarshal([]byte(hanbeon("audit", "--json")), &found); err != nil {
		t.Fatal(err)
	}
	if found.Jobs != 1 || found.Active != 0 || found.Entries != eligible || found.BalanceSum["points"] != 100*eligible || len(found.Violations) > 0 {
		t.Errorf("got %+v, want one job, %d entries and %d points", found, eligible, 100*eligible)
	}
	for _, member := range []string{"member-000001", "member-010000", "member-020000"} {
		var v struct {
			Points  int64
			Entries []any
		}
		if err := json.Unmarshal([]byte(hanbeon("points", member, "--json")), &v); err != nil {
			t.Fatal(err)
		}
		if v.Points != 100 || len(v.Entries) != 1 {
			t.Errorf("%s: %d points of %d entries, want 100 of 1", member, v.Points, len(v.Entries))
		}
	}
	if out := hanbeon("jobs"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "COMPLETED") {
		t.Errorf("jobs: got %q, want one that is COMPLETED", out)
	}
}

// process is a `hanbeon local` under way.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	log chan string // its lines, closed when it is gone
}

func startLocal(t *testing.T, bin, data, event string) *process {
	t.Helper()
	return startProcess(t, bin, "local", "--listen", "127.0.0.1:0", "--data", data, "--fire", event)
}

func startProcess(t *testing.T, bin string, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a process that hangs must not hang the test
	t.Cleanup(cancel)
	p := &process{t: t, cmd: exec.CommandContext(ctx, bin, args...)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.log = make(chan string, 1<<16) // it must not wait for a reader
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.log)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.log <- lines.Text()
		}
	}()
	return p
}

// waitFor reads the log, which is one JSON object per line, until a message has come so many times.
func (p *process) waitFor(msg string, times int) {
	p.t.Helper()
	for line := range p.log {
		var l struct{ Msg string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			p.t.Errorf("not a JSON object in the log: %q", line)
		}
		if l.Msg == msg {
			times--
		}
		if times == 0 {
			return
		}
		if l.Msg == "job completed" && msg != l.Msg {
			p.t.Fatalf("the job was over before %q came often enough: too few members", msg)
		}
	}
	p.t.Fatalf("the log ended before %q came often enough", msg)
}

// end signals the process and waits until it is gone. Only one that was interrupted ends well.
func (p *process) end(signal os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	for range p.log { // until it is gone
	}
	if err := p.cmd.Wait(); signal == os.Interrupt && err != nil {
		p.t.Errorf("interrupted: %v, want exit code 0", err)
	}
}
