package til

import (
	"context"
	"fmt"
	"time"

	"hanbeon/pkg/once"
)

// Summary is the row of a member's day.
type Summary struct {
	MemberID string      `json:"memberId"`
	Date     once.Period `json:"date"`
	Revision int64       `json:"revision"` // how many summaries of this day were published; 0: asked for, none published yet, and what follows is empty
	Title    string      `json:"title"`
	Text     string      `json:"text"`
	Keywords []string    `json:"keywords"`
	Job      string      `json:"job"`         // that published it
	At       time.Time   `json:"at,omitzero"` // when the attempt began that made it, in UTC: later notes are not in it
}

// Find reads the summary of a member's day; false if none was ever asked for. Errors: *FieldError; any other is that of the store.
func (k *Kind) Find(ctx context.Context, member string, date once.Period) (Summary, bool, error) {
	in := inputs{date, member}
	if err := in.check(); err != nil {
		return Summary{}, false, err
	}
	items, err := k.store.Get(ctx, in.key())
	if err != nil {
		return Summary{}, false, fmt.Errorf("read the summary of %s on %s: %w", member, date, err)
	}
	if !items[0].Exists() {
		return Summary{}, false, nil
	}
	var s Summary
	err = items[0].Decode(&s)
	return s, err == nil, err
}
