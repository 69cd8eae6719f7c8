package once_test

import (
	"math"
	"strings"
	"testing"

	"hanbeon/pkg/once"
)

// KEY-09: an amount beyond the bound, or 0, is no effect. KEY-04: nor is one without a subject.
func TestPostingCheck(t *testing.T) {
	t.Parallel()
	key, err := once.NewKey("monthly-point", "2024-04", "member-42")
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int64) once.Effect { return once.Add{Subject: "member-42", Name: "points", N: n} }
	put := once.Put{Subject: "member-42", Name: "text", Doc: struct{}{}}
	for _, tt := range []struct {
		name    string
		effects []once.Effect
		want    string // part of the error; "" is accepted
	}{
		{"one add", []once.Effect{add(100)}, ""},
		{"one put", []once.Effect{put}, ""},
		{"one of both", []once.Effect{add(-100), put}, ""},
		{"the largest amounts", []once.Effect{add(once.MaxAmount)}, ""},
		{"the smallest amount", []once.Effect{add(-once.MaxAmount)}, ""},
		{"none", nil, "0 adds and 0 puts"},
		{"two adds", []once.Effect{add(1), add(2)}, "2 adds"},
		{"two puts", []once.Effect{put, put}, "2 puts"},
		{"nothing to add", []once.Effect{add(0)}, "amount 0"},
		{"too much", []once.Effect{add(once.MaxAmount + 1)}, "beyond"},
		{"too little", []once.Effect{add(-once.MaxAmount - 1)}, "beyond"},
		{"2^53 + 1", []once.Effect{add(9007199254740993)}, "amount 9007199254740993"},
		{"the least int64", []once.Effect{add(math.MinInt64)}, "beyond"},
		{"another subject", []once.Effect{once.Add{Subject: "member-43", Name: "points", N: 1}}, "member-43"},
		{"no subject", []once.Effect{once.Add{Name: "points", N: 1}}, "not the posting's subject"},
		{"a balance with a colon", []once.Effect{once.Add{Subject: "member-42", Name: "a:b", N: 1}}, "balance name"},
		{"a balance without a name", []once.Effect{once.Add{Subject: "member-42", N: 1}}, "balance name"},
		{"a put without a document", []once.Effect{once.Put{Subject: "member-42", Name: "text"}}, "nil"},
		{"a put without a name", []once.Effect{once.Put{Subject: "member-42", Doc: 1}}, "put: name"},
		{"a put for another subject", []once.Effect{once.Put{Subject: "x", Name: "text", Doc: 1}}, "not the posting's subject"},
		{"an effect of its own", []once.Effect{foreign{}}, "neither Add nor Put"},
	} {
		err := once.Posting{Key: key, Effects: tt.effects}.Check()
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v, want accepted", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

type foreign struct{}

func (foreign) Check(string) error { return nil }
