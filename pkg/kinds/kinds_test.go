package kinds_test

import (
	"testing"
	"time"

	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
)

func TestAllKindsAreDistinctAndWellFormed(t *testing.T) {
	t.Parallel()
	seen := map[once.Kind]bool{}
	for _, k := range kinds.All(nil, time.UTC) {
		if _, err := once.ParseKind(string(k.Kind())); err != nil || seen[k.Kind()] {
			t.Errorf("kind %q: %v, or listed twice", k.Kind(), err)
		}
		seen[k.Kind()] = true
	}
	if !seen[monthlypoint.Name] {
		t.Error("monthly-point is missing")
	}
}
