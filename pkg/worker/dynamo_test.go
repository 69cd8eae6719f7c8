package worker_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/ledger"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// On the strict DynamoDB emulator all rows in one transaction of 49 come out as they do on the embedded store. TXN-02, TXN-05
func TestRowsMixedOnDynamoDB(t *testing.T) {
	t.Parallel()
	mixed(t, newWorldOn(t, dynamotest.Open(t, tables...).Store(t, monthlypoint.Table)), ledger.MaxGroup)
}

// The same while a third of the transactions meets what the emulator never gives by itself: conflicts, throttling, broken connections, lost answers. TXN-01, TXN-07, TXN-10
func TestRowsMixedOnDynamoDBUnderFaults(t *testing.T) {
	t.Parallel()
	db := dynamotest.Open(t, tables...)
	var n atomic.Int64
	db.Faults.Hook(func(c dynamotest.Call) dynamotest.Answer {
		if c.Op != "TransactWriteItems" {
			return dynamotest.Pass()
		}
		i := n.Add(1)
		if i%3 != 0 {
			return dynamotest.Pass()
		}
		var request struct{ TransactItems []json.RawMessage }
		if err := json.Unmarshal([]byte(c.Body), &request); err != nil {
			t.Error(err)
		}
		codes := make([]string, len(request.TransactItems))
		for i := range codes {
			codes[i] = "None"
		}
		switch i / 3 % 6 {
		case 0:
			codes[0] = "TransactionConflict"
			return dynamotest.Cancel(codes...)
		case 1:
			codes[len(codes)-1] = "ThrottlingError"
			return dynamotest.Cancel(codes...)
		case 2:
			return dynamotest.Cut(true)
		case 3:
			return dynamotest.Cut(false)
		case 4:
			return dynamotest.Fail("ProvisionedThroughputExceededException", "slow down")
		}
		return dynamotest.Lose(500, `{"__type":"InternalServerError","message":"lost"}`)
	})
	mixed(t, newWorldOn(t, db.Store(t, monthlypoint.Table)), ledger.MaxGroup)
	if n.Load() < 30 {
		t.Errorf("%d transactions, want enough for every fault", n.Load())
	}
}

// A balance that is no number refuses its grant for ever, and leaves no applied entry: on both stores, as a failure, once a neighbour shows that the deployment is right. TXN-03, TXN-05
func TestBalanceThatIsNoNumber(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) store.Store{
		"embedded": func(t *testing.T) store.Store { return openBolt(t) },
		"DynamoDB": func(t *testing.T) store.Store {
			return dynamotest.Open(t, tables...).Store(t, monthlypoint.Table)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOn(t, open(t), "member-1", "member-2", "member-3")
			key := store.Key{Table: monthlypoint.Table, PK: "member-2", SK: monthlypoint.Balance}
			if err := w.store.Transact(t.Context(), store.Put(key, store.Attrs{"n": "100", "entries": int64(1)})); err != nil {
				t.Fatal(err)
			}
			j := w.fire(april, 100)
			equal(t, "alone", w.deliver(w.worker(nil), bodies(j, "member-2")...), ids(0))
			equal(t, "with neighbours", w.deliver(w.worker(nil), bodies(j, "member-1", "member-2", "member-3")...), ids())
			equal(t, "failures", w.reasons(j), map[string]int64{job.ReasonInvalid: 1})
			equal(t, "job", w.job(j.ID).State, job.Completed)
			k, err := once.NewKey(monthlypoint.Name, "2024-04", "member-2")
			if err != nil {
				t.Fatal(err)
			}
			e, ok, err := ledger.New(w.store, monthlypoint.Table, w.clock).Entry(t.Context(), k)
			if err != nil || !ok || e.State != ledger.Failed {
				t.Errorf("entry %+v, %v, %v, want it failed", e, ok, err)
			}
			// The balance is mended, and a new run grants it.
			if err := w.store.Transact(t.Context(), store.Delete(key)); err != nil {
				t.Fatal(err)
			}
			again := w.run(100)
			equal(t, "run", w.deliver(w.worker(nil), bodies(again, "member-1", "member-2", "member-3")...), ids())
			equal(t, "counts", fmt.Sprint(w.counts(again)), fmt.Sprint(job.Counts{Applied: 1, Already: 2}))
			equal(t, "balance", w.balance("member-2"), int64(100))
		})
	}
}

// An answer that is lost on the wire: the transaction had happened, and is recognised by token or by its own entries. TXN-10
func TestAnswerLostOnTheWire(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]dynamotest.Answer{
		"once":        {dynamotest.Cut(true)},
		"three times": {dynamotest.Cut(true), dynamotest.Cut(true), dynamotest.Cut(true)},
		"never there": {dynamotest.Cut(false)},
		"500":         {dynamotest.Lose(500, `{"__type":"InternalServerError"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dynamotest.Open(t, tables...)
			members := names("member", ledger.MaxGroup)
			w := newWorldOn(t, db.Store(t, monthlypoint.Table), members...)
			j := w.fire(april, 100)
			db.Faults.Script("TransactWriteItems", answers...)
			equal(t, "handed back", w.deliver(w.worker(nil), bodies(j, members...)...), ids())
			equal(t, "counts", w.counts(j), job.Counts{Applied: 49})
			equal(t, "job", w.job(j.ID).State, job.Completed)
		})
	}
}
