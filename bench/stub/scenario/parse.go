package scenario

// The one place that knows the file. What it lets through is sound: nothing behind it checks again. Every mistake is noted, each with its path,
// its line and what to write instead, and reading goes on.

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/breakwater-go/breakwater/internal/jsonlines"
)

// ParseError is every mistake in a scenario file.
type ParseError = jsonlines.Error

// Mistake is one of them.
type Mistake = jsonlines.Mistake

// The bounds of what makes sense in a scenario.
const (
	MaxPhase  = 30 * 24 * time.Hour   // the longest "for"
	MaxAnswer = time.Hour             // the longest latency, "over" and "retryAfter"
	MinSpan   = 10 * time.Millisecond // the shortest "for", and the shortest half of a flapping period
	tolerance = 1e-9                  // of shares that add up to 1
)

// MustParse is Parse for tests and examples: it panics where Parse has an error.
func MustParse(json string) *Scenario {
	s, err := Parse("scenario", []byte(json))
	if err != nil {
		panic(err)
	}
	return s
}

// Parse reads a scenario. name is for messages and reports. The error is a *ParseError with every mistake.
func Parse(name string, data []byte) (*Scenario, error) {
	p := parser{jsonlines.Parse(name, data, `{"phases": [{"name": "well"}]}`)}
	s := p.scenario(p.Root)
	if err := p.Err(); err != nil {
		return nil, err
	}
	s.Name = name
	return s, nil
}

type parser struct{ *jsonlines.Doc }

type (
	value  = jsonlines.Value
	fields = map[string]*value
)

func (p parser) scenario(v *value) *Scenario {
	s := &Scenario{Seed: 1, named: map[string]*Fault{}}
	f := p.Object(v, "seed", "loop", "poison", "phases")
	if f == nil {
		return s
	}
	if seed, ok := p.Whole(f["seed"], 0, math.MaxInt); ok {
		s.Seed = uint64(seed)
	}
	s.Loop, _ = p.Bool(f["loop"])
	p.poison(s, f["poison"])
	const example = `[{"name": "well"}]`
	phases, _ := p.Array(p.Need(v, f, "phases", example), example)
	for i, item := range phases {
		s.Phases = append(s.Phases, p.phase(s, item, i == len(phases)-1))
	}
	return s
}

func (p parser) phase(s *Scenario, v *value, last bool) Phase {
	f := p.Object(v, "name", "for", "latency", "faults", "flapping", "broker", "redis")
	if f == nil {
		return Phase{}
	}
	phase := Phase{Name: p.name(s, p.Need(v, f, "name", `"down"`)), Latency: p.latency(f["latency"])}
	if last && !s.Loop {
		if f["for"] != nil {
			p.Wrong(f["for"], `the last phase lasts for ever; take this away, or write "loop": true, or add a phase behind it`)
		}
	} else {
		phase.For, _ = p.Duration(p.Need(v, f, "for", `"20s"`), MinSpan, MaxPhase)
	}
	faults, _ := p.Array(f["faults"], `[{"do": 503}]`)
	phase.Faults = p.faults(faults)
	if flapping := f["flapping"]; flapping != nil {
		halves := p.Object(flapping, "down", "up")
		if halves != nil {
			phase.Flapping.Down, _ = p.Duration(p.Need(flapping, halves, "down", `"1s"`), MinSpan, MaxPhase)
			phase.Flapping.Up, _ = p.Duration(p.Need(flapping, halves, "up", `"3s"`), MinSpan, MaxPhase)
		}
		if f["faults"] == nil {
			p.Wrong(flapping, `nothing is there that could come and go; write "faults" beside it`)
		}
	}
	broker, _ := p.Array(f["broker"], `["refuse-dlq"]`)
	for _, item := range broker {
		if word, ok := p.OneOf(item, "refuse-dlq", "fail-commits", "slow-fetch", "drop-connections"); ok {
			phase.Broker = append(phase.Broker, word)
		}
	}
	phase.Redis, _ = p.OneOf(f["redis"], "away", "slow")
	return phase
}

// name reads the name of the next phase of s: unique, and fit for a terminal and a URL.
func (p parser) name(s *Scenario, v *value) string {
	name, ok := p.String(v)
	if !ok {
		return ""
	}
	if name == "" || strings.TrimSpace(name) != name || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		p.Wrong(v, `%v is no name; write a few printable letters, such as "down"`, v)
	}
	if _, err := s.Find(name); err == nil {
		p.Wrong(v, `%v is the name of an earlier phase; phases are switched by name, so give each its own`, v)
	}
	return name
}

// faults reads the faults of one phase.
func (p parser) faults(items []*value) []Fault {
	var faults []Fault
	sum := 0.0
	for _, v := range items {
		f := p.Object(v, "do", "share", "retryAfter", "over", "latency")
		if f == nil {
			continue
		}
		fault := p.fault(v, f)
		fault.Share = 1
		if fault.Do == Refuse {
			if f["share"] != nil {
				p.Wrong(f["share"], `a port is open or closed, so "refuse" has no share; take this away, or let the phase flap`)
			}
			if len(items) > 1 {
				p.Wrong(v, `a closed port leaves nothing to other faults; write "refuse" alone, in a phase of its own`)
			}
		} else if f["share"] != nil {
			fault.Share = p.share(f["share"])
		}
		if sum += fault.Share; sum > 1+tolerance && fault.Do != Refuse {
			p.Wrong(v, "the shares add up to %.4g up to here; they may add up to 1 (a fault without a share takes all)", sum)
		}
		faults = append(faults, fault)
	}
	return faults
}

// poison reads the faults that always hit the same records.
func (p parser) poison(s *Scenario, list *value) {
	items, _ := p.Array(list, `[{"do": 422, "share": 0.1}]`)
	sum := 0.0
	for _, v := range items {
		f := p.Object(v, "do", "share", "records", "retryAfter", "over", "latency")
		if f == nil {
			continue
		}
		poison := Poison{Fault: p.fault(v, f)}
		if poison.Do == Refuse {
			p.Wrong(v, `a closed port refuses every record; write "refuse" in a phase of its own`)
		}
		if (f["share"] == nil) == (f["records"] == nil) {
			p.Wrong(v, `write which records: either "share": 0.1, or "records": ["orders/0/17"]`)
		}
		if f["records"] != nil {
			records, _ := p.Array(f["records"], `["orders/0/17"]`)
			for _, item := range records {
				record, ok := p.String(item)
				if _, twice := s.named[record]; ok && twice {
					p.Wrong(item, "%v is named twice; a record has one fault", item)
				}
				s.named[record] = &poison.Fault
				poison.Records = append(poison.Records, record)
			}
		} else if f["share"] != nil {
			poison.Share = p.share(f["share"])
		}
		if sum += poison.Share; sum > 1+tolerance {
			p.Wrong(v, "the shares add up to %.4g up to here; they may add up to 1", sum)
		}
		s.Poison = append(s.Poison, poison)
	}
}

// fault reads what is done, without its share.
func (p parser) fault(v *value, f fields) Fault {
	fault := Fault{}
	switch do := p.Need(v, f, "do", `503, or "hang"`); {
	case do == nil:
		return fault
	case do.Kind == jsonlines.Number:
		fault.Do = Respond
		fault.Status, _ = p.Whole(do, 300, 599)
		fault.outcome = strconv.Itoa(fault.Status)
	case do.Kind == jsonlines.String:
		if !slices.Contains([]Do{Hang, Refuse, Reset, Drip, Die}, Do(do.Text)) {
			p.Wrong(do, `%v is unknown; write a status from 300 to 599 as a number, or "hang", "refuse", "reset", "drip" or "die"`, do)
			break
		}
		fault.Do, fault.outcome = Do(do.Text), do.Text
	default:
		p.Wrong(do, `it is %v; write a status such as 503, or a word such as "hang"`, do.Kind)
	}
	if fault.Do == Die {
		fault.Status = 500
	}
	if v := p.only(fault.Do, f["retryAfter"], Respond); v != nil {
		fault.RetryAfter, _ = p.Duration(v, time.Second, MaxAnswer)
		if fault.RetryAfter%time.Second != 0 {
			p.Wrong(v, "%v: the header Retry-After is in whole seconds; write %v or so", fault.RetryAfter, fault.RetryAfter.Round(time.Second))
		}
	}
	if fault.Do == Drip {
		fault.Over, _ = p.Duration(p.Need(v, f, "over", `"10s"`), time.Millisecond, MaxAnswer)
	} else {
		p.only(fault.Do, f["over"], Drip)
	}
	if v := p.only(fault.Do, f["latency"], Respond, Reset, Drip, Die); v != nil {
		latency := p.latency(v)
		fault.Latency = &latency
	}
	return fault
}

// only answers v where it means something beside what is done, and notes a mistake where it doesn't.
func (p parser) only(do Do, v *value, where ...Do) *value {
	if v == nil || do == "" || slices.Contains(where, do) {
		return v
	}
	p.Wrong(v, "this has no meaning beside %q; take it away", do)
	return nil
}

func (p parser) share(v *value) float64 {
	share, ok := p.Number(v, 0, 1)
	if ok && share == 0 {
		p.Wrong(v, "a share of 0 does nothing; write more than 0, up to 1, or take the fault away")
	}
	return share
}

// latency reads a distribution.
func (p parser) latency(v *value) Latency {
	if v == nil {
		return Latency{}
	}
	if v.Kind != jsonlines.Object {
		fixed, _ := p.Duration(v, 0, MaxAnswer)
		return Latency{points: []point{{0, fixed}}}
	}
	f := p.Object(v, "uniform", "exponential", "percentiles")
	if len(f) != 1 {
		p.Wrong(v, `write one of {"uniform": ["1ms", "9ms"]}, {"exponential": "10ms"}, {"percentiles": {"50": "5ms", "99": "1s"}}`)
		return Latency{}
	}
	if f["exponential"] != nil {
		mean, _ := p.Duration(f["exponential"], 1, MaxAnswer)
		return Latency{mean: mean}
	}
	var l Latency
	if v := f["uniform"]; v != nil {
		const example = `["1ms", "9ms"]`
		ends, ok := p.Array(v, example)
		if ok && len(ends) != 2 {
			p.Wrong(v, "write the shortest and the longest: %s", example)
			return l
		}
		for i, end := range ends {
			takes, _ := p.Duration(end, 0, MaxAnswer)
			l.points = append(l.points, point{float64(i), takes})
		}
	}
	if v := f["percentiles"]; v != nil && v.Kind == jsonlines.Object {
		for _, m := range v.Members {
			percent, err := strconv.ParseFloat(m.Name, 64)
			if err != nil || !(percent >= 0 && percent <= 100) {
				p.WrongAt(m.Value.Path, m.Line, `%q is no percentile; write a number from 0 to 100, such as "99"`, m.Name)
			}
			takes, _ := p.Duration(m.Value, 0, MaxAnswer)
			l.points = append(l.points, point{percent / 100, takes})
		}
		if len(v.Members) == 0 {
			p.Wrong(v, `it is empty; write at least one, such as {"99": "1s"}`)
		}
	} else if v != nil {
		p.Wrong(v, `it is %v; write an object, such as {"50": "5ms", "99": "1s"}`, v.Kind)
	}
	for i := 1; i < len(l.points); i++ {
		if a, b := l.points[i-1], l.points[i]; a.share >= b.share || a.takes > b.takes {
			p.Wrong(v, "the times have to grow from one to the next, and the percentiles too")
			break
		}
	}
	return l
}
