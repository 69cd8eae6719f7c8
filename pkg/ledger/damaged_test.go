package ledger_test

import (
	"testing"

	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// An entry that no code wrote so is in conflict with whoever comes: it gives nothing, it is no error, it says what is wrong, and its neighbours are judged as ever.
func TestAnEntryThatCannotBeReadConflicts(t *testing.T) {
	t.Parallel()
	k := key(t, "2024-04", "damaged")
	digest := once.Digest(k, by("", 100).Inputs)
	for name, tt := range map[string]struct {
		item store.Attrs
		want ledger.Outcome
		why  bool
	}{
		"sound, applied":          {store.Attrs{"state": "applied", "digest": digest, "jobId": "job-0"}, ledger.Already, false},
		"sound, another digest":   {store.Attrs{"state": "applied", "digest": "?", "jobId": "job-0"}, ledger.Conflicting, false},
		"sound, failed":           {store.Attrs{"state": "failed", "digest": digest, "jobId": "job-1"}, ledger.FailedOnce, false},
		"nothing in it":           {store.Attrs{}, ledger.Conflicting, true},
		"no state":                {store.Attrs{"digest": digest, "jobId": "job-0"}, ledger.Conflicting, true},
		"unknown state":           {store.Attrs{"state": "granted", "digest": digest, "jobId": "job-0"}, ledger.Conflicting, true},
		"state that is no text":   {store.Attrs{"state": int64(1), "digest": digest, "jobId": "job-0"}, ledger.Conflicting, true},
		"time that is none":       {store.Attrs{"state": "applied", "digest": digest, "jobId": "job-0", "at": "yesterday"}, ledger.Conflicting, true},
		"failed, no number":       {store.Attrs{"state": "failed", "digest": digest, "jobId": "job-0", "amount": "x"}, ledger.Conflicting, true},
		"ours, unknown state":     {store.Attrs{"state": "granted", "digest": digest, "jobId": "job-1"}, ledger.Duplicate, true},
		"ours, amount not number": {store.Attrs{"state": "applied", "digest": digest, "jobId": "job-1", "amount": "x"}, ledger.Duplicate, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			l := ledger.New(s, points, clock)
			if err := l.Apply(t.Context(), by("job-0", 100), grants(t, "2024-04", 100, "neighbour")); err != nil {
				t.Fatal(err)
			}
			if err := s.Transact(t.Context(), store.Put(store.Key{Table: points, PK: "damaged", SK: k.String()}, tt.item)); err != nil {
				t.Fatal(err)
			}
			before := books(t, s, "damaged", "neighbour", "free")
			us, group := by("job-1", 100), []string{"damaged", "neighbour", "free"}

			got, err := l.Standing(t.Context(), us, keysOf(grants(t, "2024-04", 100, group...))...)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "standing", got, []ledger.Outcome{tt.want, ledger.Already, ledger.None})

			r := refused(t, l.Apply(t.Context(), us, grants(t, "2024-04", 100, group...)))
			same(t, "in the way", outcomes(r), map[int]string{0: tt.want.String(), 1: "already"})
			for _, x := range r.Postings {
				if (x.Why != "") != (tt.why && x.Index == 0) {
					t.Errorf("why of %d is %q, want one: %v", x.Index, x.Why, tt.why)
				}
			}
			same(t, "the table afterwards", books(t, s, "damaged", "neighbour", "free"), before)
		})
	}
}
