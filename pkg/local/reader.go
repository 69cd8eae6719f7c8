package local

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// stackName is what AWS::StackName is on a laptop. Functions and queues go by their names without it.
const stackName = "hanbeon"

// pseudo are the pseudo parameters of CloudFormation on a laptop. AWS::NoValue is not among them: it removes what it stands for.
var pseudo = map[string]string{
	"AWS::StackName": stackName,
	"AWS::Region":    region,
	"AWS::AccountId": account,
	"AWS::Partition": "aws",
}

const (
	region  = "ap-northeast-2"
	account = "000000000000"
)

// reader evaluates the parts of a template that are asked for, and collects what is wrong with them. It knows !Ref, !Sub, !GetAtt, !If and !Equals; another function is an
// error where its value matters.
type reader struct {
	parameters map[string]string
	declared   map[string]bool // parameters of the template, with or without a value
	conditions *yaml.Node
	resources  *yaml.Node
	globals    *yaml.Node // of functions
	errs       []error
}

func newReader(text string, overrides map[string]string) (*reader, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("template: not a mapping")
	}
	r := &reader{parameters: map[string]string{}, declared: map[string]bool{}}
	r.conditions = r.at(doc.Content[0], "Conditions")
	r.resources = r.at(doc.Content[0], "Resources")
	r.globals = r.at(doc.Content[0], "Globals", "Function")
	for name, p := range pairs(r.at(doc.Content[0], "Parameters")) {
		r.declared[name] = true
		if def := r.at(p, "Default"); def != nil {
			r.parameters[name] = def.Value
		}
		if v, ok := overrides[name]; ok {
			r.parameters[name] = v
		}
	}
	for name := range overrides {
		if !r.declared[name] {
			return nil, fmt.Errorf("template: there is no parameter %q", name)
		}
	}
	return r, errors.Join(r.errs...)
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	line := 0
	if n != nil {
		line = n.Line
	}
	r.errs = append(r.errs, fmt.Errorf("template line %d: %w", line, fmt.Errorf(format, args...)))
}

// pairs ranges over a mapping in its order.
func pairs(n *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n == nil || n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// at is a value deep in mappings, after !If; nil if it is not there.
func (r *reader) at(n *yaml.Node, path ...string) *yaml.Node {
	n = r.reduce(n)
	for _, key := range path {
		var found *yaml.Node
		for k, v := range pairs(n) {
			if k == key {
				found = v
			}
		}
		n = r.reduce(found)
	}
	return n
}

// reduce follows aliases and !If to the value that counts; nil for AWS::NoValue.
func (r *reader) reduce(n *yaml.Node) *yaml.Node {
	for n != nil {
		switch {
		case n.Kind == yaml.AliasNode:
			n = n.Alias
		case n.Tag == "!If" && n.Kind == yaml.SequenceNode && len(n.Content) == 3:
			branch := 2
			if r.condition(n, n.Content[0].Value) {
				branch = 1
			}
			n = n.Content[branch]
		case n.Tag == "!Ref" && n.Value == "AWS::NoValue":
			return nil
		default:
			return n
		}
	}
	return nil
}

func (r *reader) condition(at *yaml.Node, name string) bool {
	c := r.at(r.conditions, name)
	if c == nil || c.Tag != "!Equals" || len(c.Content) != 2 {
		r.fail(at, "condition %q: want one made by !Equals", name)
		return false
	}
	return r.text(c.Content[0]) == r.text(c.Content[1])
}

// text is a scalar, a parameter or a text with parameters in it; "" if n is nil.
func (r *reader) text(n *yaml.Node) string {
	n = r.reduce(n)
	switch {
	case n == nil:
		return ""
	case n.Kind != yaml.ScalarNode:
		r.fail(n, "want a text")
		return ""
	case n.Tag == "!Ref":
		return r.lookup(n, n.Value)
	case n.Tag == "!Sub":
		return r.substitute(n)
	case strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!"):
		r.fail(n, "%s is not supported here", n.Tag)
		return ""
	}
	return n.Value
}

func (r *reader) substitute(n *yaml.Node) string {
	var b strings.Builder
	for rest := n.Value; ; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, end, closed := strings.Cut(after, "}")
		if !closed {
			r.fail(n, "!Sub: a ${ without }")
			return ""
		}
		b.WriteString(r.lookup(n, name))
		rest = end
	}
}

func (r *reader) lookup(n *yaml.Node, name string) string {
	if v, ok := pseudo[name]; ok {
		return v
	}
	v, ok := r.parameters[name]
	switch {
	case !ok && r.declared[name]:
		r.fail(n, "parameter %s has no default and was not given", name)
	case !ok:
		r.fail(n, "%s is not a parameter; what resources return is not known here", name)
	}
	return v
}

// number is an integer; def if n is nil.
func (r *reader) number(n *yaml.Node, def int) int {
	n = r.reduce(n)
	if n == nil {
		return def
	}
	s := r.text(n)
	v, err := strconv.Atoi(s)
	if err != nil || v < 0 {
		r.fail(n, "%q is not a whole number, 0 or more", s)
	}
	return v
}

func (r *reader) seconds(n *yaml.Node, def int) time.Duration {
	return time.Duration(r.number(n, def)) * time.Second
}

// resource is the logical id that a !Ref or !GetAtt points to.
func (r *reader) resource(n *yaml.Node) string {
	n = r.reduce(n)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag != "!Ref" && n.Tag != "!GetAtt" {
		r.fail(n, "want !Ref or !GetAtt of a resource")
		return ""
	}
	id, _, _ := strings.Cut(n.Value, ".")
	if r.at(r.resources, id) == nil {
		r.fail(n, "there is no resource %q", id)
	}
	return id
}

// name is the text without the name of the stack in front.
func (r *reader) name(n *yaml.Node) string {
	s := r.text(n)
	short, ok := strings.CutPrefix(s, stackName+"-")
	if !ok || short == "" {
		r.fail(n, "name %q: want ${AWS::StackName}- and a name", s)
	}
	return short
}

// only refuses keys that nobody here honours.
func (r *reader) only(n *yaml.Node, keys ...string) {
	for k, v := range pairs(r.reduce(n)) {
		known := false
		for _, key := range keys {
			known = known || k == key
		}
		if !known {
			r.fail(v, "%s is not honoured on a laptop: support it here, or leave it out of the template", k)
		}
	}
}
