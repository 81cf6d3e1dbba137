// From the file to a Strategy. Each function here takes one value of the document, says what is wrong with it and goes on,
// so that all mistakes come out at once. What the format is stands in schema.json too; a test holds the two together.

package strategy

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxSize  = 1 << 20   // bytes in a file
	maxCount = 1_000_000 // of anything that is counted

	// shortest is the last interval at least, where a record may be called again at it for ever.
	shortest = 100 * time.Millisecond
)

// Parse reads a strategy: an object, or a bare array of intervals. name is only for messages. Where anything is wrong the
// error is a *ParseError that lists every mistake.
//
// The object's keys, all optional but the first:
//
//   - intervals: at least one wait. A number is seconds, fractions allowed; a string is a Go duration ("250ms", "1m30s");
//     {"wait": "1m", "times": 10} is a wait that is repeated, up to 1,000,000 times. A wait is between 0 and seven days.
//   - jitter: the share of a wait, 0 to 1, up to which a random time is added to it. Default 0.1.
//   - onExhausted: "dlq" (default) or "hold", for a record that has no interval left.
//   - onPermanent: "dlq" (default) or "hold", for a record whose error waiting cannot cure.
//   - dlqBudget: how many dead letters may be written without a success in between. Default: no limit.
//   - breaker: {"consecutiveFailures": 1} (default), or {"failureRatio": 0.5, "minimumCalls": 20, "window": "1m"} with a
//     window of 1 s to 1 h; and in both scope: "consumer" (default) or "partition".
//
// Where a record may be called again for ever, under hold or with a dlqBudget, the last interval must be at least 100 ms.
// Any other key is a mistake, save $comment and $schema.
func Parse(name string, data []byte) (*Strategy, error) {
	var p parser
	s := p.document(data)
	if len(p.mistakes) > 0 {
		slices.SortStableFunc(p.mistakes, func(a, b Mistake) int { return a.Line - b.Line })
		return nil, &ParseError{name, p.mistakes}
	}
	return s, nil
}

// MustParse is Parse for tests and examples: it panics where Parse has an error.
func MustParse(json string) *Strategy {
	s, err := Parse("strategy", []byte(json))
	if err != nil {
		panic(err)
	}
	return s
}

type parser struct{ mistakes []Mistake }

// wrong notes a mistake at n.
func (p *parser) wrong(n node, path, format string, args ...any) {
	p.mistakes = append(p.mistakes, Mistake{path, n.line, fmt.Sprintf(format, args...)})
}

func (p *parser) document(data []byte) *Strategy {
	s := &Strategy{
		jitter:      0.1,
		onExhausted: DLQ,
		onPermanent: DLQ,
		dlqBudget:   -1,
		breaker:     Breaker{ConsecutiveFailures: 1, Scope: ScopeConsumer},
	}
	if len(data) > maxSize {
		p.wrong(node{line: 1}, "", `the file is larger than 1 MiB; write waits that repeat as {"wait": "1m", "times": 10}`)
		return nil
	}
	n, mistake := readTree(data)
	if mistake != nil {
		p.mistakes = append(p.mistakes, *mistake)
		return nil
	}
	switch n.value.(type) {
	case []node:
		s.runs = p.intervals(n, "")
	case []member:
		fields := p.object(n, "", "intervals", "jitter", "onExhausted", "onPermanent", "dlqBudget", "breaker")
		if n, ok := fields["jitter"]; ok {
			s.jitter, _ = p.number(n, "jitter", 0, 1)
		}
		if n, ok := fields["onExhausted"]; ok {
			s.onExhausted = Action(p.word(n, "onExhausted", string(DLQ), string(Hold)))
		}
		if n, ok := fields["onPermanent"]; ok {
			s.onPermanent = Action(p.word(n, "onPermanent", string(DLQ), string(Hold)))
		}
		if n, ok := fields["dlqBudget"]; ok {
			s.dlqBudget = p.count(n, "dlqBudget", 0)
		}
		if n, ok := fields["breaker"]; ok {
			s.breaker = p.breaker(n)
		}
		if list, ok := fields["intervals"]; ok {
			s.runs = p.intervals(list, "intervals")
			p.noHotLoop(s, list)
		} else {
			p.wrong(n, "intervals", `it is missing; write for instance "intervals": [1, 4, 16]`)
		}
	default:
		p.wrong(n, "", "a strategy is an array of intervals or an object, not %s; the smallest is [1, 4, 16]", n.kind())
	}
	return s
}

// object is n's members by their keys. Keys that are not among the known ones, or stand twice, are mistakes.
func (p *parser) object(n node, path string, known ...string) map[string]node {
	fields, lines := map[string]node{}, map[string]int{}
	members, ok := n.value.([]member)
	if !ok {
		p.wrong(n, path, "it is %s; write an object with %s", n.kind(), strings.Join(known, ", "))
	}
	for _, m := range members {
		at := join(path, m.key)
		key := node{line: m.line}
		first, twice := lines[m.key]
		lines[m.key] = m.line
		switch {
		case twice:
			p.wrong(key, at, "it stands twice, first in line %d; take one away", first)
		case m.key == "$comment", m.key == "$schema", slices.Contains(known, m.key):
			fields[m.key] = m.node
		default:
			p.wrong(key, at, "this key is unknown; %s", oneOf(m.key, known))
		}
	}
	return fields
}

func join(path, key string) string {
	key = cut(key)
	if path == "" {
		return key
	}
	return path + "." + key
}

func (p *parser) intervals(n node, path string) (runs []run) {
	items, ok := n.value.([]node)
	if !ok {
		p.wrong(n, path, "it is %s; write an array of waits, such as [1, 4, 16]", n.kind())
		return nil
	}
	if len(items) == 0 {
		p.wrong(n, path, "it is empty; write at least one wait, such as [1]")
	}
	through := 0
	for i, item := range items {
		wait, times := p.interval(item, fmt.Sprintf("%s[%d]", path, i))
		through += times
		runs = append(runs, run{wait, through})
	}
	return runs
}

func (p *parser) interval(n node, path string) (wait time.Duration, times int) {
	if _, ok := n.value.([]member); !ok {
		return p.wait(n, path, 0, MaxWait), 1
	}
	times = 1
	fields := p.object(n, path, "wait", "times")
	if repeat, ok := fields["times"]; ok {
		times = p.count(repeat, path+".times", 1)
	}
	if each, ok := fields["wait"]; ok {
		wait = p.wait(each, path+".wait", 0, MaxWait)
	} else {
		p.wrong(n, path+".wait", `it is missing; write for instance {"wait": "1m", "times": 10}`)
	}
	return wait, times
}

// noHotLoop refuses a last interval of nothing where a record may be called at it for ever.
func (p *parser) noHotLoop(s *Strategy, list node) {
	why := ""
	switch {
	case s.onExhausted == Hold:
		why = `with "onExhausted": "hold" a record is called at it for ever`
	case s.dlqBudget >= 0:
		why = `with "dlqBudget" a record is called at it until the budget is back`
	}
	if why == "" || len(s.runs) == 0 || s.last().wait >= shortest {
		return
	}
	items := list.value.([]node)
	n, path := items[len(items)-1], fmt.Sprintf("intervals[%d]", len(items)-1)
	if slices.ContainsFunc(p.mistakes, func(m Mistake) bool { return strings.HasPrefix(m.Path, path) }) {
		return // what it is meant to be is not known
	}
	p.wrong(n, path, "the last wait is %s, and %s; make it %s or more", brief(s.last().wait), why, shortest)
}

func (p *parser) breaker(n node) Breaker {
	b := Breaker{Scope: ScopeConsumer}
	fields := p.object(n, "breaker", "consecutiveFailures", "failureRatio", "minimumCalls", "window", "scope")
	if n, ok := fields["scope"]; ok {
		b.Scope = Scope(p.word(n, "breaker.scope", string(ScopeConsumer), string(ScopePartition)))
	}
	failures, byCount := fields["consecutiveFailures"]
	ratio, byRatio := fields["failureRatio"]
	calls, hasCalls := fields["minimumCalls"]
	window, hasWindow := fields["window"]
	if byCount {
		b.ConsecutiveFailures = p.count(failures, "breaker.consecutiveFailures", 1)
	}
	if byRatio {
		var ok bool
		if b.FailureRatio, ok = p.number(ratio, "breaker.failureRatio", 0, 1); ok && b.FailureRatio == 0 {
			p.wrong(ratio, "breaker.failureRatio", "it must be over 0; write 0.5 to open the breaker when half of the calls failed")
		}
	}
	if hasCalls {
		b.MinimumCalls = p.count(calls, "breaker.minimumCalls", 1)
	}
	if hasWindow {
		b.Window = p.wait(window, "breaker.window", time.Second, time.Hour)
	}
	const missing = `it is missing; a "failureRatio" needs it, for instance "minimumCalls": 20, "window": "1m"`
	const alone = `it goes with "failureRatio" only; add that, or take this away`
	if byCount && byRatio {
		p.wrong(ratio, "breaker.failureRatio", `it does not go with "consecutiveFailures"; keep one of the two`)
	}
	if byRatio && !byCount && !hasCalls {
		p.wrong(n, "breaker.minimumCalls", missing)
	}
	if byRatio && !byCount && !hasWindow {
		p.wrong(n, "breaker.window", missing)
	}
	if !byRatio && hasCalls {
		p.wrong(calls, "breaker.minimumCalls", alone)
	}
	if !byRatio && hasWindow {
		p.wrong(window, "breaker.window", alone)
	}
	if !byRatio && !byCount {
		b.ConsecutiveFailures = 1
	}
	return b
}

// wait is a number of seconds or a duration.
func (p *parser) wait(n node, path string, least, most time.Duration) time.Duration {
	var d time.Duration
	negative, tooLong := false, false
	switch v := n.value.(type) {
	case json.Number:
		seconds, _ := strconv.ParseFloat(string(v), 64) // infinite where it is too large
		negative, tooLong = seconds < 0, seconds > most.Seconds()
		d = time.Duration(math.Round(seconds * float64(time.Second)))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			p.wrong(n, path, `%s is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds`, show(n))
			return 0
		}
		negative, tooLong = strings.HasPrefix(v, "-"), d > most
	default:
		p.wrong(n, path, `it is %s; write a number of seconds, or a string such as "1m30s"`, n.kind())
		return 0
	}
	switch {
	case negative:
		p.wrong(n, path, "%s is negative; write %s or more", show(n), brief(least))
	case tooLong:
		p.wrong(n, path, "%s is too long; write %s (%v seconds) at most", show(n), brief(most), most.Seconds())
	case d < least:
		p.wrong(n, path, "%s is too short; write %s or more", show(n), brief(least))
	default:
		return d
	}
	return 0
}

// number is a number between least and most.
func (p *parser) number(n node, path string, least, most float64) (f float64, ok bool) {
	v, ok := n.value.(json.Number)
	if !ok {
		p.wrong(n, path, "it is %s; write a number from %v to %v", n.kind(), least, most)
		return 0, false
	}
	f, _ = strconv.ParseFloat(string(v), 64)
	if f < least || f > most {
		p.wrong(n, path, "%s is out of range; write a number from %v to %v", show(n), least, most)
		return 0, false
	}
	return f, true
}

// count is a whole number between least and maxCount.
func (p *parser) count(n node, path string, least int) int {
	v, ok := n.value.(json.Number)
	f, _ := strconv.ParseFloat(string(v), 64)
	switch {
	case !ok:
		p.wrong(n, path, "it is %s; write a whole number from %d to %d", n.kind(), least, maxCount)
	case f < float64(least) || f > maxCount:
		p.wrong(n, path, "%s is out of range; write a whole number from %d to %d", show(n), least, maxCount)
	case f != math.Trunc(f):
		p.wrong(n, path, "%s is no whole number; write one from %d to %d", show(n), least, maxCount)
	default:
		return int(f)
	}
	return least
}

// word is one of the words.
func (p *parser) word(n node, path string, words ...string) string {
	v, ok := n.value.(string)
	switch {
	case !ok:
		p.wrong(n, path, "it is %s; %s", n.kind(), oneOf("", words))
	case !slices.Contains(words, v):
		p.wrong(n, path, "%s is unknown; %s", show(n), oneOf(v, words))
	}
	return v
}

// show is the value of a string or number as it stands in the file.
func show(n node) string {
	if text, ok := n.value.(string); ok {
		return strconv.Quote(cut(text))
	}
	return cut(fmt.Sprint(n.value))
}

// cut keeps a message readable, whatever the file holds.
func cut(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
