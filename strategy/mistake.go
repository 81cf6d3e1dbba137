// What is wrong in a file, said so that it can be put right: every mistake at once, each with where it is, what it is and
// what to do.

package strategy

import (
	"fmt"
	"strings"
)

// ParseError is every mistake in a strategy, in the order of their lines. It is never without one.
type ParseError struct {
	Name     string // what was parsed, such as the path of the file
	Mistakes []Mistake
}

// Mistake is one thing that is wrong.
type Mistake struct {
	Path string // where in the document: "intervals[3].wait"; "" for the document itself
	Line int    // the line on which that begins, from 1
	Text string // what is wrong, and what to do
}

// String is "intervals[3].wait: " and the text; the line is left to those who know the file's name.
func (m Mistake) String() string {
	if m.Path == "" {
		return m.Text
	}
	return m.Path + ": " + m.Text
}

// Error has one line for each mistake, "strategy.json:7: intervals[3].wait: …"; a hundred at most, Mistakes has all.
func (e *ParseError) Error() string {
	const most = 100

	lines := make([]string, 0, len(e.Mistakes))
	for i, m := range e.Mistakes {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(e.Mistakes)-most))
			break
		}
		lines = append(lines, fmt.Sprintf("%s:%d: %s", e.Name, m.Line, m))
	}
	if len(lines) == 1 {
		return "strategy: " + lines[0]
	}
	return fmt.Sprintf("strategy: %d mistakes:\n\t%s", len(e.Mistakes), strings.Join(lines, "\n\t"))
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
