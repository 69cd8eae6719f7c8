package bolt_test

import (
	"path/filepath"
	"testing"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/store"
	"hanbeon/pkg/store/storetest"
)

var ledgers = []store.Table{storetest.Gold}

func open(t *testing.T, path string, o bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return open(t, filepath.Join(t.TempDir(), "data"), bolt.Options{Ledgers: ledgers})
	})
}
