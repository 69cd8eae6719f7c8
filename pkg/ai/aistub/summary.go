package aistub

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The bounds of an answer.
const (
	titleWords  = 8
	titleBytes  = 120
	textBytes   = 2 << 10
	lineBytes   = 240 // what is taken of one line of the notes
	maxKeywords = 10
	wordBytes   = 60 // longer ones are hashes or links, not keywords
)

// summary is what the stub answers with.
type summary struct {
	Title    string   `json:"title"`
	Text     string   `json:"text"`
	Keywords []string `json:"keywords"`
}

func (s summary) json() string {
	b, _ := json.Marshal(s) // strings only: it cannot fail
	return string(b)
}

// summarise makes a summary of notes, which are valid UTF-8: the first words as title, the beginnings of the lines as text, the words that come most often as keywords. Title and text are never empty.
func summarise(notes string) summary {
	words := strings.FieldsFunc(notes, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	s := summary{Title: "Untitled", Text: "Nothing was noted.", Keywords: keywords(words)}
	if len(words) > 0 {
		s.Title = cut(strings.Join(words[:min(titleWords, len(words))], " "), titleBytes)
	}
	var lines []string
	size := 0
	for line := range strings.Lines(notes) {
		line = cut(strings.Join(strings.Fields(line), " "), lineBytes)
		if line == "" {
			continue
		}
		if size += len(line) + 1; size > textBytes {
			break
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		s.Text = strings.Join(lines, "\n")
	}
	return s
}

// empty words say nothing of what a note is about.
var empty = map[string]bool{
	"the": true, "and": true, "for": true, "with": true, "that": true, "this": true, "from": true, "was": true, "were": true, "are": true,
	"not": true, "but": true, "you": true, "have": true, "has": true, "had": true, "into": true, "its": true, "when": true, "what": true,
}

// keywords are the words that come most often, the earlier one first where two come equally often.
func keywords(words []string) []string {
	count := map[string]int{}
	distinct := []string{}
	for _, w := range words {
		w = strings.ToLower(w)
		if short := utf8.RuneCountInString(w) < 3 && len(w) < 6; short || len(w) > wordBytes || empty[w] { // two Hangul syllables are a word
			continue
		}
		if count[w]++; count[w] == 1 {
			distinct = append(distinct, w)
		}
	}
	slices.SortStableFunc(distinct, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	return distinct[:min(maxKeywords, len(distinct))]
}

// cut shortens s to at most n bytes, between two characters, and drops the space that is left at the end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimRight(s[:n], " ")
}
