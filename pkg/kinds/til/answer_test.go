package til_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hanbeon/pkg/ai"
	"hanbeon/pkg/job"
	"hanbeon/pkg/kinds/til"
	"hanbeon/pkg/once"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func summary(title, text, keywords string) string {
	return fmt.Sprintf(`{"title":%s,"text":%s,"keywords":%s}`, title, text, keywords)
}

func quoted(n int, s string) string { return `"` + strings.Repeat(s, n) + `"` }

// AI-03 and LOG-01: what is no summary never gives an effect. It is tried again, with a short reason that quotes nothing of it, and the model is asked once per attempt.
func TestAnAnswerThatIsNoSummaryIsTriedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("오늘은 락을 읽었다")
	j := d.claim(d.open()).Job()
	const x, none = `"CANARY"`, `[]`
	for name, text := range map[string]string{
		"the answer of AI-03 with broken quotes": `{"summary":"he said "CANARY""}`, "fenced": "```json\n" + answer + "\n```", "fenced without a language": "```\n" + answer + "\n```",
		"HTML": "<html>CANARY</html>", "nothing": "", "blanks": " \n ", "a number where a text was": `{"summary":123}`, "an empty object": "{}", "an empty list": "[]", "null": "null", "a number": "42", "a text": x, "true": "true",
		"in a list": "[" + answer + "]", "a text before it": "Here is your summary: " + answer, "a text after it": answer + "\nCANARY", "two of them": answer + answer, "cut off": answer[:len(answer)-2],
		"a comment": "// CANARY\n" + answer, "a byte order mark": "\ufeff" + answer, "invalid UTF-8": strings.Replace(answer, "phantom", "\xff", 1), "JSON in a text": quoted(1, strings.ReplaceAll(answer, `"`, `\"`)),
		"an unknown field": `{"title":"CANARY","text":"CANARY","keywords":[],"CANARY":"CANARY"}`, "other case": `{"Title":"CANARY","text":"CANARY","keywords":[]}`,
		"a field twice": `{"title":"CANARY","title":"CANARY","text":"CANARY","keywords":[]}`, "without title": `{"text":"CANARY","keywords":[]}`, "without text": `{"title":"CANARY","keywords":[]}`,
		"without keywords": `{"title":"CANARY","text":"CANARY"}`,
		"null for title":   summary("null", x, none), "null for text": summary(x, "null", none), "null for keywords": summary(x, x, "null"), "a number for title": summary("1", x, none), "a list for text": summary(x, `["CANARY"]`, none),
		"an object for text": summary(x, `{"CANARY":1}`, none), "a text for keywords": summary(x, x, x), "an object for keywords": summary(x, x, `{"a":"CANARY"}`),
		"an empty title": summary(`""`, x, none), "a blank title": summary(`" \n\u3000\u00a0"`, x, none), "an invisible title": summary(`"\u200b\u2060\ufeff"`, x, none), "an empty text": summary(x, `""`, none), "a blank text": summary(x, `"\n\t"`, none),
		"a title too long": summary(quoted(301, "x"), x, none), "a title too long in bytes": summary(quoted(101, "한"), x, none), "a text too long": summary(x, quoted(100*1024+1, "x"), none),
		"a title of two lines": summary(`"CANARY\nCANARY"`, x, none), "a title with a tab": summary(`"CANARY\tCANARY"`, x, none), "a control character": summary(x, `"CANARY\u0000"`, none), "an escape sequence": summary(x, `"\u001b[31mCANARY"`, none),
		"a carriage return": summary(x, `"CANARY\r\nCANARY"`, none), "a C1 control character": summary(x, `"CANARY\u0085CANARY"`, none), "half of a surrogate pair": summary(x, `"CANARY\ud83d"`, none), "half of one in a keyword": summary(x, x, `["CANARY\ude00"]`),
		"eleven keywords": summary(x, x, "["+strings.TrimSuffix(strings.Repeat(x+",", 11), ",")+"]"), "an empty keyword": summary(x, x, `["CANARY",""]`), "a blank keyword": summary(x, x, `[" "]`), "null as keyword": summary(x, x, `["CANARY",null]`),
		"a number as keyword": summary(x, x, `[1]`), "a list as keyword": summary(x, x, `[["CANARY"]]`), "a keyword too long": summary(x, x, "["+quoted(101, "x")+"]"), "a keyword of two lines": summary(x, x, `["CANARY\nCANARY"]`),
		"nested deeply": strings.Repeat("[", 100_000), "nested deeply in a field": summary(x, x, strings.Repeat("[", 9000)+strings.Repeat("]", 9000)),
	} {
		d.model.text, d.model.asked = text, nil
		effects, err := d.kind.Result(t.Context(), j)
		var later *job.LaterError
		if effects != nil || !errors.As(err, &later) || later.Reason != "ai-bad-answer" || later.After != 0 || job.ReasonOf(err) != "" {
			t.Errorf("%s: %v, %v, want no effects and ai-bad-answer", name, effects, err)
			continue
		}
		if s := err.Error(); strings.Contains(s, "CANARY") || strings.Contains(s, "xxxx") || len(s) > 150 {
			t.Errorf("%s: the error quotes the answer or is long: %.200s", name, s)
		}
		if got := len(d.model.asked); got != 1 {
			t.Errorf("%s: the model was asked %d times, want once", name, got)
		}
	}
	if s := d.find(); s.Revision != 0 || s.Text != "" {
		t.Errorf("published is %+v, want nothing", s)
	}
	if til.ReasonBadAnswer != ai.ReasonBadAnswer {
		t.Errorf("%s here and %s in the client: want one reason for one thing", til.ReasonBadAnswer, ai.ReasonBadAnswer)
	}
}

func TestAnAnswerThatIsASummary(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("오늘은 락을 읽었다")
	j := d.claim(d.open()).Job()
	ten := "[" + strings.TrimSuffix(strings.Repeat(quoted(100, "x")+",", 10), ",") + "]"
	for name, tt := range map[string]struct {
		text string
		want til.Content
	}{
		"Hangul":                 {answer, til.Content{"트랜잭션 격리 수준", "팬텀 리드를 배웠다.\n\t예제도 읽었다.", []string{"트랜잭션", "phantom read"}}},
		"no keywords":            {summary(`"a"`, `"b"`, "[]"), til.Content{"a", "b", []string{}}},
		"white space around":     {"\r\n " + summary(`"  a \n"`, `"\n b \r\n"`, `["\tc "]`) + " \n", til.Content{"a", "b", []string{"c"}}},
		"another order":          {`{"keywords":["c"],"text":"b","title":"a"}`, til.Content{"a", "b", []string{"c"}}},
		"the longest of all":     {summary(quoted(100, "한"), quoted(100*1024, "x"), ten), til.Content{strings.Repeat("한", 100), strings.Repeat("x", 100*1024), strings.Split(strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 100)+",", 10), ","), ",")}},
		"marks and emoji":        {summary(`"<b>&amp;"`, `"\"인용\" \\ \uD83D\uDE00"`, `["#"]`), til.Content{"<b>&amp;", `"인용" \ 😀`, []string{"#"}}},
		"a text that looks JSON": {summary(`"{}"`, `"null"`, `["[]"]`), til.Content{"{}", "null", []string{"[]"}}},
	} {
		d.model.text = tt.text
		effects, err := d.kind.Result(t.Context(), j)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(effects, []once.Effect{once.Put{Subject: member, Name: string(day), Doc: tt.want}}); diff != "" {
			t.Errorf("%s, got (-) and want (+):\n%s", name, diff)
		}
		if err := effects[0].Check(member); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any answer: an effect within the limits, or an error; never a panic.
func FuzzAnswer(f *testing.F) {
	d := newDesk(f, openStore(f))
	d.note("x")
	j := d.claim(d.open()).Job()
	for _, text := range []string{answer, "{}", "[]", "null", "```json\n" + answer + "\n```", `{"title":"a","text":"b","keywords":[null]}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		effects, err := til.New(d.store, time.UTC, &model{text: text}).Result(t.Context(), j)
		if err != nil {
			return
		}
		c := effects[0].(once.Put).Doc.(til.Content)
		if c.Title == "" || len(c.Title) > til.MaxTitle || c.Text == "" || len(c.Text) > til.MaxText || c.Keywords == nil || len(c.Keywords) > til.MaxKeywords || !json.Valid([]byte(text)) {
			t.Fatalf("%q is taken as %+v", text, c)
		}
	})
}

// What the model gives of its own is passed on as it is: the client has named the reason.
func TestErrorsOfTheModelArePassedOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("x")
	j := d.claim(d.open()).Job()
	for _, want := range []error{job.Permanent("ai-refused", errors.New("x")), job.Later("ai-busy", 7, errors.New("x")), job.ErrLost, context.Canceled} {
		d.model.err = want
		if effects, err := d.kind.Result(t.Context(), j); effects != nil || err != want {
			t.Errorf("%v, %v, want no effects and %v", effects, err, want)
		}
	}
}

// A summary written by encoding/json reads back, if it is one.
func TestAnswersOfEncodingJSON(t *testing.T) {
	t.Parallel()
	d := newDesk(t, openStore(t))
	d.note("x")
	j := d.claim(d.open()).Job()
	word := rapid.StringMatching(`[a-z가-힣<>&"\\{}][a-z가-힣 <>&"\\{}]{0,20}[a-z가-힣]`)
	rapid.Check(t, func(r *rapid.T) {
		want := til.Content{word.Draw(r, "title"), word.Draw(r, "text") + "\n" + word.Draw(r, "more"), rapid.SliceOfN(word, 0, 10).Draw(r, "keywords")}
		b, err := json.Marshal(want)
		if err != nil {
			r.Fatal(err)
		}
		effects, err := til.New(d.store, time.UTC, &model{text: string(b)}).Result(t.Context(), j)
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(effects[0].(once.Put).Doc, want); diff != "" {
			r.Fatal(diff)
		}
	})
}
