package tally

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/bench/internal/stage"
)

const s = time.Second

// waits is the strategy 1, 4, 16.
func waits(attempt int) (time.Duration, bool) {
	w := []time.Duration{s, 4 * s, 16 * s}
	if attempt > len(w) {
		return 0, false
	}
	return w[attempt-1], true
}

// call is one that took a millisecond.
func call(at time.Duration, p int32, o int64, ok bool) Call {
	return Call{At: at, End: at + time.Millisecond, Partition: p, Offset: o, OK: ok}
}

// clean is a run in which all went well: two partitions, three records each, one of them poison and dead-lettered.
func clean() Evidence {
	e := Evidence{
		Ends: []int64{3, 3}, Committed: []int64{3, 3}, Wait: waits,
		Poison:   func(p int32, o int64) bool { return p == 1 && o == 1 },
		Produced: func(int32, int64) time.Duration { return 0 },
		Letters:  []stage.Letter{{Partition: 1, Offset: 1}},
	}
	for o := range int64(3) {
		for p := range int32(2) {
			e.Calls = append(e.Calls, call(time.Duration(o)*s, p, o, !e.Poison(p, o)))
		}
	}
	return e
}

func TestACleanRunHasNothingAgainstIt(t *testing.T) {
	if broken := Broken(Count(clean()), Expected{}); len(broken) > 0 {
		t.Error(broken)
	}
}

// Each case does one thing to a clean run: the figure that is about it says so, no other does, and it is a breach.
func TestWhatGoesWrongIsCounted(t *testing.T) {
	without := func(e *Evidence, p int32, o int64) {
		for i, c := range e.Calls {
			if c.Partition == p && c.Offset == o {
				e.Calls = append(e.Calls[:i:i], e.Calls[i+1:]...)
				return
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func(*Evidence)
		want Figures // those that are not zero
	}{
		{"a record is committed and was never done", func(e *Evidence) { without(e, 0, 1) }, Figures{"lost": 1}},
		{"a record that failed is committed", func(e *Evidence) { e.Calls[0].OK = false }, Figures{"lost": 1}},
		{"a dead letter is missing", func(e *Evidence) { e.Letters = nil }, Figures{"lost": 1, "dlq_missing": 1}},
		{"two dead letters", func(e *Evidence) { e.Letters = append(e.Letters, e.Letters[0]) }, Figures{"duplicated": 1, "dlq_double": 1}},
		{"a dead letter of a record that was done", func(e *Evidence) { e.Letters = append(e.Letters, stage.Letter{Partition: 0, Offset: 0}) }, Figures{"duplicated": 1}},
		{"a dead letter without its reason", func(e *Evidence) { e.Letters[0].Missing = "the reason" }, Figures{"dlq_incomplete": 1}},
		{"nothing committed of a partition", func(e *Evidence) { e.Committed[0] = 0 }, Figures{"left": 3}},
		{"done twice", func(e *Evidence) { e.Calls = append(e.Calls, call(9*s, 0, 2, true)) }, Figures{"duplicated": 1}},
		{"overtaken", func(e *Evidence) { e.Calls[0], e.Calls[2] = e.Calls[2], e.Calls[0] }, Figures{"out_of_order": 1}},
		{"called again too early", func(e *Evidence) {
			e.Calls = append([]Call{call(-s/2, 0, 0, false)}, e.Calls...)
		}, Figures{"early_calls": 1}},
		{"called again after the wait", func(e *Evidence) {
			e.Calls = append([]Call{call(-2*s, 0, 0, false)}, e.Calls...)
		}, Figures{}},
		{"the second wait is longer than the first", func(e *Evidence) {
			e.Calls = append([]Call{call(-6*s, 0, 0, false), call(-3*s, 0, 0, false)}, e.Calls...)
		}, Figures{"early_calls": 1}},
		{"a call that was cut off is no failure", func(e *Evidence) {
			cut := call(-s/2, 0, 0, false)
			cut.Cut = true
			e.Calls = append([]Call{cut}, e.Calls...)
		}, Figures{}},
		{"a caller gave up, and the dependency noticed a second later", func(e *Evidence) {
			hung := Call{At: -2 * s, End: -s / 2, GaveUp: true}
			e.Calls = append([]Call{hung}, e.Calls...)
		}, Figures{}},
		{"a caller gave up, and called again all the same", func(e *Evidence) {
			hung := Call{At: -s / 2, End: -s / 4, GaveUp: true}
			e.Calls = append([]Call{hung}, e.Calls...)
		}, Figures{"early_calls": 1}},
		{"a rebalance", func(e *Evidence) { e.Rebalances = 1 }, Figures{"rebalances": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := clean()
			c.do(&e)
			got := Count(e)
			maps.DeleteFunc(got, func(_ string, v float64) bool { return v == 0 })
			if !maps.Equal(got, c.want) {
				t.Errorf("counted %v, want %v", got, c.want)
			}
			if broken := Broken(got, Expected{}); (len(broken) > 0) != (len(c.want) > 0) {
				t.Errorf("breaches: %q", broken)
			}
		})
	}
}

func TestRepetitionsAreNoBreachWhereAMemberDies(t *testing.T) {
	f := Figures{"duplicated": 3, "dlq_double": 1, "rebalances": 2}
	if broken := Broken(f, Expected{Repeats: true, Rebalances: true}); len(broken) > 0 {
		t.Error(broken)
	}
	for key := range f {
		if broken := Broken(Figures{key: 1}, Expected{}); len(broken) != 1 {
			t.Errorf("%s in a quiet run: %q, want one breach", key, broken)
		}
	}
	if broken := Broken(Figures{"lost": 1}, Expected{Repeats: true, Rebalances: true}); len(broken) != 1 {
		t.Errorf("a loss is a breach in every run: %q", broken)
	}
}

// outage is what the dependency sees of one that lasts from 10 s to 30 s, two calls in flight: a probe at 11, 15, 19, then at 35 s.
func outage() Evidence {
	e := Evidence{Ends: []int64{5, 5}, Committed: []int64{5, 5}, Wait: waits, Rotation: true, Outages: []Span{{10 * s, 30 * s}},
		Produced: func(_ int32, o int64) time.Duration { return time.Duration(o) * 5 * s }}
	ms := time.Millisecond
	e.Calls = []Call{
		call(1*s, 0, 0, true), call(2*s, 1, 0, true),
		call(10*s, 0, 1, false), call(10*s+2*ms, 1, 1, false), // gate at 11.003
		call(11*s+5*ms, 0, 1, false),  // gate at 15.006
		call(15*s+8*ms, 1, 1, false),  // gate at 19.009
		call(19*s+10*ms, 0, 1, false), // gate at 35.011
		call(35*s+14*ms, 1, 1, true),
		call(35*s+20*ms, 0, 1, true),
	}
	for o := int64(2); o < 5; o++ {
		e.Calls = append(e.Calls, call(36*s+time.Duration(o)*ms, 0, o, true), call(36*s+time.Duration(o)*ms, 1, o, true))
	}
	return e
}

func TestAnOutageIsHeldAgainstTheStrategy(t *testing.T) {
	got := Count(outage())
	for key, want := range map[string]float64{"calls_while_down": 5, "calls_by_strategy": 5, "early_calls": 0, "first_success_ms": 5014,
		"first_success_phase_ms": 5011, "resumed_ms": 6, "probe_late_ms": 3, "drained_ms": 6005, "lost": 0, "out_of_order": 0} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	if broken := Broken(got, Expected{}); len(broken) > 0 {
		t.Error(broken)
	}
}

func TestACallTooManyOrTooFewIsABreach(t *testing.T) {
	more := outage()
	more.Calls = append(more.Calls[:6:6], append([]Call{call(17*s, 1, 1, false)}, more.Calls[6:]...)...)
	if f := Count(more); len(Broken(f, Expected{})) == 0 {
		t.Errorf("a call between two gates is no breach: %v", f)
	}
	fewer := outage()
	fewer.Calls = append(fewer.Calls[:6:6], fewer.Calls[7:]...)
	if f := Count(fewer); f["calls_by_strategy"] == f["calls_while_down"] {
		t.Errorf("a gate opened at 19 s and nobody called, and that is not seen: %v", f)
	}
	late := outage()
	late.Calls[6].At += 2 * s
	late.Calls[6].End += 2 * s
	if f := Count(late); len(Broken(f, Expected{})) == 0 {
		t.Errorf("a probe two seconds after its gate is no breach: %v", f)
	}
}

func TestASingleWitnessWaitsOneFirstInterval(t *testing.T) {
	e := outage()
	// One call in flight: the next is another partition's, one second later; then the two take turns.
	e.Calls = []Call{
		call(10*s, 0, 1, false),
		call(11*s+2*time.Millisecond, 1, 1, false),
		call(12*s+4*time.Millisecond, 0, 1, false), // four seconds
		call(16*s+6*time.Millisecond, 1, 1, false),
		call(20*s+8*time.Millisecond, 0, 1, false), // sixteen
	}
	f := Count(e)
	if f["calls_while_down"] != 5 || f["calls_by_strategy"] != 5 {
		t.Errorf("%v calls, and the strategy says %v; want 5", f["calls_while_down"], f["calls_by_strategy"])
	}
}

func TestRoundsAreMergedToMediansAndTheWorst(t *testing.T) {
	row := func(rate, lost float64, broken ...string) Row {
		return Row{Scenario: "steady", Contender: "breakwater", Figures: Figures{"records_per_s": rate, "lost": lost}, Broken: broken}
	}
	m := Merge([]Row{row(10, 0), row(30, 2, "2 records lost"), row(20, 0)})
	if m.Figures["records_per_s"] != 20 || m.Figures["lost"] != 2 || m.Rounds != 3 || len(m.Broken) != 1 {
		t.Errorf("%+v", m)
	}
	if even := Merge([]Row{row(10, 0), row(20, 0)}); even.Figures["records_per_s"] != 15 {
		t.Errorf("the median of 10 and 20 is %v", even.Figures["records_per_s"])
	}
	if none := Merge([]Row{{Scenario: "steady", Contender: "spring", Note: "not to be had"}}); none.Note != "not to be had" || none.Rounds != 0 {
		t.Errorf("%+v", none)
	}
}

func TestARatioIsThatOfTheSameRound(t *testing.T) {
	row := func(name string, rate float64) Row {
		return Row{Contender: name, Figures: Figures{"records_per_s": rate, "cpu_s_per_million": 1 / rate}}
	}
	// The machine was three times slower in the second round.
	one, two := []Row{row("breakwater", 90), row("bare", 100)}, []Row{row("bare", 30), row("breakwater", 30)}
	AgainstBare(one)
	AgainstBare(two)
	if m := Merge([]Row{one[0], two[1]}); m.Figures["of_bare"] != 0.95 {
		t.Errorf("%v of bare, want the median of 0.9 and 1", m.Figures["of_bare"])
	}
	AgainstBare([]Row{row("usual", 1), {Contender: "bare", Note: "it did not run"}}) // divides by nothing
}

func TestJSONHasEveryKeyAndNullWhereNothingWasMeasured(t *testing.T) {
	text, err := json.Marshal(Row{Scenario: "steady", Contender: "bare", Rounds: 1, Figures: Figures{"lost": 0, "records_per_s": 1.5}})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(`scenario contender records_per_s cpu_s_per_million peak_rss_mb allocs_per_record lost duplicated out_of_order rebalances
		calls_while_down early_calls first_success_ms drained_ms dlq_missing dlq_double dlq_incomplete bytes_fetched`) {
		if _, there := got[key]; !there {
			t.Errorf("no key %q in %s", key, text)
		}
	}
	if got["lost"] != 0.0 || got["records_per_s"] != 1.5 || got["early_calls"] != nil {
		t.Errorf("%s", text)
	}
}
