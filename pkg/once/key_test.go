package once_test

import (
	"strings"
	"testing"

	"hanbeon/pkg/once"

	"pgregory.net/rapid"
)

func TestParseKind(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"monthly-point": true, "til": true, "a": true, "k2": true, strings.Repeat("k", 32): true,
		"": false, "Til": false, "2k": false, "-a": false, "a-": false, "a--b": false, "a_b": false, "a:b": false, "a b": false, "til\n": false, "월": false,
		strings.Repeat("k", 33): false,
	} {
		got, err := once.ParseKind(s)
		if (err == nil) != want {
			t.Errorf("ParseKind(%q): error %v, want accepted %v", s, err, want)
		}
		if want && string(got) != s {
			t.Errorf("ParseKind(%q) = %q", s, got)
		}
	}
}

// KEY-02: what looks equal and is not is refused or stays two subjects; nothing is repaired. KEY-04: an empty part is no part.
func TestCheckSubjectRefusesAndNeverRepairs(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"member-42", "Member-42", "a", "0", "a.b_c~d@e+f=g-h", strings.Repeat("x", once.MaxSubject)} {
		if err := once.CheckSubject(s); err != nil {
			t.Errorf("CheckSubject(%q): %v, want accepted", s, err)
		}
	}
	for name, s := range map[string]string{
		"empty": "", "blank": "   ", "space before": " member-42", "space after": "member-42 ", "zero width space": "member-42\u200b", "byte order mark": "\ufeffmember-42",
		"Hangul composed": "\ud68c\uc6d0", "Hangul decomposed": "\u1112\u116c\u110b\u116f\u11ab", "colon": "2024-05:member-1", "slash": "a/b", "percent": "%3A", "hash": "a#b",
		"NUL": "a\x00", "newline": "member-42\n", "not UTF-8": "a\xff", "full width": "\uff4d42", "too long": strings.Repeat("x", once.MaxSubject+1),
	} {
		if err := once.CheckSubject(s); err == nil {
			t.Errorf("%s: CheckSubject(%q) accepted, want an error", name, s)
		}
	}
}

// KEY-01: no two triples give one key, since no part can contain the separator.
func TestNewKeyRefusesSeparatorsInParts(t *testing.T) {
	t.Parallel()
	for _, p := range [][3]string{
		{"til", "c", "a:b"}, {"til", "b:c", "a"}, {"ti:l", "c", "a"}, {"monthly-point", "2024-04", "2024-05:member-1"}, {"monthly-point", "2024-04", "member-42:bonus"},
		{"monthly-point", "2024-04", "%3A"}, {"monthly-point", "2024-04", ""}, {"monthly-point", "", "member-42"}, {"", "2024-04", "member-42"},
	} {
		if k, err := once.NewKey(once.Kind(p[0]), p[1], p[2]); err == nil {
			t.Errorf("NewKey(%q) = %s, want an error", p, k)
		}
	}
	for _, s := range []string{"", ":", "::", "monthly-point:2024-04:", "monthly-point:2024-04", "monthly-point:2024-04:a:b", ":2024-04:a", "monthly-point::a"} {
		if k, err := once.ParseKey(s); err == nil {
			t.Errorf("ParseKey(%q) = %s, want an error", s, k)
		}
	}
}

var (
	kinds = rapid.StringMatching(`[a-z][a-z0-9]{0,7}(-[a-z0-9]{1,5}){0,3}`)
	parts = rapid.StringMatching(`[A-Za-z0-9._~@+=-]{1,128}`)
	// loose parts are short and full of separators, so that two draws often differ only in where a colon stands.
	loose = rapid.StringMatching(`[ab:\-]{0,4}`)
)

func TestKeyProperties(t *testing.T) {
	t.Parallel()
	t.Run("a key of legal parts reads back as those parts", rapid.MakeCheck(func(t *rapid.T) {
		kind, scope, subject := kinds.Draw(t, "kind"), parts.Draw(t, "scope"), parts.Draw(t, "subject")
		k, err := once.NewKey(once.Kind(kind), scope, subject)
		if err != nil {
			t.Fatal(err)
		}
		back, err := once.ParseKey(k.String())
		if err != nil || back != k || back.Kind() != once.Kind(kind) || back.Scope() != scope || back.Subject() != subject {
			t.Fatalf("ParseKey(%s) = %v (%v)", k, back, err)
		}
	}))
	t.Run("distinct triples never give one key", rapid.MakeCheck(func(t *rapid.T) {
		a := [3]string{loose.Draw(t, "kind"), loose.Draw(t, "scope"), loose.Draw(t, "subject")}
		b := [3]string{loose.Draw(t, "kind"), loose.Draw(t, "scope"), loose.Draw(t, "subject")}
		x, err := once.NewKey(once.Kind(a[0]), a[1], a[2])
		y, err2 := once.NewKey(once.Kind(b[0]), b[1], b[2])
		if err == nil && err2 == nil && (x.String() == y.String()) != (a == b) {
			t.Fatalf("%q and %q give %s and %s", a, b, x, y)
		}
	}))
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"monthly-point:2024-04:member-42", "a:b:c", "::", "a:b:c:d", "keyword-map:d@3:record-1@2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		k, err := once.ParseKey(s)
		if err != nil {
			return
		}
		if k.String() != s {
			t.Fatalf("ParseKey(%q).String() = %q", s, k.String())
		}
		again, err := once.NewKey(k.Kind(), k.Scope(), k.Subject())
		if err != nil || again != k {
			t.Fatalf("NewKey of the parts of %q = %v (%v)", s, again, err)
		}
	})
}

func TestDigestCoversKeyAndInputsOnly(t *testing.T) {
	t.Parallel()
	key := func(kind once.Kind, scope, subject string) once.Key {
		k, err := once.NewKey(kind, scope, subject)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	april := key("monthly-point", "2024-04", "member-42")
	// Digests are stored for ever: this one was computed by sha256sum and must not change.
	if got, want := once.Digest(april, `{"amount":100}`), "86f83460056c87725e9879c07328027f0da84d30da9d6adb209f743b895ca49d"; got != want {
		t.Errorf("Digest(%s) = %s, want %s", april, got, want)
	}
	seen := map[string]string{}
	for _, k := range []once.Key{april, key("monthly-point", "2024-05", "member-42"), key("monthly-point", "2024-04", "member-43"), key("til", "2024-04", "member-42")} {
		for _, inputs := range []string{`{"amount":100}`, `{"amount":101}`, `{}`} {
			d := once.Digest(k, inputs)
			if other, ok := seen[d]; ok {
				t.Errorf("%s with %s and %s have one digest", k, inputs, other)
			}
			seen[d] = k.String() + " " + inputs
		}
	}
}
