package local

import (
	"crypto/rand"
	"net/http"
	"time"

	"hanbeon/pkg/api/sigv4"
)

// Region is the region of a laptop: requests are signed for it.
const Region = region

// NewKey makes up the access key of a laptop's caller. AWS does not know it, and it opens nothing but the API of a stack that was given it.
func NewKey() sigv4.Key {
	return sigv4.Key{ID: "LOCAL" + rand.Text()[:15], Secret: rand.Text() + rand.Text()[:14], ARN: "arn:aws:iam::" + account + ":user/local"}
}

// API is the API of the stack as a caller meets it: signatures of these keys are verified, then the request goes through Gateway. The stack must run. The time of signatures is the wall's.
func (s *Stack) API(keys ...sigv4.Key) (http.Handler, error) {
	front, err := s.Gateway()
	if err != nil {
		return nil, err
	}
	v := sigv4.NewVerifier(keys, Region, time.Now)
	v.Log = s.log
	return v.Wrap(front), nil
}
