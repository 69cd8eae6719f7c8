// Package queue is the contract between the engines and a message queue: what a message says, how messages are sent, and how one is put off.
//
// A queue delivers at least once, in any order, and may lose nothing but its whole self; every engine is written for that. Messages are small: parameters live in the
// job, so a message cannot change an amount. hanbeon/pkg/sqs implements the contract on Amazon SQS, hanbeon/pkg/local in memory with the same rules.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Name is the logical name of a queue: Segments, or the kind whose messages it carries.
type Name string

// Segments is the queue of the fan-out.
const Segments Name = "segments"

// Limits of one message and of one request (Amazon SQS Developer Guide, "message quotas").
const (
	MaxBatch = 10          // entries in one request
	MaxBytes = 1024 * 1024 // bytes of all bodies in one request
	MaxDelay = 12 * time.Hour
)

// Queue is safe for concurrent use.
type Queue interface {
	// Send puts the bodies on a queue, in as many requests as it takes, and tries again what a request did not accept.
	// nil: every body was accepted. *Unsent: those it lists may not have been; sending them, or all, again is harmless, since duplicates are.
	Send(ctx context.Context, to Name, bodies ...string) error

	// PutOff makes messages that this process has received and not acknowledged visible again after d (0: at once) instead of after the visibility timeout
	// of the queue. An error is harmless: those messages come back when the visibility timeout ends.
	PutOff(ctx context.Context, from Name, d time.Duration, receipts ...string) error
}

// Unsent is the error of Send: some bodies were not accepted.
type Unsent struct {
	To      Name
	Indexes []int // positions among the bodies of the call
	Err     error // the last reason
}

func (u *Unsent) Error() string {
	return fmt.Sprintf("queue %s: %d messages not accepted: %v", u.To, len(u.Indexes), u.Err)
}

func (u *Unsent) Unwrap() error { return u.Err }

// version is that of the messages below. A decoder takes every version up to its own, until queues and DLQs (14 days) are empty of the older ones.
const version = 1

// Segment asks the fan-out to turn one segment of a job into messages.
type Segment struct {
	Job     string // job id
	Segment int    // 0 and up
}

// Subject asks a worker to apply one posting of a bulk job.
type Subject struct {
	Job     string // job id
	Subject string
}

// Single asks a worker to carry out a single job.
type Single struct {
	Job string // job id
}

type envelope struct {
	Version int     `json:"v"`
	Job     string  `json:"job"`
	Segment *int    `json:"segment,omitempty"`
	Subject *string `json:"subject,omitempty"`
}

// Encode is the body of the message.
func (s Segment) Encode() string { return encode(envelope{version, s.Job, &s.Segment, nil}) }

// Encode is the body of the message.
func (s Subject) Encode() string { return encode(envelope{version, s.Job, nil, &s.Subject}) }

// Encode is the body of the message.
func (s Single) Encode() string { return encode(envelope{version, s.Job, nil, nil}) }

func encode(e envelope) string {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // two strings and two integers always marshal
	}
	return string(b)
}

// ErrNotOurs marks a message that no code of this version can act on: not our JSON, a newer version, or a field that is missing. It is never dropped: it is
// handed back until it is in the DLQ, where a newer version may still take it.
var ErrNotOurs = errors.New("not a message of this version")

// DecodeSegment reads the body of a Segment. Errors wrap ErrNotOurs and never quote the body.
func DecodeSegment(body string) (Segment, error) {
	e, err := decode(body)
	if err != nil {
		return Segment{}, err
	}
	if e.Segment == nil || *e.Segment < 0 || e.Subject != nil {
		return Segment{}, fmt.Errorf("%w: want a segment, 0 or more, and no subject", ErrNotOurs)
	}
	return Segment{e.Job, *e.Segment}, nil
}

// DecodeSubject reads the body of a Subject. Errors wrap ErrNotOurs and never quote the body.
func DecodeSubject(body string) (Subject, error) {
	e, err := decode(body)
	if err != nil {
		return Subject{}, err
	}
	if e.Subject == nil || *e.Subject == "" || e.Segment != nil {
		return Subject{}, fmt.Errorf("%w: want a subject and no segment", ErrNotOurs)
	}
	return Subject{e.Job, *e.Subject}, nil
}

// DecodeSingle reads the body of a Single. Errors wrap ErrNotOurs and never quote the body.
func DecodeSingle(body string) (Single, error) {
	e, err := decode(body)
	if err != nil {
		return Single{}, err
	}
	if e.Subject != nil || e.Segment != nil {
		return Single{}, fmt.Errorf("%w: want neither a subject nor a segment", ErrNotOurs)
	}
	return Single{e.Job}, nil
}

func decode(body string) (envelope, error) {
	var e envelope
	if !utf8.ValidString(body) {
		return e, fmt.Errorf("%w: invalid UTF-8", ErrNotOurs)
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return e, fmt.Errorf("%w: malformed JSON", ErrNotOurs)
	}
	if e.Version < 1 || e.Version > version {
		return e, fmt.Errorf("%w: version %d, this code reads 1 to %d", ErrNotOurs, e.Version, version)
	}
	if e.Job == "" {
		return e, fmt.Errorf("%w: no job", ErrNotOurs)
	}
	return e, nil
}
