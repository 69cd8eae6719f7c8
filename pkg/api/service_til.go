package api

import (
	"context"
	"errors"
	"net/http"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
)

// RequestTIL implements Service.
func (s *service) RequestTIL(ctx context.Context, r RequestTIL) (Accepted, error) {
	day, err := dayOf(r.Date)
	if err != nil {
		return Accepted{}, err
	}
	again, err := idempotency(ctx, r.IdempotencyKey, "POST /v1/til-generations", r)
	if err != nil {
		return Accepted{}, err
	}
	if err := s.til.Check(ctx, r.MemberID, day, s.env.Now()); err != nil {
		return Accepted{}, s.tilError(err)
	}
	opening, err := s.til.Opening(r.MemberID, day)
	if err != nil {
		return Accepted{}, s.tilError(err)
	}
	result, err := s.dispatcher.Open(ctx, job.Request{Opening: opening, RequestedBy: request.From(ctx).ARN, Idempotency: again})
	return s.accepted(ctx, result, err)
}

func dayOf(date string) (once.Period, error) {
	day, err := once.ParsePeriod(date)
	if err != nil || day.IsMonth() {
		return "", invalid("date", "want a real day such as 2024-04-15, from 2000 on")
	}
	return day, nil
}

// tilError turns an error of the kind into one of the contract.
func (s *service) tilError(err error) error {
	var field *til.FieldError
	if errors.As(err, &field) {
		return invalid(field.Field, "%s", short(field.Err.Error()))
	}
	return s.errorOf(err)
}

// TIL implements Service.
func (s *service) TIL(ctx context.Context, memberID, date string) (TIL, error) {
	day, err := dayOf(date)
	if err != nil {
		return TIL{}, err
	}
	if once.CheckSubject(memberID) != nil {
		return TIL{}, problem(http.StatusNotFound, "there is no such member; ids are compared byte by byte", FieldError{"memberId", "no such member"})
	}
	found, ok, err := s.til.Find(ctx, memberID, day)
	if err != nil {
		return TIL{}, s.errorOf(err)
	}
	if !ok || found.Revision == 0 { // the row is there from the first request on
		return TIL{}, problem(http.StatusNotFound, "no summary of this member's day has been published yet")
	}
	return TIL{
		MemberID: found.MemberID, Date: string(found.Date), Revision: found.Revision, Title: found.Title, Text: found.Text, Keywords: found.Keywords,
		Job: found.Job, UpdatedAt: found.At,
	}, nil
}
