package dynamo_test

import (
	"testing"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

func TestNewRefusesAConfigurationThatCannotWork(t *testing.T) {
	t.Parallel()
	client := dynamotest.NewClient("http://emulator.invalid", dynamotest.NewFaults())
	good := map[store.Table]string{alpha: "a", gold: "g"}
	if _, err := dynamo.New(client, dynamo.Config{Tables: good, Ledgers: []store.Table{gold}}); err != nil {
		t.Errorf("New = %v, want nil", err)
	}
	if _, err := dynamo.New(nil, dynamo.Config{Tables: good}); err == nil {
		t.Error("New without a client = nil, want an error")
	}
	for name, cfg := range map[string]dynamo.Config{
		"no tables":        {},
		"no logical name":  {Tables: map[store.Table]string{"": "a"}},
		"no real name":     {Tables: map[store.Table]string{alpha: ""}},
		"shared real name": {Tables: map[store.Table]string{alpha: "a", gold: "a"}},
		"unknown ledger":   {Tables: map[store.Table]string{alpha: "a"}, Ledgers: []store.Table{gold}},
	} {
		if _, err := dynamo.New(client, cfg); err == nil {
			t.Errorf("New with %s = nil, want an error", name)
		}
	}
}

func TestAMistakeOfTheProgramIsNotSent(t *testing.T) {
	t.Parallel()
	s, faults, _ := scripted(t, nil)
	other := key("other", "p", "a")
	a := key(alpha, "p", "a")
	for name, writes := range map[string][]store.Write{
		"unknown table":         {store.Put(a, store.Attrs{}), store.Put(other, store.Attrs{})},
		"condition on a key":    {store.Delete(a, store.Equals("pk", "p"))},
		"text that is no UTF-8": {{Op: store.OpPut, Key: a, Item: store.Attrs{"x": "\xff"}}},
		"text deep in a list":   {{Op: store.OpPut, Key: a, Item: store.Attrs{"x": []any{"\xff"}}}},
		"name deep in a map":    {{Op: store.OpPut, Key: a, Item: store.Attrs{"x": map[string]any{"\xff": "y"}}}},
		"name that is no UTF-8": {store.Update(a, nil, map[string]int64{"\xff": 1})},
		"value of another type": {{Op: store.OpPut, Key: a, Item: store.Attrs{"x": 1.5}}},
	} {
		if err := s.Transact(t.Context(), writes...); outcome(err) != "error" {
			t.Errorf("Transact with %s = %v, want an error", name, err)
		}
	}
	if _, err := s.Get(t.Context(), a, other); err == nil {
		t.Error("Get of an unknown table = nil, want an error")
	}
	if _, err := s.Query(t.Context(), store.Query{Table: "other", PK: "p"}); err == nil {
		t.Error("Query of an unknown table = nil, want an error")
	}
	if _, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p", Cursor: "\xff"}); err == nil {
		t.Error("Query with a cursor that is no text = nil, want an error")
	}
	if got := len(faults.Calls("")); got != 0 {
		t.Errorf("%d requests were sent, want none", got)
	}
}
