package aiserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/cloud"
	"hanbeon/pkg/cloud/aiserver"
)

const arn = "arn:aws:secretsmanager:ap-northeast-2:123456789012:secret:ai-AbCdEf"

// world is a Secrets Manager and an AI server, and what both were asked.
type world struct {
	mu     sync.Mutex
	secret string   // the answer to GetSecretValue; one that begins with "!" is the type of an error
	accept string   // the key that the AI server accepts
	asked  []string // in order
	log    bytes.Buffer
	now    time.Time

	model cloud.Model
}

func (w *world) set(secret, accept string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secret, w.accept = secret, accept
}

// done returns what was asked since the last call.
func (w *world) done() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked = nil
	return asked
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	m, err := aiserver.New(cloud.ModelConfig{
		BaseURL: server.URL + "/v1", Name: "summariser", Secret: arn, Timeout: time.Minute,
		AWS: aws.Config{
			Region: "ap-northeast-2",
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: "s"}, nil
			}),
		},
		Secrets: &server.URL, Now: func() time.Time { return w.now },
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.model = m
	return w
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.URL.Path == "/v1/chat/completions" {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.asked = append(w.asked, "AI with "+key)
		if key != w.accept {
			rw.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(rw, `{"error":{"message":"incorrect key %s"}}`, key)
			return
		}
		fmt.Fprint(rw, `{"choices":[{"message":{"role":"assistant","content":"{}"},"finish_reason":"stop"}]}`)
		return
	}
	var in struct{ SecretID string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	w.asked = append(w.asked, r.Header.Get("X-Amz-Target")+" "+in.SecretID)
	rw.Header().Set("Content-Type", "application/x-amz-json-1.1")
	kind, failed := strings.CutPrefix(w.secret, "!")
	switch {
	case failed:
		rw.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(rw, `{"__type":%q,"message":"no"}`, kind)
	case w.secret == "binary":
		fmt.Fprint(rw, `{"SecretBinary":"c2stY2FuYXJ5"}`)
	default:
		_ = json.NewEncoder(rw).Encode(map[string]string{"SecretString": w.secret})
	}
}

func (w *world) complete(t *testing.T) error {
	t.Helper()
	_, err := w.model.Complete(t.Context(), "", "notes", "til", json.RawMessage(`{"type":"object"}`))
	return err
}

const fetched = "secretsmanager.GetSecretValue " + arn

func TestTheKeyIsFetchedAtTheFirstCallAndKept(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"plain":              "sk-1",
		"with a line break":  "sk-1\n",
		"JSON":               `{"apiKey":"sk-1"}`,
		"JSON with more":     ` {"user":{"a":1},"apiKey":"sk-1","n":2} `,
		"JSON, more of them": "{\n  \"apiKey\": \"sk-1\"\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set(secret, "sk-1")
			if got := w.done(); got != nil {
				t.Errorf("asked %q before there was a call", got)
			}
			for range 2 {
				if err := w.complete(t); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(w.done(), []string{fetched, "AI with sk-1", "AI with sk-1"}); diff != "" {
				t.Errorf("asked (-got +want):\n%s", diff)
			}
		})
	}
}

// AI-05: a key that is no longer accepted is fetched again, and the call repeated once with the new one.
func TestAKeyThatWasReplacedIsFetchedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.set("sk-1", "sk-1")
	if err := w.complete(t); err != nil {
		t.Fatal(err)
	}
	w.done()
	w.set("sk-2", "sk-2")
	if err := w.complete(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.done(), []string{"AI with sk-1", fetched, "AI with sk-2"}); diff != "" {
		t.Errorf("asked (-got +want):\n%s", diff)
	}
	if err := w.complete(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.done(), []string{"AI with sk-2"}); diff != "" {
		t.Errorf("asked afterwards (-got +want):\n%s", diff)
	}
}

// LOG-01: a secret that cannot be used is said to be one, and nothing of it is in the error or the log. Once it is mended, the next call works.
func TestSecretsThatHoldNoKey(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"no permission":    "!AccessDeniedException",
		"gone":             "!ResourceNotFoundException",
		"binary":           "binary",
		"blank":            " \n",
		"no object":        `{"apiKey":"sk-canary"`,
		"no text":          `{"apiKey":["sk-canary"]}`,
		"another name":     `{"key":"sk-canary"}`,
		"an empty text":    `{"apiKey":" ","old":"sk-canary"}`,
		"two lines of key": "sk-canary\nsk-canary",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.set(secret, "sk-1")
			err := w.complete(t)
			if err == nil || strings.Contains(err.Error(), "canary") || strings.Contains(w.log.String(), "canary") {
				t.Errorf("got %v, log %s", err, w.log.String())
			}
			if slices.ContainsFunc(w.done(), func(a string) bool { return strings.HasPrefix(a, "AI") }) {
				t.Error("the AI server was asked without a key")
			}
			w.set("sk-1", "sk-1")
			w.now = w.now.Add(time.Hour) // the breaker and the pause between two fetches
			if err := w.complete(t); err != nil {
				t.Errorf("after it was mended: %v", err)
			}
		})
	}
}

func TestSettingsThatNoClientTakes(t *testing.T) {
	t.Parallel()
	m, err := aiserver.New(cloud.ModelConfig{BaseURL: "https://ai.example.com/v1/chat/completions", Name: "m", Secret: arn})
	if err == nil || m != nil {
		t.Errorf("got %v, %v, want no model and an error", m, err)
	}
}
