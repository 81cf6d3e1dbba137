package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// The report, for a person: what was done, what came of it, what is excused and why, and what is not.

func (r report) print(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d, %s, group protocol %s, strategy %s\n", r.Seed, r.About, r.Protocol, r.Strategy)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(out, "  %-14s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("faults", "%s", counts(r.Faults))
	row("members", "%d lives; ended: %s", r.Lives, counts(r.Deaths))
	row("records", "%d: %d handled, %d dead-lettered, %d neither", r.Records, r.Findings.Done, r.Findings.Dead, r.Findings.Open)
	if r.Unsure > 0 {
		row("", "of %d the producer never learned whether the brokers have them", r.Unsure)
	}
	row("calls", "%s", counts(r.Calls))
	row("dead letters", "%s", counts(r.Letters))
	switch {
	case r.Interrupted:
		row("then", "it was interrupted")
	case r.Hung:
		row("then", "the embedded broker's group coordinator hung: what was not done is not judged")
	case r.CaughtUp > 0:
		row("then", "every record was done and committed %v after the faults", r.CaughtUp.Round(100*time.Millisecond))
	}
	if len(r.Findings.Excuses) > 0 {
		fmt.Fprintln(out, "  excused, since the laws allow for it:")
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Findings.Excuses)) {
		all := r.Findings.Excuses[kind]
		fmt.Fprintf(out, "  %6d  %s\n", len(all), kind)
		fmt.Fprintf(out, "          such as %s\n", all[0])
	}
	const shown = 12
	for i, v := range r.Findings.Violations {
		if i == shown {
			fmt.Fprintf(out, "\n  and %d violations more; -json writes all of them\n", len(r.Findings.Violations)-shown)
			break
		}
		fmt.Fprintf(out, "\n  VIOLATION of %q, record %s: %s\n", v.Law, v.Record, v.Text)
		for _, line := range v.Story {
			fmt.Fprintf(out, "      %s\n", line)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(r.Stuck)) {
		s := r.Stuck[who]
		fmt.Fprintf(out, "\n  %s when the time was over: breaker %+v, guard %v, store away for %v, dlq %q\n", who, s.Breaker, s.Guard, s.StoreAway, s.DLQError)
		for _, p := range s.Partitions {
			fmt.Fprintf(out, "      %+v\n", p)
		}
		for _, held := range s.Held {
			fmt.Fprintf(out, "      held %+v\n", held)
		}
	}
	if r.Logs != "" {
		fmt.Fprintf(out, "\n  what the members said is in %s\n", r.Logs)
	}
	if n := len(r.Findings.Violations); n > 0 {
		fmt.Fprintf(out, "\n  %d violations. The same faults again: -seed %d\n", n, r.Seed)
		return
	}
	fmt.Fprintln(out, "\n  no violation")
}

// line is a run in one line.
func (r report) line() string {
	return fmt.Sprintf("seed %-6d %5.1fs  %-34s %5d records, %4d dead letters, %s; %s", r.Seed, r.Took.Seconds(), r.Protocol, r.Records, r.Findings.Dead, "faults: "+counts(r.Faults), r.verdict())
}

func (r report) verdict() string {
	if n := len(r.Findings.Violations); n > 0 {
		return fmt.Sprintf("%d VIOLATIONS", n)
	}
	if r.Hung {
		return "well until the embedded broker's coordinator hung"
	}
	return "well"
}

// counts is "failed 3, ok 17".
func counts[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
