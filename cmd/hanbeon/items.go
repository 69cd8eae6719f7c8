package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/catalog"
)

// source is a file that is imported.
type source struct {
	io.ReadCloser
	path string // "-" is stdin
	size int64  // bytes; 0: not known
	read int64  // bytes so far
}

// openSource opens a file, or stdin.
func (a *app) openSource(path string) (*source, error) {
	s := &source{ReadCloser: io.NopCloser(a.stdin), path: path}
	if path == "-" {
		return s, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("import: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		s.size = info.Size()
	}
	s.ReadCloser = f
	return s, nil
}

// Read is io.Reader's.
func (s *source) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	s.read += int64(n)
	return n, err
}

// show tells a progress how far the file has been read: by bytes where its size is known, for the number of its rows is not.
func (s *source) show(p *progress, rows int64) {
	if s.size > 0 {
		p.set(s.read, s.size)
	} else {
		p.set(rows, 0)
	}
}

// finishImport prints what an import did, and makes an error of rows that were not taken.
func (a *app) finishImport(s *source, r catalog.Report, err error, interrupted bool) error {
	switch {
	case interrupted:
		return fmt.Errorf("import %s: interrupted after %s: import it again, what is stored stays as it is", s.path, number(r.Rows, "row"))
	case err != nil:
		return fmt.Errorf("import %s: %w", s.path, err)
	}
	err = a.print(r, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s added, %s changed, %s unchanged, %s bad\n", number(r.Rows, "row"), comma(r.Added), comma(r.Changed), comma(r.Unchanged), comma(r.Bad))
	})
	if err == nil && r.Bad > 0 {
		err = fmt.Errorf("%s of %s bad and not imported: correct them and import the file again, which changes nothing else", number(r.Bad, "row"), comma(r.Rows))
	}
	return err
}

// A batch is well below the largest body of the API (4 MB).
const maxBatchBytes = 2 << 20

// items imports rows of a file through the API, in batches, and answers for each row by its line.
type items[T any] struct {
	put   func(context.Context, []T) ([]api.PutResult, error)
	name  func(T) string // of an item, as it is called in what is said of it
	scope func(T) string // within which names are distinct; nil: in the whole file
	show  func(rows int64)
	bad   func(catalog.BadRow)

	rows   []itemRow[T]          // read and not yet answered for, in their order
	bytes  int                   // of those that are put
	seen   map[[16]byte][16]byte // hashes of names to hashes of contents, of the whole file
	report catalog.Report
}

// itemRow is an item to be put, or what has become of the row already.
type itemRow[T any] struct {
	line   int64
	item   T
	reason string // why it is bad; "": it is not
	repeat bool   // equal to an earlier one: nothing to put
}

// add takes one row; reason is what is wrong with it, "" for nothing. A row that repeats an earlier one of the file is unchanged if it is equal, else bad: the first one counts.
func (i *items[T]) add(ctx context.Context, line int64, item T, reason string) error {
	row := itemRow[T]{line: line, item: item, reason: reason}
	text, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("line %d: %w", line, err)
	}
	size := 0
	if reason == "" {
		if i.seen == nil {
			i.seen = map[[16]byte][16]byte{}
		}
		name, content := i.key(item), hash(string(text))
		switch before, again := i.seen[name]; {
		case again && before == content:
			row.repeat = true
		case again:
			row.reason = fmt.Sprintf("%s: %v", i.name(item), catalog.ErrDuplicate)
		default:
			i.seen[name] = content
			size = len(text) + 1
		}
	}
	if len(i.rows) == api.MaxItems || i.bytes > 0 && i.bytes+size > maxBatchBytes {
		if err := i.flush(ctx); err != nil {
			return err
		}
	}
	i.rows, i.bytes = append(i.rows, row), i.bytes+size
	return nil
}

// key is what an item is put under: another one under it would replace it.
func (i *items[T]) key(item T) [16]byte {
	if i.scope == nil {
		return hash(i.name(item))
	}
	return hash(i.scope(item) + " " + i.name(item)) // no id has a space
}

func hash(s string) [16]byte {
	sum := sha256.Sum256([]byte(s))
	return [16]byte(sum[:16])
}

// putTries is how often a batch is sent that the API was too busy to take, or did not answer: the same batch again is always right.
const putTries = 5

// flush puts what is to be put, and counts what became of each row.
func (i *items[T]) flush(ctx context.Context) error {
	if len(i.rows) == 0 {
		return nil
	}
	results, err := i.send(ctx)
	if err != nil {
		return fmt.Errorf("lines %d to %d: %w", i.rows[0].line, i.rows[len(i.rows)-1].line, err)
	}
	for _, row := range i.rows {
		switch {
		case row.reason != "":
			i.refuse(row.line, row.reason)
		case row.repeat:
			i.report.Rows, i.report.Unchanged = i.report.Rows+1, i.report.Unchanged+1
		default:
			i.count(row, results[0])
			results = results[1:]
		}
	}
	i.rows, i.bytes = i.rows[:0], 0
	i.show(i.report.Rows)
	return nil
}

// send puts the rows that are to be put; the results are in their order.
func (i *items[T]) send(ctx context.Context) (results []api.PutResult, err error) {
	var batch []T
	for _, row := range i.rows {
		if row.reason == "" && !row.repeat {
			batch = append(batch, row.item)
		}
	}
	if len(batch) == 0 {
		return nil, nil
	}
	results, err = i.put(ctx, batch)
	for try := 1; err != nil && try < putTries && passes(err) && ctx.Err() == nil; try++ {
		timer := time.NewTimer(max(retryAfter(err), time.Duration(try)*time.Second))
		select {
		case <-ctx.Done():
		case <-timer.C:
			results, err = i.put(ctx, batch)
		}
		timer.Stop()
	}
	return results, err
}

func (i *items[T]) count(row itemRow[T], r api.PutResult) {
	switch r.Outcome {
	case api.Added:
		i.report.Added++
	case api.Changed:
		i.report.Changed++
	case api.Unchanged:
		i.report.Unchanged++
	default:
		i.refuse(row.line, fmt.Sprintf("%s: %s: %s", i.name(row.item), r.Field, r.Message))
		return
	}
	i.report.Rows++
}

func (i *items[T]) refuse(line int64, reason string) {
	b := catalog.BadRow{Line: line, Reason: reason}
	i.report.Rows, i.report.Bad = i.report.Rows+1, i.report.Bad+1
	if len(i.report.FirstBad) < catalog.MaxFirstBad {
		i.report.FirstBad = append(i.report.FirstBad, b)
	}
	i.bad(b)
}

// each reads rows until the end of the file and imports them.
func (i *items[T]) each(ctx context.Context, next func() (line int64, item T, reason string, err error)) error {
	for ctx.Err() == nil {
		line, item, reason, err := next()
		if errors.Is(err, io.EOF) {
			return i.flush(ctx)
		}
		if err != nil {
			return errors.Join(i.flush(ctx), err)
		}
		if err := i.add(ctx, line, item, reason); err != nil {
			return err
		}
	}
	return ctx.Err()
}
