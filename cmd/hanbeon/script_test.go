package main_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/bolt"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hanbeon": main.Main})
}

// The scripts say what a user sees. CLI-04, KEY-02, LOG-03 and the errors of data files are in them.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"hold":   hold,
			"opened": opened,
			"newest": newest,
			"thejob": theJob,

			"untargeted": untargeted,
			"served":     served,
			"address":    address,
			"await":      await,
			"forge":      forge,
		},
	})
}

// hold FILE keeps a data file open until the script ends, as another process would.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	s, err := bolt.Open(ts.MkAbs(args[0]), bolt.Options{})
	ts.Check(err)
	ts.Defer(func() { s.Close() })
}

// opened FILE PERIOD AMOUNT leaves a job PENDING in a data file, as a process does that is killed right after it opened one. $JOB is its id.
func opened(ts *testscript.TestScript, _ bool, args []string) {
	period, err := once.ParsePeriod(args[1])
	ts.Check(err)
	amount, err := monthlypoint.ParseAmount(args[2])
	ts.Check(err)
	s, err := openFile(ts.MkAbs(args[0]))
	ts.Check(err)
	defer s.Close()
	j, err := openJob(s, period, amount)
	ts.Check(err)
	ts.Setenv("JOB", j.ID)
}

// newest FILE sets $JOB to the id of the newest job.
func newest(ts *testscript.TestScript, _ bool, args []string) {
	s, err := openFile(ts.MkAbs(args[0]))
	ts.Check(err)
	defer s.Close()
	jobs, _, err := job.NewStore(s, time.Now).List(context.Background(), monthlypoint.Name, time.Now(), 1, "")
	ts.Check(err)
	if len(jobs) == 0 {
		ts.Fatalf("no job in %s", args[0])
	}
	ts.Setenv("JOB", jobs[0].ID)
}

// untargeted FILE... removes the lines that name a target.
func untargeted(ts *testscript.TestScript, _ bool, args []string) {
	for _, file := range args {
		text := regexp.MustCompile(`(?m)^target: .*\n`).ReplaceAllString(ts.ReadFile(file), "")
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

// theJob sets $JOB to the first id of a job in what was printed last.
func theJob(ts *testscript.TestScript, _ bool, _ []string) {
	id := regexp.MustCompile(`[a-z-]+-[0-9A-Z]{26}`).FindString(ts.ReadFile("stdout"))
	if id == "" {
		ts.Fatalf("no job was named")
	}
	ts.Setenv("JOB", id)
}

// patience is how long a process may take to start on a busy machine.
const patience = time.Minute

// until looks again and again, and gives up when patience is at an end.
func until(ts *testscript.TestScript, what string, there func() bool) {
	for begun := time.Now(); !there(); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > patience {
			ts.Fatalf("%s did not come", what)
		}
	}
}

// served FILE waits until a hanbeon local serves the API of a data file. $ENDPOINT, $REGION, $KEY and $SECRET say how to reach it.
func served(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0]) + ".api.json"
	until(ts, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	var c struct{ Endpoint, Region, AccessKeyID, SecretAccessKey string }
	b, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(json.Unmarshal(b, &c))
	for name, v := range map[string]string{"ENDPOINT": c.Endpoint, "REGION": c.Region, "KEY": c.AccessKeyID, "SECRET": c.SecretAccessKey} {
		ts.Setenv(name, v)
	}
}

// forge FILE changes the secret in a connection file.
func forge(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.Replace(ts.ReadFile(args[0]), ts.Getenv("SECRET"), "forged", 1)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// address NAME sets $NAME to an address of this machine that is free.
func address(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer l.Close()
	ts.Setenv(args[0], l.Addr().String())
}

// await ADDRESS waits until somebody listens there.
func await(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, args[0], func() bool {
		c, err := net.Dial("tcp", args[0])
		if err != nil {
			return false
		}
		c.Close()
		return true
	})
}

func openFile(path string) (*bolt.Store, error) {
	return bolt.Open(path, bolt.Options{Ledgers: []store.Table{monthlypoint.Table}})
}

// openJob opens a job whose messages are lost.
func openJob(s store.Store, period once.Period, amount int64) (job.Job, error) {
	zone, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		return job.Job{}, err
	}
	env := job.Env{
		Store: s, Queue: nowhere{}, Log: slog.New(slog.DiscardHandler), Metric: func(once.Kind, string, float64) {},
		Now: func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) },
	}
	r, err := dispatch.NewDispatcher(env, kinds.All(s, zone)...).Run(context.Background(),
		dispatch.Run{Kind: monthlypoint.Name, Period: period, Input: []byte(monthlypoint.Inputs(amount)), RequestedBy: "test"})
	return r.Job, err
}

// nowhere accepts every message and loses it.
type nowhere struct{}

func (nowhere) Send(context.Context, queue.Name, ...string) error { return nil }

func (nowhere) PutOff(context.Context, queue.Name, time.Duration, ...string) error { return nil }

// call runs the command and returns what it printed.
func call(now time.Time, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = main.Run(context.Background(), now, args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}
