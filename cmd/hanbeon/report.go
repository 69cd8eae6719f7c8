package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hanbeon/pkg/audit"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// runReport is what became of one job, and what it took.
type runReport struct {
	Job            string           `json:"job"`
	Kind           once.Kind        `json:"kind"`
	Period         once.Period      `json:"period"`
	Inputs         json.RawMessage  `json:"inputs"`
	State          job.State        `json:"state"`
	Reason         string           `json:"reason,omitempty"` // of FAILED
	Total          int64            `json:"total"`
	Applied        int64            `json:"applied"`
	Already        int64            `json:"already"`
	Failed         int64            `json:"failed"`
	FailedByReason map[string]int64 `json:"failedByReason,omitempty"`

	Seconds         float64 `json:"seconds"` // by the wall's clock
	WriteUnits      float64 `json:"writeUnits"`
	ReadUnits       float64 `json:"readUnits"`
	SQSRequests     int64   `json:"sqsRequests"`
	CostUSD         float64 `json:"costUSD"` // DynamoDB and SQS, see money.go
	GrantsPerSecond float64 `json:"grantsPerSecond"`
}

func reportOf(j job.Job) runReport {
	return runReport{
		Job: j.ID, Kind: j.Kind, Period: j.Period, Inputs: json.RawMessage(j.Inputs), State: j.State, Reason: j.Reason,
		Total: j.Total, Applied: j.Applied, Already: j.Already, Failed: j.Failed,
	}
}

func (r runReport) write(w io.Writer) {
	row(w, "job", "%s %s %s", r.Job, r.State, r.Reason)
	row(w, "period", "%s, inputs %s", r.Period, r.Inputs)
	row(w, "total", "%s = %s applied + %s already + %s failed", comma(r.Total), comma(r.Applied), comma(r.Already), comma(r.Failed))
	if len(r.FailedByReason) > 0 {
		row(w, "failed", "%s", byReason(r.FailedByReason))
	}
	row(w, "cost on AWS", "%.6f USD: %s write units, %s read units, %s SQS requests (DynamoDB and SQS; not Lambda)",
		r.CostUSD, comma(int64(r.WriteUnits)), comma(int64(r.ReadUnits)), comma(r.SQSRequests))
	row(w, "time", "%.2f s, %s grants/s", r.Seconds, comma(int64(r.GrantsPerSecond)))
}

func byReason(m map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, comma(m[reason])+" "+reason)
	}
	return strings.Join(parts, ", ")
}

// audit checks the whole data file, and shows progress.
func (a *app) audit(ctx context.Context, s store.Store, now time.Time) (audit.Report, error) {
	p := a.progress("audit of " + a.data)
	defer p.end()
	return audit.Check(ctx, s, now.UTC(), func(subjects int64) { p.set(subjects, 0) }, a.kinds(s)...)
}

func writeSums(w io.Writer, r audit.Report) {
	sum, entries := r.BalanceSum[monthlypoint.Balance], r.EntrySum[monthlypoint.Balance]
	sign := "="
	if sum != entries {
		sign = "but not"
	}
	row(w, "balance sum", "%s %s entry sum %s, of %s", comma(sum), sign, comma(entries), number(r.Entries, "grant"))
}

// broken is the error of an audit that found something, nil otherwise.
func broken(data string, violations []string) error {
	if len(violations) == 0 {
		return nil
	}
	return fmt.Errorf("audit of %s: %s broken, the first: %s: keep the file and report it", data, number(int64(len(violations)), "invariant"), violations[0])
}
