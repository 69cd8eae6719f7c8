package dynamo

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/store"
)

// The names of the keys in every table.
const (
	pk = "pk"
	sk = "sk"
)

func keyAttributes(k store.Key) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{pk: &types.AttributeValueMemberS{Value: k.PK}, sk: &types.AttributeValueMemberS{Value: k.SK}}
}

// itemAttributes is the whole item: keys and attributes.
func itemAttributes(k store.Key, attrs store.Attrs) (map[string]types.AttributeValue, error) {
	item := keyAttributes(k)
	for name, v := range attrs {
		a, err := toAttribute(v)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		item[name] = a
	}
	return item, nil
}

func toAttribute(v any) (types.AttributeValue, error) {
	switch x := v.(type) {
	case string:
		if !utf8.ValidString(x) { // the SDK's JSON would replace the bytes, and two texts could become one
			return nil, fmt.Errorf("text %.60q is not valid UTF-8", x)
		}
		return &types.AttributeValueMemberS{Value: x}, nil
	case int64:
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(x, 10)}, nil
	case bool:
		return &types.AttributeValueMemberBOOL{Value: x}, nil
	case []any:
		list := make([]types.AttributeValue, len(x))
		for i, e := range x {
			a, err := toAttribute(e)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			list[i] = a
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case map[string]any:
		m := make(map[string]types.AttributeValue, len(x))
		for name, e := range x {
			a, err := toAttribute(e)
			if err == nil && !utf8.ValidString(name) {
				err = errors.New("the name is not valid UTF-8")
			}
			if err != nil {
				return nil, fmt.Errorf("%q: %w", name, err)
			}
			m[name] = a
		}
		return &types.AttributeValueMemberM{Value: m}, nil
	}
	return nil, fmt.Errorf("%T is not a string, int64, bool, []any or map[string]any", v)
}

// fromItem takes an item apart. Somebody else may write to the table: a value that this store cannot hold is an error, never a guess.
func fromItem(table store.Table, item map[string]types.AttributeValue) (store.Item, error) {
	p, _ := item[pk].(*types.AttributeValueMemberS)
	s, _ := item[sk].(*types.AttributeValueMemberS)
	if p == nil || s == nil {
		return store.Item{}, fmt.Errorf("table %s: an item came without the text keys pk and sk", table)
	}
	key := store.Key{Table: table, PK: p.Value, SK: s.Value}
	attrs := make(store.Attrs, len(item)-2)
	for name, a := range item {
		if name == pk || name == sk {
			continue
		}
		v, err := fromAttribute(a)
		if err != nil {
			return store.Item{Key: key}, fmt.Errorf("item %s: attribute %s: %w", key, name, err)
		}
		attrs[name] = v
	}
	return store.Item{Key: key, Attrs: attrs}, nil
}

func fromAttribute(a types.AttributeValue) (any, error) {
	switch x := a.(type) {
	case *types.AttributeValueMemberS:
		return x.Value, nil
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(x.Value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s is not an integer of 64 bits", x.Value)
		}
		return n, nil
	case *types.AttributeValueMemberBOOL:
		return x.Value, nil
	case *types.AttributeValueMemberL:
		list := make([]any, len(x.Value))
		for i, e := range x.Value {
			v, err := fromAttribute(e)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			list[i] = v
		}
		return list, nil
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(x.Value))
		for name, e := range x.Value {
			v, err := fromAttribute(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			m[name] = v
		}
		return m, nil
	}
	return nil, fmt.Errorf("its type %T is none that a store writes", a)
}
