package tally

import (
	"cmp"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/stage"
)

// Evidence is what was seen of one contender in one run. Times are since one common instant.
type Evidence struct {
	Ends      []int64 // of the source topic's partitions
	Committed []int64 // by the contender's group
	Poison    func(partition int32, offset int64) bool
	Produced  func(partition int32, offset int64) time.Duration
	Letters   []stage.Letter

	Rebalances int

	// The dependency's log in the order of arrival; or, where it is a book in memory, what that says.
	Calls    []Call
	Book     Book // nil: the log
	Outages  []Span
	Wait     func(attempt int) (time.Duration, bool) // of the strategy, without jitter
	Rotation bool                                    // one breaker and one probe over all partitions: the gates can be computed
}

// Book answers from the ledger.
type Book interface {
	Done(partition int32, offset int64) int
	Totals() (called, done, outOfOrder int)
}

// Call is one call that reached the dependency.
type Call struct {
	At, End   time.Duration // End is zero while it runs
	Partition int32
	Offset    int64
	OK        bool
	Cut       bool // its caller went: neither a success nor a failure
	GaveUp    bool // its caller waited no longer, which is a failure, at an instant between At and End that nobody but he knows
}

// Span is from Begin up to End.
type Span struct{ Begin, End time.Duration }

func (s Span) has(t time.Duration) bool { return s.Begin <= t && t < s.End }

type place struct {
	p int32
	o int64
}

// Count counts all that can be counted afterwards.
func Count(e Evidence) Figures {
	f := Figures{"rebalances": float64(e.Rebalances)}
	e.ends(f)
	if e.Book != nil {
		_, _, n := e.Book.Totals()
		f["out_of_order"] = float64(n)
		return f
	}
	f["out_of_order"] = float64(outOfOrder(e.Calls))
	f["early_calls"] = float64(early(e.Calls, e.Wait))
	if len(e.Outages) > 0 {
		e.outages(f)
	}
	return f
}

// ends tells what became of each record that was produced.
func (e *Evidence) ends(f Figures) {
	done := e.done()
	letters := map[place]int{}
	var lost, left, duplicated, missing, double, incomplete int
	for _, l := range e.Letters {
		if l.Missing != "" {
			incomplete++
		}
		if l.Partition >= 0 {
			letters[place{l.Partition, l.Offset}]++
		}
	}
	for p, end := range e.Ends {
		for o := range end {
			at := place{int32(p), o}
			ok, dead := done(at), letters[at]
			switch {
			case ok+dead > 1:
				duplicated++
			case ok+dead == 1:
			case o < e.Committed[p]:
				lost++
				if e.Poison != nil && e.Poison(at.p, o) {
					missing++
				}
			}
			if dead > 1 {
				double++
			}
			if o >= e.Committed[p] {
				left++
			}
		}
	}
	for key, n := range map[string]int{"lost": lost, "left": left, "duplicated": duplicated, "dlq_missing": missing, "dlq_double": double,
		"dlq_incomplete": incomplete} {
		f[key] = float64(n)
	}
}

// done tells how often a record was done.
func (e *Evidence) done() func(place) int {
	if e.Book != nil {
		return func(at place) int { return e.Book.Done(at.p, at.o) }
	}
	n := map[place]int{}
	for _, c := range e.Calls {
		if c.OK {
			n[place{c.Partition, c.Offset}]++
		}
	}
	return func(at place) int { return n[at] }
}

// outOfOrder counts the records whose first success began after a call for a later record of their partition. One that is called again after it was
// done, since a commit did not come through, is a repetition and no breach of order.
func outOfOrder(calls []Call) (n int) {
	furthest, done := map[int32]int64{}, map[place]bool{}
	for _, c := range calls {
		at := place{c.Partition, c.Offset}
		if c.OK && !done[at] {
			done[at] = true
			if last, any := furthest[at.p]; any && at.o < last {
				n++
			}
		}
		furthest[at.p] = max(furthest[at.p], at.o)
	}
	return n
}

// early counts the calls of a record before the wait after its last failure was over. The n-th failure is followed by the n-th wait.
func early(calls []Call, wait func(int) (time.Duration, bool)) (n int) {
	type failure struct {
		count int
		until time.Duration
	}
	last := map[place]failure{}
	for _, c := range calls {
		at := place{c.Partition, c.Offset}
		f := last[at]
		if f.count > 0 && c.At < f.until-hair {
			n++
		}
		if c.Cut {
			continue
		}
		if c.OK {
			delete(last, at)
			continue
		}
		if w, more := wait(f.count + 1); more {
			began := c.End
			if c.GaveUp {
				began = c.At
			}
			last[at] = failure{f.count + 1, began + w}
		} else {
			delete(last, at) // it goes to the DLQ; where it is called again, at the last wait say, no interval is named for it
		}
	}
	return n
}

// outages counts what concerns the times in which the dependency was down.
func (e *Evidence) outages(f Figures) {
	var while int
	for _, c := range e.Calls {
		if slices.ContainsFunc(e.Outages, func(s Span) bool { return s.has(c.At) }) {
			while++
		}
	}
	f["calls_while_down"] = float64(while)
	var firsts, phases, resumed, late []time.Duration
	byStrategy := 0
	for i, s := range e.Outages {
		until := time.Duration(1<<62 - 1)
		if i+1 < len(e.Outages) {
			until = e.Outages[i+1].Begin
		}
		first, phase, ok := e.firstSuccess(s, until)
		if e.Rotation {
			g := e.gates(s)
			byStrategy += g.calls
			late = append(late, g.late...)
			if ok && g.next > 0 {
				late = append(late, first-g.next)
				phase = max(0, g.next-s.End)
			}
		}
		if ok {
			firsts, phases = append(firsts, first-s.End), append(phases, min(phase, first-s.End))
			if all, every := e.flowing(first, until); every {
				resumed = append(resumed, all-first)
			}
		}
	}
	set := func(key string, of []time.Duration, pick func([]time.Duration) time.Duration) {
		if len(of) > 0 {
			f[key] = ms(pick(of))
		}
	}
	set("first_success_ms", firsts, median)
	set("first_success_phase_ms", phases, median)
	set("resumed_ms", resumed, slices.Max)
	set("probe_late_ms", late, slices.Max)
	if e.Rotation {
		f["calls_by_strategy"] = float64(byStrategy)
	}
	if d, ok := e.drained(e.Outages[len(e.Outages)-1].End); ok {
		f["drained_ms"] = ms(d)
	}
}

// firstSuccess is when the first call that succeeded after the outage began, and how much of the time until then was the wait after the last failure.
func (e *Evidence) firstSuccess(s Span, until time.Duration) (first, phase time.Duration, ok bool) {
	failures := map[place]int{}
	var retryAt time.Duration
	for _, c := range e.Calls {
		if c.At >= until {
			break
		}
		at := place{c.Partition, c.Offset}
		if c.OK && c.At >= s.End {
			return c.At, max(0, retryAt-s.End), true
		}
		if !c.OK && !c.Cut {
			failures[at]++
			if w, more := e.Wait(failures[at]); more && c.End+w > retryAt {
				retryAt = c.End + w
			}
		}
	}
	return 0, 0, false
}

// flowing is when every partition that had something to do has had a success after that instant.
func (e *Evidence) flowing(after, until time.Duration) (time.Duration, bool) {
	seen := map[int32]bool{}
	for _, c := range e.Calls {
		if c.OK && c.At >= after && c.At < until && !seen[c.Partition] {
			if seen[c.Partition] = true; len(seen) == len(e.Ends) {
				return c.At, true
			}
		}
	}
	return 0, false
}

// drained is how long after the end of the outage everything that was produced before it was done, as far as it was ever done.
func (e *Evidence) drained(end time.Duration) (time.Duration, bool) {
	done, last := map[place]bool{}, end
	for _, c := range e.Calls {
		at := place{c.Partition, c.Offset}
		if c.OK && !done[at] {
			done[at] = true
			if e.Produced(at.p, at.o) < end {
				last = max(last, c.End)
			}
		}
	}
	for p := range e.Ends {
		for o := range e.Ends[p] {
			at := place{int32(p), o}
			if !done[at] && o >= e.Committed[p] && e.Produced(at.p, o) < end {
				return 0, false
			}
		}
	}
	return last - end, true
}

func median(of []time.Duration) time.Duration {
	sorted := slices.SortedFunc(slices.Values(of), cmp.Compare[time.Duration])
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
