package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// Whatever a few jobs do to a few keys, with answers lost and calls repeated: an applied entry never changes, a balance is the sum of its applied entries,
// and what a job counted is the number of its applied entries. The model is a map from keys to states.
func TestLedgerAgainstAModel(t *testing.T) {
	t.Parallel()
	s := open(t)
	walk := 0
	rapid.Check(t, func(rt *rapid.T) {
		walk++
		lose := false
		l := ledger.New(sim.Script(s, func(c sim.Call) (bool, error) {
			if lose && c.Op == sim.Transact {
				return true, sim.ErrNoAnswer
			}
			return true, nil
		}), points, clock)
		type standing struct {
			state  ledger.State
			job    string
			amount int64
		}
		want := map[string]standing{}
		names := []string{fmt.Sprintf("w%d-a", walk), fmt.Sprintf("w%d-b", walk), fmt.Sprintf("w%d-c", walk)}
		name := func(short string) string { return fmt.Sprintf("w%d-%s", walk, short) }
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			job := name(rapid.SampledFrom([]string{"job-1", "job-2"}).Draw(rt, "job"))
			amount := rapid.SampledFrom([]int64{100, 200}).Draw(rt, "amount")
			period := rapid.SampledFrom([]string{"2024-03", "2024-04"}).Draw(rt, "period")
			op := rapid.SampledFrom([]string{"apply", "take over", "fail", "fail again"}).Draw(rt, "op")
			var postings []once.Posting
			for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 2), 1, 3, rapid.ID[int]).Draw(rt, "members") {
				postings = append(postings, grant(t, period, names[i], amount))
			}
			lose = rapid.Bool().Draw(rt, "lose the answer")
			before := make([]bool, len(postings))
			for i := range before {
				before[i] = op == "fail again"
			}
			var err error
			switch op {
			case "apply":
				err = l.Apply(rt.Context(), by(job, amount), postings, count(job, int64(len(postings))))
			case "take over":
				err = l.TakeOver(rt.Context(), by(job, amount), postings, count(job, int64(len(postings))))
			default:
				err = l.Fail(rt.Context(), by(job, amount), keysOf(postings), before)
			}
			through := true
			for _, p := range postings {
				state := want[p.Key.String()].state
				through = through && (op == "apply" || op == "fail") == (state == "") && (op == "take over" || op == "fail again") == (state == ledger.Failed)
			}
			var r *ledger.Refused
			switch {
			case lose && !errors.Is(err, sim.ErrNoAnswer), !lose && through && err != nil, !lose && !through && !errors.As(err, &r):
				rt.Fatalf("%s of %v: %v, want it to go through: %v", op, keysOf(postings), err, through)
			}
			if !through {
				continue
			}
			for _, p := range postings {
				switch op {
				case "apply", "take over":
					want[p.Key.String()] = standing{ledger.Applied, job, amount}
				case "fail":
					want[p.Key.String()] = standing{ledger.Failed, job, 0}
				}
			}
		}
		counted := map[string]int64{}
		for _, n := range names {
			h, err := l.History(rt.Context(), n, "", 0)
			if err != nil {
				rt.Fatal(err)
			}
			var sum ledger.Balance
			for _, e := range h.Entries {
				if got := (standing{e.State, e.Job, e.Amount}); got != want[e.Key] {
					rt.Fatalf("entry %s = %+v, want %+v", e.Key, got, want[e.Key])
				}
				delete(want, e.Key)
				if e.State == ledger.Applied {
					sum.N += e.Amount
					sum.Entries++
					counted[e.Job]++
				}
			}
			if got := h.Balances["points"]; got != sum {
				rt.Fatalf("balance of %s = %+v, its entries give %+v", n, got, sum)
			}
		}
		if len(want) > 0 {
			rt.Fatalf("entries missing: %v", want)
		}
		for _, job := range []string{name("job-1"), name("job-2")} {
			var got int64
			for _, it := range items(t, s, tally, job) {
				got, _ = it.Attrs["n"].(int64)
			}
			if got != counted[job] {
				rt.Fatalf("%s counted %d, its entries are %d", job, got, counted[job])
			}
		}
	})
}
