package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
)

// idempotencyHeader carries StartMonthlyPoints.IdempotencyKey and RequestTIL.IdempotencyKey.
const idempotencyHeader = "Idempotency-Key"

func checkIdempotencyKey(key string) error {
	ok := len(key) <= MaxIdempotency && key[0] != ' ' && key[len(key)-1] != ' '
	for _, c := range []byte(key) {
		ok = ok && c >= ' ' && c <= '~'
	}
	if !ok {
		return invalid(idempotencyHeader, "want 1 to %d printable ASCII characters, no space at either end", MaxIdempotency)
	}
	return nil
}

// idempotency identifies a request by what it asks for, nil for one without a key. request is the parsed request without its key: spelling, order and
// white space of a body are no part of it.
func idempotency(ctx context.Context, key, operation string, r any) (*job.Idempotency, error) {
	if key == "" {
		return nil, nil
	}
	if err := checkIdempotencyKey(key); err != nil {
		return nil, err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(operation + "\n" + string(b)))
	return &job.Idempotency{Caller: request.From(ctx).Scope(), Key: key, Digest: hex.EncodeToString(sum[:])}, nil
}

// lastPeriod is the last month that can be run: the calendar looks at the two after it, and a month has four digits of a year.
const lastPeriod = "9999-10"

// StartMonthlyPoints implements Service.
func (s *service) StartMonthlyPoints(ctx context.Context, r StartMonthlyPoints) (Accepted, error) {
	period, err := once.ParsePeriod(r.Period)
	if err != nil || !period.IsMonth() || period > lastPeriod {
		return Accepted{}, invalid("period", "want a real month such as 2024-04, from 2000-01 to %s", lastPeriod)
	}
	if _, err := monthlypoint.ParseAmount(strconv.FormatInt(r.Amount, 10)); err != nil {
		return Accepted{}, invalid("amount", "want an integer from 1 to %d", int64(once.MaxAmount))
	}
	again, err := idempotency(ctx, r.IdempotencyKey, "POST /v1/monthly-points", r)
	if err != nil {
		return Accepted{}, err
	}
	result, err := s.dispatcher.Run(ctx, dispatch.Run{
		Kind: monthlypoint.Name, Period: period, Input: json.RawMessage(monthlypoint.Inputs(r.Amount)), RequestedBy: request.From(ctx).ARN,
		AllowFuture: r.AllowFuture, ChangeAmount: r.ChangeAmount, Idempotency: again,
	})
	return s.accepted(ctx, result, err)
}
