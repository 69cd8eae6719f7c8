// Command dispatcher opens the job of a period when EventBridge Scheduler fires.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/cloud"
	"hanbeon/pkg/dispatch"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/store"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables: []store.Table{job.Table},
		Queues: []queue.Name{queue.Segments},
	})
	handler := dispatch.NewDispatcher(c.Env, kinds.All(c.Store, c.Zone)...).Handle
	lambda.Start(handler)
}
