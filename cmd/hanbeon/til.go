package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/once"
)

func (a *app) tilCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "til",
		Short: "Ask for the summary of a member's day (today I learned), or show it",
		Args:  cobra.ArbitraryArgs,
		RunE:  wantsSubcommand,
	}
	c.AddCommand(a.tilRequestCommand(), a.tilShowCommand())
	return c
}

func (a *app) tilRequestCommand() *cobra.Command {
	wait, key := false, ""
	c := &cobra.Command{
		Use:   "request MEMBER DATE",
		Short: "Have the notes of a member's day summarised by the AI server",
		Long: `Opens a job that reads the notes of a member's day, has the AI server summarise them, and publishes title, text and keywords in the transaction that completes it.
DATE is a day in the business time zone, not after today. While a job is active for the same member and day the answer is that job, and the exit code 1. Asked again after that, a new
summary replaces the old.

Behind an API the command ends when the job is open, or with --wait when it is over. On a data file that no other process has, it works in this process to the end, with the built-in
stub of an AI server.`,
		Example: "  hanbeon til request member-000042 2026-12-01 --wait",
		Args:    cobra.ExactArgs(2),
	}
	c.RunE = a.does(func(ctx context.Context, args []string) error {
		r, err := parseTIL(args)
		if err != nil {
			return err
		}
		if c.Flags().Changed("idempotency-key") && key == "" {
			return misuse("--idempotency-key is empty")
		}
		r.IdempotencyKey = key
		return a.requestTIL(ctx, r, wait)
	})
	c.Flags().BoolVar(&wait, "wait", false, "follow the job until it is over")
	c.Flags().StringVar(&key, "idempotency-key", "", "`key` of this request: the same again within 24 hours gets the answer of the first time")
	return c
}

func (a *app) tilShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show MEMBER DATE",
		Short:   "Show the published summary of a member's day",
		Example: "  hanbeon til show member-000042 2026-12-01",
		Args:    cobra.ExactArgs(2),
		RunE: a.does(func(ctx context.Context, args []string) error {
			r, err := parseTIL(args)
			if err != nil {
				return err
			}
			t, err := a.target(ctx, a.open)
			if err != nil {
				return err
			}
			defer t.close()
			til, err := t.TIL(ctx, r.MemberID, r.Date)
			if notFound(err) {
				return fmt.Errorf("no summary of %s on %s is published: ask for it: hanbeon til request %s %s", r.MemberID, r.Date, r.MemberID, r.Date)
			}
			if err != nil {
				return t.explain(err)
			}
			return a.print(til, func(w io.Writer) { writeTIL(w, til, a.zone) })
		}),
	}
}

// parseTIL refuses what is wrong before anything is opened.
func parseTIL(args []string) (api.RequestTIL, error) {
	if err := once.CheckSubject(args[0]); err != nil {
		return api.RequestTIL{}, misuse("MEMBER: %w", err)
	}
	if day, err := once.ParsePeriod(args[1]); err != nil || day.IsMonth() {
		return api.RequestTIL{}, misuse("DATE %.40q: want a real day such as 2026-12-01", args[1])
	}
	return api.RequestTIL{MemberID: args[0], Date: args[1]}, nil
}

func (a *app) requestTIL(ctx context.Context, r api.RequestTIL, wait bool) error {
	t, err := a.target(ctx, a.open)
	if err != nil {
		return err
	}
	defer t.close()
	if t.store != nil {
		e, err := a.start(ctx, t.store, nil)
		if err != nil {
			return err
		}
		defer e.stop()
		return e.finish(ctx, t, func(s api.Service) (api.Accepted, error) { return s.RequestTIL(ctx, r) })
	}
	accepted, err := t.RequestTIL(ctx, r)
	if err != nil {
		return t.explain(err)
	}
	if wait {
		return a.finish(ctx, t, accepted.ID)
	}
	return a.print(accepted, func(w io.Writer) { writeAccepted(w, accepted) })
}

// writeAccepted says which job was opened. Its state is that of then: a repeated request may get a job that is over.
func writeAccepted(w io.Writer, j api.Accepted) {
	fmt.Fprintf(w, "job %s is open for %s: hanbeon watch %s follows it\n", j.ID, strings.TrimPrefix(j.Slot, j.Kind+":"), j.ID)
}

func writeTIL(w io.Writer, t api.TIL, zone *time.Location) {
	row(w, "member", "%s", t.MemberID)
	row(w, "date", "%s, revision %d", t.Date, t.Revision)
	row(w, "published", "%s by job %s", t.UpdatedAt.In(zone).Format(time.RFC3339), t.Job)
	row(w, "title", "%s", visible(t.Title))
	row(w, "keywords", "%s", visible(strings.Join(t.Keywords, ", ")))
	fmt.Fprintln(w)
	for line := range strings.Lines(t.Text) {
		fmt.Fprintln(w, visible(strings.TrimRight(line, "\r\n")))
	}
}
