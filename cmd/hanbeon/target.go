package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
)

// target is what a command works on: a data file in this process, the API of a `hanbeon local`, or a deployed API. Whichever it is, it speaks the contract of the API, and
// commands cannot tell the difference unless they ask for the store.
type target struct {
	api.Service
	store    *bolt.Store // the data file of this process; nil behind an API
	where    string      // path of the data file, or address of the API
	deployed bool        // on AWS
}

// close lets go of the data file.
func (t *target) close() {
	if t.store != nil {
		t.store.Close()
	}
}

// target chooses by --endpoint and --data, and says on stderr what it chose. It is the one place that does. open makes the data file of this process (app.open or app.create), if it is to be that.
//
// An address on this machine is that of a `hanbeon local` and takes the key that lies beside its data file, never AWS credentials; any other takes AWS credentials, never that key.
func (a *app) target(ctx context.Context, open func() (*bolt.Store, error)) (*target, error) {
	if a.endpoint == nil {
		return a.laptop(open)
	}
	if !a.endpoint.laptop {
		return a.deployed(ctx, a.endpoint)
	}
	c, ok, err := readConnection(a.data)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, fmt.Errorf("--endpoint %s: its keys are not in %s: start hanbeon local, or name its data file with --data", a.endpoint.url, connectionPath(a.data))
	case !a.endpoint.is(c.Endpoint):
		return nil, fmt.Errorf("--endpoint %s: the keys in %s are for %s: name the data file of the other with --data", a.endpoint.url, connectionPath(a.data), c.Endpoint)
	}
	return a.connected(c), nil
}

// laptop is the data file in this process, or the process that has it.
func (a *app) laptop(open func() (*bolt.Store, error)) (*target, error) {
	s, err := open()
	if err == nil {
		a.note("target: laptop %s (this process)", a.data)
		return &target{Service: api.NewService(a.unattended(s), a.zone), store: s, where: a.data}, nil
	}
	if !errors.Is(err, bolt.ErrInUse) {
		return nil, err
	}
	c, ok, unread := readConnection(a.data)
	if unread != nil {
		return nil, errors.Join(err, unread)
	}
	if !ok {
		return nil, fmt.Errorf("%w, and it serves no API", err)
	}
	return a.connected(c), nil
}

// unattended is a data file that no stack works on: what is sent goes nowhere.
func (a *app) unattended(s *bolt.Store) job.Env {
	return job.Env{Store: s, Queue: nowhere{}, Now: a.clock, Log: slog.New(slog.DiscardHandler), Metric: func(once.Kind, string, float64) {}}
}

// nowhere is the queue of a data file that nobody works on: whoever starts on it sends what is unsettled.
type nowhere struct{}

var _ queue.Queue = nowhere{}

// Send implements queue.Queue.
func (nowhere) Send(context.Context, queue.Name, ...string) error { return nil }

// PutOff implements queue.Queue.
func (nowhere) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

// heldError says that another process has the data file.
type heldError struct{ path string }

func (e *heldError) Error() string {
	return fmt.Sprintf("data file %s is held by another process (hanbeon local or run): stop it or wait until it is done, a file has one process at a time", e.path)
}

// Is makes it bolt.ErrInUse.
func (e *heldError) Is(target error) bool { return target == bolt.ErrInUse }

// create opens the data file, and makes it where there is none. The directory of the default path is made too; another one must exist, for a misspelt path is a common mistake.
func (a *app) create() (*bolt.Store, error) {
	if a.data == defaultData {
		if err := os.MkdirAll(filepath.Dir(a.data), 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of data file %s: %w", a.data, err)
		}
	}
	return a.openExclusive()
}

// open opens a data file that must exist.
func (a *app) open() (*bolt.Store, error) {
	if _, err := os.Stat(a.data); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data file %s does not exist: import members first (hanbeon members import FILE.csv), or choose another with --data", a.data)
	}
	return a.openExclusive()
}

// openExclusive opens the data file. Whoever has it knows that a connection beside it leads nowhere.
func (a *app) openExclusive() (*bolt.Store, error) {
	s, err := openData(a.data, false)
	if err == nil {
		removeConnection(a.data)
	}
	return s, err
}
