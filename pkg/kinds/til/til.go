// Package til summarises what a member wrote down on a day: today I learned.
//
// The kind is single: one call of a language model per job, under a lease. Its slot is `til:<member>:<date>`, so one summary of a day is made at a time
// and two days, or two members, do not wait for each other. What is published goes into the table `summaries`, in the transaction that completes the
// job: the call may be made twice, the text is published once per job.
//
// A day has one row, member-42 / 2024-04-15, from the first request on. The opening of every job creates it, or leaves it as it is, by one write
// without a condition (revision + 0), so two first requests make one row. A completion replaces the text and adds 1 to the revision.
package til

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hanbeon/pkg/catalog"
	"hanbeon/pkg/job"
	"hanbeon/pkg/once"
	"hanbeon/pkg/store"
)

// Name is the kind.
const Name once.Kind = "til"

// Table holds the summaries.
const Table store.Table = "summaries"

// The reason codes of jobs, beside those of every single kind and those that the Model gives.
const (
	ReasonTooLarge  = "too-large"     // FAILED: the notes of the day are longer than MaxNotes
	ReasonBadAnswer = "ai-bad-answer" // lastError: what the model answered is no summary; it may do better next time
)

// MaxNotes is how many bytes the notes of one day may have together.
const MaxNotes = 200 * 1024

// Model is a language model, asked once per attempt. It is safe for concurrent use.
type Model interface {
	// Complete answers the user's text under the instructions of system, with JSON of the schema, called name where that is asked for. What it returns need not be so: it is
	// checked here. An error is made by job.Permanent or job.Later, or is the cause of the end of ctx; it quotes neither what was asked nor what was answered.
	Complete(ctx context.Context, system, user, name string, schema json.RawMessage) (string, error)
}

// Kind is the summary of a day. It keeps nothing in memory and is safe for concurrent use.
type Kind struct {
	store store.Store
	notes *catalog.Catalog
	zone  *time.Location
	model Model
}

var (
	_ job.Single  = (*Kind)(nil)
	_ job.Waiting = (*Kind)(nil)
)

// New makes the kind. zone is the business time zone, which says when a day begins. model may be nil where no summary is made: to open jobs and to read.
func New(s store.Store, zone *time.Location, model Model) *Kind {
	return &Kind{store: s, notes: catalog.New(s), zone: zone, model: model}
}

// Kind implements job.Kind.
func (k *Kind) Kind() once.Kind { return Name }

// Wait implements job.Waiting: what the model says of itself, if it does.
func (k *Kind) Wait() time.Duration {
	if m, ok := k.model.(job.Waiting); ok {
		return m.Wait()
	}
	return 0
}

// FieldError says which field of a request is wrong: `memberId` or `date`.
type FieldError struct {
	Field string
	Err   error
}

func (f *FieldError) Error() string { return f.Field + ": " + f.Err.Error() }

func (f *FieldError) Unwrap() error { return f.Err }

// inputs is what decides a job, in the order of its canonical JSON: `{"date":"2024-04-15","memberId":"member-42"}`.
type inputs struct {
	Date   once.Period `json:"date"`
	Member string      `json:"memberId"`
}

func (i inputs) check() error {
	if err := once.CheckSubject(i.Member); err != nil {
		return &FieldError{"memberId", err}
	}
	if day, err := once.ParsePeriod(string(i.Date)); err != nil || day.IsMonth() {
		return &FieldError{"date", fmt.Errorf("%.40q: want a real day such as 2024-04-15, from 2000 on", string(i.Date))}
	}
	return nil
}

func (i inputs) text() string {
	b, _ := json.Marshal(i) // two texts: it cannot fail
	return string(b)
}

// inputsOf is the inverse of text and takes nothing else.
func inputsOf(text string) (inputs, error) {
	var i inputs
	if json.Unmarshal([]byte(text), &i) != nil || i.text() != text {
		return inputs{}, fmt.Errorf("inputs %.80q are not those of %s", text, Name)
	}
	return i, i.check()
}

// key is that of the summary row.
func (i inputs) key() store.Key { return store.Key{Table: Table, PK: i.Member, SK: string(i.Date)} }

// Opening is that of a job which summarises a member's day (of the business time zone). It reads nothing: whether there is such a member and whether
// the day has come is Check's to say. Errors: *FieldError.
//
// With creates the row of the day where there is none and changes nothing where there is one. It has no condition, so it never refuses a job, and
// adding 0 makes the attribute exist without changing a number that somebody else adds to meanwhile. Price: 2 write units, or those of a transaction
// on the text that is there (2 per KB).
func (k *Kind) Opening(member string, date once.Period) (job.Opening, error) {
	in := inputs{date, member}
	if err := in.check(); err != nil {
		return job.Opening{}, err
	}
	return job.Opening{
		Kind:     Name,
		Slot:     string(Name) + ":" + member + ":" + string(date),
		Scope:    string(date),
		Inputs:   in.text(),
		Attempts: job.Attempts,
		With:     []store.Write{store.Update(in.key(), store.Attrs{"memberId": member, "date": string(date)}, map[string]int64{"revision": 0})},
	}, nil
}

// Check tells whether a summary may be asked for now: the catalog has the member, and the day has begun in the business time zone. Errors: *FieldError; any
// other is that of the store.
func (k *Kind) Check(ctx context.Context, member string, date once.Period, now time.Time) error {
	if err := (inputs{date, member}).check(); err != nil {
		return err
	}
	if today := once.DayOf(now, k.zone); date > today {
		return &FieldError{"date", fmt.Errorf("%s lies in the future: today is %s in %s", date, today, k.zone)}
	}
	_, found, err := k.notes.Member(ctx, member)
	if err != nil {
		return err
	}
	if !found {
		return &FieldError{"memberId", catalog.ErrNoSuchMember}
	}
	return nil
}

// Result implements job.Single: the notes of the day, summarised by the model. Without notes, or with too many, the model is not called and the job
// fails for good; an answer that is no summary is tried again.
func (k *Kind) Result(ctx context.Context, j job.Job) ([]once.Effect, error) {
	in, err := inputsOf(j.Inputs)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", j.ID, err)
	}
	if k.model == nil {
		return nil, errors.New("this program has no model: it only opens jobs and reads summaries")
	}
	notes, err := k.text(ctx, in)
	if err != nil {
		return nil, err
	}
	answer, err := k.model.Complete(ctx, system, notes, string(Name), json.RawMessage(schema))
	if err != nil {
		return nil, err
	}
	content, err := parseAnswer(answer)
	if err != nil {
		return nil, job.Later(ReasonBadAnswer, 0, fmt.Errorf("the answer of the model is no summary: %w", err))
	}
	return []once.Effect{once.Put{Subject: in.Member, Name: string(in.Date), Doc: content}}, nil
}

var errTooLarge = errors.New("too large")

// text is the notes of the day as the model is shown them, in order of their ids. It stops reading once they are too many.
func (k *Kind) text(ctx context.Context, in inputs) (string, error) {
	var b strings.Builder
	total := 0
	err := k.notes.EachNote(ctx, in.Member, in.Date, func(n catalog.Note) error {
		if total += len(n.Text); total > MaxNotes {
			return errTooLarge
		}
		if b.Len() > 0 {
			b.WriteString(separator)
		}
		b.WriteString(strings.ReplaceAll(n.Text, "\r\n", "\n")) // a model repeats what it sees, and a summary has no carriage returns
		return nil
	})
	switch {
	case errors.Is(err, errTooLarge):
		return "", job.Permanent(ReasonTooLarge, fmt.Errorf("the notes of %s on %s have more than %d bytes", in.Member, in.Date, MaxNotes))
	case err != nil:
		return "", err
	case total == 0:
		return "", job.Permanent(job.ReasonNothingToSummarise, fmt.Errorf("%s has no notes on %s", in.Member, in.Date))
	}
	return b.String(), nil
}

// Items implements job.Single: the text of the row is replaced and its revision grows by 1. Price: that of a transaction on the larger of the texts
// before and after, 2 write units per KB.
func (k *Kind) Items(j job.Job, effects []once.Effect) []store.Write {
	var put once.Put
	if len(effects) == 1 {
		put, _ = effects[0].(once.Put)
	}
	content, ok := put.Doc.(Content)
	if !ok {
		panic(fmt.Sprintf("job %s: %d effects, want the one that Result returns", j.ID, len(effects)))
	}
	in := inputs{once.Period(put.Name), put.Subject}
	return []store.Write{store.Update(in.key(), store.Attrs{
		"memberId": in.Member, "date": string(in.Date), "title": content.Title, "text": content.Text, "keywords": content.Keywords, "job": j.ID, "at": j.StartedAt,
	}, map[string]int64{"revision": 1})}
}
