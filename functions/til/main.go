// Command til writes the TIL of a member's day, one job per message.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/cloud"
	"hanbeon/pkg/cloud/aiserver"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
	"hanbeon/pkg/worker"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables: []store.Table{job.Table, catalog.Table, til.Table},
		Queues: []queue.Name{queue.Name(til.Name)},
		Model:  aiserver.New,
	})
	handler := worker.NewSingle(c.Env, til.New(c.Store, c.Zone, c.Model)).Handle
	lambda.Start(handler)
}
