package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// try is one transaction that a worker tried on the ledger.
type try struct {
	members []string
	shard   string
	at      int // index of the shard among the writes
}

// tryOf reads a call; ok is false for what is no posting.
func tryOf(c sim.Call) (x try, ok bool) {
	if c.Op != sim.Transact {
		return x, false
	}
	for i, k := range c.Keys {
		switch {
		case strings.HasPrefix(k.PK, "TALLY#"):
			x.shard, x.at = k.PK, i
		case k.Table == monthlypoint.Table && k.SK != monthlypoint.Balance:
			x.members = append(x.members, k.PK)
		}
	}
	return x, len(x.members) > 0 && x.shard != ""
}

// recorder keeps the transactions that a worker tried, and answers each as the test says.
type recorder struct {
	mu     sync.Mutex
	tries  []try
	answer func(n int, x try, c sim.Call) (bool, error) // n counts from 1
}

func (r *recorder) hook(c sim.Call) (bool, error) {
	x, ok := tryOf(c)
	if !ok {
		return true, nil
	}
	r.mu.Lock()
	r.tries = append(r.tries, x)
	n := len(r.tries)
	r.mu.Unlock()
	if r.answer == nil {
		return true, nil
	}
	return r.answer(n, x, c)
}

func (r *recorder) sizes() []int {
	var out []int
	for _, x := range r.tries {
		out = append(out, len(x.members))
	}
	return out
}

// A member whose item another transaction holds goes alone, and holds up nobody. TXN-01
func TestConflictOnAPosting(t *testing.T) {
	t.Parallel()
	members := names("member", ledger.MaxGroup)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	r := &recorder{}
	r.answer = func(n int, x try, c sim.Call) (bool, error) {
		if at := slices.IndexFunc(c.Keys, func(k store.Key) bool { return k.PK == "member-007" }); at >= 0 && n <= 2 {
			return false, fmt.Errorf("TransactWriteItems: %w", &store.Busy{Conflicts: []int{at}, Reason: "TransactionConflict"}) // wrapped: TXN-07
		}
		return true, nil
	}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, members...)...), ids())
	equal(t, "sizes", r.sizes(), []int{49, 48, 1})
	equal(t, "alone", r.tries[2].members, []string{"member-007"})
	equal(t, "counts", w.counts(j), job.Counts{Applied: 49})
}

// A shard that another worker holds is left to it: the same group goes again with the next. TXN-01, TXN-17
func TestConflictOnTheShard(t *testing.T) {
	t.Parallel()
	members := names("member", ledger.MaxGroup)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	r := &recorder{}
	r.answer = func(n int, x try, c sim.Call) (bool, error) {
		if n <= 3 {
			return false, &store.Busy{Conflicts: []int{x.at}, Reason: "TransactionConflict"}
		}
		return true, nil
	}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, members...)...), ids())
	equal(t, "sizes", r.sizes(), []int{49, 49, 49, 49})
	shards := map[string]bool{}
	for _, x := range r.tries {
		shards[x.shard] = true
	}
	equal(t, "different shards", len(shards), 4)
}

// The same message twice in one delivery is one posting: a transaction never holds two for one member. SQS-01, TXN-08
func TestSameMessageTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "member-42", "member-43")
	j := w.fire(april, 100)
	r := &recorder{}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, "member-42", "member-42", "member-43", "member-42")...), ids())
	equal(t, "sizes", r.sizes(), []int{2})
	equal(t, "balances", []int64{w.balance("member-42"), w.balance("member-43")}, []int64{100, 100})
}

// A conflict that does not go away hands the message back after a bounded number of tries. TXN-01
func TestConflictWithoutEnd(t *testing.T) {
	t.Parallel()
	members := names("member", 3)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	r := &recorder{answer: func(_ int, x try, c sim.Call) (bool, error) {
		return false, &store.Busy{Conflicts: []int{x.at}, Reason: "TransactionConflict"}
	}}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, members...)...), ids(0, 1, 2))
	if n := len(r.tries); n < 2 || n > 20 {
		t.Errorf("%d tries, want a few", n)
	}
	equal(t, "entries", []ledger.State{w.state(members[0]), w.state(members[1]), w.state(members[2])}, []ledger.State{"", "", ""})
}

// Throttling halves the groups, 49, 24, 12, 6; without end it hands everything back; success lets them grow again.
func TestThrottling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // for the pauses
		w := newWorld(t)
		members := names("member", 12*ledger.MaxGroup)
		w.addMembers(members...)
		j := w.fire(april, 100)
		small := func(_ int, x try, _ sim.Call) (bool, error) {
			if len(x.members) > 6 {
				return false, &store.Busy{Reason: "ThrottlingError"}
			}
			return true, nil
		}
		r := &recorder{answer: small}
		b := w.worker(r.hook)
		equal(t, "handed back", w.deliver(b, bodies(j, members[:49]...)...), ids())
		equal(t, "counts", w.counts(j), job.Counts{Applied: 49})
		if sizes := r.sizes(); sizes[0] != 49 || !slices.Contains(sizes, 24) || !slices.Contains(sizes, 12) || !slices.Contains(sizes, 6) {
			t.Errorf("sizes %v, want 49, 24, 12 and 6 among them", sizes)
		}

		r.answer = func(int, try, sim.Call) (bool, error) { return false, &store.Busy{Reason: "ThrottlingError"} }
		if got := w.deliver(b, bodies(j, members[49:]...)...); len(got) != len(members)-49 {
			t.Errorf("%d handed back while nothing is accepted, want all %d", len(got), len(members)-49)
		}
		r.answer, r.tries = nil, nil
		for i := 1; i < 12; i++ {
			equal(t, "handed back", w.deliver(b, bodies(j, members[49*i:49*(i+1)]...)...), ids())
		}
		if sizes := r.sizes(); sizes[0] != 6 || sizes[len(sizes)-1] != 49 {
			t.Errorf("sizes %v, want them to begin at 6 and end at 49", sizes)
		}
		equal(t, "job", w.job(j.ID).State, job.Completed)
	})
}

// An error without a definite answer is tried again in place: what had been written refuses it as its own earlier write. TXN-10, TXN-07
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		for _, err := range []error{
			errors.New("read: connection reset by peer"),
			errors.New("ConditionalCheckFailed: the conditional request failed"), // looks like a refusal, and is none
			errors.New("ValidationException: one or more parameter values were invalid"),
			context.DeadlineExceeded, // of the call, not of the delivery
		} {
			t.Run(fmt.Sprintf("written %v, %v", written, err), func(t *testing.T) {
				t.Parallel()
				members := names("member", ledger.MaxGroup)
				w := newWorld(t, members...)
				j := w.fire(april, 100)
				r := &recorder{answer: func(n int, _ try, _ sim.Call) (bool, error) {
					if n <= 2 {
						return written, err
					}
					return true, nil
				}}
				equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, members...)...), ids())
				equal(t, "counts", w.counts(j), job.Counts{Applied: 49})
				equal(t, "balance", w.balance("member-007"), int64(100))
				equal(t, "job", w.job(j.ID).State, job.Completed)
			})
		}
	}
}

// A store that never answers gets every message back, after a bounded number of tries, and whatever it did meanwhile is not done again. TXN-01, TXN-10
func TestNoAnswerEver(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprintf("written %v", written), func(t *testing.T) {
			t.Parallel()
			members := names("member", 98)
			w := newWorld(t, members...)
			j := w.fire(april, 100)
			r := &recorder{answer: func(int, try, sim.Call) (bool, error) { return written, errors.New("no answer") }}
			got := w.deliver(w.worker(r.hook), bodies(j, members...)...)
			if len(got) != 98 || len(r.tries) > 98+2*4 {
				t.Errorf("%d handed back after %d tries, want 98 after about 100", len(got), len(r.tries))
			}
			equal(t, "handed back by the next", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
			equal(t, "counts", w.counts(j), job.Counts{Applied: 98})
			equal(t, "job", w.job(j.ID).State, job.Completed)
		})
	}
}

// Settlements whose answers are lost are counted once too.
func TestAnswerOfASettlementLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cast := map[row][]string{}
	for _, r := range []row{already, conflicting, failedBefore, permanent, permanentTwice} {
		cast[r] = names(strings.ReplaceAll(string(r), " ", "-"), 5)
	}
	j := stage(t, w, cast)
	members, _ := interleave(cast)
	var mu sync.Mutex
	seen := map[string]bool{}
	lossy := func(c sim.Call) (bool, error) { // the first answer to each set of writes
		if c.Op != sim.Transact || !c.Touches("jobs/TALLY#") {
			return true, nil
		}
		writes := ""
		for _, x := range c.Writes {
			if !strings.HasPrefix(x.Key.PK, "TALLY#") {
				writes += fmt.Sprint(x.Op, x.Key)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		if !seen[writes] {
			seen[writes] = true
			return true, errors.New("no answer")
		}
		return true, nil
	}
	equal(t, "handed back", w.deliver(w.worker(lossy), bodies(j, members...)...), ids())
	verify(t, w, j, cast, wants)
}

// A job read as RUNNING and cancelled before the first write: nothing is written any more, every message is acknowledged, and no other shard is tried.
func TestCancelBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	members := names("member", 98)
	w := newWorld(t, members...)
	j := w.fire(april, 100)
	var first sync.Once
	var before string
	after := 0
	r := &recorder{answer: func(n int, x try, _ sim.Call) (bool, error) {
		if len(x.members) > 6 {
			return false, &store.Busy{Reason: "ThrottlingError"} // many small groups are to come
		}
		first.Do(func() {
			w.cancel(j)
			before, after = w.snapshot(), n
		})
		return true, nil
	}}
	equal(t, "handed back", w.deliver(w.worker(r.hook), bodies(j, members...)...), ids())
	if n := len(r.tries) - after; n > 2 { // two groups at a time
		t.Errorf("%d tries after the end of the job", n)
	}
	if after := w.snapshot(); after != before {
		t.Errorf("something was written after the end of the job:\n%s\nbefore:\n%s", after, before)
	}
	equal(t, "job", w.job(j.ID).State, job.Cancelled)
	equal(t, "counts", w.counts(j), job.Counts{})
}

// The same with rows that are settled without a ledger, and with a cancel that stops half way, so that only its first shards are closed.
func TestFencedWhileEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cast := map[row][]string{}
	for _, r := range []row{fresh, already, conflicting, failedBefore, permanent} {
		cast[r] = names(strings.ReplaceAll(string(r), " ", "-"), 5)
	}
	j := stage(t, w, cast)
	members, _ := interleave(cast)
	var first sync.Once
	hook := func(c sim.Call) (bool, error) {
		if c.Op == sim.Transact && c.Touches("jobs/TALLY#") {
			first.Do(func() { w.cancel(j) })
		}
		return true, nil
	}
	equal(t, "handed back", w.deliver(w.worker(hook), bodies(j, members...)...), ids())
	equal(t, "counts", w.counts(j), job.Counts{})
	equal(t, "failures", w.reasons(j), map[string]int64{})
}
