package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"hanbeon/pkg/queue"
)

const id = "monthly-point-01HTCZP1G00000000000000000"

// Bodies are read by other versions for weeks: their form is fixed.
func TestBodies(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		queue.Segment{Job: id, Segment: 0}.Encode():            `{"v":1,"job":"` + id + `","segment":0}`,
		queue.Segment{Job: id, Segment: 15}.Encode():           `{"v":1,"job":"` + id + `","segment":15}`,
		queue.Subject{Job: id, Subject: "member-42"}.Encode():  `{"v":1,"job":"` + id + `","subject":"member-42"}`,
		queue.Subject{Job: id, Subject: "a.b~c@d+e="}.Encode(): `{"v":1,"job":"` + id + `","subject":"a.b~c@d+e="}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// SQS-07, SQS-18, KEY-04: what is no message of ours is told apart from what may be tried again, names no content, and never panics.
func TestWhatIsNotOurs(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		"", " ", "null", "[]", `"text"`, "1", "true", "{}", "{", `{"month":`, `{"v":1}`, `{"v":1,"job":""}`, `{"job":"` + id + `","subject":"a","segment":1}`,
		`{"v":0,"job":"x","subject":"a"}`, `{"v":-1,"job":"x","segment":1}`, `{"v":"1","job":"x","segment":1}`, `{"v":1.5,"job":"x","segment":1}`, `{"v":1,"job":7,"segment":1}`,
		`{"v":1,"job":null,"subject":"a"}`, `{"v":1,"job":"x"}`, `{"v":1,"job":"x","subject":null}`, `{"v":1,"job":"x","subject":""}`, `{"v":1,"job":"x","subject":0}`, `{"v":1,"job":"x","segment":"1"}`,
		`{"v":1,"job":"x","segment":-1}`, `{"v":1,"job":"x","segment":1.5}`, `{"v":1,"job":"x","segment":1e400}`, `{"v":1,"job":"x","segment":99999999999999999999}`, `{"v":1,"job":"x","segment":null}`,
		`{"v":1,"job":"x","segment":1,"subject":"a"}`, `{"v":1,"job":"x","segment":1}{"v":1}`, `{"v":1,"job":"x","subject":"a"} x`, "{\"v\":1,\"job\":\"x\",\"subject\":\"\xff\"}",
		strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000),
	} {
		for what, decode := range decoders {
			err := decode(body)
			if !errors.Is(err, queue.ErrNotOurs) {
				t.Errorf("%s %.60q: got %v, want ErrNotOurs", what, body, err)
				continue
			}
			if len(body) > 12 && strings.Contains(err.Error(), body) {
				t.Errorf("%s %.60q: the error quotes the body: %v", what, body, err)
			}
		}
	}
	// LOG-03: the text of a body is in no error.
	if _, err := queue.DecodeSubject(`{"v":2,"job":"x","subject":"a-secret-text"}`); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

var decoders = map[string]func(string) error{
	"segment": func(b string) error { _, err := queue.DecodeSegment(b); return err },
	"subject": func(b string) error { _, err := queue.DecodeSubject(b); return err },
}

// A message of one sort is none of the other; one of a newer version is handed back until newer code takes it.
func TestMessagesAreToldApart(t *testing.T) {
	t.Parallel()
	segment, subject := queue.Segment{Job: id, Segment: 3}.Encode(), queue.Subject{Job: id, Subject: "a"}.Encode()
	for name, err := range map[string]error{
		"segment as subject": decoders["subject"](segment), "subject as segment": decoders["segment"](subject),
		"newer segment": decoders["segment"](strings.Replace(segment, `"v":1`, `"v":2`, 1)), "newer subject": decoders["subject"](strings.Replace(subject, `"v":1`, `"v":2`, 1)),
	} {
		if !errors.Is(err, queue.ErrNotOurs) {
			t.Errorf("%s: got %v, want ErrNotOurs", name, err)
		}
	}
	// A field that a newer code of this version adds is no reason to refuse.
	if got, err := queue.DecodeSubject(`{"trace":{"x":[1]},"v":1,"job":"` + id + `","subject":"a"} `); err != nil || got != (queue.Subject{Job: id, Subject: "a"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Whatever the text, a message reads back as it was written.
func TestMessagesReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := queue.Subject{Job: rapid.StringN(1, 80, -1).Draw(t, "job"), Subject: rapid.StringN(1, 200, -1).Draw(t, "subject")}
		if got, err := queue.DecodeSubject(m.Encode()); err != nil || got != m {
			t.Fatalf("%+v read back as %+v (%v)", m, got, err)
		}
		s := queue.Segment{Job: m.Job, Segment: rapid.IntRange(0, 1<<30).Draw(t, "segment")}
		if got, err := queue.DecodeSegment(s.Encode()); err != nil || got != s {
			t.Fatalf("%+v read back as %+v (%v)", s, got, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"v":1,"job":"a","segment":3}`, `{"v":1,"job":"a","subject":"b"}`, `{"v":1,"job":"a"}`, `{"v":1,"job":"a","segment":null}`, `{"v":1}`, "null", "[]", `{"v":1,"job":"a","segment":3,"Segment":4,"SUBJECT":"x"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		s, err := queue.DecodeSegment(body)
		u, err2 := queue.DecodeSubject(body)
		o, err3 := queue.DecodeSingle(body)
		switch {
		case err == nil && err2 == nil, err == nil && err3 == nil, err2 == nil && err3 == nil:
			t.Fatalf("%q is of two sorts: segment %v, subject %v, single %v", body, err, err2, err3)
		case err == nil:
			if again, err := queue.DecodeSegment(s.Encode()); err != nil || again != s || s.Segment < 0 || s.Job == "" {
				t.Fatalf("%q: %+v reads back as %+v (%v)", body, s, again, err)
			}
		case err2 == nil:
			if again, err := queue.DecodeSubject(u.Encode()); err != nil || again != u || u.Subject == "" || u.Job == "" || !utf8.ValidString(u.Subject) {
				t.Fatalf("%q: %+v reads back as %+v (%v)", body, u, again, err)
			}
		case err3 == nil:
			if again, err := queue.DecodeSingle(o.Encode()); err != nil || again != o || o.Job == "" || !utf8.ValidString(o.Job) {
				t.Fatalf("%q: %+v reads back as %+v (%v)", body, o, again, err)
			}
		}
		for _, e := range []error{err, err2, err3} {
			if e != nil && !errors.Is(e, queue.ErrNotOurs) {
				t.Fatalf("%q: %v is not ErrNotOurs", body, e)
			}
		}
	})
}

func TestBackoffGrowsAndIsBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		receives int
		most     time.Duration
	}{{-1, 4 * time.Second}, {0, 4 * time.Second}, {1, 4 * time.Second}, {2, 8 * time.Second}, {5, 64 * time.Second}, {8, 512 * time.Second}, {9, 900 * time.Second}, {1000, 900 * time.Second}} {
		var longest time.Duration
		different := map[time.Duration]bool{}
		for range 2000 {
			d := queue.Backoff(tt.receives)
			if d < time.Second || d > tt.most {
				t.Fatalf("after %d receives: %s, want 1 s to %s", tt.receives, d, tt.most)
			}
			longest = max(longest, d)
			different[d] = true
		}
		if longest < tt.most*3/4 || len(different) < 100 {
			t.Errorf("after %d receives: %d pauses up to %s, want them spread to %s", tt.receives, len(different), longest, tt.most)
		}
	}
}

func TestReceives(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int{"1": 1, "8": 8, "": 1, "0": 1, "-3": 1, "x": 1, "99999999999999999999": 1} {
		if got := queue.Receives(map[string]string{"ApproximateReceiveCount": s}); got != want {
			t.Errorf("receives of %q is %d, want %d", s, got, want)
		}
	}
	if got := queue.Receives(nil); got != 1 {
		t.Errorf("receives of nothing is %d, want 1", got)
	}
}

func TestUnsentTellsWhatAndWhy(t *testing.T) {
	t.Parallel()
	why := errors.New("ServiceUnavailable")
	err := fmt.Errorf("send: %w", &queue.Unsent{To: "til", Indexes: []int{3, 7}, Err: why})
	var u *queue.Unsent
	if !errors.As(err, &u) || !errors.Is(err, why) || !strings.Contains(err.Error(), "til") || !strings.Contains(err.Error(), "2 messages") {
		t.Errorf("got %v", err)
	}
}
