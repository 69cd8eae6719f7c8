package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"strconv"
	"time"

	hanbeon "hanbeon"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/local"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// localFlags are those of `local`, as they were given.
type localFlags struct {
	fire          []string
	autoOpen      bool
	calendarStart string
	amount        string
	listen        string
	ai            aiFlags
}

func (a *app) localCommand() *cobra.Command {
	var f localFlags
	c := &cobra.Command{
		Use:   "local",
		Short: "Run the whole system in this process until it is interrupted",
		Long: `Runs the functions, queues and schedules of template.yaml in this process, on a data file, until SIGINT or SIGTERM. It starts by finishing what an earlier process left, however that
ended: nothing is lost by a kill -9 at any moment. Logs go to stderr as JSON; how to reach the API, what is scheduled next and jobs that end go to stdout.

The API listens on this machine only and wants signed requests, as on AWS: with the key that is printed at the start, made up anew each time and good for nothing else. Other commands
on the same data file find it by themselves, in a file beside the data file that is there for as long as this process works. Instead of an AI server a built-in stub is asked, unless --ai-url names one.`,
		Example: `  hanbeon local --calendar-start 2026-12
  hanbeon local --fire events/dispatcher.json
  hanbeon local --ai-url http://127.0.0.1:11434/v1 --ai-model llama3.2`,
		Args: cobra.NoArgs,
	}
	c.RunE = a.does(func(ctx context.Context, _ []string) error {
		parameters, err := f.parameters(c.Flags().Changed("auto-open"))
		if err != nil {
			return err
		}
		if err := f.ai.check(); err != nil {
			return err
		}
		events, err := a.readEvents(f.fire)
		if err != nil {
			return err
		}
		l, err := listenOn(f.listen)
		if err != nil {
			return err
		}
		defer l.Close()
		return a.local(ctx, l, f.ai, parameters, events)
	})
	c.Flags().StringVar(&f.listen, "listen", defaultListen, "`address` of the API on this machine; port 0 takes a free one")
	f.ai.add(c)
	c.Flags().StringArrayVar(&f.fire, "fire", nil, "deliver a Scheduler event from this `file` at start, - is stdin; may be repeated")
	c.Flags().BoolVar(&f.autoOpen, "auto-open", true, "open a month whose firing never came, from --calendar-start on")
	c.Flags().StringVar(&f.calendarStart, "calendar-start", "", "first `month` that is watched, such as 2026-12; none is watched without")
	c.Flags().StringVar(&f.amount, "amount", "", "`points` that the schedule grants each member each month (default 100)")
	return c
}

// defaultListen is where the API of a laptop is, unless something else is wanted.
const defaultListen = "127.0.0.1:8787"

// parameters are those of the template.
func (f localFlags) parameters(autoOpenGiven bool) (map[string]string, error) {
	p := map[string]string{"AutoOpen": strconv.FormatBool(f.autoOpen)}
	if f.calendarStart != "" {
		start, err := once.ParsePeriod(f.calendarStart)
		if err != nil || !start.IsMonth() {
			return nil, misuse("--calendar-start %.40q: want a month such as 2026-12", f.calendarStart)
		}
		p["CalendarStart"] = string(start)
	} else if autoOpenGiven && f.autoOpen {
		return nil, misuse("--auto-open wants --calendar-start: the first month that is watched, such as 2026-12")
	}
	if f.amount != "" {
		amount, err := monthlypoint.ParseAmount(f.amount)
		if err != nil {
			return nil, misuse("--%w", err)
		}
		p["MonthlyPointAmount"] = strconv.FormatInt(amount, 10)
	}
	return p, nil
}

// maxEvent is the most bytes of a Scheduler event (quota of an asynchronous invocation: 1 MB).
const maxEvent = 1 << 20

// readEvents reads the events before anything starts. What they say is the dispatcher's business.
func (a *app) readEvents(paths []string) ([]json.RawMessage, error) {
	var events []json.RawMessage
	for _, path := range paths {
		in := io.NopCloser(a.stdin)
		if path != "-" {
			f, err := os.Open(path)
			if err != nil {
				return nil, fmt.Errorf("--fire: %w", err)
			}
			in = f
		}
		event, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
		in.Close()
		switch {
		case err != nil:
			return nil, fmt.Errorf("--fire %s: %w", path, err)
		case len(event) > maxEvent:
			return nil, fmt.Errorf("--fire %s: more than %s bytes: want one Scheduler event", path, comma(maxEvent))
		case !json.Valid(event):
			return nil, fmt.Errorf(`--fire %s: not one JSON value: want a Scheduler event such as {"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`, path)
		}
		events = append(events, event)
	}
	return events, nil
}

func (a *app) local(ctx context.Context, l net.Listener, server aiFlags, parameters map[string]string, events []json.RawMessage) error {
	s, err := a.create()
	if err != nil {
		return err
	}
	defer s.Close()
	log := slog.New(slog.NewJSONHandler(a.stderr, nil))
	log.Info("target: laptop " + a.data + " (this process)")
	model, where, stopAI, err := server.open(log)
	if err != nil {
		return err
	}
	defer stopAI()
	stack, err := local.New(local.Config{
		Store: s, Template: hanbeon.Template, Parameters: parameters, Zone: a.zone, Log: log, Model: model,
		// There is no CloudWatch here. Metrics of every minute would bury the log.
		Metric: func(kind once.Kind, name string, value float64) {
			if value != 0 {
				log.Info("metric", "kind", kind, "name", name, "value", value)
			}
		},
	})
	if err != nil {
		return err
	}
	o := newObserver(a, s, stack, log)
	if err := o.begin(ctx); err != nil {
		return err
	}
	if err := stack.Recover(ctx); err != nil {
		log.Error("recovery incomplete: the reaper goes on with it", "error", err)
	}
	stop := stack.Start(ctx)
	defer stop() // a second time, below, does nothing
	front, err := a.serve(l, stack, where, log)
	if err != nil {
		return err
	}
	a.announce()
	fired := make(chan struct{})
	go func() {
		defer close(fired)
		for _, event := range events {
			// Its tries, and what becomes of it in the end, are those of an asynchronous invocation; the dispatcher has logged why it refused.
			if err := stack.Fire(ctx, event); err != nil && ctx.Err() == nil && !errors.Is(err, local.ErrStopped) {
				log.Error("the event was given up and lies in the queue of firing failures", "error", err)
			}
		}
	}()
	o.watch(ctx)
	front.stop()
	stop()
	<-fired
	// What ended while we were stopping.
	if err := o.look(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return a.print(map[string]string{"event": "stopped"}, func(w io.Writer) {
		fmt.Fprintln(w, "stopped; what is unfinished goes on with the next start")
	})
}

// announce prints what is scheduled next.
func (a *app) announce() {
	now := a.now()
	for _, k := range a.kinds(nil) {
		scheduled, ok := k.(job.Scheduled)
		if !ok {
			continue
		}
		for _, due := range scheduled.Calendar(once.MonthOf(now, a.zone), now.AddDate(0, 2, 0)) {
			if !due.Scheduled.After(now) {
				continue
			}
			at := due.Scheduled.In(a.zone).Format(time.RFC3339)
			a.print(map[string]any{"event": "scheduled", "kind": k.Kind(), "period": due.Period, "at": at}, func(w io.Writer) {
				fmt.Fprintf(w, "next: %s %s at %s (%s)\n", k.Kind(), due.Period, at, a.zone)
			})
			break
		}
	}
}

// observer prints jobs that end, and logs how far the others have come.
type observer struct {
	app     *app
	service api.Service
	jobs    *job.Store
	kinds   []job.Kind
	log     *slog.Logger
	over    map[string]bool  // jobs that are over and were told, or had been when we began
	active  map[string]bool  // jobs seen at work
	tenths  map[string]int64 // of progress, told last
}

func newObserver(a *app, s store.Store, stack *local.Stack, log *slog.Logger) *observer {
	return &observer{
		app: a, service: api.NewService(stack.Env(), a.zone), jobs: a.jobsOn(s), kinds: a.kinds(s), log: log,
		over: map[string]bool{}, active: map[string]bool{}, tenths: map[string]int64{},
	}
}

// recent is how many of the newest jobs of a kind are looked at: one that is over before it was seen at work is among them.
const recent = 20

// begin remembers which jobs are over, and tells of those that are not.
func (o *observer) begin(ctx context.Context) error {
	return o.each(ctx, func(j job.Job) error {
		if !j.State.Active() {
			o.over[j.ID] = true
			return nil
		}
		o.log.Info("job left unfinished by an earlier process: going on with it", "kind", j.Kind, "job", j.ID, "state", j.State)
		return nil
	})
}

// watch looks now and then until ctx ends.
func (o *observer) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := o.look(ctx); err != nil && ctx.Err() == nil {
			o.log.Error("progress not known", "error", err)
		}
	}
}

func (o *observer) look(ctx context.Context) error {
	over := map[string]bool{} // of those looked at: what is not among the newest any more never will be again
	err := o.each(ctx, func(j job.Job) error {
		if j.State.Active() {
			return o.progress(ctx, j)
		}
		over[j.ID] = true
		if o.over[j.ID] {
			return nil
		}
		delete(o.active, j.ID)
		delete(o.tenths, j.ID)
		v, err := o.service.Job(ctx, j.ID, "")
		if err != nil {
			return err
		}
		return o.app.print(struct {
			Event string `json:"event"`
			api.Job
		}{"job", v.Job}, func(w io.Writer) {
			if single(v.Job) {
				fmt.Fprintf(w, "job %s %s %s\n", v.Job.ID, v.Job.State, v.Job.Reason)
				return
			}
			fmt.Fprintf(w, "job %s %s: %s applied, %s already, %s failed\n", v.Job.ID, v.Job.State, comma(v.Job.Applied), comma(v.Job.Already), comma(v.Job.Failed))
		})
	})
	if err != nil { // it has not looked at all of them
		maps.Copy(over, o.over)
	}
	o.over = over
	return err
}

// each calls f once for every job that is active, was seen active, or is among the newest of this month.
func (o *observer) each(ctx context.Context, f func(job.Job) error) error {
	held, err := o.jobs.Slots(ctx)
	if err != nil {
		return err
	}
	for _, s := range held {
		o.active[s.Job] = true
	}
	seen := map[string]bool{}
	for id := range o.active {
		j, err := o.jobs.Find(ctx, id)
		if errors.Is(err, job.ErrNoSuchJob) {
			continue // the reaper frees such a slot, and says so
		}
		if err != nil {
			return err
		}
		seen[id] = true
		if err := f(j); err != nil {
			return err
		}
	}
	for _, k := range o.kinds {
		jobs, _, err := o.jobs.List(ctx, k.Kind(), o.app.clock(), recent, "")
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if seen[j.ID] {
				continue
			}
			if err := f(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// progress logs every 10 % of a job.
func (o *observer) progress(ctx context.Context, j job.Job) error {
	total := knownTotal(j)
	if total == 0 {
		return nil
	}
	t, err := o.jobs.TallyOf(ctx, j)
	if err != nil {
		return err
	}
	if tenths := 10 * t.Settled() / total; tenths > o.tenths[j.ID] {
		o.tenths[j.ID] = tenths
		o.log.Info("progress", "kind", j.Kind, "job", j.ID, "settled", t.Settled(), "total", total)
	}
	return nil
}
