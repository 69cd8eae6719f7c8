package bolt_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"hanbeon/pkg/bolt"
	"hanbeon/pkg/store"
	"hanbeon/pkg/store/storetest"
)

// grants are 49 grants of one month and their tally, the full transaction of a bulk worker.
func grants(n int64) (writes []store.Write) {
	for i := range int64(49) {
		member := fmt.Sprintf("member-%d", n*49+i)
		writes = append(writes,
			store.Insert(store.Key{Table: storetest.Gold, PK: member, SK: "monthly-point:2024-04:" + member}, store.Attrs{
				"key": "monthly-point:2024-04:" + member, "state": "applied", "amount": 100, "jobId": "monthly-point-01HTEST", "at": "2024-04-01T00:00:00.000Z",
			}),
			store.Update(store.Key{Table: storetest.Gold, PK: member, SK: "points"}, nil, map[string]int64{"n": 100, "entries": 1}))
	}
	return append(writes, store.Update(store.Key{Table: storetest.Alpha, PK: fmt.Sprint(n % 32), SK: "TALLY"}, nil, map[string]int64{"applied": 49}))
}

// BenchmarkGrants reports grants per second of full transactions, from one caller and from many.
func BenchmarkGrants(b *testing.B) {
	for name, o := range map[string]bolt.Options{"sync": {}, "no sync": {NoSync: true}} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s, %d callers", name, callers), func(b *testing.B) {
				s, err := bolt.Open(filepath.Join(b.TempDir(), "data"), o)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				var n atomic.Int64
				b.SetParallelism(callers)
				b.ResetTimer()
				if callers == 1 {
					for b.Loop() {
						if err := s.Transact(b.Context(), grants(n.Add(1))...); err != nil {
							b.Fatal(err)
						}
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if err := s.Transact(b.Context(), grants(n.Add(1))...); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				b.ReportMetric(float64(49*n.Load())/b.Elapsed().Seconds(), "grants/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
