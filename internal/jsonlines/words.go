package jsonlines

// What a message quotes of what could be written: the words there are, the one that was probably meant, a time span.

import (
	"fmt"
	"strings"
	"time"
)

// Brief is d as a person writes it, without the zeroes at its end: "1m" for 1m0s.
func Brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// oneOf says which words there are, and which of them was probably meant.
func oneOf(word string, words []string) string {
	for _, w := range words {
		if distance(strings.ToLower(word), strings.ToLower(w)) <= (len(w)+1)/3 {
			return fmt.Sprintf("did you mean %q?", w)
		}
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return "it can be " + strings.Join(quoted, ", ")
}

// distance is how many letters must be put in, taken out or changed to make b of a (Levenshtein).
func distance(a, b string) int {
	if len(a) > 2*len(b) {
		return len(a) // far, and not worth the time
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
