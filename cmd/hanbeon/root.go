package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/local"

	_ "time/tzdata" // the business zone must exist on every machine
)

// app is one call of the command.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time

	data     string    // path of the data file
	endpoint *endpoint // of --endpoint; nil: the data file
	region   string    // of --region
	json     bool
	zone     *time.Location

	began bool // the arguments were accepted: what fails from now on is no misuse
}

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitMisuse = 2
)

// misuseError is a mistake in the arguments; nothing was done.
type misuseError struct{ error }

func misuse(format string, args ...any) error { return misuseError{fmt.Errorf(format, args...)} }

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr, now: time.Now}).run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	out := &checkedWriter{w: a.stdout}
	a.stdout = out
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, local.ErrStopped)):
		err = errors.New("interrupted: nothing is lost, the same command again goes on")
	case err == nil && out.err != nil:
		err = fmt.Errorf("the result could not be written: %w", out.err)
	}
	if err == nil {
		return exitDone
	}
	fmt.Fprintln(a.stderr, "hanbeon: "+oneLine(err))
	if m := (misuseError{}); errors.As(err, &m) || !a.began {
		return exitMisuse
	}
	return exitFailed
}

// checkedWriter remembers that writing failed: a result that nobody got is no success.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if err != nil {
		c.err = err
	}
	return n, err
}

// oneLine is an error as one line of text: what came from outside cannot forge lines or move the cursor.
func oneLine(err error) string {
	var lines []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return visible(strings.Join(lines, "; "))
}

// visible is a text of somebody else with every character that a terminal would obey written as an escape.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

const (
	defaultData = "data/hanbeon.db"
	defaultZone = "Asia/Seoul"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "hanbeon",
		Short: "Scheduled and requested work that takes effect exactly once",
		Long: `hanbeon (한 번, "once") runs scheduled and requested work so that every piece of it takes effect exactly once, whatever the scheduler, the queue, an
operator or a crash does. This command runs the whole system in one process, without an account or a network, and operates its data file, or a system that is deployed on AWS.

A command works on the data file in its own process, or, while hanbeon local runs on that file, through its API; with --endpoint, through the API at that address, signed with the AWS
credentials of this machine. Which of them it is, it says on stderr.

When in doubt, run it again: it only does what is missing.

Results go to stdout, progress and errors to stderr. Exit codes: 0 done, 1 failed, 2 misuse (nothing was done).`,
		Example: `  hanbeon demo --members 10000
  hanbeon members sample --count 1000 | hanbeon members import -
  hanbeon run monthly-point --period 2024-04 --amount 100
  hanbeon points member-000042
  hanbeon jobs --endpoint https://abc123.execute-api.ap-northeast-2.amazonaws.com`,
		Version:       version().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("hanbeon {{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	zone := defaultZone
	address := ""
	root.PersistentFlags().StringVar(&a.data, "data", defaultData, "data `file`; one process at a time, others go through its API")
	root.PersistentFlags().StringVar(&address, "endpoint", "", "`URL` of the API to work on, instead of the data file")
	root.PersistentFlags().StringVar(&a.region, "region", "", "AWS `region` of --endpoint, where neither its address nor the AWS configuration says it")
	root.PersistentFlags().StringVar(&zone, "zone", defaultZone, "business time `zone`; never change it once a period was granted")
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print the result as JSON")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := time.LoadLocation(zone)
		if err != nil || zone == "" || zone == "Local" {
			return misuse("--zone %q: want an IANA time zone such as %s", zone, defaultZone)
		}
		if a.data == "" {
			return misuse("--data is empty: want the path of a data file")
		}
		a.zone = loaded
		return a.chooseEndpoint(cmd, address)
	}
	root.AddGroup(
		&cobra.Group{ID: "system", Title: "The system on a laptop:"},
		&cobra.Group{ID: "work", Title: "Work:"},
		&cobra.Group{ID: "look", Title: "Look:"},
	)
	for group, commands := range map[string][]*cobra.Command{
		"system": {here(a.demoCommand()), here(a.localCommand()), here(a.aiStubCommand())},
		"work":   {a.membersCommand(), a.notesCommand(), a.runCommand(), a.tilCommand(), a.cancelCommand()},
		"look":   {a.jobsCommand(), a.watchCommand(), a.pointsCommand(), here(a.auditCommand()), here(a.versionCommand())},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	return root
}

// chooseEndpoint reads --endpoint and --region.
func (a *app) chooseEndpoint(cmd *cobra.Command, address string) (err error) {
	if !cmd.Flags().Changed("endpoint") {
		if a.region != "" {
			return misuse("--region wants --endpoint")
		}
		return nil
	}
	if cmd.Annotations[hereOnly] != "" {
		return misuse("%s works on this machine only and takes no --endpoint", cmd.CommandPath())
	}
	a.endpoint, err = parseEndpoint(address)
	return err
}

// hereOnly annotates a command that has nothing to do with an API.
const hereOnly = "here only"

// here marks a command as one that works on this machine only.
func here(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{hereOnly: "true"}
	return c
}

// does is the RunE of a command whose arguments have been accepted.
func (a *app) does(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.began = true
		return f(request.With(cmd.Context(), request.Caller{ARN: operator()}, ""), args)
	}
}

// wantsSubcommand is the RunE of a command that does nothing by itself.
func wantsSubcommand(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	got := "nothing"
	if len(args) > 0 {
		got = strconv.Quote(args[0])
	}
	return misuse("%s: want one of %s, got %s", cmd.Name(), strings.Join(names, ", "), got)
}

// print writes a result: v as JSON on one line, or what text writes.
func (a *app) print(v any, text func(w io.Writer)) error {
	if !a.json {
		text(a.stdout)
		return nil
	}
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// note tells something on stderr, in one line.
func (a *app) note(format string, args ...any) { fmt.Fprintln(a.stderr, fmt.Sprintf(format, args...)) }
