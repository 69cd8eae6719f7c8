package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"hanbeon/pkg/local"
)

// Bounds of the server in front of the laptop's API. One request may take as long as the gateway waits for its function.
const (
	readTimeout     = 30 * time.Second // of a whole request
	idleTimeout     = 2 * time.Minute
	shutdownTimeout = 10 * time.Second // for requests under way
	maxHeaderBytes  = 16 << 10
)

// serving is the API of a stack on this machine, and the connection to it beside the data file.
type serving struct {
	server *http.Server
	data   string
	log    *slog.Logger
	done   chan struct{}
}

// serve serves the API of a running stack with a key made up for it, and tells how to reach it.
func (a *app) serve(l net.Listener, stack *local.Stack, ai string, log *slog.Logger) (*serving, error) {
	key := local.NewKey()
	handler, err := stack.API(key)
	if err != nil {
		return nil, err
	}
	c := newConnection("http://"+l.Addr().String(), key)
	if err := c.save(a.data); err != nil {
		return nil, err
	}
	s := &serving{data: a.data, log: log, done: make(chan struct{}), server: &http.Server{
		Handler: handler, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the API is not served any more", "error", err)
		}
	}()
	log.Info("serving", "endpoint", c.Endpoint, "region", c.Region, "accessKeyId", c.KeyID, "secretAccessKey", c.Secret, "connection", connectionPath(a.data), "ai", ai)
	return s, a.print(struct {
		Event string `json:"event"`
		connection
		AI string `json:"ai"`
	}{"serving", c, ai}, func(w io.Writer) {
		fmt.Fprintf(w, "API of %s: %s, region %s\n  access key id      %s\n  secret access key  %s\nAI server: %s\n", a.data, c.Endpoint, c.Region, c.KeyID, c.Secret, ai)
	})
}

// stop lets requests under way finish and takes no more.
func (s *serving) stop() {
	removeConnection(s.data)
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		s.log.Warn("requests were cut off", "error", err)
		s.server.Close()
	}
	<-s.done
}
