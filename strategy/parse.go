// From the file to a Strategy. Each function here takes one value of the document, says what is wrong with it and goes on,
// so that all mistakes come out at once. What the format is stands in schema.json too; a test holds the two together.

package strategy

import (
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/internal/jsonlines"
)

// ParseError is every mistake in a strategy, in the order of their lines: Name is what was parsed, such as the path of the
// file, and Mistakes is never empty. Its message has a line for each of the first twenty, as
// "strategy.json:7: intervals[3].wait: …".
type ParseError = jsonlines.Error

// Mistake is one thing that is wrong: Path is where in the document, "intervals[3].wait", or "" for the document itself;
// Line, from 1, is the line on which that begins; Text is what is wrong, and what to do.
type Mistake = jsonlines.Mistake

const (
	maxSize  = 1 << 20   // bytes in a file
	maxCount = 1_000_000 // of anything that is counted

	// shortest is the last interval at least, where a record may be called again at it for ever.
	shortest = 100 * time.Millisecond

	smallest = "[1, 4, 16]" // of what a message may advise
)

// Parse reads a strategy: an object, or a bare array of intervals. name is only for messages. Where anything is wrong the
// error wraps a *ParseError that lists every mistake.
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
	if len(data) > maxSize {
		const text = `the file is larger than 1 MiB; write waits that repeat as {"wait": "1m", "times": 10}`
		return nil, fmt.Errorf("strategy: %w", &ParseError{Name: name, Mistakes: []Mistake{{Line: 1, Text: text}}})
	}
	p := parser{jsonlines.Parse(name, data, smallest)}
	s := p.document()
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("strategy: %w", err)
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

type parser struct{ *jsonlines.Doc }

type value = jsonlines.Value

func (p parser) document() *Strategy {
	s := &Strategy{
		jitter:      0.1,
		onExhausted: DLQ,
		onPermanent: DLQ,
		dlqBudget:   -1,
		breaker:     Breaker{ConsecutiveFailures: 1, Scope: ScopeConsumer},
	}
	switch root := p.Root; {
	case root == nil: // it is no JSON, which is noted
	case root.Kind == jsonlines.Array:
		s.runs = p.intervals(root)
	case root.Kind == jsonlines.Object:
		f := p.Object(root, "intervals", "jitter", "onExhausted", "onPermanent", "dlqBudget", "breaker")
		if v := f["jitter"]; v != nil {
			s.jitter, _ = p.Number(v, 0, 1)
		}
		s.onExhausted = p.action(f["onExhausted"])
		s.onPermanent = p.action(f["onPermanent"])
		if v := f["dlqBudget"]; v != nil {
			s.dlqBudget, _ = p.Whole(v, 0, maxCount)
		}
		if v := f["breaker"]; v != nil {
			s.breaker = p.breaker(v)
		}
		s.runs = p.intervals(p.Need(root, f, "intervals", smallest))
		p.noHotLoop(s, f["intervals"])
	default:
		p.Wrong(root, "a strategy is an array of intervals or an object, not %v; the smallest is %s", root.Kind, smallest)
	}
	return s
}

func (p parser) action(v *value) Action {
	if word, ok := p.OneOf(v, string(DLQ), string(Hold)); ok {
		return Action(word)
	}
	return DLQ
}

func (p parser) intervals(v *value) (runs []run) {
	items, _ := p.Array(v, smallest)
	through := 0
	for _, item := range items {
		wait, times := p.interval(item)
		through += times
		runs = append(runs, run{wait, through})
	}
	return runs
}

func (p parser) interval(v *value) (wait time.Duration, times int) {
	each, times := v, 1
	if v.Kind == jsonlines.Object {
		f := p.Object(v, "wait", "times")
		if repeat := f["times"]; repeat != nil {
			times, _ = p.Whole(repeat, 1, maxCount)
		}
		each = p.Need(v, f, "wait", `"1m"`)
	}
	wait, ok := p.Duration(each, 0, MaxWait)
	if !ok {
		wait = MaxWait // what it is meant to be is not known: one mistake is enough
	}
	return wait, times
}

// noHotLoop refuses a last interval of nothing where a record may be called at it for ever.
func (p parser) noHotLoop(s *Strategy, intervals *value) {
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
	last := intervals.Items[len(intervals.Items)-1]
	p.Wrong(last, "the last wait is %s, and %s; make it %s or more", jsonlines.Brief(s.last().wait), why, shortest)
}

func (p parser) breaker(v *value) Breaker {
	b := Breaker{Scope: ScopeConsumer}
	f := p.Object(v, "consecutiveFailures", "failureRatio", "minimumCalls", "window", "scope")
	if word, ok := p.OneOf(f["scope"], string(ScopeConsumer), string(ScopePartition)); ok {
		b.Scope = Scope(word)
	}
	b.ConsecutiveFailures, _ = p.Whole(f["consecutiveFailures"], 1, maxCount)
	b.MinimumCalls, _ = p.Whole(f["minimumCalls"], 1, maxCount)
	b.Window, _ = p.Duration(f["window"], time.Second, time.Hour)
	ratio, ok := p.Number(f["failureRatio"], 0, 1)
	if b.FailureRatio = ratio; ok && ratio == 0 {
		p.Wrong(f["failureRatio"], "it must be over 0; write 0.5 to open the breaker when half of the calls failed")
	}
	byCount, byRatio := f["consecutiveFailures"] != nil, f["failureRatio"] != nil
	if byCount && byRatio {
		p.Wrong(f["failureRatio"], `it does not go with "consecutiveFailures"; keep one of the two`)
	}
	for _, name := range []string{"minimumCalls", "window"} {
		switch has := f[name] != nil; {
		case !has && byRatio && !byCount:
			p.WrongAt("breaker."+name, v.Line, `it is missing; a "failureRatio" needs it, for instance "minimumCalls": 20, "window": "1m"`)
		case has && !byRatio:
			p.Wrong(f[name], `it goes with "failureRatio" only; add that, or take this away`)
		}
	}
	if !byRatio && !byCount {
		b.ConsecutiveFailures = 1
	}
	return b
}
