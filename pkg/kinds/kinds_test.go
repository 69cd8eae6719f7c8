package kinds_test

import (
	"testing"
	"time"

	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
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
	for _, name := range []once.Kind{monthlypoint.Name, til.Name} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
}
