package store

import (
	"strconv"
	"strings"
	"sync/atomic"
)

// Meter counts what calls cost in DynamoDB's read and write units. The embedded store computes them by the published size rules, the DynamoDB back end adds up what the service
// reports, and the conformance suite holds the two equal: a run on a laptop tells what it would cost. Safe for concurrent use.
type Meter struct {
	write atomic.Int64
	read  atomic.Int64 // in halves
}

// Units are write and read units. Read units come in halves.
type Units struct {
	Write float64 `json:"write"`
	Read  float64 `json:"read"`
}

// Spent is what was added so far.
func (m *Meter) Spent() Units {
	return Units{Write: float64(m.write.Load()), Read: float64(m.read.Load()) / 2}
}

// Since is what was spent after an earlier Spent.
func (u Units) Since(before Units) Units {
	return Units{Write: u.Write - before.Write, Read: u.Read - before.Read}
}

// AddWrite adds write units.
func (m *Meter) AddWrite(units int) { m.write.Add(int64(units)) }

// AddRead adds read units, counted in halves.
func (m *Meter) AddRead(halves int) { m.read.Add(int64(halves)) }

// Sizes by which DynamoDB bills (Developer Guide, "DynamoDB item sizes and formats" and "Read and write operations").
const (
	writeUnit = 1024
	readUnit  = 4096
)

// WriteUnits is the price of one write of an item that had and has so many bytes (0: absent). In a transaction, where every write is prepared and
// committed, it is double. A refused write costs as much as the item in the way.
func WriteUnits(before, after int, transaction bool) int {
	units := ceil(max(before, after, 1), writeUnit)
	if transaction {
		units *= 2
	}
	return units
}

// ReadHalves is the price of reading so many bytes, in half read units: each item by itself in Get, the sum of a page in Query.
func ReadHalves(bytes int, stale bool) int {
	units := ceil(max(bytes, 1), readUnit)
	if stale {
		return units
	}
	return 2 * units
}

func ceil(n, by int) int { return (n + by - 1) / by }

// Size is the billed size of an item in bytes: names and values, keys included. 0 for nil attributes.
func Size(key Key, a Attrs) int {
	if a == nil {
		return 0
	}
	return len("pk") + len(key.PK) + len("sk") + len(key.SK) + attrsSize(a)
}

func attrsSize(a Attrs) int {
	n := 0
	for k, v := range a {
		n += len(k) + valueSize(v)
	}
	return n
}

func valueSize(v any) int {
	switch x := v.(type) {
	case string:
		return len(x)
	case int64:
		return numberSize(x)
	case bool:
		return 1
	case []any:
		n := 3 + len(x)
		for _, e := range x {
			n += valueSize(e)
		}
		return n
	case map[string]any:
		n := 3 + len(x)
		for k, e := range x {
			n += len(k) + valueSize(e)
		}
		return n
	}
	return 0
}

// numberSize: one byte per two significant digits, plus one, plus one for a sign. Leading and trailing zeros are not significant.
func numberSize(n int64) int {
	if n == 0 {
		return 1
	}
	digits := strconv.FormatInt(n, 10)
	size := 1
	if strings.HasPrefix(digits, "-") {
		digits = digits[1:]
		size++
	}
	return size + ceil(len(strings.TrimRight(digits, "0")), 2)
}
