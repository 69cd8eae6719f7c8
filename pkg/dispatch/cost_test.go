package dispatch_test

import (
	"fmt"
	"testing"

	"hanbeon/pkg/job"
	"hanbeon/pkg/store"
)

// Prices in Seoul, on demand, in USD.
const (
	writeUnitPrice  = 0.68 / 1e6
	readUnitPrice   = 0.1355 / 1e6
	sqsRequestPrice = 0.40 / 1e6
)

func money(u store.Units, requests int) float64 {
	return u.Write*writeUnitPrice + u.Read*readUnitPrice + float64(requests)*sqsRequestPrice
}

// What a run of 10,000 members costs with full batches, opening, manifest, tally and close included; and what running it again costs, which writes nobody's entry.
func TestCost(t *testing.T) {
	t.Parallel()
	const members = 10_000
	for _, test := range []struct {
		name, id string
		most     float64 // write units per grant
	}{
		{"ids of 16 bytes", "member-%09d", 4.10},
		{"UUIDs", "00000000-0000-4000-8000-%012d", 4.20},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := make([]string, members)
			for i := range all {
				all[i] = fmt.Sprintf(test.id, i)
			}
			w.addMembers(all...)

			// Each message costs three requests, shared by ten: send, receive, delete.
			run := func(open func()) (store.Units, int) {
				spent, requests := w.store.Meter().Spent(), w.box.requests
				open()
				w.drain()
				return w.store.Meter().Spent().Since(spent), 3 * (w.box.requests - requests)
			}
			first, requests := run(w.fire)
			j := w.only()
			equal(t, "state, applied", fmt.Sprintf("%s %d", j.State, j.Applied), "COMPLETED 10000")
			perGrant, requestsPerGrant := first.Write/members, float64(requests)/members
			t.Logf("%.4f write units, %.3f read units and %.3f requests per grant, %.2f USD per million", perGrant, first.Read/members, requestsPerGrant, money(first, requests)/members*1e6)
			if perGrant > test.most || perGrant < 4 {
				t.Errorf("%.4f write units per grant, want 4 to %.2f", perGrant, test.most)
			}
			if requestsPerGrant > 0.35 {
				t.Errorf("%.3f requests per grant, want at most 0.35", requestsPerGrant)
			}

			again, requestsAgain := run(func() {
				if _, err := w.again(100); err != nil {
					t.Fatal(err)
				}
			})
			share := money(again, requestsAgain) / money(first, requests)
			t.Logf("run again: %.0f write units, %.0f read units, %d requests, %.2f %% of the first run", again.Write, again.Read, requestsAgain, 100*share)
			if share > 0.05 {
				t.Errorf("the second run costs %.2f %% of the first, want at most 5 %%", 100*share)
			}
			for _, j := range w.list() {
				equal(t, "state", j.State, job.Completed)
			}
		})
	}
}
