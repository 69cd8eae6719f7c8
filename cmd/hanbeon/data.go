package main

import (
	"errors"
	"time"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/store"
)

// openData opens a data file, or makes it where there is none. A heldError where another process has it.
func openData(path string, noSync bool) (*bolt.Store, error) {
	s, err := bolt.Open(path, bolt.Options{NoSync: noSync, Ledgers: []store.Table{monthlypoint.Table}})
	if errors.Is(err, bolt.ErrInUse) {
		return nil, &heldError{path}
	}
	return s, err
}

// jobsOn reads and writes the jobs of a data file that no stack works on.
func (a *app) jobsOn(s store.Store) *job.Store { return job.NewStore(s, a.clock) }

// clock is the time as it is stored: UTC, in whole milliseconds.
func (a *app) clock() time.Time { return a.now().UTC().Truncate(time.Millisecond) }

func (a *app) kinds(s store.Store) []job.Kind { return kinds.All(s, a.zone) }
