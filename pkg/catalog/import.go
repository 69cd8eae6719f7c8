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

// chunkRows is how many rows are in memory at once: ten full transactions.
const chunkRows = 10 * store.MaxWrites

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
	i := importer{catalog: c, seen: newHashSet(), seed: maphash.MakeSeed(), bad: bad}
	for {
		row, err := r.Next()
		if err == nil {
			i.chunk = append(i.chunk, row)
			if len(i.chunk) < chunkRows {
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

type importer struct {
	catalog *Catalog
	seen    *hashSet // hashes of the ids that were stored from earlier chunks
	seed    maphash.Seed
	bad     func(BadRow)
	chunk   []Row
	report  Report
}

// flush stores the rows of the chunk and counts them.
func (i *importer) flush(ctx context.Context) error {
	if len(i.chunk) == 0 {
		return nil
	}
	var fresh, repeats []Member
	var hashes []uint64
	repeated := make([]bool, len(i.chunk))
	for n, row := range i.chunk {
		if row.Bad != "" {
			continue
		}
		h := maphash.String(i.seed, row.Member.ID)
		if repeated[n] = i.seen.has(h); repeated[n] {
			repeats = append(repeats, row.Member)
			continue
		}
		fresh = append(fresh, row.Member)
		hashes = append(hashes, h)
	}
	put, err := i.catalog.PutMembers(ctx, fresh) // finds duplicates within the chunk
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.chunk[0].Line, i.chunk[len(i.chunk)-1].Line, err)
	}
	compared, err := i.catalog.compare(ctx, repeats)
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.chunk[0].Line, i.chunk[len(i.chunk)-1].Line, err)
	}
	for _, h := range hashes {
		i.seen.add(h)
	}
	for n, row := range i.chunk {
		switch {
		case row.Bad != "":
			i.refuse(row.Line, row.Bad)
		case repeated[n]:
			i.count(row, compared[0])
			compared = compared[1:]
		default:
			i.count(row, put[0])
			put = put[1:]
		}
	}
	i.chunk = i.chunk[:0]
	return nil
}

func (i *importer) count(row Row, r Result) {
	switch {
	case r.Err != nil:
		i.refuse(row.Line, fmt.Sprintf("id %s: %v", row.Member.ID, r.Err))
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

func (i *importer) refuse(line int64, reason string) {
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

// compare writes nothing: a member is Unchanged if it is stored as it is, else ErrDuplicate. It is for rows whose id was stored earlier in the same
// file.
func (c *Catalog) compare(ctx context.Context, members []Member) ([]Result, error) {
	if len(members) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(members))
	for n, m := range members {
		keys[n] = m.key()
	}
	items, err := c.store.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read what is stored from %s on: %w", keys[0], err)
	}
	results := make([]Result, len(members))
	for n, item := range items {
		results[n].Err = ErrDuplicate
		if !item.Exists() { // another id with the same hash, or removed by somebody meanwhile
			continue
		}
		m, err := decodeMember(item)
		if err != nil {
			return nil, err
		}
		if m == members[n].normal() {
			results[n] = Result{Outcome: Unchanged}
		}
	}
	return results, nil
}
