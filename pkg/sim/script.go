package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

// Op says which method was called.
type Op int

// The methods of store.Store and queue.Queue that do something.
const (
	Transact Op = iota + 1
	Get
	GetStale
	Query
	Send
	PutOff
)

var opNames = map[Op]string{Transact: "Transact", Get: "Get", GetStale: "GetStale", Query: "Query", Send: "Send", PutOff: "PutOff"}

// String is the name of the method.
func (o Op) String() string { return opNames[o] }

// Call is one call that is about to happen.
type Call struct {
	Ctx context.Context // of the call
	Op  Op
	N   int // counts the calls of this Op on this wrapper, from 1

	Writes   []store.Write // of a Transact
	Keys     []store.Key   // of a Transact (those of its writes), a Get or a GetStale
	Query    store.Query   // of a Query
	Queue    queue.Name    // of a Send or PutOff
	Bodies   []string      // of a Send
	Receipts []string      // of a PutOff
	Delay    time.Duration // of a PutOff

	after *[]func()
}

// Hook decides the fate of a call before it happens. It may block, and may call the store itself: what it does happens before the call.
//
//	true, nil    the call happens and answers as it does
//	true, err    the call happens, and its answer is lost: the caller gets err
//	false, err   the call does not happen; the caller gets err
//	false, nil   nothing happens and success is reported. Of a Send: the messages are accepted and lost. Elsewhere a mistake of the test, and a panic
//
// It is called from many goroutines at once.
type Hook func(call Call) (apply bool, err error)

// After runs f when the call has happened and before its answer reaches the caller; not if the hook then says false. The functions run in the order of After.
func (c Call) After(f func()) { *c.after = append(*c.after, f) }

// Touches tells whether a key of the call, or the partition of its query, starts with the prefix, written as store.Key.String: `jobs/SLOTS#`, `points/member-42/`.
func (c Call) Touches(prefix string) bool {
	for _, k := range c.Keys {
		if strings.HasPrefix(k.String(), prefix) {
			return true
		}
	}
	return c.Op == Query && strings.HasPrefix(store.Key{Table: c.Query.Table, PK: c.Query.PK, SK: c.Query.Prefix}.String(), prefix)
}

// Script is a store that asks the hook before every call.
func Script(inner store.Store, hook Hook) store.Store {
	return &scriptedStore{inner: inner, s: scripted{hook: hook}}
}

// ScriptQueue is a queue that asks the hook before every call.
func ScriptQueue(inner queue.Queue, hook Hook) queue.Queue {
	return &scriptedQueue{inner: inner, s: scripted{hook: hook}}
}

// scripted numbers the calls and carries out what the hook says.
type scripted struct {
	hook Hook
	mu   sync.Mutex
	n    map[Op]int
}

func (s *scripted) do(call Call, happen func() error) error {
	s.mu.Lock()
	if s.n == nil {
		s.n = map[Op]int{}
	}
	s.n[call.Op]++
	call.N = s.n[call.Op]
	s.mu.Unlock()

	var after []func()
	call.after = &after
	apply, lost := s.hook(call)
	if !apply {
		if lost == nil && call.Op != Send {
			panic("sim: the hook reports success of a " + call.Op.String() + " that does not happen")
		}
		return lost
	}
	defer func() { // even if the call panics: a hook may hold something
		for _, f := range after {
			f()
		}
	}()
	if err := happen(); lost == nil {
		return err
	}
	return lost
}

type scriptedStore struct {
	inner store.Store
	s     scripted
}

var _ store.Store = (*scriptedStore)(nil)

func (w *scriptedStore) Transact(ctx context.Context, writes ...store.Write) error {
	keys := make([]store.Key, len(writes))
	for i, x := range writes {
		keys[i] = x.Key
	}
	return w.s.do(Call{Ctx: ctx, Op: Transact, Writes: writes, Keys: keys}, func() error { return w.inner.Transact(ctx, writes...) })
}

func (w *scriptedStore) Get(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return answer(&w.s, Call{Ctx: ctx, Op: Get, Keys: keys}, func() ([]store.Item, error) { return w.inner.Get(ctx, keys...) })
}

func (w *scriptedStore) GetStale(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return answer(&w.s, Call{Ctx: ctx, Op: GetStale, Keys: keys}, func() ([]store.Item, error) { return w.inner.GetStale(ctx, keys...) })
}

func (w *scriptedStore) Query(ctx context.Context, q store.Query) (store.Page, error) {
	return answer(&w.s, Call{Ctx: ctx, Op: Query, Query: q}, func() (store.Page, error) { return w.inner.Query(ctx, q) })
}

func (w *scriptedStore) Meter() *store.Meter { return w.inner.Meter() }

// answer is do for calls that return something; an answer that is lost is empty.
func answer[T any](s *scripted, call Call, happen func() (T, error)) (T, error) {
	var got, none T
	err := s.do(call, func() (err error) {
		got, err = happen()
		return err
	})
	if err != nil {
		return none, err
	}
	return got, nil
}

type scriptedQueue struct {
	inner queue.Queue
	s     scripted
}

var _ queue.Queue = (*scriptedQueue)(nil)

func (w *scriptedQueue) Send(ctx context.Context, to queue.Name, bodies ...string) error {
	return w.s.do(Call{Ctx: ctx, Op: Send, Queue: to, Bodies: bodies}, func() error { return w.inner.Send(ctx, to, bodies...) })
}

func (w *scriptedQueue) PutOff(ctx context.Context, from queue.Name, d time.Duration, receipts ...string) error {
	return w.s.do(Call{Ctx: ctx, Op: PutOff, Queue: from, Delay: d, Receipts: receipts}, func() error { return w.inner.PutOff(ctx, from, d, receipts...) })
}
