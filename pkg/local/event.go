package local

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"hanbeon/pkg/queue"
)

// record is one message of a delivery.
type record struct {
	id, receipt, body string
	receives          int
	sent, first       time.Time
}

// sqsEvent is the event that Lambda makes of a batch. It is written by hand because it is made for every message, and encoding/json would be the slowest part of a delivery.
func sqsEvent(from queue.Name, records []record) []byte {
	b := make([]byte, 0, len(records)*640)
	b = append(b, `{"Records":[`...)
	for i, r := range records {
		if i > 0 {
			b = append(b, ',')
		}
		sum := md5.Sum([]byte(r.body))
		b = append(b, `{"messageId":"`...)
		b = append(b, r.id...)
		b = append(b, `","receiptHandle":"`...)
		b = append(b, r.receipt...)
		b = append(b, `","body":`...)
		b = appendString(b, r.body)
		b = append(b, `,"attributes":{"ApproximateReceiveCount":"`...)
		b = strconv.AppendInt(b, int64(r.receives), 10)
		b = append(b, `","SentTimestamp":"`...)
		b = strconv.AppendInt(b, r.sent.UnixMilli(), 10)
		b = append(b, `","SenderId":"`+stackName+`","ApproximateFirstReceiveTimestamp":"`...)
		b = strconv.AppendInt(b, r.first.UnixMilli(), 10)
		b = append(b, `"},"messageAttributes":{},"md5OfBody":"`...)
		b = hex.AppendEncode(b, sum[:])
		b = append(b, `","eventSource":"aws:sqs","eventSourceARN":"`...)
		b = append(b, arnOf(from)...)
		b = append(b, `","awsRegion":"`+region+`"}`...)
	}
	return append(b, `]}`...)
}

// appendString is a JSON string. The common body has only quotes to escape.
func appendString(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always marshals
			}
			return append(b[:start], quoted...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// readAnswer finds the failed messages in an answer, by the rules of Lambda (Developer Guide, "Implementing partial batch responses"): null, an empty object and an empty
// list are success; what is not JSON of that form, an empty id and an id that was not in the batch are an error, and the whole batch returns.
func readAnswer(answer []byte, records []record) (failed map[string]bool, err error) {
	answer = bytes.TrimSpace(answer)
	switch string(answer) {
	case "null", "[]", "{}", `{"batchItemFailures":[]}`:
		return nil, nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(answer, &object); err != nil {
		return nil, errors.New("want a JSON object with batchItemFailures")
	}
	list := object["batchItemFailures"]
	if list == nil {
		return nil, nil
	}
	var items []map[string]any
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, errors.New("batchItemFailures is not a list of objects")
	}
	known := map[string]bool{}
	for _, r := range records {
		known[r.id] = true
	}
	failed = map[string]bool{}
	for i, item := range items {
		id, ok := item["itemIdentifier"].(string)
		if !ok || !known[id] {
			return nil, fmt.Errorf("batchItemFailures[%d]: itemIdentifier is missing, empty or not in the batch", i)
		}
		failed[id] = true
	}
	return failed, nil
}
