// Command invoke runs one function of the stack on this machine: the real binary, under the AWS Lambda runtime interface emulator, on one event, against a local DynamoDB and stand-ins of what else it calls.
// No Docker, no account, no network.
//
//	go run ./testdata/invoke -function til -event events/til.json     what `make invoke` does
//	go run ./testdata/invoke -serve 127.0.0.1:4566                    only the services, until Ctrl-C, for `sam local invoke`
//
// The answer of the function is the standard output; its log, and what it sent to queues, go to standard error. The exit code is 1 when the function failed: an error, a timeout, a crash, messages handed back, or a 5xx.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "invoke:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	name := flag.String("function", "", "`name` of the function, as in functions/")
	event := flag.String("event", "", "`file` with the event (default events/<function>.json)")
	serve := flag.String("serve", "", "`address` to serve DynamoDB and the stand-ins at, instead of invoking")
	flag.Parse()
	switch {
	case flag.NArg() > 0 || (*name == "") == (*serve == ""):
		return errors.New("want -function NAME [-event FILE], or -serve ADDRESS")
	case *serve != "":
		return serveOnly(ctx, *serve)
	case *event == "":
		*event = filepath.Join("events", *name+".json")
	}
	f, err := functionOf(*name)
	if err != nil {
		return err
	}
	payload, err := os.ReadFile(*event)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hanbeon-invoke-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "bootstrap")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-buildvcs=false", "-o", binary, "./functions/"+f.name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("go build ./functions/%s: %w", f.name, err)
	}

	w, err := startWorld(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer w.stop()
	if err := w.seed(ctx, payload); err != nil {
		return err
	}
	w.log("%s at %s, on %s", f.name, w.address, *event)
	answer, status, err := underEmulator(ctx, binary, w.environment(f), payload)
	if err != nil {
		return err
	}
	fmt.Println(string(bytes.TrimSpace(answer)))
	return verdict(answer, status)
}

// verdict tells whether the function failed. The emulator answers 200 for an error of the handler and for a timeout; only the body tells.
func verdict(answer []byte, status int) error {
	var a struct {
		ErrorMessage *string           `json:"errorMessage"`
		ErrorType    string            `json:"errorType"`
		HandedBack   []json.RawMessage `json:"batchItemFailures"`
		StatusCode   int               `json:"statusCode"`
	}
	switch err := json.Unmarshal(answer, &a); {
	case status != http.StatusOK:
		return fmt.Errorf("the function crashed (%d of the emulator)", status)
	case err != nil && !isOtherJSON(answer):
		return fmt.Errorf("the answer is no JSON: %.200s", answer)
	case a.ErrorMessage != nil:
		return fmt.Errorf("the function failed: %s: %s", a.ErrorType, *a.ErrorMessage)
	case len(a.HandedBack) > 0:
		return fmt.Errorf("%d messages handed back", len(a.HandedBack))
	case a.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("status %d", a.StatusCode)
	}
	return nil
}

// isOtherJSON is true for an answer that is JSON and no object, such as null.
func isOtherJSON(answer []byte) bool {
	answer = bytes.TrimSpace(answer)
	return json.Valid(answer) && answer[0] != '{'
}

// serveOnly is what `sam local invoke` wants beside it: tables and what all samples speak of.
func serveOnly(ctx context.Context, address string) error {
	w, err := startWorld(ctx, address)
	if err != nil {
		return err
	}
	defer w.stop()
	samples, err := filepath.Glob("events/*.json")
	if err != nil {
		return err
	}
	for _, file := range samples {
		if filepath.Base(file) == "env.json" {
			continue
		}
		payload, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := w.seed(ctx, payload); err != nil {
			return err
		}
	}
	w.log("DynamoDB, SQS, Secrets Manager and an AI server at %s, until Ctrl-C; events/env.json is the environment of the functions", w.address)
	<-ctx.Done()
	return nil
}
