package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hanbeon/pkg/api"
)

const (
	leastPause  = time.Second     // between two looks, whatever the API says
	retryPause  = 2 * time.Second // after an answer that did not come
	followTries = 10              // looks in a row that may fail in a way that passes
)

// follow looks at a job until it is over, as often as the API says is worth while, and shows how far it has come. Nothing that it does changes the job.
func (a *app) follow(ctx context.Context, t *target, id string) (j api.Job, err error) {
	p := a.progress(id)
	defer p.end()
	etag, told := "", ""
	for failed := 0; ; {
		answer, err := t.Job(ctx, id, etag)
		pause := max(answer.RetryAfter, leastPause)
		switch {
		case err == nil && !answer.NotModified:
			failed, j, etag = 0, answer.Job, answer.ETag
			if now := a.tell(p, j, told); now != told {
				told = now
			}
			if !j.Active() {
				return j, nil
			}
		case err == nil:
			failed = 0
		case ctx.Err() != nil:
			return j, ctx.Err()
		case passes(err) && failed < followTries:
			if failed++; failed == 1 {
				a.note("%s: %v; asking again", id, oneLine(t.explain(err)))
			}
			pause = max(retryAfter(err), retryPause)
		default:
			return j, t.explainJob(err, id)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return j, ctx.Err()
		case <-timer.C:
		}
	}
}

// tell shows a job that has changed: a bar or lines of what is settled, and for a job without subjects a line when state or attempt change. It returns what it told.
func (a *app) tell(p *progress, j api.Job, told string) string {
	if !single(j) {
		total := int64(0)
		if j.Total != nil {
			total = *j.Total
		}
		p.set(j.Applied+j.Already+j.Failed, total)
		return told
	}
	now := fmt.Sprintf("%s: %s, %s", j.ID, j.State, progressOf(j))
	if now != told && j.Active() {
		a.note("%s", now)
	}
	return now
}

// passes tells whether the same question may be answered later.
func passes(err error) bool {
	var e *api.Error
	return !errors.As(err, &e) || e.Status >= http.StatusInternalServerError || e.Status == http.StatusTooManyRequests
}

func retryAfter(err error) time.Duration {
	var e *api.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
