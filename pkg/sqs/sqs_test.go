package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/queue"
)

func TestSendCutsRequestsByCountAndBytes(t *testing.T) {
	t.Parallel()
	half := big(queue.MaxBytes/2 - 1)
	for _, c := range []struct {
		name   string
		bodies []string
		want   []int // entries of each request, sorted
	}{
		{"nothing to send", nil, nil},
		{"one", subjects(1), []int{1}},
		{"ten fill a request", subjects(10), []int{10}},
		{"eleven take two", subjects(11), []int{1, 10}},
		{"a page", subjects(490), slices.Repeat([]int{10}, 49)},
		{"three halves of a mebibyte", []string{half, half, half}, []int{1, 2}},
		{"a body as large as a request", []string{"1", big(queue.MaxBytes), "2"}, []int{1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &service{t: t}
			q := s.queue()
			if err := q.Send(t.Context(), "monthly-point", c.bodies...); err != nil {
				t.Fatal(err)
			}
			slices.Sort(s.sizes)
			if diff := cmp.Diff(s.sizes, c.want); diff != "" {
				t.Errorf("requests (-got +want):\n%s", diff)
			}
			want := slices.Sorted(slices.Values(c.bodies))
			if got, _ := s.accepted(); !slices.Equal(got, want) {
				t.Errorf("got %d bodies, want %d", len(got), len(want))
			}
			if s.most > 4 {
				t.Errorf("%d requests in flight, want at most 4", s.most)
			}
			if got, want := q.Requests(), int64(len(c.want)); got != want {
				t.Errorf("counted %d requests, want %d", got, want)
			}
		})
	}
}

// DSP-01: HTTP 200 with a Failed list. Only the entry that was refused goes again.
func TestSendRepeatsOnlyWhatWasRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, refuse: func(request int, id, _ string) map[string]any {
			if request == 1 && id == "7" {
				return map[string]any{"Id": "7", "Code": "InternalError", "SenderFault": false}
			}
			return nil
		}}
		bodies := subjects(10)
		if err := s.queue().Send(t.Context(), "monthly-point", bodies...); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.accepted(); !slices.Equal(got, bodies) {
			t.Errorf("got %q, want %q", got, bodies)
		}
		if diff := cmp.Diff(s.sizes, []int{10, 1}); diff != "" {
			t.Errorf("requests (-got +want):\n%s", diff)
		}
	})
}

// DSP-01, second half: what is refused at every try is named by position, after all the others were sent.
func TestSendNamesWhatWasNeverAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bodies := subjects(25)
		s := &service{t: t, refuse: func(_ int, id, body string) map[string]any {
			if body == bodies[7] || body == bodies[21] {
				return map[string]any{"Id": id, "Code": "InternalError", "SenderFault": false, "Message": "try later"}
			}
			return nil
		}}
		err := s.queue().Send(t.Context(), "monthly-point", bodies...)
		var unsent *queue.Unsent
		if !errors.As(err, &unsent) {
			t.Fatalf("got %v, want *queue.Unsent", err)
		}
		if diff := cmp.Diff(unsent.Indexes, []int{7, 21}); diff != "" {
			t.Errorf("indexes (-got +want):\n%s", diff)
		}
		if got, want := err.Error(), "queue monthly-point: 2 messages not accepted: InternalError: try later"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, _ := s.accepted(); len(got) != 23 {
			t.Errorf("%d accepted, want 23", len(got))
		}
	})
}

// DSP-03: every field of a failed entry but its id may be missing.
func TestSendReadsFailuresWithoutMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, refuse: func(request int, id, _ string) map[string]any {
			switch {
			case request == 1 && id == "3":
				return map[string]any{"Id": "3", "Code": "ServiceUnavailable", "Message": nil}
			case request == 2:
				return map[string]any{}
			}
			return nil
		}}
		if err := s.queue().Send(t.Context(), "monthly-point", subjects(10)...); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.accepted(); !slices.Equal(got, subjects(10)) {
			t.Errorf("got %d bodies, want 10", len(got))
		}
		if got, want := s.requests, 3; got != want {
			t.Errorf("%d requests, want %d", got, want)
		}
	})
}

// DSP-04, DSP-05: the ids of entries are positions, so subjects that are no ids, or are there twice, all arrive. The service refuses any other id.
func TestSendTakesAnySubject(t *testing.T) {
	t.Parallel()
	s := &service{t: t}
	bodies := []string{}
	for _, subject := range []string{"org:42", "a/b", "회원7", strings.Repeat("m", 90), "member-1", "member-1"} {
		bodies = append(bodies, queue.Subject{Job: "monthly-point-01", Subject: subject}.Encode())
	}
	if err := s.queue().Send(t.Context(), "monthly-point", bodies...); err != nil {
		t.Fatal(err)
	}
	slices.Sort(bodies)
	if got, _ := s.accepted(); !slices.Equal(got, bodies) {
		t.Errorf("got %q, want %q", got, bodies)
	}
}

// DSP-07: a character that SQS does not take is escaped, or its body refused by itself; the others are sent.
func TestSendKeepsOutWhatSQSDoesNotTake(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{"text":"a` + "\uFFFE\uFFFF" + `b"}`, // Go's encoder lets these through
		`{"text":"\u0000"}`,
		`{"text":"🎉"}`,
		"{\n\t\"text\": 1\r\n}",
		`{"text":"` + "\xff" + `"}`,
		`not JSON ` + "\uFFFE",
		`{"text":"` + "\x01" + `"}`,
		"",
		big(queue.MaxBytes + 1),
	}
	s := &service{t: t}
	err := s.queue().Send(t.Context(), "monthly-point", bodies...)
	var unsent *queue.Unsent
	if !errors.As(err, &unsent) {
		t.Fatalf("got %v, want *queue.Unsent", err)
	}
	if diff := cmp.Diff(unsent.Indexes, []int{4, 5, 6, 7, 8}); diff != "" {
		t.Errorf("indexes (-got +want):\n%s", diff)
	}
	want := []string{bodies[3], `{"text":"\u0000"}`, `{"text":"a\ufffe\uffffb"}`, `{"text":"🎉"}`}
	if got, _ := s.accepted(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusedBodiesHaveAReasonAndAreNotQuoted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{"empty", "", "the body is empty"},
		{"not UTF-8", `{"secret":"` + "\xff" + `"}`, "the body is not valid UTF-8"},
		{"control character", "secret\x01", "the body contains U+0001, which SQS does not take, and is not JSON in which it could be escaped"},
		{"no JSON", "secret\uFFFF", "the body contains U+FFFF, which SQS does not take, and is not JSON in which it could be escaped"},
		{"too long", big(queue.MaxBytes + 1), "the body has 1048577 bytes, SQS takes 1048576"},
		{"too long once escaped", `"` + strings.Repeat("\uFFFE", queue.MaxBytes/6+1) + `"`, "the body has 1048580 bytes, SQS takes 1048576"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &service{t: t}
			err := s.queue().Send(t.Context(), "monthly-point", c.body)
			want := "queue monthly-point: 1 messages not accepted: " + c.want
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %q", err, want)
			}
			if s.requests != 0 {
				t.Errorf("%d requests, want none", s.requests)
			}
		})
	}
}

// An answer that is lost after SQS took the messages leads to duplicates, never to a loss.
func TestSendAgainAfterALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, lose: func(request int) bool { return request <= 4 }}
		if err := s.queue().Send(t.Context(), "monthly-point", subjects(10)...); err != nil {
			t.Fatal(err)
		}
		all, distinct := s.accepted()
		if !slices.Equal(distinct, subjects(10)) || len(all) != 50 {
			t.Errorf("got %d bodies, %d distinct; want 50 and 10", len(all), len(distinct))
		}
	})
}

// DSP-10, in part: a queue that answers 500 at every try leaves everything unsent and named.
func TestSendGivesUpAfterAFewTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, status: func(int) int { return 500 }}
		q := s.queue()
		err := q.Send(t.Context(), "monthly-point", subjects(20)...)
		var unsent *queue.Unsent
		if !errors.As(err, &unsent) || len(unsent.Indexes) != 20 || !slices.IsSorted(unsent.Indexes) {
			t.Fatalf("got %v, want 20 unsent, in order", err)
		}
		if got, want := q.Requests(), int64(10); got != want {
			t.Errorf("%d requests, want %d: five for each batch", got, want)
		}
	})
}

func TestSendStopsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		s := &service{t: t, status: func(int) int { return 500 }}
		began := time.Now()
		err := s.queue().Send(ctx, "monthly-point", subjects(100)...)
		var unsent *queue.Unsent
		if !errors.As(err, &unsent) || len(unsent.Indexes) != 100 {
			t.Fatalf("got %v, want 100 unsent", err)
		}
		// On the fake clock of the bubble the deadline is exact.
		if got, want := time.Since(began), 30*time.Millisecond; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

// An entry that the answer does not mention was not sent as far as anybody knows.
func TestSendRepeatsWhatTheAnswerDoesNotName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{t: t, refuse: func(request int, id, _ string) map[string]any {
			if request == 1 && id == "2" {
				return map[string]any{"Id": "0", "Code": "Odd"} // does not name 2, and names 0, which it also accepted
			}
			return nil
		}}
		if err := s.queue().Send(t.Context(), "monthly-point", subjects(3)...); err != nil {
			t.Fatal(err)
		}
		if _, distinct := s.accepted(); !slices.Equal(distinct, subjects(3)) {
			t.Errorf("got %q, want %q", distinct, subjects(3))
		}
		if diff := cmp.Diff(s.sizes, []int{3, 2}); diff != "" {
			t.Errorf("requests (-got +want):\n%s", diff)
		}
	})
}

func TestUnknownQueue(t *testing.T) {
	t.Parallel()
	s := &service{t: t}
	var unsent *queue.Unsent
	if err := s.queue().Send(t.Context(), "til", subjects(2)...); !errors.As(err, &unsent) || len(unsent.Indexes) != 2 {
		t.Errorf("Send: got %v, want both unsent", err)
	}
	if err := s.queue().PutOff(t.Context(), "til", 0, "r"); err == nil {
		t.Error("PutOff: no error")
	}
	if s.requests != 0 {
		t.Errorf("%d requests, want none", s.requests)
	}
}

func TestPutOff(t *testing.T) {
	t.Parallel()
	receipts := make([]string, 23)
	for i := range receipts {
		receipts[i] = fmt.Sprintf("receipt-%d", i)
	}
	for _, c := range []struct {
		name string
		d    time.Duration
		want int // seconds
	}{
		{"at once", 0, 0},
		{"part of a second is rounded up", 1200 * time.Millisecond, 2},
		{"seconds", 30 * time.Second, 30},
		{"beyond what SQS allows", 20 * time.Hour, 43200},
		{"negative is at once", -time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := &service{t: t}
			if err := s.queue().PutOff(t.Context(), "monthly-point", c.d, receipts...); err != nil {
				t.Fatal(err)
			}
			if len(s.putOff) != len(receipts) || s.requests != 3 {
				t.Errorf("%d receipts in %d requests, want %d in 3", len(s.putOff), s.requests, len(receipts))
			}
			for r, got := range s.putOff {
				if got != c.want {
					t.Errorf("%s: got %d s, want %d s", r, got, c.want)
				}
			}
		})
	}
}

func TestPutOffReportsWhatWasRefused(t *testing.T) {
	t.Parallel()
	s := &service{t: t, refuse: func(_ int, id, receipt string) map[string]any {
		if receipt == "b" {
			return map[string]any{"Id": id, "Code": "ReceiptHandleIsInvalid"}
		}
		return nil
	}}
	err := s.queue().PutOff(t.Context(), "monthly-point", time.Second, "a", "b", "c")
	if want := "queue monthly-point: 1 of 3 messages not put off: ReceiptHandleIsInvalid: "; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := s.queue().PutOff(t.Context(), "monthly-point", time.Second); err != nil {
		t.Errorf("no receipts: %v", err)
	}
}
