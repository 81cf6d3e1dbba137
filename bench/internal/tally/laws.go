package tally

import "fmt"

// Expected is what a run asks for that would be a fault in another.
type Expected struct {
	Repeats    bool // a member dies or partitions move, so calls and dead letters may be repeated
	Rebalances bool
}

// Broken names the laws that a run of Breakwater has broken. A record that is lost, a call that is early, one partition out of order: each is
// one too many.
func Broken(f Figures, x Expected) (broken []string) {
	zero := func(key, what string) {
		if n := f[key]; n > 0 {
			broken = append(broken, fmt.Sprintf("%.0f %s", n, what))
		}
	}
	zero("lost", "records lost")
	zero("left", "records not done in time")
	zero("out_of_order", "records out of order")
	zero("early_calls", "early calls")
	zero("dlq_missing", "dead letters missing")
	zero("dlq_incomplete", "dead letters incomplete")
	if !x.Repeats {
		zero("duplicated", "records done twice")
		zero("dlq_double", "records dead-lettered twice")
	}
	if !x.Rebalances {
		zero("rebalances", "rebalances")
	}
	if by, ok := f["calls_by_strategy"]; ok && by != f["calls_while_down"] {
		broken = append(broken, fmt.Sprintf("%.0f calls while down, where the strategy says %.0f", f["calls_while_down"], by))
	}
	if late := f["probe_late_ms"]; late > hardlyLate {
		broken = append(broken, fmt.Sprintf("a probe %.0f ms after its gate", late))
	}
	return broken
}

// hardlyLate is, in ms, fifty times the goal: what even a busy machine has to explain.
const hardlyLate = 1000
