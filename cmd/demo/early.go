package main

// Which calls came too soon. A call is held against the failures that its caller knew of when it began, and against no others: what the payment
// service stamps is when a call reached it and when it answered, and on a busy machine both are late for the one who calls.

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/server"
)

// earlyCall is a call before the wait was over, with both stamps of the payment service's log, in seconds since it started.
type earlyCall struct {
	Record   string  `json:"record"`
	Attempt  int     `json:"attempt"`
	At       float64 `json:"at_s"`        // the call came
	EarlyBy  float64 `json:"early_by_s"`  // and had to come so much later
	After    string  `json:"after"`       // the record whose failure began the wait
	FailedAt float64 `json:"failed_at_s"` // when that was answered
	Wait     float64 `json:"wait_s"`
}

func (c earlyCall) String() string {
	return fmt.Sprintf("%s, attempt %d, came at %.4f s, which is %.4f s too early: the failure of %s was answered at %.4f s, and the wait after it is %g s",
		c.Record, c.Attempt, c.At, c.EarlyBy, c.After, c.FailedAt, c.Wait)
}

// wait is what a failure asks for.
type wait struct {
	after         string // the record that failed
	failed, lasts time.Duration
	heard         time.Duration // when its caller knew
	underWay      bool          // it had begun before the trip was known
}

func (w wait) over() time.Duration { return w.failed + w.lasts }

// underWay is how long the news of a failure takes to all who are about to call.
const underWay = 100 * time.Millisecond

// early finds the calls that came too soon: before their own record's wait was over or, while the payment service was down, before one interval had
// passed since the last failed call of any record. What jitter adds to a wait is not asked for. A call without an answer that its caller has heard
// may have counted as an attempt (it timed out) or not (it was cut short): the shorter of the two waits holds then.
func early(e evidence) (all []earlyCall) {
	type story struct{ failures, unheard int }
	stories, own := map[string]story{}, map[string]wait{}
	var gates []wait       // while down
	var trip time.Duration // while down: since when it is known; 0: not yet
	for _, c := range e.calls {
		begun, heard, answered := e.caller(c)
		onTheWay := trip == 0 || begun <= trip+underWay
		if c.Phase != down {
			gates, trip, onTheWay = nil, 0, true
		}
		gates = slices.DeleteFunc(gates, func(g wait) bool { return g.over() <= c.At })
		holds := slices.DeleteFunc(append(slices.Clone(gates), own[c.Record]), func(w wait) bool {
			return w.over() <= c.At || w.after != c.Record && (onTheWay || w.underWay && begun <= w.heard+underWay)
		})
		if len(holds) > 0 {
			w := slices.MaxFunc(holds, func(a, b wait) int { return cmp.Compare(a.over(), b.over()) })
			all = append(all, earlyCall{c.Record, c.Attempt, c.At.Seconds(), (w.over() - c.At).Seconds(), w.after, w.failed.Seconds(), w.lasts.Seconds()})
		}
		s := stories[c.Record]
		switch {
		case c.Outcome == "ok":
			continue
		case !answered:
			s.unheard++
			stories[c.Record] = s
			continue
		}
		s.failures++
		stories[c.Record] = s
		w := wait{after: c.Record, failed: c.At + c.Took, heard: heard, underWay: onTheWay}
		at := e.began.Add(w.failed)
		w.lasts = e.waits.least(at, s.failures)
		for n := range s.unheard {
			w.lasts = min(w.lasts, e.waits.least(at, s.failures+n+1))
		}
		own[c.Record] = w
		if c.Phase == down && e.waits.oneForAll() {
			if trip == 0 || heard < trip {
				trip = heard
			}
			w.lasts = min(w.lasts, e.waits.least(at, 1))
			gates = append(gates, w)
		}
	}
	return all
}

// caller tells when the caller of c began, when he had the answer, and whether he had one. What he did not note is what the service has stamped.
func (e *evidence) caller(c server.Call) (begun, heard time.Duration, answered bool) {
	begun, heard, answered = c.At, c.At+c.Took, c.Outcome != server.Gone && c.Outcome != server.Pending
	for _, a := range e.asked[c.Record] {
		if a.began.Sub(e.began) > c.At {
			break // of a later call
		}
		begun = a.began.Sub(e.began)
		if !a.ended.IsZero() {
			heard, answered = a.ended.Sub(e.began), !a.unheard
		}
	}
	return begun, heard, answered
}
