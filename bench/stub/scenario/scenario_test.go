package scenario

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestTheScheduleTurnsOnTime(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	once := MustParse(`{"phases": [{"name": "a", "for": 5}, {"name": "b", "for": 20}, {"name": "c"}]}`)
	loop := MustParse(`{"loop": true, "phases": [{"name": "a", "for": 5}, {"name": "b", "for": 20}]}`)
	flap := MustParse(`{"phases": [{"name": "a", "for": 5, "faults": [{"do": 503}], "flapping": {"down": 1, "up": 3}}, {"name": "b"}]}`)
	cases := []struct {
		scenario *Scenario
		since    time.Duration
		want     Moment
	}{
		{once, 0, Moment{Phase: 0, Down: true, Left: 5 * s}},
		{once, 5*s - 1, Moment{Phase: 0, Down: true, Left: 1}},
		{once, 5 * s, Moment{Phase: 1, Down: true, Left: 20 * s}},
		{once, 25 * s, Moment{Phase: 2, Down: true, Left: 0}},
		{once, math.MaxInt64, Moment{Phase: 2, Down: true, Left: 0}},

		{loop, 24 * s, Moment{Phase: 1, Down: true, Left: 1 * s}},
		{loop, 25 * s, Moment{Phase: 0, Round: 1, Down: true, Left: 5 * s}},
		{loop, 255 * s, Moment{Phase: 1, Round: 10, Down: true, Left: 20 * s}},

		{flap, 0, Moment{Phase: 0, Down: true, Left: 1 * s}},
		{flap, 1 * s, Moment{Phase: 0, Down: false, Left: 3 * s}},
		{flap, 3500 * ms, Moment{Phase: 0, Down: false, Left: 500 * ms}},
		{flap, 4 * s, Moment{Phase: 0, Down: true, Left: 1 * s}},
		{flap, 5*s - 1, Moment{Phase: 0, Down: true, Left: 1}},
		{flap, 5 * s, Moment{Phase: 1, Down: true, Left: 0}},
	}
	for _, c := range cases {
		if got := c.scenario.At(c.since); got != c.want {
			t.Errorf("after %v it is %+v, want %+v", c.since, got, c.want)
		}
	}
	if got, want := flap.Within(0, 9*s), (Moment{Phase: 0, Down: false, Left: 3 * s}); got != want {
		t.Errorf("by hand, after 9s it is %+v, want %+v", got, want)
	}
	if got, want := once.Within(0, time.Hour), (Moment{Phase: 0, Down: true}); got != want {
		t.Errorf("by hand, after an hour it is %+v, want %+v", got, want)
	}
}

// Whoever sleeps for what is left of each moment sees every change, as does whoever looks at the schedule all the time.
func TestNothingChangesBeforeAMomentIsOverAndSomethingDoesThen(t *testing.T) {
	for seed := range uint64(100) {
		s := random(seed)
		end := 3 * time.Second
		for since := time.Duration(0); since < end; {
			m := s.At(since)
			if m.Left == 0 {
				m.Left = end
			}
			for range 5 {
				later := s.At(since + rand.N(m.Left))
				if later.Left = m.Left; later != m {
					t.Fatalf("seed %d: %+v at %v, and yet %+v in it\n%s", seed, m, since, later, s)
				}
			}
			since += m.Left
			if next := s.At(since); since < end && next.Phase == m.Phase && next.Round == m.Round && next.Down == m.Down {
				t.Fatalf("seed %d: nothing changed at %v, after %+v\n%s", seed, since, m, s)
			}
		}
	}
}

// The same call meets the same fault, in whatever order the calls come, from however many goroutines, and in every process.
func TestSameSeedSameFaults(t *testing.T) {
	type call struct {
		phase   int
		record  string
		attempt int
	}
	for seed := range uint64(50) {
		a, b := random(seed), random(seed)
		var calls []call
		for i := range 200 {
			calls = append(calls, call{i % len(a.Phases), fmt.Sprintf("orders/%d/%d", i%3, i), 1 + i%4})
		}
		first := map[call]Answer{}
		for _, c := range calls {
			first[c] = a.Answer(c.phase, true, c.record, c.attempt)
		}
		rand.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		again := map[call]Answer{}
		for _, c := range calls {
			again[c] = b.Answer(c.phase, true, c.record, c.attempt)
		}
		if !maps.Equal(first, again) {
			t.Fatalf("seed %d: the same calls met other faults", seed)
		}
	}
}

// These faults are fixed for all time: a report that names a seed can be repeated with a later version.
func TestTheFaultsOfASeedAreThoseOfYesterday(t *testing.T) {
	s := MustParse(`{"seed": 7, "poison": [{"share": 0.2, "do": 422}], "phases": [{"name": "p", "latency": {"uniform": [0, "1s"]},
		"faults": [{"do": 503, "share": 0.3}, {"do": "hang", "share": 0.2}]}]}`)
	got := ""
	for offset := range 12 {
		a := s.Answer(0, true, fmt.Sprintf("orders/0/%d", offset), 1)
		got += fmt.Sprintf("%s@%d ", a.Outcome, a.Latency.Milliseconds())
	}
	if want := `ok@590 503@524 503@65 503@81 hang@447 ok@804 ok@59 ok@486 ok@907 422@134 ok@207 hang@758 `; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestAnotherSeedOrAttemptOrPhaseIsAnotherDraw(t *testing.T) {
	s := MustParse(`{"phases": [{"name": "a", "for": 1, "faults": [{"do": 503, "share": 0.5}]}, {"name": "b", "faults": [{"do": 503, "share": 0.5}]}]}`)
	other := s.WithSeed(2)
	const n = 1000
	seeds, attempts, phases := 0, 0, 0
	for i := range n {
		record := fmt.Sprint(i)
		one := s.Answer(0, true, record, 1).Do
		seeds += b2i(one != other.Answer(0, true, record, 1).Do)
		attempts += b2i(one != s.Answer(0, true, record, 2).Do)
		phases += b2i(one != s.Answer(1, true, record, 1).Do)
	}
	for what, differ := range map[string]int{"seed": seeds, "attempt": attempts, "phase": phases} {
		if math.Abs(float64(differ)-n/2) > 5*math.Sqrt(n)/2 {
			t.Errorf("another %s changed %d of %d answers, want about half", what, differ, n)
		}
	}
	if s.Seed != 1 || other.Seed != 2 {
		t.Error("WithSeed changed the scenario it was called on")
	}
}

func TestSharesAreWhatTheFileSays(t *testing.T) {
	s := MustParse(`{
		"poison": [{"share": 0.1, "do": 422}, {"share": 0.05, "do": "die"}],
		"phases": [{"name": "p", "faults": [{"do": 503, "share": 0.2}, {"do": "hang", "share": 0.05}]}]}`)
	const n = 100_000
	count := map[string]int{}
	for i := range n {
		count[s.Answer(0, true, fmt.Sprintf("orders/%d/%d", i%6, i), 1).Outcome]++
	}
	for outcome, share := range map[string]float64{"503": 0.2, "hang": 0.05, "422": 0.75 * 0.1, "die": 0.75 * 0.05, "ok": 0.75 * 0.85} {
		if sigma := math.Sqrt(n * share * (1 - share)); math.Abs(float64(count[outcome])-n*share) > 5*sigma {
			t.Errorf("%q came %d times, want about %.0f", outcome, count[outcome], n*share)
		}
	}
}

func TestPoisonAlwaysHitsTheSameRecords(t *testing.T) {
	s := MustParse(`{
		"poison": [{"share": 0.1, "do": 422}, {"records": ["orders/0/17"], "do": 503}],
		"phases": [{"name": "a", "for": 1}, {"name": "b", "for": 1, "faults": [{"do": 500}], "flapping": {"down": 1, "up": 1}}, {"name": "c"}]}`)
	poisoned := 0
	for i := range 1000 {
		record := fmt.Sprintf("orders/1/%d", i)
		first := s.Answer(0, true, record, 1).Outcome
		poisoned += b2i(first == "422")
		for attempt := range 8 {
			for phase := range s.Phases {
				if got := s.Answer(phase, phase != 1, record, attempt).Outcome; got != first {
					t.Fatalf("%s met %s at first, and %s in phase %d, attempt %d", record, first, got, phase, attempt)
				}
			}
		}
		if got := s.Answer(1, true, record, 1).Outcome; got != "500" {
			t.Fatalf("%s met %s while everything was down", record, got)
		}
	}
	if poisoned < 50 || poisoned > 150 {
		t.Errorf("%d of 1000 records are poison, want about 100", poisoned)
	}
	if got := s.Answer(0, true, "orders/0/17", 3); got.Status != 503 {
		t.Errorf("the record that is named met %+v", got)
	}
}

func TestUpMeansWell(t *testing.T) {
	s := MustParse(`{"phases": [{"name": "a", "faults": [{"do": 503}], "flapping": {"down": 1, "up": 1}}]}`)
	if got := s.Answer(0, false, "r", 1); got.Do != OK || got.Status != 200 {
		t.Errorf("got %+v", got)
	}
}

func TestLatencies(t *testing.T) {
	const ms = time.Millisecond
	cases := []struct {
		json      string
		quantiles map[float64]time.Duration
	}{
		{`"2ms"`, map[float64]time.Duration{0: 2 * ms, 0.5: 2 * ms, 0.999: 2 * ms}},
		{`{"uniform": ["1ms", "9ms"]}`, map[float64]time.Duration{0: 1 * ms, 0.25: 3 * ms, 0.5: 5 * ms, 0.75: 7 * ms}},
		{`{"exponential": "10ms"}`, map[float64]time.Duration{0: 0, 1 - 1/math.E: 10 * ms, 1 - 1/(math.E*math.E): 20 * ms, 1 - 0x1p-53: 367368 * time.Microsecond}},
		{`{"percentiles": {"50": "5ms", "99": "200ms", "100": "1s"}}`, map[float64]time.Duration{0: 0, 0.25: 2500 * time.Microsecond, 0.5: 5 * ms, 0.99: 200 * ms, 0.995: 600 * ms}},
		{`{"percentiles": {"0": "3ms", "50": "5ms"}}`, map[float64]time.Duration{0: 3 * ms, 0.25: 4 * ms, 0.5: 5 * ms, 0.9: 5 * ms}},
	}
	for _, c := range cases {
		s := MustParse(`{"phases": [{"name": "p", "latency": ` + c.json + `}]}`)
		for u, want := range c.quantiles {
			if got := s.Phases[0].Latency.At(u); (got - want).Abs() > time.Microsecond {
				t.Errorf("%s: %v of all answers take up to %v, want %v", c.json, u, got, want)
			}
		}
		const n = 20_000
		var seen []time.Duration
		for i := range n {
			seen = append(seen, s.Answer(0, true, fmt.Sprint(i), 1).Latency)
		}
		slices.Sort(seen)
		for _, u := range []float64{0.1, 0.5, 0.9} {
			low, high := s.Phases[0].Latency.At(u-0.02), s.Phases[0].Latency.At(u+0.02)
			if got := seen[int(u*n)]; got < low || got > high {
				t.Errorf("%s: the quantile %v of the answers is %v, want %v to %v", c.json, u, got, low, high)
			}
		}
	}
}

func TestAFaultsOwnLatencyReplacesThePhases(t *testing.T) {
	s := MustParse(`{"phases": [{"name": "p", "latency": "1s", "faults": [{"do": 503, "latency": "5ms", "share": 0.5}, {"do": 504, "share": 0.5}]}]}`)
	for i := range 50 {
		a := s.Answer(0, true, fmt.Sprint(i), 1)
		if want := map[int]time.Duration{503: 5 * time.Millisecond, 504: time.Second}[a.Status]; a.Latency != want {
			t.Fatalf("%d took %v, want %v", a.Status, a.Latency, want)
		}
	}
}

func TestAPhaseThatIsNotThereIsToldFromThoseThatAre(t *testing.T) {
	s := MustParse(`{"phases": [{"name": "a", "for": 1}, {"name": "b"}]}`)
	if i, err := s.Find("b"); i != 1 || err != nil {
		t.Errorf("got %d, %v", i, err)
	}
	if _, err := s.Find("c"); err == nil || err.Error() != `scenario: there is no phase "c"; there is "a", "b"` {
		t.Errorf("got %v", err)
	}
}

func BenchmarkAnswer(b *testing.B) {
	s := MustParse(`{"poison": [{"share": 0.1, "do": 422}], "phases": [{"name": "p", "latency": {"exponential": "1ms"}, "faults": [{"do": 503, "share": 0.2}]}]}`)
	for i := 0; b.Loop(); i++ {
		s.Answer(0, true, "orders/0/1234567", i)
	}
}

func Example() {
	s, err := Parse("outage.json", []byte(`{
  "phases": [
    {"name": "well", "for": "5s"},
    {"name": "down", "for": "20s", "faults": [{"do": 503, "share": 0.7}, {"do": "hang", "share": 0.3}]},
    {"name": "well again"}
  ]
}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(s)
	m := s.At(7 * time.Second)
	fmt.Println(s.Phases[m.Phase].Name, "for another", m.Left)
	fmt.Println(s.Answer(m.Phase, m.Down, "orders/0/17", 1).Outcome)
	// Output:
	// well for 5s: all well
	// down for 20s: 503 for 70 %, hang for 30 %
	// well again for ever: all well
	// down for another 18s
	// 503
}

// random is a scenario out of a seed.
func random(seed uint64) *Scenario {
	rng := rand.New(rand.NewPCG(seed, 1))
	span := func() string { return fmt.Sprintf(`"%dms"`, 10+rng.IntN(400)) }
	phases, n, loop := "", 1+rng.IntN(4), rng.IntN(2) == 0
	for i := range n {
		if i > 0 {
			phases += ", "
		}
		phases += fmt.Sprintf(`{"name": "p%d", "latency": {"exponential": %s}`, i, span())
		if loop || i < n-1 {
			phases += `, "for": ` + span()
		}
		if rng.IntN(2) == 0 {
			phases += `, "faults": [{"do": 503, "share": 0.4}, {"do": "hang", "share": 0.2}]`
			if rng.IntN(2) == 0 {
				phases += fmt.Sprintf(`, "flapping": {"down": %s, "up": %s}`, span(), span())
			}
		}
		phases += "}"
	}
	return MustParse(fmt.Sprintf(`{"seed": %d, "loop": %v, "poison": [{"share": 0.1, "do": 422}], "phases": [%s]}`, seed, loop, phases))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
