package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// What the samples speak of.
const (
	members = 100 // member-1 and up, so that every segment has some
	period  = once.Period("2024-04")
	day     = once.Period("2024-04-15")
	member  = "member-42"
)

func (w *world) client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: region, BaseEndpoint: &w.address,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "local", SecretAccessKey: "local"}, nil
		}),
	})
}

// tables are those of events/env.json.
func (w *world) tables() map[store.Table]string {
	all := map[store.Table]string{}
	for name, table := range w.values {
		if logical, ok := strings.CutPrefix(name, "TABLE_"); ok {
			all[store.Table(strings.ToLower(logical))] = table
		}
	}
	return all
}

func (w *world) makeTables(ctx context.Context) error {
	client := w.client()
	for _, name := range w.tables() {
		_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName: &name, BillingMode: types.BillingModePayPerRequest,
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange}},
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS}},
		})
		if err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil
}

var jobInEvent = regexp.MustCompile(`\\"job\\":\\"([^"\\]+)\\"`)

// seed makes what an event speaks of: the members, a member's notes, and the jobs its messages name.
func (w *world) seed(ctx context.Context, event []byte) error {
	db, err := dynamo.New(w.client(), dynamo.Config{Tables: w.tables(), Ledgers: []store.Table{monthlypoint.Table}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	zone, err := time.LoadLocation(w.values["BUSINESS_ZONE"])
	if err != nil {
		return err
	}
	if err := seedCatalog(ctx, catalog.New(db)); err != nil {
		return err
	}
	jobs := job.NewStore(db, func() time.Time { return time.Now().UTC().Truncate(time.Millisecond) })
	for _, found := range jobInEvent.FindAllStringSubmatch(string(event), -1) {
		if err := openJob(ctx, jobs, db, zone, found[1]); err != nil {
			return fmt.Errorf("job %s of the event: %w", found[1], err)
		}
	}
	return nil
}

func seedCatalog(ctx context.Context, c *catalog.Catalog) error {
	var all []catalog.Member
	for n := 1; n <= members; n++ {
		all = append(all, catalog.Member{ID: fmt.Sprintf("member-%d", n), Status: catalog.Active, JoinedAt: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)})
	}
	if _, err := c.PutMembers(ctx, all); err != nil {
		return err
	}
	_, err := c.PutNotes(ctx, []catalog.Note{
		{ID: "note-1", Member: member, Date: day, Text: "A conditional write says who was first; reading before writing does not."},
		{ID: "note-2", Member: member, Date: day, Text: "A message may come twice, so the second must find nothing left to do."},
	})
	return err
}

// openJob opens a job under the id that a message names, unless it is there.
func openJob(ctx context.Context, jobs *job.Store, db store.Store, zone *time.Location, id string) error {
	if _, err := jobs.Find(ctx, id); !errors.Is(err, job.ErrNoSuchJob) {
		return err
	}
	kind, _, err := job.ParseID(id)
	if err != nil {
		return err
	}
	var opening job.Opening
	switch kind {
	case monthlypoint.Name:
		k := monthlypoint.New(db, zone)
		due := k.Calendar(period, time.Now())
		if len(due) == 0 {
			return fmt.Errorf("the calendar knows no %s", period)
		}
		opening, err = k.Open(due[0].Scheduled, json.RawMessage(monthlypoint.Inputs(100)))
	case til.Name:
		opening, err = til.New(db, zone, nil).Opening(member, day)
	default:
		err = fmt.Errorf("no sample is of kind %s", kind)
	}
	if err != nil {
		return err
	}
	j, _, err := jobs.Open(ctx, job.Request{Opening: opening, ID: id, RequestedBy: "make invoke"})
	if err == nil && !j.Single() {
		_, err = jobs.Start(ctx, j) // as the first fan-out does: before that, workers hand back
	}
	return err
}
