package hanbeon_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goPackage is what `go list -json` says of a package. Imports are those of its code, not of its tests.
type goPackage struct {
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
}

// packages are those of this module, by path beneath it ("pkg/once").
func packages(t *testing.T) map[string]goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Imports,Deps", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]goPackage{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[own(p.ImportPath)] = p
	}
}

// own is the path beneath the module, "" of a package that is not ours or is the root, which holds the template only.
func own(importPath string) string {
	p, _ := strings.CutPrefix(importPath, "hanbeon/")
	if p == importPath {
		return ""
	}
	return p
}

// levels are the layers from the ground up: a package imports its own layer and those beneath. One that is not here is under the rule of its parent folder.
var levels = []([]string){
	{"pkg/once", "pkg/jsonobject"},
	{"pkg/store"},
	{"pkg/ledger", "pkg/job", "pkg/queue", "pkg/catalog"},
	{"pkg/dispatch", "pkg/worker", "pkg/reaper"},
	{"pkg/kinds", "pkg/audit"},
	{"pkg/dynamo", "pkg/bolt", "pkg/sqs", "pkg/ai", "pkg/sim"}, // adapters: narrower rules below
	{"pkg/api"},
	{"pkg/cloud", "pkg/local", "pkg/console"},
	{"functions", "cmd"},
}

func levelOf(p string) int {
	for dir := p; dir != "."; dir = path.Dir(dir) {
		for n, layer := range levels {
			if slices.Contains(layer, dir) {
				return n
			}
		}
	}
	return -1
}

func TestImportsGoDown(t *testing.T) {
	t.Parallel()
	for p, info := range packages(t) {
		if p == "" {
			continue
		}
		if levelOf(p) < 0 {
			t.Errorf("%s is in no layer", p)
		}
		for _, i := range info.Imports {
			if to := own(i); to != "" && levelOf(to) > levelOf(p) {
				t.Errorf("%s imports %s, which is above it", p, to)
			}
		}
	}
}

// An adapter knows the contract it implements and nothing else of ours, least of all another adapter; what tests it knows it too.
func TestAdaptersImportOnlyTheirContracts(t *testing.T) {
	t.Parallel()
	contracts := map[string][]string{
		"pkg/dynamo":            {"pkg/store"},
		"pkg/dynamo/dynamotest": {"pkg/dynamo", "pkg/store"},
		"pkg/bolt":              {"pkg/store"},
		"pkg/sqs":               {"pkg/queue"},
		"pkg/ai":                {"pkg/job"}, // its classes of errors, no more
		"pkg/ai/aistub":         nil,
		"pkg/api/gateway":       {"pkg/api/request"}, // the two doors of the API know nothing of what is behind them
		"pkg/api/sigv4":         {"pkg/api/request"},
		"pkg/api/request":       nil,
		"pkg/sim":               {"pkg/queue", "pkg/store"},
		"pkg/store/storetest":   {"pkg/store"},
	}
	all := packages(t)
	for p, allowed := range contracts {
		for _, i := range all[p].Imports {
			if to := own(i); to != "" && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s, want only %v", p, to, allowed)
			}
		}
	}
}

// Libraries that belong to few: the SDK to adapters, the Lambda runtime to those who serve it, the embedded store's to its adapter.
func TestLibrariesStayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	allowed := map[string][]string{
		"github.com/aws/aws-sdk-go-v2":                        {"pkg/dynamo/...", "pkg/sqs", "pkg/cloud", "pkg/api/sigv4", "cmd/..."},
		"github.com/aws/aws-sdk-go-v2/service":                {"pkg/dynamo/...", "pkg/sqs", "pkg/cloud"},
		"github.com/aws/aws-sdk-go-v2/service/secretsmanager": {"pkg/cloud/aiserver"},
		"github.com/aws/aws-sdk-go-v2/aws/signer":             {"pkg/api/sigv4"},
		"github.com/aws/aws-sdk-go-v2/config":                 {"cmd/..."}, // 2 MB for profiles that a function does not have
		"github.com/aws/aws-sdk-go-v2/feature/dynamodb":       nil,         // there is one codec, in store
		"github.com/aws/smithy-go":                            {"pkg/dynamo/...", "pkg/sqs", "pkg/cloud"},
		"github.com/aws/aws-lambda-go/events":                 {"pkg/dispatch", "pkg/worker", "pkg/reaper", "pkg/local", "pkg/api/gateway"},
		"github.com/aws/aws-lambda-go/lambda":                 {"pkg/local", "functions/..."},
		"github.com/aws/aws-lambda-go/lambdacontext":          {"pkg/local", "pkg/cloud"},
		"github.com/danielgtaylor/huma":                       {"pkg/api"},
		"github.com/sashabaranov/go-openai":                   {"pkg/ai"},
		"github.com/spf13/cobra":                              {"cmd/..."},
		"go.etcd.io/bbolt":                                    {"pkg/bolt"},
		"net/http":                                            {"pkg/dynamo/...", "pkg/cloud", "pkg/ai/...", "pkg/api/...", "pkg/local", "cmd/..."},
	}
	for p, info := range packages(t) {
		for _, i := range info.Imports {
			library, who := "", []string(nil)
			for l, may := range allowed {
				if (i == l || strings.HasPrefix(i, l+"/")) && len(l) > len(library) {
					library, who = l, may
				}
			}
			may := func(w string) bool {
				tree, all := strings.CutSuffix(w, "/...")
				return p == tree || all && strings.HasPrefix(p, tree+"/")
			}
			if library != "" && !slices.ContainsFunc(who, may) {
				t.Errorf("%q imports %s, which belongs to %v", p, i, who)
			}
		}
		if p == "pkg/once" || p == "pkg/jsonobject" {
			for _, i := range info.Imports {
				if strings.Contains(strings.Split(i, "/")[0], ".") {
					t.Errorf("%s imports %s, want the standard library only", p, i)
				}
			}
		}
	}
}

// What a function links: its own, and nothing of the laptop's. A worker carries its own kind; another one, the embedded store or the API in its binary would be loaded, shipped and exposed for nothing.
func TestFunctionsLinkNothingTheyDoNotUse(t *testing.T) {
	t.Parallel()
	all := packages(t)
	alone := map[string]string{ // who may link it
		"hanbeon/pkg/api": "api", "github.com/danielgtaylor/huma": "api",
		"hanbeon/pkg/ai": "til", "hanbeon/pkg/cloud/aiserver": "til", "github.com/sashabaranov/go-openai": "til", "github.com/aws/aws-sdk-go-v2/service/secretsmanager": "til",
		"hanbeon/pkg/api/sigv4": "", "hanbeon/pkg/ai/aistub": "", "hanbeon/pkg/bolt": "", "go.etcd.io/bbolt": "", "hanbeon/pkg/local": "", "hanbeon/pkg/sim": "", "hanbeon/pkg/audit": "",
		"github.com/aws/aws-sdk-go-v2/config": "", "testing": "",
	}
	for _, f := range functions(t) {
		info, ok := all["functions/"+f.name]
		if !ok {
			t.Errorf("template.yaml has the function %s, functions/%s is missing", f.name, f.name)
			continue
		}
		kind := "hanbeon/pkg/kinds/" + strings.ReplaceAll(f.name, "-", "")
		isWorker := slices.Contains(info.Imports, "hanbeon/pkg/worker")
		for _, d := range info.Deps {
			for library, who := range alone {
				if (d == library || strings.HasPrefix(d, library+"/")) && who != f.name {
					t.Errorf("%s links %s", f.name, d)
				}
			}
			switch {
			case isWorker && strings.HasPrefix(d, "hanbeon/pkg/kinds") && d != kind:
				t.Errorf("%s links %s, want only %s", f.name, d, kind)
			}
		}
	}
}

func TestNoPackageIsNamedAfterACategory(t *testing.T) {
	t.Parallel()
	for p, info := range packages(t) {
		for _, name := range append(strings.Split(p, "/"), info.Name) {
			if slices.Contains([]string{"util", "utils", "common", "types", "models", "model", "helpers", "helper", "internal", "misc", "shared", "base", "core"}, name) {
				t.Errorf("%s: %q says nothing about what is in it", p, name)
			}
		}
	}
}

var handlerLine = regexp.MustCompile(`(?m)^\thandler := (.+)\.Handle$`)

// Each function's main is wiring, and the laptop has the same line for it: what runs there is what is deployed. The template has the same functions.
func TestFunctionsLaptopAndTemplateAgree(t *testing.T) {
	t.Parallel()
	deployed := map[string]string{} // function to its line
	mains, err := filepath.Glob("functions/*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range mains {
		source := read(t, file)
		if got := strings.Count(source, "\n"); got > 30 {
			t.Errorf("%s has %d lines, want at most 30", file, got)
		}
		if files, _ := os.ReadDir(filepath.Dir(file)); len(files) != 1 {
			t.Errorf("%s has neighbours: a function is its main", file)
		}
		lines := handlerLine.FindAllString(source, -1)
		if len(lines) != 1 {
			t.Fatalf("%s has the handler lines %q, want one", file, lines)
		}
		deployed[filepath.Base(filepath.Dir(file))] = lines[0]
	}

	var onLaptop []string
	files, err := filepath.Glob("pkg/local/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			onLaptop = append(onLaptop, handlerLine.FindAllString(read(t, file), -1)...)
		}
	}
	slices.Sort(onLaptop)
	if diff := cmp.Diff(onLaptop, slices.Sorted(maps.Values(deployed))); diff != "" {
		t.Errorf("handler lines of pkg/local and of functions/*/main.go (-got +want):\n%s", diff)
	}

	var inTemplate []string
	for _, f := range functions(t) {
		inTemplate = append(inTemplate, f.name)
	}
	slices.Sort(inTemplate)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(deployed)), inTemplate); diff != "" {
		t.Errorf("functions and those of template.yaml (-got +want):\n%s", diff)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Only pkg/cloud reads the environment: what a function depends on is in one list. (The command reads none either; tests may.)
func TestOnlyCloudReadsTheEnvironment(t *testing.T) {
	t.Parallel()
	reads := regexp.MustCompile(`os\.(Getenv|LookupEnv|Environ|ExpandEnv)\b`)
	err := filepath.WalkDir(".", func(file string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (file == "pkg/cloud" || file == "pkg/dynamo/dynamotest" || file == "testdata" || file == "bench" || len(file) > 1 && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			for _, found := range reads.FindAllString(read(t, file), -1) {
				t.Errorf("%s uses %s", file, found)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
