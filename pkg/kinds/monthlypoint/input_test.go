package monthlypoint_test

import (
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"

	"hanbeon/pkg/kinds/monthlypoint"
	"hanbeon/pkg/once"

	"pgregory.net/rapid"
)

func seoul(t testing.TB) *time.Location {
	t.Helper()
	z, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	return z
}

var april = time.Date(2024, 3, 31, 15, 30, 0, 0, time.UTC)

// KEY-10 and KEY-09: only an integer in range, in plain digits, is an amount; nothing is rounded, cut or taken for 0. 1e3 is refused.
func TestOpenRefusesAmounts(t *testing.T) {
	t.Parallel()
	k := monthlypoint.New(nil, seoul(t))
	for _, amount := range []string{
		"0", "-5", "-0", "12.7", "100.0", `"100"`, "1e3", "1E2", "1e400", "null", "true", "[100]", `{"n":100}`, "1000000000001", "9007199254740993", "9223372036854775808",
		"99999999999999999999999999", `""`, `"1e3"`,
	} {
		opening, err := k.Open(april, []byte(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":`+amount+`}`))
		if err == nil || !strings.Contains(err.Error(), "amount") {
			t.Errorf("amount %s: %+v, error %v, want one that names amount", amount, opening, err)
		}
	}
	for _, amount := range []string{"1", "100", "1000000000000"} {
		opening, err := k.Open(april, []byte(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":`+amount+`}`))
		if want := `{"amount":` + amount + `}`; err != nil || opening.Inputs != want {
			t.Errorf("amount %s: inputs %s (%v), want %s", amount, opening.Inputs, err, want)
		}
	}
}

func TestOpenIsStrictAboutTheInput(t *testing.T) {
	t.Parallel()
	k := monthlypoint.New(nil, seoul(t))
	for name, tt := range map[string]struct{ input, want string }{
		"nothing":              {``, "is not JSON"},
		"null":                 {`null`, "JSON object"},
		"a list":               {`[{"amount":100}]`, "JSON object"},
		"text":                 {`"amount"`, "JSON object"},
		"no amount":            {`{}`, "amount is missing"},
		"other case":           {`{"Amount":100}`, `unknown field "Amount"`},
		"an unknown field":     {`{"amount":100,"points":100}`, `unknown field "points"`},
		"two amounts":          {`{"amount":100,"amount":200}`, `field "amount" occurs twice`},
		"two equal amounts":    {`{"amount":100,"amount":100}`, "occurs twice"},
		"an escaped duplicate": {`{"amount":100,"\u0061mount":200}`, "occurs twice"},
		"another kind":         {`{"kind":"til","amount":100}`, "kind"},
		"a kind that is null":  {`{"kind":null,"amount":100}`, "kind"},
		"a time as a number":   {`{"scheduledTime":1711899000,"amount":100}`, "scheduledTime"},
		"cut short":            {`{"amount":100`, "is not JSON"},
		"cut in the middle":    {`{"amount":`, "is not JSON"},
		"a comma too many":     {`{"amount":100,}`, "is not JSON"},
		"a second object":      {`{"amount":100}{"amount":200}`, "is not JSON"},
		"text after":           {`{"amount":100} x`, "is not JSON"},
		"a leading zero":       {`{"amount":0100}`, "is not JSON"},
		"a plus":               {`{"amount":+100}`, "is not JSON"},
		"hexadecimal":          {`{"amount":0x64}`, "is not JSON"},
	} {
		if opening, err := k.Open(april, []byte(tt.input)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %+v, error %v, want one with %q", name, opening, err, tt.want)
		}
	}
	for _, input := range []string{`{"amount":100}`, " {\n\t\"amount\" : 100 } \n", `{"amount":100,"kind":"monthly-point"}`, `{"scheduledTime":"2024-03-31T15:30:00Z","amount":100,"kind":"monthly-point"}`} {
		if opening, err := k.Open(april, []byte(input)); err != nil || opening.Inputs != `{"amount":100}` {
			t.Errorf("%s: %+v, %v, want it accepted", input, opening, err)
		}
	}
}

func TestParseAmountProperties(t *testing.T) {
	t.Parallel()
	t.Run("every amount in range has one spelling", rapid.MakeCheck(func(t *rapid.T) {
		n := rapid.Int64Range(1, once.MaxAmount).Draw(t, "n")
		text := strconv.FormatInt(n, 10)
		if got, err := monthlypoint.ParseAmount(text); err != nil || got != n {
			t.Fatalf("ParseAmount(%s) = %d, %v", text, got, err)
		}
		for _, other := range []string{"0" + text, "+" + text, "-" + text, text + ".0", text + "e0", " " + text, text + " ", text + "\n"} {
			if got, err := monthlypoint.ParseAmount(other); err == nil {
				t.Fatalf("ParseAmount(%q) = %d, want an error", other, got)
			}
		}
	}))
	t.Run("nothing out of range passes", rapid.MakeCheck(func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64Max(0), rapid.Int64Min(once.MaxAmount+1)).Draw(t, "n")
		if got, err := monthlypoint.ParseAmount(strconv.FormatInt(n, 10)); err == nil {
			t.Fatalf("ParseAmount(%d) = %d, want an error", n, got)
		}
	}))
	for _, s := range []string{"", "１００", "1_000", "1,000", "0x10", "abc"} {
		if got, err := monthlypoint.ParseAmount(s); err == nil {
			t.Errorf("ParseAmount(%q) = %d, want an error", s, got)
		}
	}
}

// What Open accepts is one object with one integer, and its inputs are canonical.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"kind":"monthly-point","scheduledTime":"2024-03-31T15:30:00Z","amount":100}`))
	f.Add([]byte(`{"amount":1e3,"amount":"1"}`))
	f.Fuzz(func(t *testing.T, input []byte) {
		opening, err := monthlypoint.New(nil, time.UTC).Open(april, input)
		if err != nil {
			return
		}
		again, err := monthlypoint.New(nil, time.UTC).Open(april, []byte(opening.Inputs))
		if err != nil || !cmp.Equal(again, opening) {
			t.Fatalf("%q gives %+v, and its inputs %+v (%v)", input, opening, again, err)
		}
	})
}
