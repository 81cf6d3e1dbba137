package jsonlines

// One error for one file, with all its mistakes in the order of their lines.

import (
	"fmt"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	Path string // of the field, "breaker.window"; "" for the document
	Line int    // from 1
	Text string // what is wrong and what to write instead
}

// String is "line 3: breaker.window: …".
func (m Mistake) String() string {
	if m.Path == "" {
		return fmt.Sprintf("line %d: %s", m.Line, m.Text)
	}
	return fmt.Sprintf("line %d: %s: %s", m.Line, m.Path, m.Text)
}

// Error is a file that was refused.
type Error struct {
	Name     string // of the file
	Mistakes []Mistake
}

// shown is how many mistakes a message lists.
const shown = 20

// Error is one line for one mistake, else a heading and a line for each (the first 20).
func (e *Error) Error() string {
	if len(e.Mistakes) == 1 {
		return e.Name + ": " + e.Mistakes[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d mistakes", e.Name, len(e.Mistakes))
	for _, m := range e.Mistakes[:min(len(e.Mistakes), shown)] {
		b.WriteString("\n  " + m.String())
	}
	if more := len(e.Mistakes) - shown; more > 0 {
		fmt.Fprintf(&b, "\n  and %d more", more)
	}
	return b.String()
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
