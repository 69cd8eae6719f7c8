package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"

	"hanbeon/pkg/store"
)

// Store is a store.Store in a file. Make it with Open.
type Store struct {
	path    string
	db      *bbolt.DB
	file    *os.File // that of db
	ledgers map[store.Table]bool
	meter   store.Meter
	damaged atomic.Pointer[error] // set once by what found the file damaged; nothing is tried after that

	turn    sync.Mutex // held by the call that commits a group, and by Close
	closed  bool       // guarded by turn
	mu      sync.Mutex // guards the two below
	leading bool       // a call is committing a group, or has been told to
	waiting []*call
}

var _ store.Store = (*Store)(nil)

// maxGroup bounds the calls of one commit. Callers of a large group would all be woken together, and nobody would write while they prepare their next calls: with eight callers four
// at a time keep the file and the processors busy.
const maxGroup = 4

// call is one Transact on its way. woken is closed when it is done, or when it is to commit the next group itself; its results may be read afterwards.
type call struct {
	woken   chan struct{}
	writes  []store.Write
	values  [][]byte // of puts: the item as it stands in the file
	price   int
	refused *store.Refused
	err     error
	done    bool
}

// Path is that of the data file.
func (s *Store) Path() string { return s.path }

// Meter tells what the calls so far would have cost on DynamoDB.
func (s *Store) Meter() *store.Meter { return &s.meter }

// Close waits for the calls in flight and closes the file. Calls after it fail. Closing again is harmless.
func (s *Store) Close() error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.damaged.Load() != nil {
		// The panic may have left bbolt's locks held, and its Close would wait for ever. This lets go of the file.
		return explain("close", s.path, s.file.Close())
	}
	err := guard(func() error {
		if s.db.NoSync {
			// A closed file is whole, whatever the options; without sync nothing was sure so far.
			if err := s.db.Sync(); err != nil {
				return errors.Join(err, s.db.Close())
			}
		}
		return s.db.Close()
	})
	return explain("close", s.path, err)
}

// Transact is store.Store's. It never answers *store.Busy: a call waits for its turn instead. A commit that failed is "any other error": on a full disk nothing was
// written, after a failed fsync nobody knows.
func (s *Store) Transact(ctx context.Context, writes ...store.Write) error {
	if err := store.Validate(writes); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	c := &call{writes: writes, values: make([][]byte, len(writes)), woken: make(chan struct{})}
	for i, w := range writes {
		if w.Op == store.OpPut { // here, where calls run side by side, and not while everybody waits for the file
			var err error
			if c.values[i], err = store.Marshal(w.Item); err != nil {
				return fmt.Errorf("transact: write %d on %s: %w", i, w.Key, err)
			}
		}
	}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	lead := !s.leading
	s.leading = true
	s.mu.Unlock()

	// One call at a time commits for all that wait, in their order, itself among them, and then makes the first of those that came meanwhile the next. So each call is woken
	// once, and none but Close waits for a lock.
	if !lead {
		<-c.woken
	}
	if !c.done {
		s.lead(c)
	}

	if c.err != nil {
		return fmt.Errorf("transact on %s and %d more: %w", writes[0].Key, len(writes)-1, c.err)
	}
	s.meter.AddWrite(c.price)
	if c.refused != nil {
		return c.refused
	}
	return nil
}

// lead commits the group that begins with the call of this goroutine.
func (s *Store) lead(own *call) {
	group := s.next()
	s.turn.Lock()
	s.commit(group)
	s.turn.Unlock()
	for _, c := range group {
		if c != own {
			close(c.woken)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leading = len(s.waiting) > 0; s.leading {
		close(s.waiting[0].woken)
	}
}

// next takes the calls of one group.
func (s *Store) next() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), maxGroup)
	group := slices.Clone(s.waiting[:n])
	s.waiting = slices.Delete(s.waiting, 0, n)
	return group
}

// commit decides each call of a group and writes the file once.
func (s *Store) commit(group []*call) {
	err := s.guard("write", func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			for _, c := range group {
				if c.err = s.decide(tx, c); c.err != nil || c.refused != nil {
					continue
				}
				if err := c.write(tx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	for _, c := range group {
		if err != nil && c.err == nil {
			// A refusal is void too: it may rest on what a neighbour wrote, and that is lost.
			c.err, c.refused = err, nil
		}
		c.done = true
	}
}

// decide computes what the writes of a call leave, its price, and whether it is refused. It writes nothing, so that an item that cannot be read
// is the trouble of one call and not of its group.
func (s *Store) decide(tx *bbolt.Tx, c *call) error {
	var by []store.Refusal
	double := s.transaction(c.writes)
	now := make([]store.Write, len(c.writes))
	for i, w := range c.writes {
		old, err := lookup(tx, w.Key)
		if err != nil {
			return s.wrap("read", err)
		}
		left, refusal := w.Apply(old) // a refused write leaves nothing, and so costs what was there
		before, after := store.Size(w.Key, old), store.Size(w.Key, left)
		if refusal != nil {
			refusal.Index = i
			by = append(by, *refusal)
		}
		c.price += store.WriteUnits(before, after, double)
		now[i] = store.Write{Op: w.Op, Key: w.Key, Item: left}
	}
	if len(by) > 0 {
		c.refused = &store.Refused{By: by}
		return nil
	}
	c.writes = now
	return nil
}

// write puts what decide found into the file.
func (c *call) write(tx *bbolt.Tx) error {
	for i, w := range c.writes {
		if w.Op == store.OpCheck {
			continue // nothing changed; rewriting it would only cost pages
		}
		if w.Item == nil {
			if b := bucket(tx, w.Key.Table); b != nil {
				if err := b.Delete(fileKey(w.Key)); err != nil {
					return err
				}
			}
			continue
		}
		b, err := tx.CreateBucketIfNotExists(append(slices.Clone(tableName), w.Key.Table...))
		if err != nil {
			return err
		}
		value := c.values[i]
		if value == nil {
			if value, err = store.Marshal(w.Item); err != nil {
				return err
			}
		}
		if err := b.Put(fileKey(w.Key), value); err != nil {
			return err
		}
	}
	return nil
}

// transaction tells whether DynamoDB would be asked for a transaction.
func (s *Store) transaction(writes []store.Write) bool {
	w := writes[0]
	return len(writes) > 1 || s.ledgers[w.Key.Table] || w.Op == store.OpCheck
}

func bucket(tx *bbolt.Tx, t store.Table) *bbolt.Bucket {
	return tx.Bucket(append(slices.Clone(tableName), t...))
}

// fileKey is the key in the bucket of the table.
func fileKey(k store.Key) []byte {
	b := make([]byte, 0, len(k.PK)+1+len(k.SK))
	b = append(b, k.PK...)
	b = append(b, 0)
	return append(b, k.SK...)
}

// lookup reads one item; nil where there is none.
func lookup(tx *bbolt.Tx, k store.Key) (store.Attrs, error) {
	b := bucket(tx, k.Table)
	if b == nil {
		return nil, nil
	}
	value := b.Get(fileKey(k))
	if value == nil {
		return nil, nil
	}
	return decode(k, value)
}

func decode(k store.Key, value []byte) (store.Attrs, error) {
	a, err := store.Unmarshal(value)
	if err != nil {
		return nil, fmt.Errorf("item %.100q: %w (%v)", k, ErrDamaged, err) // quoted and cut: its key may be part of the damage
	}
	return a, nil
}

// ready tells whether a call may start.
func (s *Store) ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("data file %s: not tried: %w", s.path, err)
	}
	if p := s.damaged.Load(); p != nil {
		return *p
	}
	return nil
}

// guard runs what touches the file, and after a panic keeps everybody away from it: bbolt's state in memory is not to be trusted any more.
func (s *Store) guard(do string, f func() error) error {
	if p := s.damaged.Load(); p != nil {
		return *p
	}
	panicked := true
	err := guard(func() error {
		err := f()
		panicked = false
		return err
	})
	err = s.wrap(do, err)
	if panicked {
		s.damaged.Store(&err)
	}
	return err
}

func (s *Store) wrap(do string, err error) error { return explain(do, s.path, err) }
