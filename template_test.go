package hanbeon_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The rules of the house for the template are in rules_test.go, doors_test.go and alarms_test.go. They are checked on what AWS SAM makes of template.yaml, which is what is deployed: a property that SAM
// spells otherwise, drops or adds to is seen as CloudFormation will see it.

var allRules = slices.Concat(rules, doorRules, alarmRules)

func TestTemplate(t *testing.T) {
	t.Parallel()
	tpl := transformed(t)
	for _, r := range allRules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			for _, broken := range r.check(tpl) {
				t.Errorf("%s\n\twhy: %s", broken, r.why)
			}
		})
	}
}

// Every rule is shown to fail: what it does not notice, it does not hold.
func TestTemplateRulesNoticeWhatTheyForbid(t *testing.T) {
	t.Parallel()
	tpl := transformed(t)
	shown := map[string]bool{}
	for _, m := range slices.Concat(mutations, doorMutations, alarmMutations) {
		shown[m.rule] = true
		t.Run(m.rule+"/"+m.name, func(t *testing.T) {
			t.Parallel()
			changed := tpl.clone(t)
			for path, value := range m.edits {
				changed.set(t, path, value)
			}
			if broken := ruleNamed(t, m.rule).check(changed); len(broken) == 0 {
				t.Errorf("rule %q accepts: %s", m.rule, m.name)
			}
		})
	}
	for _, r := range allRules {
		if !shown[r.name] {
			t.Errorf("rule %q has no mutation that shows it failing", r.name)
		}
	}
}

func ruleNamed(t *testing.T, name string) rule {
	t.Helper()
	for _, r := range allRules {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("no rule %q", name)
	return rule{}
}

// template is the transformed template as JSON.
type template map[string]any

func (tpl template) clone(t *testing.T) template {
	t.Helper()
	b, err := json.Marshal(tpl)
	if err != nil {
		t.Fatal(err)
	}
	var out template
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// removed is the value of an edit that takes something away.
type removed struct{}

// set changes what is at a path such as `JobsTable.Properties.BillingMode`, beneath Resources unless it begins with a slash.
// A last part that is not there yet is added; any other part must be there, so that a mutation cannot miss.
func (tpl template) set(t *testing.T, path string, value any) {
	t.Helper()
	root, rest := tpl["Resources"], path
	if strings.HasPrefix(path, "/") {
		root, rest = map[string]any(tpl), path[1:]
	}
	parts := strings.Split(rest, ".")
	parent, last := dig(root, parts[:len(parts)-1]...), parts[len(parts)-1]
	switch p := parent.(type) {
	case map[string]any:
		if _, gone := value.(removed); gone {
			if _, ok := p[last]; !ok {
				t.Fatalf("nothing to remove at %s", path)
			}
			delete(p, last)
			return
		}
		p[last] = value
	case []any:
		n, err := strconv.Atoi(last)
		if err != nil || n >= len(p) {
			t.Fatalf("no element %s", path)
		}
		p[n] = value
	default:
		t.Fatalf("nothing at %s", path)
	}
}

// dig follows keys of maps and indexes of lists; nil if something on the way is missing.
func dig(v any, path ...string) any {
	for _, part := range path {
		switch x := v.(type) {
		case map[string]any:
			v = x[part]
		case []any:
			n, err := strconv.Atoi(part)
			if err != nil || n < 0 || n >= len(x) {
				return nil
			}
			v = x[n]
		default:
			return nil
		}
	}
	return v
}

// transformed is what SAM's translator makes of template.yaml, offline. It is made once; a test that changes it clones it.
func transformed(t *testing.T) template {
	t.Helper()
	if _, err := exec.LookPath(python()); err != nil {
		missing(t, "no Python with aws-sam-cli: `make tools` installs one, or HANBEON_PYTHON names one: %v", err)
	}
	out, err := transformOnce()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var transformOnce = sync.OnceValues(func() (template, error) { return transform("template.yaml") })

func transform(file string) (template, error) {
	cmd := exec.Command(python(), filepath.Join("testdata", "transform.py"), file)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("testdata/transform.py: %w", err)
	}
	var tpl template
	return tpl, json.Unmarshal(b, &tpl)
}

func python() string {
	if path := os.Getenv("HANBEON_PYTHON"); path != "" {
		return path
	}
	return filepath.Join(".tools", "venv", "bin", "python")
}

// missing skips a test for want of a tool, or fails it where HANBEON_REQUIRE_TOOLS is 1, as in CI: there nothing may be skipped.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("HANBEON_REQUIRE_TOOLS") == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}
