package once

import "fmt"

// MaxAmount bounds what one posting may add to a balance, up or down: 10^12.
const MaxAmount = 1_000_000_000_000

// Effect is data that describes a write; only a ledger carries it out. It is one of Add and Put.
type Effect interface {
	// Check tells whether the effect may belong to a posting of this subject.
	Check(subject string) error
}

// Add adds N to the balance Name of Subject: `Add{"member-42", "points", 100}`.
type Add struct {
	Subject string
	Name    string // no colon: the sort key of an entry has colons, that of a balance never
	N       int64  // -MaxAmount to MaxAmount, not 0
}

// Put stores Doc for Subject under Name. A ledger keeps the Doc in the entry itself. Doc is a struct with json tags, without floats.
type Put struct {
	Subject string
	Name    string
	Doc     any
}

var (
	_ Effect = Add{}
	_ Effect = Put{}
)

// Check implements Effect.
func (a Add) Check(subject string) error {
	if a.Subject != subject {
		return fmt.Errorf("add: subject %q is not the posting's subject %q", a.Subject, subject)
	}
	if err := checkPart("add: balance name", a.Name); err != nil {
		return err
	}
	if a.N == 0 || a.N > MaxAmount || a.N < -MaxAmount {
		return fmt.Errorf("add: amount %d is 0 or beyond %d", a.N, int64(MaxAmount))
	}
	return nil
}

// Check implements Effect.
func (p Put) Check(subject string) error {
	if p.Subject != subject {
		return fmt.Errorf("put: subject %q is not the posting's subject %q", p.Subject, subject)
	}
	if p.Doc == nil {
		return fmt.Errorf("put: document %q is nil", p.Name)
	}
	return checkPart("put: name", p.Name)
}

// Posting is a key and the effects that happen under it, all or none, once: at most one Add and at most one Put, on the subject of the key.
type Posting struct {
	Key     Key
	Effects []Effect
}

// Check tells whether a ledger can take the posting.
func (p Posting) Check() error {
	adds, puts := 0, 0
	for _, e := range p.Effects {
		if err := e.Check(p.Key.Subject()); err != nil {
			return fmt.Errorf("posting %s: %w", p.Key, err)
		}
		switch e.(type) {
		case Add:
			adds++
		case Put:
			puts++
		default:
			return fmt.Errorf("posting %s: %T is neither Add nor Put", p.Key, e)
		}
	}
	if adds > 1 || puts > 1 || adds+puts == 0 {
		return fmt.Errorf("posting %s: %d adds and %d puts, want one of either or one of both", p.Key, adds, puts)
	}
	return nil
}
