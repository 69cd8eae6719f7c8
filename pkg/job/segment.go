package job

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/store"
)

// Segment is one slice of the subjects of a job and how far its fan-out has come.
type Segment struct {
	Cursor    string    `json:"cursor"`   // of the source, after the pages advanced
	Ordinal   int64     `json:"ordinal"`  // number of pages advanced: these are the manifest
	Count     int64     `json:"count"`    // subjects of those pages, illegal ones and those left out included
	Greatest  string    `json:"greatest"` // the last subject listed, quoted: whatever comes on a later page is greater
	Done      bool      `json:"done"`
	TouchedAt time.Time `json:"touchedAt"`
	Expires   int64     `json:"expires"`
}

// Page is a frozen list of subjects with messages. Once it is stored nothing about it changes, not even when the source does: what a redelivered segment finds it sends again.
type Page struct {
	Subjects []string `json:"subjects"`          // strictly increasing; each gets a message
	Illegal  []string `json:"illegal,omitempty"` // ids (IllegalID) of subjects that cannot be keys
	LeftOut  int64    `json:"leftOut"`           // subjects of a re-run whose entry was applied before with the same content
	Greatest string   `json:"greatest"`          // the last subject listed so far in the segment, quoted, since it may be no legal subject
	Next     string   `json:"next"`              // cursor after the page
	Last     bool     `json:"last"`              // the source ended here
	Expires  int64    `json:"expires"`
}

// Count is how many subjects the page accounts for.
func (p Page) Count() int64 { return int64(len(p.Subjects)+len(p.Illegal)) + p.LeftOut }

// Start moves a PENDING job that is not ending to RUNNING, where re-sends of segments are counted anew, and returns the job as it then is. A job that is not PENDING is returned as it is.
func (s *Store) Start(ctx context.Context, j Job) (Job, error) {
	if j.State != Pending || j.Ending != "" {
		return j, nil
	}
	key, err := keyOf(j.ID)
	if err != nil {
		return Job{}, err
	}
	now := s.now()
	err = s.store.Transact(ctx, store.Update(key, store.Attrs{"state": string(Running), "startedAt": now, "segmentResends": 0}, nil, store.Equals("state", string(Pending)), store.Equals("ending", "")))
	if err != nil && (!isRefused(err) || neverAccepted(err)) {
		return Job{}, fmt.Errorf("start job %s: %w", j.ID, err)
	}
	return s.Find(ctx, j.ID)
}

// SegmentAt reads one segment of a job.
func (s *Store) SegmentAt(ctx context.Context, j Job, n int) (Segment, error) {
	var out Segment
	if n < 0 || n >= j.Segments {
		return out, fmt.Errorf("job %s has no segment %d", j.ID, n)
	}
	items, err := s.store.Get(ctx, segmentKey(j.ID, n))
	if err == nil {
		err = items[0].Decode(&out)
	}
	return out, err
}

// SegmentsOf reads all segments of a job.
func (s *Store) SegmentsOf(ctx context.Context, j Job) ([]Segment, error) {
	keys := make([]store.Key, j.Segments)
	for n := range keys {
		keys[n] = segmentKey(j.ID, n)
	}
	items, err := s.store.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]Segment, len(items))
	for n, it := range items {
		if err := it.Decode(&out[n]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// PageAt reads a page; ok is false where none is frozen under this ordinal.
func (s *Store) PageAt(ctx context.Context, j Job, segment int, ordinal int64) (p Page, ok bool, err error) {
	items, err := s.store.Get(ctx, pageKey(j.ID, segment, ordinal))
	if err != nil || !items[0].Exists() {
		return Page{}, false, err
	}
	err = items[0].Decode(&p)
	return p, err == nil, err
}

// Freeze stores a page under its ordinal, or returns the one that is there. Two fan-outs of one segment so agree about every page, and about the end.
func (s *Store) Freeze(ctx context.Context, j Job, segment int, ordinal int64, p Page) (Page, error) {
	p.Expires = j.Expires
	err := s.store.Transact(ctx, store.Insert(pageKey(j.ID, segment, ordinal), p))
	if by, ok := refusedAt(err, 0); ok {
		var there Page
		return there, by.Old.Decode(&there)
	}
	return p, err
}

// Advance moves a segment past its frozen page, in one transaction that also counts what the page left out and, for the last page, adds the segment to the total of the job.
//
// over is true when the shard is closed or gone: the job is ending or over, nothing was written and nothing more will be. A segment that was moved by another fan-out
// is no error: read it again. A write that can never be accepted is an error and neither of the two.
func (s *Store) Advance(ctx context.Context, j Job, n int, from Segment, p Page, shard int) (over bool, err error) {
	key, err := keyOf(j.ID)
	if err != nil {
		return false, err
	}
	now := s.now()
	count := from.Count + p.Count()
	writes := []store.Write{
		store.Update(segmentKey(j.ID, n), store.Attrs{"cursor": p.Next, "ordinal": from.Ordinal + 1, "count": count, "greatest": p.Greatest, "done": p.Last, "touchedAt": now}, nil,
			store.Equals("cursor", from.Cursor), store.Equals("ordinal", from.Ordinal), store.Equals("done", false)),
		store.Check(shardKey(j.ID, shard), store.Equals("open", true)),
	}
	if p.LeftOut > 0 {
		writes[1] = s.Count(j.ID, shard, Counts{Already: p.LeftOut})
	}
	if p.Last {
		// The job is RUNNING whenever a shard is open and a page exists; the condition keeps the update from creating a job that has expired.
		writes = append(writes, store.Update(key, nil, map[string]int64{"segmentsDone": 1, "total": count}, store.Equals("state", string(Running))))
	}
	err = s.store.Transact(ctx, writes...)
	if !isRefused(err) || neverAccepted(err) {
		return false, err
	}
	_, closed := refusedAt(err, 1)
	return closed, nil
}

// Manifest calls f for every advanced page of a job: these pages say who must be settled. A page that was frozen and never advanced is no part of it.
func (s *Store) Manifest(ctx context.Context, j Job, f func(segment int, p Page) error) error {
	return s.ManifestFrom(ctx, j, 0, f)
}

// ManifestFrom is Manifest in another order: it begins with one of the segments, and comes to those before it last. Whoever may not get through in one go begins somewhere else each time.
func (s *Store) ManifestFrom(ctx context.Context, j Job, first int, f func(segment int, p Page) error) error {
	segments, err := s.SegmentsOf(ctx, j)
	if err != nil {
		return err
	}
	for i := range segments {
		n := (first + i) % len(segments)
		seg := segments[n]
		for ordinal := range seg.Ordinal {
			p, ok, err := s.PageAt(ctx, j, n, ordinal)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("job %s: page %d of segment %d is missing", j.ID, ordinal, n)
			}
			if err := f(n, p); err != nil {
				return err
			}
		}
	}
	return nil
}
