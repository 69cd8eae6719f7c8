package ai

import (
	"errors"
	"sync"
	"time"

	"hanbeon/pkg/job"
)

const (
	breakerLimit = 5                // failures in a row that open the breaker
	breakerPause = time.Minute      // how long it stays open, unless the server asked for longer
	probePause   = 10 * time.Second // before looking again while the call that decides is under way
)

// outcome is what a call showed of the server.
type outcome int

const (
	nothing outcome = iota // the caller ended it
	alive                  // it answers, well or not
	failing                // it does not, for now
	locked                 // it does not accept the key
)

func verdict(err error) outcome {
	var later *job.LaterError
	switch {
	case !errors.As(err, &later), later.Reason == ReasonBadAnswer:
		return alive
	case later.Reason == ReasonUnauthorised:
		return locked
	}
	return failing
}

// breaker keeps calls from a server that fails. It is closed, open until a time, or half-open from then on: one call goes through, and what it shows decides. The zero value is closed.
type breaker struct {
	mu       sync.Mutex
	failures int       // in a row
	until    time.Time // zero: closed
	again    time.Time // when to come back, as the server said: no reason to refuse a call that is begun, but one to begin none
	probing  bool      // half-open, and the one call is under way
	state    int       // grows whenever it opens or closes: a call that began before says nothing about now
}

// enter asks to make a call. Either wait is 0 and the call must end in leave, or it must not be made before so long.
func (b *breaker) enter(now time.Time) (turn int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch left := b.until.Sub(now); {
	case b.until.IsZero():
	case left > 0:
		return 0, left
	case b.probing:
		return 0, breakerPause
	default:
		b.probing = true
	}
	return b.state, 0
}

// wait is how long no call should be begun: until the breaker is half-open, for a while when its one call is under way, or as long as the server asked for.
func (b *breaker) wait(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing {
		return probePause
	}
	return max(0, b.until.Sub(now), b.again.Sub(now))
}

// leave says what the call of that turn showed, and with which error where it failed. If that opened the breaker, pause is how long it stays open.
func (b *breaker) leave(turn int, saw outcome, with *job.LaterError, now time.Time) (pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if turn != b.state {
		return 0
	}
	probe := b.probing
	b.probing = false
	switch saw {
	case alive:
		b.failures, b.until, b.again = 0, time.Time{}, time.Time{}
		if probe {
			b.state++
		}
	case failing, locked:
		if again := now.Add(with.After); with.After > 0 && again.After(b.again) {
			b.again = again
		}
		if b.failures++; probe || saw == locked || b.failures >= breakerLimit {
			pause = max(breakerPause, with.After)
			b.failures, b.until = 0, now.Add(pause)
			b.state++
		}
	}
	return pause
}
