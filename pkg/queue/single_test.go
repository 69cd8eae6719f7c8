package queue_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hanbeon/pkg/queue"
)

const single = "til-01HTCZP1G00000000000000000"

// The body of a message of a single job is fixed too, and it is no message of another sort, nor they of it: each has what the other must not have.
func TestSingleMessages(t *testing.T) {
	t.Parallel()
	body := queue.Single{Job: single}.Encode()
	if want := `{"v":1,"job":"` + single + `"}`; body != want {
		t.Errorf("got %s, want %s", body, want)
	}
	for _, body := range []string{body, " " + body + "\n", `{"trace":{"x":[1]},"v":1,"job":"` + single + `"}`, `{"v":1,"job":"` + single + `","subject":null,"segment":null}`} {
		if got, err := queue.DecodeSingle(body); err != nil || got.Job != single {
			t.Errorf("%s: got %+v, %v", body, got, err)
		}
		for what, decode := range decoders {
			if err := decode(body); !errors.Is(err, queue.ErrNotOurs) {
				t.Errorf("%s as a %s: got %v, want ErrNotOurs", body, what, err)
			}
		}
	}
	for _, body := range []string{
		"", " ", "null", "[]", `"text"`, "1", "{}", "{", `{"v":1}`, `{"v":1,"job":""}`, `{"v":1,"job":null}`, `{"v":1,"job":7}`, `{"job":"` + single + `"}`,
		`{"v":0,"job":"x"}`, `{"v":-1,"job":"x"}`, `{"v":2,"job":"x"}`, `{"v":"1","job":"x"}`, `{"v":1.5,"job":"x"}`,
		`{"v":1,"job":"x","subject":"a"}`, `{"v":1,"job":"x","subject":""}`, `{"v":1,"job":"x","segment":0}`, `{"v":1,"job":"x","segment":-1}`, `{"v":1,"job":"x","segment":"0"}`,
		`{"v":1,"job":"x"}{"v":1}`, `{"v":1,"job":"x"} x`, "{\"v\":1,\"job\":\"\xff\"}", strings.Repeat(`{"a":`, 100_000),
		queue.Segment{Job: single}.Encode(), queue.Subject{Job: single, Subject: "a"}.Encode(),
	} {
		got, err := queue.DecodeSingle(body)
		if !errors.Is(err, queue.ErrNotOurs) || got != (queue.Single{}) {
			t.Errorf("%.60q: got %+v, %v, want ErrNotOurs", body, got, err)
		} else if len(body) > 12 && strings.Contains(err.Error(), body) {
			t.Errorf("%.60q: the error quotes the body: %v", body, err)
		}
	}
}

// Whatever the text, a message of a single job reads back as it was written.
func TestSingleMessagesReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := queue.Single{Job: rapid.StringN(1, 80, -1).Draw(t, "job")}
		if got, err := queue.DecodeSingle(m.Encode()); err != nil || got != m {
			t.Fatalf("%+v read back as %+v (%v)", m, got, err)
		}
	})
}
