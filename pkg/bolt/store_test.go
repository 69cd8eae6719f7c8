package bolt_test

import (
	"fmt"
	"path/filepath"
	"sync"
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

// More callers than one commit takes: everybody gets an answer of his own.
func TestManyCallersAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "data"), bolt.Options{})
	const callers = 500
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			errs[i] = s.Transact(background, store.Insert(key(fmt.Sprint(i/2)), store.Attrs{"by": i}), store.Update(key("sum"), nil, map[string]int64{"n": 1}))
		})
	}
	wg.Wait()
	won := 0
	for i := 0; i < callers; i += 2 { // two callers for each item: one of them
		if (errs[i] == nil) == (errs[i+1] == nil) {
			t.Errorf("item %d: %v and %v, want one of them to win", i/2, errs[i], errs[i+1])
		}
	}
	for _, err := range errs {
		if err == nil {
			won++
		}
	}
	items, err := s.Get(t.Context(), key("sum"))
	if err != nil || items[0].Attrs["n"] != int64(won) || won != callers/2 {
		t.Errorf("%d won, sum %v, %v, want %d", won, items, err, callers/2)
	}
	if got, want := s.Meter().Spent().Write, float64(callers*4); got != want {
		t.Errorf("%v write units, want %v", got, want)
	}
}
