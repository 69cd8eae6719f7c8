package catalog

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"

	"hanbeon/pkg/store"
)

// Report says what an import did: Rows = Added + Changed + Unchanged + Bad.
type Report struct {
	Rows      int64    `json:"rows"` // without header and empty lines
	Added     int64    `json:"added"`
	Changed   int64    `json:"changed"`
	Unchanged int64    `json:"unchanged"`
	Bad       int64    `json:"bad"`
	FirstBad  []BadRow `json:"firstBad,omitempty"` // at most MaxFirstBad, by line
}

// MaxFirstBad is how many bad rows a Report keeps; the callback of Import sees all.
const MaxFirstBad = 20

// BadRow is a row that was not imported.
type BadRow struct {
	Line   int64  `json:"line"` // of the file, where the row starts; the header is line 1
	Reason string `json:"reason"`
}

// How many rows are in memory at once: ten full transactions, and of long ones no more than fills one.
const (
	chunkRows  = 10 * store.MaxWrites
	chunkBytes = store.MaxTransaction
)

// Import stores the members of a file and reports each bad row, in the order of lines, to bad as it is found. progress is told how many rows are
// done, after every thousand and at the end. Both may be nil, and are called from the calling goroutine.
//
// An error (of the file, the store or the context) ends the import; the report then counts what is surely stored. Importing the file again is always
// right: it only writes what differs, and what was bad is bad again.
//
// Memory: a thousand rows, and 8 bytes for each distinct id of the file at a load of 3/8 to 3/4, so 11 to 22 bytes per row (1,000,000 rows: 16 MB;
// half as much again for the moment when the set grows). The set holds 64-bit hashes, seeded anew by each import. Two ids of one file share a hash
// with a chance of 3 in 10^8 for 1,000,000 rows; then the later row, unless equal to what is stored, is reported as a duplicate, and the next import
// takes it.
func Import(ctx context.Context, c *Catalog, r *MemberReader, progress func(rows int64), bad func(BadRow)) (Report, error) {
	next := func() (row[Member], error) {
		m, err := r.Next()
		return row[Member]{m.Line, m.Member, m.Bad, 0}, err
	}
	return importRows(ctx, c.store, next, c.PutMembers, progress, bad)
}

// row is one row of any file.
type row[T any] struct {
	line  int64
	value T      // set if bad is ""
	bad   string // why it is none
	bytes int    // that count in a chunk; 0 where a thousand rows are few bytes
}

// labelled is an entity that can be named in the reason of a bad row.
type labelled[C comparable] interface {
	entity[C]
	label() string
}

// importRows is Import for any entity. next is io.EOF at the end.
func importRows[T labelled[C], C comparable](ctx context.Context, s store.Store, next func() (row[T], error), put func(context.Context, []T) ([]Result, error),
	progress func(rows int64), bad func(BadRow)) (Report, error) {
	i := importer[T, C]{store: s, put: put, seen: newHashSet(), seed: maphash.MakeSeed(), bad: bad}
	for {
		r, err := next()
		if err == nil {
			i.chunk = append(i.chunk, r)
			if i.bytes += r.bytes; len(i.chunk) < chunkRows && i.bytes < chunkBytes {
				continue
			}
		}
		if err != nil && err != io.EOF {
			err = fmt.Errorf("read after %d rows: %w", i.report.Rows+int64(len(i.chunk)), err)
		}
		if len(i.chunk) > 0 || err == io.EOF {
			if err := i.flush(ctx); err != nil {
				return i.report, err
			}
			if progress != nil {
				progress(i.report.Rows)
			}
		}
		if err == io.EOF {
			return i.report, nil
		}
		if err != nil {
			return i.report, err
		}
	}
}

type importer[T labelled[C], C comparable] struct {
	store  store.Store
	put    func(context.Context, []T) ([]Result, error)
	seen   *hashSet // hashes of the keys that were stored from earlier chunks
	seed   maphash.Seed
	bad    func(BadRow)
	chunk  []row[T]
	bytes  int // of the chunk
	report Report
}

// flush stores the rows of the chunk and counts them.
func (i *importer[T, C]) flush(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	var fresh, repeats []T
	var hashes []uint64
	repeated := make([]bool, len(i.chunk))
	for n, row := range i.chunk {
		if row.bad != "" {
			continue
		}
		h := maphash.Comparable(i.seed, row.value.key())
		if repeated[n] = i.seen.has(h); repeated[n] {
			repeats = append(repeats, row.value)
			continue
		}
		fresh = append(fresh, row.value)
		hashes = append(hashes, h)
	}
	put, err := i.put(ctx, fresh) // finds duplicates within the chunk
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.chunk[0].line, i.chunk[len(i.chunk)-1].line, err)
	}
	compared, err := compare(ctx, i.store, repeats)
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.chunk[0].line, i.chunk[len(i.chunk)-1].line, err)
	}
	for n, h := range hashes {
		if put[n].Err == nil { // what was refused is not there to be compared with
			i.seen.add(h)
		}
	}
	for n, row := range i.chunk {
		switch {
		case row.bad != "":
			i.refuse(row.line, row.bad)
		case repeated[n]:
			i.count(row, compared[0])
			compared = compared[1:]
		default:
			i.count(row, put[0])
			put = put[1:]
		}
	}
	clear(i.chunk) // or a long row would stay in memory until its place is taken
	i.chunk, i.bytes = i.chunk[:0], 0
	return nil
}

func (i *importer[T, C]) count(row row[T], r Result) {
	switch {
	case r.Err != nil:
		i.refuse(row.line, fmt.Sprintf("%s: %v", row.value.label(), r.Err))
		return
	case r.Outcome == Added:
		i.report.Added++
	case r.Outcome == Changed:
		i.report.Changed++
	default:
		i.report.Unchanged++
	}
	i.report.Rows++
}

func (i *importer[T, C]) refuse(line int64, reason string) {
	b := BadRow{line, reason}
	i.report.Rows++
	i.report.Bad++
	if len(i.report.FirstBad) < MaxFirstBad {
		i.report.FirstBad = append(i.report.FirstBad, b)
	}
	if i.bad != nil {
		i.bad(b)
	}
}

// compare writes nothing: a value is Unchanged if it is stored as it is, else ErrDuplicate. It is for rows whose key was stored earlier in the same
// file.
func compare[T entity[C], C comparable](ctx context.Context, s store.Store, values []T) ([]Result, error) {
	if len(values) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(values))
	for n, v := range values {
		keys[n] = v.key()
	}
	items, err := s.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read what is stored from %s on: %w", keys[0], err)
	}
	results := make([]Result, len(values))
	for n, item := range items {
		results[n].Err = ErrDuplicate
		if !item.Exists() { // another key with the same hash, or removed by somebody meanwhile
			continue
		}
		var is C
		if err := item.Decode(&is); err != nil {
			return nil, err
		}
		if is == values[n].content() {
			results[n] = Result{Outcome: Unchanged}
		}
	}
	return results, nil
}
