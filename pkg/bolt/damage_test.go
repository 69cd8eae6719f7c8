package bolt_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/store"
)

const pairs = 300

// sample is the content of a data file with a few hundred items in two tables.
func sample(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sample")
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pairs {
		if err := s.Transact(t.Context(), pair(i)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// survey opens a file, reads everything and writes a little. It returns the number of items seen.
func survey(t *testing.T, content []byte) (items int, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path, bolt.Options{NoSync: true})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, table := range []store.Table{"one", "two"} {
		q := store.Query{Table: table, PK: "p"}
		for {
			p, err := s.Query(t.Context(), q)
			if err != nil {
				return items, err
			}
			items += len(p.Items)
			if q.Cursor = p.Next; p.Next == "" {
				break
			}
		}
	}
	for i := range 20 {
		if err := s.Transact(t.Context(), pair(pairs+i)...); err != nil {
			return items, err
		}
	}
	return items, nil
}

func TestTruncatedFile(t *testing.T) {
	t.Parallel()
	whole := sample(t)
	if items, err := survey(t, whole); items != 2*pairs || err != nil {
		t.Fatalf("the whole file: %d items, %v, want %d", items, err, 2*pairs)
	}
	refused := 0
	for _, cut := range cuts(len(whole)) {
		items, err := survey(t, whole[:cut])
		if err != nil {
			refused++
			if !errors.Is(err, bolt.ErrDamaged) && !errors.Is(err, bolt.ErrNotOurs) {
				t.Errorf("cut at %d of %d: %v, want ErrDamaged", cut, len(whole), err)
			}
			if !strings.HasPrefix(err.Error(), "open ") {
				t.Errorf("cut at %d of %d is found only later: %v", cut, len(whole), err)
			}
		} else if items != 2*pairs && cut != 0 { // what lies behind the last used page is not missed
			t.Errorf("cut at %d of %d: %d items without an error, want %d", cut, len(whole), items, 2*pairs)
		}
	}
	if refused == 0 {
		t.Error("no cut was found")
	}
}

// cuts are every page boundary, the bytes beside it, and its middle.
func cuts(size int) (at []int) {
	for page := 0; page < size; page += 4096 {
		for _, d := range []int{-1, 0, 1, 16, 20, 2048} {
			if cut := page + d; cut >= 0 && cut < size {
				at = append(at, cut)
			}
		}
	}
	return at
}

func TestDamagedFileIsAnErrorAndNeverAPanic(t *testing.T) {
	t.Parallel()
	whole := sample(t)
	for seed := range uint64(90) {
		rng := rand.New(rand.NewPCG(seed, 1))
		content := append([]byte(nil), whole...)
		switch at := rng.IntN(len(content)); seed % 3 {
		case 0: // single bytes
			for range 1 + rng.IntN(20) {
				content[rng.IntN(len(content))] ^= byte(1 + rng.IntN(255))
			}
		case 1: // a torn page
			page := at / 4096 * 4096
			for i := page; i < min(page+4096, len(content)); i++ {
				content[i] = byte(rng.Uint32())
			}
		case 2: // a sector of zeros
			clear(content[at/512*512 : min(at/512*512+512, len(content))])
		}
		if _, err := survey(t, content); err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("seed %d: the error is not one readable line: %.1000q", seed, err)
		}
	}
}

func TestBothMetaPagesDamaged(t *testing.T) {
	t.Parallel()
	content := sample(t)
	for _, page := range []int{0, 4096} {
		content[page+40] ^= 1
	}
	if _, err := survey(t, content); !errors.Is(err, bolt.ErrDamaged) {
		t.Errorf("Open = %v, want ErrDamaged", err)
	}
}

func TestFileTruncatedUnderAnOpenStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, sample(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, path, bolt.Options{})
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	for range 2 { // and it stays that way
		if err := s.Transact(t.Context(), pair(1)...); !errors.Is(err, bolt.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("Transact = %v, want ErrDamaged", err)
		}
		if _, err := s.Query(t.Context(), store.Query{Table: "one", PK: "p"}); !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("Query = %v, want ErrDamaged", err)
		}
	}
}

func TestItemThatCannotBeReadIsTheTroubleOfItsCallOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "bad")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	foreign(t, path, func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("table:t")).Put([]byte("p\x00bad"), []byte(`{"n":1.5`))
	})
	s = open(t, path, bolt.Options{})
	errs := make(chan error, 20)
	for i := range cap(errs) {
		go func() {
			w := []store.Write{store.Put(key(strconv.Itoa(i)), store.Attrs{})}
			if i%2 == 0 {
				w = append(w, store.Check(key("bad"), store.Absent()))
			}
			err := s.Transact(background, w...)
			if bad := errors.Is(err, bolt.ErrDamaged); bad != (i%2 == 0) || !bad && err != nil {
				errs <- fmt.Errorf("call %d: %w", i, err)
				return
			}
			errs <- nil
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range cap(errs) {
		if got, want := exists(t, s, strconv.Itoa(i)), i%2 == 1; got != want {
			t.Errorf("item %d exists: %v, want %v", i, got, want)
		}
	}
}

func TestFullDiskIsAnErrorAndKeepsWhatWasWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	var stderr strings.Builder
	other := process(t, "fill", path)
	other.Stderr = &stderr
	out, err := other.Output()
	if err == nil || !strings.Contains(stderr.String(), "the disk is full") || !strings.Contains(stderr.String(), path) || strings.Contains(stderr.String(), "read") {
		t.Errorf("the process ended with %v, said %q", err, stderr.String())
	}
	s := open(t, path, bolt.Options{})
	written := strings.Count(string(out), "\n")
	for i := range written {
		items, err := s.Get(t.Context(), store.Key{Table: "t", PK: "p", SK: strconv.Itoa(i)})
		if err != nil || !items[0].Exists() {
			t.Errorf("item %d of %d: %v, %v", i, written, items, err)
		}
	}
	if written == 0 {
		t.Error("nothing was written before the disk was full")
	}
}

func TestKilledProcessLosesNothingItHadWritten(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		path := filepath.Join(t.TempDir(), "data")
		other := process(t, "write", path)
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		last := -1
		for last < 20+13*round && lines.Scan() {
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		if err := other.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it still said before it died
			if last, err = strconv.Atoi(lines.Text()); err != nil {
				t.Fatal(err)
			}
		}
		other.Wait()
		s := open(t, path, bolt.Options{})
		count := map[store.Table]int{}
		for _, table := range []store.Table{"one", "two"} {
			p, err := s.Query(t.Context(), store.Query{Table: table, PK: "p"})
			if err != nil {
				t.Fatal(err)
			}
			count[table] = len(p.Items)
		}
		if count["one"] != count["two"] || count["one"] < last+1 || count["one"] > last+2 {
			t.Errorf("killed after %d: items %v", last, count)
		}
	}
}
