package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"hanbeon/pkg/api/request"
	"hanbeon/pkg/job"
)

// New makes the handler of the API. It answers every request itself, also for unknown paths and methods and after a panic, with problem details (RFC
// 9457) where it is no success; every answer has the id of the request in X-Request-Id, and every request one line in the log.
//
// It authenticates nobody: put it behind a gateway that does (hanbeon/pkg/api/gateway) or a verifier (hanbeon/pkg/api/sigv4).
func New(env job.Env, zone *time.Location) http.Handler {
	return newHandler(env, NewService(env, zone))
}

func newHandler(env job.Env, s Service) http.Handler {
	mux, _ := routes(s)
	return &handler{mux, env}
}

type handler struct {
	mux *http.ServeMux
	env job.Env
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	var l line
	ctx := r.Context()
	if request.ID(ctx) == "" {
		ctx = request.With(ctx, request.From(ctx), request.NewID())
	}
	r = r.WithContext(contextWithLine(ctx, &l))
	a := h.answer(r)
	w.Header().Set(request.IDHeader, request.ID(ctx))
	a.send(w)
	l.write(h.env.Log, r, a.status, time.Since(begun))
}

// answer serves the request; what it returns is complete.
func (h *handler) answer(r *http.Request) (a *answer) {
	defer func() {
		if p := recover(); p != nil {
			logCause(r.Context(), fmt.Errorf("panic: %s\n%s", describe(p), debug.Stack()))
			a = newAnswer()
			a.problem(r, problem(http.StatusInternalServerError, ""))
		}
	}()
	a = newAnswer()
	if e := h.prepare(r); e != nil {
		a.problem(r, e)
		return a
	}
	h.mux.ServeHTTP(a, r)
	a.WriteHeader(http.StatusOK) // unless it has
	return a
}

// describe says what a panic was about without quoting what came in: only the runtime's own errors (nil pointer, index out of range) are free of it.
func describe(p any) string {
	if err, ok := p.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", p)
}

// prepare refuses what no route takes, and reads the body.
func (h *handler) prepare(r *http.Request) *Error {
	// ServeMux would redirect to a path without dots and double slashes: those that sign requests do not follow, and no link of ours has any.
	if p := r.URL.EscapedPath(); p == "" || path.Clean(p) != p {
		return noSuchPath()
	}
	next, pattern := h.mux.Handler(r)
	if pattern == "" {
		// The text of this answer is not ours; whether it is 404 or 405, and with which methods, only ServeMux knows.
		refused := newAnswer()
		next.ServeHTTP(refused, r)
		if refused.status != http.StatusMethodNotAllowed {
			return noSuchPath()
		}
		e := problem(http.StatusMethodNotAllowed, "this path has other methods: see Allow")
		e.allow = refused.header.Get("Allow")
		return e
	}
	r.Pattern = pattern                                    // for the log, should it go no further
	r.Header.Del("Accept")                                 // there is one form of answer
	if v := r.Header.Values("If-None-Match"); len(v) > 1 { // one list may come in parts
		r.Header.Set("If-None-Match", strings.Join(v, ", "))
	}
	return readBody(r)
}

func noSuchPath() *Error {
	return problem(http.StatusNotFound, "there is nothing at this path")
}

// readBody replaces the body by what is in memory, so that whatever goes wrong with the connection is told here.
func readBody(r *http.Request) *Error {
	if r.Body == nil || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, request.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, "", FieldError{"body", fmt.Sprintf("has more than %d bytes", request.MaxBody)})
	case err != nil:
		return badBody("did not come whole")
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return nil
}
