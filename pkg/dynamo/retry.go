package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	randv2 "math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/store"
)

// The defaults of Config, and the pauses between attempts: a random part of base, doubled with each attempt ("full jitter").
const (
	attemptTimeout = 5 * time.Second
	retries        = 6

	conflictPause = 25 * time.Millisecond  // transactions are over in milliseconds; at most 1.6 s in all
	throttlePause = 100 * time.Millisecond // capacity comes back by the second; at most 6.3 s in all

	// tokenLife is how long a token is trusted. DynamoDB promises 10 minutes; the rest is for an attempt under way and for clocks that differ.
	tokenLife = 9 * time.Minute
)

// call is one Transact on its way.
type call struct {
	writes      []store.Write
	transaction bool
	send        sender
}

func (c call) String() string {
	if len(c.writes) == 1 {
		return "write " + c.writes[0].Key.String()
	}
	return fmt.Sprintf("transact %d writes, the first on %s", len(c.writes), c.writes[0].Key)
}

// write makes attempts until one has a final answer. The package comment says why it goes on or stops.
func (s *Store) write(ctx context.Context, c call) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: not tried: %w", c, err)
	}
	token, since := rand.Text(), s.now()
	var silent error // of the latest attempt without an answer
	for try := 0; ; try++ {
		spent, err := s.attempt(ctx, c, token)
		if err == nil {
			s.meterWritten(c, spent)
			return nil
		}
		a := judge(c.writes, err)
		s.log.DebugContext(ctx, "attempt to write failed", "call", c.String(), "attempt", try+1, "code", a.code, "error", err)
		switch a.verdict {
		case refused:
			s.meterRefused(c, a.refused)
			return a.refused
		case permanent:
			return fmt.Errorf("%s: %w", c, err)
		case unanswered:
			silent = err
		}
		busy := &store.Busy{Conflicts: a.conflicts, Reason: fmt.Sprintf("%s after %d attempts", a.code, try+1)}
		if try >= s.retries || silent != nil && !c.transaction {
			return c.end(busy, silent, nil)
		}
		if err := s.pause(ctx, a.verdict, try); err != nil {
			return c.end(busy, silent, err)
		}
		if silent == nil {
			token, since = rand.Text(), s.now()
		} else if s.age(since) > tokenLife {
			return c.end(busy, silent, errors.New("the token is too old to try again"))
		}
	}
}

// attempt sends a call once, in bounded time: a connection that went silent costs seconds and not the rest of the deadline.
func (s *Store) attempt(ctx context.Context, c call, token string) ([]types.ConsumedCapacity, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return c.send(ctx, token)
}

// end is the error of a call that is given up, for a cause or because its attempts are used up: busy only if every attempt had an answer.
func (c call) end(busy *store.Busy, silent, cause error) error {
	switch {
	case silent != nil && cause != nil:
		return fmt.Errorf("%s: the outcome is unknown, an attempt had no answer: %w: %w", c, silent, cause)
	case silent != nil:
		return fmt.Errorf("%s: the outcome is unknown, an attempt had no answer: %w", c, silent)
	case cause != nil:
		return fmt.Errorf("%s: %w: %w", c, busy, cause)
	}
	return busy
}

// read repeats a request that changes nothing until it has an answer.
func (s *Store) read(ctx context.Context, what string, send func(context.Context) error) error {
	for try := 0; ; try++ {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		bounded, cancel := context.WithTimeout(ctx, s.timeout)
		err := send(bounded)
		cancel()
		if err == nil {
			return nil
		}
		a := classify(err)
		s.log.DebugContext(ctx, "attempt to read failed", "call", what, "attempt", try+1, "code", a.code, "error", err)
		switch {
		case a.verdict == permanent:
			return fmt.Errorf("%s: %w", what, err)
		case try >= s.retries && a.verdict == throttled:
			return fmt.Errorf("%s: %w: %w", what, &store.Busy{Reason: a.code}, err)
		case try >= s.retries:
			return fmt.Errorf("%s: no answer after %d attempts: %w", what, try+1, err)
		}
		if err := s.pause(ctx, a.verdict, try); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (s *Store) pause(ctx context.Context, v verdict, try int) error {
	base := throttlePause
	if v == conflict {
		base = conflictPause
	}
	most := base << min(try, 10)
	if err := s.sleep(ctx, randv2.N(most)); err != nil {
		return err
	}
	return ctx.Err()
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// age is how long ago t was, by the wall clock too: the monotonic one may stand still while a machine sleeps.
func (s *Store) age(t time.Time) time.Duration {
	now := s.now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}

// meterWritten adds what a successful call cost. DynamoDB answers a repeated token with what reading the items cost; the writes were paid for by the attempt whose answer
// was lost, and are computed.
func (s *Store) meterWritten(c call, spent []types.ConsumedCapacity) {
	units, read := 0.0, 0.0
	for _, x := range spent {
		switch {
		case x.ReadCapacityUnits != nil && *x.ReadCapacityUnits > 0:
			read += *x.ReadCapacityUnits
		case x.CapacityUnits != nil:
			units += *x.CapacityUnits
		}
	}
	s.meter.AddRead(halves(read))
	if units == 0 {
		for _, w := range c.writes {
			s.meter.AddWrite(store.WriteUnits(0, written(w), c.transaction))
		}
		return
	}
	s.meter.AddWrite(int(math.Ceil(units)))
}

// meterRefused computes what a refused call cost, with the items that the answer showed.
func (s *Store) meterRefused(c call, r *store.Refused) {
	old := make(map[int]int, len(r.By))
	for _, x := range r.By {
		old[x.Index] = store.Size(x.Old.Key, x.Old.Attrs)
	}
	for i, w := range c.writes {
		if before, inTheWay := old[i]; inTheWay {
			s.meter.AddWrite(store.WriteUnits(before, 0, c.transaction))
		} else {
			s.meter.AddWrite(store.WriteUnits(0, written(w), c.transaction))
		}
	}
}

// written is the size of what a write brings along: of an update that is less than the item.
func written(w store.Write) int {
	switch w.Op {
	case store.OpPut:
		return store.Size(w.Key, w.Item)
	case store.OpUpdate:
		return store.Size(w.Key, w.Set)
	}
	return 0
}

func halves(units float64) int { return int(math.Round(2 * units)) }
