// A strategy as a sentence, so that a person sees what a file means before it matters. The times are those without jitter
// and with calls that fail at once: the earliest that can be.

package strategy

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/internal/jsonlines"
)

// String says the strategy in one sentence: "calls at 0s, 1s, 5s, 21s, 1m21s … 10m21s, then the DLQ (14 calls)".
func (s *Strategy) String() string {
	const shown = 5 // and the last one

	var b strings.Builder
	b.WriteString("calls at 0s")
	at, n := time.Duration(0), 1
	for _, r := range s.runs {
		for n <= r.through && n < shown {
			at = plus(at, r.wait, 1)
			n++
			b.WriteString(", " + brief(at))
		}
		at = plus(at, r.wait, r.through+1-n)
		n = r.through + 1
	}
	switch {
	case n == shown+1:
		b.WriteString(", " + brief(at))
	case n > shown:
		b.WriteString(" … " + brief(at))
	}

	switch {
	case s.onExhausted == Hold:
		fmt.Fprintf(&b, ", then every %s for ever", brief(s.last().wait))
	case s.dlqBudget == 0:
		fmt.Fprintf(&b, ", then every %s for ever, because the DLQ budget is 0", brief(s.last().wait))
	default:
		fmt.Fprintf(&b, ", then the DLQ (%d calls)", n)
	}
	return b.String()
}

// forever is where a Duration ends, after 292 years.
const forever time.Duration = math.MaxInt64

// plus is at and n waits more, forever where that is too long for a Duration.
func plus(at, wait time.Duration, n int) time.Duration {
	if wait > 0 && n > 0 && time.Duration(n) > (forever-at)/wait {
		return forever
	}
	return at + time.Duration(n)*wait
}

// brief is d as a person writes it.
func brief(d time.Duration) string {
	if d == forever {
		return "292 years"
	}
	return jsonlines.Brief(d)
}
