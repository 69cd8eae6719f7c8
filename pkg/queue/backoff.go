package queue

import (
	"math/rand/v2"
	"strconv"
	"time"
)

// The pauses between deliveries of a message that failed for a reason that passes. LongestBackoff bounds how long a message can be out of sight: the reaper waits longer.
const (
	firstBackoff   = 4 * time.Second
	LongestBackoff = 900 * time.Second
)

// Backoff is the pause before the next delivery of a message that was received so many times (1 and up): exponential with full jitter, 1 s to LongestBackoff.
// The count of receives decides nothing else.
func Backoff(receives int) time.Duration {
	most := firstBackoff << min(max(receives, 1)-1, 10)
	return max(time.Second, rand.N(min(most, LongestBackoff)+1))
}

// Receives is how often a message was received, from the attributes of its delivery; 1 where they do not tell.
func Receives(attributes map[string]string) int {
	n, err := strconv.Atoi(attributes["ApproximateReceiveCount"])
	if err != nil || n < 1 {
		return 1
	}
	return n
}
