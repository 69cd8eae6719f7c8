package sim

import (
	"math"
	"time"
)

// series is one series of draws. Each is counted by itself: how often one fault is asked for does not move the others.
type series int

const (
	sortKill series = iota
	sortHalf
	sortFail
	sortThrottle
	sortLose
	sortDuplicate
	sortDelay
	sortPause
)

var allSeries = [...]series{sortKill, sortHalf, sortFail, sortThrottle, sortLose, sortDuplicate, sortDelay, sortPause}

// draw is true for a share of its calls.
func (f *Faults) draw(s series, share float64) bool {
	if share <= 0 {
		return false
	}
	return f.number(s) < share
}

// pause is up to maxDelay, but not 0.
func (f *Faults) pause() time.Duration {
	return time.Millisecond + time.Duration(f.number(sortPause)*float64(maxDelay-time.Millisecond))
}

// number is the next of the series, 0 to below 1.
func (f *Faults) number(s series) float64 {
	n := f.draws[s].Add(1)
	x := mix(mix(f.c.Seed) + mix(uint64(s)+1) + n)
	return math.Ldexp(float64(x>>11), -53)
}

// mix is the finalizer of SplitMix64: neighbouring inputs give unrelated outputs.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
