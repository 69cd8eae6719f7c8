package bolt_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/store"
)

// The test binary is also the other process of some tests: what it does there is named by these variables.
const (
	roleVariable = "HANBEON_BOLT_TEST_ROLE"
	pathVariable = "HANBEON_BOLT_TEST_PATH"
)

func TestMain(m *testing.M) {
	role, path := os.Getenv(roleVariable), os.Getenv(pathVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := roles[role](path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var roles = map[string]func(path string) error{
	// hold opens the file, says so, and keeps it until its input ends.
	"hold": func(path string) error {
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			return err
		}
		fmt.Println("open")
		bufio.NewReader(os.Stdin).ReadString('\n')
		return s.Close()
	},
	// write inserts items one after the other and says so after each, until it is killed.
	"write": func(path string) error {
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			if err := s.Transact(background, pair(i)...); err != nil {
				return err
			}
			fmt.Println(i)
		}
	},
	// fill writes until the disk is full, which is played by a limit on the size of a file, and tells what then still works.
	"fill": func(path string) error {
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		s, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			return err
		}
		defer s.Close()
		for i := range 10_000 {
			key := store.Key{Table: "t", PK: "p", SK: fmt.Sprint(i)}
			err := s.Transact(background, store.Put(key, store.Attrs{"x": strings.Repeat("x", 20_000)}))
			if err == nil {
				fmt.Println(i)
				continue
			}
			items, readErr := s.Get(background, store.Key{Table: "t", PK: "p", SK: "0"}, key)
			if readErr != nil || !items[0].Exists() || items[1].Exists() {
				return fmt.Errorf("after %w: read %v, %v", err, items, readErr)
			}
			return err
		}
		return errors.New("the disk did not fill")
	},
}

// pair are two inserts of one transaction: both are there, or none.
func pair(i int) []store.Write {
	return []store.Write{
		store.Insert(store.Key{Table: "one", PK: "p", SK: fmt.Sprintf("%06d", i)}, store.Attrs{"n": i}),
		store.Insert(store.Key{Table: "two", PK: "p", SK: fmt.Sprintf("%06d", i)}, store.Attrs{"n": i}),
	}
}

// process starts the test binary in a role.
func process(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	return cmd
}
