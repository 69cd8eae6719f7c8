package local_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hanbeon/pkg/api"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
)

// POST /v1/til-generations under 50 callers, who want each target five times: over HTTP, signed, through gateway and adapter, on the embedded store with fsync off. Exactly one of the five
// is answered 202, whatever the order. p99-of-bare is the 99th percentile of an answer in multiples of one bare opening transaction on the same kind of store, median of a hundred with nobody else there.
func BenchmarkTILRequests(b *testing.B) {
	const callers, wanted = 50, 5
	g := gate{open: make(chan struct{}), text: "what was learned"}
	members := max(1, b.N/wanted)
	l := startLaptop(b, g, members, "a note")
	bare := bareOpening(b)

	took := make([]time.Duration, members*wanted)
	opened := make([]atomic.Int32, members)
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(took); n = int(next.Add(1)) - 1 {
				begun := time.Now()
				_, err := l.client.RequestTIL(b.Context(), api.RequestTIL{MemberID: member(n / wanted), Date: day})
				took[n] = time.Since(begun)
				var e *api.Error
				switch {
				case err == nil:
					opened[n/wanted].Add(1)
				case !errors.As(err, &e) || e.Status != http.StatusConflict:
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	for i := range opened {
		if n := opened[i].Load(); n != 1 {
			b.Errorf("target %d was opened %d times, want once", i, n)
		}
	}
	slots, err := job.NewStore(l.store, time.Now).Slots(b.Context())
	if err != nil || len(slots) != members {
		b.Errorf("%d slots held, %v; want %d", len(slots), err, members)
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	b.ReportMetric(float64(p99.Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(p99)/float64(bare), "p99-of-bare")
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "requests/s")
	close(g.open)
}

// bareOpening is how long one opening transaction of a til job takes.
func bareOpening(b *testing.B) time.Duration {
	s := openStore(b)
	addMembers(b, s, 1)
	now := func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }
	jobs := job.NewStore(s, now)
	kind := til.New(s, time.UTC, nil)
	took := make([]time.Duration, 100)
	for i := range took {
		opening, err := kind.Opening(fmt.Sprint("m-", i), day)
		if err != nil {
			b.Fatal(err)
		}
		r := job.Request{Opening: opening, ID: job.NewID(til.Name, now())}
		begun := time.Now()
		if _, _, err := jobs.Open(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[len(took)/2]
}
