package dynamo

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"hanbeon/pkg/store"
)

// verdict is what one answer, or its absence, says about an attempt.
type verdict int

const (
	unanswered verdict = iota + 1 // nobody knows whether it was carried out
	refused                       // nothing was written, and the same attempt would be refused again
	conflict                      // nothing was written; another transaction held an item
	throttled                     // nothing was written or read; there was no capacity
	permanent                     // nothing was done, and repeating it is of no use
)

// answer is a verdict with what the caller may want to know.
type answer struct {
	verdict   verdict
	code      string         // DynamoDB's word for it, "" without an answer
	refused   *store.Refused // of refused
	conflicts []int          // of conflict: indexes of the writes
}

// Codes by which DynamoDB says that there was no capacity: of exceptions, and of the reasons within a cancellation (API reference, "Common errors" and TransactWriteItems).
var throttles = map[string]bool{
	"ThrottlingException": true, "Throttling": true, "RequestThrottled": true, "RequestThrottledException": true, "TooManyRequestsException": true,
	"ProvisionedThroughputExceededException": true, "RequestLimitExceeded": true,
	"ThrottlingError": true, "ProvisionedThroughputExceeded": true,
}

// Codes by which it says that another write held the item.
var conflicts = map[string]bool{
	"TransactionConflict": true, "TransactionConflictException": true, "ReplicatedWriteConflictException": true,
}

const (
	codeCondition  = "ConditionalCheckFailed" // reasons of a cancellation
	codeValidation = "ValidationError"
	codeNone       = "None"

	codeInvalid    = "ValidationException" // exceptions
	codeInProgress = "TransactionInProgressException"
)

// judge says what an error tells about an attempt at writes. It goes by types and codes, never by text: a message may quote anything.
func judge(writes []store.Write, err error) answer {
	var cancelled *types.TransactionCanceledException
	if errors.As(err, &cancelled) {
		return judgeReasons(writes, cancelled.CancellationReasons)
	}
	a := classify(err)
	if len(writes) != 1 {
		return a // which of several writes was meant is not said
	}
	var condition *types.ConditionalCheckFailedException
	switch {
	case errors.As(err, &condition):
		a.verdict, a.refused = refused, &store.Refused{By: []store.Refusal{explain(0, writes[0], condition.Item)}}
	case a.code == codeInvalid:
		var api smithy.APIError
		errors.As(err, &api)
		a.verdict, a.refused = refused, &store.Refused{By: []store.Refusal{invalid(0, writes[0], api.ErrorMessage())}}
	case a.verdict == conflict:
		a.conflicts = []int{0}
	}
	return a
}

// classify sorts any error of a request, read or write.
func classify(err error) answer {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return answer{verdict: unanswered} // timeout, cut, a body that is no answer
	}
	code := api.ErrorCode()
	var response *smithyhttp.ResponseError
	failing := api.ErrorFault() == smithy.FaultServer || errors.As(err, &response) && response.HTTPStatusCode() >= 500
	switch {
	case throttles[code]:
		return answer{verdict: throttled, code: code}
	case conflicts[code]:
		return answer{verdict: conflict, code: code}
	case failing, code == codeInProgress:
		return answer{verdict: unanswered, code: code}
	}
	return answer{verdict: permanent, code: code}
}

// judgeReasons reads a cancelled transaction, of which DynamoDB says that nothing was written. The reasons stand in the order of the writes. A write that is refused
// decides: the others need not be repeated to know that this transaction will not happen.
func judgeReasons(writes []store.Write, reasons []types.CancellationReason) answer {
	if len(reasons) != len(writes) {
		return answer{verdict: permanent, code: fmt.Sprintf("%d reasons for %d writes", len(reasons), len(writes))}
	}
	var by []store.Refusal
	var held []int
	var busy, odd string
	for i, r := range reasons {
		code, message := deref(r.Code), deref(r.Message)
		switch {
		case code == codeNone || code == "":
		case code == codeCondition:
			by = append(by, explain(i, writes[i], r.Item))
		case code == codeValidation:
			by = append(by, invalid(i, writes[i], message))
		case conflicts[code]:
			held, busy = append(held, i), code
		case throttles[code]:
			if busy == "" {
				busy = code
			}
		default:
			odd = code
		}
	}
	switch {
	case len(by) > 0:
		return answer{verdict: refused, code: codeCondition, refused: &store.Refused{By: by}}
	case odd != "" || busy == "":
		return answer{verdict: permanent, code: odd}
	case len(held) > 0:
		return answer{verdict: conflict, code: busy, conflicts: held}
	}
	return answer{verdict: throttled, code: busy}
}

// explain turns a false condition into a refusal. The condition DynamoDB tested includes the guards of numbers that are added, so the write is applied to the item as it
// stood to tell which of them it was.
func explain(index int, w store.Write, item map[string]types.AttributeValue) store.Refusal {
	old := store.Item{Key: w.Key}
	if len(item) > 0 {
		var err error
		if old, err = fromItem(w.Key.Table, item); err != nil {
			return invalid(index, w, err.Error())
		}
	}
	r := store.Refusal{Old: old}
	if _, why := w.Apply(old.Attrs); why != nil {
		r = *why
	}
	r.Index = index
	return r
}

func invalid(index int, w store.Write, why string) store.Refusal {
	if why == "" {
		why = "the service found the write invalid and did not say why"
	}
	return store.Refusal{Index: index, Old: store.Item{Key: w.Key}, Invalid: why}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
