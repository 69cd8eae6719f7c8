package main_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
)

// numbered are notes with ids n-0, n-1, ... and texts of so many bytes.
func numbered(n, size int) []main.Row {
	rows := make([]main.Row, n)
	for i := range rows {
		rows[i] = main.Row{Line: int64(i + 2), Note: api.Note{ID: fmt.Sprint("n-", i), Text: strings.Repeat("x", size)}}
	}
	return rows
}

// Rows go to the API in batches that it takes, and each is answered for by its line.
func TestItemsAreImportedInBatches(t *testing.T) {
	t.Parallel()
	added := func(_ context.Context, notes []api.Note) ([]api.PutResult, error) {
		results := make([]api.PutResult, len(notes))
		for i, n := range notes {
			results[i] = api.PutResult{ID: n.ID, Outcome: api.Added}
			if n.Text == "bad" {
				results[i] = api.PutResult{ID: n.ID, Outcome: api.Refused, Field: "text", Message: "is bad"}
			}
		}
		return results, nil
	}
	repeats := numbered(600, 1)
	repeats = append(repeats, main.Row{Line: 700, Note: repeats[3].Note}, main.Row{Line: 701, Note: api.Note{ID: "n-3", Text: "other"}}, main.Row{Line: 702, Note: api.Note{ID: "n-900", Text: "bad"}},
		main.Row{Line: 703, Bad: "not JSON"})
	for _, c := range []struct {
		name    string
		rows    []main.Row
		batches []int
		want    catalog.Report
	}{
		{"none", nil, nil, catalog.Report{}},
		{"one", numbered(1, 1), []int{1}, catalog.Report{Rows: 1, Added: 1}},
		{"as many as a batch has", numbered(500, 1), []int{500}, catalog.Report{Rows: 500, Added: 500}},
		{"one more", numbered(501, 1), []int{500, 1}, catalog.Report{Rows: 501, Added: 501}},
		{"large ones", numbered(50, 100_000), []int{20, 20, 10}, catalog.Report{Rows: 50, Added: 50}},
		{"one that is larger than a batch", numbered(2, 3<<20), []int{1, 1}, catalog.Report{Rows: 2, Added: 2}},
		{"repeats in another batch, and bad ones", repeats, []int{500, 101}, catalog.Report{Rows: 604, Added: 600, Unchanged: 1, Bad: 3, FirstBad: []catalog.BadRow{
			{Line: 701, Reason: "n-3: duplicate id with other content"}, {Line: 702, Reason: "n-900: text: is bad"}, {Line: 703, Reason: "not JSON"},
		}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var batches []int
			report, err := main.ImportRows(t.Context(), c.rows, func(ctx context.Context, notes []api.Note) ([]api.PutResult, error) {
				batches = append(batches, len(notes))
				return added(ctx, notes)
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(batches, c.batches); diff != "" {
				t.Errorf("batches (-got +want):\n%s", diff)
			}
			if diff := cmp.Diff(report, c.want); diff != "" {
				t.Errorf("report (-got +want):\n%s", diff)
			}
		})
	}
}

// The same batch again is right as long as the API was too busy or did not answer; what it refuses is not sent again.
func TestABatchIsSentAgain(t *testing.T) {
	t.Parallel()
	busy, refused := &api.Error{Status: 503, RetryAfter: 9 * time.Second}, &api.Error{Status: 403, Title: "Forbidden"}
	for _, c := range []struct {
		name  string
		errs  []error
		calls int
		took  time.Duration
		wrong string
	}{
		{"busy once", []error{busy}, 2, 9 * time.Second, ""},
		{"no answer, then busy", []error{errors.New("reset"), busy}, 3, 10 * time.Second, ""},
		{"refused", []error{refused}, 1, 0, "lines 2 to 4: 403"},
		{"busy for ever", []error{busy, busy, busy, busy, busy}, 5, 36 * time.Second, "lines 2 to 4: 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls, begun := 0, time.Now()
				_, err := main.ImportRows(t.Context(), numbered(3, 1), func(_ context.Context, notes []api.Note) ([]api.PutResult, error) {
					if calls++; calls <= len(c.errs) {
						return nil, c.errs[calls-1]
					}
					return make([]api.PutResult, len(notes)), nil
				})
				if calls != c.calls || time.Since(begun) != c.took || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%d calls in %v, %v; want %d in %v, %q", calls, time.Since(begun), err, c.calls, c.took, c.wrong)
				}
			})
		})
	}
}
