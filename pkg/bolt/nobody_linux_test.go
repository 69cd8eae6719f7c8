package bolt_test

import (
	"runtime"
	"syscall"
	"testing"
)

// asNobody runs f with the file system rights of nobody. On Linux these belong to the thread, so the other tests go on as root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
