package sqs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"hanbeon/pkg/queue"
)

// escape makes a JSON body that SQS takes, or says why there is none. SQS allows #x9, #xA, #xD, #x20 to #xD7FF, #xE000 to #xFFFD and #x10000 to #x10FFFF
// (SendMessage, "MessageBody") and refuses the whole request for one other character. Go's JSON encoder escapes control characters but lets U+FFFE and U+FFFF
// through; in valid JSON these stand inside strings only, where \ufffe means the same.
func escape(body string) (string, error) {
	if body == "" {
		return "", errors.New("the body is empty")
	}
	if !utf8.ValidString(body) {
		return "", errors.New("the body is not valid UTF-8")
	}
	if r := firstIllegal(body); r >= 0 {
		if r < ' ' || !json.Valid([]byte(body)) {
			return "", fmt.Errorf("the body contains %U, which SQS does not take, and is not JSON in which it could be escaped", r)
		}
		body = strings.NewReplacer("\uFFFE", `\ufffe`, "\uFFFF", `\uffff`).Replace(body)
	}
	if len(body) > queue.MaxBytes {
		return "", fmt.Errorf("the body has %d bytes, SQS takes %d", len(body), queue.MaxBytes)
	}
	return body, nil
}

// firstIllegal is the first character of valid UTF-8 that SQS does not take, -1 if there is none.
func firstIllegal(s string) rune {
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return r
		}
	}
	return -1
}
