package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// block is a fenced block of a page.
var block = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$")

// What differs from run to run, on both sides.
var varies = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`-[0-9A-HJKMNP-TV-Z]{26}`), "-<ULID>"},
	{regexp.MustCompile(`("(?:createdAt|startedAt|finishedAt|at)":)"[^"]*"`), `$1"<time>"`},
	{regexp.MustCompile(`("requestId":)"[^"]*"`), `$1"<request>"`},
	{regexp.MustCompile(`("field":"date","message":)"(?:[^"\\]|\\.)*"`), `$1"<message>"`},
}

// The examples of docs/api.md, run by bash and curl as they stand, against `hanbeon local`.
func TestExamplesOfTheAPIPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -euo pipefail\n"
	var want []string
	for _, m := range block.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "sh" {
			script += "echo; echo '=== block'\n" + m[2]
			want = append(want, "")
			continue
		}
		want[len(want)-1] = m[2]
	}
	if len(want) < 10 {
		t.Fatalf("the page has %d examples", len(want))
	}

	dir := t.TempDir()
	bin, data := filepath.Join(dir, "hanbeon"), filepath.Join(dir, "test.db")
	if out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	p := startProcess(t, bin, "local", "--listen", "127.0.0.1:0", "--data", data)
	p.waitFor("serving", 1)
	b, err := os.ReadFile(data + ".api.json")
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Endpoint, Region, AccessKeyID, SecretAccessKey string }
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	sh := exec.Command("bash", "-c", script)
	sh.Dir = dir
	sh.Env = append(os.Environ(), "HANBEON_URL="+c.Endpoint, "HANBEON_REGION="+c.Region, fmt.Sprintf("HANBEON_KEY=%s:%s", c.AccessKeyID, c.SecretAccessKey))
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("the examples: %v\n%s", err, out)
	}
	got := strings.Split(string(out), "\n=== block\n")[1:]
	for i := range want {
		if diff := cmp.Diff(normal(got[i]), normal(want[i])); diff != "" {
			t.Errorf("example %d (-got +want):\n%s", i+1, diff)
		}
	}
	p.end(os.Interrupt)
}

func normal(s string) string {
	for _, v := range varies {
		s = v.what.ReplaceAllString(s, v.as)
	}
	return strings.TrimSpace(s)
}
