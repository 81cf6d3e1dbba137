package jsonlines

// One error for one file, with all its mistakes in the order of their lines.

import (
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a file.
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

// Error is a file that was refused. It is never without a mistake.
type Error struct {
	Name     string // of the file
	Mistakes []Mistake
}

// shown is how many mistakes a message lists.
const shown = 20

// Error has one line for each mistake, "strategy.json:7: intervals[3].wait: …", which an editor can jump to; 20 at most, Mistakes has all.
func (e *Error) Error() string {
	var lines []string
	for _, m := range e.Mistakes[:min(len(e.Mistakes), shown)] {
		lines = append(lines, fmt.Sprintf("%s:%d: %s", e.Name, m.Line, m))
	}
	if len(lines) == 1 {
		return lines[0]
	}
	if more := len(e.Mistakes) - shown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d mistakes:\n\t%s", len(e.Mistakes), strings.Join(lines, "\n\t"))
}

// Err is nil, or a *Error with every mistake noted so far.
func (d *Doc) Err() error {
	if len(d.mistakes) == 0 {
		return nil
	}
	mistakes := slices.Clone(d.mistakes)
	slices.SortStableFunc(mistakes, func(a, b Mistake) int { return a.Line - b.Line })
	return &Error{Name: d.name, Mistakes: mistakes}
}
