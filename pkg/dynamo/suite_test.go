package dynamo_test

import (
	"testing"

	"hanbeon/pkg/dynamo/dynamotest"
	"hanbeon/pkg/store"
	"hanbeon/pkg/store/storetest"
)

func TestTheStoreConforms(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		return dynamotest.Open(t, storetest.Alpha, storetest.Beta, storetest.Gold).Store(t, storetest.Gold)
	})
}
