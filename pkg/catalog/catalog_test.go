package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

func outcomes(results []catalog.Result) string {
	var out []string
	for _, r := range results {
		if r.Err != nil {
			out = append(out, "error")
		} else {
			out = append(out, string(r.Outcome))
		}
	}
	return strings.Join(out, " ")
}

func TestPutMembersWritesOnlyWhatDiffers(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	c := catalog.New(s)
	changed := member("b")
	changed.Status = catalog.Withdrawn
	precise := member("c") // differs by less than a millisecond: that is the same content
	precise.JoinedAt = precise.JoinedAt.Add(999 * time.Microsecond).In(seoul(t))
	for _, step := range []struct {
		name    string
		members []catalog.Member
		want    string
		writes  float64 // write units: two per member in a transaction, one alone
	}{
		{"all are new", []catalog.Member{member("a"), member("b"), member("c")}, "added added added", 6},
		{"the same again", []catalog.Member{member("a"), member("b"), member("c")}, "unchanged unchanged unchanged", 0},
		{"one differs", []catalog.Member{member("a"), changed, precise, member("d")}, "unchanged changed unchanged added", 4},
		{"none", nil, "", 0},
	} {
		before := s.Meter().Spent()
		results, err := c.PutMembers(t.Context(), step.members)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := outcomes(results); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if got := s.Meter().Spent().Since(before).Write; got != step.writes {
			t.Errorf("%s: %v write units, want %v", step.name, got, step.writes)
		}
	}
	got, ok, err := c.Member(t.Context(), "b")
	if err != nil || !ok || got != changed {
		t.Errorf("Member(b) = %v, %v, %v, want %v", got, ok, err, changed)
	}
}

// KEY-02 and KEY-04: an id that is no subject never becomes a key, and holds no neighbour back.
func TestPutMembersAnswersItemByItem(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	c := catalog.New(s)
	with := func(change func(*catalog.Member)) catalog.Member {
		m := member("x")
		change(&m)
		return m
	}
	bad := []catalog.Member{
		member(""), member("   "), member(" member-42"), member("member-42\u200b"), member("회원"), member("2024-05:member-1"), member("%3A"), member(strings.Repeat("x", 129)),
		with(func(m *catalog.Member) { m.Status = "" }),
		with(func(m *catalog.Member) { m.Status = "active" }),
		with(func(m *catalog.Member) { m.JoinedAt = time.Time{} }),
		with(func(m *catalog.Member) { m.JoinedAt = time.Unix(1<<40, 0) }),
		with(func(m *catalog.Member) { m.Name = "a\xff" }),
		with(func(m *catalog.Member) { m.Name = "a\nb" }),
		with(func(m *catalog.Member) { m.Name = strings.Repeat("이", 86) }),
	}
	members := append([]catalog.Member{member("member-42")}, bad...)
	members = append(members, member("Member-42"))
	results, err := c.PutMembers(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if wantErr := i > 0 && i <= len(bad); (r.Err != nil) != wantErr || wantErr && r.Outcome != "" {
			t.Errorf("member %d (%+v): %+v, want an error: %v", i, members[i], r, wantErr)
		}
	}
	if got := all(t, c, 10); len(got) != 2 {
		t.Errorf("%d members are stored, want member-42 and Member-42: %v", len(got), got)
	}
}

func TestPutMembersTakesTheFirstOfADuplicate(t *testing.T) {
	t.Parallel()
	c := catalog.New(openStore(t))
	other := member("a")
	other.Name = "이민준"
	results, err := c.PutMembers(t.Context(), []catalog.Member{member("a"), other, member("a")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outcomes(results), "added error unchanged"; got != want || !errors.Is(results[1].Err, catalog.ErrDuplicate) {
		t.Errorf("%s (%v), want %s", got, results[1].Err, want)
	}
	if got, _, err := c.Member(t.Context(), "a"); got != member("a") || err != nil {
		t.Errorf("Member(a) = %v (%v), want the first", got, err)
	}
}

func TestPutMembersOfMoreThanOneTransaction(t *testing.T) {
	t.Parallel()
	c := catalog.New(openStore(t))
	var members []catalog.Member
	for i := range 5*store.MaxWrites + 1 {
		members = append(members, member(fmt.Sprintf("member-%d", i)))
	}
	results, err := c.PutMembers(t.Context(), members)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Count(outcomes(results), "added"), len(members); got != want {
		t.Errorf("%d added, want %d", got, want)
	}
	found := all(t, c, 7)
	for _, m := range members {
		if found[m.ID] != m {
			t.Errorf("%s is stored as %v, want %v", m.ID, found[m.ID], m)
		}
	}
}

func TestPutMembersReportsAStoreThatFails(t *testing.T) {
	t.Parallel()
	s := &failing{Store: openStore(t), after: 2}
	c := catalog.New(s)
	var members []catalog.Member
	for i := range 10 * store.MaxWrites {
		members = append(members, member(fmt.Sprintf("member-%d", i)))
	}
	if results, err := c.PutMembers(t.Context(), members); !errors.Is(err, errDisk) || results != nil {
		t.Fatalf("error %v and %d results, want %v and none", err, len(results), errDisk)
	}
	s.heal()
	if _, err := c.PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	if got, want := len(all(t, c, 490)), len(members); got != want {
		t.Errorf("after the same call again %d members are stored, want %d", got, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.PutMembers(ctx, members); !errors.Is(err, context.Canceled) {
		t.Errorf("with a cancelled context: error %v, want %v", err, context.Canceled)
	}
}

var errDisk = errors.New("disk on fire")

// failing is a store whose transactions fail after some that do not.
type failing struct {
	store.Store
	mu    sync.Mutex
	after int // transactions that still go through; negative: all
}

func (f *failing) heal() { f.mu.Lock(); f.after = -1; f.mu.Unlock() }

func (f *failing) Transact(ctx context.Context, writes ...store.Write) error {
	f.mu.Lock()
	fail := f.after == 0
	if f.after > 0 {
		f.after--
	}
	f.mu.Unlock()
	if fail {
		return errDisk
	}
	return f.Store.Transact(ctx, writes...)
}

// DSP-08: a page without members is not the end, and the end is only where the store says so.
func TestMembersGoesOnAfterEmptyPages(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var members []catalog.Member
	for i := range 200 {
		members = append(members, member(fmt.Sprintf("member-%d", i)))
	}
	if _, err := catalog.New(s).PutMembers(t.Context(), members); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 3, 490} {
		if got, want := len(all(t, catalog.New(&sparse{Store: s}), limit)), len(members); got != want {
			t.Errorf("limit %d: %d members, want %d", limit, got, want)
		}
	}
}

func TestMembersRefusesWrongArguments(t *testing.T) {
	t.Parallel()
	c := catalog.New(openStore(t))
	for name, call := range map[string]func() error{
		"a segment below 0":     func() error { _, _, err := c.Members(t.Context(), -1, "", 1); return err },
		"a segment too many":    func() error { _, _, err := c.Members(t.Context(), job.Segments, "", 1); return err },
		"no limit":              func() error { _, _, err := c.Members(t.Context(), 0, "", 0); return err },
		"a cursor of no store":  func() error { _, _, err := c.Members(t.Context(), 0, "member-1", 1); return err },
		"a cursor cut short":    func() error { _, _, err := c.Members(t.Context(), 0, "member-1 ", 1); return err },
		"an id with a colon":    func() error { _, _, err := c.Member(t.Context(), "a:b"); return err },
		"an id that is nothing": func() error { _, _, err := c.Member(t.Context(), ""); return err },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: accepted, want an error", name)
		}
	}
	if got, ok, err := c.Member(t.Context(), "nobody"); ok || err != nil {
		t.Errorf("Member(nobody) = %v, %v, %v, want none", got, ok, err)
	}
}

func TestActiveBefore(t *testing.T) {
	t.Parallel()
	at := time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)
	for _, tt := range []struct {
		status catalog.Status
		joined time.Time
		want   bool
	}{
		{catalog.Active, at.Add(-time.Millisecond), true},
		{catalog.Active, at, false}, // at the scheduled time itself is too late
		{catalog.Active, at.Add(time.Millisecond), false},
		{catalog.Inactive, at.Add(-time.Hour), false},
		{catalog.Withdrawn, at.Add(-time.Hour), false},
		{"", at.Add(-time.Hour), false},
	} {
		m := catalog.Member{ID: "a", Status: tt.status, JoinedAt: tt.joined}
		if got := m.ActiveBefore(at); got != tt.want {
			t.Errorf("%s joined at %s: %v, want %v", tt.status, tt.joined, got, tt.want)
		}
	}
}
