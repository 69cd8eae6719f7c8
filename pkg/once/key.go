package once

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Kind is the stable name of a job type, such as `monthly-point`: lower case letters, digits and single hyphens, at most 32 bytes, starting with a letter.
// The same string names the package (without hyphens), the function, the queue and the template block.
type Kind string

// ParseKind checks that s is a well-formed kind. It does not know which kinds exist.
func ParseKind(s string) (Kind, error) {
	ok := s != "" && len(s) <= 32 && s[0] >= 'a' && s[0] <= 'z' && !strings.HasSuffix(s, "-") && !strings.Contains(s, "--")
	for _, c := range []byte(s) {
		ok = ok && (c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z')
	}
	if !ok {
		return "", fmt.Errorf("kind %.40q: want lower case letters, digits and single hyphens, at most 32, starting with a letter", s)
	}
	return Kind(s), nil
}

// MaxSubject is the longest subject or scope in bytes.
const MaxSubject = 128

// CheckSubject tells whether s may be part of a key: 1 to 128 bytes of `A-Z a-z 0-9 . _ ~ @ + = -`.
//
// The policy is to refuse, never to repair: no trimming, no case folding, no Unicode normalisation. `member-42` and `Member-42` are two subjects; ` member-42`,
// a zero-width space or Hangul are no subjects. What looks equal and is not can therefore never become two keys of one person by way of an edge that
// normalised and one that did not. The alphabet has no `:` and no `/`, so joined keys cannot be confused.
func CheckSubject(s string) error {
	return checkPart("subject", s)
}

// CheckScope tells whether s may be the middle of a key. The alphabet is that of subjects.
func CheckScope(s string) error {
	return checkPart("scope", s)
}

func checkPart(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if len(s) > MaxSubject {
		return fmt.Errorf("%s %.40q... has %d bytes, at most %d are allowed", what, s, len(s), MaxSubject)
	}
	for i := 0; i < len(s); i++ {
		if !legal(s[i]) {
			return fmt.Errorf("%s %q: byte %d is not one of A-Z a-z 0-9 . _ ~ @ + = -", what, s, i+1)
		}
	}
	return nil
}

func legal(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._~@+=-", c) >= 0
}

// Key is the permanent identity of one posting: `kind:scope:subject`. Distinct triples give distinct strings, since no part may contain a colon.
// Make one with NewKey or ParseKey; the zero Key is no key.
type Key struct {
	kind    Kind
	scope   string
	subject string
}

// NewKey joins checked parts. The error names the part that is wrong.
func NewKey(kind Kind, scope, subject string) (Key, error) {
	if _, err := ParseKind(string(kind)); err != nil {
		return Key{}, err
	}
	if err := CheckScope(scope); err != nil {
		return Key{}, err
	}
	if err := CheckSubject(subject); err != nil {
		return Key{}, err
	}
	return Key{kind, scope, subject}, nil
}

// ParseKey is the inverse of String.
func ParseKey(s string) (Key, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("key %.80q: want kind:scope:subject", s)
	}
	return NewKey(Kind(parts[0]), parts[1], parts[2])
}

// Kind is the first part of the key.
func (k Key) Kind() Kind { return k.kind }

// Scope is the middle of the key: the period for a scheduled kind.
func (k Key) Scope() string { return k.scope }

// Subject is the last part of the key: who or what the posting is for.
func (k Key) Subject() string { return k.subject }

// String is the key as it is stored: `monthly-point:2024-04:member-42`.
func (k Key) String() string { return string(k.kind) + ":" + k.scope + ":" + k.subject }

// Digest is the fingerprint of a posting: SHA-256, in hex, of its key, a newline and the inputs of its job (canonical JSON).
//
// It never covers job, attempt, time, caller or derived output, so that a second run, or a new version deployed in the middle of one, finds its own
// entries equal and does not report conflicts.
func Digest(k Key, inputs string) string {
	sum := sha256.Sum256([]byte(k.String() + "\n" + inputs))
	return hex.EncodeToString(sum[:])
}
