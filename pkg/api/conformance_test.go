package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hanbeon/pkg/api"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/sim"
)

// Service and client are one contract: every case runs on both, the client over a connection to the handler.
func TestServiceAndClientAreOneContract(t *testing.T) {
	t.Parallel()
	for _, side := range []struct {
		name string
		make func(*world, sim.Hook) api.Service
	}{
		{"service", func(w *world, hook sim.Hook) api.Service { return api.NewService(w.env(hook), seoul) }},
		{"client", func(w *world, hook sim.Hook) api.Service {
			srv := httptest.NewServer(door(spring, api.New(w.env(hook), seoul)))
			w.t.Cleanup(srv.Close)
			return api.NewClient(srv.URL+"/", nil)
		}},
	} {
		for _, c := range slices.Concat(contractOfWork, contractOfJobs, contractOfData) {
			t.Run(side.name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, "member-42")
				c.run(t, w, func(hook sim.Hook) api.Service { return side.make(w, hook) })
			})
		}
	}
}

// contractCase is one sentence of the contract. make makes the service on the world's store and queue, with faults from a hook.
type contractCase struct {
	name string
	run  func(t *testing.T, w *world, make func(sim.Hook) api.Service)
}

// wants checks that err is an *api.Error with this status and type that names the fields, and returns it.
func wants(t *testing.T, err error, status int, typ string, fields ...string) *api.Error {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *api.Error with status %d", err, status)
	}
	named := true
	for _, f := range fields {
		named = named && e.Field(f)
	}
	if e.Status != status || e.Type != typ || e.Title == "" || !named {
		t.Errorf("error %v of type %s, want status %d, type %s, fields %v", e, e.Type, status, typ, fields)
	}
	return e
}

func make501[T any]() []T { return make([]T, api.MaxItems+1) }

// outcomes are those of the results, with the field of an error.
func outcomes(results []api.PutResult) string {
	var out []string
	for _, r := range results {
		o := r.Outcome
		if r.Field != "" {
			o += ":" + r.Field
		}
		out = append(out, o)
	}
	return strings.Join(out, " ")
}

// publish carries out a TIL as its worker would.
func (w *world) publish(t *testing.T, id string, c til.Content) {
	t.Helper()
	j, err := w.jobs.Find(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	claim := w.claim(t, j)
	_, member, _ := strings.Cut(j.Slot, ":")
	member, date, _ := strings.Cut(member, ":")
	items := til.New(w.store, seoul, nil).Items(claim.Job(), []once.Effect{once.Put{Subject: member, Name: date, Doc: c}})
	if err := claim.Complete(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
}

// grant writes entries for a member as a worker would, for so many months, and returns their keys.
func (w *world) grant(t testing.TB, member string, months int, amount int64) (keys []string) {
	t.Helper()
	l := ledger.New(w.store, monthlypoint.Table, w.clock)
	for p := once.Period("2001-01"); len(keys) < months; p = p.Next() {
		k, err := once.NewKey(monthlypoint.Name, string(p), member)
		if err != nil {
			t.Fatal(err)
		}
		posting := once.Posting{Key: k, Effects: []once.Effect{once.Add{Subject: member, Name: monthlypoint.Balance, N: amount}}}
		if err := l.Apply(context.Background(), ledger.Cause{Job: someJob, Inputs: fmt.Sprint(amount), Scheduled: noon}, []once.Posting{posting}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.String())
	}
	return keys
}
