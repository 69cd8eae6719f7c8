package job

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/store"
)

// RequestRetention is how long a repeated request gets the answer of the first. Afterwards its key is a new one.
const RequestRetention = 24 * time.Hour

// Idempotency identifies a request that its caller may repeat (the Idempotency-Key of HTTP). Only a request that opened a job is remembered: one that was refused changed nothing and is judged anew.
type Idempotency struct {
	Caller string // whose keys these are
	Key    string // chosen by the caller
	Digest string // of the operation and all it was asked with
}

// ReusedError says that the key came with another request within RequestRetention. Nothing was written.
type ReusedError struct {
	Key string
	Job string // what the first request opened
}

func (e *ReusedError) Error() string {
	return fmt.Sprintf("idempotency key %q was used with another request, which opened job %s: use a new key", e.Key, e.Job)
}

// requestRecord remembers a request that opened a job. DynamoDB deletes it some time after it has expired, so the time decides, not the presence.
type requestRecord struct {
	Digest  string    `json:"digest"`
	Job     string    `json:"job"`
	At      time.Time `json:"at"`
	Expires int64     `json:"expires"` // epoch seconds
}

func requestKey(i *Idempotency) store.Key {
	return store.Key{Table: Table, PK: "REQUESTS#" + i.Caller, SK: i.Key}
}

func (s *Store) findRequest(ctx context.Context, i *Idempotency) (rec requestRecord, ok bool, err error) {
	items, err := s.store.Get(ctx, requestKey(i))
	if err != nil || !items[0].Exists() {
		return requestRecord{}, false, err
	}
	err = items[0].Decode(&rec)
	return rec, err == nil, err
}

// record is the write that remembers a request: where there was none, or over one that has expired, as it was read.
func (s *Store) record(r Request, was requestRecord, known bool) store.Write {
	now := s.now()
	next := requestRecord{r.Idempotency.Digest, r.ID, now, now.Add(RequestRetention).Unix()}
	if !known {
		return store.Insert(requestKey(r.Idempotency), next)
	}
	return store.Put(requestKey(r.Idempotency), next, store.Equals("job", was.Job))
}

// answered is the answer to a request that has been answered before.
func (s *Store) answered(ctx context.Context, r Request, rec requestRecord) (Job, bool, error) {
	if rec.Digest != r.Idempotency.Digest {
		return Job{}, false, &ReusedError{r.Idempotency.Key, rec.Job}
	}
	j, err := s.Find(ctx, rec.Job)
	return j, err == nil && j.ID == r.ID, err
}
