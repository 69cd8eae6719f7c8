package local

import (
	"sync/atomic"
	"time"
)

// clock is the time of a stack. It never goes back.
type clock struct {
	origin time.Time    // what the clock said at `from`
	from   time.Time    // with the monotonic reading, so that a wall clock that is set does not matter
	offset atomic.Int64 // nanoseconds jumped over so far
	wall   bool         // follow the wall clock instead
}

// newClock is the wall's clock, or one that starts at a time and can be moved on.
func newClock(skip bool, start time.Time) *clock {
	now := time.Now()
	if start.IsZero() {
		start = now
	}
	return &clock{origin: start, from: now, wall: !skip}
}

// Now is the time in UTC, in whole milliseconds.
func (c *clock) Now() time.Time {
	now := time.Now()
	if !c.wall {
		now = c.origin.Add(now.Sub(c.from) + time.Duration(c.offset.Load()))
	}
	return now.UTC().Truncate(time.Millisecond)
}

// skip moves the clock on; a negative or zero d does nothing.
func (c *clock) skip(d time.Duration) {
	if d > 0 && !c.wall {
		c.offset.Add(int64(d))
	}
}
