package til_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

const (
	member = "member-42"
	day    = once.Period("2024-04-15")
)

// answer is a model's answer as it should be.
const answer = `{"title":"트랜잭션 격리 수준","text":"팬텀 리드를 배웠다.\n\t예제도 읽었다.","keywords":["트랜잭션","phantom read"]}`

var begun = time.Date(2024, 4, 15, 9, 30, 0, 123_000_000, time.UTC)

// question is what a model was asked.
type question struct {
	system, user, name string
	schema             json.RawMessage
}

// model answers with text or err and keeps what it was asked.
type model struct {
	mu    sync.Mutex
	text  string
	err   error
	asked []question
}

func (m *model) Complete(_ context.Context, system, user, name string, schema json.RawMessage) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, question{system, user, name, schema})
	return m.text, m.err
}

func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// openDynamo is a store on the strict DynamoDB emulator.
func openDynamo(t testing.TB) store.Store {
	t.Helper()
	return dynamotest.Open(t, job.Table, catalog.Table, til.Table).Store(t)
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// desk is the kind with its store, its model, and the job store that drives it.
type desk struct {
	t     testing.TB
	store store.Store
	model *model
	kind  *til.Kind
	jobs  *job.Store
	notes *catalog.Catalog
}

// newDesk has the member, without notes.
func newDesk(t testing.TB, s store.Store) *desk {
	t.Helper()
	m := &model{text: answer}
	d := &desk{t, s, m, til.New(s, zone(t, "Asia/Seoul"), m), job.NewStore(s, func() time.Time { return begun }), catalog.New(s)}
	results, err := d.notes.PutMembers(t.Context(), []catalog.Member{{ID: member, Status: catalog.Active, JoinedAt: begun.AddDate(-1, 0, 0)}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	return d
}

// note stores notes of the day, with ids in their order.
func (d *desk) note(texts ...string) {
	d.t.Helper()
	var notes []catalog.Note
	for i, text := range texts {
		notes = append(notes, catalog.Note{ID: string(rune('a' + i)), Member: member, Date: day, Text: text})
	}
	results, err := d.notes.PutNotes(d.t.Context(), notes)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			d.t.Fatal(r.Err)
		}
	}
}

func (d *desk) opening() job.Opening {
	d.t.Helper()
	o, err := d.kind.Opening(member, day)
	if err != nil {
		d.t.Fatal(err)
	}
	return o
}

func (d *desk) open() job.Job {
	d.t.Helper()
	j, opened, err := d.jobs.Open(d.t.Context(), job.Request{Opening: d.opening(), ID: job.NewID(til.Name, begun), RequestedBy: "test"})
	if err != nil || !opened {
		d.t.Fatalf("open: %v, %v", opened, err)
	}
	return j
}

func (d *desk) claim(j job.Job) *job.Claim {
	d.t.Helper()
	c, err := d.jobs.Claim(d.t.Context(), j)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// publish makes the result of a claimed job and completes it, as the worker does.
func (d *desk) publish(c *job.Claim) {
	d.t.Helper()
	effects, err := d.kind.Result(d.t.Context(), c.Job())
	if err != nil {
		d.t.Fatal(err)
	}
	if err := c.Complete(d.t.Context(), d.kind.Items(c.Job(), effects)...); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) find() til.Summary {
	d.t.Helper()
	s, ok, err := d.kind.Find(d.t.Context(), member, day)
	if err != nil || !ok {
		d.t.Fatalf("Find: %v, %v", ok, err)
	}
	return s
}

// rows counts the items of the member in the table of summaries.
func (d *desk) rows() int {
	d.t.Helper()
	page, err := d.store.Query(d.t.Context(), store.Query{Table: til.Table, PK: member})
	if err != nil {
		d.t.Fatal(err)
	}
	return len(page.Items)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
