package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// withMembers is a data file with some active members.
func withMembers(t *testing.T, ids ...string) string {
	t.Helper()
	dir := t.TempDir()
	list := filepath.Join(dir, "members.csv")
	text := "id,status,joined\n"
	for _, id := range ids {
		text += id + ",ACTIVE,2020-01-01\n"
	}
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "test.db")
	if code, _, stderr := call(time.Now(), "members", "import", list, "--data", data); code != 0 {
		t.Fatalf("import: exit code %d: %s", code, stderr)
	}
	return data
}

// Exit codes: 0 done, 1 failed, 2 misuse.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	data := withMembers(t, "m-1")
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, tt := range []struct {
		args string
		want int
	}{
		{"", 0},
		{"version", 0},
		{"audit --data " + data, 0},
		{"points m-1 --data " + data, 0},
		{"points m-2 --data " + data, 1},
		{"points m/2 --data " + data, 2},
		{"audit --data " + missing, 1},
		{"audit --data=", 2},
		{"audit --zone Nowhere --data " + data, 2},
		{"members import " + missing + " --data " + data, 1},
		{"members import", 2},
		{"members", 2},
		{"members nope", 2},
		{"nope", 2},
		{"--nope", 2},
		{"jobs monthly-point-01HTC4VQ3Y8J6W4E0P2K9R7S5T --data " + data, 1},
		{"jobs x --data " + data, 2},
		{"jobs --month 2024-13 --data " + data, 2},
		{"cancel x --data " + data, 2},
		{"watch x --data " + data, 2},
		{"run", 2},
		{"run til", 2},
		{"run monthly-point --data " + data, 2},
		{"run monthly-point --period 2024-13 --amount 100 --data " + data, 2},
		{"run monthly-point --period 2099-01 --amount 100 --data " + data, 2},
		{"run monthly-point --period 2024-04 --amount 0 --data " + data, 2},
		{"run monthly-point --period 2024-04 --amount 100 --data " + missing, 1},
		{"run monthly-point --period 2024-04 --amount 100 --data " + data, 0},
		{"run monthly-point --period 2024-04 --amount 101 --data " + data, 2},
		{"run monthly-point --period 2024-04 --amount 101 --change-amount --data " + data, 1},
		{"local --fire " + missing + " --data " + data, 1},
		{"local --calendar-start x --data " + data, 2},
		{"demo --data " + data, 2},
		{"demo --members -1", 2},
	} {
		code, stdout, stderr := call(time.Now(), strings.Fields(tt.args)...)
		if code != tt.want {
			t.Errorf("hanbeon %s: exit code %d, want %d; stderr: %s", tt.args, code, tt.want, stderr)
		}
		if code != 0 && !oneError(stderr) {
			t.Errorf("hanbeon %s: want one line of error, got %q", tt.args, stderr)
		}
		if code == 2 && stdout != "" {
			t.Errorf("hanbeon %s: misuse printed %q", tt.args, stdout)
		}
	}
}

// oneError tells whether stderr is one line of error, after the target if the command got so far.
func oneError(stderr string) bool {
	if strings.HasPrefix(stderr, "target: ") {
		_, stderr, _ = strings.Cut(stderr, "\n")
	}
	return strings.Count(stderr, "\n") == 1 && strings.HasPrefix(stderr, "hanbeon: ")
}

// TIM-04: the month before that of the business zone, on days where adding and subtracting months goes wrong, and at the edge of a month.
func TestLastMonthIsThatOfTheBusinessZone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ now, want string }{
		{"2024-03-31T12:00:00+09:00", "2024-02"},
		{"2024-05-31T12:00:00+09:00", "2024-04"},
		{"2023-03-29T12:00:00+09:00", "2023-02"},
		{"2024-01-31T12:00:00+09:00", "2023-12"},
		{"2024-03-31T14:59:59Z", "2024-02"},
		{"2024-03-31T15:00:00Z", "2024-03"},
	} {
		data := withMembers(t, "m-1")
		code, stdout, stderr := call(at(t, tt.now), "run", "monthly-point", "--period", "last-month", "--amount", "5", "--json", "--data", data)
		var got struct{ Period string }
		if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil || got.Period != tt.want {
			t.Errorf("at %s: exit code %d, period %q, want %q; stderr: %s", tt.now, code, got.Period, tt.want, stderr)
		}
	}
}

// CLI-04: a month is in the future until its scheduled time in the business zone.
func TestAMonthBeginsToBeRunAtItsScheduledTime(t *testing.T) {
	t.Parallel()
	data := withMembers(t, "m-1")
	args := []string{"run", "monthly-point", "--period", "2024-04", "--amount", "5", "--data", data}
	if code, _, stderr := call(at(t, "2024-03-31T15:29:59Z"), args...); code != 2 || !strings.Contains(stderr, "lies in the future") {
		t.Errorf("a second before: exit code %d, %q, want 2 and a reason", code, stderr)
	}
	if code, _, stderr := call(at(t, "2024-03-31T15:30:00Z"), args...); code != 0 {
		t.Errorf("at the scheduled time: exit code %d, %q, want 0", code, stderr)
	}
}

// KEY-09: integers are exact from end to end, and a balance that cannot grow is a failure of its member alone.
func TestPointsAreExactIntegers(t *testing.T) {
	t.Parallel()
	data := withMembers(t, "big", "full", "small")
	set := func(member string, n int64) {
		s, err := openFile(data)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		key := store.Key{Table: monthlypoint.Table, PK: member, SK: monthlypoint.Balance}
		if err := s.Transact(context.Background(), store.Put(key, ledger.Balance{N: n})); err != nil {
			t.Fatal(err)
		}
	}
	set("big", 9007199254740993)
	set("full", 9223372036854775800)
	code, stdout, stderr := call(time.Now(), "run", "monthly-point", "--period", "2024-04", "--amount", "100", "--json", "--data", data)
	if code != 1 || !strings.Contains(stdout, `"applied":2,"already":0,"failed":1,"failedByReason":{"invalid":1}`) {
		t.Errorf("run: exit code %d, %s %s, want 1 and one failure", code, stdout, stderr)
	}
	for member, want := range map[string]string{
		"big":   `"points":9007199254741093,`,
		"full":  `"points":9223372036854775800,`,
		"small": `"points":100,`,
	} {
		if code, stdout, stderr := call(time.Now(), "points", member, "--json", "--data", data); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("points %s: exit code %d, %s %s, want %s", member, code, stdout, stderr, want)
		}
	}
}

// LOG-03: what comes from outside stays in one line and cannot move the cursor.
func TestErrorsAreOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a":                         "a",
		"a\nb\n":                    "a; b",
		"a\r\n\n  b":                "a; b",
		"a\x1b[2Jb":                 `a\x1b[2Jb`,
		"회원 \u200b":                 `회원 \u200b`,
		"x\n{\"level\":\"info\"}\n": `x; {"level":"info"}`,
	} {
		if got := main.OneLine(errors.New(in)); got != want {
			t.Errorf("OneLine(%q) = %q, want %q", in, got, want)
		}
	}
	data := withMembers(t, "m-1")
	forged := "x\n{\"level\":\"info\",\"msg\":\"granted\"}"
	for _, args := range [][]string{{"points", forged}, {"jobs", forged}, {"cancel", forged}, {"run", forged}, {"members", "import", forged}, {"jobs", "--kind", forged}} {
		code, stdout, stderr := call(time.Now(), append(args, "--data", data)...)
		if code == 0 || stdout != "" || !oneError(stderr) {
			t.Errorf("%q: exit code %d, %q, %q, want one line of error", args, code, stdout, stderr)
		}
	}
}

// A result that nobody could read is no success.
func TestAResultThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	if code := main.Run(context.Background(), time.Now(), []string{"version"}, strings.NewReader(""), full{}, &stderr); code != 1 || !strings.Contains(stderr.String(), "could not be written") {
		t.Errorf("exit code %d, %q, want 1 and the reason", code, stderr.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// An interrupted run loses nothing: the next one finishes it and goes on.
func TestAnInterruptedRunGoesOn(t *testing.T) {
	t.Parallel()
	data := withMembers(t, "m-1", "m-2")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr strings.Builder
	args := []string{"run", "monthly-point", "--period", "2024-04", "--amount", "5", "--data", data}
	if code := main.Run(ctx, time.Now(), args, strings.NewReader(""), &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("interrupted: exit code %d, %q, want 1 and one line saying so", code, stderr.String())
	}
	if code, out, errs := call(time.Now(), args...); code != 0 || !strings.Contains(out, "10 = entry sum 10, of 2 grants") {
		t.Errorf("again: exit code %d, %s %s, want 0 and both granted", code, out, errs)
	}
}

// The bare loop sends what the engine sends: full groups, each with one tally shard.
func TestBareLoopWritesEveryPosting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	shown := int64(0)
	perSecond, err := main.BareLoop(context.Background(), dir, true, 100, 120, time.UTC, func(n int64) { shown = n })
	if err != nil || perSecond <= 0 || shown != 120 {
		t.Fatalf("got %v per second, %d shown, %v; want some, 120 and no error", perSecond, shown, err)
	}
	s, err := openFile(filepath.Join(dir, "bare-loop.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := ledger.New(s, monthlypoint.Table, time.Now)
	for _, member := range []string{"member-000000", "member-000119"} {
		h, err := l.History(context.Background(), member, "", 0)
		if err != nil || len(h.Entries) != 1 || h.Balances[monthlypoint.Balance] != (ledger.Balance{N: 100, Entries: 1}) {
			t.Errorf("%s: got %+v, %v", member, h, err)
		}
	}
	if _, ok, _ := l.Entry(context.Background(), mustKey(t, "member-000120")); ok {
		t.Error("one posting too many")
	}
}

func mustKey(t *testing.T, member string) once.Key {
	t.Helper()
	k, err := once.NewKey(monthlypoint.Name, string(once.MonthOf(time.Now(), time.UTC)), member)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// What an earlier process left is sent again at once: nothing waits, by whatever clock, until the reaper finds the job stalled.
func TestUnfinishedWorkIsSentAtOnce(t *testing.T) {
	t.Parallel()
	data := withMembers(t, "m-1")
	s, err := openFile(data)
	if err != nil {
		t.Fatal(err)
	}
	j, err := openJob(s, "2024-03", 5)
	if err == nil { // a fan-out has begun, and was killed
		j, err = job.NewStore(s, time.Now).Start(context.Background(), j)
	}
	s.Close()
	if err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(time.Now(), "run", "monthly-point", "--period", "2024-04", "--amount", "5", "--data", data); code != 0 {
		t.Fatalf("run: exit code %d: %s", code, stderr)
	}
	var got struct {
		State                 job.State
		CreatedAt, FinishedAt time.Time
	}
	_, stdout, _ := call(time.Now(), "jobs", j.ID, "--json", "--data", data)
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	// The stack's clock, which skips: the batching window of its queue is seconds, the reaper's patience many minutes.
	if took := got.FinishedAt.Sub(got.CreatedAt); got.State != job.Completed || took > 5*time.Minute {
		t.Errorf("job %s after %v, want COMPLETED within minutes", got.State, took)
	}
}
