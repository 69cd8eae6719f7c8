package dynamo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

// batchRequest is what a BatchGetItem asked for.
type batchRequest struct {
	RequestItems map[string]struct {
		Keys           []map[string]map[string]string
		ConsistentRead bool
	}
}

func asked(t *testing.T, c dynamotest.Call) batchRequest {
	t.Helper()
	var r batchRequest
	if err := json.Unmarshal([]byte(c.Body), &r); err != nil {
		t.Errorf("request: %v", err)
	}
	return r
}

func (r batchRequest) sortKeys(table string) []string {
	var out []string
	for _, k := range r.RequestItems[table].Keys {
		out = append(out, k["sk"]["S"])
	}
	return out
}

// batchReply answers with some items of real-alpha and leaves others unprocessed.
func batchReply(found, unprocessed []string) dynamotest.Answer {
	items, keys := []string{}, []string{}
	for _, k := range found {
		items = append(items, fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"S":%q},"is":{"S":%q}}`, k, k))
	}
	for _, k := range unprocessed {
		keys = append(keys, fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"S":%q}}`, k))
	}
	left := "{}"
	if len(keys) > 0 {
		left = `{"real-alpha":{"Keys":[` + strings.Join(keys, ",") + `]}}`
	}
	return dynamotest.Reply(200, `{"Responses":{"real-alpha":[`+strings.Join(items, ",")+`]},"UnprocessedKeys":`+left+`}`)
}

func plainKeys(sks ...string) []store.Key {
	var keys []store.Key
	for _, sk := range sks {
		keys = append(keys, key(alpha, "p", sk))
	}
	return keys
}

func TestGetAsksAgainForWhatWasLeftUnprocessed(t *testing.T) {
	t.Parallel()
	s, faults, clock := scripted(t, nil)
	faults.Script("BatchGetItem", batchReply([]string{"c"}, []string{"a", "b"}), batchReply(nil, []string{"b", "a"}), batchReply([]string{"a"}, nil))
	items, err := s.Get(t.Context(), plainKeys("a", "b", "c")...)
	if err != nil {
		t.Fatal(err)
	}
	if got := []any{items[0].Attrs["is"], items[1].Attrs, items[2].Attrs["is"]}; fmt.Sprint(got) != "[a map[] c]" || items[1].Exists() {
		t.Errorf("Get = %v, want a, absent, c", got)
	}
	calls := faults.Calls("BatchGetItem")
	if len(calls) != 3 || len(clock.pauses) != 2 {
		t.Fatalf("%d requests and %d pauses, want 3 and 2", len(calls), len(clock.pauses))
	}
	if again := asked(t, calls[1]); !again.RequestItems["real-alpha"].ConsistentRead || !slices.Equal(again.sortKeys("real-alpha"), []string{"a", "b"}) {
		t.Errorf("asked again for %+v, want a and b, strongly consistent", again)
	}
}

func TestGetGivesUpWhenNothingIsEverProcessed(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, nil)
	faults.Always("BatchGetItem", batchReply(nil, []string{"a"}))
	_, err := s.Get(t.Context(), plainKeys("a")...)
	var busy *store.Busy
	if !errors.As(err, &busy) || len(faults.Calls("")) != 7 {
		t.Errorf("Get = %v after %d requests, want busy after 7", err, len(faults.Calls("")))
	}
}

func TestGetGoesOnAsLongAsSomethingIsProcessed(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, nil)
	var keys []string
	for i := range 30 {
		keys = append(keys, fmt.Sprint(i))
	}
	for i := range keys { // one key in every second answer: more answers than attempts are allowed without progress
		faults.Script("BatchGetItem", batchReply(nil, keys[i:]), batchReply(keys[i:i+1], keys[i+1:]))
	}
	items, err := s.Get(t.Context(), plainKeys(keys...)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range items {
		if item.Attrs["is"] != keys[i] {
			t.Errorf("item %d is %v, want %s", i, item.Attrs["is"], keys[i])
		}
	}
}

func TestGetAsksForHundredDistinctKeysAtATime(t *testing.T) {
	t.Parallel()
	for _, stale := range []bool{false, true} {
		s, faults, _ := scripted(t, nil)
		faults.Always("BatchGetItem", yes)
		var keys []store.Key
		for i := range 250 {
			k := key([]store.Table{alpha, gold}[i%2], "p", fmt.Sprint(i))
			keys = append(keys, k, k, key(k.Table, "p", "0"))
		}
		get := s.Get
		if stale {
			get = s.GetStale
		}
		items, err := get(t.Context(), keys...)
		if err != nil || len(items) != len(keys) {
			t.Fatalf("Get = %d items, %v, want %d", len(items), err, len(keys))
		}
		for i, item := range items {
			if item.Key != keys[i] || item.Exists() {
				t.Fatalf("item %d is %+v, want %s, absent", i, item, keys[i])
			}
		}
		seen := map[string]int{}
		for _, c := range faults.Calls("BatchGetItem") {
			n := 0
			for table, r := range asked(t, c).RequestItems {
				n += len(r.Keys)
				for _, k := range r.Keys {
					seen[table+"/"+k["sk"]["S"]]++
				}
				if r.ConsistentRead == stale {
					t.Errorf("ConsistentRead %t where stale is %t", r.ConsistentRead, stale)
				}
			}
			if n > 100 {
				t.Errorf("one request has %d keys, at most 100 are allowed", n)
			}
		}
		if got := len(faults.Calls("")); got != 3 || len(seen) != 251 {
			t.Errorf("%d requests for %d keys, want 3 for 251", got, len(seen))
		}
		for k, n := range seen {
			if n != 1 {
				t.Errorf("%s was asked for %d times", k, n)
			}
		}
	}
}

func TestGetOfNothingSendsNothing(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, nil)
	if items, err := s.Get(t.Context()); err != nil || len(items) != 0 || len(faults.Calls("")) != 0 {
		t.Errorf("Get() = %v, %v after %d requests", items, err, len(faults.Calls("")))
	}
}

func TestAReadIsRepeatedUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script answers
		then   dynamotest.Answer
		want   string
		calls  int
	}{
		{"cut, 500, 503, throttled, then done", answers{cut, dynamotest.Fail("InternalServerError", ""), dynamotest.Reply(503, ""), dynamotest.Fail("ThrottlingException", "")}, yes, "written", 5},
		{"no JSON, then done", answers{dynamotest.Reply(200, "<html>")}, yes, "written", 2},
		{"throttled for ever", nil, dynamotest.Fail("ProvisionedThroughputExceededException", ""), "busy", 7},
		{"cut for ever", nil, cut, "error", 7},
		{"invalid", nil, dynamotest.Fail("ValidationException", ""), "error", 1},
		{"denied", nil, dynamotest.Fail("AccessDeniedException", ""), "error", 1},
	} {
		for op, read := range map[string]func(*testing.T, store.Store) error{
			"BatchGetItem": func(t *testing.T, s store.Store) error { _, err := s.Get(t.Context(), plainKeys("a")...); return err },
			"Query": func(t *testing.T, s store.Store) error {
				_, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p"})
				return err
			},
		} {
			t.Run(c.name+" of "+op, func(t *testing.T) {
				t.Parallel()
				s, faults, _ := scripted(t, nil)
				faults.Script(op, c.script...)
				faults.Always(op, c.then)
				err := read(t, s)
				if got := outcome(err); got != c.want || len(faults.Calls("")) != c.calls {
					t.Errorf("%s (%v) after %d requests, want %s after %d", got, err, len(faults.Calls("")), c.want, c.calls)
				}
			})
		}
	}
}

func TestOneFailedChunkFailsGet(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, nil)
	faults.Hook(func(c dynamotest.Call) dynamotest.Answer {
		if strings.Contains(c.Body, `"k850"`) {
			return dynamotest.Fail("AccessDeniedException", "")
		}
		return yes
	})
	var keys []store.Key
	for i := range 1000 {
		keys = append(keys, key(alpha, "p", fmt.Sprint("k", i)))
	}
	items, err := s.Get(t.Context(), keys...)
	if err == nil || items != nil || !strings.Contains(err.Error(), "AccessDenied") {
		t.Errorf("Get = %d items, %v, want the error of the chunk", len(items), err)
	}
}

// DSP-08, DSP-09: a page may be empty and have a next one; only a start key with something in it means that there is more.
func TestQueryEndsWhereTheStartKeyIsEmpty(t *testing.T) {
	t.Parallel()
	member := func(id string) string { return fmt.Sprintf(`{"pk":{"S":"p"},"sk":{"S":%q}}`, id) }
	page := func(last string, ids ...string) dynamotest.Answer {
		items := []string{}
		for _, id := range ids {
			items = append(items, member(id))
		}
		return dynamotest.Reply(200, `{"Items":[`+strings.Join(items, ",")+`]`+last+`}`)
	}
	at := func(id string) string { return `,"LastEvaluatedKey":` + member(id) }
	for _, c := range []struct {
		name   string
		script answers
		want   string
		starts []string // sort keys of the start keys
	}{
		{"empty page with a start key", answers{page(at("a")), page(at("d"), "b", "c", "d"), page("", "e", "f")}, "[b c d e f]", []string{"", "a", "d"}},
		{"empty start key after a full page", answers{page(at("c"), "a", "b", "c"), page(`,"LastEvaluatedKey":{}`)}, "[a b c]", []string{"", "c"}},
		{"null start key", answers{page(`,"LastEvaluatedKey":null`, "a")}, "[a]", []string{""}},
		{"nothing at all", answers{dynamotest.Reply(200, `{}`)}, "[]", []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, faults, _ := scripted(t, nil)
			faults.Script("Query", c.script...)
			got := []string{}
			for q := (store.Query{Table: alpha, PK: "p", Limit: 3}); ; {
				p, err := s.Query(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range p.Items {
					got = append(got, item.Key.SK)
				}
				if q.Cursor = p.Next; q.Cursor == "" {
					break
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("found %v, want %s", got, c.want)
			}
			var starts []string
			for _, call := range faults.Calls("Query") {
				var r struct {
					ExclusiveStartKey map[string]map[string]string
					ConsistentRead    bool
				}
				if err := json.Unmarshal([]byte(call.Body), &r); err != nil {
					t.Fatal(err)
				}
				if !r.ConsistentRead {
					t.Error("query is not strongly consistent")
				}
				starts = append(starts, r.ExclusiveStartKey["sk"]["S"])
			}
			if !slices.Equal(starts, c.starts) {
				t.Errorf("started after %q, want %q", starts, c.starts)
			}
		})
	}
}

func TestAStrangeAnswerIsAnError(t *testing.T) {
	t.Parallel()
	item := func(attr string) string { return `{"pk":{"S":"p"},"sk":{"S":"a"},"x":` + attr + `}` }
	for name, body := range map[string]string{
		"number beyond 64 bits":     item(`{"N":"9223372036854775808"}`),
		"fraction":                  item(`{"N":"1.5"}`),
		"huge number":               item(`{"N":"1E+30"}`),
		"null":                      item(`{"NULL":true}`),
		"bytes":                     item(`{"B":"YQ=="}`),
		"set of texts":              item(`{"SS":["a"]}`),
		"set of numbers":            item(`{"NS":["1"]}`),
		"fraction deep in a list":   item(`{"L":[{"M":{"y":{"L":[{"N":"0.1"}]}}}]}`),
		"null deep in a map":        item(`{"M":{"y":{"NULL":true}}}`),
		"item without keys":         `{"x":{"S":"y"}}`,
		"partition key is a number": `{"pk":{"N":"1"},"sk":{"S":"a"}}`,
		"sort key is missing":       `{"pk":{"S":"p"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, faults, _ := scripted(t, nil)
			faults.Always("BatchGetItem", dynamotest.Reply(200, `{"Responses":{"real-alpha":[`+body+`]}}`))
			faults.Always("Query", dynamotest.Reply(200, `{"Items":[`+body+`]}`))
			if items, err := s.Get(t.Context(), plainKeys("a")...); err == nil {
				t.Errorf("Get = %v, want an error", items)
			} else {
				t.Log(err)
			}
			if p, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p"}); err == nil {
				t.Errorf("Query = %v, want an error", p)
			}
		})
	}
	t.Run("a table that was not asked", func(t *testing.T) {
		t.Parallel()
		s, faults, _ := scripted(t, nil)
		faults.Always("BatchGetItem", dynamotest.Reply(200, `{"Responses":{"other":[`+item(`{"S":"y"}`)+`]}}`))
		if items, err := s.Get(t.Context(), plainKeys("a")...); err == nil {
			t.Errorf("Get = %v, want an error", items)
		}
	})
}
