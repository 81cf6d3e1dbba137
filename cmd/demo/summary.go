package main

// The account. All that it is made of was seen from the outside: the producer's acknowledgements, the payment service's log, the dead letters that
// another consumer read back, and what the broker says of the group. settle turns that evidence into figures and does no I/O.

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/server"
)

// coordinates are a record's place in the topic.
type coordinates struct {
	Partition int32
	Offset    int64
}

// evidence is what was seen.
type evidence struct {
	topic       string
	produced    map[coordinates]fingerprint
	calls       []server.Call       // in the order of arrival
	dropped     int                 // calls that the log has forgotten
	began       time.Time           // the instant that the calls count from
	asked       map[string][]asking // by record: the same calls, as their callers know them
	letters     []letter
	committed   []int64 // the group's offsets at the end
	rebalances  int
	down        time.Duration // how long the payment service was
	waits       history
	interrupted bool
}

// Summary is the account. Its keys in JSON stay.
type Summary struct {
	Produced       int         `json:"produced"`         // records that the broker has acknowledged; with a topic that existed, those that were there
	Handled        int         `json:"handled"`          // of those, the ones that the payment service answered with 200
	DeadLettered   int         `json:"dead_lettered"`    // of those, the ones found in the DLQ
	Left           int         `json:"left"`             // neither, and not committed: they come again at the next start
	Lost           int         `json:"lost"`             // neither, although committed
	Duplicated     int         `json:"duplicated"`       // done more than once
	OutOfOrder     int         `json:"out_of_order"`     // calls for a record after one with a higher offset in its partition
	EarlyCalls     int         `json:"early_calls"`      // calls before the wait was over
	Early          []earlyCall `json:"early,omitempty"`  // which these are
	Rebalances     int         `json:"rebalances"`       // of the group, after the first assignment
	CallsWhileDown int         `json:"calls_while_down"` // that reached the payment service
	DownSeconds    float64     `json:"down_s"`
	DamagedLetters int         `json:"damaged_letters"` // dead letters whose key, value, headers or timestamp are not the record's
	Letters        []letter    `json:"dead_letters"`
	Interrupted    bool        `json:"interrupted"`
	AddsUp         bool        `json:"adds_up"`
	Faults         []string    `json:"faults,omitempty"` // what does not add up
}

// settle makes the account.
func settle(e evidence) Summary {
	s := Summary{Produced: len(e.produced), Rebalances: e.rebalances, DownSeconds: e.down.Round(time.Millisecond).Seconds(),
		Letters: e.letters, Interrupted: e.interrupted}
	if s.Letters == nil {
		s.Letters = []letter{}
	}

	for _, c := range e.calls {
		if c.Phase == down {
			s.CallsWhileDown++
		}
	}
	for _, l := range e.letters {
		if print, ours := e.produced[l.of]; ours && l.was != print {
			s.DamagedLetters++
		}
	}
	handled, dead, done := e.ends()
	s.Handled, s.DeadLettered = len(handled), len(dead)
	for at := range e.produced {
		switch {
		case done[at] > 1:
			s.Duplicated++
		case done[at] == 1:
		case at.Offset < e.committed[at.Partition]:
			s.Lost++
		default:
			s.Left++
		}
	}
	s.OutOfOrder = outOfOrder(e.calls)
	s.Early = early(e)
	s.EarlyCalls = len(s.Early)
	s.Faults = s.faults(e.dropped)
	s.AddsUp = len(s.Faults) == 0
	return s
}

// ends tells which of the produced records were handled, and which dead-lettered, and how often each was either.
func (e *evidence) ends() (handled, dead map[coordinates]bool, done map[coordinates]int) {
	handled, dead, done = map[coordinates]bool{}, map[coordinates]bool{}, map[coordinates]int{}
	for _, c := range e.calls {
		if at, ours := e.ours(c.Record); ours && c.Outcome == "ok" {
			handled[at] = true
			done[at]++
		}
	}
	for _, l := range e.letters {
		if _, ours := e.produced[l.of]; ours {
			dead[l.of] = true
			done[l.of]++
		}
	}
	return handled, dead, done
}

// ours tells which produced record a call is about.
func (e *evidence) ours(record string) (coordinates, bool) {
	topic, at, err := parseRecord(record)
	if err != nil || topic != e.topic {
		return at, false
	}
	_, produced := e.produced[at]
	return at, produced
}

// outOfOrder counts the calls for a record that come after a call for a later one of its partition.
func outOfOrder(calls []server.Call) (n int) {
	furthest := map[string]int64{}
	for _, c := range calls {
		topic, at, err := parseRecord(c.Record)
		if err != nil {
			continue
		}
		lane := fmt.Sprint(topic, "/", at.Partition)
		if at.Offset < furthest[lane] {
			n++
		}
		furthest[lane] = max(furthest[lane], at.Offset)
	}
	return n
}

// faults says what does not add up.
func (s *Summary) faults(dropped int) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if sum := s.Handled + s.DeadLettered + s.Left; sum != s.Produced {
		wrong("produced is %d, but handled, dead-lettered and left are %d together", s.Produced, sum)
	}
	if s.Left > 0 && !s.Interrupted {
		wrong("left is %d, not 0: these were never done", s.Left)
	}
	for _, f := range []struct {
		name  string
		count int
	}{
		{"lost", s.Lost}, {"duplicated", s.Duplicated}, {"out of order", s.OutOfOrder}, {"early calls", s.EarlyCalls},
		{"rebalances", s.Rebalances}, {"damaged dead letters", s.DamagedLetters}, {"calls that the log has forgotten", dropped},
	} {
		if f.count != 0 {
			wrong("%s: %d, not 0", f.name, f.count)
		}
	}
	return faults
}

// print writes the account for a person.
func (s *Summary) print(out io.Writer, paint func(tone, text string) string) {
	var b strings.Builder
	for i, l := range s.Letters {
		if i == shownLetters {
			fmt.Fprintf(&b, "\n%s\n", paint(dim, fmt.Sprintf("… and %d more dead letters", len(s.Letters)-i)))
			break
		}
		fmt.Fprintf(&b, "\n%s\n", paint(bold, fmt.Sprintf("Dead letter %s, and its headers", l.Place)))
		for _, h := range l.Headers {
			fmt.Fprintf(&b, "  %-19s %s\n", h.Name, oneLine(h.Value))
		}
	}

	fmt.Fprintf(&b, "\n%s\n", paint(bold, "The account, counted from the outside"))
	row := func(name string, figure int, good bool, what string) {
		number := fmt.Sprintf("%6d", figure)
		if !good {
			number = paint(red, number)
		}
		fmt.Fprintf(&b, "  %-17s %s   %s\n", name, number, paint(dim, what))
	}
	row("produced", s.Produced, true, "records in the topic")
	row("handled", s.Handled, true, "payments answered 200")
	row("dead-lettered", s.DeadLettered, true, "read back from the DLQ")
	if s.Left > 0 {
		row("left", s.Left, s.Interrupted, "not committed either: they come again at the next start")
	}
	row("lost", s.Lost, s.Lost == 0, "committed, but in neither place")
	row("duplicated", s.Duplicated, s.Duplicated == 0, "done twice")
	row("out of order", s.OutOfOrder, s.OutOfOrder == 0, "calls behind a later one of their partition")
	row("early calls", s.EarlyCalls, s.EarlyCalls == 0, "before the strategy's wait was over")
	row("rebalances", s.Rebalances, s.Rebalances == 0, "as the broker saw the group")
	row("calls while down", s.CallsWhileDown, true, fmt.Sprintf("that reached payments in its %.1f s of outage", s.DownSeconds))

	b.WriteByte('\n')
	equation := fmt.Sprintf("%d produced = %d handled + %d dead-lettered", s.Produced, s.Handled, s.DeadLettered)
	if s.Left > 0 {
		equation += fmt.Sprintf(" + %d left", s.Left)
	}
	if s.AddsUp {
		if s.Interrupted {
			equation = "Ended early. " + equation
		}
		fmt.Fprintf(&b, "%s\n", paint(green, equation+": it adds up."))
	} else {
		fmt.Fprintf(&b, "%s\n", paint(red, "It does not add up:"))
		for _, f := range s.Faults {
			fmt.Fprintf(&b, "  %s\n", f)
		}
		for _, c := range s.Early {
			fmt.Fprintf(&b, "  early: %v\n", c)
		}
	}
	io.WriteString(out, b.String())
}

const shownLetters = 5

// printJSON writes the account as one line.
func (s *Summary) printJSON(out io.Writer) {
	_ = json.NewEncoder(out).Encode(s)
}
