package dynamo_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

// onEmulator is a store on fresh tables that does not wait between attempts.
func onEmulator(t *testing.T) (*dynamo.Store, *dynamotest.DB) {
	t.Helper()
	db := dynamotest.Open(t, alpha, gold)
	c := &clock{now: time.Date(2024, 4, 1, 0, 0, 0, 0, time.UTC)}
	s, err := dynamo.New(db.Client, dynamo.Config{Tables: db.Tables, Ledgers: []store.Table{gold}, Sleep: c.Sleep, Now: c.Now, AttemptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s, db
}

func attrs(t *testing.T, s store.Store, k store.Key) store.Attrs {
	t.Helper()
	items, err := s.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	return items[0].Attrs
}

// TXN-10: the write happened and its answer was lost. The same token meets it: the outcome is that of the first attempt, the balance counts once.
func TestALostAnswerIsAskedForAgainAndCountsOnce(t *testing.T) {
	t.Parallel()
	throttled := dynamotest.Cancel("ThrottlingError", "None")
	for _, c := range []struct {
		name   string
		script answers
		calls  int
	}{
		{"cut after the write", answers{dynamotest.Cut(true)}, 2},
		{"cut after the write, twice", answers{dynamotest.Cut(true), dynamotest.Cut(true)}, 3},
		{"cut before the write", answers{dynamotest.Cut(false)}, 2},
		{"server error after the write", answers{dynamotest.Lose(500, `{"__type":"InternalServerError"}`)}, 2},
		{"gateway error after the write", answers{dynamotest.Lose(504, `<html>`)}, 2},
		{"cut after the write, then throttled", answers{dynamotest.Cut(true), throttled, throttled}, 4},
		{"throttled, then cut after the write", answers{throttled, dynamotest.Cut(true)}, 3},
		{"cut after the write, then in progress", answers{dynamotest.Cut(true), dynamotest.Fail("TransactionInProgressException", "")}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, db := onEmulator(t)
			db.Faults.Script("TransactWriteItems", c.script...)
			if err := s.Transact(t.Context(), grant()...); err != nil {
				t.Fatalf("Transact = %v, want nil", err)
			}
			if got := len(db.Faults.Calls("TransactWriteItems")); got != c.calls {
				t.Errorf("sent %d times, want %d", got, c.calls)
			}
			if got := attrs(t, s, grant()[1].Key)["n"]; got != int64(100) {
				t.Errorf("balance %v, want 100", got)
			}
		})
	}
}

// A lone addition to a ledger has no condition that could stop a second time: the token does.
func TestALoneAdditionToALedgerCountsOnceThoughItsAnswerWasLost(t *testing.T) {
	t.Parallel()
	s, db := onEmulator(t)
	db.Faults.Script("TransactWriteItems", dynamotest.Cut(true), dynamotest.Cancel("TransactionConflict"), dynamotest.Cut(true))
	if err := s.Transact(t.Context(), store.Update(key(gold, "m", "points"), nil, map[string]int64{"n": 100})); err != nil {
		t.Fatal(err)
	}
	if got := attrs(t, s, key(gold, "m", "points"))["n"]; got != int64(100) {
		t.Errorf("balance %v, want 100", got)
	}
}

func TestAHangAfterTheWriteEndsWithTheAttempt(t *testing.T) {
	t.Parallel()
	db := dynamotest.Open(t, alpha, gold)
	s, err := dynamo.New(db.Client, dynamo.Config{Tables: db.Tables, Ledgers: []store.Table{gold}, AttemptTimeout: time.Second, Sleep: (&clock{}).Sleep})
	if err != nil {
		t.Fatal(err)
	}
	db.Faults.Script("TransactWriteItems", dynamotest.Hang(true))
	if err := s.Transact(t.Context(), grant()...); err != nil {
		t.Fatalf("Transact = %v, want nil", err)
	}
	if got := attrs(t, s, grant()[1].Key)["n"]; got != int64(100) {
		t.Errorf("balance %v, want 100", got)
	}
}

// TXN-12: a message delivered again is a new call with a new token: what guards it is the condition.
func TestTheSameCallAgainIsRefusedByItsCondition(t *testing.T) {
	t.Parallel()
	s, _ := onEmulator(t)
	if err := s.Transact(t.Context(), grant()...); err != nil {
		t.Fatal(err)
	}
	err := s.Transact(t.Context(), grant()...)
	var refused *store.Refused
	if !errors.As(err, &refused) || len(refused.By) != 1 || refused.By[0].Index != 0 || refused.By[0].Old.Attrs["amount"] != int64(100) {
		t.Errorf("second call = %v, want a refusal by the entry, with it", err)
	}
	if got := attrs(t, s, grant()[1].Key)["n"]; got != int64(100) {
		t.Errorf("balance %v, want 100", got)
	}
}

// A single write whose answer was lost is not sent again: the caller hears that nobody knows.
func TestALostAnswerToASingleWriteIsUnknown(t *testing.T) {
	t.Parallel()
	s, db := onEmulator(t)
	db.Faults.Script("UpdateItem", dynamotest.Cut(true))
	k := key(alpha, "p", "counter")
	if err := s.Transact(t.Context(), store.Update(k, nil, map[string]int64{"n": 1})); outcome(err) != "error" {
		t.Errorf("Transact = %v, want an unknown outcome", err)
	}
	if got := attrs(t, s, k)["n"]; got != int64(1) || len(db.Faults.Calls("UpdateItem")) != 1 {
		t.Errorf("counter %v after %d requests, want 1 after 1", got, len(db.Faults.Calls("UpdateItem")))
	}
}

// EMU-02: the emulator and the store under parallel callers.
func TestParallelWritesAreSerialised(t *testing.T) {
	t.Parallel()
	s, _ := onEmulator(t)
	const n = 50
	var winners atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			switch err := s.Transact(t.Context(), store.Insert(key(alpha, "p", "one"), store.Attrs{"by": i})); outcome(err) {
			case "written":
				winners.Add(1)
			case "refused":
			default:
				t.Errorf("insert = %v", err)
			}
		})
		wg.Go(func() {
			if err := s.Transact(t.Context(), store.Update(key(alpha, "p", "counter"), nil, map[string]int64{"n": 1})); err != nil {
				t.Errorf("add = %v", err)
			}
		})
		wg.Go(func() {
			err := s.Transact(t.Context(),
				store.Insert(key(gold, "member-42", fmt.Sprintf("monthly-point:%04d:member-42", i)), store.Attrs{"amount": 100}),
				store.Update(key(gold, "member-42", "points"), nil, map[string]int64{"n": 100, "entries": 1}))
			if err != nil {
				t.Errorf("grant = %v", err)
			}
		})
	}
	wg.Wait()
	if got := winners.Load(); got != 1 {
		t.Errorf("%d callers inserted one item, want 1", got)
	}
	if got := attrs(t, s, key(alpha, "p", "counter"))["n"]; got != int64(n) {
		t.Errorf("counter %v, want %d", got, n)
	}
	if got := attrs(t, s, key(gold, "member-42", "points")); got["n"] != int64(100*n) || got["entries"] != int64(n) {
		t.Errorf("balance %v, want %d of %d entries", got, 100*n, n)
	}
}

// TXN-05, KEY-09: what stands in the way of an addition is told from a false condition, also where somebody else wrote something this store cannot hold.
func TestAnAdditionThatCanNeverHappenIsInvalid(t *testing.T) {
	t.Parallel()
	s, db := onEmulator(t)
	for name, c := range map[string]struct {
		value types.AttributeValue
		add   int64
	}{
		"text":                {&types.AttributeValueMemberS{Value: "100"}, 100},
		"overflow":            {&types.AttributeValueMemberN{Value: "9223372036854775800"}, 100},
		"underflow":           {&types.AttributeValueMemberN{Value: fmt.Sprint(math.MinInt64)}, -1},
		"38 digits":           {&types.AttributeValueMemberN{Value: "99999999999999999999999999999999999999"}, 1},
		"38 digits, below":    {&types.AttributeValueMemberN{Value: "-99999999999999999999999999999999999999"}, -1},
		"set of numbers":      {&types.AttributeValueMemberNS{Value: []string{"1"}}, 1},
		"null":                {&types.AttributeValueMemberNULL{Value: true}, 1},
		"text and nothing":    {&types.AttributeValueMemberS{Value: "100"}, 0},
		"38 digits and null":  {&types.AttributeValueMemberN{Value: "99999999999999999999999999999999999999"}, 0},
		"text and a negative": {&types.AttributeValueMemberS{Value: "100"}, -100},
	} {
		for _, k := range []store.Key{key(alpha, "p", name), key(gold, "p", name)} {
			item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: k.PK}, "sk": &types.AttributeValueMemberS{Value: k.SK}, "n": c.value}
			real := db.Tables[k.Table]
			if _, err := db.Client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &real, Item: item}); err != nil {
				t.Fatal(err)
			}
			add := store.Update(k, nil, map[string]int64{"n": c.add})
			entry := store.Insert(key(gold, "entries", name), store.Attrs{})
			for index, writes := range [][]store.Write{{add}, {entry, add}} {
				var refused *store.Refused
				err := s.Transact(t.Context(), writes...)
				if !errors.As(err, &refused) || len(refused.By) != 1 || refused.By[0].Index != index || refused.By[0].Invalid == "" {
					t.Errorf("%s, %d writes = %v, want write %d invalid", k, len(writes), err, index)
				}
			}
			if attrs(t, s, entry.Key) != nil {
				t.Errorf("%s left an entry", k)
			}
		}
	}
}

// The suite holds the meters of both back ends equal; here are the cases in which this one must compute.
func TestTheMeterCountsWhatTheServiceReportsAndElseComputes(t *testing.T) {
	t.Parallel()
	spent := func(s store.Store, f func() error) store.Units {
		before := s.Meter().Spent()
		_ = f()
		return s.Meter().Spent().Since(before)
	}
	s, db := onEmulator(t)
	grantOf := func(member string) []store.Write {
		return []store.Write{store.Insert(key(gold, member, "k:1:"+member), store.Attrs{}), store.Update(key(gold, member, "points"), nil, map[string]int64{"n": 1})}
	}
	for name, c := range map[string]struct {
		script answers
		f      func() error
		want   store.Units
	}{
		"reported":              {nil, func() error { return s.Transact(t.Context(), grantOf("a")...) }, store.Units{Write: 4}},
		"refused":               {nil, func() error { return s.Transact(t.Context(), store.Check(key(alpha, "p", "x"), store.Equals("a", 1))) }, store.Units{Write: 2}},
		"refused, single":       {nil, func() error { return s.Transact(t.Context(), store.Delete(key(alpha, "p", "x"), store.Equals("a", 1))) }, store.Units{Write: 1}},
		"throttled before":      {answers{throttle}, func() error { return s.Transact(t.Context(), grantOf("b")...) }, store.Units{Write: 4}},
		"answered in the place": {answers{yes}, func() error { return s.Transact(t.Context(), grantOf("c")...) }, store.Units{Write: 4}},
		"replayed": {
			answers{dynamotest.Lose(500, ""), dynamotest.Reply(200, `{"ConsumedCapacity":[{"TableName":"x","CapacityUnits":4,"ReadCapacityUnits":4}]}`)},
			func() error { return s.Transact(t.Context(), grantOf("d")...) },
			store.Units{Write: 4, Read: 4},
		},
	} {
		db.Faults.Script("TransactWriteItems", c.script...)
		if got := spent(s, c.f); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}

	s, faults, _ := scripted(t, nil)
	faults.Always("BatchGetItem", batchReply([]string{"a"}, nil))
	faults.Always("Query", dynamotest.Reply(200, `{}`))
	if got := spent(s, func() error { _, err := s.Get(t.Context(), plainKeys("a", "b")...); return err }); got != (store.Units{Read: 2}) {
		t.Errorf("Get without a report: %+v, want 2 read units", got)
	}
	if got := spent(s, func() error { _, err := s.GetStale(t.Context(), plainKeys("a", "b")...); return err }); got != (store.Units{Read: 1}) {
		t.Errorf("GetStale without a report: %+v, want 1 read unit", got)
	}
	if got := spent(s, func() error { _, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p"}); return err }); got != (store.Units{Read: 1}) {
		t.Errorf("Query without a report: %+v, want 1 read unit", got)
	}
	faults.Always("Query", dynamotest.Reply(200, `{"ConsumedCapacity":{"TableName":"real-alpha","CapacityUnits":7.5}}`))
	if got := spent(s, func() error { _, err := s.Query(t.Context(), store.Query{Table: alpha, PK: "p"}); return err }); got != (store.Units{Read: 7.5}) {
		t.Errorf("Query with a report: %+v, want 7.5 read units", got)
	}
}

func TestTablesAreSeparate(t *testing.T) {
	t.Parallel()
	a, dbA := onEmulator(t)
	b, dbB := onEmulator(t)
	if maps.Equal(dbA.Tables, dbB.Tables) {
		t.Fatalf("two tests share the tables %v", dbA.Tables)
	}
	if err := a.Transact(t.Context(), store.Put(key(alpha, "p", "a"), store.Attrs{})); err != nil {
		t.Fatal(err)
	}
	if attrs(t, b, key(alpha, "p", "a")) != nil {
		t.Error("an item of one test is seen by another")
	}
}
