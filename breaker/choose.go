package breaker

import "time"

// Candidate is a lane that has a record, as the choice of the probe sees it.
type Candidate struct {
	Callable  bool      // nothing but the breaker, and a wait of its own, keeps the record from being called
	Witness   bool      // its record has failed and waits for RetryAt, or is being called again; else its record is new
	RetryAt   time.Time // not called before, zero for a new record
	Exhausted bool      // a witness whose strategy has no interval left
	Called    uint64    // when it was last called, as a counter: the witness's record, or the lane as a probe
}

// Choose says which candidate probes: the index, or -1 and the instant at which the answer can change without any other event
// (zero: it can't).
//
// The witnesses take turns: of those whose own retryAt has come, the one that was called longest ago. But while there is a
// single witness, or none is due, or all are exhausted, the next record of another partition goes first, if one may be
// called, and those lanes take turns. Success there means that the witness is the suspect; failure, that two records agree.
// Rules that look simpler have a livelock or starve a lane.
func Choose(now time.Time, candidates []Candidate) (chosen int, next time.Time) {
	other, due := -1, -1
	witnesses, exhausted := 0, 0
	for i, c := range candidates {
		if c.Witness {
			witnesses++
			if c.Exhausted {
				exhausted++
			}
		}
		if !c.Callable {
			continue
		}
		if now.Before(c.RetryAt) {
			if next.IsZero() || c.RetryAt.Before(next) {
				next = c.RetryAt
			}
			continue
		}
		if c.Witness {
			due = longestAgo(candidates, due, i)
		} else {
			other = longestAgo(candidates, other, i)
		}
	}
	if other >= 0 && (witnesses <= 1 || due < 0 || exhausted == witnesses) {
		return other, time.Time{}
	}
	if due >= 0 {
		return due, time.Time{}
	}
	return other, next
}

func longestAgo(candidates []Candidate, best, i int) int {
	if best < 0 || candidates[i].Called < candidates[best].Called {
		return i
	}
	return best
}
