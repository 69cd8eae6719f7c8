package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"
)

// A cursor is where a page ended, sealed with what was asked for: one of another list, another member or another filter is refused and not taken for
// a place in this one. The seal keeps mistakes out, not forgers: all that a cursor can do is to begin the same list somewhere else, for a caller who
// may read all of it.

// sealBytes of a hash are enough to tell mistakes.
const sealBytes = 9

// maxPlace is the longest part of a place in bytes: the longest sort key of a store.
const maxPlace = 1024

// cursorScope says which list with which filter.
func cursorScope(parts ...string) string { return strings.Join(parts, "\n") }

func seal(scope, place string) string {
	sum := sha256.Sum256([]byte(scope + "\n" + place))
	return string(sum[:sealBytes])
}

func sealCursor(scope string, place ...string) string {
	b, _ := json.Marshal(place) // texts always marshal
	return base64.RawURLEncoding.EncodeToString([]byte(seal(scope, string(b)) + string(b)))
}

// openCursor returns the n parts of the place.
func openCursor(scope, cursor string, n int) ([]string, error) {
	bad := problem(http.StatusBadRequest, "", FieldError{"cursor", "is not a cursor of this list: take it from next, and leave the other parameters as they were"})
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) < sealBytes || seal(scope, string(b[sealBytes:])) != string(b[:sealBytes]) {
		return nil, bad
	}
	var place []string
	if json.Unmarshal(b[sealBytes:], &place) != nil || len(place) != n {
		return nil, bad
	}
	for _, p := range place {
		if len(p) > maxPlace || !utf8.ValidString(p) || strings.ContainsRune(p, 0) {
			return nil, bad
		}
	}
	return place, nil
}

// limitOf is how many items a page may have.
func limitOf(n int) (int, error) {
	if n == 0 {
		return DefaultLimit, nil
	}
	if n < 1 || n > MaxLimit {
		return 0, invalid("limit", "want 1 to %d", MaxLimit)
	}
	return n, nil
}
