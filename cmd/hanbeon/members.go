package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/store"
)

func (a *app) membersCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "members",
		Short: "Import members from a CSV file, or write a sample of one",
		Args:  cobra.ArbitraryArgs,
		RunE:  wantsSubcommand,
	}
	c.AddCommand(a.importCommand(), a.sampleCommand())
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
			s, err := a.create()
			if err != nil {
				return err
			}
			defer s.Close()
			r, err := a.importFile(ctx, s, args[0])
			if err != nil {
				return err
			}
			err = a.print(r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %s added, %s changed, %s unchanged, %s bad\n", number(r.Rows, "row"), comma(r.Added), comma(r.Changed), comma(r.Unchanged), comma(r.Bad))
			})
			if err == nil && r.Bad > 0 {
				err = fmt.Errorf("%s of %s bad and not imported: correct them and import the file again, which changes nothing else", number(r.Bad, "row"), comma(r.Rows))
			}
			return err
		}),
	}
}

// importFile imports a CSV file, "-" is stdin, and shows progress and bad rows.
func (a *app) importFile(ctx context.Context, s store.Store, path string) (catalog.Report, error) {
	in, size := io.NopCloser(a.stdin), int64(0)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return catalog.Report{}, fmt.Errorf("import: %w", err)
		}
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		in = f
	}
	defer in.Close()
	counted := &counter{r: in}
	r, err := catalog.ReadMembers(counted, a.zone)
	if err != nil {
		return catalog.Report{}, fmt.Errorf("import %s: %w", path, err)
	}
	p := a.progress("importing " + path)
	defer p.end()
	show := func(rows int64) {
		if size > 0 { // the number of rows is not known: go by bytes
			p.set(counted.n, size)
		} else {
			p.set(rows, 0)
		}
	}
	report, err := catalog.Import(ctx, catalog.New(s), r, show, func(b catalog.BadRow) {
		a.note("%s line %d: %s", path, b.Line, oneLine(errors.New(b.Reason)))
	})
	if ctx.Err() != nil {
		return report, fmt.Errorf("import %s: interrupted after %s: import it again, what is stored stays as it is", path, number(report.Rows, "row"))
	}
	if err != nil {
		err = fmt.Errorf("import %s: %w", path, err)
	}
	return report, err
}

// counter counts the bytes that were read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
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
