package dynamo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/store"
)

// Config says which tables there are and how patient the store is. The zero value of everything but Tables is the production default.
type Config struct {
	Tables  map[store.Table]string // logical to real name, one to one. A real table has the string keys "pk" and "sk"
	Ledgers []store.Table          // tables that are written in transactions only: their policy demands it
	Log     *slog.Logger           // gets each repeated attempt, at debug level; nil: nothing is logged

	AttemptTimeout time.Duration                                    // of one request, answer included; 0: 5 s
	Retries        int                                              // attempts after the first one; 0: 6, negative: none
	Sleep          func(ctx context.Context, d time.Duration) error // waits between attempts and returns early with the error of a context that ends; nil: a timer
	Now            func() time.Time                                 // for the age of a token; nil: time.Now
}

// Store is store.Store on DynamoDB. Make it with New.
type Store struct {
	client  *dynamodb.Client
	tables  map[store.Table]string
	logical map[string]store.Table // the inverse of tables
	ledgers map[store.Table]bool
	log     *slog.Logger
	timeout time.Duration
	retries int
	sleep   func(context.Context, time.Duration) error
	now     func() time.Time
	meter   store.Meter
}

var _ store.Store = (*Store)(nil)

// New makes a store on the tables of cfg. It sends nothing: a table that does not exist shows at the first call.
func New(client *dynamodb.Client, cfg Config) (*Store, error) {
	s := &Store{
		client: client, tables: map[store.Table]string{}, logical: map[string]store.Table{}, ledgers: map[store.Table]bool{},
		log: cfg.Log, timeout: cfg.AttemptTimeout, retries: max(cfg.Retries, 0), sleep: cfg.Sleep, now: cfg.Now,
	}
	if client == nil || len(cfg.Tables) == 0 {
		return nil, errors.New("dynamo store: no client or no tables")
	}
	for table, name := range cfg.Tables {
		if table == "" || name == "" {
			return nil, fmt.Errorf("dynamo store: table %q has the real name %q, both must be given", table, name)
		}
		if other, taken := s.logical[name]; taken {
			return nil, fmt.Errorf("dynamo store: tables %q and %q share the real table %q", table, other, name)
		}
		s.tables[table], s.logical[name] = name, table
	}
	for _, table := range cfg.Ledgers {
		if _, known := s.tables[table]; !known {
			return nil, fmt.Errorf("dynamo store: ledger %q is not among the tables", table)
		}
		s.ledgers[table] = true
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.timeout <= 0 {
		s.timeout = attemptTimeout
	}
	if cfg.Retries == 0 {
		s.retries = retries
	}
	if s.sleep == nil {
		s.sleep = sleep
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Meter implements store.Store. What the service reports is added up; a refusal is reported without a price and is computed by the rules of store.Meter.
// An attempt that was throttled, conflicted or got no answer adds nothing: its price is not known.
func (s *Store) Meter() *store.Meter { return &s.meter }

// Transact implements store.Store; the package comment tells what is repeated and what is not.
func (s *Store) Transact(ctx context.Context, writes ...store.Write) error {
	if err := store.Validate(writes); err != nil {
		return err
	}
	exprs := make([]expression, len(writes))
	for i, w := range writes {
		if _, err := s.table(w.Key.Table); err != nil {
			return fmt.Errorf("write %d on %s: %w", i, w.Key, err)
		}
		e, err := express(w)
		if err != nil {
			return fmt.Errorf("write %d on %s: %w", i, w.Key, err)
		}
		exprs[i] = e
	}
	if s.needsTransaction(writes) {
		return s.write(ctx, call{writes: writes, transaction: true, send: s.transaction(writes, exprs)})
	}
	return s.write(ctx, call{writes: writes, send: s.single(writes[0], exprs[0])})
}

// needsTransaction tells what cannot go as a request of its own at half the price: several writes; a ledger, whose policy demands it and whose sums must survive a lost
// answer, which only the token makes possible; and a check, for which there is no such request.
func (s *Store) needsTransaction(writes []store.Write) bool {
	w := writes[0]
	return len(writes) > 1 || s.ledgers[w.Key.Table] || w.Op == store.OpCheck
}

func (s *Store) table(t store.Table) (string, error) {
	name, known := s.tables[t]
	if !known {
		return "", fmt.Errorf("table %q is not configured", t)
	}
	return name, nil
}

// sender makes one attempt. The token is of use to transactions only.
type sender func(ctx context.Context, token string) ([]types.ConsumedCapacity, error)

// transaction sends all writes as one. The request is built once: a repeated token must come with the very same parameters.
func (s *Store) transaction(writes []store.Write, exprs []expression) sender {
	items := make([]types.TransactWriteItem, len(writes))
	for i, w := range writes {
		items[i] = s.item(w, exprs[i])
	}
	return func(ctx context.Context, token string) ([]types.ConsumedCapacity, error) {
		out, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
			TransactItems: items, ClientRequestToken: &token, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		}, noRetries)
		if err != nil {
			return nil, err
		}
		return out.ConsumedCapacity, nil
	}
}

func (s *Store) item(w store.Write, e expression) types.TransactWriteItem {
	table, allOld := aws.String(s.tables[w.Key.Table]), types.ReturnValuesOnConditionCheckFailureAllOld
	switch w.Op {
	case store.OpPut:
		return types.TransactWriteItem{Put: &types.Put{
			TableName: table, Item: e.item, ConditionExpression: e.condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	case store.OpUpdate:
		return types.TransactWriteItem{Update: &types.Update{
			TableName: table, Key: e.key, UpdateExpression: e.update, ConditionExpression: e.condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	case store.OpDelete:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: table, Key: e.key, ConditionExpression: e.condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	default:
		return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
			TableName: table, Key: e.key, ConditionExpression: e.condition,
			ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values, ReturnValuesOnConditionCheckFailure: allOld,
		}}
	}
}

// single sends one write by itself.
func (s *Store) single(w store.Write, e expression) sender {
	table, allOld, total := aws.String(s.tables[w.Key.Table]), types.ReturnValuesOnConditionCheckFailureAllOld, types.ReturnConsumedCapacityTotal
	return func(ctx context.Context, _ string) ([]types.ConsumedCapacity, error) {
		var spent *types.ConsumedCapacity
		switch w.Op {
		case store.OpPut:
			out, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
				TableName: table, Item: e.item, ConditionExpression: e.condition,
				ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
				ReturnValuesOnConditionCheckFailure: allOld, ReturnConsumedCapacity: total,
			}, noRetries)
			if err != nil {
				return nil, err
			}
			spent = out.ConsumedCapacity
		case store.OpUpdate:
			out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: table, Key: e.key, UpdateExpression: e.update, ConditionExpression: e.condition,
				ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
				ReturnValuesOnConditionCheckFailure: allOld, ReturnConsumedCapacity: total,
			}, noRetries)
			if err != nil {
				return nil, err
			}
			spent = out.ConsumedCapacity
		default:
			out, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: table, Key: e.key, ConditionExpression: e.condition,
				ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
				ReturnValuesOnConditionCheckFailure: allOld, ReturnConsumedCapacity: total,
			}, noRetries)
			if err != nil {
				return nil, err
			}
			spent = out.ConsumedCapacity
		}
		if spent == nil {
			return nil, nil
		}
		return []types.ConsumedCapacity{*spent}, nil
	}
}

// noRetries switches the SDK's own retries off.
func noRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
