package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"hanbeon"
	"hanbeon/pkg/ai"
	"hanbeon/pkg/ai/aistub"
	"hanbeon/pkg/api"
	"hanbeon/pkg/api/sigv4"
	"hanbeon/pkg/audit"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/local"
	"hanbeon/pkg/store"
)

const day = "2024-04-15"

// laptop is a stack with an API, as `hanbeon local` runs it: by the wall's clock, over HTTP, signed.
type laptop struct {
	store  *bolt.Store
	stack  *local.Stack
	client api.Service
}

func startLaptop(tb testing.TB, model til.Model, members int, note string) *laptop {
	tb.Helper()
	s, err := bolt.Open(filepath.Join(tb.TempDir(), "data"), bolt.Options{NoSync: true, Ledgers: []store.Table{monthlypoint.Table}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	addMembers(tb, s, members)
	addNotes(tb, s, members, note)
	stack, err := local.New(local.Config{Store: s, Template: hanbeon.Template, Model: model})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stack.Start(context.WithoutCancel(tb.Context())))
	key := local.NewKey()
	front, err := stack.API(key)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(front)
	tb.Cleanup(server.Close)
	credentials := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: key.ID, SecretAccessKey: key.Secret}, nil
	})
	transport := &http.Transport{MaxConnsPerHost: 200, MaxIdleConnsPerHost: 200}
	tb.Cleanup(transport.CloseIdleConnections)
	return &laptop{s, stack, api.NewClient(server.URL, sigv4.Transport(transport, credentials, local.Region))}
}

func member(i int) string { return fmt.Sprintf("member-%06d", i) }

func addNotes(tb testing.TB, s store.Store, members int, text string) {
	tb.Helper()
	var notes []catalog.Note
	for i := range members {
		notes = append(notes, catalog.Note{ID: "n-1", Member: member(i), Date: day, Text: text})
	}
	for chunk := range slices.Chunk(notes, 500) {
		if _, err := catalog.New(s).PutNotes(tb.Context(), chunk); err != nil {
			tb.Fatal(err)
		}
	}
}

// gate is a model that answers when it is opened, always the same.
type gate struct {
	open chan struct{}
	text string
}

func (g gate) Complete(ctx context.Context, _, _, _ string, _ json.RawMessage) (string, error) {
	select {
	case <-g.open:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	b, err := json.Marshal(map[string]any{"title": "Queues", "text": g.text, "keywords": []string{"queues"}})
	return string(b), err
}

// A thousand callers at once want a hundred summaries, ten each: whoever comes first opens the job, and everybody else is told which it is. JOB-01: over HTTP, through gateway and adapter.
func TestAThousandRequestsForAHundredTargets(t *testing.T) {
	t.Parallel()
	const targets, callers = 100, 10
	g := gate{open: make(chan struct{}), text: "what was learned"}
	l := startLaptop(t, g, targets, "a note")
	opened, named := make([][]string, targets), make([][]string, targets)
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range targets * callers {
		wg.Go(func() {
			<-start
			target := i % targets
			a, err := l.client.RequestTIL(t.Context(), api.RequestTIL{MemberID: member(target), Date: day})
			var e *api.Error
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				opened[target] = append(opened[target], a.ID)
			case errors.As(err, &e) && e.Type == api.TypeActive && e.Job != nil && e.Status == http.StatusConflict:
				named[target] = append(named[target], e.Job.ID)
			default:
				t.Errorf("target %d: %v, want 202 or 409 with the job", target, err)
			}
		})
	}
	close(start)
	wg.Wait()
	jobs := 0
	for i := range targets {
		jobs += len(opened[i])
		if len(opened[i]) != 1 || len(named[i]) != callers-1 || slices.ContainsFunc(named[i], func(id string) bool { return id != opened[i][0] }) {
			t.Errorf("target %d: opened %v, 409 naming %v; want one job, and %d times that", i, opened[i], named[i], callers-1)
		}
	}
	slots, err := job.NewStore(l.store, time.Now).Slots(t.Context())
	if err != nil || len(slots) != targets || jobs != targets {
		t.Errorf("%d jobs, %d slots held, %v; want %d", jobs, len(slots), err, targets)
	}
	close(g.open)
	l.settle(t)
	for i := range targets {
		got, err := l.client.TIL(t.Context(), member(i), day)
		if err != nil || got.Revision != 1 || got.Job != opened[i][0] || got.Text != g.text {
			t.Errorf("target %d: %+v, %v; want revision 1 by %s", i, got, err, opened[i][0])
		}
	}
	l.audit(t, targets)
}

// settle waits until no job is active.
func (l *laptop) settle(tb testing.TB) {
	tb.Helper()
	settle(tb, l.stack)
}

func (l *laptop) audit(tb testing.TB, jobs int) {
	tb.Helper()
	r, err := audit.Check(tb.Context(), l.store, time.Now().UTC(), nil, kinds.All(l.store, l.stack.Zone())...)
	if err != nil || !r.OK() || r.Jobs != jobs || r.Active != 0 {
		tb.Errorf("audit: %v, %d jobs, %d active, %v; want %d jobs, none active, nothing broken", err, r.Jobs, r.Active, r.Violations, jobs)
	}
}

// A TIL of 4 KB costs at most 40 write units from the request to the result, requests refused meanwhile and its messages included, by the meter of the store.
func TestATILCostsAtMostFortyWriteUnits(t *testing.T) {
	t.Parallel()
	stub := httptest.NewServer(aistub.New(aistub.Behaviour{}))
	t.Cleanup(stub.Close)
	model, err := ai.New(ai.Config{BaseURL: stub.URL + "/v1", Model: "stub"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		model til.Model
		bytes int // least of the published text
	}{
		{"4 KB", gate{open: closed(), text: strings.Repeat("learned ", 512) + "."}, 4096},
		{"by the stub", model, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := startLaptop(t, c.model, 1, strings.Repeat("A note of the day.\n", 100))
			for revision := range int64(2) { // the row is there the second time
				before := l.store.Meter().Spent()
				a, err := l.client.RequestTIL(t.Context(), api.RequestTIL{MemberID: member(0), Date: day, IdempotencyKey: fmt.Sprint("key-", revision)})
				if err != nil {
					t.Fatal(err)
				}
				l.settle(t)
				used := l.store.Meter().Spent().Since(before).Write
				got, err := l.client.TIL(t.Context(), member(0), day)
				if err != nil || got.Revision != revision+1 || got.Job != a.ID || len(got.Text) < c.bytes {
					t.Fatalf("published %.100q revision %d by %s, %v; want %d bytes, revision %d by %s", got.Text, got.Revision, got.Job, err, c.bytes, revision+1, a.ID)
				}
				t.Logf("%.1f write units for %d bytes", used, len(got.Text))
				if used > 40 || used < 10 {
					t.Errorf("%.1f write units, want at most 40 (and at least 10, or they are not counted)", used)
				}
			}
		})
	}
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// A job of another kind, and of another day or member, is in nobody's way, and after the end the same target may be asked again. JOB-02 through the whole stack.
func TestOnlyTheSameTargetIsInTheWay(t *testing.T) {
	t.Parallel()
	g := gate{open: make(chan struct{}), text: "what was learned"}
	l := startLaptop(t, g, 3, "a note")
	ask := func(m int, date string) (string, int) {
		t.Helper()
		a, err := l.client.RequestTIL(t.Context(), api.RequestTIL{MemberID: member(m), Date: date})
		var e *api.Error
		if errors.As(err, &e) {
			return "", e.Status
		}
		if err != nil {
			t.Fatal(err)
		}
		return a.ID, http.StatusAccepted
	}
	first, status := ask(0, day)
	if status != http.StatusAccepted {
		t.Fatalf("first request: %d, want 202", status)
	}
	if _, status := ask(0, day); status != http.StatusConflict {
		t.Errorf("again: %d, want 409", status)
	}
	other, status := ask(0, "2024-04-16")
	if status != http.StatusAccepted {
		t.Errorf("another day: %d, want 202", status)
	}
	if _, status := ask(1, day); status != http.StatusAccepted {
		t.Errorf("another member: %d, want 202", status)
	}
	if _, err := l.client.StartMonthlyPoints(t.Context(), api.StartMonthlyPoints{Period: "2024-04", Amount: 5}); err != nil {
		t.Errorf("monthly points: %v, want 202", err)
	}
	if j, err := l.client.Cancel(t.Context(), first); err != nil || j.State != string(job.Cancelled) {
		t.Errorf("cancel: %+v, %v; want CANCELLED", j, err)
	}
	second, status := ask(0, day)
	if status != http.StatusAccepted {
		t.Errorf("after the cancel: %d, want 202", status)
	}
	close(g.open)
	l.settle(t)
	if got, err := l.client.TIL(t.Context(), member(0), day); err != nil || got.Revision != 1 || got.Job != second {
		t.Errorf("published revision %d by %s, %v; want 1 by %s: the result of a cancelled job is refused", got.Revision, got.Job, err, second)
	}
	// No notes for that day: no call, and a reason.
	if a, err := l.client.Job(t.Context(), other, ""); err != nil || a.Job.State != string(job.Failed) || a.Job.Reason != job.ReasonNothingToSummarise {
		t.Errorf("a day without notes: %+v, %v; want FAILED %s", a.Job, err, job.ReasonNothingToSummarise)
	}
	for range 2 { // after COMPLETED, and after FAILED
		for _, date := range []string{day, "2024-04-16"} {
			if _, status := ask(0, date); status != http.StatusAccepted {
				t.Errorf("%s after the end: %d, want 202", date, status)
			}
		}
		l.settle(t)
	}
	if got, err := l.client.TIL(t.Context(), member(0), day); err != nil || got.Revision != 3 {
		t.Errorf("published revision %d, %v; want 3", got.Revision, err)
	}
	l.audit(t, 9)
}
