package dynamo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"hanbeon/pkg/store"
)

// expression is a write in DynamoDB's language. Every attribute is named through a placeholder, since some hundred plain words (status, total, ttl, error, ...) are reserved.
type expression struct {
	key       map[string]types.AttributeValue
	item      map[string]types.AttributeValue // of a put
	update    *string                         // of an update
	condition *string                         // nil: none
	names     map[string]string               // nil: none
	values    map[string]types.AttributeValue // nil: none

	placeholders map[string]string // name to placeholder
}

func express(w store.Write) (expression, error) {
	e := expression{key: keyAttributes(w.Key)}
	var err error
	switch w.Op {
	case store.OpPut:
		e.item, err = itemAttributes(w.Key, w.Item)
	case store.OpUpdate:
		err = e.updates(w)
	}
	if err != nil {
		return expression{}, err
	}
	if err := e.conditions(w); err != nil {
		return expression{}, err
	}
	return e, nil
}

func (e *expression) updates(w store.Write) error {
	var set, add []string
	for _, name := range slices.Sorted(maps.Keys(w.Set)) {
		v, err := toAttribute(w.Set[name])
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
		set = append(set, e.name(name)+" = "+e.value(v))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Add)) {
		add = append(add, e.name(name)+" "+e.value(number(w.Add[name])))
	}
	var clauses []string
	if len(set) > 0 {
		clauses = append(clauses, "SET "+strings.Join(set, ", "))
	}
	if len(add) > 0 {
		clauses = append(clauses, "ADD "+strings.Join(add, ", "))
	}
	e.update = aws.String(strings.Join(clauses, " "))
	return nil
}

// conditions are those of the write, and for each number added one that keeps the sum within int64: DynamoDB itself would store 38 digits that nobody can read back.
// The same guard is false for an attribute that is no number, so that this too comes back as a refusal that shows the item.
func (e *expression) conditions(w store.Write) error {
	var all []string
	for _, c := range w.If {
		if c.Attr == "" {
			all = append(all, "attribute_not_exists("+e.name(pk)+")")
			continue
		}
		v, err := toAttribute(c.Value)
		if err != nil {
			return fmt.Errorf("condition on %s: %w", c.Attr, err)
		}
		all = append(all, e.name(c.Attr)+" = "+e.value(v))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Add)) {
		n, compare, bound := w.Add[name], "<=", int64(0)
		if n >= 0 {
			bound = math.MaxInt64 - n
		} else {
			compare, bound = ">=", math.MinInt64-n
		}
		all = append(all, fmt.Sprintf("(attribute_not_exists(%[1]s) OR %[1]s %[2]s %[3]s)", e.name(name), compare, e.value(number(bound))))
	}
	if len(all) > 0 {
		e.condition = aws.String(strings.Join(all, " AND "))
	}
	return nil
}

func (e *expression) name(name string) string {
	if p, known := e.placeholders[name]; known {
		return p
	}
	if e.names == nil {
		e.names, e.placeholders = map[string]string{}, map[string]string{}
	}
	p := "#" + strconv.Itoa(len(e.names))
	e.names[p], e.placeholders[name] = name, p
	return p
}

func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	p := ":" + strconv.Itoa(len(e.values))
	e.values[p] = v
	return p
}

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
