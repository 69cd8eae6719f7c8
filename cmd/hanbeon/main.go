// Command hanbeon runs the whole system on a laptop, and operates a data file.
//
// Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 misuse (nothing was done).
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	debug.SetGCPercent(400) // a run makes much garbage and keeps little: collecting less often saves time and costs some tens of megabytes
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once, which loses nothing either
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
