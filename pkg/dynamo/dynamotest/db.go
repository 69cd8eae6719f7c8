package dynamotest

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/dynamo"
	"hanbeon/pkg/store"
)

// transport keeps connections for many parallel requests; the standard one keeps two.
var transport = &http.Transport{MaxIdleConnsPerHost: 100}

// DB is a set of fresh, empty tables on the emulator, and a client of theirs.
type DB struct {
	Client *dynamodb.Client
	Tables map[store.Table]string // logical to real name: what dynamo.Config wants
	Faults *Faults                // between this client and the emulator; nothing happens until it is told to
}

// Open makes tables for one test and drops them after it. The emulator is shared by the tests of a package and ends with them. If it is not installed the test is skipped,
// or fails where the environment variable HANBEON_REQUIRE_TOOLS is 1.
func Open(t testing.TB, tables ...store.Table) *DB {
	t.Helper()
	faults := &Faults{next: transport}
	db := &DB{Client: NewClient(endpoint(t), faults), Tables: map[store.Table]string{}, Faults: faults}
	direct := NewClient(endpoint(t), transport)
	for _, table := range tables {
		name := string(table) + "-" + rand.Text()
		_, err := direct.CreateTable(context.Background(), &dynamodb.CreateTableInput{
			TableName:   &name,
			BillingMode: types.BillingModePayPerRequest,
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
			},
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
			},
		})
		if err != nil {
			t.Fatalf("create table %s: %v", name, err)
		}
		db.Tables[table] = name
		t.Cleanup(func() {
			if _, err := direct.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("drop table %s: %v", name, err)
			}
		})
	}
	return db
}

// Store is the store on the tables. It waits between attempts like the real one, but gives a loaded machine more time for an answer.
func (db *DB) Store(t testing.TB, ledgers ...store.Table) *dynamo.Store {
	t.Helper()
	s, err := dynamo.New(db.Client, dynamo.Config{Tables: db.Tables, Ledgers: ledgers, AttemptTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// NewClient is a client of any endpoint through any transport: for answers that no emulator gives, the transport of NewFaults.
func NewClient(endpoint string, t http.RoundTripper) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "ap-northeast-2",
		BaseEndpoint: &endpoint,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
		HTTPClient: &http.Client{Transport: t},
	})
}
