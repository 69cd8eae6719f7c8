package hanbeon_test

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"hanbeon"
)

// function is a Lambda function of template.yaml.
type function struct {
	id        string // logical id
	name      string // of its folder: what follows the name of the stack
	arch      string
	variables []string // of its environment, sorted
}

// functions reads template.yaml as it stands, so that these tests need no Python.
func functions(t *testing.T) []function {
	t.Helper()
	type properties struct {
		FunctionName  string   `yaml:"FunctionName"`
		Architectures []string `yaml:"Architectures"`
		Environment   struct {
			Variables map[string]yaml.Node `yaml:"Variables"`
		} `yaml:"Environment"`
	}
	var tpl struct {
		Globals struct {
			Function properties `yaml:"Function"`
		} `yaml:"Globals"`
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(hanbeon.Template), &tpl); err != nil {
		t.Fatal(err)
	}
	var out []function
	for id, r := range tpl.Resources {
		if r.Type != "AWS::Serverless::Function" {
			continue
		}
		var p properties
		if err := r.Properties.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(p.FunctionName, stackPrefix)
		if !ok || len(p.Architectures) > 0 || len(tpl.Globals.Function.Architectures) != 1 {
			t.Fatalf("%s: name %q, architectures %v", id, p.FunctionName, p.Architectures)
		}
		var variables []string
		for _, vars := range []map[string]yaml.Node{tpl.Globals.Function.Environment.Variables, p.Environment.Variables} {
			for v, value := range vars {
				if value.Value != "AWS::NoValue" { // for `sam local`: not there on AWS
					variables = append(variables, v)
				}
			}
		}
		slices.Sort(variables)
		out = append(out, function{id, name, tpl.Globals.Function.Architectures[0], variables})
	}
	if len(out) == 0 {
		t.Fatal("no functions in template.yaml")
	}
	return out
}

// SAM-04: what `sam build` makes of each function is a static Linux binary called bootstrap, of the architecture that the template says. Its size is part of the budget: under 12 MB.
func TestBuiltFunctionsRunOnLambda(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		missing(t, "no make: %v", err)
	}
	machines := map[string]elf.Machine{"arm64": elf.EM_AARCH64, "x86_64": elf.EM_X86_64}
	for _, f := range functions(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if out, err := exec.CommandContext(t.Context(), "make", "build-"+f.id, "ARTIFACTS_DIR="+dir).CombinedOutput(); err != nil {
				t.Fatalf("make build-%s: %v\n%s", f.id, err, out)
			}
			path := filepath.Join(dir, "bootstrap")
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm()&0o111 != 0o111 {
				t.Errorf("mode %v: not executable", info.Mode())
			}
			if got, limit := info.Size(), int64(12<<20); got >= limit {
				t.Errorf("%d bytes, want under %d", got, limit)
			}
			bin, err := elf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer bin.Close()
			if got, want := bin.Machine, machines[f.arch]; got != want {
				t.Errorf("machine %v, want %v", got, want)
			}
			if bin.OSABI != elf.ELFOSABI_NONE && bin.OSABI != elf.ELFOSABI_LINUX {
				t.Errorf("OS ABI %v, want Linux", bin.OSABI)
			}
			if bin.Type != elf.ET_EXEC || bin.Section(".interp") != nil || bin.Section(".dynamic") != nil {
				t.Errorf("type %v: not a static executable", bin.Type)
			}
		})
	}
}

// givenByLambda are the variables that the runtime sets (Lambda Developer Guide, "Defined runtime environment variables") and a function requires.
var givenByLambda = []string{"AWS_ACCESS_KEY_ID", "AWS_REGION", "AWS_SECRET_ACCESS_KEY"}

// SAM-06: each binary is started, without any variable, with all, and with each one missing. It requires exactly what the template gives it, and says so before it does anything.
func TestFunctionsReadTheVariablesOfTheTemplate(t *testing.T) {
	t.Parallel()
	for _, f := range functions(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			bin := filepath.Join(t.TempDir(), f.name)
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "lambda.norpc", "-o", bin, "./functions/"+f.name).CombinedOutput(); err != nil {
				t.Fatalf("go build: %v\n%s", err, out)
			}
			want := slices.Sorted(slices.Values(append(slices.Clone(f.variables), givenByLambda...)))
			if diff := cmp.Diff(slices.Sorted(slices.Values(refused(t, bin, nil))), want); diff != "" {
				t.Errorf("required variables and those of the template (-got +want):\n%s", diff)
			}
			for _, left := range want {
				var env []string
				for _, name := range want {
					if name != left {
						env = append(env, name+"="+example(name))
					}
				}
				if got := refused(t, bin, env); !slices.Equal(got, []string{left}) {
					t.Errorf("without %s: refused for %v", left, got)
				}
			}
			var env []string
			for _, name := range want {
				env = append(env, name+"="+example(name))
			}
			if got := refused(t, bin, env); got != nil {
				t.Errorf("with all of them: refused for %v", got)
			}
		})
	}
}

// example is a value that a variable may have.
func example(name string) string {
	switch {
	case strings.HasPrefix(name, "TABLE_"):
		return "hanbeon-" + lower(strings.TrimPrefix(name, "TABLE_"))
	case strings.HasPrefix(name, "QUEUE_"):
		return "https://sqs.ap-northeast-2.amazonaws.com/123456789012/hanbeon-" + lower(strings.TrimPrefix(name, "QUEUE_"))
	}
	return map[string]string{
		"BUSINESS_ZONE": "Asia/Seoul", "LOG_LEVEL": "INFO", "CALENDAR_START": "2026-12", "AUTO_OPEN": "true", "SCHEDULE_INPUTS": `{"monthly-point":{"amount":100}}`,
		"AI_BASE_URL": "https://ai.example.com/v1", "AI_MODEL": "m", "AI_KEY_SECRET": "arn:aws:secretsmanager:ap-northeast-2:123456789012:secret:ai-AbCdEf", "AI_TIMEOUT": "120",
		"AWS_REGION": "ap-northeast-2", "AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "c2VjcmV0",
	}[name]
}

// refused starts a function outside Lambda and returns the variables for which it stopped; nil if it got as far as asking for the runtime, which is not there.
func refused(t *testing.T, bin string, env []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a function that starts would run for ever
	defer cancel()
	cmd := exec.CommandContext(ctx, bin)
	cmd.Env = append([]string{}, env...) // not nil, which would be ours
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("got %v, want exit code 1\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "AWS_LAMBDA_RUNTIME_API") {
		return nil
	}
	var line struct {
		Level    string   `json:"level"`
		Problems []string `json:"problems"`
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Level != "ERROR" || len(line.Problems) == 0 {
		t.Fatalf("not one line of JSON at level ERROR with problems: %v\n%s", err, out.String())
	}
	var names []string
	for _, p := range line.Problems {
		name, _, _ := strings.Cut(p, ":")
		names = append(names, name)
	}
	return names
}
