package local_test

import (
	"testing"
)

// Grants per second of the whole stack on the embedded store without fsync: a firing, its fan-out, deliveries and the close.
func BenchmarkGrants(b *testing.B) {
	const members = 20_000
	s := openStore(b)
	addMembers(b, s, members)
	stack := startStack(b, s, nil)
	months := 0
	for b.Loop() {
		if months > 0 {
			b.Fatal("one firing is enough: run with -benchtime 1x")
		}
		months++
		if err := stack.Fire(b.Context(), firing); err != nil {
			b.Fatal(err)
		}
		settle(b, stack)
	}
	b.ReportMetric(float64(months*members)/b.Elapsed().Seconds(), "grants/s")
}
