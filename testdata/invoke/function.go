package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"hanbeon"
)

// function is what the emulator is told of a function of template.yaml.
type function struct {
	name      string
	timeout   int             // seconds
	memory    int             // MB
	variables map[string]bool // declared, of its own or of all functions
}

func functionOf(name string) (function, error) {
	type properties struct {
		FunctionName string `yaml:"FunctionName"`
		Timeout      int    `yaml:"Timeout"`
		MemorySize   int    `yaml:"MemorySize"`
		Environment  struct {
			Variables map[string]yaml.Node `yaml:"Variables"`
		} `yaml:"Environment"`
	}
	var t struct {
		Globals struct {
			Function properties `yaml:"Function"`
		} `yaml:"Globals"`
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(hanbeon.Template), &t); err != nil {
		return function{}, fmt.Errorf("template.yaml: %w", err)
	}
	var names []string
	for id, r := range t.Resources {
		if r.Type != "AWS::Serverless::Function" {
			continue
		}
		var p properties
		if err := r.Properties.Decode(&p); err != nil {
			return function{}, fmt.Errorf("template.yaml, %s: %w", id, err)
		}
		own := strings.TrimPrefix(p.FunctionName, "${AWS::StackName}-")
		names = append(names, own)
		if own != name {
			continue
		}
		f := function{name: name, timeout: p.Timeout, memory: p.MemorySize, variables: map[string]bool{}}
		for _, vars := range []map[string]yaml.Node{t.Globals.Function.Environment.Variables, p.Environment.Variables} {
			for v := range vars {
				f.variables[v] = true
			}
		}
		return f, nil
	}
	return function{}, fmt.Errorf("template.yaml has no function %q, only %v", name, names)
}

// values reads events/env.json, the environment that `sam local invoke --env-vars` gives to all functions. As there, a function gets of it what the template declares.
func values() (map[string]string, error) {
	b, err := os.ReadFile("events/env.json")
	if err != nil {
		return nil, err
	}
	var file struct{ Parameters map[string]string }
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("events/env.json: %w", err)
	}
	return file.Parameters, nil
}

// environment is that of a function's process, and nothing of ours.
func (w *world) environment(f function) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local",
		"AWS_LAMBDA_FUNCTION_NAME=" + f.name, "AWS_LAMBDA_FUNCTION_TIMEOUT=" + strconv.Itoa(f.timeout), "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(f.memory),
	}
	for name, v := range w.values {
		if f.variables[name] {
			env = append(env, name+"="+strings.ReplaceAll(v, documented, w.address))
		}
	}
	return env
}
