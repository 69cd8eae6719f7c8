// Package hanbeon holds the template of the stack, which the laptop runs as it is written: see pkg/local.
package hanbeon

import _ "embed"

// Template is template.yaml.
//
//go:embed template.yaml
var Template string
