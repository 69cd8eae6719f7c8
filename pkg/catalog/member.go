package catalog

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Status says whether a member takes part.
type Status string

// The statuses. Only an ACTIVE member is granted anything.
const (
	Active    Status = "ACTIVE"
	Inactive  Status = "INACTIVE"
	Withdrawn Status = "WITHDRAWN"
)

// MaxName is the longest name of a member in bytes of UTF-8.
const MaxName = 256

// The years a member may have joined in: what is outside is a unit or parsing mistake.
const (
	minYear = 1900
	maxYear = 9999
)

// Member is one person of the service.
type Member struct {
	ID       string    `json:"id"` // see once.CheckSubject
	Status   Status    `json:"status"`
	JoinedAt time.Time `json:"joinedAt"` // kept to the millisecond, in UTC
	Name     string    `json:"name,omitempty"`
}

// Check tells whether the member may be stored. The error names the field that is wrong.
func (m Member) Check() error {
	if err := once.CheckSubject(m.ID); err != nil {
		return fmt.Errorf("id: %w", err)
	}
	switch m.Status {
	case Active, Inactive, Withdrawn:
	default:
		return fmt.Errorf("status %.40q: want %s, %s or %s", m.Status, Active, Inactive, Withdrawn)
	}
	if y := m.JoinedAt.UTC().Year(); y < minYear || y > maxYear {
		return fmt.Errorf("joined: year %d is not between %d and %d", y, minYear, maxYear)
	}
	return checkName(m.Name)
}

func checkName(name string) error {
	if len(name) > MaxName {
		return fmt.Errorf("name has %d bytes, at most %d are allowed", len(name), MaxName)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("name %q is not valid UTF-8", name)
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("name %q has a control character", name)
		}
	}
	return nil
}

// ActiveBefore tells whether the member is ACTIVE and joined before t: the rule of who is granted what is scheduled for t. Joining at t itself is too
// late.
func (m Member) ActiveBefore(t time.Time) bool { return m.Status == Active && m.JoinedAt.Before(t) }

// normal is the member as it is stored and read back, so that two of the same content are equal by ==.
func (m Member) normal() Member {
	m.JoinedAt = m.JoinedAt.UTC().Truncate(time.Millisecond)
	return m
}

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// memberItem is a member in the table.
type memberItem struct {
	ID       string `json:"id"`
	Status   Status `json:"status"`
	JoinedAt string `json:"joinedAt"`
	Name     string `json:"name,omitempty"`
}

func (m Member) key() store.Key { return memberKey(m.ID) }

func (m Member) content() memberItem {
	return memberItem{m.ID, m.Status, m.normal().JoinedAt.Format(timeLayout), m.Name}
}

func (m Member) item() any { return m.content() }

func (i memberItem) member() (Member, error) {
	t, err := time.Parse(timeLayout, i.JoinedAt)
	if err != nil {
		return Member{}, fmt.Errorf("member %q: joinedAt: %w", i.ID, err)
	}
	return Member{i.ID, i.Status, t.UTC(), i.Name}, nil
}
