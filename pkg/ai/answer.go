package ai

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"hanbeon/pkg/job"
)

// content is the text of the first choice.
func content(r openai.ChatCompletionResponse) (string, error) {
	if len(r.Choices) == 0 {
		return "", bad("it has no choice")
	}
	choice := r.Choices[0]
	text, refusal := choice.Message.Content, choice.Message.Refusal != ""
	for _, part := range choice.Message.MultiContent { // some servers send a list, in which a model's thoughts stand beside its text
		switch part.Type {
		case openai.ChatMessagePartTypeText:
			text += part.Text
		case "refusal":
			refusal = true
		}
	}
	switch {
	case refusal:
		return "", job.Permanent(ReasonRefused, errors.New("the model refuses to answer"))
	case choice.FinishReason == openai.FinishReasonContentFilter:
		return "", job.Permanent(ReasonRefused, errors.New("a content filter of the AI server stopped the answer"))
	case choice.FinishReason == openai.FinishReasonLength:
		return "", bad("it is cut off at the longest that the model may write")
	case strings.TrimSpace(text) == "":
		return "", bad("it is empty")
	}
	return text, nil
}

// bad is the error of an answer that is none.
func bad(why string) error {
	return job.Later(ReasonBadAnswer, 0, errors.New("the answer of the AI server is of no use: "+why))
}

// byStatus is the error of an answer by its status, 400 and up. detail is "" or what the server says about it.
func byStatus(status int, after time.Duration, detail string) error {
	err := fmt.Errorf("the AI server answered %d%s", status, detail)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return job.Later(ReasonUnauthorised, 0, err)
	case status == http.StatusTooManyRequests:
		return job.Later(ReasonBusy, after, err)
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status >= http.StatusInternalServerError:
		return job.Later(ReasonError, after, err)
	}
	return job.Permanent(ReasonRefused, err)
}

// The bounds of what a server may ask for with Retry-After: the longest is as long as a message can be put off.
const (
	shortestWait = time.Second
	longestWait  = 15 * time.Minute
)

// retryAfter is the pause of a Retry-After header, in seconds or as a date (RFC 9110, 10.2.3), within the bounds. 0: there is none, or it is neither.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	seconds, err := strconv.ParseInt(header, 10, 64) // what is out of range comes back as the nearest number
	wait := time.Duration(min(max(seconds, 0), int64(longestWait/time.Second))) * time.Second
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		at, err := http.ParseTime(header)
		if err != nil {
			return 0
		}
		wait = at.Sub(now)
	}
	return min(max(wait, shortestWait), longestWait)
}

// code is what an error code of a server looks like.
var code = regexp.MustCompile(`^[a-z0-9_.-]{1,40}$`)

// The shortest pieces of what was sent that an error code may not share with it.
const (
	pieceOfKey    = 6
	pieceOfPrompt = 12
)

// codes is what may be said of the server's error beside its status: ` (invalid_request_error, model_not_found)`, or "".
func codes(err error, key string, q openai.ChatCompletionRequest) string {
	var said *openai.APIError
	if !errors.As(err, &said) {
		return ""
	}
	var quoted []string
	for _, word := range []string{said.Type, fmt.Sprint(said.Code)} {
		leak := share(word, key, pieceOfKey)
		for _, m := range q.Messages {
			leak = leak || share(word, m.Content, pieceOfPrompt)
		}
		if code.MatchString(word) && !leak {
			quoted = append(quoted, word)
		}
	}
	if len(quoted) == 0 {
		return ""
	}
	return " (" + strings.Join(quoted, ", ") + ")"
}

// share tells whether word and secret have a piece of so many bytes in common, in any case of letters; of shorter ones, all of the shorter.
func share(word, secret string, piece int) bool {
	secret = strings.ToLower(secret)
	piece = min(piece, len(word), len(secret))
	if piece == 0 {
		return false
	}
	for i := range len(word) - piece + 1 {
		if strings.Contains(secret, word[i:i+piece]) {
			return true
		}
	}
	return false
}
