// Command reaper sends again what was lost and settles what died, each minute.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"hanbeon/pkg/cloud"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/queue"
	"hanbeon/pkg/reaper"
	"hanbeon/pkg/store"
)

func main() {
	c := cloud.MustLoad(cloud.Needs{
		Tables:   []store.Table{job.Table},
		Ledgers:  []store.Table{monthlypoint.Table},
		Queues:   []queue.Name{queue.Segments, queue.Name(monthlypoint.Name), queue.Name(til.Name)},
		Calendar: true,
	})
	handler := reaper.New(c.Env, c.Calendar, kinds.All(c.Store, c.Zone)...).Handle
	lambda.Start(handler)
}
