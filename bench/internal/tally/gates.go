package tally

// What the strategy says about an outage in which every call fails, with one breaker that opens at the first failure: the gates are computed anew
// from the dependency's log, and each call is held against them.

import "time"

const (
	// inFlight is how long after the first failure a call may arrive that had begun before its caller knew.
	inFlight = 50 * time.Millisecond
	// hair is the precision with which a call is said to be early.
	hair = time.Millisecond
)

type gates struct {
	calls int             // that the strategy accounts for
	late  []time.Duration // how long after its gate each probe began
	next  time.Duration   // the gate after the last failure
}

// gates replays one outage: the gate is the latest retryAt of the records that failed; with a single witness, one first interval.
func (e *Evidence) gates(s Span) gates {
	var g gates
	var tripped time.Duration
	failures := map[place]int{}
	for _, c := range e.Calls {
		if c.At < s.Begin || c.At >= s.End || c.OK {
			continue
		}
		switch {
		case tripped == 0:
			tripped = c.End
			g.calls++
		case c.At <= tripped+inFlight:
			g.calls++
		case c.At >= g.next-hair:
			g.calls++
			g.late = append(g.late, c.At-g.next)
		default: // it is not accounted for
		}
		at := place{c.Partition, c.Offset}
		failures[at]++
		wait, more := e.Wait(failures[at])
		if !more || len(failures) == 1 && len(e.Ends) > 1 { // another partition's record is next
			wait, _ = e.Wait(1)
		}
		g.next = max(g.next, c.End+wait)
	}
	if g.next > 0 && g.next < s.End-inFlight {
		g.calls++ // a gate opened and nobody called
	}
	return g
}
