package job_test

import (
	"errors"
	"testing"

	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

// TXN-14: an update never brings back what has expired. Whatever item of a job is gone, no method creates one; what remains is not changed by what came late.
func TestNothingBringsBackAnExpiredItem(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(j job.Job) []store.Key{
		"the job": func(j job.Job) []store.Key {
			k, _ := job.KeyOf(j.ID)
			return []store.Key{k}
		},
		"a segment": func(j job.Job) []store.Key { return []store.Key{job.SegmentKey(j.ID, 0)} },
		"every shard": func(j job.Job) (keys []store.Key) {
			for n := range j.Shards {
				keys = append(keys, job.ShardKey(j.ID, n))
			}
			return keys
		},
		"everything": func(j job.Job) (keys []store.Key) {
			k, _ := job.KeyOf(j.ID)
			keys = append(keys, k, job.SlotKey(j.Slot))
			for n := range j.Segments {
				keys = append(keys, job.SegmentKey(j.ID, n))
			}
			for n := range j.Shards {
				keys = append(keys, job.ShardKey(j.ID, n))
			}
			return keys
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			pending := w.open(t)
			running, err := w.jobs.Start(t.Context(), pending)
			if err != nil {
				t.Fatal(err)
			}
			seg, err := w.jobs.SegmentAt(t.Context(), running, 0)
			if err != nil {
				t.Fatal(err)
			}
			keys := gone(running)
			for _, k := range keys {
				w.transact(t, store.Delete(k))
			}
			page := job.Page{Subjects: []string{}, LeftOut: 2, Last: true}
			ctx := t.Context()
			// All that a fan-out, a worker, a close, a reaper and a canceller do. A method may answer with an error; it may not write.
			w.jobs.Start(ctx, pending)
			if over, err := w.jobs.Advance(ctx, running, 0, seg, page, 0); err != nil {
				t.Errorf("advance: %v, %v", over, err)
			}
			w.jobs.Advance(ctx, running, 0, seg, job.Page{Last: true}, 1)
			err = w.jobs.Settle(ctx, running, 2, job.Counts{Failed: 1}, w.jobs.SettledFailed(running, "late", job.ReasonInvalid))
			if shards := name == "every shard" || name == "everything"; shards != is[*store.Refused](err) {
				t.Errorf("a settlement: %v; refused: want %v", err, shards)
			}
			w.jobs.Close(ctx, running.ID)
			w.jobs.CountResend(ctx, pending, job.ResentSegments)
			w.jobs.CountResend(ctx, running, job.ResentSubjects)
			w.jobs.Fail(ctx, running, job.ReasonFanOut)
			w.jobs.Cancel(ctx, running.ID)
			w.jobs.Finish(ctx, running)
			w.jobs.FreeSlot(ctx, job.Slot{Slot: slot, Job: running.ID})
			items, err := w.Get(ctx, keys...)
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range items {
				if it.Exists() {
					t.Errorf("%s is back: %v", it.Key, it.Attrs)
				}
			}
			if name == "the job" || name == "everything" {
				if _, err := w.jobs.Find(ctx, running.ID); !errors.Is(err, job.ErrNoSuchJob) {
					t.Errorf("find: %v, want ErrNoSuchJob", err)
				}
			}
		})
	}
}

func TestFreeSlotFreesOnlyWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j := w.start(t)
	held, _, err := w.jobs.Holder(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	w.unchanged(t, "freeing the slot of an active job", func() {
		if freed, err := w.jobs.FreeSlot(t.Context(), held); freed || err == nil {
			t.Errorf("got %v, %v; want an error", freed, err)
		}
	})
	w.cancel(t, j.ID)
	next := w.open(t)
	w.unchanged(t, "freeing what the next job holds", func() { // the list of slots was older
		if freed, err := w.jobs.FreeSlot(t.Context(), held); freed || err != nil {
			t.Errorf("got %v, %v; want nothing", freed, err)
		}
	})
	w.cancel(t, next.ID)
	if freed, err := w.jobs.FreeSlot(t.Context(), held); freed || err != nil {
		t.Errorf("a slot that is free: %v, %v", freed, err)
	}
	// A restored table: the slot of a job that is over.
	w.transact(t, store.Insert(job.SlotKey(slot), held))
	if freed, err := w.jobs.FreeSlot(t.Context(), held); !freed || err != nil {
		t.Errorf("got %v, %v; want it free", freed, err)
	}
	if got := w.holder(t); got != "" {
		t.Errorf("still held by %s", got)
	}
}

// CountResend counts what stands as it was seen, once.
func TestCountResendCountsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pending := w.open(t)
	for _, tt := range []struct {
		seen func() job.Job
		what job.Resent
		want bool
	}{
		{func() job.Job { return pending }, job.ResentSegments, true},
		{func() job.Job { return pending }, job.ResentSegments, false}, // by a second reaper that saw the same
		{func() job.Job { return w.find(t, pending.ID) }, job.ResentSegments, true},
		{func() job.Job { return w.find(t, pending.ID) }, job.ResentSubjects, true},
	} {
		got, err := w.jobs.CountResend(t.Context(), tt.seen(), tt.what)
		if got != tt.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", tt.what, got, err, tt.want)
		}
	}
	now := w.find(t, pending.ID)
	if now.SegmentResends != 2 || now.SubjectResends != 1 || !now.ResentAt.Equal(w.now) {
		t.Errorf("%d segment and %d subject re-sends at %s", now.SegmentResends, now.SubjectResends, now.ResentAt)
	}
	if _, err := w.jobs.Start(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	w.unchanged(t, "counting for a job that started since", func() {
		if ok, err := w.jobs.CountResend(t.Context(), now, job.ResentSegments); ok || err != nil {
			t.Errorf("got %v, %v", ok, err)
		}
	})
}
