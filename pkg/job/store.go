package job

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// slotPartitions spreads the slots. All of them are walked to find the active jobs.
const slotPartitions = 16

// Store reads and writes jobs. Every change is one conditional transaction; any method may be repeated after any error.
type Store struct {
	store store.Store
	now   func() time.Time // UTC, whole milliseconds
}

// NewStore makes a Store.
func NewStore(s store.Store, now func() time.Time) *Store { return &Store{s, now} }

// The keys of the table. Nobody else knows them.
func jobKey(kind once.Kind, created time.Time, id string) store.Key {
	return store.Key{Table: Table, PK: jobsPK(kind, created), SK: id}
}
func jobsPK(kind once.Kind, created time.Time) string {
	return "JOBS#" + string(kind) + "#" + created.UTC().Format("2006-01")
}
func slotKey(slot string) store.Key {
	h := fnv.New32a()
	h.Write([]byte(slot))
	return store.Key{Table: Table, PK: slotsPK(int(h.Sum32() % slotPartitions)), SK: slot}
}
func slotsPK(n int) string { return fmt.Sprintf("SLOTS#%d", n) }
func segmentKey(id string, n int) store.Key {
	return store.Key{Table: Table, PK: segmentsPK(id), SK: fmt.Sprintf("%03d", n)}
}
func segmentsPK(id string) string { return "SEGMENTS#" + id }
func pageKey(id string, segment int, ordinal int64) store.Key {
	return store.Key{Table: Table, PK: fmt.Sprintf("PAGES#%s#%03d", id, segment), SK: fmt.Sprintf("%08d", ordinal)}
}
func shardKey(id string, n int) store.Key {
	return store.Key{Table: Table, PK: fmt.Sprintf("TALLY#%s#%03d", id, n), SK: "TALLY"}
}
func settledKey(id, subject string) store.Key {
	return store.Key{Table: Table, PK: settledPK(id), SK: subject}
}
func settledPK(id string) string { return "SETTLED#" + id }
func periodKey(kind once.Kind, p once.Period) store.Key {
	return store.Key{Table: Table, PK: "PERIODS#" + string(kind), SK: string(p)}
}

// keyOf is the key of a job by its id alone.
func keyOf(id string) (store.Key, error) {
	kind, created, err := ParseID(id)
	if err != nil {
		return store.Key{}, err
	}
	return jobKey(kind, created, id), nil
}

// Find reads a job, strongly. ErrNoSuchJob where there is none.
func (s *Store) Find(ctx context.Context, id string) (Job, error) {
	key, err := keyOf(id)
	if err != nil {
		return Job{}, err
	}
	items, err := s.store.Get(ctx, key)
	if err != nil {
		return Job{}, fmt.Errorf("job %s: %w", id, err)
	}
	if !items[0].Exists() {
		return Job{}, fmt.Errorf("%w: %s", ErrNoSuchJob, id)
	}
	var j Job
	err = items[0].Decode(&j)
	return j, err
}

// List reads the jobs of a kind that were created in a month (UTC), newest first, at most limit of them.
func (s *Store) List(ctx context.Context, kind once.Kind, month time.Time, limit int, cursor string) (jobs []Job, next string, err error) {
	page, err := s.store.Query(ctx, store.Query{Table: Table, PK: jobsPK(kind, month), Descending: true, Limit: limit, Cursor: cursor})
	if err != nil {
		return nil, "", err
	}
	jobs = make([]Job, len(page.Items))
	for i, it := range page.Items {
		if err := it.Decode(&jobs[i]); err != nil {
			return nil, "", err
		}
	}
	return jobs, page.Next, nil
}

// Slot is the right to be the one active job.
type Slot struct {
	Slot string    `json:"slot"`
	Job  string    `json:"job"`
	At   time.Time `json:"at"`
}

// Slots reads every slot that is held: these are the active jobs.
func (s *Store) Slots(ctx context.Context) ([]Slot, error) {
	var out []Slot
	for n := range slotPartitions {
		err := s.each(ctx, slotsPK(n), "", func(it store.Item) error {
			var x Slot
			if err := it.Decode(&x); err != nil {
				return err
			}
			out = append(out, x)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("slots: %w", err)
		}
	}
	return out, nil
}

// Holder reads who holds a slot; ok is false when it is free.
func (s *Store) Holder(ctx context.Context, slot string) (held Slot, ok bool, err error) {
	items, err := s.store.Get(ctx, slotKey(slot))
	if err != nil || !items[0].Exists() {
		return Slot{}, false, err
	}
	err = items[0].Decode(&held)
	return held, err == nil, err
}

// FreeSlot frees a slot whose job is over or gone, and tells whether this call did: one that its job, or somebody else, has freed meanwhile is left alone. No way to end
// a job leaves such a slot; a table restored to an earlier moment may. It refuses, with an error, while the job is active.
func (s *Store) FreeSlot(ctx context.Context, held Slot) (freed bool, err error) {
	j, err := s.Find(ctx, held.Job)
	if err == nil && j.State.Active() {
		return false, fmt.Errorf("slot %s belongs to job %s, which is %s", held.Slot, j.ID, j.State)
	}
	if err != nil && !errors.Is(err, ErrNoSuchJob) {
		return false, err
	}
	err = s.store.Transact(ctx, store.Delete(slotKey(held.Slot), store.Equals("job", held.Job)))
	if isRefused(err) {
		return false, nil
	}
	return err == nil, err
}

// each calls f for every item of a partition. A page may be empty and not be the last: only Next tells.
func (s *Store) each(ctx context.Context, pk, prefix string, f func(store.Item) error) error {
	for q := (store.Query{Table: Table, PK: pk, Prefix: prefix}); ; {
		page, err := s.store.Query(ctx, q)
		if err != nil {
			return err
		}
		for _, it := range page.Items {
			if err := f(it); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// refusedAt finds the refusal of one write.
func refusedAt(err error, index int) (store.Refusal, bool) {
	var r *store.Refused
	if errors.As(err, &r) {
		for _, by := range r.By {
			if by.Index == index {
				return by, true
			}
		}
	}
	return store.Refusal{}, false
}

func isRefused(err error) bool {
	var r *store.Refused
	return errors.As(err, &r)
}

// neverAccepted tells whether a write of a refused transaction can never be accepted, whatever its conditions.
func neverAccepted(err error) bool {
	var r *store.Refused
	return errors.As(err, &r) && slices.ContainsFunc(r.By, func(by store.Refusal) bool { return by.Invalid != "" })
}
