// Command fanout turns the segments of a job into messages, one per subject.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/cloud"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables:  []store.Table{job.Table, catalog.Table},
		Ledgers: []store.Table{monthlypoint.Table},
		Queues:  []queue.Name{queue.Segments, queue.Name(monthlypoint.Name)},
	})
	handler := dispatch.NewFanout(c.Env, kinds.All(c.Store, c.Zone)...).Handle
	lambda.Start(handler)
}
