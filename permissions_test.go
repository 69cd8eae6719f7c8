package hanbeon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/gateway"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

// Least privilege, held to what happens: each function works through everything it does, on a store and a queue that note the action each call needs on AWS. Its role
// allows these and no others.
func TestRolesAllowWhatTheFunctionsDoAndNoMore(t *testing.T) {
	t.Parallel()
	tpl := transformed(t)
	did := everythingFunctionsDo(t)
	for function, more := range everythingAroundRequests(t) {
		if did[function] == nil {
			did[function] = map[string]bool{}
		}
		maps.Copy(did[function], more)
	}
	for _, f := range functions(t) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			allowed := map[string]bool{}
			for _, s := range tpl.statements() {
				if s.function != f.name {
					continue
				}
				for _, r := range s.resources {
					for _, a := range s.actions {
						allowed[a+" "+resourceName(tpl, target(r))] = true
					}
				}
			}
			for need := range did[f.name] {
				if !allowed[need] {
					t.Errorf("its role does not allow %s", need)
				}
			}
			for a := range allowed {
				// What the runtime does for the function, and what only a failure in the middle leads to.
				if strings.HasPrefix(a, "dynamodb:") && !did[f.name][a] {
					t.Errorf("its role allows %s, which it never does", a)
				}
			}
		})
	}
}

func resourceName(tpl template, id string) string {
	for _, property := range []string{"TableName", "QueueName"} {
		if name := ownName(tpl.property(id, property)); name != "" {
			return name
		}
	}
	return id
}

// notes is what one function did: "dynamodb:PutItem jobs".
type notes struct {
	mu   sync.Mutex
	done map[string]bool
}

func (n *notes) add(action, on string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done[action+" "+on] = true
}

// notedStore is the store as one function sees it.
type notedStore struct {
	store.Store
	notes *notes
}

// The permissions of a transaction are those of its parts (DynamoDB Developer Guide, "Using IAM with transactions").
var actionOf = map[store.Op]string{
	store.OpPut: "dynamodb:PutItem", store.OpUpdate: "dynamodb:UpdateItem", store.OpDelete: "dynamodb:DeleteItem", store.OpCheck: "dynamodb:ConditionCheckItem",
}

func (s notedStore) Transact(ctx context.Context, writes ...store.Write) error {
	for _, w := range writes {
		s.notes.add(actionOf[w.Op], string(w.Key.Table))
	}
	return s.Store.Transact(ctx, writes...)
}

func (s notedStore) Get(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	s.read(keys)
	return s.Store.Get(ctx, keys...)
}

func (s notedStore) GetStale(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	s.read(keys)
	return s.Store.GetStale(ctx, keys...)
}

func (s notedStore) read(keys []store.Key) {
	for _, k := range keys {
		s.notes.add("dynamodb:BatchGetItem", string(k.Table))
	}
}

func (s notedStore) Query(ctx context.Context, q store.Query) (store.Page, error) {
	s.notes.add("dynamodb:Query", string(q.Table))
	return s.Store.Query(ctx, q)
}

// notedQueue keeps what is sent, and notes for the function that sends.
type notedQueue struct {
	boxes *boxes
	notes *notes
}

type boxes struct {
	mu     sync.Mutex
	bodies map[queue.Name][]string
}

func (q notedQueue) Send(_ context.Context, to queue.Name, bodies ...string) error {
	q.notes.add("sqs:SendMessage", string(to))
	q.boxes.mu.Lock()
	defer q.boxes.mu.Unlock()
	q.boxes.bodies[to] = append(q.boxes.bodies[to], bodies...)
	return nil
}

func (q notedQueue) PutOff(_ context.Context, from queue.Name, _ time.Duration, _ ...string) error {
	q.notes.add("sqs:ChangeMessageVisibility", string(from))
	return nil
}

// take empties a queue into an event.
func (b *boxes) take(from queue.Name) events.SQSEvent {
	e := b.peek(from)
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.bodies, from)
	return e
}

// peek is an event with all that is in a queue.
func (b *boxes) peek(from queue.Name) events.SQSEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	var e events.SQSEvent
	for i, body := range b.bodies[from] {
		e.Records = append(e.Records, events.SQSMessage{MessageId: fmt.Sprintf("m-%d", i), ReceiptHandle: fmt.Sprintf("r-%d", i), Body: body, EventSourceARN: "arn:aws:sqs:ap-northeast-2:123456789012:hanbeon-" + string(from)})
	}
	return e
}

// office is what the functions of one test share: a store, a queue and a clock. It keeps what each of them did.
type office struct {
	*testing.T
	zone *time.Location
	db   store.Store
	box  *boxes
	now  time.Time
	did  map[string]map[string]bool
}

func newOffice(t *testing.T, now time.Time) *office {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return &office{T: t, zone: zone, db: db, box: &boxes{bodies: map[queue.Name][]string{}}, now: now, did: map[string]map[string]bool{}}
}

// env is the office as a function sees it.
func (o *office) env(function string) job.Env {
	n := &notes{done: map[string]bool{}}
	o.did[function] = n.done
	return job.Env{
		Store: notedStore{o.db, n}, Queue: notedQueue{o.box, n}, Now: func() time.Time { return o.now },
		Log: slog.New(slog.DiscardHandler), Metric: func(once.Kind, string, float64) {},
	}
}

func (o *office) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// everythingFunctionsDo is a year in short: a month fired, granted and run again; one whose messages get lost until the reaper gives up, and the run that takes its failures over; one that was never fired.
func everythingFunctionsDo(t *testing.T) map[string]map[string]bool {
	t.Helper()
	o := newOffice(t, time.Date(2024, 3, 31, 15, 30, 10, 0, time.UTC))
	joined := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	members := []catalog.Member{}
	for n := range 40 {
		members = append(members, catalog.Member{ID: fmt.Sprintf("member-%d", n), Status: catalog.Active, JoinedAt: joined})
	}
	_, err := catalog.New(o.db).PutMembers(t.Context(), members)
	o.must(err)

	calendar := job.Calendar{Start: "2024-04", AutoOpen: true, Inputs: map[once.Kind]json.RawMessage{monthlypoint.Name: json.RawMessage(`{"amount":100}`)}}
	of := func(e job.Env) []job.Kind { return kinds.All(e.Store, o.zone) }
	onDispatcher, onFanout, onWorker, onReaper := o.env("dispatcher"), o.env("fanout"), o.env("monthly-point"), o.env("reaper")
	dispatcher := dispatch.NewDispatcher(onDispatcher, of(onDispatcher)...)
	fanout := dispatch.NewFanout(onFanout, of(onFanout)...)
	work := worker.NewBulk(onWorker, monthlypoint.New(onWorker.Store, o.zone))
	reap := reaper.New(onReaper, calendar, of(onReaper)...)
	operator := o.env("operator")
	byHand := dispatch.NewDispatcher(operator, of(operator)...)
	jobs := job.NewStore(o.db, operator.Now)

	sample := func(name string) []byte { return []byte(read(t, filepath.Join("events", name+".json"))) }
	spread := func() {
		t.Helper()
		for _, r := range o.box.take(queue.Segments).Records {
			_, err := fanout.Handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{r}})
			o.must(err)
		}
	}
	grant := func() {
		t.Helper()
		_, err := work.Handle(t.Context(), o.box.take(queue.Name(monthlypoint.Name)))
		o.must(err)
	}
	again := func() {
		t.Helper()
		_, err := byHand.Run(t.Context(), dispatch.Run{Kind: monthlypoint.Name, Period: "2024-04", Input: json.RawMessage(`{"amount":100}`), RequestedBy: "operator"})
		o.must(err)
		o.now = o.now.Add(time.Second)
	}
	settle := func() { // the reaper, every five minutes, until nothing is active; whatever it sends is lost
		t.Helper()
		for range 200 {
			o.now = o.now.Add(5 * time.Minute)
			o.must(reap.Handle(t.Context()))
			o.box.take(queue.Name(monthlypoint.Name))
			if active, err := jobs.Slots(t.Context()); err != nil || len(active) == 0 {
				o.must(err)
				return
			}
		}
		t.Fatal("a job is still active")
	}

	o.must(dispatcher.Handle(t.Context(), sample("dispatcher")))
	o.must(dispatcher.Handle(t.Context(), sample("dispatcher")))
	spread()
	o.box.take(queue.Name(monthlypoint.Name)) // lost
	settle()                                  // everybody failed
	again()
	spread()
	o.box.take(queue.Name(monthlypoint.Name)) // lost again: failed entries that have failed before
	settle()
	again()
	spread()
	balance := func(n int64) store.Write {
		return store.Put(store.Key{Table: monthlypoint.Table, PK: "member-0", SK: monthlypoint.Balance}, struct {
			N       int64 `json:"n"`
			Entries int64 `json:"entries"`
		}{n, 0})
	}
	o.must(o.db.Transact(t.Context(), balance(math.MaxInt64))) // a grant would leave the range of 64 bits
	late := o.box.peek(queue.Name(monthlypoint.Name))
	grant() // takes over; member-0 fails as invalid; closes
	o.must(o.db.Transact(t.Context(), balance(0)))
	_, err = work.Handle(t.Context(), late) // the job is over
	o.must(err)
	again()
	spread()
	grant()
	again()
	spread() // everybody has it: the fan-out closes
	o.now = time.Date(2024, 4, 30, 16, 0, 0, 0, time.UTC)
	o.must(reap.Handle(t.Context())) // May was never fired
	spread()
	grant()
	if active, err := jobs.Slots(t.Context()); err != nil || len(active) > 0 {
		t.Fatalf("still active: %v, %v", active, err)
	}
	return o.did
}

// The samples are events as AWS sends them, and what a function makes of them is no surprise: the firing opens its job, messages of a job that is not there are acknowledged.
func TestSampleEvents(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("events/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var have, want []string
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); name != "env" { // the environment of `sam local`
			have = append(have, name)
		}
	}
	for _, f := range functions(t) {
		want = append(want, f.name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(have, want); diff != "" {
		t.Errorf("samples and functions (-got +want):\n%s", diff)
	}

	o := newOffice(t, time.Date(2024, 3, 31, 15, 30, 10, 0, time.UTC))
	env := o.env("any")
	all := kinds.All(o.db, o.zone)
	answers := map[string]string{}
	for name, handler := range map[string]lambda.Handler{
		"dispatcher":    lambda.NewHandler(dispatch.NewDispatcher(env, all...).Handle),
		"fanout":        lambda.NewHandler(dispatch.NewFanout(env, all...).Handle),
		"monthly-point": lambda.NewHandler(worker.NewBulk(env, monthlypoint.New(o.db, o.zone)).Handle),
		"reaper":        lambda.NewHandler(reaper.New(env, job.Calendar{Start: "2024-04"}, all...).Handle),
		"til":           lambda.NewHandler(worker.NewSingle(env, til.New(o.db, o.zone, nil)).Handle),
		"api":           lambda.NewHandler(gateway.New(api.New(env, o.zone), env.Log).Handle),
	} {
		answer, err := handler.Invoke(t.Context(), []byte(read(t, filepath.Join("events", name+".json"))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		answers[name] = string(answer)
	}
	var refused struct {
		StatusCode int
		Body       string
	}
	if err := json.Unmarshal([]byte(answers["api"]), &refused); err != nil || refused.StatusCode != 422 || !strings.Contains(refused.Body, `"field":"date"`) { // the 15th has not come
		t.Errorf("api: %s", answers["api"])
	}
	delete(answers, "api")
	if diff := cmp.Diff(answers, map[string]string{"dispatcher": "null", "fanout": `{"batchItemFailures":[]}`, "monthly-point": `{"batchItemFailures":[]}`, "reaper": "null", "til": `{"batchItemFailures":[]}`}); diff != "" {
		t.Errorf("answers (-got +want):\n%s", diff)
	}
	if !o.did["any"]["sqs:SendMessage segments"] {
		t.Errorf("the firing opened nothing: %v", slices.Collect(maps.Keys(o.did["any"])))
	}
}
