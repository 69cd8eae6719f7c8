package main

import (
	"context"
	"errors"
	"io"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/local"
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
	OneLine  = oneLine
	Comma    = comma
	Cost     = cost
	BareLoop = bareLoop
)

// Explain is the one line that a command makes of an error of a target, and whether it is misuse.
func Explain(deployed bool, err error) (text string, misuse bool) {
	out := (&target{where: "https://api.example", deployed: deployed}).explain(err)
	var m misuseError
	return oneLine(out), errors.As(out, &m)
}

// Follow follows a job of a service.
func Follow(ctx context.Context, s api.Service, stderr io.Writer, id string) (api.Job, error) {
	return (&app{stderr: stderr, now: time.Now}).follow(ctx, &target{Service: s, where: "https://api.example"}, id)
}

// Row is a row of a file of notes.
type Row struct {
	Line int64
	Note api.Note
	Bad  string
}

// ImportRows imports rows through a put.
func ImportRows(ctx context.Context, rows []Row, put func(context.Context, []api.Note) ([]api.PutResult, error)) (catalog.Report, error) {
	i := items[api.Note]{put: put, name: func(n api.Note) string { return n.ID }, show: func(int64) {}, bad: func(catalog.BadRow) {}}
	err := i.each(ctx, func() (int64, api.Note, string, error) {
		if len(rows) == 0 {
			return 0, api.Note{}, "", io.EOF
		}
		row := rows[0]
		rows = rows[1:]
		return row.Line, row.Note, row.Bad, nil
	})
	return i.report, err
}

// SaveConnection writes the connection of a made-up key.
func SaveConnection(data, endpoint string) error {
	return newConnection(endpoint, local.NewKey()).save(data)
}

// Endpoint reads an address: whether it is on this machine, and the region in it.
func Endpoint(address string) (laptop bool, region string, err error) {
	e, err := parseEndpoint(address)
	if err != nil {
		return false, "", err
	}
	if m := executeAPI.FindStringSubmatch(e.url.Hostname()); m != nil {
		region = m[1]
	}
	return e.laptop, region, nil
}

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
