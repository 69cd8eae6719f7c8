package hanbeon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hanbeon"
)

// invoked is how `make invoke` ended.
type invoked struct {
	code        int
	answer, log string
}

// invoker builds the program of `make invoke`, which runs a function under the runtime interface emulator.
func invoker(t *testing.T) string {
	t.Helper()
	for tool, variable := range map[string]string{"aws-lambda-rie": "HANBEON_RIE", "dynoxide": "HANBEON_DYNOXIDE"} {
		if _, err := exec.LookPath(filepath.Join(".tools", "bin", tool)); err == nil || os.Getenv(variable) != "" {
			continue
		}
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "no %s: `make tools` installs it, or %s names it", tool, variable)
		}
	}
	bin := filepath.Join(t.TempDir(), "invoke")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "./testdata/invoke").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func invoke(t *testing.T, bin string, args ...string) invoked {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it has children
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return invoked{cmd.ProcessState.ExitCode(), strings.TrimSpace(out.String()), log.String()}
}

// The real binaries, each on its sample: the event of AWS, the runtime API of Lambda, the environment of the template, DynamoDB's API.
func TestFunctionsUnderTheRuntimeEmulator(t *testing.T) {
	t.Parallel()
	bin := invoker(t)
	const acknowledged = `{"batchItemFailures":[]}`
	want := map[string]struct{ answer, log string }{
		"api":           {`"statusCode":202`, `sent to hanbeon-til: {"v":1,"job":"til-`},
		"dispatcher":    {`null`, `"opened":true`},
		"fanout":        {acknowledged, `sent to hanbeon-monthly-point: {"v":1,"job":"monthly-point-01HTAJ3H4G8J3Q6M0ZK4N7W2XC","subject":"member-`},
		"monthly-point": {acknowledged, `"outcomes":{"applied":2}`},
		"reaper":        {`null`, `"PeriodOverdue":0`},
		"til":           {acknowledged, `"msg":"job completed"`},
	}
	for _, f := range functions(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			got := invoke(t, bin, "-function", f.name)
			w := want[f.name]
			if got.code != 0 || !strings.Contains(got.answer, w.answer) || !strings.Contains(got.log, w.log) || w.answer == "" {
				t.Errorf("exit code %d, answer %s\n%s\nwant 0, %s and %s", got.code, got.answer, got.log, w.answer, w.log)
			}
		})
	}
}

// The emulator answers 200 for a failure; the exit code must tell it all the same.
func TestAFunctionThatFailsIsSeen(t *testing.T) {
	t.Parallel()
	bin := invoker(t)
	for _, c := range []struct{ name, function, event, want string }{
		{"an error of the handler", "dispatcher", `{"kind":"monthly-point"}`, "the function failed: "},
		{"no event at all", "fanout", `[1`, "the function failed: "},
		{"a message handed back", "til", `{"Records":[{"messageId":"m","receiptHandle":"r","body":"{}"}]}`, "1 messages handed back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "event.json")
			if err := os.WriteFile(file, []byte(c.event), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := invoke(t, bin, "-function", c.function, "-event", file); got.code != 1 || !strings.Contains(got.log, "invoke: "+c.want) {
				t.Errorf("exit code %d\n%s\nwant 1 and %q", got.code, got.log, c.want)
			}
		})
	}
}

// SAM-06: `sam local` gives a function the variables that the template declares and no others, and events/env.json their values. Without the address of local services, which
// is declared as nothing at all, a function refuses to start: it never reaches an account by mistake.
func TestTheEnvironmentOfSAMLocal(t *testing.T) {
	t.Parallel()
	var tpl struct {
		Globals struct {
			Function struct {
				Environment struct {
					Variables map[string]yaml.Node `yaml:"Variables"`
				} `yaml:"Environment"`
			} `yaml:"Function"`
		} `yaml:"Globals"`
	}
	if err := yaml.Unmarshal([]byte(hanbeon.Template), &tpl); err != nil {
		t.Fatal(err)
	}
	if v := tpl.Globals.Function.Environment.Variables["AWS_ENDPOINT_URL"]; v.Tag != "!Ref" || v.Value != "AWS::NoValue" {
		t.Errorf("AWS_ENDPOINT_URL is %s %s, want !Ref AWS::NoValue", v.Tag, v.Value)
	}
	var file struct{ Parameters map[string]string }
	if err := json.Unmarshal([]byte(read(t, "events/env.json")), &file); err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{"AWS_ENDPOINT_URL": true}
	for _, f := range functions(t) {
		for _, v := range f.variables {
			declared[v] = true
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(file.Parameters)), slices.Sorted(maps.Keys(declared))); diff != "" {
		t.Errorf("variables of events/env.json and of the template (-got +want):\n%s", diff)
	}
	elsewhere := regexp.MustCompile(`https?://[^"/]+`)
	for name, v := range file.Parameters {
		for _, address := range elsewhere.FindAllString(v, -1) {
			if address != "http://host.docker.internal:4566" {
				t.Errorf("%s points to %s", name, address)
			}
		}
	}
}
