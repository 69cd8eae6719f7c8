package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// TXN-10: a write whose answer was lost is found by the next try as our own earlier one, whatever the operation; it counts once.
func TestALostAnswerIsFoundAsDuplicate(t *testing.T) {
	t.Parallel()
	s := open(t)
	lose := false
	l := ledger.New(sim.Script(s, func(c sim.Call) (bool, error) {
		if lose && c.Op == sim.Transact {
			lose = false
			return true, sim.ErrNoAnswer
		}
		return true, nil
	}), points, clock)
	postings := grants(t, "2024-04", 100, "a", "b")
	for name, call := range map[string]func() error{
		"apply":     func() error { return l.Apply(t.Context(), by("job-1", 100), postings[:1], count("job-1", 1)) },
		"take over": func() error { return l.TakeOver(t.Context(), by("job-1", 100), postings[1:], count("job-1", 1)) },
	} {
		if name == "take over" {
			if err := l.Fail(t.Context(), by("job-0", 100), []once.Key{postings[1].Key}, []bool{false}); err != nil {
				t.Fatal(err)
			}
		}
		lose = true
		err := call()
		var r *ledger.Refused
		var b *ledger.Busy
		if !errors.Is(err, sim.ErrNoAnswer) || errors.As(err, &r) || errors.As(err, &b) {
			t.Fatalf("%s: got %v, want the unknown error as it is", name, err)
		}
		same(t, name+" again", outcomes(refused(t, call())), map[int]string{0: "duplicate"})
	}
	same(t, "count", items(t, s, tally, "job-1")[0].Attrs, store.Attrs{"n": int64(2)})
	sums(t, s, "a", "b")
	same(t, "balance", balance(t, l, "a"), ledger.Balance{N: 100, Entries: 1})
}

// TXN-12: the entry is the guard, and no token that is valid for minutes: the same posting eleven minutes, or ten years, later changes nothing.
func TestTheGuardHasNoAge(t *testing.T) {
	t.Parallel()
	s := open(t)
	now := epoch
	l := ledger.New(s, points, func() time.Time { return now })
	apply := func(job string) error {
		return l.Apply(t.Context(), by(job, 100), grants(t, "2024-04", 100, "member-42"))
	}
	if err := apply("job-1"); err != nil {
		t.Fatal(err)
	}
	before := books(t, s, "member-42")
	for _, later := range []time.Duration{11 * time.Minute, 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		now = epoch.Add(later)
		same(t, "by the same job", outcomes(refused(t, apply("job-1"))), map[int]string{0: "duplicate"})
		same(t, "by another", outcomes(refused(t, apply("job-2"))), map[int]string{0: "already"})
	}
	same(t, "the table afterwards", books(t, s, "member-42"), before)
}

// TXN-13: two months of one member that overlap lose nothing: the balance grows by an addition, and is never read and put back.
func TestInterleavedMonthsLoseNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	plain := ledger.New(s, points, clock)
	inner := sync.OnceValue(func() error {
		return plain.Apply(t.Context(), by("job-4", 100), grants(t, "2024-04", 100, "member-42"))
	})
	l := ledger.New(sim.Script(s, func(sim.Call) (bool, error) { return true, inner() }), points, clock) // April at the latest moment of March
	if err := l.Apply(t.Context(), by("job-3", 100), grants(t, "2024-03", 100, "member-42")); err != nil {
		t.Fatal(err)
	}
	same(t, "balance", balance(t, plain, "member-42"), ledger.Balance{N: 200, Entries: 2})

	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			period := fmt.Sprintf("%d-%02d", 2030+i/12, i%12+1)
			if err := plain.Apply(t.Context(), by("job-"+period, 100), grants(t, period, 100, "member-42")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	same(t, "balance", balance(t, plain, "member-42"), ledger.Balance{N: 2600, Entries: 26})
	sums(t, s, "member-42")
}

// SQS-02: of many that apply one key at once exactly one does; the others are refused by its entry.
func TestOfManyAtOnceOneApplies(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			job := fmt.Sprintf("job-%d", i%2) // eight deliveries of each of two jobs
			err := l.Apply(t.Context(), by(job, 100), grants(t, "2024-04", 100, "member-42"), count(job, 1))
			how := "applied"
			if err != nil {
				how = outcomes(refused(t, err))[0]
			}
			mu.Lock()
			got[how]++
			mu.Unlock()
		})
	}
	wg.Wait()
	same(t, "outcomes", got, map[string]int{"applied": 1, "duplicate": 7, "already": 8})
	sums(t, s, "member-42")
}

// TXN-01: contention is told by position, the caller's writes apart, and is never an outcome of a posting.
func TestContentionIsToldByPosition(t *testing.T) {
	t.Parallel()
	s := open(t)
	var busy *store.Busy
	l := ledger.New(sim.Script(s, func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact {
			return false, busy
		}
		return true, nil
	}), points, clock)
	apply := func(postings []once.Posting) error {
		return l.Apply(t.Context(), by("job-1", 100), postings, count("job-1", 2))
	}
	// The writes of a posting that adds are its balance and its entry: 0 and 1 of a, 2 and 3 of b, 4 of the caller.
	adds := func() error { return apply(grants(t, "2024-04", 100, "a", "b")) }
	// One that puts a document has its entry only: 0 of a, 1 of b, 2 of the caller.
	puts := func() error {
		return apply([]once.Posting{
			{Key: key(t, "2024-04", "a"), Effects: []once.Effect{once.Put{Subject: "a", Name: "text", Doc: store.Attrs{"text": "x"}}}},
			{Key: key(t, "2024-04", "b"), Effects: []once.Effect{once.Put{Subject: "b", Name: "text", Doc: store.Attrs{"text": "y"}}}},
		})
	}
	fails := func() error { // entries only, too
		return l.Fail(t.Context(), by("job-1", 100), []once.Key{key(t, "2024-04", "a"), key(t, "2024-04", "b")}, []bool{false, true}, count("job-1", 2))
	}
	for _, tt := range []struct {
		call                   func() error
		conflicts              []int
		wantPostings, wantWith []int
	}{
		{adds, []int{3}, []int{1}, nil},
		{adds, []int{0, 4}, []int{0}, []int{0}},
		{adds, []int{4}, nil, []int{0}},
		{adds, nil, nil, nil}, // throttled
		{puts, []int{1}, []int{1}, nil},
		{puts, []int{0, 2}, []int{0}, []int{0}},
		{fails, []int{1}, []int{1}, nil},
		{fails, []int{0, 2}, []int{0}, []int{0}},
	} {
		busy = &store.Busy{Conflicts: tt.conflicts, Reason: "a test"}
		err := tt.call()
		var b *ledger.Busy
		if !errors.As(err, &b) || !errors.Is(err, busy) {
			t.Fatalf("conflicts %v: got %v, want *ledger.Busy around the store's", tt.conflicts, err)
		}
		same(t, "postings in conflict", b.Postings, tt.wantPostings)
		same(t, "writes of the caller in conflict", b.With, tt.wantWith)
	}
	if got := books(t, s, "a", "b", "job-1"); len(got) != 0 {
		t.Errorf("written: %v", got)
	}
}
