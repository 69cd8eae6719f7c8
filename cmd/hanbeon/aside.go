package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"hanbeon/pkg/store"
)

// aside is a store for looks that are no part of what they look at. It counts what they cost, by the rules of the meter, so that it can be taken off the bill.
type aside struct {
	store.Store
	looks store.Meter
}

// Get is store.Store's.
func (a *aside) Get(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	items, err := a.Store.Get(ctx, keys...)
	for _, it := range items {
		a.looks.AddRead(store.ReadHalves(store.Size(it.Key, it.Attrs), false))
	}
	return items, err
}

// Query is store.Store's.
func (a *aside) Query(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := a.Store.Query(ctx, q)
	if err == nil {
		bytes := 0
		for _, it := range page.Items {
			bytes += store.Size(it.Key, it.Attrs)
		}
		a.looks.AddRead(store.ReadHalves(bytes, false))
	}
	return page, err
}

// lastError is a log handler that keeps the last error: the reason to tell when something ends badly.
type lastError struct {
	mu   sync.Mutex
	text string
}

func (l *lastError) logger() *slog.Logger { return slog.New(l) }

// Enabled is slog.Handler's.
func (l *lastError) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle is slog.Handler's.
func (l *lastError) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" {
			text += fmt.Sprintf(": %v", a.Value.Any())
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = text
	return nil
}

// WithAttrs is slog.Handler's; the attributes of a logger say where, and the message is enough.
func (l *lastError) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup is slog.Handler's.
func (l *lastError) WithGroup(string) slog.Handler { return l }

func (l *lastError) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return "no error was logged"
	}
	return "last error: " + l.text
}
