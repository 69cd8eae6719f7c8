package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/once"
)

// What is said of a field never repeats its value: it may be a name.
const (
	wantID     = "want 1 to 128 of A-Z a-z 0-9 . _ ~ @ + = -"
	wantStatus = "want ACTIVE, INACTIVE or WITHDRAWN"
	wantTime   = "want an RFC 3339 date-time with an offset, such as 2024-01-31T09:00:00+09:00, from 1900 on"
	wantName   = "want at most 256 bytes without control characters"
	wantDay    = "want a real day such as 2024-04-15, from 2000 on, not after today"
	wantText   = "want 1 to 65536 bytes, without control characters but line breaks and tabs"
	duplicate  = "occurs twice in this request, with other content: the first was taken"
)

// PutMembers implements Service.
func (s *service) PutMembers(ctx context.Context, members []Member) ([]PutResult, error) {
	if err := checkBatch("members", members, Member.texts); err != nil {
		return nil, err
	}
	return putGood(ctx, s, members, func(m Member) string { return m.ID }, memberOf, s.catalog.PutMembers)
}

// PutNotes implements Service.
func (s *service) PutNotes(ctx context.Context, notes []Note) ([]PutResult, error) {
	if err := checkBatch("notes", notes, Note.texts); err != nil {
		return nil, err
	}
	return putGood(ctx, s, notes, func(n Note) string { return n.ID }, s.noteOf, s.catalog.PutNotes)
}

func (m Member) texts() []string { return []string{m.ID, m.Status, m.JoinedAt, m.Name} }

func (n Note) texts() []string { return []string{n.ID, n.MemberID, n.Date, n.Text} }

// checkBatch refuses what cannot be a batch. Invalid UTF-8 is a fault of the whole: it cannot come over HTTP, where it is one of the body.
func checkBatch[T any](field string, items []T, texts func(T) []string) error {
	if len(items) > MaxItems {
		return invalid(field, "has %d items, at most %d are allowed", len(items), MaxItems)
	}
	for i, item := range items {
		for _, text := range texts(item) {
			if !utf8.ValidString(text) {
				return problem(http.StatusBadRequest, "", FieldError{"body", fmt.Sprintf("is not valid UTF-8, in item %d", i)})
			}
		}
	}
	return nil
}

// putGood puts the items that are sound and answers for the others in their places.
func putGood[V, I any](ctx context.Context, s *service, items []V, id func(V) string, sound func(V) (I, *FieldError), put func(context.Context, []I) ([]catalog.Result, error)) ([]PutResult, error) {
	results := make([]PutResult, len(items))
	var good []I
	var at []int
	for i, v := range items {
		item, wrong := sound(v)
		if wrong != nil {
			results[i] = refused(id(v), wrong.Field, wrong.Message)
			continue
		}
		good, at = append(good, item), append(at, i)
	}
	done, err := put(ctx, good)
	if err != nil {
		return nil, s.errorOf(err)
	}
	for n, i := range at {
		switch {
		case errors.Is(done[n].Err, catalog.ErrDuplicate):
			results[i] = refused(id(items[i]), "id", duplicate)
		case errors.Is(done[n].Err, catalog.ErrNoSuchMember):
			results[i] = refused(id(items[i]), "memberId", catalog.ErrNoSuchMember.Error())
		case done[n].Err != nil: // sound and refused all the same: the two disagree
			return nil, s.errorOf(done[n].Err)
		default:
			results[i] = PutResult{ID: short(id(items[i])), Outcome: string(done[n].Outcome)}
		}
	}
	return results, nil
}

func memberOf(v Member) (catalog.Member, *FieldError) {
	m := catalog.Member{ID: v.ID, Status: catalog.Status(v.Status), Name: v.Name}
	if once.CheckSubject(v.ID) != nil {
		return m, &FieldError{"id", wantID}
	}
	switch m.Status {
	case catalog.Active, catalog.Inactive, catalog.Withdrawn:
	default:
		return m, &FieldError{"status", wantStatus}
	}
	nameless := m
	nameless.Name = ""
	if nameless.JoinedAt.UnmarshalText([]byte(v.JoinedAt)) != nil || nameless.Check() != nil {
		return m, &FieldError{"joinedAt", wantTime}
	}
	m.JoinedAt = nameless.JoinedAt
	if m.Check() != nil {
		return m, &FieldError{"name", wantName}
	}
	return m, nil
}

// noteOf is the note as it is put now.
func (s *service) noteOf(v Note) (catalog.Note, *FieldError) {
	now := s.env.Now()
	n := catalog.Note{ID: v.ID, Member: v.MemberID, Date: once.Period(v.Date), At: now, Text: v.Text}
	if once.CheckSubject(v.ID) != nil {
		return n, &FieldError{"id", wantID}
	}
	if once.CheckSubject(v.MemberID) != nil {
		return n, &FieldError{"memberId", wantID}
	}
	if day, err := once.ParsePeriod(v.Date); err != nil || day.IsMonth() || day > once.DayOf(now, s.zone) {
		return n, &FieldError{"date", wantDay}
	}
	if n.Check() != nil {
		return n, &FieldError{"text", wantText}
	}
	return n, nil
}
