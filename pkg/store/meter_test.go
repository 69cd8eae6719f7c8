package store_test

import (
	"math"
	"strings"
	"sync"
	"testing"

	"hanbeon/pkg/store"
)

// Developer Guide, "DynamoDB item sizes and formats".
func TestSize(t *testing.T) {
	t.Parallel()
	k := store.Key{Table: "any", PK: "p", SK: "s"} // pk + p + sk + s: 6 bytes
	for _, c := range []struct {
		name  string
		attrs store.Attrs
		want  int
	}{
		{"absent", nil, 0},
		{"keys only", store.Attrs{}, 6},
		{"text: UTF-8 bytes of name and value", store.Attrs{"name": "abc"}, 6 + 4 + 3},
		{"empty text", store.Attrs{"name": ""}, 6 + 4},
		{"Hangul: 3 bytes each, in the name too", store.Attrs{"이름": "한번"}, 6 + 6 + 6},
		{"emoji: 4 bytes", store.Attrs{"e": "😀"}, 6 + 1 + 4},
		{"bool: 1 byte", store.Attrs{"b": true}, 6 + 1 + 1},
		{"number: a byte per two significant digits and one", store.Attrs{"n": int64(1234)}, 6 + 1 + 3},
		{"number of odd length", store.Attrs{"n": int64(12345)}, 6 + 1 + 4},
		{"trailing zeros do not count", store.Attrs{"n": int64(100_000)}, 6 + 1 + 2},
		{"zeros inside do", store.Attrs{"n": int64(100_001)}, 6 + 1 + 4},
		{"a sign is one more", store.Attrs{"n": int64(-1234)}, 6 + 1 + 4},
		{"zero", store.Attrs{"n": int64(0)}, 6 + 1 + 1},
		{"largest", store.Attrs{"n": int64(math.MaxInt64)}, 6 + 1 + 11}, // 19 digits
		{"smallest", store.Attrs{"n": int64(math.MinInt64)}, 6 + 1 + 12},
		{"empty list or map: 3 bytes", store.Attrs{"l": []any{}, "m": map[string]any{}}, 6 + 1 + 3 + 1 + 3},
		{"each element one more than its value", store.Attrs{"l": []any{"abc", true}}, 6 + 1 + 3 + (1 + 3) + (1 + 1)},
		{"each pair its name and one more", store.Attrs{"m": map[string]any{"ab": "c"}}, 6 + 1 + 3 + (1 + 2 + 1)},
		{"nested", store.Attrs{"m": map[string]any{"l": []any{int64(7)}}}, 6 + 1 + 3 + (1 + 1 + 3 + (1 + 2))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := store.Size(k, c.attrs); got != c.want {
				t.Errorf("Size(%v) = %d, want %d", c.attrs, got, c.want)
			}
		})
	}
	if got, want := store.Size(store.Key{PK: strings.Repeat("p", 2048), SK: strings.Repeat("s", 1024)}, store.Attrs{}), 4+3072; got != want {
		t.Errorf("Size of long keys = %d, want %d", got, want)
	}
}

// Developer Guide, "DynamoDB read and write operations".
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, single, double int }{
		{0, 0, 1, 2}, {0, 1, 1, 2}, {0, 1024, 1, 2}, {0, 1025, 2, 4}, {1025, 10, 2, 4}, {10, 3073, 4, 8}, {409600, 0, 400, 800},
	} {
		if got := store.WriteUnits(c.before, c.after, false); got != c.single {
			t.Errorf("WriteUnits(%d, %d) = %d, want %d", c.before, c.after, got, c.single)
		}
		if got := store.WriteUnits(c.before, c.after, true); got != c.double {
			t.Errorf("WriteUnits(%d, %d) in a transaction = %d, want %d", c.before, c.after, got, c.double)
		}
	}
	for _, c := range []struct{ bytes, strong, stale int }{{0, 2, 1}, {1, 2, 1}, {4096, 2, 1}, {4097, 4, 2}, {8193, 6, 3}, {1 << 20, 512, 256}} {
		if got := store.ReadHalves(c.bytes, false); got != c.strong {
			t.Errorf("ReadHalves(%d) = %d, want %d", c.bytes, got, c.strong)
		}
		if got := store.ReadHalves(c.bytes, true); got != c.stale {
			t.Errorf("ReadHalves(%d) stale = %d, want %d", c.bytes, got, c.stale)
		}
	}
}

func TestMeterAddsUpFromManyCallers(t *testing.T) {
	t.Parallel()
	var m store.Meter
	m.AddWrite(7)
	before := m.Spent()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			m.AddWrite(2)
			m.AddRead(1)
		})
	}
	wg.Wait()
	if got, want := m.Spent().Since(before), (store.Units{Write: 100, Read: 25}); got != want {
		t.Errorf("spent %+v, want %+v", got, want)
	}
}
