package aistub

import (
	"errors"
	"net/http"
	"time"
)

// Behaviour says how the stub answers. The zero value answers every request well and at once.
type Behaviour struct {
	Latency time.Duration // before anything else, in every call

	// At most one of these.
	Status    int  // fails with this status, 400 to 599, and an error object of the protocol
	Hang      bool // never answers: the call ends when its client goes away or the server is closed (a graceful shutdown would wait for it)
	Garbage   bool // 200 with a page of HTML
	Truncated bool // an answer that is cut off in the middle, with finish_reason length
	Fenced    bool // the JSON stands in a fenced block of Markdown

	RetryAfter time.Duration // with Status: the Retry-After header, in whole seconds, rounded up; 0 sends none

	// FailFirst limits the above, but for Latency, to so many calls from the moment the behaviour is set; the calls after those are answered well. 0: no limit. Without one of the switches the calls fail with 500.
	FailFirst int
}

// Check names what is wrong with a behaviour. It joins one error per field.
func (b Behaviour) Check() error {
	var wrong []error
	add := func(is bool, text string) {
		if is {
			wrong = append(wrong, errors.New(text))
		}
	}
	add(b.Latency < 0, "latency: negative")
	add(b.Status != 0 && (b.Status < 400 || b.Status > 599), "status: must be 400 to 599")
	add(b.RetryAfter < 0, "retry after: negative")
	add(b.RetryAfter > 0 && b.Status == 0, "retry after: needs a status")
	add(b.FailFirst < 0, "fail first: negative")
	switches := 0
	for _, on := range []bool{b.Status != 0, b.Hang, b.Garbage, b.Truncated, b.Fenced} {
		if on {
			switches++
		}
	}
	add(switches > 1, "status, hang, garbage, truncated, fenced: at most one of them")
	return errors.Join(wrong...)
}

// of is the behaviour towards the nth call (from 0) since it was set.
func (b Behaviour) of(n int) Behaviour {
	switch {
	case b.FailFirst == 0:
		return b
	case n >= b.FailFirst:
		return Behaviour{Latency: b.Latency}
	case b.Status == 0 && !b.Hang && !b.Garbage && !b.Truncated && !b.Fenced:
		b.Status = http.StatusInternalServerError
	}
	return b
}
