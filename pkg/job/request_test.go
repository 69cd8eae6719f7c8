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

// A request that is repeated gets the job of the first, in whatever state it is, and writes nothing, also when the slot belongs to a later job by then.
func TestARepeatedRequestGetsItsJob(t *testing.T) {
	t.Parallel()
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			first := w.opened(t, w.keyed(target, "web", "key", "digest"))
			tt.do(t, w, first)
			again := func(what string) {
				w.unchanged(t, what, func() {
					j, opened, err := w.jobs.Open(t.Context(), w.keyed(target, "web", "key", "digest"))
					if err != nil || opened {
						t.Fatalf("%s: opened %v, %v", what, opened, err)
					}
					same(t, "job", j, w.find(t, first.ID))
				})
			}
			again("a repeated request")
			if !tt.state.Active() {
				w.opened(t, w.ask(target))
				again("a repeated request beside the next job")
			}
			w.later(job.RequestRetention - time.Second)
			again("a request repeated just before its key expires")
		})
	}
}

// A run of a period is repeated like any other request: the first job is the answer, not a second run.
func TestARepeatedRunOfAPeriodGetsItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.request()
	r.Idempotency = &job.Idempotency{Caller: "operator", Key: "key", Digest: "digest"}
	first := w.opened(t, r)
	w.cancel(t, first.ID)
	r.ID = job.NewID(kind, w.clock())
	w.unchanged(t, "a repeated run", func() {
		if j, opened, err := w.jobs.Open(t.Context(), r); err != nil || opened || j.ID != first.ID {
			t.Errorf("got %s, opened %v, %v", j.ID, opened, err)
		}
	})
	r.Idempotency.Key = "another"
	if next := w.opened(t, r); next.ID != r.ID {
		t.Errorf("got %s, want the new %s", next.ID, r.ID)
	}
}

// Copies of one request at the same moment: all read that there is no record, one opens, and the others get its job. None is told that its own copy is in the way.
func TestCopiesAtTheSameMoment(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 8} {
		w := newWorld(t)
		meet := gate(n)
		var mu sync.Mutex
		ids, opened := map[string]int{}, 0
		together(n, func(int) {
			j, ok, err := w.through(meet()).Open(t.Context(), w.keyed(target, "web", "key", "digest"))
			if err != nil {
				t.Errorf("%d copies: %v", n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[j.ID]++
			if ok {
				opened++
			}
		})
		if len(ids) != 1 || opened != 1 {
			t.Errorf("%d copies opened %d jobs and got %v", n, opened, ids)
		}
		same(t, "slot", map[string]int{w.holderOf(t, "til:"+target): n}, ids)
	}
}

// The copy that was faster may be at any stage when the slower one looks for who was in its way.
func TestACopyThatWasFaster(t *testing.T) {
	t.Parallel()
	for _, tt := range endings {
		for _, when := range []struct {
			name string
			do   func(c sim.Call) bool // the moment at which the other copy goes on to its end
		}{
			{"before the transaction", func(c sim.Call) bool { return c.Op == sim.Transact && c.N == 1 }},
			{"before the holder is read", func(c sim.Call) bool { return c.Op == sim.Get && c.N == 3 }}, // after the record and the own job
		} {
			t.Run(tt.name+" "+when.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				var first job.Job
				slow := w.through(func(c sim.Call) (bool, error) {
					if c.Op == sim.Transact && c.N == 1 {
						first = w.opened(t, w.keyed(target, "web", "key", "digest"))
					}
					if when.do(c) {
						tt.do(t, w, first)
					}
					return true, nil
				})
				j, opened, err := slow.Open(t.Context(), w.keyed(target, "web", "key", "digest"))
				if err != nil || opened || j.ID != first.ID || j.State != tt.state {
					t.Errorf("got %s %s, opened %v, %v; want %s %s", j.ID, j.State, opened, err, first.ID, tt.state)
				}
			})
		}
	}
}

// A key with another request is refused and names the job of the first, whoever holds the slot, also when the first came in between.
func TestAKeyIsNotUsedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.opened(t, w.keyed(target, "web", "key", "digest"))
	for _, r := range []job.Request{w.keyed("member-43:2024-04-15", "web", "key", "other"), w.keyed(target, "web", "key", "other")} {
		w.unchanged(t, "another request with the key", func() {
			_, opened, err := w.jobs.Open(t.Context(), r)
			var reused *job.ReusedError
			if opened || !errors.As(err, &reused) || reused.Job != first.ID || reused.Key != "key" {
				t.Errorf("opened %v, %v; want *ReusedError naming %s", opened, err, first.ID)
			}
		})
	}
	for _, target := range []string{target, "member-43:2024-04-15"} { // the same slot, and another
		w := newWorld(t)
		var first job.Job
		slow := w.through(onTransact(1, func(sim.Call) (bool, error) {
			first = w.opened(t, w.keyed("member-42:2024-04-15", "web", "key", "digest"))
			return true, nil
		}))
		_, opened, err := slow.Open(t.Context(), w.keyed(target, "web", "key", "other"))
		var reused *job.ReusedError
		if opened || !errors.As(err, &reused) || reused.Job != first.ID {
			t.Errorf("%s: opened %v, %v; want *ReusedError", target, opened, err)
		}
		if slots, err := w.jobs.Slots(t.Context()); err != nil || len(slots) != 1 {
			t.Errorf("%s: %d slots, %v", target, len(slots), err)
		}
	}
}

// Keys are their caller's: the same key of another caller is another request, which meets the slot like any other.
func TestKeysOfTwoCallersAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.opened(t, w.keyed(target, "web", "key", "digest"))
	_, opened, err := w.jobs.Open(t.Context(), w.keyed(target, "batch", "key", "digest"))
	var active *job.ActiveError
	if opened || !errors.As(err, &active) || active.Job.ID != first.ID {
		t.Errorf("opened %v, %v; want *ActiveError", opened, err)
	}
	other := w.opened(t, w.keyed("member-43:2024-04-15", "batch", "key", "digest"))
	if other.ID == first.ID {
		t.Error("one job for two callers")
	}
}

// A request that was refused is not remembered: repeated after the end of the job in its way it opens one.
func TestARefusedRequestIsJudgedAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.opened(t, w.ask(target))
	r := w.keyed(target, "web", "key", "digest")
	if _, _, err := w.jobs.Open(t.Context(), r); !is[*job.ActiveError](err) {
		t.Fatal(err)
	}
	w.cancel(t, first.ID)
	if j := w.opened(t, r); j.ID != r.ID {
		t.Errorf("got %s, want %s", j.ID, r.ID)
	}
}

// TTL-01: an expired record proves nothing, whether it is still there or has been swept; nor does one that is swept, or expires and is replaced, between reading and writing.
func TestAnExpiredRecordIsNone(t *testing.T) {
	t.Parallel()
	record := store.Key{Table: job.Table, PK: "REQUESTS#web", SK: "key"}
	for _, digest := range []string{"digest", "other"} {
		for _, tt := range []struct {
			name     string
			gone     bool // swept before the request is read
			between  bool // swept between reading and writing
			overtake bool // a copy is faster and replaces the record
		}{
			{name: "still there"},
			{name: "swept", gone: true},
			{name: "swept in between", between: true},
			{name: "replaced in between", overtake: true},
		} {
			t.Run(tt.name+" "+digest, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				first := w.opened(t, w.keyed(target, "web", "key", "digest"))
				w.cancel(t, first.ID)
				w.later(job.RequestRetention)
				if tt.gone {
					w.transact(t, store.Delete(record))
				}
				want := ""
				jobs := w.through(onTransact(1, func(sim.Call) (bool, error) {
					if tt.between {
						w.transact(t, store.Delete(record))
					}
					if tt.overtake {
						want = w.opened(t, w.keyed(target, "web", "key", digest)).ID
					}
					return true, nil
				}))
				r := w.keyed(target, "web", "key", digest)
				j, opened, err := jobs.Open(t.Context(), r)
				if want == "" {
					want = r.ID
				}
				if err != nil || opened == tt.overtake || j.ID != want {
					t.Fatalf("got %s, opened %v, %v; want %s", j.ID, opened, err, want)
				}
				same(t, "slot", w.holderOf(t, j.Slot), want)
				got := w.table(t)[record.String()]
				if got["job"] != want || got["digest"] != digest || got["expires"] != w.now.Add(job.RequestRetention).Unix() {
					t.Errorf("record %v, want it of %s", got, want)
				}
			})
		}
	}
}

// Two different requests with one key that meet at its expired record: one of them gets the key, the other is told that it is used.
func TestTwoRequestsAtAnExpiredRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cancel(t, w.opened(t, w.keyed(target, "web", "key", "digest")).ID)
	w.later(job.RequestRetention)
	var first job.Job
	_, opened, err := w.through(onTransact(1, func(sim.Call) (bool, error) {
		first = w.opened(t, w.keyed(target, "web", "key", "digest"))
		return true, nil
	})).Open(t.Context(), w.keyed("member-43:2024-04-15", "web", "key", "other"))
	var reused *job.ReusedError
	if opened || !errors.As(err, &reused) || reused.Job != first.ID {
		t.Errorf("opened %v, %v; want *ReusedError naming %s", opened, err, first.ID)
	}
	if j, opened, err := w.jobs.Open(t.Context(), w.keyed(target, "web", "key", "digest")); opened || err != nil || j.ID != first.ID {
		t.Errorf("the first again: %s, opened %v, %v; want %s", j.ID, opened, err, first.ID)
	}
}

// An expired record does not free a slot either: the active job is in the way of a new request, also of a copy of its own.
func TestAnExpiredRecordFreesNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.opened(t, w.keyed(target, "web", "key", "digest"))
	w.later(job.RequestRetention + time.Hour)
	w.unchanged(t, "a request after a day", func() {
		_, opened, err := w.jobs.Open(t.Context(), w.keyed(target, "web", "key", "digest"))
		var active *job.ActiveError
		if opened || !errors.As(err, &active) || active.Job.ID != first.ID {
			t.Errorf("opened %v, %v; want *ActiveError", opened, err)
		}
	})
}

// When the store does not answer a look-up, nothing is opened and nothing is taken for absent.
func TestALookUpWithoutAnAnswerOpensNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ { // the record; behind a refusal: the own job, the holder, the record again
		w := newWorld(t)
		first := w.opened(t, w.ask(target))
		w.unchanged(t, "a failed look-up", func() {
			_, opened, err := w.through(func(c sim.Call) (bool, error) {
				if c.Op == sim.Get && c.N == n {
					return false, sim.ErrNoAnswer
				}
				return true, nil
			}).Open(t.Context(), w.keyed(target, "web", "key", "digest"))
			if opened || !errors.Is(err, sim.ErrNoAnswer) {
				t.Errorf("look-up %d: opened %v beside %s, %v; want the error of the store", n, opened, first.ID, err)
			}
		})
	}
}
