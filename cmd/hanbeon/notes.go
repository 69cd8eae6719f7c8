package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
)

func (a *app) notesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "notes",
		Short: "Import what members wrote down on a day",
		Args:  cobra.ArbitraryArgs,
		RunE:  wantsSubcommand,
	}
	c.AddCommand(a.importNotesCommand())
	return c
}

func (a *app) importNotesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE.jsonl|-",
		Short: "Store the notes of a JSONL file; bad rows are reported by line, good ones are kept",
		Long: `Stores the notes of a file with one JSON object per line (- reads stdin), each with the texts id, memberId, date (a day in the business time zone) and text:

  {"id":"note-1","memberId":"member-000042","date":"2026-12-01","text":"Read about conditional writes."}

An id belongs to its member and day; the same id again changes the note. A bad row is reported on stderr with its line and the reason, the good ones are kept, and the exit code is 1.
Importing a file again changes nothing.`,
		Example: "  hanbeon notes import notes.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: a.does(func(ctx context.Context, args []string) error {
			in, err := a.openSource(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			t, err := a.target(ctx, a.open)
			if err != nil {
				return err
			}
			defer t.close()
			r, err := a.importNotes(ctx, t, in)
			return a.finishImport(in, r, err, ctx.Err() != nil)
		}),
	}
}

// importNotes imports a JSONL file, and shows progress and bad rows. It judges by the rules of the API on a data file too: no note of a day to come, or of an unknown member.
func (a *app) importNotes(ctx context.Context, t *target, in *source) (catalog.Report, error) {
	r := catalog.ReadNotes(in, a.clock())
	p := a.progress("importing " + in.path)
	defer p.end()
	i := items[api.Note]{
		put:   t.PutNotes,
		name:  func(n api.Note) string { return "id " + n.ID },
		scope: func(n api.Note) string { return n.MemberID + " " + n.Date }, // the same id of another member or day is another note
		show:  func(rows int64) { in.show(p, rows) },
		bad:   func(b catalog.BadRow) { a.note("%s line %d: %s", in.path, b.Line, oneLine(errors.New(b.Reason))) },
	}
	err := i.each(ctx, func() (int64, api.Note, string, error) {
		row, err := r.Next()
		n := row.Note
		return row.Line, api.Note{ID: n.ID, MemberID: n.Member, Date: string(n.Date), Text: n.Text}, row.Bad, err
	})
	return i.report, t.explain(err)
}
