package job_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

// publication is the write of a kind that publishes a result: the text, and how often one was published.
func publication(target, text string) store.Write {
	return store.Update(summaryKey(target), store.Attrs{"text": text}, map[string]int64{"revision": 1})
}

// A claim moves the job from PENDING to RUNNING in its next attempt, with a lease of a minute and a token of its own, and touches nothing else.
func TestClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.opened(t, w.ask(target))
	w.later(time.Minute)
	before := w.table(t)
	c := w.claimed(t, j)
	want := j
	want.State, want.Attempt, want.LeaseUntil, want.StartedAt, want.Claim = job.Running, 1, w.now.Add(time.Minute), w.now, c.Job().Claim
	same(t, "claimed", c.Job(), want)
	same(t, "stored", w.find(t, j.ID), want)
	if len(want.Claim) < 20 {
		t.Errorf("token %q is not random", want.Claim)
	}
	after := w.table(t)
	key, err := job.KeyOf(j.ID)
	must(t, err)
	delete(before, key.String())
	delete(after, key.String())
	same(t, "everything else", after, before)
}

// JOB-21: whatever is not PENDING, or not as it was read, is not claimed, and nothing is written.
func TestWhatIsNotClaimed(t *testing.T) {
	t.Parallel()
	for _, tt := range endings[1:] {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			seen := w.opened(t, w.ask(target))
			tt.do(t, w, seen)
			w.unchanged(t, "claims", func() {
				for name, j := range map[string]job.Job{"as read before": seen, "as it stands": w.find(t, seen.ID)} {
					if c, err := w.jobs.Claim(t.Context(), j); c != nil || !errors.Is(err, job.ErrNotClaimable) {
						t.Errorf("%s: %v, %v; want ErrNotClaimable", name, c, err)
					}
				}
			})
		})
	}
	w := newWorld(t)
	w.unchanged(t, "claims", func() {
		gone := job.Job{ID: job.NewID(til, w.now), State: job.Pending, MaxAttempts: 3}
		for name, j := range map[string]job.Job{
			"of a job that is gone": gone, // and none comes into being
			"of a bulk job":         {ID: job.NewID(kind, w.now), State: job.Pending, Segments: 16},
			"after the attempts":    {ID: gone.ID, State: job.Pending, Attempt: 3, MaxAttempts: 3},
		} {
			if c, err := w.jobs.Claim(t.Context(), j); c != nil || !errors.Is(err, job.ErrNotClaimable) {
				t.Errorf("%s: %v, %v; want ErrNotClaimable", name, c, err)
			}
		}
	})
	// A job that was released and is PENDING again is not claimed by whoever read it in an earlier attempt.
	seen := w.opened(t, w.ask(target))
	if _, err := w.claimed(t, seen).Release(t.Context(), "later", 0); err != nil {
		t.Fatal(err)
	}
	w.unchanged(t, "a claim of an earlier attempt", func() {
		if _, err := w.jobs.Claim(t.Context(), seen); !errors.Is(err, job.ErrNotClaimable) {
			t.Error(err)
		}
	})
}

// Of many claims that meet at their transaction one wins.
func TestOneOfManyClaimsWins(t *testing.T) {
	t.Parallel()
	const n = 10
	w := newWorld(t)
	j := w.opened(t, w.ask(target))
	meet := gate(n)
	var mu sync.Mutex
	var won []*job.Claim
	together(n, func(int) {
		c, err := w.through(meet()).Claim(t.Context(), j)
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won = append(won, c)
		} else if !errors.Is(err, job.ErrNotClaimable) {
			t.Error(err)
		}
	})
	if len(won) != 1 {
		t.Fatalf("%d claims won", len(won))
	}
	same(t, "job", w.find(t, j.ID), won[0].Job())
}

// An answer that was lost is found again by the token, once or twice; what happened in between decides.
func TestClaimAfterLostAnswers(t *testing.T) {
	t.Parallel()
	failed := func(sim.Call) (bool, error) { return false, sim.ErrNoAnswer }
	requeue := func(t *testing.T, w *world, id string) {
		if ok, err := w.jobs.Requeue(t.Context(), w.find(t, id)); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	for _, tt := range []struct {
		name   string
		first  func(sim.Call) (bool, error)
		second func(*testing.T, *world, string) // before the second try
		want   error
	}{
		{"nothing happened and nothing came between", failed, nil, nil},
		{"it happened", lost, nil, nil},
		{"nothing happened and another claimed", failed, func(t *testing.T, w *world, id string) { w.claimed(t, w.find(t, id)) }, job.ErrNotClaimable},
		{"it happened and the job was cancelled", lost, func(t *testing.T, w *world, id string) { w.cancel(t, id) }, job.ErrNotClaimable},
		{"it happened and the job was reaped", lost, requeue, job.ErrNotClaimable},
		{"it happened and the job was reaped and claimed by another", lost, func(t *testing.T, w *world, id string) {
			requeue(t, w, id)
			w.claimed(t, w.find(t, id))
		}, job.ErrNotClaimable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			j := w.opened(t, w.ask(target))
			var between map[string]store.Attrs
			jobs := w.through(func(c sim.Call) (bool, error) {
				switch {
				case c.Op != sim.Transact:
				case c.N == 1:
					return tt.first(c)
				case c.N == 2 && tt.second != nil:
					tt.second(t, w, j.ID)
					between = w.table(t)
				}
				return true, nil
			})
			c, err := jobs.Claim(t.Context(), j)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if tt.want != nil {
				same(t, "table after the refused claim", w.table(t), between)
				return
			}
			same(t, "job", w.find(t, j.ID), c.Job())
			if c.Job().Attempt != 1 {
				t.Errorf("attempt %d, want 1", c.Job().Attempt)
			}
			must(t, c.Complete(t.Context()))
		})
	}
	// Without any answer the claim fails, and does not say that the job cannot be claimed.
	w := newWorld(t)
	j := w.opened(t, w.ask(target))
	if _, err := w.through(func(c sim.Call) (bool, error) { return true, sim.ErrNoAnswer }).Claim(t.Context(), j); !errors.Is(err, sim.ErrNoAnswer) || errors.Is(err, job.ErrNotClaimable) {
		t.Error(err)
	}
	same(t, "state", w.find(t, j.ID).State, job.Running) // the lease decides what becomes of it
}

// Completion is one transaction of the result, the state and the freed slot.
func TestComplete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.claimed(t, w.opened(t, w.ask(target)))
	w.later(10 * time.Second)
	transactions := 0
	slow := w.through(func(x sim.Call) (bool, error) {
		if x.Op == sim.Transact {
			transactions++
		}
		return true, nil
	})
	c2, err := slow.Claim(t.Context(), w.opened(t, w.ask("member-43:2024-04-15"))) // the same, counted
	must(t, err)
	must(t, c2.Complete(t.Context(), publication("member-43:2024-04-15", "x")))
	if transactions != 2 {
		t.Errorf("claim and completion took %d transactions", transactions)
	}
	must(t, c.Complete(t.Context(), publication(target, "a text")))
	want := c.Job()
	want.State, want.FinishedAt = job.Completed, w.now
	same(t, "job", w.find(t, want.ID), want)
	same(t, "slot", w.holderOf(t, want.Slot), "")
	same(t, "summary", w.table(t)[summaryKey(target).String()], store.Attrs{"revision": int64(1), "text": "a text"})
}

// A result that the table can never accept, or writes that break the contract of a kind, are an error and no loss of the claim: the worker can still say how the job ended.
func TestCompletionThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	large := string(make([]byte, store.MaxItem+1))
	many := make([]store.Write, store.MaxWrites-1) // two more are the job and its slot
	for i := range many {
		many[i] = publication(target+string(rune('a'+i)), "x")
	}
	for _, tt := range []struct {
		name    string
		writes  []store.Write
		refused bool
	}{
		{"too large", []store.Write{publication(target, large)}, true},
		{"one of two is too large", []store.Write{publication(target, "x"), publication("other", large)}, true},
		{"a number added to a text", []store.Write{store.Update(summaryKey("text"), nil, map[string]int64{"text": 1})}, true},
		{"too many", many, false},
		{"one row twice", []store.Write{publication(target, "x"), publication(target, "y")}, false},
		{"a condition of the kind", []store.Write{store.Insert(summaryKey(target), store.Attrs{"text": "x"})}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.transact(t, store.Put(summaryKey("text"), store.Attrs{"text": "x"}))
			c := w.claimed(t, w.opened(t, w.ask(target)))
			w.unchanged(t, "the completion", func() {
				err := c.Complete(t.Context(), tt.writes...)
				if err == nil || errors.Is(err, job.ErrLost) || is[*store.Refused](err) != tt.refused {
					t.Errorf("got %v; want an error, refused for good: %v", err, tt.refused)
				}
			})
			must(t, c.Fail(t.Context(), job.ReasonInvalid))
			same(t, "reason", w.find(t, c.Job().ID).Reason, job.ReasonInvalid)
		})
	}
}

// A failure that passes gives the job back for its next attempt, after a pause; after the last attempt the job fails with the reason it used up.
func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.opened(t, w.ask(target))
	for attempt := 1; attempt <= job.Attempts; attempt++ {
		if ok, err := w.jobs.CountResend(t.Context(), j, job.ResentMessage); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c := w.claimed(t, j)
		w.later(10 * time.Second)
		got, err := c.Release(t.Context(), "busy", 1500*time.Millisecond+time.Nanosecond)
		must(t, err)
		want := c.Job()
		want.LastError = "busy"
		if attempt < job.Attempts {
			want.State, want.NotBefore, want.Resends = job.Pending, w.now.Add(1500*time.Millisecond), 0 // times are whole milliseconds
			same(t, "answer", got, want)
			same(t, "slot", w.holderOf(t, j.Slot), j.ID)
		} else {
			want.State, want.Reason, want.FinishedAt = job.Failed, job.ReasonAttemptsUsedUp, w.now
			same(t, "state and reason of the answer", [2]string{string(got.State), got.Reason}, [2]string{"FAILED", "attempts-used-up"})
			same(t, "slot", w.holderOf(t, j.Slot), "")
		}
		j = w.find(t, j.ID)
		want.Resends, want.ResentAt = j.Resends, j.ResentAt
		same(t, "stored", j, want)
		if attempt < job.Attempts && j.Resends != 0 {
			t.Errorf("resends %d: the pauses of the reaper begin anew with the attempt", j.Resends)
		}
		w.later(2 * time.Second)
	}
	same(t, "attempts", j.Attempt, 3)
	w.opened(t, w.ask(target))
}

// A renewal moves the lease and nothing else, however often.
func TestRenew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.claimed(t, w.opened(t, w.ask(target)))
	for range 30 {
		w.later(20 * time.Second)
		until, err := c.Renew(t.Context())
		if err != nil || !until.Equal(w.now.Add(job.Lease)) {
			t.Fatalf("until %v, %v", until, err)
		}
		want := c.Job()
		want.LeaseUntil = until
		same(t, "job", w.find(t, want.ID), want)
	}
	w.later(time.Hour) // late, and nobody has taken the job away: it still is the claim's
	if _, err := c.Renew(t.Context()); err != nil {
		t.Error(err)
	}
	must(t, c.Complete(t.Context(), publication(target, "x")))
}
