package scenario

// A scenario in words, for the terminal and the help page: one sentence for each phase.

import (
	"fmt"
	"strconv"
	"strings"
)

// String is a line for each phase and for each kind of poison.
func (s *Scenario) String() string {
	var b strings.Builder
	for _, p := range s.Phases {
		fmt.Fprintf(&b, "%s\n", p)
	}
	for _, p := range s.Poison {
		fmt.Fprintf(&b, "always: %s\n", p)
	}
	if s.Loop {
		b.WriteString("and again from the first\n")
	}
	return b.String()
}

// String is "down for 20s: 503 for 70 %, hang for 30 %".
func (p Phase) String() string {
	var parts []string
	for _, f := range p.Faults {
		parts = append(parts, f.String()+f.share())
	}
	if parts == nil {
		parts = append(parts, "all well")
	}
	if p.Flapping != (Flapping{}) {
		parts = append(parts, fmt.Sprintf("%v down and %v up in turn", p.Flapping.Down, p.Flapping.Up))
	}
	if l := p.Latency.String(); l != "" {
		parts = append(parts, "answers take "+l)
	}
	for _, fault := range p.Broker {
		parts = append(parts, "broker: "+fault)
	}
	if p.Redis != "" {
		parts = append(parts, "redis: "+p.Redis)
	}
	length := "for ever"
	if p.For > 0 {
		length = "for " + p.For.String()
	}
	return p.Name + " " + length + ": " + strings.Join(parts, ", ")
}

// String is "422 for 10 % of the records", or "503 for orders/0/17".
func (p Poison) String() string {
	if p.Records != nil {
		return p.Fault.String() + " for " + strings.Join(p.Records, ", ")
	}
	return p.Fault.String() + p.share() + " of the records"
}

// String is what is done, without the share.
func (f Fault) String() string {
	text := string(f.Do)
	if f.Do == Respond {
		text = strconv.Itoa(f.Status)
	}
	if f.RetryAfter > 0 {
		text += " with Retry-After " + f.RetryAfter.String()
	}
	if f.Over > 0 {
		text += " over " + f.Over.String()
	}
	if f.Latency != nil {
		text += " after " + f.Latency.String()
	}
	return text
}

func (f Fault) share() string {
	if f.Share == 1 {
		return " for all"
	}
	return fmt.Sprintf(" for %.4g %%", 100*f.Share)
}

// String says the distribution; it is empty where there is no latency.
func (l Latency) String() string {
	switch {
	case l.mean > 0:
		return l.mean.String() + " on average (exponential)"
	case len(l.points) == 0 || len(l.points) == 1 && l.points[0].takes == 0:
		return ""
	case len(l.points) == 1:
		return l.points[0].takes.String()
	}
	var parts []string
	for _, p := range l.points {
		parts = append(parts, fmt.Sprintf("p%.4g %v", 100*p.share, p.takes))
	}
	return strings.Join(parts, ", ")
}
