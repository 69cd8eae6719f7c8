package job

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"hanbeon/pkg/store"
)

// Shard is one of the counters of a job. The counters only grow, each in the transaction that it counts, and only while the shard is open.
type Shard struct {
	Open      bool      `json:"open"`
	Applied   int64     `json:"applied"`
	Already   int64     `json:"already"`
	Failed    int64     `json:"failed"`
	TouchedAt time.Time `json:"touchedAt"`
	Expires   int64     `json:"expires"`
}

// Tally is the sum of the shards of a job, each as of some moment during the read. Once the counts add up to a known total they are final.
type Tally struct {
	Counts
	Open      int // shards that are open
	TouchedAt time.Time
}

// TallyOf reads the tally of a job, strongly. Shards that have expired count nothing.
func (s *Store) TallyOf(ctx context.Context, j Job) (Tally, error) {
	keys := make([]store.Key, j.Shards)
	for n := range keys {
		keys[n] = shardKey(j.ID, n)
	}
	items, err := s.store.Get(ctx, keys...)
	if err != nil {
		return Tally{}, fmt.Errorf("tally of job %s: %w", j.ID, err)
	}
	var t Tally
	for _, it := range items {
		if !it.Exists() {
			continue
		}
		var x Shard
		if err := it.Decode(&x); err != nil {
			return Tally{}, err
		}
		t.Applied += x.Applied
		t.Already += x.Already
		t.Failed += x.Failed
		if x.Open {
			t.Open++
		}
		if x.TouchedAt.After(t.TouchedAt) {
			t.TouchedAt = x.TouchedAt
		}
	}
	return t, nil
}

// CountsOf is what a job has counted: its tally while it is active, what its end wrote down afterwards.
func (s *Store) CountsOf(ctx context.Context, j Job) (Counts, error) {
	if !j.State.Active() {
		return Counts{j.Applied, j.Already, j.Failed}, nil
	}
	t, err := s.TallyOf(ctx, j)
	return t.Counts, err
}

// Count is the write that adds to one shard of a tally if it is open. It belongs into the transaction that does what it counts; refused, the job is over or
// ending and that transaction has done nothing.
func (s *Store) Count(id string, shard int, c Counts) store.Write {
	add := map[string]int64{}
	for name, n := range map[string]int64{"applied": c.Applied, "already": c.Already, "failed": c.Failed} {
		if n > 0 {
			add[name] = n
		}
	}
	return store.Update(shardKey(id, shard), store.Attrs{"touchedAt": s.now()}, add, store.Equals("open", true))
}

// Settlement is a subject decided without an entry of its own job: applied before by another, or failed. The failed ones are the failure log.
type Settlement struct {
	Subject string    `json:"subject"`
	Outcome string    `json:"outcome"` // OutcomeAlready or OutcomeFailed
	Reason  string    `json:"reason"`  // of a failure
	At      time.Time `json:"at"`
	Expires int64     `json:"expires"`
}

// Outcomes of a Settlement.
const (
	OutcomeAlready = "already"
	OutcomeFailed  = "failed"
)

// SettledAlready is the write that settles a subject as applied before, once: refused, it is settled for this job.
func (s *Store) SettledAlready(j Job, subject string) store.Write {
	return store.Insert(settledKey(j.ID, subject), Settlement{Subject: subject, Outcome: OutcomeAlready, At: s.now(), Expires: j.Expires})
}

// SettledFailed is the write that settles a subject as failed, once.
func (s *Store) SettledFailed(j Job, subject, reason string) store.Write {
	return store.Insert(settledKey(j.ID, subject), Settlement{Subject: subject, Outcome: OutcomeFailed, Reason: reason, At: s.now(), Expires: j.Expires})
}

// NotSettled is the check that a subject is not settled for this job.
func (s *Store) NotSettled(j Job, subject string) store.Write {
	return store.Check(settledKey(j.ID, subject), store.Absent())
}

// Settle writes settlements that concern no ledger, together with their count on one shard, in one transaction of at most store.MaxWrites.
// settled are made by SettledAlready and SettledFailed. Errors are those of store.Transact: refused index 0 is the shard, i + 1 tells that settled[i] is settled for this job.
func (s *Store) Settle(ctx context.Context, j Job, shard int, c Counts, settled ...store.Write) error {
	return s.store.Transact(ctx, append([]store.Write{s.Count(j.ID, shard, c)}, settled...)...)
}

// IllegalID stands for a subject that cannot be a key: a hash of it. Its colon keeps it apart from every legal subject.
func IllegalID(subject string) string {
	sum := sha256.Sum256([]byte(subject))
	return illegalPrefix + hex.EncodeToString(sum[:])
}

const illegalPrefix = "sha256:"

// IsIllegalID tells the ids made by IllegalID from subjects.
func IsIllegalID(s string) bool { return strings.HasPrefix(s, illegalPrefix) }

// Settlements reads how subjects are settled for a job, in order; the Outcome is "" where one is not, or has an applied entry instead.
func (s *Store) Settlements(ctx context.Context, j Job, subjects ...string) ([]Settlement, error) {
	keys := make([]store.Key, len(subjects))
	for i, x := range subjects {
		keys[i] = settledKey(j.ID, x)
	}
	items, err := s.store.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]Settlement, len(items))
	for i, it := range items {
		if !it.Exists() {
			continue
		}
		if err := it.Decode(&out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Settled reads one page of the settlements of a job in byte order of subjects, at most limit of them (0: as many as one answer of the store holds).
func (s *Store) Settled(ctx context.Context, id, cursor string, limit int) (out []Settlement, next string, err error) {
	page, err := s.store.Query(ctx, store.Query{Table: Table, PK: settledPK(id), Cursor: cursor, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	out = make([]Settlement, len(page.Items))
	for i, it := range page.Items {
		if err := it.Decode(&out[i]); err != nil {
			return nil, "", err
		}
	}
	return out, page.Next, nil
}

// FailuresByReason counts the failures of a job by reason, reading its whole failure log.
func (s *Store) FailuresByReason(ctx context.Context, id string) (map[string]int64, error) {
	out := map[string]int64{}
	err := s.each(ctx, settledPK(id), "", func(it store.Item) error {
		var x Settlement
		if err := it.Decode(&x); err != nil {
			return err
		}
		if x.Outcome == OutcomeFailed {
			out[x.Reason]++
		}
		return nil
	})
	return out, err
}
