package catalog_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func seoul(t testing.TB) *time.Location {
	t.Helper()
	z, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func member(id string) catalog.Member {
	return catalog.Member{ID: id, Status: catalog.Active, JoinedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), Name: "김서연"}
}

// all lists every member, segment by segment, and checks what Members promises.
func all(t testing.TB, c *catalog.Catalog, limit int) map[string]catalog.Member {
	t.Helper()
	found := map[string]catalog.Member{}
	for segment := range job.Segments {
		cursor, last := "", ""
		for {
			page, next, err := c.Members(t.Context(), segment, cursor, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > limit || len(page) == 0 && next != "" {
				t.Fatalf("segment %d after %q: %d members and next %q, want 1 to %d", segment, cursor, len(page), next, limit)
			}
			for _, m := range page {
				if m.ID <= last {
					t.Fatalf("segment %d: %s comes after %s", segment, m.ID, last)
				}
				if got := job.SegmentOf(m.ID, job.Segments); got != segment {
					t.Fatalf("%s is in segment %d, want %d", m.ID, segment, got)
				}
				last = m.ID
				found[m.ID] = m
			}
			if next == "" {
				break
			}
			if next <= cursor {
				t.Fatalf("segment %d: next %q is not greater than cursor %q", segment, next, cursor)
			}
			cursor = next
		}
	}
	return found
}

// sparse is a store whose pages are often empty and still have a next, as DynamoDB's may be. Its cursors sort backwards: the contract promises no order.
type sparse struct {
	store.Store
	empty bool // the next page is
}

// backwards turns the order of texts of ASCII around; twice is the text itself.
func backwards(s string) string {
	b := []byte(s)
	for i := range b {
		b[i] = 127 - b[i]
	}
	return string(b)
}

func (s *sparse) Query(ctx context.Context, q store.Query) (store.Page, error) {
	if s.empty = !s.empty; s.empty {
		return store.Page{Next: "~" + strings.TrimPrefix(q.Cursor, "~")}, nil
	}
	q.Cursor = backwards(strings.TrimPrefix(q.Cursor, "~"))
	page, err := s.Store.Query(ctx, q)
	if page.Next != "" {
		page.Next = "~" + backwards(page.Next)
	}
	return page, err
}
