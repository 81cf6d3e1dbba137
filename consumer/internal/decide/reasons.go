package decide

import (
	"strings"
	"time"
)

// Reason is a set of reasons why a partition is paused. It is paused while the set is not empty; taking one away never lifts another.
type Reason uint8

const (
	ByBreaker Reason = 1 << iota
	ByHeld
	ByBackpressure
	ByOperator
	ByDLQ
	ByStart // its start is not known yet, or refused
)

var reasonNames = []string{"breaker", "held", "backpressure", "operator", "dlq", "start"}

// Names lists the reasons.
func (r Reason) Names() []string {
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (r Reason) String() string { return strings.Join(r.Names(), ",") }

// ShortWait is the wait below which a partition goes on fetching, up to its lane's share: the client's own resume takes as long,
// and a pause throws its prefetch away.
const ShortWait = time.Second

// Reasons says why p is paused, all reasons but backpressure; and which of them stop the fetching. hasRecord says whether its lane has one: an
// empty lane under an open breaker takes one record, so that there is always something to probe with.
func (d *Desk) Reasons(p *Part, hasRecord bool) (all, stopFetch Reason) {
	if p.operator {
		all |= ByOperator
	}
	if p.letterFailed() || p.story.waitsFor == forBudget {
		all |= ByDLQ
	}
	if p.refused != nil {
		all |= ByStart
	}
	stopFetch = all
	if len(p.letters) >= d.pending {
		all |= ByDLQ // for a round trip: the lane fills up meanwhile
	}
	if !p.begun {
		all |= ByStart // its records wait in the lane meanwhile
	}
	if p.held() && p.story.waitsFor != forBudget {
		all |= ByHeld
		if p.phase == Stalled || p.story.verdict != "" || p.story.retryAt.Sub(p.story.failedAt) >= ShortWait {
			stopFetch |= ByHeld
		}
	}
	if p.open() {
		all |= ByBreaker
		next := p.scope.next
		if next.IsZero() {
			next = p.scope.Breaker.Gate()
		}
		if hasRecord && next.Sub(p.scope.since) >= ShortWait {
			stopFetch |= ByBreaker
		}
	}
	return all, stopFetch
}
