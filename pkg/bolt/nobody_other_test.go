//go:build unix && !linux

package bolt_test

import "testing"

// asNobody exists on Linux only: elsewhere the file system rights of one thread cannot be given up.
func asNobody(t *testing.T, _ func()) {
	t.Helper()
	t.Fatal("permissions do not bind root: run the tests as an ordinary user")
}
