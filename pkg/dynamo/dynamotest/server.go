// Package dynamotest runs tests on DynamoDB's API: it starts the emulator dynoxide, makes tables, and puts faults between client and emulator.
package dynamotest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// startTimeout is how long the emulator may take to answer: it starts in milliseconds, a loaded machine may need more.
const startTimeout = 30 * time.Second

// shared is the one emulator of a test binary: tests use different tables, so they need not use different servers.
var shared = sync.OnceValues(start)

// server is a running emulator.
type server struct {
	endpoint string
	leash    io.Closer // held open as long as this process lives
}

// endpoint is the address of the emulator. Without the binary the test is skipped, or fails if the environment variable HANBEON_REQUIRE_TOOLS is 1.
func endpoint(t testing.TB) string {
	t.Helper()
	if _, err := binary(); err != nil {
		if os.Getenv("HANBEON_REQUIRE_TOOLS") == "1" {
			t.Fatalf("the DynamoDB emulator is required here: %v", err)
		}
		t.Skipf("SKIPPED, NOTHING ABOUT DYNAMODB WAS TESTED: %v", err)
	}
	s, err := shared()
	if err != nil {
		t.Fatalf("start the DynamoDB emulator: %v", err)
	}
	return s.endpoint
}

// binary finds dynoxide: HANBEON_DYNOXIDE, else .tools/bin at the root of the module, else PATH.
func binary() (string, error) {
	if path := os.Getenv("HANBEON_DYNOXIDE"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("HANBEON_DYNOXIDE: %w", err)
		}
		return path, nil
	}
	if path := filepath.Join(moduleRoot(), ".tools", "bin", "dynoxide"); executable(path) {
		return path, nil
	}
	path, err := exec.LookPath("dynoxide")
	if err != nil {
		return "", fmt.Errorf("no dynoxide in HANBEON_DYNOXIDE, .tools/bin or PATH (cargo install --locked dynoxide-rs --version 3.2.0 --root .tools): %w", err)
	}
	return path, nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// moduleRoot is the nearest folder with a go.mod: tests run in the folder of their package.
func moduleRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// start runs the emulator until the test binary is gone, however it goes.
func start() (*server, error) {
	var failures error
	for range 3 { // another process may take the free port first
		s, err := startOnce()
		if err == nil {
			return s, nil
		}
		failures = errors.Join(failures, err)
	}
	return nil, failures
}

func startOnce() (*server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	emulator := exec.Command(path, "serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--log", "quiet")
	emulator.Stdout, emulator.Stderr = &output, &output
	if err := emulator.Start(); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	go func() { // lives as long as the emulator
		_ = emulator.Wait()
		close(exited)
	}()
	leash, err := killWithUs(emulator.Process.Pid)
	if err != nil {
		_ = emulator.Process.Kill()
		return nil, err
	}
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		select {
		case <-exited:
			return nil, fmt.Errorf("%s ended at once: %s", path, output.String())
		case <-time.After(10 * time.Millisecond):
		}
		if response, err := http.Get(address); err == nil {
			_ = response.Body.Close()
			return &server{endpoint: address, leash: leash}, nil
		}
	}
	_ = emulator.Process.Kill()
	return nil, fmt.Errorf("%s did not answer on port %d within %s", path, port, startTimeout)
}

// killWithUs kills a process when this one ends, or when the leash is closed. A test binary that panics, runs into its timeout or is killed runs no clean-up, but the system
// closes its files: a shell that waits for the end of its input notices.
func killWithUs(pid int) (io.Closer, error) {
	watcher := exec.Command("sh", "-c", `read _; kill -9 "$0"`, strconv.Itoa(pid))
	leash, err := watcher.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := watcher.Start(); err != nil {
		return nil, fmt.Errorf("watch the emulator: %w", err)
	}
	return leash, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
