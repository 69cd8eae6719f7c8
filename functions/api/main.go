// Command api answers the requests of the HTTP API.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/api"
	"hanbeon/pkg/api/gateway"
	"hanbeon/pkg/catalog"
	"hanbeon/pkg/cloud"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables:  []store.Table{job.Table, catalog.Table, til.Table},
		Ledgers: []store.Table{monthlypoint.Table},
		Queues:  []queue.Name{queue.Segments, queue.Name(til.Name)},
	})
	handler := gateway.New(api.New(c.Env, c.Zone), c.Log).Handle
	lambda.Start(handler)
}
