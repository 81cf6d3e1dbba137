// Package page writes the HTML page of a bench run: one file, nothing loaded from anywhere, readable at any width.
package page

import (
	"io"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/tally"
)

// Report is what the page shows.
type Report struct {
	Command string
	Made    time.Time
	Facts   []string // machine and versions
	Rows    []tally.Row
	Tracks  []Track
	About   map[string]string // of scenarios and contenders
}

// Track is a contender's run over time.
type Track struct {
	Scenario, Contender string
	Step                time.Duration // length of a bucket
	Done                []float64     // records done in each, a second
	Calls               []float64     // calls that reached the dependency in each, a second; nil: as Done
	Open                []Span        // the contender's breaker, or what it has in place of one
	Down                []Span        // the dependency
	Events              []Mark
}

// Span is from From to To, since the start of the track.
type Span struct{ From, To time.Duration }

// Mark is something that happened.
type Mark struct {
	At   time.Duration
	Text string
}

// Write writes the page.
func Write(w io.Writer, r Report) error { return nil }
