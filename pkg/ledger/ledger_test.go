package ledger_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// members are m-00, m-01, ...
func members(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("m-%02d", i)
	}
	return out
}

func TestApplyWritesAFullGroupItsBalancesAndTheCallersCountTogether(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	group := members(ledger.MaxGroup)
	if err := l.Apply(t.Context(), by("job-1", 100), grants(t, "2024-04", 100, group...), count("job-1", 49)); err != nil {
		t.Fatal(err)
	}
	for _, m := range group {
		e, ok, err := l.Entry(t.Context(), key(t, "2024-04", m))
		if err != nil || !ok {
			t.Fatalf("entry of %s: %v, %v", m, ok, err)
		}
		same(t, "entry of "+m, e, ledger.Entry{
			Key: "monthly-point:2024-04:" + m, State: ledger.Applied, Amount: 100, Balance: "points",
			Digest: once.Digest(key(t, "2024-04", m), `{"amount":100}`), Job: "job-1", Scheduled: epoch, At: epoch,
		})
		same(t, "balance of "+m, balance(t, l, m), ledger.Balance{N: 100, Entries: 1})
	}
	same(t, "count of the caller", items(t, s, tally, "job-1")[0].Attrs, store.Attrs{"n": int64(49)})
	sums(t, s, group...)
}

// TXN-02, TXN-03: what a refused transaction means is told by the position and by the item that is in the way, for each posting by itself; nothing is written, and the neighbours
// go through without them.
func TestARefusalNamesEachPostingInTheWay(t *testing.T) {
	t.Parallel()
	const us, other = "job-2", "job-1"
	group := []string{"none", "ours", "other", "differs", "failed", "failed-by-us", "free"}
	prepare := func(t *testing.T) (store.Store, *ledger.Ledger) {
		s := open(t)
		l := ledger.New(s, points, clock)
		for _, err := range []error{
			l.Apply(t.Context(), by(us, 100), grants(t, "2024-04", 100, "ours")),
			l.Apply(t.Context(), by(other, 100), grants(t, "2024-04", 100, "other")),
			l.Apply(t.Context(), by(other, 250), grants(t, "2024-04", 250, "differs")),
			l.Fail(t.Context(), by(other, 100), []once.Key{key(t, "2024-04", "failed")}, []bool{false}),
			l.Fail(t.Context(), by(us, 100), []once.Key{key(t, "2024-04", "failed-by-us")}, []bool{false}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return s, l
	}
	applied := map[int]string{1: "duplicate", 2: "already", 3: "conflict"}
	with := func(more map[int]string) map[int]string {
		out := map[int]string{}
		for _, m := range []map[int]string{applied, more} {
			for k, v := range m {
				out[k] = v
			}
		}
		return out
	}
	for _, tt := range []struct {
		name string
		call func(*testing.T, *ledger.Ledger, []once.Posting, ...store.Write) error
		want map[int]string
		then string // the state of the entries that went through
	}{
		{"apply", func(t *testing.T, l *ledger.Ledger, p []once.Posting, w ...store.Write) error {
			return l.Apply(t.Context(), by(us, 100), p, w...)
		}, with(map[int]string{4: "failed", 5: "failed"}), "applied"},
		{"take over", func(t *testing.T, l *ledger.Ledger, p []once.Posting, w ...store.Write) error {
			return l.TakeOver(t.Context(), by(us, 100), p, w...)
		}, with(map[int]string{0: "none", 6: "none"}), "applied"},
		{"fail", func(t *testing.T, l *ledger.Ledger, p []once.Posting, w ...store.Write) error {
			return l.Fail(t.Context(), by(us, 100), keysOf(p), make([]bool, len(p)), w...)
		}, with(map[int]string{4: "failed", 5: "failed"}), "failed"},
		{"fail what is failed", func(t *testing.T, l *ledger.Ledger, p []once.Posting, w ...store.Write) error {
			before := make([]bool, len(p))
			for i := range before {
				before[i] = true
			}
			return l.Fail(t.Context(), by(us, 100), keysOf(p), before, w...)
		}, with(map[int]string{0: "none", 6: "none"}), "failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, l := prepare(t)
			all := append([]string{us}, group...)
			before := books(t, s, all...)
			postings := grants(t, "2024-04", 100, group...)
			r := refused(t, tt.call(t, l, postings, count(us, 7)))
			same(t, "in the way", outcomes(r), tt.want)
			if len(r.With) != 0 {
				t.Errorf("writes of the caller in the way: %v, want none", r.With)
			}
			same(t, "the table after a refusal", books(t, s, all...), before)

			var rest []once.Posting
			for i, p := range postings {
				if _, inTheWay := tt.want[i]; !inTheWay {
					rest = append(rest, p)
				}
			}
			if err := tt.call(t, l, rest, count(us, int64(len(rest)))); err != nil {
				t.Fatalf("the neighbours without it: %v", err)
			}
			for _, p := range rest {
				if e, _, err := l.Entry(t.Context(), p.Key); err != nil || string(e.State) != tt.then {
					t.Errorf("entry %s is %s (%v), want %s", p.Key, e.State, err, tt.then)
				}
			}
			sums(t, s, group...)
		})
	}
}

// TXN-03: a write of the caller in the way is not taken for an entry in the way.
func TestARefusalTellsTheCallersWritesApart(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	if err := s.Transact(t.Context(), store.Insert(countKey("shut"), store.Attrs{"open": false})); err != nil {
		t.Fatal(err)
	}
	shut := store.Update(countKey("shut"), nil, map[string]int64{"n": 2}, store.Equals("open", true))
	before := books(t, s, "a", "b", "shut", "job-1")
	r := refused(t, l.Apply(t.Context(), by("job-1", 100), grants(t, "2024-04", 100, "a", "b"), count("job-1", 2), shut))
	if len(r.Postings) != 0 || len(r.With) != 1 || r.With[0].Index != 1 || r.With[0].Old.Attrs["open"] != false {
		t.Errorf("got %+v, want write 1 of the caller with the item as it stood, and no posting", r)
	}
	same(t, "the table after a refusal", books(t, s, "a", "b", "shut", "job-1"), before)
}

// KEY-09, TXN-05: a balance that would overflow, or is text, can never be accepted: the posting is Invalid by its own index, nothing of the group is written, and the neighbours
// go through without it.
func TestABalanceThatCannotGrowIsInvalid(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]store.Attrs{
		"overflow": {"n": int64(math.MaxInt64 - 7), "entries": int64(1)},
		"text":     {"n": "100", "entries": int64(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			l := ledger.New(s, points, clock)
			if err := s.Transact(t.Context(), store.Insert(store.Key{Table: points, PK: "b", SK: "points"}, broken)); err != nil {
				t.Fatal(err)
			}
			before := books(t, s, "a", "b", "c", "job-1")
			r := refused(t, l.Apply(t.Context(), by("job-1", 100), grants(t, "2024-04", 100, "a", "b", "c"), count("job-1", 3)))
			same(t, "in the way", outcomes(r), map[int]string{1: "invalid"})
			if r.Postings[0].Why == "" {
				t.Error("an invalid posting without a reason")
			}
			same(t, "the table after a refusal", books(t, s, "a", "b", "c", "job-1"), before)
			if err := l.Apply(t.Context(), by("job-1", 100), grants(t, "2024-04", 100, "a", "c"), count("job-1", 2)); err != nil {
				t.Fatal(err)
			}
			sums(t, s, "a", "c")
		})
	}
}

// An entry that is there decides, even where the balance is broken as well: the posting is no mistake, it is done.
func TestAnEntryInTheWayDecidesBeforeABrokenBalance(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	apply := func(job string) error { return l.Apply(t.Context(), by(job, 100), grants(t, "2024-04", 100, "a")) }
	if err := apply("job-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Transact(t.Context(), store.Put(store.Key{Table: points, PK: "a", SK: "points"}, store.Attrs{"n": "100"})); err != nil {
		t.Fatal(err)
	}
	// A back end names at least one write in the way: this one must name the entry, or nothing but the balance.
	r := refused(t, apply("job-2"))
	if got := outcomes(r); len(got) != 1 || got[0] != "already" {
		t.Errorf("in the way: %v, want already", got)
	}
}

// KEY-09: amounts beyond 2^53 are exact in entry, balance and answer.
func TestLargeAmountsStayExact(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	const start = 9007199254740993 // 2^53 + 1, no float64
	if err := s.Transact(t.Context(), store.Insert(store.Key{Table: points, PK: "a", SK: "points"}, ledger.Balance{N: start, Entries: 1})); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(t.Context(), by("job-1", once.MaxAmount), grants(t, "2024-04", once.MaxAmount, "a")); err != nil {
		t.Fatal(err)
	}
	same(t, "balance", balance(t, l, "a"), ledger.Balance{N: start + once.MaxAmount, Entries: 2})
	if err := l.Apply(t.Context(), by("job-1", -once.MaxAmount), grants(t, "2024-05", -once.MaxAmount, "a")); err != nil {
		t.Fatal(err)
	}
	same(t, "balance", balance(t, l, "a"), ledger.Balance{N: start, Entries: 3})
}

func TestWhatIsNoPostingIsRefusedBeforeAnythingIsTried(t *testing.T) {
	t.Parallel()
	s := open(t)
	never := sim.Script(s, func(c sim.Call) (bool, error) {
		t.Errorf("%s was called", c.Op)
		return true, nil
	})
	l := ledger.New(never, points, clock)
	k := key(t, "2024-04", "a")
	for name, effects := range map[string][]once.Effect{
		"no effect":         nil,
		"another subject":   {once.Add{Subject: "b", Name: "points", N: 1}},
		"nothing":           {once.Add{Subject: "a", Name: "points", N: 0}},
		"beyond the bound":  {once.Add{Subject: "a", Name: "points", N: once.MaxAmount + 1}},
		"a key as balance":  {once.Add{Subject: "a", Name: "x:y:z", N: 1}},
		"two of a sort":     {once.Add{Subject: "a", Name: "points", N: 1}, once.Add{Subject: "a", Name: "gems", N: 1}},
		"a float":           {once.Put{Subject: "a", Name: "doc", Doc: struct{ X float64 }{0.5}}},
		"text not in UTF-8": {once.Put{Subject: "a", Name: "doc", Doc: struct{ X string }{"\xff"}}},
	} {
		err := l.Apply(t.Context(), by("job-1", 100), []once.Posting{{Key: k, Effects: effects}})
		var r *ledger.Refused
		if err == nil || errors.As(err, &r) {
			t.Errorf("%s: got %v, want an error that is no refusal", name, err)
		}
	}
}

func TestADocumentIsKeptInTheEntry(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	type found struct {
		Words []string `json:"words"`
		Big   int64    `json:"big"`
	}
	put := func(subject string, doc any) []once.Posting {
		return []once.Posting{{Key: key(t, "d@3", subject), Effects: []once.Effect{once.Put{Subject: subject, Name: "keywords", Doc: doc}}}}
	}
	if err := l.Apply(t.Context(), by("job-1", 1), put("record-1@1", found{[]string{"한", "번"}, math.MaxInt64})); err != nil {
		t.Fatal(err)
	}
	e, ok, err := l.Entry(t.Context(), key(t, "d@3", "record-1@1"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	same(t, "document", e.Doc, store.Attrs{"words": []any{"한", "번"}, "big": int64(math.MaxInt64)})
	if n := len(items(t, s, points, "record-1@1")); n != 1 {
		t.Errorf("%d items, want the entry alone", n)
	}
	// An item has a bound; one that is beyond it can never be accepted.
	r := refused(t, l.Apply(t.Context(), by("job-1", 1), put("record-2@1", found{Words: []string{strings.Repeat("x", store.MaxItem)}})))
	same(t, "in the way", outcomes(r), map[int]string{0: "invalid"})

	both := []once.Posting{{Key: key(t, "d@3", "record-3@1"), Effects: []once.Effect{
		once.Add{Subject: "record-3@1", Name: "points", N: 5}, once.Put{Subject: "record-3@1", Name: "keywords", Doc: found{}},
	}}}
	if err := l.Apply(t.Context(), by("job-1", 1), both); err != nil {
		t.Fatal(err)
	}
	sums(t, s, "record-3@1")
}

func TestTakeOverPutsTheAppliedEntryOverTheFailedOne(t *testing.T) {
	t.Parallel()
	s := open(t)
	l := ledger.New(s, points, clock)
	group := members(ledger.MaxTakeOver)
	postings := grants(t, "2024-04", 100, group...)
	if err := l.Fail(t.Context(), by("job-1", 100), keysOf(postings), make([]bool, len(postings)), count("job-1", 32)); err != nil {
		t.Fatal(err)
	}
	sums(t, s, group...)
	how, err := l.Standing(t.Context(), by("job-1", 100), keysOf(postings)...)
	if err != nil || how[0] != ledger.FailedOnce {
		t.Fatalf("standing after a failure: %v, %v", how, err)
	}
	checks := []store.Write{count("job-2", 32)}
	for _, m := range group {
		checks = append(checks, store.Check(countKey("settled-"+m), store.Absent()))
	}
	if err := l.TakeOver(t.Context(), by("job-2", 100), postings, checks...); err != nil {
		t.Fatal(err)
	}
	sums(t, s, group...)
	// Repeated, it finds itself; for another job it is done.
	same(t, "repeated", outcomes(refused(t, l.TakeOver(t.Context(), by("job-2", 100), postings[:1]))), map[int]string{0: "duplicate"})
	same(t, "by another", outcomes(refused(t, l.TakeOver(t.Context(), by("job-3", 100), postings[:1]))), map[int]string{0: "already"})
	sums(t, s, group...)
}
