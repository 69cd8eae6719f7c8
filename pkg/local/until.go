package local

import (
	"context"
	"errors"
	"time"
)

// What ends a wait that can never succeed.
var (
	ErrStuck   = errors.New("nothing more happens, and what was waited for did not come")
	ErrStopped = errors.New("the stack was stopped")
)

// patience is how long, by a clock that skips, only the reaper may run. It must be longer than the longest pause that the reaper makes before it acts (6 hours).
const patience = 48 * time.Hour

// poll is how often, by the wall's clock, a condition is looked at while the stack is busy.
const poll = 50 * time.Millisecond

// Until waits until a condition holds, while the stack runs. With a clock that skips it lets time pass as fast as it can, and gives up with ErrStuck when no message has come for
// 48 hours. The condition is called in this goroutine only, now and then while the stack is busy, and always before time is skipped. Its error ends the wait.
func (s *Stack) Until(ctx context.Context, condition func() (bool, error)) error {
	begun := s.clock.Now()
	for {
		s.mu.Lock()
		quiet, changed, over := s.quiet, s.changed, s.over
		s.mu.Unlock()
		// In this order: what the condition sees is not older than the quiet that allows to skip.
		if done, err := condition(); done || err != nil {
			return err
		}
		if over {
			return ErrStopped
		}
		if quiet && s.skips {
			if err := s.skip(changed, begun); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		}
		wait := time.NewTimer(poll)
		select {
		case <-ctx.Done():
			wait.Stop()
			return ctx.Err()
		case <-changed:
		case <-wait.C:
		}
		wait.Stop()
	}
}

// skip moves the clock to the next thing to do, if the stack has been quiet ever since its state was seen.
func (s *Stack) skip(seen <-chan struct{}, begun time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != seen {
		return nil
	}
	since := begun
	if s.worked.After(since) {
		since = s.worked
	}
	if s.next.IsZero() || s.next.Sub(since) > patience {
		return ErrStuck
	}
	s.clock.skip(s.next.Sub(s.clock.Now()))
	s.touch()
	return nil
}

// Skip moves a clock that skips on by d, and what is due by then happens.
func (s *Stack) Skip(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.skip(d)
	s.touch()
}
