package catalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Table holds the business data that jobs read.
const Table store.Table = "catalog"

// Catalog reads and writes the business data. It is safe for concurrent use and keeps nothing in memory.
type Catalog struct {
	store store.Store
}

// New makes a catalog on a store.
func New(s store.Store) *Catalog { return &Catalog{store: s} }

// Outcome is what a put did to one item.
type Outcome string

// The outcomes.
const (
	Added     Outcome = "added"
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged"
)

// Result is the answer for one item of a batch: an outcome, or an error that says what is wrong with the item.
type Result struct {
	Outcome Outcome
	Err     error
}

// ErrDuplicate marks a second item with the id of an earlier one, of a note also its member and day, and other content.
var ErrDuplicate = errors.New("duplicate id with other content")

// Groups are written by so many goroutines at once: enough to hide the round trips, few enough for a cold table.
const parallelGroups = 4

// PutMembers stores members, each by itself: one that is wrong keeps no other back. Only what differs from what is stored is written. Results are in
// the order of members. Where an id occurs twice the first occurrence counts; a later one is Unchanged if it is equal, else its Err is ErrDuplicate.
//
// The writes are grouped, and a group is all or nothing; an error means that any of the groups may have been written. The same call again is always
// right.
func (c *Catalog) PutMembers(ctx context.Context, members []Member) ([]Result, error) {
	return put(ctx, c.store, members, checkEach(members))
}

// entity is what can be put: a Member or a Note. C is its content as it is stored; two of one key are the same if their contents are equal.
type entity[C comparable] interface {
	Check() error
	key() store.Key
	content() C
	item() any // what is stored: the content, and perhaps more
}

func checkEach[T entity[C], C comparable](values []T) []error {
	wrong := make([]error, len(values))
	for i, v := range values {
		wrong[i] = v.Check()
	}
	return wrong
}

// put stores the values that have nothing wrong with them, see PutMembers.
func put[T entity[C], C comparable](ctx context.Context, s store.Store, values []T, wrong []error) ([]Result, error) {
	results := make([]Result, len(values))
	first := make(map[store.Key]int, len(values))
	var fresh, repeats []int // positions
	for i, v := range values {
		if results[i].Err = wrong[i]; wrong[i] != nil {
			continue
		}
		if _, ok := first[v.key()]; ok {
			repeats = append(repeats, i)
			continue
		}
		first[v.key()] = i
		fresh = append(fresh, i)
	}
	if err := putGroups(ctx, s, values, fresh, results); err != nil {
		return nil, err
	}
	for _, i := range repeats {
		if values[first[values[i].key()]].content() == values[i].content() {
			results[i].Outcome = Unchanged
		} else {
			results[i].Err = ErrDuplicate
		}
	}
	return results, nil
}

// putGroups puts the values at the given positions, which have distinct keys, and waits until all groups are done.
func putGroups[T entity[C], C comparable](ctx context.Context, s store.Store, values []T, at []int, results []Result) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	free := make(chan struct{}, parallelGroups)
	for len(at) > 0 && ctx.Err() == nil {
		n := min(len(at), store.MaxWrites)
		group := at[:n]
		at = at[n:]
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			if err := putGroup(ctx, s, values, group, results); err != nil {
				stop(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// putGroup needs no conditions: whoever writes last decides what an item looks like, as with any put.
func putGroup[T entity[C], C comparable](ctx context.Context, s store.Store, values []T, group []int, results []Result) error {
	keys := make([]store.Key, len(group))
	for n, i := range group {
		keys[n] = values[i].key()
	}
	old, err := s.Get(ctx, keys...)
	if err != nil {
		return fmt.Errorf("read what is stored from %s on: %w", keys[0], err)
	}
	var writes []store.Write
	bytes := 0
	for n, i := range group {
		results[i].Outcome = Added
		if old[n].Exists() {
			var was C
			if err := old[n].Decode(&was); err != nil {
				return err
			}
			results[i].Outcome = Changed
			if was == values[i].content() {
				results[i].Outcome = Unchanged
				continue
			}
		}
		w := store.Put(keys[n], values[i].item())
		size := store.Size(w.Key, w.Item)
		if bytes+size > store.MaxTransaction { // a hundred long notes are more than one transaction takes
			if err := write(ctx, s, writes); err != nil {
				return err
			}
			writes, bytes = nil, 0
		}
		writes, bytes = append(writes, w), bytes+size
	}
	return write(ctx, s, writes)
}

func write(ctx context.Context, s store.Store, writes []store.Write) error {
	if len(writes) == 0 {
		return nil
	}
	if err := s.Transact(ctx, writes...); err != nil {
		return fmt.Errorf("write from %s on: %w", writes[0].Key, err)
	}
	return nil
}

// Member finds one member; false if there is none. An id that no member can have is an error.
func (c *Catalog) Member(ctx context.Context, id string) (Member, bool, error) {
	if err := once.CheckSubject(id); err != nil {
		return Member{}, false, fmt.Errorf("id: %w", err)
	}
	items, err := c.store.Get(ctx, memberKey(id))
	if err != nil {
		return Member{}, false, fmt.Errorf("read member %s: %w", id, err)
	}
	if !items[0].Exists() {
		return Member{}, false, nil
	}
	m, err := decodeMember(items[0])
	return m, err == nil, err
}

// Members lists the members of one segment in byte order of their ids, after a cursor ("" starts), at most limit of them (1 and up). next is "" at
// the end, otherwise greater than cursor in byte order, and good for the same segment only. A page that is not the last has at least one member.
//
// A cursor is the last id and the cursor of the store, with a space between, which sorts before every byte of an id: the store's own cursor promises
// no order.
func (c *Catalog) Members(ctx context.Context, segment int, cursor string, limit int) (members []Member, next string, err error) {
	if segment < 0 || segment >= job.Segments {
		return nil, "", fmt.Errorf("segment %d: want 0 to %d", segment, job.Segments-1)
	}
	if limit < 1 {
		return nil, "", fmt.Errorf("limit %d: want 1 or more", limit)
	}
	q := store.Query{Table: Table, PK: membersPK(segment), Limit: limit}
	if cursor != "" {
		_, after, ok := strings.Cut(cursor, " ")
		if !ok || after == "" {
			return nil, "", fmt.Errorf("cursor %.80q is not one of the member list", cursor)
		}
		q.Cursor = after
	}
	for {
		page, err := c.store.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("list members of segment %d: %w", segment, err)
		}
		for _, item := range page.Items {
			m, err := decodeMember(item)
			if err != nil {
				return nil, "", err
			}
			members = append(members, m)
		}
		if page.Next == "" {
			return members, "", nil
		}
		if len(members) > 0 {
			return members, members[len(members)-1].ID + " " + page.Next, nil
		}
		q.Cursor = page.Next // a store's page may be empty and have a next: what follows must not be lost
	}
}

func decodeMember(item store.Item) (Member, error) {
	var i memberItem
	if err := item.Decode(&i); err != nil {
		return Member{}, err
	}
	m, err := i.member()
	if err != nil {
		return Member{}, fmt.Errorf("item %s: %w", item.Key, err)
	}
	return m, nil
}

func memberKey(id string) store.Key {
	return store.Key{Table: Table, PK: membersPK(job.SegmentOf(id, job.Segments)), SK: id}
}

func membersPK(segment int) string { return "MEMBERS#" + strconv.Itoa(segment) }

// Known tells which ids are members, in order.
func (c *Catalog) Known(ctx context.Context, ids ...string) ([]bool, error) {
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = memberKey(id)
	}
	items, err := c.store.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read members: %w", err)
	}
	out := make([]bool, len(items))
	for i, it := range items {
		out[i] = it.Exists()
	}
	return out, nil
}
