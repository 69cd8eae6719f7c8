package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
)

func (a *app) membersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "members",
		Short: "Import members from a CSV file, or write a sample of one",
		Args:  cobra.ArbitraryArgs,
		RunE:  wantsSubcommand,
	}
	c.AddCommand(a.importCommand(), here(a.sampleCommand()))
	return c
}

func (a *app) importCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE.csv|-",
		Short: "Store the members of a CSV file; bad rows are reported by line, good ones are kept",
		Long: `Stores the members of a CSV file (- reads stdin). The first line names the columns id, status, joined and, if wanted, name. status is ACTIVE, INACTIVE or WITHDRAWN;
joined is an RFC 3339 time or a date, which begins in the business time zone.

A bad row is reported on stderr with its line and the reason, the good ones are kept, and the exit code is 1. Importing a file again changes nothing.`,
		Example: "  hanbeon members import members.csv\n  hanbeon members sample --count 1000 | hanbeon members import -",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			in, err := a.openSource(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			t, err := a.target(ctx, a.create)
			if err != nil {
				return err
			}
			defer t.close()
			r, err := a.importMembers(ctx, t, in)
			return a.finishImport(in, r, err, ctx.Err() != nil)
		}),
	}
}

// importMembers imports a CSV file, and shows progress and bad rows. Into a data file it goes without the API, which would judge each row by itself: a list of millions is stored as fast as the disk allows.
func (a *app) importMembers(ctx context.Context, t *target, in *source) (catalog.Report, error) {
	r, err := catalog.ReadMembers(in, a.zone)
	if err != nil {
		return catalog.Report{}, err
	}
	p := a.progress("importing " + in.path)
	defer p.end()
	show := func(rows int64) { in.show(p, rows) }
	bad := func(b catalog.BadRow) { a.note("%s line %d: %s", in.path, b.Line, oneLine(errors.New(b.Reason))) }
	if t.store != nil {
		return catalog.Import(ctx, catalog.New(t.store), r, show, bad)
	}
	i := items[api.Member]{put: t.PutMembers, name: func(m api.Member) string { return "id " + m.ID }, show: show, bad: bad}
	err = i.each(ctx, func() (int64, api.Member, string, error) {
		row, err := r.Next()
		m := row.Member
		return row.Line, api.Member{ID: m.ID, Status: string(m.Status), JoinedAt: m.JoinedAt.Format(time.RFC3339Nano), Name: m.Name}, row.Bad, err
	})
	return i.report, t.explain(err)
}

// maxSample bounds a sample: more is a mistake.
const maxSample = 10_000_000

func (a *app) sampleCommand() *cobra.Command {
	count := 0
	out := "-"
	c := &cobra.Command{
		Use:   "sample",
		Short: "Write a CSV file of made-up members",
		Long: `Writes made-up members to stdout, or to a new file: always the same for the same number. 97 in 100 are eligible. With --json, one JSON object per line instead of CSV,
which import does not read.`,
		Example: "  hanbeon members sample --count 1000 > members.csv",
		Args:    cobra.NoArgs,
		RunE: a.does(func(context.Context, []string) error {
			if count < 1 || count > maxSample {
				return misuse("--count %d: want a number from 1 to %s", count, comma(maxSample))
			}
			return a.writeSample(count, out)
		}),
	}
	c.Flags().IntVar(&count, "count", 0, "`number` of members")
	c.Flags().StringVarP(&out, "out", "o", "-", "new `file` to write; - is stdout")
	return c
}

func (a *app) writeSample(count int, out string) (err error) {
	w := a.stdout
	if out != "-" {
		f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write sample: %w: choose a new file", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	if !a.json {
		if err := catalog.WriteSample(w, count, a.zone); err != nil {
			return fmt.Errorf("write sample: %w", err)
		}
		return nil
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(catalog.WriteSample(pw, count, a.zone)) }()
	defer pr.Close() // ends the goroutine if we leave early
	r, err := catalog.ReadMembers(pr, a.zone)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	for e := json.NewEncoder(b); ; {
		row, err := r.Next()
		if err == io.EOF {
			return b.Flush()
		}
		if err != nil {
			return err
		}
		if err := e.Encode(row.Member); err != nil {
			return fmt.Errorf("write sample: %w", err)
		}
	}
}
