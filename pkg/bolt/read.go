package bolt

import (
	"bytes"
	"context"

	"go.etcd.io/bbolt"

	"hanbeon/pkg/store"
)

// Get is store.Store's. Here it happens to be a snapshot; do not rely on it.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return s.get(ctx, keys, false)
}

// GetStale is store.Store's. Here it misses nothing, and costs half.
func (s *Store) GetStale(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return s.get(ctx, keys, true)
}

func (s *Store) get(ctx context.Context, keys []store.Key, stale bool) ([]store.Item, error) {
	for _, k := range keys {
		if err := store.CheckKey(k); err != nil {
			return nil, err
		}
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	items := make([]store.Item, len(keys))
	paid := make(map[store.Key]bool, len(keys)) // a repeated key is read once
	price := 0
	err := s.guard("read", func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			for i, k := range keys {
				a, err := lookup(tx, k)
				if err != nil {
					return err
				}
				items[i] = store.Item{Key: k, Attrs: a}
				if !paid[k] {
					paid[k] = true
					price += store.ReadHalves(store.Size(k, a), stale)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	s.meter.AddRead(price)
	return items, nil
}

// Query is store.Store's. The cursor is the last sort key of the page; a page is never empty with a Next.
func (s *Store) Query(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Check(); err != nil {
		return store.Page{}, err
	}
	if err := s.ready(ctx); err != nil {
		return store.Page{}, err
	}
	var page store.Page
	size := 0
	err := s.guard("read", func() error {
		return s.db.View(func(tx *bbolt.Tx) error {
			b := bucket(tx, q.Table)
			if b == nil {
				return nil
			}
			w := newWalk(b.Cursor(), q)
			for k, v := w.first(); k != nil; k, v = w.next() {
				if q.Limit > 0 && len(page.Items) == q.Limit {
					page.Next = page.Items[len(page.Items)-1].Key.SK
					return nil
				}
				key := store.Key{Table: q.Table, PK: q.PK, SK: string(k[len(q.PK)+1:])}
				a, err := decode(key, v)
				if err != nil {
					return err
				}
				n := store.Size(key, a)
				if size+n > store.MaxPage && len(page.Items) > 0 {
					page.Next = page.Items[len(page.Items)-1].Key.SK
					return nil
				}
				size += n
				page.Items = append(page.Items, store.Item{Key: key, Attrs: a})
			}
			return nil
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	s.meter.AddRead(store.ReadHalves(size, false))
	return page, nil
}

// walk goes over the keys of a query: those that begin with partition key, NUL and the prefix, beyond the cursor.
type walk struct {
	c      *bbolt.Cursor
	q      store.Query
	prefix []byte
	next   func() (k, v []byte)
	from   []byte // ascending: the first key that may be; descending: the first that may not
}

func newWalk(c *bbolt.Cursor, q store.Query) *walk {
	w := &walk{c: c, q: q, prefix: fileKey(store.Key{PK: q.PK, SK: q.Prefix})}
	cursor := fileKey(store.Key{PK: q.PK, SK: q.Cursor})
	if q.Descending {
		// 0xFF does not occur in UTF-8: this is behind every key with the prefix.
		w.from = append(bytes.Clone(w.prefix), 0xff)
		if q.Cursor != "" && bytes.Compare(cursor, w.from) < 0 {
			w.from = cursor
		}
		w.next = func() ([]byte, []byte) { return w.within(c.Prev()) }
		return w
	}
	w.from = w.prefix
	if q.Cursor != "" {
		// NUL does not occur in a sort key: this is right behind the cursor.
		if after := append(cursor, 0); bytes.Compare(after, w.from) > 0 {
			w.from = after
		}
	}
	w.next = func() ([]byte, []byte) { return w.within(c.Next()) }
	return w
}

func (w *walk) first() (k, v []byte) {
	k, v = w.c.Seek(w.from)
	if !w.q.Descending {
		return w.within(k, v)
	}
	if k == nil { // nothing at or behind it: the last of the table is the first candidate
		return w.within(w.c.Last())
	}
	return w.within(w.c.Prev())
}

func (w *walk) within(k, v []byte) ([]byte, []byte) {
	if !bytes.HasPrefix(k, w.prefix) {
		return nil, nil
	}
	return k, v
}
