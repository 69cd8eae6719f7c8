package bolt_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/store"
)

var background = context.Background()

func key(sk string) store.Key { return store.Key{Table: "t", PK: "p", SK: sk} }

func put(t *testing.T, s *bolt.Store, sk string) {
	t.Helper()
	if err := s.Transact(t.Context(), store.Put(key(sk), store.Attrs{"sk of it": sk})); err != nil {
		t.Fatal(err)
	}
}

func exists(t *testing.T, s *bolt.Store, sk string) bool {
	t.Helper()
	items, err := s.Get(t.Context(), key(sk))
	if err != nil {
		t.Fatal(err)
	}
	return items[0].Exists()
}

func TestReopeningKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]bolt.Options{"with sync": {}, "without sync": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data")
			for _, sk := range []string{"first", "second", "third"} {
				s, err := bolt.Open(path, o)
				if err != nil {
					t.Fatal(err)
				}
				if got := s.Path(); got != path {
					t.Errorf("Path() = %q, want %q", got, path)
				}
				put(t, s, sk)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			s := open(t, path, o)
			for _, sk := range []string{"first", "second", "third"} {
				if !exists(t, s, sk) {
					t.Errorf("%s is gone", sk)
				}
			}
		})
	}
}

func TestEmptyFileIsInitialised(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, path, bolt.Options{}), "a")
}

func TestFileWhoseMakingWasCutShortIsInitialised(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	foreign(t, path, func(*bbolt.Tx) error { return nil }) // bbolt made it, nobody marked it
	put(t, open(t, path, bolt.Options{}), "a")
}

// foreign makes a bbolt file of another program.
func foreign(t *testing.T, path string, fill func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(fill), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatAreNotOursAreRefusedAndUnchanged(t *testing.T) {
	t.Parallel()
	bucket := func(name, key, value string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			foreign(t, path, func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucket([]byte(name))
				if err != nil {
					return err
				}
				return b.Put([]byte(key), []byte(value))
			})
		}
	}
	content := func(b []byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		make func(*testing.T, string)
		want error
	}{
		"one byte":                            {content([]byte("x")), bolt.ErrNotOurs},
		"a short text":                        {content([]byte("id,name\nmember-1,Kim\n")), bolt.ErrNotOurs},
		"a page of text":                      {content(bytes.Repeat([]byte("member-1,Kim\n"), 500)), bolt.ErrNotOurs},
		"a long text":                         {content(bytes.Repeat([]byte("member-1,Kim\n"), 50_000)), bolt.ErrNotOurs},
		"zeros":                               {content(make([]byte, 100_000)), bolt.ErrNotOurs},
		"SQLite":                              {content(append([]byte("SQLite format 3\x00"), make([]byte, 65_536)...)), bolt.ErrNotOurs},
		"bbolt of another program":            {bucket("widgets", "a", "b"), bolt.ErrNotOurs},
		"another meta bucket":                 {bucket("meta", "version", "1"), bolt.ErrNotOurs},
		"another format":                      {bucket("meta", "format", "etcd"), bolt.ErrNotOurs},
		"a later format":                      {bucket("meta", "format", "hanbeon store 2"), bolt.ErrNewer},
		"bbolt whose free list is not synced": {unsynced, bolt.ErrNotOurs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "data")
			c.make(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(path, bolt.Options{})
			if s != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open = %v, %v, want one line with the path: %v", s, err, c.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, before) {
				t.Errorf("the file has changed: %d bytes, were %d; %v", len(after), len(before), err)
			}
		})
	}
}

// unsynced makes a foreign file into which bbolt writes as soon as it is opened for writing.
func unsynced(t *testing.T, path string) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("widgets"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestPathsThatCannotBeAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"no directory":        {filepath.Join(dir, "missing", "data"), "does not exist: create it"},
		"a directory":         {dir, "not a regular file"},
		"under a file":        {filepath.Join(file, "data"), "not a directory"},
		"a device":            {os.DevNull, "not a regular file"},
		"nothing":             {"", "no path"},
		"a link into nowhere": {link(t, filepath.Join(dir, "gone", "data")), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := bolt.Open(c.path, bolt.Options{})
			if s != nil || err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("Open(%q) = %v, %v, want %q", c.path, s, err, c.want)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("Open made something: %v, %v", entries, err)
	}
}

func link(t *testing.T, to string) string {
	path := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFileWithoutPermission(t *testing.T) {
	t.Parallel()
	for name, modes := range map[string]struct{ dir, file fs.FileMode }{
		"a directory that is not writable": {0o555, 0},
		"a file that is not writable":      {0o755, 0o444},
		"a file that is not readable":      {0o755, 0o200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "data")
			if modes.file != 0 {
				s, err := bolt.Open(path, bolt.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(s.Close(), os.Chmod(path, modes.file)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(dir, modes.dir); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.Chmod(dir, 0o755) })
			var err error
			unprivileged(t, func() { _, err = bolt.Open(path, bolt.Options{}) })
			if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "permissions") {
				t.Errorf("Open = %v, want what to do about permissions of %s", err, path)
			}
		})
	}
}

func TestOneProcessHasTheFile(t *testing.T) {
	t.Parallel()
	inUse := func(t *testing.T, path string) {
		t.Helper()
		s, err := bolt.Open(path, bolt.Options{})
		if s != nil || !errors.Is(err, bolt.ErrInUse) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open = %v, %v, want one line with the path: %v", s, err, bolt.ErrInUse)
		}
	}
	t.Run("another process", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "data")
		other := process(t, "hold", path)
		in, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("the other process said %q, %v", line, err)
		}
		inUse(t, path)
		in.Close()
		if err := other.Wait(); err != nil {
			t.Fatal(err)
		}
		open(t, path, bolt.Options{})
	})
	t.Run("the same process", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "data")
		s := open(t, path, bolt.Options{})
		inUse(t, path)
		put(t, s, "a")
	})
}

func TestCallsAfterClose(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]bolt.Options{"with sync": {}, "without sync": {NoSync: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, filepath.Join(t.TempDir(), "data"), o)
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatalf("Close = %v", err)
				}
			}
			_, getErr := s.Get(t.Context(), key("a"))
			_, queryErr := s.Query(t.Context(), store.Query{Table: "t", PK: "p"})
			for _, err := range []error{s.Transact(t.Context(), store.Delete(key("a"))), getErr, queryErr} {
				if err == nil || errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), s.Path()) {
					t.Errorf("after Close: %v, want that it is not open", err)
				}
			}
		})
	}
}
