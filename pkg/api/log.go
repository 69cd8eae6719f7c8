package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"hanbeon/pkg/api/request"
)

// line collects what the log says of a request when it is over. One goroutine serves a request.
type line struct {
	job   string
	cause error
}

type lineKey struct{}

// logJob makes the line of the request name a job.
func logJob(ctx context.Context, id string) {
	if l, ok := ctx.Value(lineKey{}).(*line); ok {
		l.job = id
	}
}

// logCause makes the line of the request say what went wrong inside.
func logCause(ctx context.Context, err error) {
	if l, ok := ctx.Value(lineKey{}).(*line); ok {
		l.cause = err
	}
}

// write logs the request: who asked for which route, and what came of it. Never a body, a header, a query or a path as it came.
func (l *line) write(log *slog.Logger, r *http.Request, status int, took time.Duration) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", method(r.Method)), slog.String("route", r.Pattern), slog.Int("status", status), slog.Int64("ms", took.Milliseconds()),
		slog.String("caller", request.From(r.Context()).ARN), slog.String("request", request.ID(r.Context())),
	}
	if l.job != "" {
		attrs = append(attrs, slog.String("job", l.job))
	}
	if status >= http.StatusInternalServerError {
		level = slog.LevelError
		if l.cause != nil {
			attrs = append(attrs, slog.String("error", l.cause.Error()))
		}
	}
	log.LogAttrs(r.Context(), level, "request", attrs...)
}

// method is that of the request, unless it is an invention of the caller.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return m
	}
	return "other"
}
