package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/ai/aistub"
)

// aiFlags say which AI server is asked; none of them: the built-in stub.
type aiFlags struct{ url, model, keyFile string }

func (f *aiFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.url, "ai-url", "", "`URL` of an AI server that speaks the OpenAI chat completions protocol, up to where /chat/completions follows (default: the built-in stub)")
	c.Flags().StringVar(&f.model, "ai-model", "", "`name` of the model, as the AI server calls it")
	c.Flags().StringVar(&f.keyFile, "ai-key-file", "", "`file` with the key of the AI server; it is read again when the key is not accepted")
}

// check refuses what cannot be asked, before anything is opened.
func (f aiFlags) check() error {
	if f.url == "" {
		if f.model != "" || f.keyFile != "" {
			return misuse("--ai-model and --ai-key-file want --ai-url")
		}
		return nil
	}
	if f.model == "" {
		return misuse("--ai-url wants --ai-model: the name of the model, as the AI server calls it")
	}
	if _, err := ai.New(ai.Config{BaseURL: f.url, Model: f.model}); err != nil {
		return misuse("--ai-url, --ai-model: %w", err)
	}
	if f.keyFile != "" {
		if _, err := os.ReadFile(f.keyFile); err != nil {
			return fmt.Errorf("--ai-key-file: %w", err)
		}
	}
	return nil
}

// stubModel is what the built-in stub is asked for; it takes any.
const stubModel = "stub"

// model is the client of the AI server, and where that is. stop ends the stub, if it is that.
func (f aiFlags) open(log *slog.Logger) (model *ai.Client, where string, stop func(), err error) {
	c := ai.Config{BaseURL: f.url, Model: f.model, Log: log}
	stop = func() {}
	if f.url == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", nil, fmt.Errorf("listen for the stub of an AI server: %w", err)
		}
		c.BaseURL, c.Model = "http://"+l.Addr().String()+"/v1", stubModel
		stop = serveStub(l, aistub.Behaviour{})
	}
	if f.keyFile != "" {
		c.Key = func(context.Context, bool) (string, error) {
			key, err := os.ReadFile(f.keyFile)
			return string(key), err
		}
	}
	if model, err = ai.New(c); err != nil {
		stop()
		return nil, "", nil, err
	}
	return model, c.BaseURL, stop, nil
}

// serveStub serves a stub until stop.
func serveStub(l net.Listener, b aistub.Behaviour) (stop func()) {
	s := &http.Server{Handler: aistub.New(b), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l) // always ends with ErrServerClosed, or with the listener
	}()
	return func() {
		_ = s.Close() // calls that hang on purpose would never end by themselves
		<-done
	}
}

func (a *app) aiStubCommand() *cobra.Command {
	var b aistub.Behaviour
	listen := ""
	c := &cobra.Command{
		Use:   "ai-stub",
		Short: "Run an AI server without a model, that fails on demand, until it is interrupted",
		Long: `Serves the OpenAI chat completions protocol on this machine. The same question has the same answer for ever, made of the words of the question; no key is asked for. The switches make it
slow, busy, broken or silent: at most one of --status, --hang, --garbage, --truncated and --fenced, for ever or for the first calls only.

hanbeon local starts one by itself; this is for hanbeon local --ai-url, make invoke and your own programs.`,
		Example: `  hanbeon ai-stub --listen 127.0.0.1:8788 --latency 2s
  hanbeon ai-stub --status 429 --retry-after 5s --fail-first 3
  hanbeon local --ai-url http://127.0.0.1:8788/v1 --ai-model stub`,
		Args: cobra.NoArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error {
			if err := b.Check(); err != nil {
				return misuse("%w", err)
			}
			l, err := listenOn(listen)
			if err != nil {
				return err
			}
			stop := serveStub(l, b)
			defer stop()
			url := "http://" + l.Addr().String() + "/v1"
			if err := a.print(map[string]string{"event": "serving", "url": url}, func(w io.Writer) { fmt.Fprintf(w, "AI stub at %s\n", url) }); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}),
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8788", "`address` on this machine; port 0 takes a free one")
	c.Flags().DurationVar(&b.Latency, "latency", 0, "`time` before every answer, such as 2s")
	c.Flags().IntVar(&b.Status, "status", 0, "fail with this `status`, 400 to 599")
	c.Flags().DurationVar(&b.RetryAfter, "retry-after", 0, "with --status: `time` for the Retry-After header, in whole seconds")
	c.Flags().BoolVar(&b.Hang, "hang", false, "never answer")
	c.Flags().BoolVar(&b.Garbage, "garbage", false, "answer 200 with a page of HTML")
	c.Flags().BoolVar(&b.Truncated, "truncated", false, "cut the answer off in the middle")
	c.Flags().BoolVar(&b.Fenced, "fenced", false, "answer with a fenced block of Markdown")
	c.Flags().IntVar(&b.FailFirst, "fail-first", 0, "only the first `number` of calls fail; without another switch, with 500")
	return c
}

// listenOn listens on this machine and nowhere else.
func listenOn(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" || !isLoopback(host) {
		return nil, misuse("--listen %.60q: want an address of this machine such as 127.0.0.1:8787; it is never served to others", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err // without the address a second time
		}
		return nil, fmt.Errorf("--listen %s: %w: choose another, or 127.0.0.1:0 for any", address, err)
	}
	return l, nil
}
