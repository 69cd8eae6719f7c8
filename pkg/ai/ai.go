package ai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"hanbeon/pkg/job"
)

// The reason codes of errors, see the package comment.
const (
	ReasonTimeout      = "ai-timeout"
	ReasonUnreachable  = "ai-unreachable"
	ReasonBusy         = "ai-busy"
	ReasonError        = "ai-error"
	ReasonBadAnswer    = "ai-bad-answer"
	ReasonRefused      = "ai-refused"
	ReasonUnauthorised = "ai-unauthorised"
	ReasonBreakerOpen  = "ai-breaker-open"
)

// DefaultTimeout is the deadline of a whole request where the configuration names none. The function of a kind that calls an AI server has 150 s.
const DefaultTimeout = 120 * time.Second

// Config says which server is asked, and how.
type Config struct {
	BaseURL string // http or https, up to where /chat/completions is added: `https://api.openai.com/v1`, `http://localhost:11434/v1`; a slash at the end does not matter
	Model   string // the name that the server knows it by

	// Key returns the key that is sent as bearer token, nil where the server wants none. It is asked before every call and may keep what it once fetched, except with refresh, which comes after the server did not accept
	// the key and at most once a minute. Space around the key is dropped. An error of Key becomes part of the error of the call: it must not hold the key.
	Key func(ctx context.Context, refresh bool) (string, error)

	Timeout   time.Duration     // of a whole call; 0 is DefaultTimeout. A deadline of the context that is earlier wins
	Transport http.RoundTripper // nil: a new connection for each call, through the proxy of the environment if there is one
	Now       func() time.Time  // nil: time.Now
	Log       *slog.Logger      // nil: none
}

// Client asks one AI server. It is safe for concurrent use. Its breaker and the minute between two fetches of the key are its own: a process has one client per server.
type Client struct {
	base    string
	model   string
	timeout time.Duration
	http    *http.Client
	keys    *keyring
	breaker breaker
	now     func() time.Time
	log     *slog.Logger
}

// New makes a client. The error names every setting that is wrong, and never holds a value.
func New(cfg Config) (*Client, error) {
	var wrong []error
	base, err := baseURL(cfg.BaseURL)
	wrong = append(wrong, err)
	if strings.TrimSpace(cfg.Model) == "" {
		wrong = append(wrong, errors.New("model: missing"))
	}
	if cfg.Timeout < 0 {
		wrong = append(wrong, errors.New("timeout: negative"))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("AI server: %w", err)
	}
	c := &Client{base: base, model: cfg.Model, timeout: cfg.Timeout, now: cfg.Now, log: cfg.Log}
	if c.timeout == 0 {
		c.timeout = DefaultTimeout
	}
	if c.now == nil {
		c.now = time.Now
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.keys = newKeyring(cfg.Key, c.now)
	c.http = &http.Client{Transport: cfg.Transport, CheckRedirect: sameServer}
	if cfg.Transport == nil {
		c.http.Transport = freshConnections()
	}
	return c, nil
}

// baseURL checks the address and returns it without a slash at the end.
func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return "", errors.New("base URL: missing")
	case err != nil, strings.Contains(s, " "): // err quotes the URL, which may hold a password
		return "", errors.New("base URL: not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("base URL: must begin with http:// or https://")
	case u.Hostname() == "":
		return "", errors.New("base URL: has no host")
	case u.User != nil:
		return "", errors.New("base URL: has a user or password in it, the key belongs elsewhere")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(s, "#"):
		return "", errors.New("base URL: has a query or fragment")
	}
	base := strings.TrimRight(u.String(), "/")
	if strings.HasSuffix(base, "/chat/completions") {
		return "", errors.New("base URL: ends in /chat/completions, which the client adds itself")
	}
	return base, nil
}

// Complete asks the model to answer the user's text under the instructions of system ("" for none), as JSON of the given schema, and returns the content of the first choice. name is what the protocol wants to call
// the schema by: letters, digits, _ and -, at most 64.
//
// An error is made by job.Later or job.Permanent with one of the reasons of this package, or is the cause of ctx's end, as it is, where the caller ended ctx. A deadline of ctx that passes is ai-timeout unless it was
// given a cause of its own.
func (c *Client) Complete(ctx context.Context, system, user, name string, schema json.RawMessage) (text string, err error) {
	if ctx.Err() != nil {
		err, _ := ended(ctx)
		return "", err
	}
	turn, wait := c.breaker.enter(c.now())
	if wait > 0 {
		return "", job.Later(ReasonBreakerOpen, wait, errors.New("not called: the AI server failed too often, or does not accept the key"))
	}
	saw := nothing
	defer func() { // deferred, so that a panic of a transport or of Key leaves nobody waiting for this call
		var later *job.LaterError
		errors.As(err, &later)
		if pause := c.breaker.leave(turn, saw, later, c.now()); pause > 0 {
			later.After = max(later.After, pause) // sooner, the next attempt would only meet the open breaker
			c.log.WarnContext(ctx, "the AI server is left alone", "reason", later.Reason, "pause", pause)
		}
	}()
	text, err = c.ask(ctx, c.request(system, user, name, schema))
	if err != nil && ctx.Err() != nil {
		var ours bool
		if err, ours = ended(ctx); ours {
			return "", err
		}
	}
	saw = verdict(err)
	return text, err
}

// Wait is how long no call should be begun, since the server failed too often, does not accept the key, or said when to come back; 0: one may.
func (c *Client) Wait() time.Duration { return c.breaker.wait(c.now()) }

// ended is the error of a call whose context is over. ours says that it was ended by the caller, so nothing is known of the server.
func ended(ctx context.Context) (err error, ours bool) {
	if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
		return cause, true
	}
	return job.Later(ReasonTimeout, 0, fmt.Errorf("no answer of the AI server before the caller's time was up: %w", context.DeadlineExceeded)), false
}

// ask makes the call, and a second one if the first met a key that is not accepted and there is a fresh one.
func (c *Client) ask(ctx context.Context, q openai.ChatCompletionRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	key, err := c.keys.current(ctx)
	if err != nil {
		return "", err
	}
	text, err := c.call(ctx, key, q)
	if verdict(err) != locked {
		return text, err
	}
	fresh, again, failed := c.keys.renew(ctx, key)
	switch {
	case failed != nil:
		return "", failed
	case !again:
		return "", err
	}
	c.log.InfoContext(ctx, "the AI server did not accept the key, trying once more with the key as it is now")
	return c.call(ctx, fresh, q)
}

func (c *Client) request(system, user, name string, schema json.RawMessage) openai.ChatCompletionRequest {
	q := openai.ChatCompletionRequest{
		Model: c.model,
		ResponseFormat: &openai.ChatCompletionResponseFormat{
			Type:       openai.ChatCompletionResponseFormatTypeJSONSchema,
			JSONSchema: &openai.ChatCompletionResponseFormatJSONSchema{Name: name, Schema: schema, Strict: true},
		},
	}
	if system != "" {
		q.Messages = append(q.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem, Content: system})
	}
	q.Messages = append(q.Messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: user})
	return q
}

// call makes one request. The library under it knows the protocol; the exchange between them sees to deadline, size and status, since the library's own errors quote the answer.
func (c *Client) call(ctx context.Context, key string, q openai.ChatCompletionRequest) (string, error) {
	if c.keys.wanted() && !legal(key) {
		return "", job.Later(ReasonUnauthorised, 0, errors.New("the key is empty or has a character that a header cannot hold"))
	}
	begun := c.now()
	x := &exchange{http: c.http, now: c.now}
	cfg := openai.DefaultConfig(key)
	cfg.BaseURL, cfg.HTTPClient = c.base, x
	answer, err := openai.NewClientWithConfig(cfg).CreateChatCompletion(ctx, q)
	c.log.DebugContext(ctx, "AI call", "status", x.status, "bytes", x.bytes, "took", c.now().Sub(begun),
		"promptTokens", answer.Usage.PromptTokens, "completionTokens", answer.Usage.CompletionTokens)
	var later *job.LaterError
	switch {
	case err == nil:
		return content(answer)
	case x.status >= http.StatusBadRequest: // whatever became of the body
		return "", byStatus(x.status, x.after, codes(err, key, q))
	case ctx.Err() != nil:
		return "", job.Later(ReasonTimeout, 0, fmt.Errorf("no complete answer of the AI server within %s: %w", c.timeout, context.DeadlineExceeded))
	case errors.As(err, &later):
		return "", later
	case !x.begun:
		return "", job.Permanent(ReasonRefused, errors.New("not called: the client library makes no request of this model and schema"))
	}
	return "", bad("its body is not an answer of the protocol")
}
