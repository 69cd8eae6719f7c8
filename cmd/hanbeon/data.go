package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/store"
)

// create opens the data file, and makes it where there is none. The directory of the default path is made too; another one must exist, for a misspelt path is a common mistake.
func (a *app) create() (*bolt.Store, error) {
	if a.data == defaultData {
		if err := os.MkdirAll(filepath.Dir(a.data), 0o755); err != nil {
			return nil, fmt.Errorf("make the directory of data file %s: %w", a.data, err)
		}
	}
	return openData(a.data, false)
}

// open opens a data file that must exist.
func (a *app) open() (*bolt.Store, error) {
	if _, err := os.Stat(a.data); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data file %s does not exist: import members first (hanbeon members import FILE.csv), or choose another with --data", a.data)
	}
	return openData(a.data, false)
}

func openData(path string, noSync bool) (*bolt.Store, error) {
	s, err := bolt.Open(path, bolt.Options{NoSync: noSync, Ledgers: []store.Table{monthlypoint.Table}})
	if errors.Is(err, bolt.ErrInUse) {
		return nil, fmt.Errorf("data file %s is held by another process (is hanbeon local running?): stop it first, a file has one process at a time", path)
	}
	return s, err
}

// jobsOn reads and writes the jobs of a data file that no stack works on.
func (a *app) jobsOn(s store.Store) *job.Store { return job.NewStore(s, a.clock) }

// clock is the time as it is stored: UTC, in whole milliseconds.
func (a *app) clock() time.Time { return a.now().UTC().Truncate(time.Millisecond) }

func (a *app) kinds(s store.Store) []job.Kind { return kinds.All(s, a.zone) }
