package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
)

func (a *app) runCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "run KIND",
		Short: "Run a period, again or for the first time: only what is missing is done",
		Args:  cobra.ArbitraryArgs,
		RunE:  wantsSubcommand,

		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true}, // an unknown kind is the mistake to name, not its flags
	}
	c.AddCommand(a.runMonthlyPointCommand())
	return c
}

// lastMonth is what --period takes besides a month.
const lastMonth = "last-month"

// runFlags are those of `run monthly-point`, as they were given.
type runFlags struct {
	period, amount            string
	allowFuture, changeAmount bool
}

func (a *app) runMonthlyPointCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   string(monthlypoint.Name),
		Short: "Grant the points of a month to every active member",
		Long: `Grants the points of a month to every active member who joined before the scheduled time of the month, once for ever: members who were granted already, by a schedule or an
earlier run, are left alone.

On a data file it works in this process to the end, then prints what was done and what it would cost on AWS, and audits the file; a job that an earlier process left unfinished is
finished first. Behind an API it follows the job until it is over; interrupting it leaves the job alone.`,
		Example: "  hanbeon run monthly-point --period 2024-04 --amount 100",
		Args:    cobra.NoArgs,
		RunE:    a.does(func(ctx context.Context, _ []string) error { return a.runMonthlyPoint(ctx, f) }),
	}
	c.Flags().StringVar(&f.period, "period", "", "`month` such as 2024-04, or "+lastMonth+" (required)")
	c.Flags().StringVar(&f.amount, "amount", "", "`points` for each member (required)")
	c.Flags().BoolVar(&f.allowFuture, "allow-future", false, "allow a month whose scheduled time has not come")
	c.Flags().BoolVar(&f.changeAmount, "change-amount", false, "allow another amount than the month was opened with before; members granted with that become failures")
	return c
}

// parse refuses what is wrong before anything is opened.
func (a *app) parse(f runFlags) (api.StartMonthlyPoints, error) {
	none := api.StartMonthlyPoints{}
	if f.period == "" {
		return none, misuse("--period is missing or empty: want a month such as 2024-04")
	}
	period := once.MonthOf(a.now(), a.zone).Previous()
	if f.period != lastMonth {
		var err error
		if period, err = once.ParsePeriod(f.period); err != nil || !period.IsMonth() {
			return none, misuse("--period %.40q: want a real month such as 2024-04", f.period)
		}
	}
	if f.amount == "" {
		return none, misuse("--amount is missing or empty: want points for each member, such as 100")
	}
	amount, err := monthlypoint.ParseAmount(f.amount)
	if err != nil {
		return none, misuse("--%w", err)
	}
	due, ok := dispatch.DueOf(monthlypoint.New(nil, a.zone), period)
	if !ok {
		return none, misuse("--period %s: too far in the future", period)
	}
	if at := due.Scheduled; a.endpoint == nil && at.After(a.now()) && !f.allowFuture {
		return none, misuse("%w: wait, or allow it by --allow-future", &dispatch.FutureError{Period: period, Scheduled: at.In(a.zone)})
	}
	return api.StartMonthlyPoints{Period: string(period), Amount: amount, AllowFuture: f.allowFuture, ChangeAmount: f.changeAmount}, nil
}

// closeReport is what `run` prints: the job, and how the whole data file stands.
type closeReport struct {
	runReport
	BalanceSum int64 `json:"balanceSum"`
	EntrySum   int64 `json:"entrySum"`
	Entries    int64 `json:"entries"`
	Invariants any   `json:"invariants"` // "ok" or the list of broken ones
}

func (a *app) runMonthlyPoint(ctx context.Context, f runFlags) error {
	r, err := a.parse(f)
	if err != nil {
		return err
	}
	t, err := a.target(ctx, a.open)
	if err != nil {
		return err
	}
	defer t.close()
	if t.store == nil {
		accepted, err := t.StartMonthlyPoints(ctx, r)
		if err != nil {
			return t.explain(err)
		}
		return a.finish(ctx, t, accepted.ID)
	}
	e, err := a.start(ctx, t.store, nil)
	if err != nil {
		return err
	}
	defer e.stop()
	done, err := e.run(ctx, r)
	if err != nil {
		return t.explain(err)
	}
	e.stop()
	found, err := a.audit(ctx, t.store, e.stack.Env().Now())
	if err != nil {
		return err
	}
	report := closeReport{done, found.BalanceSum[monthlypoint.Balance], found.EntrySum[monthlypoint.Balance], found.Entries, invariants(found.Violations)}
	err = a.print(report, func(w io.Writer) {
		done.write(w)
		writeSums(w, found)
	})
	return errors.Join(err, unfinished(done), broken(a.data, found.Violations))
}

// unfinished is the error of a job that did not settle every subject well, nil otherwise.
func unfinished(r runReport) error {
	switch {
	case r.State != job.Completed:
		return fmt.Errorf("job %s is %s %s: run it again, which only does what is missing", r.Job, r.State, r.Reason)
	case r.Failed > 0:
		return fmt.Errorf("%s of job %s failed (%s): remove the cause and run it again, which only does what is missing", number(r.Failed, "member"), r.Job, byReason(r.FailedByReason))
	}
	return nil
}

// invariants is "ok" or the list of broken ones.
func invariants(violations []string) any {
	if len(violations) == 0 {
		return "ok"
	}
	return violations
}
