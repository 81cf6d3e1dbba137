package server

// What the stub saw, as values: the report is a copy, made at one instant, that nothing changes any more.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Report is what reached the stub. Times are since Started; in JSON they are nanoseconds. A connection that was refused never reached it, so
// it is the caller who counts those.
type Report struct {
	Scenario string        `json:"scenario"`
	Seed     uint64        `json:"seed"`
	Started  time.Time     `json:"started"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Calls    int           `json:"calls"`
	InFlight int           `json:"in_flight"`
	Phases   []PhaseReport `json:"phases"` // in the order of the scenario

	Spans        []Span `json:"spans"`         // what ran when; the last one is running
	SpansDropped int    `json:"spans_dropped"` // the oldest go when there are too many (MaxSpans)

	Log        []Call `json:"log,omitempty"` // in the order of arrival
	LogDropped int    `json:"log_dropped"`   // the oldest go when there are too many (MaxLog); they stay counted above
}

// PhaseReport is what reached the stub in one phase, in all its rounds together.
type PhaseReport struct {
	Phase    string         `json:"phase"`
	Lasted   time.Duration  `json:"lasted_ns"`
	Calls    int            `json:"calls"`
	Outcomes map[string]int `json:"outcomes"` // of the calls that have ended
}

// Span is a time in which nothing changed: a phase, or half a period of one that flaps.
type Span struct {
	Phase  string        `json:"phase"`
	Round  int           `json:"round"`   // how often the scenario had started again
	Down   bool          `json:"down"`    // there were faults: the phase has some, and it did not flap up
	ByHand bool          `json:"by_hand"` // somebody switched to it
	Begin  time.Duration `json:"begin_ns"`
	End    time.Duration `json:"end_ns"` // 0: it runs
	Calls  int           `json:"calls"`  // that arrived in it
}

// Call is one call that reached the stub.
type Call struct {
	At      time.Duration `json:"at_ns"`
	Took    time.Duration `json:"took_ns"`
	Record  string        `json:"record"`
	Attempt int           `json:"attempt"`
	Phase   string        `json:"phase"`
	Outcome string        `json:"outcome"` // "ok", a status, "hang", "reset", "drip", "die", "refuse"; or one of those below
}

// Outcomes that no scenario asks for.
const (
	Pending = "pending" // the call goes on
	Gone    = "gone"    // the caller went, or was cut off by a phase that refuses connections, before there was an answer
)

// String is a table with a row for each phase.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, seed %d: %d calls in %v", r.Scenario, r.Seed, r.Calls, round(r.Elapsed))
	if r.InFlight > 0 {
		fmt.Fprintf(&b, ", %d of them still running", r.InFlight)
	}
	b.WriteByte('\n')
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "  phase\tlasted\tcalls\toutcomes")
	for _, p := range r.Phases {
		fmt.Fprintf(table, "  %s\t%v\t%d\t%s\n", p.Phase, round(p.Lasted), p.Calls, p.outcomes())
	}
	table.Flush()
	return b.String()
}

// String is "17 calls: 503 3, ok 14".
func (p PhaseReport) String() string {
	if p.Calls == 0 {
		return "no call"
	}
	return fmt.Sprintf("%d calls: %s", p.Calls, p.outcomes())
}

func (p PhaseReport) outcomes() string {
	if len(p.Outcomes) == 0 {
		return "-"
	}
	var parts []string
	for _, outcome := range slices.Sorted(maps.Keys(p.Outcomes)) {
		parts = append(parts, fmt.Sprintf("%s %d", outcome, p.Outcomes[outcome]))
	}
	return strings.Join(parts, ", ")
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}

// String is `phase "down" from 5s on, 17 calls`, with what is special about it.
func (s Span) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "phase %q from %v on", s.Phase, round(s.Begin))
	if s.Round > 0 {
		fmt.Fprintf(&b, ", round %d", s.Round+1)
	}
	if s.Down {
		b.WriteString(", with faults")
	}
	if s.ByHand {
		b.WriteString(", switched by hand")
	}
	fmt.Fprintf(&b, ", %d calls", s.Calls)
	return b.String()
}
