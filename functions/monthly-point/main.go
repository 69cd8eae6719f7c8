// Command monthly-point grants the points of a month, one posting per message.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/cloud"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables:  []store.Table{job.Table},
		Ledgers: []store.Table{monthlypoint.Table},
		Queues:  []queue.Name{queue.Name(monthlypoint.Name)},
	})
	handler := worker.NewBulk(c.Env, monthlypoint.New(c.Store, c.Zone)).Handle
	lambda.Start(handler)
}
