package audit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

type monthly = monthlypoint.Kind // a name that hides no method

// letters is a kind that puts a document into each entry, until its source is gone.
type letters struct {
	*monthly
	gone func() error
}

func (l *letters) Effects(_ context.Context, _ job.Job, subject string) ([]once.Effect, error) {
	if l.gone != nil {
		return nil, l.gone()
	}
	return []once.Effect{once.Put{Subject: subject, Name: "letter", Doc: store.Attrs{"to": subject, "pages": 3, "words": []string{"a", "b"}, "more": store.Attrs{"sent": true}}}}, nil
}

// A document is compared with what its job puts there. Where that cannot be told any more nothing is said about it: a source may go away, an entry stays.
func TestADocumentIsThatOfItsJob(t *testing.T) {
	t.Parallel()
	m := newMonth(t)
	kind := &letters{monthly: monthlypoint.New(m.env.Store, m.zone)}
	m.bulk, m.kinds = kind, []job.Kind{kind}
	m.members(t, 40)
	m.fire(t)
	m.work(t)
	if r := m.check(t); !r.OK() || r.Entries != 40 {
		t.Fatalf("got %+v, want 40 entries and no violation", r)
	}
	edited := store.Update(entryKey("member-0007"), store.Attrs{"doc": store.Attrs{"to": "member-0007", "pages": 4, "words": []string{"a", "b"}, "more": store.Attrs{"sent": true}}}, nil)
	if err := m.env.Store.Transact(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	r := m.check(t)
	if len(r.Violations) != 1 || !strings.HasPrefix(r.Violations[0], "I1 points/member-0007/") {
		t.Errorf("got %q, want a violation of member-0007", r.Violations)
	}
	for name, gone := range map[string]func() error{
		"for good": func() error { return job.Permanent("record-missing", errors.New("gone")) },
		"for now":  func() error { return errors.New("no answer") },
		"panic":    func() error { panic("a bug of the kind") },
	} {
		kind.gone = gone
		if r := m.check(t); !r.OK() || r.Entries != 40 {
			t.Errorf("%s: got %+v, want no violation", name, r)
		}
	}
}

// An entry that cannot be read does not end the look: what else is wrong is in the report too.
func TestTheLookGoesOnBehindAnEntryThatCannotBeRead(t *testing.T) {
	t.Parallel()
	m := newMonth(t)
	m.members(t, 40)
	m.fire(t)
	m.work(t)
	var writes []store.Write
	for _, member := range []string{"member-0000", "member-0039"} {
		writes = append(writes, store.Put(entryKey(member), store.Attrs{"state": int64(1)}))
	}
	if err := m.env.Store.Transact(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
	r := m.check(t)
	for _, want := range []string{"I1 points/member-0000/", "I1 points/member-0039/", "I3 job "} {
		if !slices.ContainsFunc(r.Violations, func(v string) bool { return strings.HasPrefix(v, want) }) {
			t.Errorf("got %q, want a violation of %s", r.Violations, want)
		}
	}
	if r.Entries != 38 || r.Subjects != 40 {
		t.Errorf("%d entries of %d subjects, want 38 of 40", r.Entries, r.Subjects)
	}
}
