package dynamo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/store"
)

const (
	batchKeys = 100 // keys in one BatchGetItem, DynamoDB's limit
	batches   = 4   // of them at once
)

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return s.get(ctx, keys, true)
}

// GetStale implements store.Store.
func (s *Store) GetStale(ctx context.Context, keys ...store.Key) ([]store.Item, error) {
	return s.get(ctx, keys, false)
}

func (s *Store) get(ctx context.Context, keys []store.Key, consistent bool) ([]store.Item, error) {
	seen := make(map[store.Key]bool, len(keys))
	distinct := make([]store.Key, 0, len(keys)) // BatchGetItem refuses a repeated key
	for _, k := range keys {
		if err := store.CheckKey(k); err != nil {
			return nil, fmt.Errorf("get: %w", err)
		}
		if _, err := s.table(k.Table); err != nil {
			return nil, fmt.Errorf("get %s: %w", k, err)
		}
		if !seen[k] {
			seen[k] = true
			distinct = append(distinct, k)
		}
	}
	found, err := s.getDistinct(ctx, distinct, consistent)
	if err != nil {
		return nil, err
	}
	items := make([]store.Item, len(keys))
	for i, k := range keys {
		items[i] = store.Item{Key: k, Attrs: found[k]}
	}
	return items, nil
}

// getDistinct reads chunk by chunk, a few at once. The first error ends the others.
func (s *Store) getDistinct(ctx context.Context, keys []store.Key, consistent bool) (map[store.Key]store.Attrs, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		found = make(map[store.Key]store.Attrs, len(keys))
		slots = make(chan struct{}, batches)
	)
	for chunk := range slices.Chunk(keys, batchKeys) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			items, err := s.batch(ctx, chunk, consistent)
			if err != nil {
				cancel(err) // the first cause stays
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, item := range items {
				found[item.Key] = item.Attrs
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return found, nil
}

// batch reads one chunk of keys. DynamoDB answers as much as it can: what it left out is asked for again, and given up only when several attempts in a row brought nothing.
func (s *Store) batch(ctx context.Context, keys []store.Key, consistent bool) ([]store.Item, error) {
	what := fmt.Sprintf("get %d items, the first %s", len(keys), keys[0])
	request := map[string]types.KeysAndAttributes{}
	for _, k := range keys {
		r := request[s.tables[k.Table]]
		r.Keys = append(r.Keys, keyAttributes(k))
		r.ConsistentRead = &consistent
		request[s.tables[k.Table]] = r
	}
	var items []store.Item
	for idle, left := 0, len(keys); left > 0; {
		var out *dynamodb.BatchGetItemOutput
		err := s.read(ctx, what, func(ctx context.Context) (err error) {
			out, err = s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems: request, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			}, noRetries)
			return err
		})
		if err != nil {
			return nil, err
		}
		got, err := s.items(out.Responses)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		items = append(items, got...)

		before := left
		request, left = remaining(out.UnprocessedKeys, consistent)
		s.meterRead(out.ConsumedCapacity, sizes(got, before-left-len(got)), !consistent)
		if left == 0 {
			break
		}
		if left < before {
			idle = 0
		} else if idle++; idle > s.retries {
			return nil, fmt.Errorf("%s: %w", what, &store.Busy{Reason: fmt.Sprintf("%d keys stayed unprocessed", left)})
		}
		if err := s.pause(ctx, throttled, idle); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	return items, nil
}

// remaining is the request for what was left out.
func remaining(unprocessed map[string]types.KeysAndAttributes, consistent bool) (map[string]types.KeysAndAttributes, int) {
	request, left := map[string]types.KeysAndAttributes{}, 0
	for name, r := range unprocessed {
		if len(r.Keys) > 0 {
			request[name] = types.KeysAndAttributes{Keys: r.Keys, ConsistentRead: &consistent}
			left += len(r.Keys)
		}
	}
	return request, left
}

func (s *Store) items(responses map[string][]map[string]types.AttributeValue) ([]store.Item, error) {
	var items []store.Item
	for name, answers := range responses {
		table, known := s.logical[name]
		if !known {
			return nil, fmt.Errorf("the answer names table %q, which was not asked", name)
		}
		for _, a := range answers {
			item, err := fromItem(table, a)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// Query implements store.Store. The cursor is the last sort key that DynamoDB looked at.
func (s *Store) Query(ctx context.Context, q store.Query) (store.Page, error) {
	what := fmt.Sprintf("query %s/%s/%s*", q.Table, q.PK, q.Prefix)
	if err := q.Check(); err != nil {
		return store.Page{}, err
	}
	name, err := s.table(q.Table)
	if err != nil {
		return store.Page{}, fmt.Errorf("%s: %w", what, err)
	}
	if !utf8.ValidString(q.Cursor) {
		return store.Page{}, fmt.Errorf("%s: the cursor %.60q is none", what, q.Cursor)
	}
	in := &dynamodb.QueryInput{
		TableName:                 &name,
		ConsistentRead:            aws.Bool(true),
		ScanIndexForward:          aws.Bool(!q.Descending),
		ReturnConsumedCapacity:    types.ReturnConsumedCapacityTotal,
		KeyConditionExpression:    aws.String("#pk = :pk"),
		ExpressionAttributeNames:  map[string]string{"#pk": pk},
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": &types.AttributeValueMemberS{Value: q.PK}},
	}
	if q.Prefix != "" {
		in.KeyConditionExpression = aws.String("#pk = :pk AND begins_with(#sk, :prefix)")
		in.ExpressionAttributeNames["#sk"] = sk
		in.ExpressionAttributeValues[":prefix"] = &types.AttributeValueMemberS{Value: q.Prefix}
	}
	if q.Limit > 0 {
		in.Limit = aws.Int32(int32(min(q.Limit, math.MaxInt32)))
	}
	if q.Cursor != "" {
		in.ExclusiveStartKey = keyAttributes(store.Key{PK: q.PK, SK: q.Cursor})
	}
	var out *dynamodb.QueryOutput
	err = s.read(ctx, what, func(ctx context.Context) (err error) {
		out, err = s.client.Query(ctx, in, noRetries)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return s.page(q, what, out)
}

// page reads an answer. Only a start key with something in it means that there is more: an empty map ends the query as well as none does.
func (s *Store) page(q store.Query, what string, out *dynamodb.QueryOutput) (store.Page, error) {
	var p store.Page
	total := 0
	for _, a := range out.Items {
		item, err := fromItem(q.Table, a)
		if err != nil {
			return store.Page{}, fmt.Errorf("%s: %w", what, err)
		}
		total += store.Size(item.Key, item.Attrs)
		p.Items = append(p.Items, item)
	}
	var spent []types.ConsumedCapacity
	if out.ConsumedCapacity != nil {
		spent = append(spent, *out.ConsumedCapacity)
	}
	s.meterRead(spent, []int{total}, false)
	if len(out.LastEvaluatedKey) == 0 {
		return p, nil
	}
	last, ok := out.LastEvaluatedKey[sk].(*types.AttributeValueMemberS)
	if !ok || last.Value == "" {
		return store.Page{}, fmt.Errorf("%s: the answer has a start key without the text %s", what, sk)
	}
	p.Next = last.Value
	return p, nil
}

// meterRead adds what a read cost: as reported, else by the sizes that were read.
func (s *Store) meterRead(spent []types.ConsumedCapacity, bytes []int, stale bool) {
	units := 0.0
	for _, x := range spent {
		if x.CapacityUnits != nil {
			units += *x.CapacityUnits
		}
	}
	if units > 0 {
		s.meter.AddRead(halves(units))
		return
	}
	for _, n := range bytes {
		s.meter.AddRead(store.ReadHalves(n, stale))
	}
}

// sizes are the sizes of items, and 0 for each key that was looked for in vain.
func sizes(items []store.Item, absent int) []int {
	var out []int
	for _, item := range items {
		out = append(out, store.Size(item.Key, item.Attrs))
	}
	return append(out, make([]int, max(absent, 0))...)
}
