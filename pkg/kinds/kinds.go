// Package kinds lists the kinds of jobs there are.
package kinds

import (
	"time"

	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/store"
)

// All is every kind, on a store and in the business time zone. A new kind is added here, by hand; nothing registers itself.
func All(s store.Store, zone *time.Location) []job.Kind {
	return []job.Kind{
		monthlypoint.New(s, zone),
		til.New(s, zone, nil), // a model is for the worker alone
	}
}
