package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/local"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
)

// demoFlags are those of `demo`, as they were given.
type demoFlags struct {
	members, seed  int64
	amount         string
	faults, noSync bool
	dataGiven      bool
}

// demoReport is the one JSON object of `demo`.
type demoReport struct {
	Members  int64     `json:"members"`
	Eligible int64     `json:"eligible"` // ACTIVE, and joined before the scheduled time
	Period   string    `json:"period"`
	Amount   int64     `json:"amount"`
	Imported float64   `json:"importSeconds"`
	First    runReport `json:"first"`  // the firing
	Second   runReport `json:"second"` // the operator's first re-run
	Last     runReport `json:"last"`   // the operator's last re-run, which applied nothing; without faults it is the second
	Reruns   int       `json:"reruns"`

	Entries             int64   `json:"entries"` // applied
	BalanceSum          int64   `json:"balanceSum"`
	Deliveries          int64   `json:"deliveries"`
	DuplicateDeliveries int64   `json:"duplicateDeliveries"`
	WriteUnitsPerGrant  float64 `json:"writeUnitsPerGrant"`  // of the first run
	SQSRequestsPerGrant float64 `json:"sqsRequestsPerGrant"` // of the first run
	RerunCostRatio      float64 `json:"rerunCostRatio"`      // in money, last to first

	GrantsPerSecond         float64 `json:"grantsPerSecond"` // of the first run
	BareLoopGrantsPerSecond float64 `json:"bareLoopGrantsPerSecond"`

	Seed       *uint64     `json:"seed,omitempty"`
	Faults     *sim.Counts `json:"faults,omitempty"`
	Invariants any         `json:"invariants"` // "ok" or the list of broken ones
}

// maxReruns bounds the re-runs under faults: more than it ever took.
const maxReruns = 20

// maxBare bounds the postings of the bare loop.
const maxBare = 100_000

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Grant a month to made-up members and prove that each got it once",
		Long: `Writes a CSV file of made-up members, imports it into a fresh data file, and fires the latest month through the Scheduler's event. Then it fires the same event again, which does nothing,
and runs the month again as an operator, which finds that everybody has it. The exit code is 0 only if every invariant holds and every eligible member was granted exactly once.

With --faults workers are killed between any two store calls, answers are lost after the write happened, one in ten messages is duplicated or late, calls are throttled,
transactions conflict, and a part of one queue is lost. The month is then run again until a run applies nothing.`,
		Example: "  hanbeon demo --members 100000\n  hanbeon demo --members 20000 --faults --seed 7 --json",
		Args:    cobra.NoArgs,
	}
	c.RunE = a.does(func(ctx context.Context, _ []string) error {
		f.dataGiven = c.Flags().Changed("data")
		if f.faults && !c.Flags().Changed("seed") {
			f.seed = rand.Int64N(1_000_000)
		}
		if !f.faults && c.Flags().Changed("seed") {
			return misuse("--seed wants --faults")
		}
		return a.demo(ctx, f)
	})
	c.Flags().Int64Var(&f.members, "members", 10_000, "`number` of members")
	c.Flags().StringVar(&f.amount, "amount", "100", "`points` for each member")
	c.Flags().BoolVar(&f.faults, "faults", false, "kill, lose, duplicate, delay, throttle")
	c.Flags().Int64Var(&f.seed, "seed", 0, "`seed` of the faults (default: drawn and printed)")
	c.Flags().BoolVar(&f.noSync, "no-sync", false, "do not wait for the disk: faster, and a power cut may lose the file")
	return c
}

func (a *app) demo(ctx context.Context, f demoFlags) error {
	if f.members < 1 || f.members > maxSample {
		return misuse("--members %d: want a number from 1 to %s", f.members, comma(maxSample))
	}
	if f.seed < 0 {
		return misuse("--seed %d: want 0 or more", f.seed)
	}
	amount, err := monthlypoint.ParseAmount(f.amount)
	if err != nil {
		return misuse("--%w", err)
	}
	dir, err := os.MkdirTemp("", "hanbeon-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	if !f.dataGiven {
		a.data = filepath.Join(dir, "demo.db")
	} else if _, err := os.Stat(a.data); !errors.Is(err, fs.ErrNotExist) {
		return misuse("--data %s: a demo wants a fresh data file, and there is something: choose a new path", a.data)
	}
	s, err := openData(a.data, f.noSync)
	if err != nil {
		return err
	}
	defer s.Close()

	d := &demo{app: a, f: f, dir: dir, store: s, out: a.stdout, report: demoReport{Members: f.members, Amount: amount}}
	if a.json {
		d.out = io.Discard
	}
	if err := d.run(ctx); ctx.Err() != nil {
		return errors.New("demo: interrupted; its data file is gone unless --data was given")
	} else if err != nil {
		return err
	}
	r := d.report
	err = a.print(r, func(w io.Writer) { r.write(w) })
	if len(d.broken) > 0 {
		return errors.Join(err, fmt.Errorf("demo: %d invariants broken, the first: %s", len(d.broken), d.broken[0]))
	}
	return err
}

// demo is one demonstration.
type demo struct {
	app    *app
	f      demoFlags
	dir    string
	store  *bolt.Store
	out    io.Writer // of the steps
	report demoReport
	broken []string
}

// check remembers what is broken.
func (d *demo) check(holds bool, format string, args ...any) {
	if !holds {
		d.broken = append(d.broken, fmt.Sprintf(format, args...))
	}
}

func (d *demo) run(ctx context.Context) error {
	if err := d.importMembers(ctx); err != nil {
		return err
	}
	var faults *sim.Faults
	var on local.Faults
	if d.f.faults {
		faults = sim.New(d.faults())
		on = faults
	}
	e, err := d.app.start(ctx, d.store, on)
	if err != nil {
		return err
	}
	defer e.stop()
	if err := d.grant(ctx, e, faults); err != nil {
		return err
	}
	e.stop()
	if faults != nil {
		counts, seed := faults.Counts(), uint64(d.f.seed)
		d.report.Faults, d.report.Seed = &counts, &seed
	}
	found, err := d.app.audit(ctx, d.store, e.stack.Env().Now())
	if err != nil {
		return err
	}
	d.broken = append(d.broken, found.Violations...)
	d.judge(e.stack.Stats(), found.Entries, found.BalanceSum[monthlypoint.Balance])
	if err := d.app.bare(ctx, d); err != nil {
		return err
	}
	d.report.Invariants = invariants(d.broken)
	return nil
}

// importMembers writes the sample and imports it, as an operator would.
func (d *demo) importMembers(ctx context.Context) error {
	path := filepath.Join(d.dir, "members.csv")
	begun := time.Now()
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write members: %w", err)
	}
	if err := errors.Join(catalog.WriteSample(file, int(d.f.members), d.app.zone), file.Close()); err != nil {
		return fmt.Errorf("write members to %s: %w", path, err)
	}
	in, err := d.app.openSource(path)
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := d.app.importMembers(ctx, &target{store: d.store}, in)
	if err != nil {
		return err
	}
	d.check(r.Added == d.f.members, "the import stored %d of %d members", r.Added, d.f.members)
	d.report.Imported = time.Since(begun).Seconds()
	row(d.out, "members", "%s imported from CSV in %.2f s", comma(r.Added), d.report.Imported)
	return nil
}

// faults are all of them; the part of the queue that is lost is smaller where there are few members.
func (d *demo) faults() sim.Config {
	c := sim.All(uint64(d.f.seed), queue.Name(monthlypoint.Name))
	c.Drop.After = min(c.Drop.After, int(d.f.members/10))
	c.Drop.Count = min(c.Drop.Count, int(d.f.members/10))
	return c
}

// grant fires the latest month that is due, fires it again, and runs it again until a run applies nothing.
func (d *demo) grant(ctx context.Context, e *engine, faults *sim.Faults) error {
	due, err := d.app.latest(e)
	if err != nil {
		return err
	}
	d.report.Period = string(due.Period)
	d.report.Eligible = int64(catalog.Eligible(int(d.f.members), d.app.zone, due.Scheduled))
	row(d.out, "eligible", "%s are ACTIVE and joined before %s", comma(d.report.Eligible), due.Scheduled.In(d.app.zone).Format(time.RFC3339))
	event := json.RawMessage(fmt.Sprintf(`{"kind":%q,"scheduledTime":%q,"amount":%d}`, monthlypoint.Name, due.Scheduled.UTC().Format(time.RFC3339), d.report.Amount))

	if d.report.First, err = e.fire(ctx, due.Period, event); err != nil {
		return err
	}
	d.step("the Scheduler fires", d.report.First)
	if err := d.fireAgain(ctx, e, event); err != nil {
		return err
	}
	for d.report.Reruns < maxReruns {
		if d.report.Reruns == maxReruns/2 && faults != nil {
			faults.Stop()
		}
		r, err := e.run(ctx, api.StartMonthlyPoints{Period: string(due.Period), Amount: d.report.Amount})
		if err != nil {
			return err
		}
		if d.report.Reruns++; d.report.Reruns == 1 {
			d.report.Second = r
		}
		d.report.Last = r
		d.step("an operator runs it again", r)
		if r.State == job.Completed && r.Applied == 0 && r.Failed == 0 {
			return nil
		}
	}
	return nil
}

// latest is the latest month whose scheduled time has passed.
func (a *app) latest(e *engine) (job.Due, error) {
	now := e.stack.Env().Now()
	due := monthlypoint.New(nil, a.zone).Calendar("2000-01", now)
	if len(due) == 0 {
		return job.Due{}, fmt.Errorf("no month is due at %s: set the clock of this machine", now.Format(time.RFC3339))
	}
	return due[len(due)-1], nil
}

// fireAgain delivers the event once more: nothing may be written.
func (d *demo) fireAgain(ctx context.Context, e *engine, event json.RawMessage) error {
	before := e.spent()
	if err := e.stack.Fire(ctx, event); err != nil {
		return err
	}
	slots, err := e.jobs.Slots(ctx)
	if err != nil {
		return err
	}
	wrote := e.spent().Since(before).Write
	d.check(len(slots) == 0, "the same firing again opened job %v", slots)
	d.check(wrote == 0, "the same firing again cost %v write units", wrote)
	row(d.out, "fired again", "nothing happens: %s write units", comma(int64(wrote)))
	return nil
}

func (d *demo) step(what string, r runReport) {
	fmt.Fprintf(d.out, "\n%s\n", what)
	r.write(d.out)
	if r.Applied == 0 && r.Failed == 0 && r.Already > 0 {
		row(d.out, "", "everybody has it already")
	}
	fmt.Fprintln(d.out)
}

// judge compares what is in the file with what must be.
func (d *demo) judge(stats local.Stats, entries, balanceSum int64) {
	r := &d.report
	r.Entries, r.BalanceSum = entries, balanceSum
	r.Deliveries, r.DuplicateDeliveries = stats.Deliveries, stats.Duplicates
	r.WriteUnitsPerGrant = ratio(r.First.WriteUnits, float64(r.First.Applied))
	r.SQSRequestsPerGrant = ratio(float64(r.First.SQSRequests), float64(r.First.Applied))
	r.RerunCostRatio = ratio(r.Last.CostUSD, r.First.CostUSD)
	r.GrantsPerSecond = r.First.GrantsPerSecond

	d.check(entries == r.Eligible, "%d members were granted, but %d are eligible", entries, r.Eligible)
	d.check(balanceSum == r.Eligible*r.Amount, "the balances sum up to %d, want %d", balanceSum, r.Eligible*r.Amount)
	d.check(r.Last.Applied == 0, "run %d still applied %d", r.Reruns, r.Last.Applied)
	d.check(r.Last.State == job.Completed && r.Last.Failed == 0 && r.Last.Total == r.Eligible,
		"the last run is %s with a total of %d and %d failures, want %d members and none", r.Last.State, r.Last.Total, r.Last.Failed, r.Eligible)
	d.check(d.f.faults || r.First.Applied == r.Eligible, "the firing granted %d of %d members", r.First.Applied, r.Eligible)
}

// bare measures the bare loop beside a demo.
func (a *app) bare(ctx context.Context, d *demo) (err error) {
	p := a.progress("bare loop")
	defer p.end()
	n := min(d.report.Eligible, maxBare)
	d.report.BareLoopGrantsPerSecond, err = bareLoop(ctx, d.dir, d.f.noSync, d.report.Amount, n, a.zone, func(done int64) { p.set(done, n) })
	return err
}

func (r demoReport) write(w io.Writer) {
	row(w, "deliveries", "%s, %s of them duplicates", comma(r.Deliveries), comma(r.DuplicateDeliveries))
	if r.Faults != nil {
		c := r.Faults
		row(w, "faults", "seed %d: %s killed, %s calls failed, %s answers lost, %s throttled, %s conflicts; messages: %s duplicated, %s late, %s lost",
			*r.Seed, comma(c.Killed), comma(c.Failed), comma(c.Lost), comma(c.Throttled), comma(c.Conflicts), comma(c.Duplicated), comma(c.Delayed), comma(c.Dropped))
	}
	row(w, "per grant", "%.3f write units, %.3f SQS requests; a re-run costs %.1f %% of the first run", r.WriteUnitsPerGrant, r.SQSRequestsPerGrant, 100*r.RerunCostRatio)
	row(w, "speed", "%s grants/s, the bare store %s", comma(int64(r.GrantsPerSecond)), comma(int64(r.BareLoopGrantsPerSecond)))
	row(w, "balance sum", "%s = %s grants x %s points", comma(r.BalanceSum), comma(r.Entries), comma(r.Amount))
	if broken, ok := r.Invariants.([]string); ok {
		for _, b := range broken {
			row(w, "broken", "%s", b)
		}
		return
	}
	row(w, "invariants", "ok: every eligible member was granted exactly once")
}
