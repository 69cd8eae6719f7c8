package store

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate is what every back end calls first: it reports programming errors, and as *Refused the writes that no table would ever accept because of their size or nesting.
func Validate(writes []Write) error {
	if len(writes) == 0 {
		return errors.New("transaction has no writes")
	}
	if len(writes) > MaxWrites {
		return fmt.Errorf("transaction has %d writes, at most %d are allowed", len(writes), MaxWrites)
	}
	seen := make(map[Key]bool, len(writes))
	total := 0
	var by []Refusal
	for i, w := range writes {
		if w.err != nil {
			return fmt.Errorf("write %d on %s: %w", i, w.Key, w.err)
		}
		if err := CheckKey(w.Key); err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		if seen[w.Key] {
			return fmt.Errorf("write %d: key %s occurs twice in one transaction", i, w.Key)
		}
		seen[w.Key] = true
		if err := w.checkShape(); err != nil {
			return fmt.Errorf("write %d on %s: %w", i, w.Key, err)
		}
		size := Size(w.Key, w.Item) + attrsSize(w.Set)
		total += size
		switch {
		case size > MaxItem:
			by = append(by, Refusal{Index: i, Invalid: tooLarge(size)})
		case depth(map[string]any(w.Item)) > MaxDepth, depth(map[string]any(w.Set)) > MaxDepth:
			by = append(by, Refusal{Index: i, Invalid: fmt.Sprintf("lists and maps are nested deeper than %d levels", MaxDepth)})
		}
	}
	if len(by) > 0 {
		return &Refused{By: by}
	}
	if total > MaxTransaction {
		return fmt.Errorf("transaction has %d bytes, at most %d are allowed", total, MaxTransaction)
	}
	return nil
}

func (w Write) checkShape() error {
	ok := false
	switch w.Op {
	case OpPut:
		ok = w.Item != nil && w.Set == nil && w.Add == nil
	case OpUpdate:
		ok = w.Item == nil && len(w.Set)+len(w.Add) > 0
	case OpDelete:
		ok = w.Item == nil && w.Set == nil && w.Add == nil
	case OpCheck:
		ok = w.Item == nil && w.Set == nil && w.Add == nil && len(w.If) > 0
	}
	if !ok {
		return errors.New("not made by Insert, Put, Update, Delete or Check, or nothing to do")
	}
	for _, attrs := range []Attrs{w.Item, w.Set} {
		for name := range attrs {
			if err := checkName(name); err != nil {
				return err
			}
			if _, twice := w.Add[name]; twice {
				return fmt.Errorf("attribute %q is set and added to", name)
			}
		}
	}
	for name := range w.Add {
		if err := checkName(name); err != nil {
			return err
		}
	}
	for _, c := range w.If {
		if c.Attr == "" {
			continue
		}
		if err := checkName(c.Attr); err != nil {
			return fmt.Errorf("condition: %w", err)
		}
		switch c.Value.(type) {
		case string, int64, bool:
		default:
			return fmt.Errorf("condition on %s: made by hand with a %T", c.Attr, c.Value)
		}
	}
	if !plain(map[string]any(w.Item)) || !plain(map[string]any(w.Set)) {
		return errors.New("made by hand with values that Encode does not give")
	}
	return nil
}

func checkName(name string) error {
	if name == "" || name == "pk" || name == "sk" {
		return fmt.Errorf("attribute %q: the name is empty or that of a key", name)
	}
	return checkText(name)
}

// CheckKey tells whether a key can be used. NUL is refused because the embedded store separates keys by it.
func CheckKey(k Key) error {
	if k.Table == "" {
		return fmt.Errorf("key %s has no table", k)
	}
	if err := checkKeyText("partition key", k.PK, MaxPK); err != nil {
		return err
	}
	return checkKeyText("sort key", k.SK, MaxSK)
}

// Check tells whether a query can be asked.
func (q Query) Check() error {
	if q.Table == "" || q.Limit < 0 {
		return fmt.Errorf("query of %q: no table, or a negative limit %d", q.PK, q.Limit)
	}
	if err := checkKeyText("partition key", q.PK, MaxPK); err != nil {
		return err
	}
	if q.Prefix == "" {
		return nil
	}
	return checkKeyText("prefix of sort keys", q.Prefix, MaxSK)
}

func checkKeyText(what, s string, most int) error {
	if s == "" || len(s) > most {
		return fmt.Errorf("%s %.60q has %d bytes, want 1 to %d", what, s, len(s), most)
	}
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return fmt.Errorf("%s %.60q is not UTF-8, or contains NUL", what, s)
	}
	return nil
}

// depth counts the levels of lists and maps.
func depth(v any) int {
	deepest := 0
	switch x := v.(type) {
	case map[string]any:
		for _, e := range x {
			deepest = max(deepest, depth(e))
		}
	case []any:
		for _, e := range x {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}

func tooLarge(size int) string {
	return fmt.Sprintf("item of %d bytes, at most %d are allowed", size, MaxItem)
}

// Apply computes what a write leaves of an item as it stands (nil: absent), or why it is in the way: a false condition, or an invalid change. It is the
// meaning of a write in one place: the embedded store does it, and the DynamoDB back end explains refusals with it.
func (w Write) Apply(old Attrs) (now Attrs, refusal *Refusal) {
	for _, c := range w.If {
		if !c.Holds(old) {
			return nil, &Refusal{Old: Item{Key: w.Key, Attrs: old}}
		}
	}
	switch w.Op {
	case OpPut:
		return w.Item, nil
	case OpDelete:
		return nil, nil
	case OpCheck:
		return old, nil
	}
	now = make(Attrs, len(old)+len(w.Set)+len(w.Add))
	for k, v := range old {
		now[k] = v
	}
	for k, v := range w.Set {
		now[k] = v
	}
	names := make([]string, 0, len(w.Add))
	for k := range w.Add {
		names = append(names, k)
	}
	slices.Sort(names)
	invalid := ""
	for _, k := range names {
		n, ok := now[k].(int64)
		switch d := w.Add[k]; {
		case now[k] != nil && !ok:
			invalid = fmt.Sprintf("attribute %s is not a number", k)
		case d > 0 && n > math.MaxInt64-d || d < 0 && n < math.MinInt64-d:
			invalid = fmt.Sprintf("attribute %s: %d%+d leaves the range of 64 bits", k, n, d)
		default:
			now[k] = n + d
		}
	}
	if size := Size(w.Key, now); invalid == "" && size > MaxItem {
		invalid = tooLarge(size)
	}
	if invalid != "" {
		return nil, &Refusal{Old: Item{Key: w.Key, Attrs: old}, Invalid: invalid}
	}
	return now, nil
}
