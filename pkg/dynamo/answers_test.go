package dynamo_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
)

// grant is an entry and a balance.
func grant() []store.Write {
	return []store.Write{
		store.Insert(key(gold, "member-42", "monthly-point:2024-04:member-42"), store.Attrs{"amount": 100}),
		store.Update(key(gold, "member-42", "points"), nil, map[string]int64{"n": 100}),
	}
}

var (
	yes      = dynamotest.Reply(200, `{}`)
	conflict = dynamotest.Cancel("None", "TransactionConflict")
	throttle = dynamotest.Cancel("ThrottlingError", "None")
	cut      = dynamotest.Cut(false)
)

type answers = []dynamotest.Answer

// TXN-01, TXN-02, TXN-03, TXN-05, TXN-07, TXN-09: what each answer to a transaction of two writes means, how often it is sent, and with how many tokens.
func TestEveryAnswerToATransactionHasItsMeaning(t *testing.T) {
	t.Parallel()
	const all = 7 // attempts of the default
	cases := []struct {
		name     string
		script   answers
		then     dynamotest.Answer // to all attempts after the script
		want     string
		by       []int // refusals
		invalid  []int // those of them that are invalid
		conflict []int
		calls    int
		tokens   int
	}{
		{name: "success", then: yes, want: "written", calls: 1, tokens: 1},
		{name: "one conflict", script: answers{conflict}, then: yes, want: "written", calls: 2, tokens: 2},
		{name: "conflict for ever", then: conflict, want: "busy", conflict: []int{1}, calls: all, tokens: all},
		{name: "conflict of both", then: dynamotest.Cancel("TransactionConflict", "TransactionConflict"), want: "busy", conflict: []int{0, 1}, calls: all, tokens: all},
		{name: "entry exists", then: dynamotest.Cancel("ConditionalCheckFailed", "None"), want: "refused", by: []int{0}, calls: 1, tokens: 1},
		{name: "balance condition", then: dynamotest.Cancel("None", "ConditionalCheckFailed"), want: "refused", by: []int{1}, calls: 1, tokens: 1},
		{name: "both conditions", then: dynamotest.Cancel("ConditionalCheckFailed", "ConditionalCheckFailed"), want: "refused", by: []int{0, 1}, calls: 1, tokens: 1},
		{name: "condition beside conflict", then: dynamotest.Cancel("ConditionalCheckFailed", "TransactionConflict"), want: "refused", by: []int{0}, calls: 1, tokens: 1},
		{name: "condition beside throttling", then: dynamotest.Cancel("ThrottlingError", "ConditionalCheckFailed"), want: "refused", by: []int{1}, calls: 1, tokens: 1},
		{name: "invalid", then: dynamotest.Cancel("None", "ValidationError"), want: "refused", by: []int{1}, invalid: []int{1}, calls: 1, tokens: 1},
		{name: "invalid beside condition", then: dynamotest.Cancel("ConditionalCheckFailed", "ValidationError"), want: "refused", by: []int{0, 1}, invalid: []int{1}, calls: 1, tokens: 1},
		{name: "invalid beside conflict", then: dynamotest.Cancel("TransactionConflict", "ValidationError"), want: "refused", by: []int{1}, invalid: []int{1}, calls: 1, tokens: 1},
		{name: "conflict beside throttling", then: dynamotest.Cancel("ThrottlingError", "TransactionConflict"), want: "busy", conflict: []int{1}, calls: all, tokens: all},
		{name: "throttled once", script: answers{throttle}, then: yes, want: "written", calls: 2, tokens: 2},
		{name: "reason ThrottlingError", then: throttle, want: "busy", calls: all, tokens: all},
		{name: "reason ProvisionedThroughputExceeded", then: dynamotest.Cancel("None", "ProvisionedThroughputExceeded"), want: "busy", calls: all, tokens: all},
		{name: "ThrottlingException", then: dynamotest.Fail("ThrottlingException", ""), want: "busy", calls: all, tokens: all},
		{name: "ProvisionedThroughputExceededException", then: dynamotest.Fail("ProvisionedThroughputExceededException", ""), want: "busy", calls: all, tokens: all},
		{name: "RequestLimitExceeded", then: dynamotest.Fail("RequestLimitExceeded", ""), want: "busy", calls: all, tokens: all},
		{name: "collection too large", then: dynamotest.Cancel("None", "ItemCollectionSizeLimitExceeded"), want: "error", calls: 1, tokens: 1},
		{name: "reason of tomorrow beside conflict", then: dynamotest.Cancel("TransactionConflict", "SomethingNew"), want: "error", calls: 1, tokens: 1},
		{name: "no reason at all", then: dynamotest.Cancel("None", "None"), want: "error", calls: 1, tokens: 1},
		{name: "fewer reasons than writes", then: dynamotest.Cancel("ConditionalCheckFailed"), want: "error", calls: 1, tokens: 1},
		{name: "more reasons than writes", then: dynamotest.Cancel("None", "None", "ConditionalCheckFailed"), want: "error", calls: 1, tokens: 1},
		{name: "ValidationException", then: dynamotest.Fail("ValidationException", "an empty key value"), want: "error", calls: 1, tokens: 1},
		{name: "text that looks like a condition", then: dynamotest.Fail("ValidationException", "ConditionalCheckFailed"), want: "error", calls: 1, tokens: 1},
		{name: "text that looks like a conflict", then: dynamotest.Fail("AccessDeniedException", "TransactionConflict, ThrottlingException"), want: "error", calls: 1, tokens: 1},
		{name: "no such table", then: dynamotest.Fail("ResourceNotFoundException", ""), want: "error", calls: 1, tokens: 1},
		{name: "token with other parameters", then: dynamotest.Fail("IdempotentParameterMismatchException", ""), want: "error", calls: 1, tokens: 1},
		{name: "in progress, then done", script: answers{cut, dynamotest.Fail("TransactionInProgressException", "")}, then: yes, want: "written", calls: 3, tokens: 1},
		{name: "in progress for ever", then: dynamotest.Fail("TransactionInProgressException", ""), want: "error", calls: all, tokens: 1},
		{name: "server error, then done", script: answers{dynamotest.Fail("InternalServerError", "")}, then: yes, want: "written", calls: 2, tokens: 1},
		{name: "server error for ever", then: dynamotest.Fail("InternalServerError", ""), want: "error", calls: all, tokens: 1},
		{name: "503 of something in between", script: answers{dynamotest.Reply(503, "<html>ConditionalCheckFailed</html>")}, then: yes, want: "written", calls: 2, tokens: 1},
		{name: "503 with the name of an exception", script: answers{dynamotest.Reply(503, `{"__type":"ServiceUnavailable"}`)}, then: yes, want: "written", calls: 2, tokens: 1},
		{name: "success that is no JSON", script: answers{dynamotest.Reply(200, "<html>")}, then: yes, want: "written", calls: 2, tokens: 1},
		{name: "connection cut", script: answers{cut, cut}, then: yes, want: "written", calls: 3, tokens: 1},
		{name: "cut for ever", then: cut, want: "error", calls: all, tokens: 1},
		{name: "conflict, then cut, then done", script: answers{conflict, cut}, then: yes, want: "written", calls: 3, tokens: 2},
		{name: "cut, then throttled for ever", script: answers{cut}, then: throttle, want: "error", calls: all, tokens: 1},
		{name: "cut, then conflict for ever", script: answers{cut}, then: conflict, want: "error", calls: all, tokens: 1},
		{name: "throttled, cut, throttled for ever", script: answers{throttle, cut}, then: throttle, want: "error", calls: all, tokens: 2},
		{name: "cut, then throttled, then done", script: answers{cut, throttle}, then: yes, want: "written", calls: 3, tokens: 1},
		{name: "cut, then refused", script: answers{cut}, then: dynamotest.Cancel("ConditionalCheckFailed", "None"), want: "refused", by: []int{0}, calls: 2, tokens: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, faults, _ := scripted(t, nil)
			faults.Script("TransactWriteItems", c.script...)
			faults.Always("TransactWriteItems", c.then)
			err := s.Transact(t.Context(), grant()...)
			if got := outcome(err); got != c.want {
				t.Fatalf("Transact = %s (%v), want %s", got, err, c.want)
			}
			calls := faults.Calls("")
			if len(calls) != c.calls || distinct(calls) != c.tokens {
				t.Errorf("sent %d times with %d tokens, want %d times with %d", len(calls), distinct(calls), c.calls, c.tokens)
			}
			var busy *store.Busy
			if errors.As(err, &busy) && !slices.Equal(busy.Conflicts, c.conflict) {
				t.Errorf("conflicts %v, want %v", busy.Conflicts, c.conflict)
			}
			var refused *store.Refused
			if !errors.As(err, &refused) {
				return
			}
			var by, invalid []int
			for _, r := range refused.By {
				by = append(by, r.Index)
				if r.Invalid != "" {
					invalid = append(invalid, r.Index)
				}
				if want := grant()[r.Index].Key; r.Old.Key != want {
					t.Errorf("refusal of write %d has key %s, want %s", r.Index, r.Old.Key, want)
				}
			}
			if !slices.Equal(by, c.by) || !slices.Equal(invalid, c.invalid) {
				t.Errorf("refused by %v, of them invalid %v, want %v and %v", by, invalid, c.by, c.invalid)
			}
		})
	}
}

// A single write on a plain table is a request of its own. It is repeated only while it certainly did not happen.
func TestEveryAnswerToASingleWriteHasItsMeaning(t *testing.T) {
	t.Parallel()
	const all = 7
	writes := map[string]store.Write{
		"PutItem":    store.Put(key(alpha, "p", "a"), store.Attrs{"n": 1}),
		"UpdateItem": store.Update(key(alpha, "p", "a"), nil, map[string]int64{"n": 1}),
		"DeleteItem": store.Delete(key(alpha, "p", "a")),
	}
	cases := []struct {
		name   string
		script answers
		then   dynamotest.Answer
		want   string
		calls  int
	}{
		{"success", nil, yes, "written", 1},
		{"condition", nil, dynamotest.Fail("ConditionalCheckFailedException", ""), "refused", 1},
		{"invalid", nil, dynamotest.Fail("ValidationException", "an operand has an incorrect data type"), "refused", 1},
		{"throttled", answers{dynamotest.Fail("ThrottlingException", ""), dynamotest.Fail("ProvisionedThroughputExceededException", "")}, yes, "written", 3},
		{"throttled for ever", nil, dynamotest.Fail("RequestLimitExceeded", ""), "busy", all},
		{"conflict", answers{dynamotest.Fail("TransactionConflictException", "")}, yes, "written", 2},
		{"conflict for ever", nil, dynamotest.Fail("TransactionConflictException", ""), "busy", all},
		{"cut", nil, cut, "error", 1},
		{"cut after throttling", answers{dynamotest.Fail("ThrottlingException", "")}, cut, "error", 2},
		{"server error", nil, dynamotest.Fail("InternalServerError", ""), "error", 1},
		{"503", nil, dynamotest.Reply(503, ""), "error", 1},
		{"no such table", nil, dynamotest.Fail("ResourceNotFoundException", ""), "error", 1},
		{"success that is no JSON", nil, dynamotest.Reply(200, "<html>"), "error", 1},
	}
	for _, c := range cases {
		for op, w := range writes {
			t.Run(c.name+" of "+op, func(t *testing.T) {
				t.Parallel()
				s, faults, _ := scripted(t, nil)
				faults.Script(op, c.script...)
				faults.Always(op, c.then)
				err := s.Transact(t.Context(), w)
				if got := outcome(err); got != c.want {
					t.Fatalf("Transact = %s (%v), want %s", got, err, c.want)
				}
				if got := len(faults.Calls("")); got != c.calls {
					t.Errorf("sent %d times, want %d", got, c.calls)
				}
				var busy *store.Busy
				if errors.As(err, &busy) && strings.Contains(c.name, "conflict") != slices.Equal(busy.Conflicts, []int{0}) {
					t.Errorf("conflicts %v of %q", busy.Conflicts, c.name)
				}
				var refused *store.Refused
				if errors.As(err, &refused) && (len(refused.By) != 1 || (refused.By[0].Invalid != "") != (c.name == "invalid")) {
					t.Errorf("refused by %+v", refused.By)
				}
			})
		}
	}
}

func TestWhichRequestAWriteBecomes(t *testing.T) {
	t.Parallel()
	a, g := key(alpha, "p", "a"), key(gold, "p", "a")
	for _, c := range []struct {
		name   string
		writes []store.Write
		want   string
	}{
		{"plain put", []store.Write{store.Put(a, store.Attrs{})}, "PutItem"},
		{"plain update", []store.Write{store.Update(a, store.Attrs{"x": 1}, nil)}, "UpdateItem"},
		{"plain update that adds", []store.Write{store.Update(a, nil, map[string]int64{"n": 1})}, "UpdateItem"},
		{"plain delete", []store.Write{store.Delete(a)}, "DeleteItem"},
		{"plain check", []store.Write{store.Check(a, store.Absent())}, "TransactWriteItems"},
		{"two plain writes", []store.Write{store.Put(a, store.Attrs{}), store.Delete(key(alpha, "p", "b"))}, "TransactWriteItems"},
		{"ledger put", []store.Write{store.Put(g, store.Attrs{})}, "TransactWriteItems"},
		{"ledger update", []store.Write{store.Update(g, nil, map[string]int64{"n": 1})}, "TransactWriteItems"},
		{"ledger delete", []store.Write{store.Delete(g)}, "TransactWriteItems"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, faults, _ := scripted(t, nil)
			faults.Always(c.want, yes)
			if err := s.Transact(t.Context(), c.writes...); err != nil {
				t.Fatal(err)
			}
			calls := faults.Calls("")
			if len(calls) != 1 || calls[0].Op != c.want {
				t.Fatalf("sent %+v, want one %s", calls, c.want)
			}
			if (calls[0].Token != "") != (c.want == "TransactWriteItems") {
				t.Errorf("token %q", calls[0].Token)
			}
		})
	}
}

// TXN-07: errors are told apart by type and code through any wrapping; text says nothing.
func TestErrorsAreJudgedByTypeThroughAnyWrapping(t *testing.T) {
	t.Parallel()
	cancelled := &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("ConditionalCheckFailed")}, {Code: aws.String("None")}}}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"cancelled", cancelled, "refused"},
		{"cancelled in an operation", &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "TransactWriteItems", Err: cancelled}, "refused"},
		{"wrapped twice", fmt.Errorf("grant: %w", fmt.Errorf("try: %w", &smithy.OperationError{Err: cancelled})), "refused"},
		{"the text of it", errors.New(fmt.Errorf("grant: %w", &smithy.OperationError{Err: cancelled}).Error()), "unanswered"},
		{"text with the code", errors.New("TransactionCanceledException: ConditionalCheckFailed"), "unanswered"},
		{"other exception with the code in its text", &types.InternalServerError{Message: aws.String("[ConditionalCheckFailed, None]")}, "unanswered"},
		{"conflict by code", fmt.Errorf("x: %w", &smithy.GenericAPIError{Code: "TransactionConflictException"}), "conflict"},
		{"conflict by text", &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "TransactionConflictException"}, "permanent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := dynamo.Judge(grant(), c.err); got != c.want {
				t.Errorf("verdict %s, want %s", got, c.want)
			}
		})
	}
}

func TestPausesAreRandomAndDoubleUpToTheirSum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		then dynamotest.Answer
		base time.Duration
	}{{"conflict", conflict, 25 * time.Millisecond}, {"throttling", throttle, 100 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			seen := map[time.Duration]bool{}
			for range 20 {
				s, faults, clock := scripted(t, nil)
				faults.Always("TransactWriteItems", c.then)
				if err := s.Transact(t.Context(), grant()...); outcome(err) != "busy" {
					t.Fatal(err)
				}
				if len(clock.pauses) != 6 {
					t.Fatalf("%d pauses, want 6", len(clock.pauses))
				}
				for i, p := range clock.pauses {
					if most := c.base << i; p < 0 || p >= most {
						t.Errorf("pause %d is %s, want less than %s", i, p, most)
					}
					seen[p] = true
				}
			}
			if len(seen) < 60 {
				t.Errorf("only %d different pauses of 120: no jitter", len(seen))
			}
		})
	}
}

// TXN-12: a token is good for 10 minutes. Later the same request would happen again, so a call that could not be answered in that time ends.
func TestATokenIsNotUsedWhenItIsOld(t *testing.T) {
	t.Parallel()
	s, faults, clock := scripted(t, nil)
	clock.leap = 4 * time.Minute
	faults.Always("TransactWriteItems", cut)
	err := s.Transact(t.Context(), grant()...)
	if outcome(err) != "error" || len(faults.Calls("")) != 3 { // at 0, 4 and 8 minutes
		t.Errorf("Transact = %v after %d attempts, want an error after 3", err, len(faults.Calls("")))
	}

	s, faults, clock = scripted(t, nil)
	clock.leap = 11 * time.Minute
	faults.Script("TransactWriteItems", throttle, throttle, throttle)
	faults.Always("TransactWriteItems", yes)
	if err := s.Transact(t.Context(), grant()...); err != nil {
		t.Errorf("Transact = %v, want nil: every attempt had an answer, so each has its own token", err)
	}
	if got := distinct(faults.Calls("")); got != 4 {
		t.Errorf("%d tokens, want 4", got)
	}
}
