package sim_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/sim"
	"hanbeon/pkg/store"
)

func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func keyOf(sk string) store.Key { return store.Key{Table: "t", PK: "p", SK: sk} }

type doc struct {
	N int `json:"n"`
}

func exists(t *testing.T, s store.Store, sk string) bool {
	t.Helper()
	items, err := s.Get(t.Context(), keyOf(sk))
	if err != nil {
		t.Fatal(err)
	}
	return items[0].Exists()
}

var errTest = errors.New("test")

func TestScriptDecidesWhetherAndWhat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		apply   bool
		err     error
		written bool
	}{
		{"happens", true, nil, true},
		{"happens and the answer is lost", true, errTest, true},
		{"does not happen", false, errTest, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			inner := openStore(t)
			s := sim.Script(inner, func(c sim.Call) (bool, error) {
				if c.Op == sim.Transact && c.N == 2 {
					return test.apply, test.err
				}
				return true, nil
			})
			for i, sk := range []string{"first", "second", "third"} {
				err := s.Transact(t.Context(), store.Insert(keyOf(sk), doc{i}))
				if want := map[string]error{"second": test.err}[sk]; !errors.Is(err, want) {
					t.Errorf("%s: error %v, want %v", sk, err, want)
				}
			}
			if got := exists(t, inner, "second"); got != test.written {
				t.Errorf("second exists: %t, want %t", got, test.written)
			}
			if !exists(t, inner, "first") || !exists(t, inner, "third") {
				t.Errorf("a neighbour of the call is missing")
			}
		})
	}
}

// The error of the store passes when the hook has none, and an answer that is lost is empty.
func TestScriptAnswers(t *testing.T) {
	t.Parallel()
	lose := false
	s := sim.Script(openStore(t), func(c sim.Call) (bool, error) {
		if lose {
			return true, errTest
		}
		return true, nil
	})
	if err := s.Transact(t.Context(), store.Insert(keyOf("a"), doc{1})); err != nil {
		t.Fatal(err)
	}
	var refused *store.Refused
	if err := s.Transact(t.Context(), store.Insert(keyOf("a"), doc{1})); !errors.As(err, &refused) {
		t.Errorf("insert again: %v, want it refused by the store", err)
	}
	page, err := s.Query(t.Context(), store.Query{Table: "t", PK: "p"})
	if err != nil || len(page.Items) != 1 {
		t.Errorf("query: %v, %v; want one item", page, err)
	}
	lose = true
	page, err = s.Query(t.Context(), store.Query{Table: "t", PK: "p"})
	if !errors.Is(err, errTest) || page.Items != nil {
		t.Errorf("query whose answer is lost: %v, %v; want nothing and the error", page, err)
	}
	if items, err := s.GetStale(t.Context(), keyOf("a")); !errors.Is(err, errTest) || items != nil {
		t.Errorf("get whose answer is lost: %v, %v; want nothing and the error", items, err)
	}
}

// A hook does something before a call by doing it, and something after it by After, which sees what the call wrote.
func TestScriptRunsThingsInBetween(t *testing.T) {
	t.Parallel()
	inner := openStore(t)
	var seen []bool
	s := sim.Script(inner, func(c sim.Call) (bool, error) {
		if c.Touches("t/p/a") {
			seen = append(seen, exists(t, inner, "a"))
			c.After(func() { seen = append(seen, exists(t, inner, "a")) })
		}
		return true, nil
	})
	for _, sk := range []string{"b", "a"} {
		if err := s.Transact(t.Context(), store.Insert(keyOf(sk), doc{1})); err != nil {
			t.Fatal(err)
		}
	}
	if want := []bool{false, true}; !slices.Equal(seen, want) {
		t.Errorf("a existed before and after: %v, want %v", seen, want)
	}
}

func TestSuccessOfAWriteThatDoesNotHappenIsAPanic(t *testing.T) {
	t.Parallel()
	s := sim.Script(openStore(t), func(sim.Call) (bool, error) { return false, nil })
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_ = s.Transact(t.Context(), store.Insert(keyOf("a"), doc{1}))
}

// sink is a queue that remembers the bodies.
type sink struct{ bodies []string }

func (s *sink) Send(_ context.Context, _ queue.Name, bodies ...string) error {
	s.bodies = append(s.bodies, bodies...)
	return nil
}

func (s *sink) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

func TestScriptQueue(t *testing.T) {
	t.Parallel()
	var to sink
	var calls []string
	q := sim.ScriptQueue(&to, func(c sim.Call) (bool, error) {
		calls = append(calls, c.Op.String()+" "+string(c.Queue))
		return c.N != 2, nil
	})
	for _, body := range []string{"a", "lost", "c"} {
		if err := q.Send(t.Context(), "work", body); err != nil {
			t.Errorf("send %s: %v", body, err)
		}
	}
	if err := q.PutOff(t.Context(), "work", time.Second, "r"); err != nil {
		t.Errorf("put off: %v", err)
	}
	if want := []string{"a", "c"}; !slices.Equal(to.bodies, want) {
		t.Errorf("sent %v, want %v", to.bodies, want)
	}
	if want := []string{"Send work", "Send work", "Send work", "PutOff work"}; !slices.Equal(calls, want) {
		t.Errorf("calls %v, want %v", calls, want)
	}
}
