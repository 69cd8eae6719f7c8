package ledger

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// State of an entry.
type State string

// The states of an entry.
const (
	Applied State = "applied" // for ever; the effects happened
	Failed  State = "failed"  // nothing happened; a later job may take over
)

// Entry is the one item that decides the fate of a key.
type Entry struct {
	Key       string      `json:"key"`
	State     State       `json:"state"`
	Amount    int64       `json:"amount,omitempty"`  // what it added, 0 if nothing
	Balance   string      `json:"balance,omitempty"` // to which balance of the subject
	Doc       store.Attrs `json:"doc,omitempty"`     // what a Put stored
	Digest    string      `json:"digest"`            // see once.Digest
	Job       string      `json:"jobId"`             // the job that applied it, or failed last
	Scheduled time.Time   `json:"scheduledTime,omitzero"`
	At        time.Time   `json:"at"` // UTC
}

// Balance is a sum of applied entries.
type Balance struct {
	N       int64 `json:"n"`
	Entries int64 `json:"entries"`
}

// Cause says on whose behalf a posting is written.
type Cause struct {
	Job       string    // job id
	Inputs    string    // of the job; part of the digest
	Scheduled time.Time // of the job; kept in the entry, decides nothing
}

// Outcome says how a key stands, seen from one job.
type Outcome int

// The outcomes. What a worker does with each is said in hanbeon/pkg/worker.
const (
	None        Outcome = iota // no entry
	Duplicate                  // applied by this job: our own earlier write
	Already                    // applied by another job with the same content
	Conflicting                // applied by another job with other content, or an entry that cannot be read
	FailedOnce                 // settled as a failure, by this job or an earlier one; may be taken over
	Invalid                    // the entry or its effects can never be accepted as they are
)

var outcomeNames = [...]string{"none", "duplicate", "already", "conflict", "failed", "invalid"}

func (o Outcome) String() string { return outcomeNames[o] }

func itemKey(table store.Table, k once.Key) store.Key {
	return store.Key{Table: table, PK: k.Subject(), SK: k.String()}
}

// judge tells how the item under a key stands for a cause. why says what is wrong with an item that no code of this package wrote so: one that was edited by hand, or damaged. Such an entry gives nothing and
// is no error either, since one item must not hold up its neighbours: it conflicts with whoever comes, and the audit names it.
func judge(old store.Item, k once.Key, c Cause) (o Outcome, why string) {
	if !old.Exists() {
		return None, ""
	}
	var e Entry
	switch err := old.Decode(&e); {
	case err != nil:
		why = err.Error()
	case e.State != Applied && e.State != Failed:
		why = fmt.Sprintf("item %s: state %.60q", old.Key, e.State)
	}
	job, _ := old.Attrs["jobId"].(string)
	switch {
	case why == "" && e.State == Failed:
		return FailedOnce, ""
	case job == c.Job:
		return Duplicate, why // whatever its digest, a job has one content; and whatever its state: the job has counted it, and a settlement besides would count it twice
	case why == "" && e.Digest == once.Digest(k, c.Inputs):
		return Already, ""
	}
	return Conflicting, why
}

// Standing reads how keys stand for a cause, strongly, in order.
func (l *Ledger) Standing(ctx context.Context, c Cause, keys ...once.Key) ([]Outcome, error) {
	items, err := l.store.Get(ctx, l.keys(keys)...)
	return l.judgeAll(items, err, c, keys)
}

// StandingStale is Standing at half the price; it may miss recent entries. Use it only where a condition checks again.
func (l *Ledger) StandingStale(ctx context.Context, c Cause, keys ...once.Key) ([]Outcome, error) {
	items, err := l.store.GetStale(ctx, l.keys(keys)...)
	return l.judgeAll(items, err, c, keys)
}

func (l *Ledger) keys(keys []once.Key) []store.Key {
	out := make([]store.Key, len(keys))
	for i, k := range keys {
		out[i] = itemKey(l.table, k)
	}
	return out
}

func (l *Ledger) judgeAll(items []store.Item, err error, c Cause, keys []once.Key) ([]Outcome, error) {
	if err != nil {
		return nil, err
	}
	out := make([]Outcome, len(items))
	for i, it := range items {
		out[i], _ = judge(it, keys[i], c)
	}
	return out, nil
}

// Entry reads one entry; ok is false where there is none.
func (l *Ledger) Entry(ctx context.Context, k once.Key) (e Entry, ok bool, err error) {
	items, err := l.store.Get(ctx, itemKey(l.table, k))
	if err != nil || !items[0].Exists() {
		return Entry{}, false, err
	}
	e, err = entryOf(items[0])
	return e, err == nil, err
}

// entryOf decodes an entry. Its document is taken as the store has it: decoding would make floats of its numbers.
func entryOf(it store.Item) (e Entry, err error) {
	err = it.Decode(&e)
	if doc, ok := it.Attrs["doc"].(map[string]any); ok {
		e.Doc = doc
	}
	return e, err
}

// History is one page of what the ledger has of a subject, in byte order of keys.
type History struct {
	Entries  []Entry
	Balances map[string]Balance
	Next     string // cursor of the next page, "" at the end
}

// History reads entries and balances of a subject, at most limit items (0: as many as one answer of the store holds).
func (l *Ledger) History(ctx context.Context, subject, cursor string, limit int) (History, error) {
	h := History{Balances: map[string]Balance{}}
	if err := once.CheckSubject(subject); err != nil {
		return h, err
	}
	page, err := l.store.Query(ctx, store.Query{Table: l.table, PK: subject, Cursor: cursor, Limit: limit})
	if err != nil {
		return h, err
	}
	h.Next = page.Next
	for _, it := range page.Items {
		if _, err := once.ParseKey(it.Key.SK); err != nil { // a balance name never has a colon
			var b Balance
			if err := it.Decode(&b); err != nil {
				return h, err
			}
			h.Balances[it.Key.SK] = b
			continue
		}
		e, err := entryOf(it)
		if err != nil {
			return h, err
		}
		h.Entries = append(h.Entries, e)
	}
	return h, nil
}
