//go:build unix

package bolt_test

import (
	"os"
	"testing"
)

// unprivileged runs f as a user whom permissions bind.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	asNobody(t, f)
}
