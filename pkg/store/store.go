// Package store is the one contract on which everything exactly-once in hanbeon is written: conditional writes, all or none, and strongly consistent reads of
// items that are found by key. It is small on purpose: what it promises must be true of DynamoDB and of a single file alike, and small enough to be believed.
//
// An item lives in a Table under a partition key and a sort key. Two conditions exist: the item is absent, or one of its attributes has a value. If a third
// seems to be needed, create the item earlier. Back ends (hanbeon/pkg/dynamo, hanbeon/pkg/bolt) pass one conformance suite, hanbeon/pkg/store/storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Limits of one call, DynamoDB's (Service, account, and table quotas, "Transactions" and "Items"). Every back end enforces them.
const (
	MaxWrites      = 100             // writes in one Transact
	MaxTransaction = 4 * 1024 * 1024 // bytes of all items of one Transact
	MaxItem        = 400 * 1024      // bytes of one item, names included
	MaxPK          = 2048            // bytes of a partition key
	MaxSK          = 1024            // bytes of a sort key
	MaxDepth       = 32              // levels of lists and maps, the item itself being the first
	MaxPage        = 1024 * 1024     // bytes of items in one answer of Query
)

// Store is safe for concurrent use. Each method may be called again after any error; what a repeated call can do is said at Transact.
type Store interface {
	// Transact does all writes or none. 1 to MaxWrites writes on distinct keys, MaxTransaction bytes together.
	//
	//	nil         every write happened, is durable, and is seen by every later Get and Query
	//	*Refused    this try wrote nothing: a condition was false, or a write can never be accepted. An earlier try of the same call whose answer was lost may have written
	//	*Busy       contention or throttling outlasted the retries. Every try had a definite answer and nothing was written
	//	any other   unknown: nothing or everything was written. The same call again is safe exactly when its conditions make it so
	//
	// A programming error (no writes, repeated key, key out of bounds, unknown table) is an ordinary error, returned before anything is tried.
	Transact(ctx context.Context, writes ...Write) error

	// Get reads any number of items, each as of some moment during the call and including every write that had returned before it; it is not a snapshot.
	// The answer has one Item per key, in the order of keys; an absent item has nil Attrs.
	Get(ctx context.Context, keys ...Key) ([]Item, error)

	// GetStale is Get at half the price. It may miss recent writes: use it only where a condition checks again.
	GetStale(ctx context.Context, keys ...Key) ([]Item, error)

	// Query reads one page of one partition in byte order of sort keys, each item as in Get.
	Query(ctx context.Context, q Query) (Page, error)

	// Meter tells what the calls so far cost.
	Meter() *Meter
}

// Table is the logical name of a table, declared by the package that owns its items. The back end maps it to a real one.
type Table string

// Key finds an item.
type Key struct {
	Table Table
	PK    string // 1 to MaxPK bytes of UTF-8 without NUL
	SK    string // 1 to MaxSK bytes of UTF-8 without NUL
}

// String is for errors and logs.
func (k Key) String() string { return string(k.Table) + "/" + k.PK + "/" + k.SK }

// Item is what was found under a key.
type Item struct {
	Key   Key
	Attrs Attrs // nil: absent
}

// Exists tells whether the item was there.
func (i Item) Exists() bool { return i.Attrs != nil }

// Decode fills the struct that v points to; an absent item is an error.
func (i Item) Decode(v any) error {
	if !i.Exists() {
		return fmt.Errorf("item %s is absent", i.Key)
	}
	if err := Decode(i.Attrs, v); err != nil {
		return fmt.Errorf("item %s: %w", i.Key, err)
	}
	return nil
}

// Query selects items of one partition.
type Query struct {
	Table      Table
	PK         string
	Prefix     string // of sort keys; "" is all
	Limit      int    // most items in the page; 0: as many as fit MaxPage
	Cursor     string // Next of the page before; "" starts. Opaque, and good for the same Query only
	Descending bool
}

// Page is one answer of Query.
type Page struct {
	Items []Item
	Next  string // "" at the end. A page may be empty and have a Next
}

// Op says what a Write does.
type Op int

// The four writes.
const (
	OpPut    Op = iota + 1 // replaces the item, or creates it
	OpUpdate               // sets and adds attributes; creates the item unless a condition forbids it
	OpDelete               // removes the item; absent already is success unless a condition forbids it
	OpCheck                // writes nothing, but its conditions take part
)

// Write is one write of a transaction. Make it with Insert, Put, Update, Delete or Check.
type Write struct {
	Op   Op
	Key  Key
	Item Attrs            // of a put
	Set  Attrs            // of an update: attributes that get a value
	Add  map[string]int64 // of an update: attributes that grow by a number; an absent attribute counts as 0
	If   []Cond           // all must hold

	err error // what went wrong in making it; Validate reports it
}

// Cond is a condition on the item as it stands before the write. Attr "": the item is absent. Otherwise the item exists and the attribute equals Value,
// a string, an int64 or a bool.
type Cond struct {
	Attr  string
	Value any
}

// Absent is the condition that there is no such item.
func Absent() Cond { return Cond{} }

// Equals is the condition that the item exists and its attribute has this value: a string, an integer or a bool.
func Equals(attr string, value any) Cond { return Cond{Attr: attr, Value: value} }

// Insert puts a new item, encoded from a struct; it is refused where one exists.
func Insert(key Key, item any) Write { return Put(key, item, Absent()) }

// Put puts an item, encoded from a struct, over whatever is there.
func Put(key Key, item any, conds ...Cond) Write {
	attrs, err := Encode(item)
	return newWrite(Write{Op: OpPut, Key: key, Item: attrs, If: conds, err: err})
}

// Update sets attributes and adds to numbers. Set values are Go values as in a struct field; nil is not allowed. A sum that would leave the range of int64, and a number
// added to something else, can never be accepted: Refused with Invalid.
func Update(key Key, set Attrs, add map[string]int64, conds ...Cond) Write {
	attrs, err := Encode(set)
	if err == nil && len(attrs) != len(set) {
		err = errors.New("a nil value cannot be set")
	}
	return newWrite(Write{Op: OpUpdate, Key: key, Set: attrs, Add: add, If: conds, err: err})
}

// Delete removes an item.
func Delete(key Key, conds ...Cond) Write { return newWrite(Write{Op: OpDelete, Key: key, If: conds}) }

// Check writes nothing: the transaction happens only if the conditions hold.
func Check(key Key, conds ...Cond) Write { return newWrite(Write{Op: OpCheck, Key: key, If: conds}) }

func newWrite(w Write) Write {
	conds := make([]Cond, len(w.If))
	for i, c := range w.If {
		conds[i] = c
		if c.Attr == "" {
			continue
		}
		v, err := encodeValue(c.Value)
		switch v.(type) {
		case string, int64, bool:
			conds[i].Value = v
		default:
			err = fmt.Errorf("condition on %s: %T is not a string, an integer or a bool", c.Attr, c.Value)
		}
		if w.err == nil {
			w.err = err
		}
	}
	w.If = conds
	return w
}

// Refused says which writes of a transaction were in the way.
type Refused struct {
	By []Refusal // at least one, in order of Index; perhaps not all: conditions that are not listed are unknown
}

// Refusal is one write in the way.
type Refusal struct {
	Index   int    // of the write in the call
	Old     Item   // the item as it stood: no second read is needed. Of a refusal with Invalid it may be missing
	Invalid string // "": a condition was false. Otherwise why this write can never be accepted
}

func (r *Refused) Error() string {
	var b strings.Builder
	b.WriteString("refused")
	for _, x := range r.By {
		fmt.Fprintf(&b, ": write %d", x.Index)
		if x.Invalid != "" {
			b.WriteString(" is invalid: " + x.Invalid)
		}
	}
	return b.String()
}

// Busy says that contention or throttling outlasted the retries and nothing was written.
type Busy struct {
	Conflicts []int // indexes of the writes whose items other transactions held; empty: the table was throttled
	Reason    string
}

func (b *Busy) Error() string {
	return fmt.Sprintf("store is busy: %s (conflicts on writes %v)", b.Reason, b.Conflicts)
}

// Holds tells whether the condition is true of an item as it stands (nil: absent).
func (c Cond) Holds(old Attrs) bool {
	if c.Attr == "" {
		return old == nil
	}
	v, ok := old[c.Attr]
	return ok && v == c.Value
}
