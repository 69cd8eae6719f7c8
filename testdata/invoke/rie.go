package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// startTimeout is how long a program may take until it listens: it needs milliseconds, a loaded machine more.
const startTimeout = 30 * time.Second

// underEmulator starts the emulator with a binary, hands it one event, and stops both.
func underEmulator(ctx context.Context, binary string, env []string, payload []byte) (answer []byte, status int, err error) {
	emulator, err := tool("aws-lambda-rie", "HANBEON_RIE")
	if err != nil {
		return nil, 0, err
	}
	p, front, err := startAt(ctx, env, emulator, func(front string) []string {
		return []string{"--log-level", "error", "--runtime-interface-emulator-address", front, "--runtime-api-address", freeAddress(), binary} // its defaults are fixed ports
	})
	if err != nil {
		return nil, 0, err
	}
	defer p.stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+front+"/2015-03-31/functions/function/invocations", bytes.NewReader(payload))
	if err != nil {
		return nil, 0, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, 0, fmt.Errorf("the emulator does not answer: %w", err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return answer, resp.StatusCode, err
}

// tool finds a program: named by a variable, or in .tools/bin, or in PATH.
func tool(name, variable string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath(filepath.Join(".tools", "bin", name)); err == nil {
		return filepath.Abs(path)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no %s in %s, .tools/bin or PATH: `make tools` fetches it: %w", name, variable, err)
	}
	return path, nil
}

// process is a program that runs beside us.
type process struct {
	cmd     *exec.Cmd
	watcher *exec.Cmd
	leash   io.Closer // held open as long as the program may live
	exited  chan struct{}
}

// startAt starts a program that listens at an address it is given, and waits until it does.
func startAt(ctx context.Context, env []string, path string, args func(address string) []string) (p *process, address string, err error) {
	for range 3 { // somebody else may take the free port first
		address = freeAddress()
		if p, err = start(ctx, env, path, args(address)...); err != nil {
			return nil, "", err
		}
		if err = p.listens(ctx, address); err == nil {
			return p, address, nil
		}
		p.stop()
	}
	return nil, "", err
}

// start runs a program until stop, or until ctx ends. What it writes is passed on to standard error.
func start(ctx context.Context, env []string, path string, args ...string) (*process, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the emulator ends its function on that
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Killed, we stop nobody; but the system closes our files, and a shell that waits for the end of its input notices.
	watcher := exec.Command("sh", "-c", `read _; kill -9 "$0"`, strconv.Itoa(cmd.Process.Pid))
	leash, err := watcher.StdinPipe()
	if err == nil {
		err = watcher.Start()
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	p := &process{cmd, watcher, leash, make(chan struct{})}
	go func() { // ends with the program
		_ = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) stop() {
	_ = p.cmd.Cancel() // over already
	select {
	case <-p.exited:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	_ = p.watcher.Process.Kill() // before it sees the end of its input: the process id is free again
	_ = p.watcher.Wait()
	_ = p.leash.Close()
}

// listens waits until the program takes connections.
func (p *process) listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		var d net.Dialer
		if c, err := d.DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended at once", p.cmd.Path)
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s does not listen", p.cmd.Path), context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freeAddress is one of this machine that nobody listens at.
func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err) // a machine without a free port
	}
	defer l.Close()
	return l.Addr().String()
}
