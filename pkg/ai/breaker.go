package ai

import (
	"errors"
	"sync"
	"time"

	"hanbeon/pkg/job"
)

const (
	breakerLimit = 5           // failures in a row that open the breaker
	breakerPause = time.Minute // how long it stays open, unless the server asked for longer
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
		b.failures, b.until = 0, time.Time{}
		if probe {
			b.state++
		}
	case failing, locked:
		if b.failures++; probe || saw == locked || b.failures >= breakerLimit {
			pause = max(breakerPause, with.After)
			b.failures, b.until = 0, now.Add(pause)
			b.state++
		}
	}
	return pause
}
