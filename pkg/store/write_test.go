package store_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/store"
)

var k = store.Key{Table: "t", PK: "p", SK: "s"}

func TestApply(t *testing.T) {
	t.Parallel()
	const conditionFalse, impossible = "condition", "invalid"
	item := store.Attrs{"state": "RUNNING", "n": int64(5), "open": true, "list": []any{"a"}}
	for _, c := range []struct {
		name    string
		write   store.Write
		old     store.Attrs
		want    store.Attrs
		refused string
	}{
		{"put creates", store.Put(k, store.Attrs{"a": 1}), nil, store.Attrs{"a": int64(1)}, ""},
		{"put replaces", store.Put(k, store.Attrs{"a": 1}), item, store.Attrs{"a": int64(1)}, ""},
		{"insert creates", store.Insert(k, store.Attrs{}), nil, store.Attrs{}, ""},
		{"insert of what exists", store.Insert(k, store.Attrs{}), item, nil, conditionFalse},
		{"insert of what exists without attributes", store.Insert(k, store.Attrs{}), store.Attrs{}, nil, conditionFalse},
		{"put if equal", store.Put(k, store.Attrs{}, store.Equals("open", true), store.Equals("n", 5)), item, store.Attrs{}, ""},
		{"put if one of two is not equal", store.Put(k, store.Attrs{}, store.Equals("open", true), store.Equals("n", 6)), item, nil, conditionFalse},
		{"put if the type is another", store.Put(k, store.Attrs{}, store.Equals("n", "5")), item, nil, conditionFalse},
		{"put if a list equals text", store.Put(k, store.Attrs{}, store.Equals("list", "a")), item, nil, conditionFalse},
		{"put if a missing attribute is zero", store.Put(k, store.Attrs{}, store.Equals("missing", 0)), item, nil, conditionFalse},
		{"update sets", store.Update(k, store.Attrs{"n": "text"}, nil), store.Attrs{"n": int64(1), "m": "m"}, store.Attrs{"n": "text", "m": "m"}, ""},
		{"update adds", store.Update(k, nil, map[string]int64{"n": -6, "m": 2}), store.Attrs{"n": int64(5)}, store.Attrs{"n": int64(-1), "m": int64(2)}, ""},
		{"update creates", store.Update(k, nil, map[string]int64{"n": 0}), nil, store.Attrs{"n": int64(0)}, ""},
		{"update of what is absent", store.Update(k, store.Attrs{"a": 1}, nil, store.Equals("state", "RUNNING")), nil, nil, conditionFalse},
		{"up to the end", store.Update(k, nil, map[string]int64{"n": 1}), store.Attrs{"n": int64(math.MaxInt64 - 1)}, store.Attrs{"n": int64(math.MaxInt64)}, ""},
		{"beyond the end", store.Update(k, nil, map[string]int64{"n": 1}), store.Attrs{"n": int64(math.MaxInt64)}, nil, impossible},
		{"down to the end", store.Update(k, nil, map[string]int64{"n": -1}), store.Attrs{"n": int64(math.MinInt64 + 1)}, store.Attrs{"n": int64(math.MinInt64)}, ""},
		{"below the end", store.Update(k, nil, map[string]int64{"n": -1}), store.Attrs{"n": int64(math.MinInt64)}, nil, impossible},
		{"twice the smallest", store.Update(k, nil, map[string]int64{"n": math.MinInt64}), store.Attrs{"n": int64(math.MinInt64)}, nil, impossible},
		{"one of two sums impossible", store.Update(k, nil, map[string]int64{"a": math.MaxInt64, "b": 1}), store.Attrs{"a": int64(1), "b": int64(1)}, nil, impossible},
		{"add to text", store.Update(k, nil, map[string]int64{"n": 1}), store.Attrs{"n": "5"}, nil, impossible},
		{"add to bool", store.Update(k, nil, map[string]int64{"n": 1}), store.Attrs{"n": false}, nil, impossible},
		{"add 0 to a list", store.Update(k, nil, map[string]int64{"list": 0}), item, nil, impossible},
		{"grown too large", store.Update(k, store.Attrs{"b": strings.Repeat("b", 1024)}, nil), store.Attrs{"a": strings.Repeat("a", store.MaxItem-1024)}, nil, impossible},
		{"condition before sum", store.Update(k, nil, map[string]int64{"n": 1}, store.Absent()), store.Attrs{"n": "5"}, nil, conditionFalse},
		{"delete", store.Delete(k), item, nil, ""},
		{"delete of nothing", store.Delete(k), nil, nil, ""},
		{"delete of nothing if equal", store.Delete(k, store.Equals("n", 5)), nil, nil, conditionFalse},
		{"check", store.Check(k, store.Equals("n", 5)), item, item, ""},
		{"check of nothing", store.Check(k, store.Absent()), nil, nil, ""},
		{"check that fails", store.Check(k, store.Equals("n", 6)), item, nil, conditionFalse},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprint(c.old)
			got, refusal := c.write.Apply(c.old)
			if diff := cmp.Diff(got, c.want); diff != "" {
				t.Errorf("Apply (-got +want):\n%s", diff)
			}
			switch {
			case (refusal != nil) != (c.refused != ""):
				t.Errorf("refusal %+v, want %q", refusal, c.refused)
			case refusal != nil && (refusal.Invalid != "") != (c.refused == impossible):
				t.Errorf("refusal %+v, want %q", refusal, c.refused)
			case refusal != nil && !cmp.Equal(refusal.Old, store.Item{Key: k, Attrs: c.old}):
				t.Errorf("old item %+v, want %v", refusal.Old, c.old)
			}
			if after := fmt.Sprint(c.old); after != before {
				t.Errorf("Apply changed the old item: %s, was %s", after, before)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	many := func(n, size int) (writes []store.Write) {
		for i := range n {
			writes = append(writes, store.Put(store.Key{Table: "t", PK: "p", SK: fmt.Sprint(i)}, store.Attrs{"x": strings.Repeat("x", size)}))
		}
		return writes
	}
	good := store.Put(k, store.Attrs{})
	at := func(table store.Table, pk, sk string) []store.Write {
		return []store.Write{store.Delete(store.Key{Table: table, PK: pk, SK: sk})}
	}
	const mistake, never, fine = "ordinary error", "refused", "nil"
	for _, c := range []struct {
		name   string
		writes []store.Write
		want   string
	}{
		{"one write", []store.Write{good}, fine},
		{"no writes", nil, mistake},
		{"100 writes", many(100, 1), fine},
		{"101 writes", many(101, 1), mistake},
		{"a key twice", []store.Write{good, store.Check(k, store.Absent())}, mistake},
		{"the same sort key in another partition and table", []store.Write{good, store.Delete(store.Key{Table: "t", PK: "q", SK: "s"}), store.Delete(store.Key{Table: "u", PK: "p", SK: "s"})}, fine},
		{"no table", at("", "p", "s"), mistake},
		{"no partition key", at("t", "", "s"), mistake},
		{"no sort key", at("t", "p", ""), mistake},
		{"keys at their limits", at("t", strings.Repeat("p", store.MaxPK), strings.Repeat("s", store.MaxSK)), fine},
		{"long partition key", at("t", strings.Repeat("p", store.MaxPK+1), "s"), mistake},
		{"long sort key", at("t", "p", strings.Repeat("s", store.MaxSK+1)), mistake},
		{"NUL in a key", at("t", "p", "a\x00"), mistake},
		{"key not text", at("t", "\xff", "s"), mistake},
		{"not encodable", []store.Write{store.Put(k, 1.5)}, mistake},
		{"key as attribute", []store.Write{store.Put(k, store.Attrs{"pk": ""})}, mistake},
		{"key in a condition", []store.Write{store.Delete(k, store.Equals("sk", "s"))}, mistake},
		{"condition on a name that is not text", []store.Write{store.Delete(k, store.Equals("\xff", "s"))}, mistake},
		{"condition on a list", []store.Write{store.Delete(k, store.Equals("l", []any{}))}, mistake},
		{"addition to a name that is not text", []store.Write{store.Update(k, nil, map[string]int64{"\xff": 1})}, mistake},
		{"set and added to", []store.Write{store.Update(k, store.Attrs{"n": 1}, map[string]int64{"n": 1})}, mistake},
		{"nil in a set", []store.Write{store.Update(k, store.Attrs{"n": nil}, nil)}, mistake},
		{"update of nothing", []store.Write{store.Update(k, nil, nil)}, mistake},
		{"check of nothing", []store.Write{store.Check(k)}, mistake},
		{"zero write", []store.Write{{}}, mistake},
		{"unknown op", []store.Write{{Op: 9, Key: k}}, mistake},
		{"delete with an item", []store.Write{{Op: store.OpDelete, Key: k, Item: store.Attrs{}}}, mistake},
		{"put with an addition", []store.Write{{Op: store.OpPut, Key: k, Item: store.Attrs{}, Add: map[string]int64{"n": 1}}}, mistake},
		{"values by hand that are not of the codec", []store.Write{{Op: store.OpPut, Key: k, Item: store.Attrs{"n": 1}}}, mistake},
		{"condition by hand that is not of the codec", []store.Write{{Op: store.OpDelete, Key: k, If: []store.Cond{{Attr: "n", Value: 1}}}}, mistake},
		{"an item of 400 KB", many(1, store.MaxItem-len("pkpsk0x")), fine},
		{"one byte more", many(1, store.MaxItem-len("pkpsk0x")+1), never},
		{"a set of more than 400 KB", []store.Write{store.Update(k, store.Attrs{"x": strings.Repeat("x", store.MaxItem)}, nil)}, never},
		{"nearly 4 MB", many(10, 400*1024-10), fine},
		{"more than 4 MB", many(11, 390*1024), mistake},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := store.Validate(c.writes)
			var r *store.Refused
			got := mistake
			switch {
			case err == nil:
				got = fine
			case errors.As(err, &r):
				got = never
			}
			if got != c.want {
				t.Errorf("Validate = %v, want %s", err, c.want)
			}
		})
	}
}

func TestValidateNamesEveryItemTooLarge(t *testing.T) {
	t.Parallel()
	large := store.Attrs{"x": strings.Repeat("x", store.MaxItem)}
	err := store.Validate([]store.Write{
		store.Put(store.Key{Table: "t", PK: "p", SK: "0"}, large), store.Delete(k), store.Update(store.Key{Table: "t", PK: "p", SK: "2"}, large, nil),
	})
	var r *store.Refused
	if !errors.As(err, &r) || len(r.By) != 2 || r.By[0].Index != 0 || r.By[1].Index != 2 || r.By[0].Invalid == "" || r.By[1].Invalid == "" {
		t.Errorf("Validate = %v, want writes 0 and 2 invalid", err)
	}
}

func TestQueryCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		q  store.Query
		ok bool
	}{
		"all of a partition": {store.Query{Table: "t", PK: "p"}, true},
		"everything given":   {store.Query{Table: "t", PK: "p", Prefix: "a", Limit: 1, Cursor: "any", Descending: true}, true},
		"no table":           {store.Query{PK: "p"}, false},
		"no partition":       {store.Query{Table: "t"}, false},
		"negative limit":     {store.Query{Table: "t", PK: "p", Limit: -1}, false},
		"prefix not text":    {store.Query{Table: "t", PK: "p", Prefix: "\xff"}, false},
		"prefix with NUL":    {store.Query{Table: "t", PK: "p", Prefix: "a\x00"}, false},
	} {
		if err := c.q.Check(); (err == nil) != c.ok {
			t.Errorf("%s: Check = %v, want ok %v", name, err, c.ok)
		}
	}
}

func TestErrorsAreOneReadableLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{&store.Refused{By: []store.Refusal{{Index: 1}, {Index: 3, Invalid: "attribute n is not a number"}}}, "refused: write 1: write 3 is invalid: attribute n is not a number"},
		{&store.Busy{Reason: "TransactionConflict", Conflicts: []int{2}}, "store is busy: TransactionConflict (conflicts on writes [2])"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("Error() = %q, want %q", got, c.want)
		}
	}
}
