package main_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	main "hanbeon/cmd/hanbeon"
	"hanbeon/pkg/api"
)

// looks is a service that answers each look at a job by the next of a list.
type looks struct {
	api.Service
	begun   time.Time
	answers []func(etag string) (api.JobAnswer, error)
	at      []string // when each look came, in seconds, and with which ETag
}

func (l *looks) Job(_ context.Context, _, etag string) (api.JobAnswer, error) {
	l.at = append(l.at, fmt.Sprintf("%.0f%s", time.Since(l.begun).Seconds(), etag))
	next := l.answers[0]
	l.answers = l.answers[1:]
	return next(etag)
}

func is(state string, retry time.Duration, change func(*api.Job)) func(string) (api.JobAnswer, error) {
	return func(string) (api.JobAnswer, error) {
		j := api.Job{ID: "til-X", Kind: "til", Slot: "til:m-1:2024-04-15", State: state, MaxAttempts: 3}
		if change != nil {
			change(&j)
		}
		return api.JobAnswer{Job: j, ETag: "/" + state + fmt.Sprint(j.Attempt), RetryAfter: retry}, nil
	}
}

func unchanged(retry time.Duration) func(string) (api.JobAnswer, error) {
	return func(etag string) (api.JobAnswer, error) {
		return api.JobAnswer{ETag: etag, NotModified: true, RetryAfter: retry}, nil
	}
}

func fails(err error) func(string) (api.JobAnswer, error) {
	return func(string) (api.JobAnswer, error) { return api.JobAnswer{}, err }
}

// Following a job asks as often as the API says is worth while, with the ETag of what it knows, and outlives answers that do not come.
func TestFollowAsksAsOftenAsTheAPISays(t *testing.T) {
	t.Parallel()
	first := func(j *api.Job) { j.Attempt = 1 }
	busy := &api.Error{Status: 503, Title: "Service Unavailable", RetryAfter: 7 * time.Second}
	for _, c := range []struct {
		name    string
		answers []func(string) (api.JobAnswer, error)
		at      string
		told    []string // lines, by a part of each
		wrong   string
	}{
		{"to the end", []func(string) (api.JobAnswer, error){
			is("PENDING", time.Second, nil), unchanged(3 * time.Second), is("RUNNING", 5*time.Second, first), unchanged(5 * time.Second), is("COMPLETED", 0, first),
		}, "0 1/PENDING0 4/PENDING0 9/RUNNING1 14/RUNNING1", []string{"til-X: PENDING, attempt 0 of 3", "til-X: RUNNING, attempt 1 of 3"}, ""},
		{"over at once", []func(string) (api.JobAnswer, error){is("FAILED", 0, nil)}, "0", nil, ""},
		{"without a Retry-After", []func(string) (api.JobAnswer, error){is("PENDING", 0, nil), is("CANCELLED", 0, nil)}, "0 1/PENDING0", []string{"PENDING"}, ""},
		{"answers that do not come", []func(string) (api.JobAnswer, error){
			is("PENDING", time.Second, nil), fails(errors.New("connection reset")), fails(busy), unchanged(time.Second), fails(busy), is("COMPLETED", 0, nil),
		}, "0 1/PENDING0 3/PENDING0 10/PENDING0 11/PENDING0 18/PENDING0", []string{"PENDING", "no answer from https://api.example: connection reset", "503"}, ""},
		{"it is gone", []func(string) (api.JobAnswer, error){fails(&api.Error{Status: 404, Title: "Not Found"})}, "0", nil, "no such job: til-X in https://api.example: see hanbeon jobs"},
		{"not allowed", []func(string) (api.JobAnswer, error){fails(&api.Error{Status: 403, Title: "Forbidden"})}, "0", nil, "refuses the key"},
		{"nobody is there", slices.Repeat([]func(string) (api.JobAnswer, error){fails(errors.New("connection refused"))}, 11),
			"0 2 4 6 8 10 12 14 16 18 20", []string{"asking again"}, "no answer from https://api.example: connection refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &looks{begun: time.Now(), answers: c.answers}
				var stderr strings.Builder
				_, err := main.Follow(t.Context(), l, &stderr, "til-X")
				if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v, want one with %q", err, c.wrong)
				}
				if got := strings.Join(l.at, " "); got != c.at {
					t.Errorf("asked at %s, want %s", got, c.at)
				}
				lines := strings.FieldsFunc(stderr.String(), func(r rune) bool { return r == '\n' })
				ok := len(lines) == len(c.told)
				for i := range c.told {
					ok = ok && strings.Contains(lines[i], c.told[i])
				}
				if !ok {
					t.Errorf("told %q, want %q", lines, c.told)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l := &looks{begun: time.Now(), answers: []func(string) (api.JobAnswer, error){is("PENDING", 30*time.Second, nil)}}
		if _, err := main.Follow(ctx, l, &strings.Builder{}, "til-X"); !errors.Is(err, context.DeadlineExceeded) || time.Since(l.begun) != 10*time.Second {
			t.Errorf("interrupted: %v after %v, want the end of the context at once", err, time.Since(l.begun))
		}
	})
}

// A bulk job shows lines of what is settled, where there is no terminal.
func TestFollowShowsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		total := int64(1000)
		bulk := func(state string, done int64) func(string) (api.JobAnswer, error) {
			return func(string) (api.JobAnswer, error) {
				return api.JobAnswer{Job: api.Job{ID: "p", Kind: "monthly-point", State: state, Total: &total, Applied: done}, RetryAfter: time.Second}, nil
			}
		}
		l := &looks{begun: time.Now(), answers: []func(string) (api.JobAnswer, error){bulk("RUNNING", 100), bulk("RUNNING", 250), bulk("RUNNING", 290), bulk("COMPLETED", 1000)}}
		var stderr strings.Builder
		j, err := main.Follow(t.Context(), l, &stderr, "p")
		if want := "p: 20 % (250 of 1,000)\np: 100 % (1,000 of 1,000)\n"; err != nil || stderr.String() != want || j.Applied != 1000 {
			t.Errorf("got %q, %+v, %v; want %q", stderr.String(), j, err, want)
		}
	})
}
