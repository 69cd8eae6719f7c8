package worker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// row is one way in which a subject may stand when its message comes.
type row string

const (
	fresh          row = "fresh"            // nobody has touched it
	duplicate      row = "duplicate"        // applied by this job
	already        row = "already"          // applied by another job, same content
	conflicting    row = "conflicting"      // applied by another job, other content
	failedBefore   row = "failed before"    // its entry is failed: take over
	settledFailed  row = "settled failed"   // this job settled it as failed; the reason has gone away meanwhile
	settledAlready row = "settled already"  // this job settled it as already
	permanent      row = "permanent"        // can never be worked on
	permanentTwice row = "permanent twice"  // the same, and it was so for an earlier job
	invalid        row = "invalid"          // the store can never accept it
	invalidTwice   row = "invalid twice"    // the same, and its entry is failed
	transient      row = "transient"        // its effects cannot be known now
	panics         row = "panics"           // its effects panic
	wrongEffects   row = "impossible"       // its effects are none that a ledger takes: a mistake of the kind
	sameTwice      row = "twice in a batch" // fresh, and delivered twice at once
)

var allRows = []row{
	fresh, duplicate, already, conflicting, failedBefore, settledFailed, settledAlready, permanent, permanentTwice, invalid, invalidTwice, transient, panics, wrongEffects, sameTwice,
}

const (
	reasonGone = "record-missing"
	noReason   = "record-changed"
)

// want is what becomes of a row.
type want struct {
	entry   ledger.State // afterwards
	balance int64
	counted string // applied, already or a reason; "" for not settled
	again   bool   // the message comes again
}

var wants = map[row]want{
	fresh:          {ledger.Applied, 100, "applied", false},
	duplicate:      {ledger.Applied, 100, "applied", false},
	already:        {ledger.Applied, 100, "already", false},
	conflicting:    {ledger.Applied, 200, job.ReasonConflictingEntry, false},
	failedBefore:   {ledger.Applied, 100, "applied", false},
	settledFailed:  {ledger.Failed, 0, noReason, false},
	settledAlready: {ledger.Applied, 100, "already", false},
	permanent:      {ledger.Failed, 0, reasonGone, false},
	permanentTwice: {ledger.Failed, 0, reasonGone, false},
	invalid:        {ledger.Failed, 0, job.ReasonInvalid, false},
	invalidTwice:   {ledger.Failed, 0, job.ReasonInvalid, false},
	transient:      {"", 0, "", true},
	panics:         {"", 0, "", true},
	wrongEffects:   {"", 0, "", true},
	sameTwice:      {ledger.Applied, 100, "applied", false},
}

// huge is larger than any item may be.
var huge = strings.Repeat("x", store.MaxItem)

// bystander is a member whom no test of rows touches before its end: with it no job completes earlier.
const bystander = "bystander"

// stage makes a job whose subjects stand as their rows say: two earlier jobs of the period did the rest.
func stage(t *testing.T, w *world, cast map[row][]string) job.Job {
	t.Helper()
	of := map[string]row{}
	w.addMembers(bystander)
	for r, members := range cast {
		w.addMembers(members...)
		for _, m := range members {
			of[m] = r
		}
	}
	fails := func(reason string, rows ...row) {
		w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
			for _, r := range rows {
				if of[subject] == r {
					return nil, job.Permanent(reason, errors.New("gone"))
				}
			}
			return w.kind.monthly.Effects(t.Context(), j, subject)
		}
	}
	settle := func(j job.Job, members ...string) {
		t.Helper()
		if len(members) > 0 {
			equal(t, "handed back while the stage is set", w.deliver(w.worker(nil), bodies(j, members...)...), []string{})
		}
	}

	first := w.fire(april, 200)
	settle(first, cast[conflicting]...)
	w.cancel(first)

	second := w.run(100)
	fails(noReason, failedBefore, permanentTwice, invalidTwice)
	settle(second, cast[already]...)
	settle(second, cast[settledAlready]...)
	settle(second, cast[failedBefore]...)
	settle(second, cast[permanentTwice]...)
	settle(second, cast[invalidTwice]...)
	w.cancel(second)

	third := w.run(100)
	fails(noReason, settledFailed)
	settle(third, cast[duplicate]...)
	settle(third, cast[settledAlready]...)
	settle(third, cast[settledFailed]...)

	w.kind.effects = func(j job.Job, subject string) ([]once.Effect, error) {
		switch of[subject] {
		case permanent, permanentTwice:
			return nil, job.Permanent(reasonGone, errors.New("gone"))
		case invalid, invalidTwice:
			return []once.Effect{once.Put{Subject: subject, Name: "text", Doc: store.Attrs{"text": huge}}}, nil
		case transient:
			return nil, errors.New("the source does not answer")
		case panics:
			panic("a bug of the kind")
		case wrongEffects:
			return []once.Effect{once.Add{Subject: "somebody-else", Name: monthlypoint.Balance, N: 1}}, nil
		}
		return w.kind.monthly.Effects(t.Context(), j, subject)
	}
	return third
}

// verify compares what became of the cast with the table.
func verify(t *testing.T, w *world, j job.Job, cast map[row][]string, wants map[row]want) {
	t.Helper()
	var counts job.Counts
	reasons := map[string]int64{}
	for r, members := range cast {
		for _, m := range members {
			if got := w.state(m); got != wants[r].entry {
				t.Errorf("%s: entry of %s is %q, want %q", r, m, got, wants[r].entry)
			}
			if got := w.balance(m); got != wants[r].balance {
				t.Errorf("%s: balance of %s is %d, want %d", r, m, got, wants[r].balance)
			}
			switch c := wants[r].counted; c {
			case "":
			case "applied":
				counts.Applied++
			case "already":
				counts.Already++
			default:
				counts.Failed++
				reasons[c]++
			}
		}
	}
	equal(t, "counts", w.counts(j), counts)
	equal(t, "failures", w.reasons(j), reasons)
}

// interleave deals the members of all rows in turn, so that every transaction meets every row.
func interleave(cast map[row][]string) (members []string, of []row) {
	for i := 0; ; i++ {
		before := len(members)
		for _, r := range allRows {
			if i >= len(cast[r]) {
				continue
			}
			members, of = append(members, cast[r][i]), append(of, r)
			if r == sameTwice {
				members, of = append(members, cast[r][i]), append(of, r)
			}
		}
		if len(members) == before {
			return members, of
		}
	}
}

// Every row of the table in the package comment, by itself, one at a time and in two full transactions. SQS-01, TXN-02, TXN-05, JOB-13, JOB-15, JOB-18
func TestRowAlone(t *testing.T) {
	t.Parallel()
	for _, r := range allRows {
		for _, n := range []int{1, 2 * ledger.MaxGroup} {
			if n > 1 && (r == invalid || r == invalidTwice) {
				n = 5 // they are large
			}
			t.Run(fmt.Sprintf("%s x %d", r, n), func(t *testing.T) {
				t.Parallel()
				cast := map[row][]string{r: names("member", n)}
				w := newWorld(t)
				j := stage(t, w, cast)
				members, _ := interleave(cast)

				x := wants[r]
				if r == invalid || r == invalidTwice { // nothing of the kind was ever accepted: the deployment may be wrong
					x = want{w.state(cast[r][0]), 0, "", true}
				}
				again := []string{}
				if x.again {
					for i := range members {
						again = append(again, fmt.Sprintf("m%d", i))
					}
					again = sorted(again)
				}
				for range 2 { // the second delivery changes nothing
					equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, members...)...), again)
					verify(t, w, j, cast, map[row]want{r: x})
				}
				w.deliver(w.worker(nil), bodies(j, bystander)...)
				if state := w.job(j.ID).State; (state == job.Completed) == x.again {
					t.Errorf("job is %s, and messages come again: %v", state, x.again)
				}
			})
		}
	}
}

// All rows in one delivery of one and of two full transactions: none is in the way of another.
func TestRowsMixed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{ledger.MaxGroup, 2 * ledger.MaxGroup} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			mixed(t, newWorld(t), n)
		})
	}
}

// mixed delivers n messages of all rows.
func mixed(t *testing.T, w *world, n int) {
	t.Helper()
	cast := map[row][]string{}
	for left, i := n, 0; left > 0; i++ {
		r := allRows[i%len(allRows)]
		if r == sameTwice {
			if left < 2 {
				continue
			}
			left--
		}
		left--
		cast[r] = append(cast[r], fmt.Sprintf("%s-%02d", strings.ReplaceAll(string(r), " ", "-"), i))
	}
	j := stage(t, w, cast)
	members, of := interleave(cast)
	if len(members) != n {
		t.Fatalf("%d messages, want %d", len(members), n)
	}
	again := []string{}
	for i := range members {
		if wants[of[i]].again {
			again = append(again, fmt.Sprintf("m%d", i))
		}
	}
	again = sorted(again)
	for range 2 {
		equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, members...)...), again)
		verify(t, w, j, cast, wants)
	}

	// The sources recover: what was handed back is applied, and the job completes.
	w.kind.effects = nil
	now := map[row]want{}
	for r, x := range wants {
		if x.again {
			x = wants[fresh]
		}
		now[r] = x
	}
	equal(t, "handed back in the end", w.deliver(w.worker(nil), bodies(j, members...)...), []string{})
	verify(t, w, j, cast, now)
	equal(t, "the last", w.deliver(w.worker(nil), bodies(j, bystander)...), []string{})
	equal(t, "job", w.job(j.ID).State, job.Completed)
}

// A subject that the store can never accept is a failure only where another process, or this one, has had a posting of the kind accepted. TXN-05
func TestInvalidAfterAnotherProcessWasAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cast := map[row][]string{invalid: names("invalid", 3), fresh: names("fresh", 1)}
	j := stage(t, w, cast)
	lonely := w.worker(nil)
	equal(t, "without a neighbour", w.deliver(lonely, bodies(j, cast[invalid]...)...), ids(0, 1, 2))
	equal(t, "another process", w.deliver(w.worker(nil), bodies(j, cast[fresh]...)...), []string{})
	equal(t, "after a neighbour", w.deliver(lonely, bodies(j, cast[invalid]...)...), []string{})
	verify(t, w, j, cast, wants)
	equal(t, "the last", w.deliver(lonely, bodies(j, bystander)...), []string{})
	equal(t, "job", w.job(j.ID).State, job.Completed)
}
