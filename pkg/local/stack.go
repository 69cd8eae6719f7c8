package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"

	_ "time/tzdata" // the business zone must exist on every machine
)

// Config says what to run.
type Config struct {
	Store      store.Store       // required
	Template   string            // text of template.yaml
	Parameters map[string]string // of the template, over its defaults: MonthlyPointAmount, CalendarStart, BusinessZone, ...

	// Zone, if not nil, is the parameter BusinessZone.
	Zone *time.Location

	// Model is what the til worker asks for summaries. Without one every attempt of a til job fails, for a reason that passes.
	Model til.Model

	// Calendar, if its Start is set, is used instead of the one that the template's parameters give the reaper.
	Calendar job.Calendar

	// Skip makes a clock that jumps: while somebody waits in Until or Fire, nothing runs and nothing is visible, it goes on at once to the moment at which something happens
	// next, so that a visibility timeout of minutes costs nothing. Schedules by calendar then never fire, those by rate (the reaper) do.
	Skip  bool
	Start time.Time // what the clock says at first, with Skip; zero: the wall's time

	Log    *slog.Logger                                     // nil: nothing is logged
	Metric func(kind once.Kind, name string, value float64) // nil: metrics are dropped
	Faults Faults                                           // nil: none
}

// Faults are what a test or a demonstration does to handlers and messages. hanbeon/pkg/sim has them.
type Faults interface {
	// Store and Queue wrap what handlers see.
	Store(inner store.Store) store.Store
	Queue(inner queue.Queue) queue.Queue

	// Invocation begins one invocation; end tells whether it was killed, and then its answer never arrives.
	Invocation(ctx context.Context) (alive context.Context, end func() (killed bool))

	// Arrival tells how many copies of a message that a queue accepted are delivered, 0 and up, and how late the last of them.
	Arrival(to queue.Name) (copies int, delay time.Duration)
}

// Stack is the whole system in one process. It does nothing until Run or Start; the queues accept messages before. Safe for concurrent use.
type Stack struct {
	clock    *clock
	zone     *time.Location
	log      *slog.Logger
	faults   Faults
	skips    bool
	env      job.Env // without faults
	recover  func(ctx context.Context) error
	handlers map[string]lambda.Handler

	functions []*function

	mu      sync.Mutex
	lines   map[queue.Name]*line
	sources []*source
	timers  []*timer
	async   []*asyncEvent // waiting for their first or next try
	running int           // invocations
	started bool          // Run has begun and not ended
	ending  bool          // Run waits for the last invocations: no more begin
	over    bool          // Run has ended
	quiet   bool          // nothing runs and nothing can begin before `next`
	changed chan struct{} // closed when quiet or over changes
	next    time.Time     // zero: never
	worked  time.Time     // when a message was last delivered
	numbers uint64

	wake chan struct{}
	wg   sync.WaitGroup
}

// New makes a stack. A function of the template without a handler here, a handler without a function, and whatever of the template is not honoured are errors.
func New(c Config) (*Stack, error) { return newStack(c, handlers, recovery) }

func newStack(c Config, handlersOf func(wiring) map[string]lambda.Handler, recoveryOf func(wiring) func(context.Context) error) (*Stack, error) {
	parameters := map[string]string{}
	for k, v := range c.Parameters {
		parameters[k] = v
	}
	if c.Zone != nil {
		parameters["BusinessZone"] = c.Zone.String()
	}
	p, err := readPlan(c.Template, parameters)
	if err != nil {
		return nil, err
	}
	if c.Store == nil {
		return nil, errors.New("local: a store is required")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metric == nil {
		c.Metric = func(once.Kind, string, float64) {}
	}
	if c.Calendar.Start != "" {
		p.calendar = c.Calendar
	}
	s := &Stack{
		clock: newClock(c.Skip, c.Start), log: c.Log, faults: c.Faults, skips: c.Skip,
		lines: map[queue.Name]*line{}, changed: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if s.zone, err = time.LoadLocation(p.zone); err != nil {
		return nil, fmt.Errorf("template: business zone: %w", err)
	}
	s.env = job.Env{Store: c.Store, Queue: port{s}, Now: s.clock.Now, Log: c.Log, Metric: c.Metric}
	faulty := s.env
	if c.Faults != nil {
		faulty.Store, faulty.Queue = c.Faults.Store(faulty.Store), c.Faults.Queue(faulty.Queue)
	}
	s.handlers = handlersOf(wiring{Env: faulty, Zone: s.zone, Calendar: p.calendar, Model: c.Model})
	s.recover = recoveryOf(wiring{Env: s.env, Zone: s.zone, Calendar: p.calendar})
	if err := p.checkHandlers(s.handlers); err != nil {
		return nil, err
	}
	s.build(p)
	return s, nil
}

// build makes queues, pollers and timers of a plan.
func (s *Stack) build(p *plan) {
	for name, spec := range p.queues {
		s.lines[name] = newLine(spec, &s.numbers)
	}
	for _, l := range s.lines {
		l.dead = s.lines[l.spec.deadLetters]
	}
	now := s.clock.Now()
	s.worked, s.functions = now, p.functions
	for _, f := range p.functions {
		for _, m := range f.mappings {
			s.sources = append(s.sources, newSource(f, m, s.lines[m.queue]))
		}
		for _, sch := range f.schedules {
			if at, ok := sch.timetable.next(now); ok && (sch.recurring || !s.skips) {
				s.timers = append(s.timers, &timer{function: f, schedule: sch, at: at})
			}
		}
	}
}

// Env is the world as operators' commands see it: the store, the queues and the clock of this stack, without faults.
func (s *Stack) Env() job.Env { return s.env }

// Zone is the business time zone.
func (s *Stack) Zone() *time.Location { return s.zone }

// Recover sends everything unsettled of every active job again at once. It belongs between New and Run of a stack whose store has been used before: its queues are empty.
func (s *Stack) Recover(ctx context.Context) error { return s.recover(ctx) }

// Start runs the stack until stop is called, which waits until no goroutine is left, or ctx ends.
func (s *Stack) Start(ctx context.Context) (stop func()) {
	s.begun()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// Run runs the stack until ctx ends, and returns when the last invocation has. Invocations under way see their context end too: what they leave undone is in the store.
// It may be called once at a time.
func (s *Stack) Run(ctx context.Context) {
	s.begun()
	s.run(ctx)
}

// begun lets requests in, before the first step.
func (s *Stack) begun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		panic("local: the stack is running already")
	}
	s.started, s.ending, s.over = true, false, false
}

func (s *Stack) run(ctx context.Context) {
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for ctx.Err() == nil {
		s.step(ctx)
		s.mu.Lock()
		next := s.next
		s.mu.Unlock()
		if next.IsZero() {
			alarm.Stop()
		} else {
			alarm.Reset(max(0, next.Sub(s.clock.Now())))
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-alarm.C:
		}
	}
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started, s.over, s.quiet = false, true, false
	s.announce()
}

// step begins everything that can begin now, and finds out when there is more to do.
func (s *Stack) step(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	s.next = time.Time{}
	s.stepTimers(now)
	s.stepAsync(ctx, now)
	s.stepSources(ctx, now)
	s.setQuiet(s.running == 0)
}

// soon remembers the earliest moment at which there is something to do.
func (s *Stack) soon(at time.Time) {
	if s.next.IsZero() || at.Before(s.next) {
		s.next = at
	}
}

// touch is called with the lock held after every change from outside step: look again.
func (s *Stack) touch() {
	s.setQuiet(false)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *Stack) setQuiet(quiet bool) {
	if s.quiet != quiet {
		s.quiet = quiet
		s.announce()
	}
}

func (s *Stack) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
