package main

import (
	"context"
	"io"
	"time"

	"hanbeon/pkg/store"
)

// Main is the command.
var Main = main

// Run is the command at a time of our choice.
func Run(ctx context.Context, now time.Time, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr, now: func() time.Time { return now }}).run(ctx, args)
}

// Seams.
var (
	OneLine    = oneLine
	Comma      = comma
	Cost       = cost
	ExplainRun = explainRun
	BareLoop   = bareLoop
)

// NewAside is a store for looks, and what they cost.
func NewAside(s store.Store) (store.Store, func() store.Units) {
	a := &aside{Store: s}
	return a, a.looks.Spent
}

// Progress shows how far something has come.
func Progress(out io.Writer, now func() time.Time, terminal bool, what string) (set func(done, total int64), end func()) {
	p := newProgress(out, now, terminal, what)
	return p.set, p.end
}
