// Package tally turns what was seen from the outside into figures, and holds them against the laws. It does no I/O.
package tally

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Figures are the figures of one run, by key. One that does not apply is missing, and null in JSON.
type Figures map[string]float64

// Keys are the figures in the order of a report, and what each is.
var Keys = []struct{ Key, About string }{
	{"records_per_s", "records handled (and dead-lettered) a second, from the first to the last"},
	{"cpu_s_per_million", "seconds of CPU of the contender's process for a million records"},
	{"of_bare", "records per s as a share of bare's in the same round"},
	{"cpu_of_bare", "cpu s per million against bare's in the same round"},
	{"peak_rss_mb", "the most memory that its process had, in MB"},
	{"allocs_per_record", "allocations of Go in its process for each record"},
	{"lost", "records below the committed offset that were neither done nor dead-lettered"},
	{"left", "records that were not committed when the bench gave up waiting"},
	{"duplicated", "records that were done, or dead-lettered, more than once"},
	{"out_of_order", "records that were done after a call for a later one of their partition"},
	{"rebalances", "rebalances of the group after the first assignment"},
	{"calls_while_down", "calls that reached the dependency while it was down"},
	{"calls_by_strategy", "how many calls while down the strategy accounts for: the calls in flight at the trip, and one for each gate that opened"},
	{"early_calls", "calls of a record before the wait after its last failure was over"},
	{"first_success_ms", "ms from the end of the outage to the first call that succeeded"},
	{"first_success_phase_ms", "the part of first success ms that is only what remained of the strategy's wait"},
	{"resumed_ms", "ms from the first success after the outage to a success on every partition"},
	{"drained_ms", "ms from the end of the outage until all that was produced before it was done"},
	{"probe_late_ms", "the most ms that a probe began after its gate"},
	{"dlq_missing", "records that the dependency always refuses, below the committed offset, without a dead letter"},
	{"dlq_double", "records with more than one dead letter"},
	{"dlq_incomplete", "dead letters in which something of the record, or of its story, is missing"},
	{"bytes_fetched", "bytes that its client received from the brokers"},
	{"rss_before_mb", "memory just before the outage, in MB"},
	{"rss_after_mb", "memory at the end of the outage, in MB"},
}

// Row is what became of a contender in a scenario.
type Row struct {
	Scenario, Contender string
	Figures             Figures
	Rounds              int
	Note                string   // why there are no figures, or what to know about them
	Broken              []string // laws that the run has broken; of Breakwater alone
}

// MarshalJSON writes the row as one flat object; its keys stay.
func (r Row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	field := func(key string, value any) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		text, _ := json.Marshal(value)
		fmt.Fprintf(&b, "%q:%s", key, text)
	}
	field("scenario", r.Scenario)
	field("contender", r.Contender)
	field("rounds", r.Rounds)
	for _, k := range Keys {
		if v, ok := r.Figures[k.Key]; ok {
			field(k.Key, v)
		} else {
			field(k.Key, nil)
		}
	}
	if r.Note != "" {
		field("note", r.Note)
	}
	if len(r.Broken) > 0 {
		field("broken", r.Broken)
	}
	return fmt.Appendf(nil, "{%s}", b.Bytes()), nil
}

// AgainstBare adds to the rows of one round how each did against the bare loop in it: what else the machine did hit both.
func AgainstBare(round []Row) {
	for _, bare := range round {
		if bare.Contender != "bare" || bare.Figures == nil {
			continue
		}
		for _, r := range round {
			for key, of := range map[string]string{"of_bare": "records_per_s", "cpu_of_bare": "cpu_s_per_million"} {
				if r.Figures[of] > 0 && bare.Figures[of] > 0 {
					r.Figures[key] = r.Figures[of] / bare.Figures[of]
				}
			}
		}
	}
}

// worst are the figures of which the worst round counts: a loss is no less of one because it happened once.
var worst = []string{"lost", "left", "duplicated", "out_of_order", "rebalances", "early_calls", "dlq_missing", "dlq_double", "dlq_incomplete", "probe_late_ms"}

// Merge makes one row of the rounds of a contender in a scenario: medians, and the worst of what went wrong.
func Merge(rounds []Row) Row {
	if len(rounds) == 0 {
		return Row{}
	}
	m := Row{Scenario: rounds[0].Scenario, Contender: rounds[0].Contender, Figures: Figures{}}
	for _, k := range Keys {
		var all []float64
		for _, r := range rounds {
			if v, ok := r.Figures[k.Key]; ok {
				all = append(all, v)
			}
		}
		if len(all) == 0 {
			continue
		}
		slices.Sort(all)
		m.Figures[k.Key] = all[len(all)/2]
		if slices.Contains(worst, k.Key) {
			m.Figures[k.Key] = all[len(all)-1]
		} else if n := len(all); n%2 == 0 && !slices.Contains([]string{"calls_while_down", "calls_by_strategy"}, k.Key) {
			m.Figures[k.Key] = (all[n/2-1] + all[n/2]) / 2
		}
	}
	for _, r := range rounds {
		if len(r.Figures) > 0 {
			m.Rounds++
		}
		if m.Note == "" {
			m.Note = r.Note
		}
		for _, b := range r.Broken {
			if !slices.Contains(m.Broken, b) {
				m.Broken = append(m.Broken, b)
			}
		}
	}
	return m
}
