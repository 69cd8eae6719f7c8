package dynamo

import "hanbeon/pkg/store"

// Judge names the verdict on an error, for tests of errors that do not come over the wire.
func Judge(writes []store.Write, err error) string {
	return map[verdict]string{
		unanswered: "unanswered", refused: "refused", conflict: "conflict", throttled: "throttled", permanent: "permanent",
	}[judge(writes, err).verdict]
}
