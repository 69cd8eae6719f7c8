package catalog

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// Of every hundred sample members so many are out: one INACTIVE, one WITHDRAWN, one that joins in a far future.
const (
	sampleInactive  = 7
	sampleWithdrawn = 57
	sampleFuture    = 93
)

// The sample members joined between these days, spread evenly; those of the future join on the last.
const (
	sampleFirstYear = 2015
	sampleDays      = 3000 // to March 2023
	sampleFutureDay = "2099-01-01"
)

var (
	familyNames = []string{"김", "이", "박", "최", "정", "강", "조", "윤", "장", "임"}
	givenNames  = []string{"서연", "민준", "지우", "도윤", "하은", "시우", "수아", "예준", "지호", "채원", "은우"}
)

// sampleMember is the i-th sample member, from 1: always the same.
func sampleMember(i int, zone *time.Location) (m Member, joined string) {
	m = Member{
		ID:     fmt.Sprintf("member-%06d", i),
		Status: Active,
		Name:   familyNames[i%len(familyNames)] + givenNames[i%len(givenNames)],
	}
	day := time.Date(sampleFirstYear, 1, 1+i*7919%sampleDays, 0, 0, 0, 0, zone)
	joined = day.Format(dateLayout)
	switch i % 100 {
	case sampleInactive:
		m.Status = Inactive
	case sampleWithdrawn:
		m.Status = Withdrawn
	case sampleFuture:
		joined = sampleFutureDay
	}
	if i%2 == 0 { // half of them as an instant, so that both spellings are in every sample
		t, err := ParseJoined(joined, zone)
		if err != nil {
			panic(err) // our own date
		}
		joined = t.UTC().Format(time.RFC3339)
	}
	m.JoinedAt, _ = ParseJoined(joined, zone)
	return m, joined
}

// WriteSample writes a file of n members that ReadMembers takes: member-000001 and so on, the same for the same n and zone. 97 in 100 are ACTIVE and
// joined from 2015 to 2023. Eligible tells how many of them a run grants.
func WriteSample(w io.Writer, n int, zone *time.Location) error {
	b := bufio.NewWriterSize(w, 64*1024)
	fmt.Fprintln(b, "id,status,joined,name")
	for i := 1; i <= n; i++ {
		m, joined := sampleMember(i, zone)
		fmt.Fprintf(b, "%s,%s,%s,%s\n", m.ID, m.Status, joined, m.Name)
	}
	return b.Flush() // the writer remembers the first error
}

// Eligible is how many members of WriteSample(w, n, zone) are ACTIVE and joined before the scheduled time.
func Eligible(n int, zone *time.Location, scheduled time.Time) int {
	count := 0
	for i := 1; i <= n; i++ {
		if m, _ := sampleMember(i, zone); m.ActiveBefore(scheduled) {
			count++
		}
	}
	return count
}
