package ai

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hanbeon/pkg/job"
)

// refreshPause is the least time between two fetches of the secret that are due to a key that was not accepted: Secrets Manager is paid by the call and limited.
const refreshPause = time.Minute

// keyring asks for the key.
type keyring struct {
	fetch func(ctx context.Context, refresh bool) (string, error) // nil: there is no key
	now   func() time.Time

	turn chan struct{} // of one element: whoever put it there may fetch again, and read and write last
	last time.Time     // of the latest fetch with refresh
}

func newKeyring(fetch func(context.Context, bool) (string, error), now func() time.Time) *keyring {
	return &keyring{fetch: fetch, now: now, turn: make(chan struct{}, 1)}
}

func (k *keyring) wanted() bool { return k.fetch != nil }

// current is the key to use, "" if there is none.
func (k *keyring) current(ctx context.Context) (string, error) {
	if !k.wanted() {
		return "", nil
	}
	return k.ask(ctx, false)
}

// renew is called with a key that was not accepted. again says that there is a reason to try the one it returns: it was fetched just now, or somebody else fetched another one.
func (k *keyring) renew(ctx context.Context, used string) (key string, again bool, err error) {
	if !k.wanted() {
		return "", false, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return "", false, nil
	}
	if now := k.now(); k.last.IsZero() || now.Sub(k.last) >= refreshPause {
		k.last = now
		key, err = k.ask(ctx, true)
		return key, true, err
	}
	key, err = k.ask(ctx, false)
	return key, key != used, err
}

func (k *keyring) ask(ctx context.Context, refresh bool) (string, error) {
	key, err := k.fetch(ctx, refresh)
	if err != nil {
		return "", job.Later(ReasonUnauthorised, 0, fmt.Errorf("the key of the AI server is not to be had: %w", err))
	}
	return strings.TrimSpace(key), nil
}

// legal tells whether the key can be sent: visible ASCII only. The HTTP client would refuse some others, but as an error of the network.
func legal(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
