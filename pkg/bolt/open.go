package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"hanbeon/pkg/store"
)

// Errors of a data file, to be found with errors.Is. The error around them names the path.
var (
	ErrInUse   = errors.New("another process has the file open: stop it, or work through its API")
	ErrNotOurs = errors.New("not a data file of hanbeon: choose another path; nothing was changed")
	ErrNewer   = errors.New("written by a newer version of hanbeon: use that version; nothing was changed")
	ErrDamaged = errors.New("the data file is damaged: restore a copy; nothing was repaired or overwritten")
)

// Options of a store. The zero value is a durable store without ledgers.
type Options struct {
	// NoSync leaves out fsync: several times faster, survives the end of the process, and may lose or damage the whole file when the machine goes down. For tests and simulation.
	NoSync bool

	// Ledgers are the tables whose every write is a transaction on DynamoDB. It changes only what the meter counts.
	Ledgers []store.Table
}

const (
	lockTimeout = 200 * time.Millisecond // long enough for a process that is just going, short for a person
	format      = "hanbeon store 1"      // value of the marker; a later format has another number
	formatName  = "hanbeon store "
)

var (
	metaBucket = []byte("meta")
	formatKey  = []byte("format")
	tableName  = []byte("table:") // before the name of each table, so that none collides with meta
)

// Open opens a data file, or makes it where none is or it is empty. Its directory must exist. Nothing is ever written to a file that is not a data file of hanbeon.
// Errors: ErrInUse, ErrNotOurs, ErrNewer, ErrDamaged, or what the operating system said, each with the path and what to do.
func Open(path string, o Options) (*Store, error) {
	if path == "" {
		return nil, errors.New("open data file: no path was given")
	}
	s := &Store{path: path, ledgers: make(map[store.Table]bool, len(o.Ledgers))}
	for _, t := range o.Ledgers {
		s.ledgers[t] = true
	}
	fresh, err := inspect(path)
	if err != nil {
		return nil, err
	}
	s.db, s.file, err = openFile(path, &bbolt.Options{
		Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType, NoSync: o.NoSync, NoGrowSync: o.NoSync, NoStatistics: true,
	})
	if err != nil {
		return nil, explain("open", path, err)
	}
	if err := s.mark(); err != nil {
		s.db.Close()
		if fresh {
			err = fmt.Errorf("%w (the new file was begun and may be removed)", err)
		}
		return nil, explain("open", path, err)
	}
	if fresh && !o.NoSync {
		if err := syncDir(filepath.Dir(path)); err != nil {
			s.db.Close()
			return nil, explain("open", path, err)
		}
	}
	return s, nil
}

// syncDir makes the name of a new file as durable as what will be written into it. Windows cannot, and needs not.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// inspect looks at a file without being able to write to it: bbolt may already write when it opens a file for writing. It tells whether there is nothing yet.
func inspect(path string) (fresh bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, inspectDir(path)
	case err != nil:
		return false, explain("open", path, err)
	case !info.Mode().IsRegular():
		return false, fmt.Errorf("open data file %s: it is not a regular file: choose another path", path)
	case info.Size() == 0:
		return true, nil
	case info.Size() < smallest:
		return false, explain("open", path, tooShort(path))
	}
	db, _, err := openFile(path, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true, NoStatistics: true})
	if err != nil {
		return false, explain("open", path, err)
	}
	defer db.Close()
	err = guard(func() error {
		return db.View(func(tx *bbolt.Tx) error {
			info, err := os.Stat(path) // again: now it is locked
			if err != nil {
				return err
			}
			if tx.Size() > info.Size() {
				return fmt.Errorf("%w (it has %d bytes of %d)", ErrDamaged, info.Size(), tx.Size())
			}
			return checkFormat(tx)
		})
	})
	return false, explain("open", path, err)
}

// smallest is less than any file that bbolt makes: it begins with four pages.
const smallest = 4 * 4096

// tooShort tells the rest of a data file from something else: bbolt's magic number stands behind the first page header.
func tooShort(path string) error {
	head := make([]byte, 20)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.ReadFull(f, head); err == nil && binary.NativeEndian.Uint32(head[16:]) == 0xED0CDAED {
		return ErrDamaged
	}
	return ErrNotOurs
}

func inspectDir(path string) error {
	dir := filepath.Dir(path)
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open data file %s: the directory %s does not exist: create it, or choose another path: %w", path, dir, err)
	case err != nil:
		return explain("open", path, err)
	case !info.IsDir():
		return fmt.Errorf("open data file %s: %s is not a directory: choose another path", path, dir)
	}
	return nil
}

// checkFormat tells whether a bbolt file is ours. One without any bucket is what a crash leaves between making a file and marking it.
func checkFormat(tx *bbolt.Tx) error {
	first, _ := tx.Cursor().First()
	if first == nil {
		return nil
	}
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		return ErrNotOurs
	}
	switch got := meta.Get(formatKey); {
	case string(got) == format:
		return nil
	case bytes.HasPrefix(got, []byte(formatName)):
		return ErrNewer
	}
	return ErrNotOurs
}

// mark writes the format into a new file.
func (s *Store) mark() error {
	return guard(func() error {
		done := false
		err := s.db.View(func(tx *bbolt.Tx) error {
			done = tx.Bucket(metaBucket) != nil
			return checkFormat(tx)
		})
		if err != nil || done {
			return err
		}
		return s.db.Update(func(tx *bbolt.Tx) error {
			meta, err := tx.CreateBucketIfNotExists(metaBucket)
			if err != nil {
				return err
			}
			return meta.Put(formatKey, []byte(format))
		})
	})
}

// openFile is bbolt.Open without its panics. It returns the file too, for the case that the database cannot be closed any more.
func openFile(path string, o *bbolt.Options) (db *bbolt.DB, file *os.File, err error) {
	o.OpenFile = func(name string, flag int, perm os.FileMode) (f *os.File, err error) {
		f, err = os.OpenFile(name, flag, perm)
		file = f
		return f, err
	}
	err = guard(func() (err error) {
		db, err = bbolt.Open(path, 0o600, o)
		return err
	})
	if err != nil && file != nil {
		file.Close() // after a panic it would stay open, and locked; a second Close is harmless
	}
	return db, file, err
}

// guard runs what reads or writes the file. On a damaged file bbolt panics, and a page beyond the end of a truncated one faults; both become ErrDamaged.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, p)
		}
	}()
	return f()
}

// explain says with the path what to do about an error; nil stays nil.
func explain(do, path string, err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		err = ErrInUse
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch):
		err = ErrNotOurs
	case errors.Is(err, berrors.ErrChecksum):
		err = ErrDamaged
	case diskFull(err):
		hint = "the disk is full: free space and run again; what was committed is kept: "
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		hint = "not readable and writable for this user: change its permissions, or choose another path: "
	case errors.Is(err, syscall.EISDIR):
		hint = "it is a directory: choose a file: "
	}
	return fmt.Errorf("%s data file %s: %s%w", do, path, hint, err)
}

// diskFull goes by the text as well: where bbolt grows the file it keeps only that of the error.
func diskFull(err error) bool {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) || strings.HasSuffix(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}
