package ledger_test

import (
	"fmt"
	"testing"

	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
)

// DSP-08, DSP-09: pages of any size, also those that end exactly at the limit, give every entry and balance once.
func TestHistoryIsPaged(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	var want []string
	for i := range 12 {
		p := fmt.Sprintf("2024-%02d", i+1)
		want = append(want, "monthly-point:"+p+":member-42")
		if err := l.Apply(t.Context(), by("job-"+p, 100), grants(t, p, 100, "member-42", "member-43")); err != nil {
			t.Fatal(err)
		}
	}
	for _, limit := range []int{0, 1, 2, 5, 12, 13, 14, 100} {
		var got []string
		balances := 0
		for cursor, pages := "", 0; ; pages++ {
			if pages > 20 {
				t.Fatalf("limit %d: no end after %d pages", limit, pages)
			}
			h, err := l.History(t.Context(), "member-42", cursor, limit)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(h.Entries) + len(h.Balances); limit > 0 && n > limit {
				t.Errorf("limit %d: a page of %d", limit, n)
			}
			for _, e := range h.Entries {
				got = append(got, e.Key)
			}
			for name, b := range h.Balances {
				balances++
				if name != "points" || b != (ledger.Balance{N: 1200, Entries: 12}) {
					t.Errorf("limit %d: balance %s = %+v", limit, name, b)
				}
			}
			if cursor = h.Next; cursor == "" {
				break
			}
		}
		same(t, fmt.Sprintf("entries with limit %d", limit), got, want)
		if balances != 1 {
			t.Errorf("limit %d: the balance came %d times", limit, balances)
		}
	}
	if h, err := l.History(t.Context(), "nobody", "", 0); err != nil || len(h.Entries)+len(h.Balances) > 0 || h.Next != "" {
		t.Errorf("history of nobody = %+v, %v", h, err)
	}
	// KEY-02, KEY-04: what is no subject is refused, and no key is read.
	for _, bad := range []string{"", " member-42", "회원", "a:b"} {
		if _, err := l.History(t.Context(), bad, "", 0); err == nil {
			t.Errorf("history of %q was answered", bad)
		}
	}
}

func TestStandingIsSeenFromOneJob(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	keys := []once.Key{key(t, "2024-04", "applied"), key(t, "2024-04", "failed"), key(t, "2024-04", "none")}
	if err := l.Apply(t.Context(), by("job-1", 100), grants(t, "2024-04", 100, "applied")); err != nil {
		t.Fatal(err)
	}
	if err := l.Fail(t.Context(), by("job-1", 100), keys[1:2], []bool{false}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		job    string
		amount int64
		want   ledger.Outcome
	}{
		{"job-1", 100, ledger.Duplicate},
		{"job-1", 999, ledger.Duplicate}, // a job has one content: its own entry is its own, whatever the digest
		{"job-2", 100, ledger.Already},
		{"job-2", 200, ledger.Conflicting},
	} {
		for name, read := range map[string]func() ([]ledger.Outcome, error){
			"strong": func() ([]ledger.Outcome, error) { return l.Standing(t.Context(), by(tt.job, tt.amount), keys...) },
			"stale":  func() ([]ledger.Outcome, error) { return l.StandingStale(t.Context(), by(tt.job, tt.amount), keys...) },
		} {
			got, err := read()
			if err != nil {
				t.Fatal(err)
			}
			same(t, fmt.Sprintf("%s standing for %s with %d", name, tt.job, tt.amount), got, []ledger.Outcome{tt.want, ledger.FailedOnce, ledger.None})
		}
	}
	if _, ok, err := l.Entry(t.Context(), keys[2]); ok || err != nil {
		t.Errorf("entry of nothing: %v, %v", ok, err)
	}
}
