package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"hanbeon/pkg/api/request"
)

// answer is an http.ResponseWriter that keeps what was written, so that a panic half-way is still answered as a whole.
type answer struct {
	header http.Header
	status int // 0 until written
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*answer)(nil)

func newAnswer() *answer { return &answer{header: http.Header{}} }

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// problem answers with problem details.
func (a *answer) problem(r *http.Request, e *Error) {
	e = forRequest(r.Context(), e)
	for name, values := range e.GetHeaders() {
		a.header[name] = values
	}
	a.header.Set("Content-Type", problemJSON)
	a.WriteHeader(e.Status)
	_ = json.NewEncoder(a).Encode(e) // into memory, of texts and numbers
}

// forRequest is the error as it is answered to one request.
func forRequest(ctx context.Context, e *Error) *Error {
	out := *e
	out.RequestID = request.ID(ctx)
	return &out
}

// send writes the whole answer.
func (a *answer) send(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	if a.status == http.StatusNotModified {
		w.Header().Del("Content-Type") // there is no content
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(a.status)
	if a.status != http.StatusNotModified && a.body.Len() > 0 {
		_, _ = w.Write(a.body.Bytes()) // whoever asked is gone
	}
}

func contextWithLine(ctx context.Context, l *line) context.Context {
	return context.WithValue(ctx, lineKey{}, l)
}
