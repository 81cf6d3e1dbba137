package strategy_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/strategy"
)

func TestNIntervalsGiveNWaits(t *testing.T) {
	for _, c := range []struct {
		json string
		want []time.Duration
	}{
		{`[1]`, seconds(1)},
		{`[1, 4, 16]`, seconds(1, 4, 16)},
		{`[4, 1]`, seconds(4, 1)},
		{`[0, 0.5, "250ms", "1m30s"]`, seconds(0, 0.5, 0.25, 90)},
		{`[{"wait": 2, "times": 3}]`, seconds(2, 2, 2)},
		{`[1, {"wait": "2s", "times": 2}, 3, {"wait": 4}, {"wait": 5, "times": 2}]`, seconds(1, 2, 2, 3, 4, 5, 5)},
		{`["168h", 604800]`, seconds(604800, 604800)},
		{`[1e-3, 1.5E1]`, seconds(0.001, 15)},
	} {
		t.Run(c.json, func(t *testing.T) {
			s := strategy.MustParse(`{"jitter": 0, "intervals": ` + c.json + `}`)
			if s.Intervals() != len(c.want) {
				t.Errorf("%d intervals, want %d", s.Intervals(), len(c.want))
			}
			for i, want := range c.want {
				if got, ok := s.Wait(i + 1); got != want || !ok {
					t.Errorf("after attempt %d: %v, %v; want %v", i+1, got, ok, want)
				}
			}
			for _, attempt := range []int{len(c.want) + 1, len(c.want) + 2, math.MaxInt} {
				if got, ok := s.Wait(attempt); got != 0 || ok {
					t.Errorf("after attempt %d: %v, %v; want exhausted", attempt, got, ok)
				}
			}
			for _, attempt := range []int{0, -1, math.MinInt} {
				if got, ok := s.Wait(attempt); got != c.want[0] || !ok {
					t.Errorf("after attempt %d: %v, %v; want the first", attempt, got, ok)
				}
			}
			if s.First() != c.want[0] || s.Last() != c.want[len(c.want)-1] {
				t.Errorf("first %v, last %v; want %v, %v", s.First(), s.Last(), c.want[0], c.want[len(c.want)-1])
			}
		})
	}
}

func seconds(list ...float64) (waits []time.Duration) {
	for _, s := range list {
		waits = append(waits, time.Duration(s*float64(time.Second)))
	}
	return waits
}

func TestJitterOnlyAddsAndIsBounded(t *testing.T) {
	for _, jitter := range []float64{0, 0.1, 0.5, 1} {
		for _, wait := range []time.Duration{0, 1, time.Second, strategy.MaxWait} {
			s := strategy.MustParse(fmt.Sprintf(`{"intervals": ["%dns", "%dns", 3], "jitter": %v}`, wait, wait, jitter))
			most := wait + time.Duration(jitter*float64(wait))
			low, high := most, wait
			for range 1000 {
				first, _ := s.Wait(1)
				second, _ := s.Wait(2)
				for _, got := range []time.Duration{first, second, s.First()} {
					if got < wait || got > most {
						t.Fatalf("waited %v; want between %v and %v", got, wait, most)
					}
					low, high = min(low, got), max(high, got)
				}
				if got := s.Last(); got < 3*time.Second || got > 3*time.Second+time.Duration(jitter*3e9) {
					t.Fatalf("last wait %v", got)
				}
			}
			// It must use the range that it has, or all instances would retry in step.
			if spread := float64(high-low) / float64(most-wait); wait > 1 && jitter > 0 && spread < 0.9 {
				t.Errorf("waits of %v with jitter %v spread over %.2f of the range only", wait, jitter, spread)
			}
		}
	}
}

func TestRepetitionsAreNotExpanded(t *testing.T) {
	s := strategy.MustParse(`[{"wait": 1, "times": 1000000}, {"wait": 2, "times": 1000000}]`)
	if s.Intervals() != 2_000_000 {
		t.Errorf("%d intervals", s.Intervals())
	}
	if allocs := testing.AllocsPerRun(100, func() { s.Wait(1_500_000) }); allocs != 0 {
		t.Errorf("%v allocations per wait", allocs)
	}
	if got, _ := s.Wait(1_000_000); got >= 2*time.Second {
		t.Errorf("the last of the first million: %v", got)
	}
	if got, _ := s.Wait(1_000_001); got < 2*time.Second {
		t.Errorf("the first of the second million: %v", got)
	}
}

func TestDefaults(t *testing.T) {
	for _, json := range []string{`[1]`, `{"intervals": [1]}`, `{"intervals": [1], "breaker": {}}`} {
		s := strategy.MustParse(json)
		if s.OnExhausted() != strategy.DLQ || s.OnPermanent() != strategy.DLQ {
			t.Errorf("%s: onExhausted %q, onPermanent %q", json, s.OnExhausted(), s.OnPermanent())
		}
		if _, limited := s.DLQBudget(); limited {
			t.Errorf("%s: the DLQ budget is limited", json)
		}
		if want := (strategy.Breaker{ConsecutiveFailures: 1, Scope: strategy.ScopeConsumer}); s.Breaker() != want {
			t.Errorf("%s: breaker %+v, want %+v", json, s.Breaker(), want)
		}
		high := time.Second
		for range 1000 {
			high = max(high, s.First())
		}
		if high <= 1090*time.Millisecond || high > 1100*time.Millisecond {
			t.Errorf("%s: waits up to %v; want a jitter of 0.1", json, high)
		}
	}
}

func TestEverySettingIsRead(t *testing.T) {
	s := strategy.MustParse(`{
		"intervals": [1], "onExhausted": "hold", "onPermanent": "hold", "dlqBudget": 0,
		"breaker": {"failureRatio": 0.5, "minimumCalls": 20, "window": "1m", "scope": "partition"}
	}`)
	if s.OnExhausted() != strategy.Hold || s.OnPermanent() != strategy.Hold {
		t.Errorf("onExhausted %q, onPermanent %q", s.OnExhausted(), s.OnPermanent())
	}
	if limit, limited := s.DLQBudget(); limit != 0 || !limited {
		t.Errorf("DLQ budget %v, %v", limit, limited)
	}
	if want := (strategy.Breaker{FailureRatio: 0.5, MinimumCalls: 20, Window: time.Minute, Scope: strategy.ScopePartition}); s.Breaker() != want {
		t.Errorf("breaker %+v, want %+v", s.Breaker(), want)
	}
	if s.Current() != s {
		t.Error("a strategy is not its own source")
	}
}

func TestString(t *testing.T) {
	for json, want := range map[string]string{
		`[1, 4, 16, {"wait": "1m", "times": 10}]`: "calls at 0s, 1s, 5s, 21s, 1m21s … 10m21s, then the DLQ (14 calls)",
		`[1]`:                        "calls at 0s, 1s, then the DLQ (2 calls)",
		`[1, 4, 16]`:                 "calls at 0s, 1s, 5s, 21s, then the DLQ (4 calls)",
		`[0, "250ms", 0.5]`:          "calls at 0s, 0s, 250ms, 750ms, then the DLQ (4 calls)",
		`[1, 1, 1, 1]`:               "calls at 0s, 1s, 2s, 3s, 4s, then the DLQ (5 calls)",
		`[1, 1, 1, 1, 1]`:            "calls at 0s, 1s, 2s, 3s, 4s, 5s, then the DLQ (6 calls)",
		`[1, 1, 1, 1, 1, 1]`:         "calls at 0s, 1s, 2s, 3s, 4s … 6s, then the DLQ (7 calls)",
		`[60, "1h", "59m"]`:          "calls at 0s, 1m, 1h1m, 2h, then the DLQ (4 calls)",
		`[{"wait": 1, "times": 5}]`:  "calls at 0s, 1s, 2s, 3s, 4s, 5s, then the DLQ (6 calls)",
		`[{"wait": 0, "times": 50}]`: "calls at 0s, 0s, 0s, 0s, 0s … 0s, then the DLQ (51 calls)",
		`[{"wait": "168h", "times": 1000000}, {"wait": "168h", "times": 1000000}]`: "calls at 0s, 168h, 336h, 504h, 672h … 292 years, then the DLQ (2000001 calls)",
		`{"intervals": [1, "1m"], "onExhausted": "hold"}`:                          "calls at 0s, 1s, 1m1s, then every 1m for ever",
		`{"intervals": [1, 16], "dlqBudget": 0}`:                                   "calls at 0s, 1s, 17s, then every 16s for ever, because the DLQ budget is 0",
		`{"intervals": [1, 16], "dlqBudget": 20}`:                                  "calls at 0s, 1s, 17s, then the DLQ (3 calls)",
	} {
		if got := strategy.MustParse(json).String(); got != want {
			t.Errorf("%s\n got: %s\nwant: %s", json, got, want)
		}
	}
}

// TestTheFileThatWeShip holds strategy.json of the repository to what the pages say of it.
func TestTheFileThatWeShip(t *testing.T) {
	s, err := strategy.Load("../strategy.json")
	if err != nil {
		t.Fatal(err)
	}
	if want := "calls at 0s, 1s, 5s, 21s, 1m21s … 10m21s, then the DLQ (14 calls)"; s.String() != want {
		t.Errorf("it says %q, want %q", s, want)
	}
	if limit, limited := s.DLQBudget(); limit != 20 || !limited {
		t.Errorf("DLQ budget %d, %v; want 20", limit, limited)
	}
}

func BenchmarkWait(b *testing.B) {
	s := strategy.MustParse(`[1, 4, 16, {"wait": "1m", "times": 10}]`)
	for b.Loop() {
		s.Wait(7)
	}
}
