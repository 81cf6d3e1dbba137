package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/server"
	"github.com/breakwater-go/breakwater/strategy"
)

const s = time.Second

// ok, failed and refusedDown are calls for a record of partition p at offset o.
func ok(at time.Duration, p int32, o int64) server.Call {
	return server.Call{At: at, Took: time.Millisecond, Record: recordName("orders", coordinates{p, o}), Phase: well, Outcome: "ok"}
}

func failed(at time.Duration, p int32, o int64) server.Call {
	c := ok(at, p, o)
	c.Outcome = "500"
	return c
}

func whileDown(at time.Duration, p int32, o int64) server.Call {
	c := ok(at, p, o)
	c.Phase, c.Outcome = down, "503"
	return c
}

// books are evidence that adds up: four records in two partitions, one of them dead-lettered.
func books() evidence {
	e := evidence{
		topic: "orders", produced: map[coordinates]fingerprint{{0, 0}: {1}, {0, 1}: {2}, {1, 0}: {3}, {1, 1}: {4}},
		calls:     []server.Call{ok(1*s, 0, 0), ok(1*s, 1, 0), failed(2*s, 0, 1), ok(2*s, 1, 1), failed(4*s, 0, 1)},
		letters:   []letter{{Place: "orders.dlq/0@0", of: coordinates{0, 1}, was: fingerprint{2}}},
		committed: []int64{2, 2},
		waits:     history{{Strategy: strategy.MustParse(`{"intervals": [1, 3], "jitter": 0}`)}},
		began:     time.Unix(0, 0),
	}
	return e
}

func TestEveryFigureThatDoesNotAddUpIsNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*evidence)
		figure func(Summary) int
		want   int
		fault  string // "": it adds up
	}{
		{"nothing", func(*evidence) {}, func(s Summary) int { return s.Handled + s.DeadLettered }, 4, ""},
		{"a record that nobody has seen, and it is committed", func(e *evidence) { e.calls = e.calls[1:] },
			func(s Summary) int { return s.Lost }, 1, "lost: 1, not 0"},
		{"a dead letter that nobody finds", func(e *evidence) { e.letters = nil },
			func(s Summary) int { return s.Lost }, 1, "lost: 1, not 0"},
		{"a record that nobody has seen, and it is not committed", func(e *evidence) { e.calls = e.calls[1:]; e.committed[0] = -1 },
			func(s Summary) int { return s.Left }, 1, "left is 1, not 0"},
		{"the same, ended by hand", func(e *evidence) { e.calls = e.calls[1:]; e.committed[0] = -1; e.interrupted = true },
			func(s Summary) int { return s.Left }, 1, ""},
		{"lost, ended by hand", func(e *evidence) { e.calls = e.calls[1:]; e.interrupted = true },
			func(s Summary) int { return s.Lost }, 1, "lost: 1, not 0"},
		{"a record that was done twice", func(e *evidence) { e.calls = append(e.calls, ok(9*s, 1, 1)) },
			func(s Summary) int { return s.Duplicated }, 1, "duplicated: 1, not 0"},
		{"handled and dead-lettered", func(e *evidence) { e.calls = append(e.calls, ok(9*s, 0, 1)) },
			func(s Summary) int { return s.Duplicated }, 1, "duplicated: 1, not 0"},
		{"two letters for one record", func(e *evidence) { e.letters = append(e.letters, e.letters[0]) },
			func(s Summary) int { return s.Duplicated }, 1, "duplicated: 1, not 0"},
		{"a letter that is not its record", func(e *evidence) { e.letters[0].was = fingerprint{7} },
			func(s Summary) int { return s.DamagedLetters }, 1, "damaged dead letters: 1, not 0"},
		{"a letter of somebody else's record", func(e *evidence) { e.letters = append(e.letters, letter{of: coordinates{7, 7}}) },
			func(s Summary) int { return s.DeadLettered }, 1, ""},
		{"a call behind a later one", func(e *evidence) { e.calls[0], e.calls[2] = e.calls[2], e.calls[0] },
			func(s Summary) int { return s.OutOfOrder }, 1, "out of order: 1, not 0"},
		{"a retry before its wait is over", func(e *evidence) { e.calls[4].At = 3 * s },
			func(s Summary) int { return s.EarlyCalls }, 1, "early calls: 1, not 0"},
		{"a rebalance", func(e *evidence) { e.rebalances = 2 },
			func(s Summary) int { return s.Rebalances }, 2, "rebalances: 2, not 0"},
		{"a log with holes", func(e *evidence) { e.dropped = 3 },
			func(s Summary) int { return s.Handled }, 3, "calls that the log has forgotten: 3, not 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := books()
			c.change(&e)
			sum := settle(e)
			if got := c.figure(sum); got != c.want {
				t.Errorf("the figure is %d, want %d", got, c.want)
			}
			named := slices.ContainsFunc(sum.Faults, func(f string) bool { return strings.HasPrefix(f, c.fault) })
			if sum.AddsUp != (c.fault == "") || !sum.AddsUp && !named {
				t.Errorf("adds up: %t, faults %q, want %q", sum.AddsUp, sum.Faults, c.fault)
			}
			if sum.AddsUp && sum.Produced != sum.Handled+sum.DeadLettered+sum.Left {
				t.Errorf("it does not add up: %+v", sum)
			}
			var out strings.Builder
			sum.print(&out, func(_, text string) string { return text })
			for _, f := range sum.Faults {
				if !strings.Contains(out.String(), f) {
					t.Errorf("%q is not said", f)
				}
			}
		})
	}
}

func TestTheAccountIsOneLineOfJSONWithThoseKeys(t *testing.T) {
	sum := settle(books())
	var out strings.Builder
	sum.printJSON(&out)
	if strings.Count(out.String(), "\n") != 1 {
		t.Errorf("more than a line: %q", out.String())
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(out.String()), &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"produced", "handled", "dead_lettered", "left", "lost", "duplicated", "out_of_order", "early_calls", "rebalances",
		"calls_while_down", "down_s", "damaged_letters", "dead_letters", "interrupted", "adds_up"} {
		if _, ok := keys[k]; !ok {
			t.Errorf("no key %q", k)
		}
	}
}

func TestRecordNames(t *testing.T) {
	for _, topic := range []string{"orders", "a/b", "a.b-c_d"} {
		at := coordinates{12, 345678901234}
		back, where, err := parseRecord(recordName(topic, at))
		if err != nil || back != topic || where != at {
			t.Errorf("%q %v: %v", back, where, err)
		}
	}
	for _, bad := range []string{"", "orders", "orders/1", "orders/x/1", "orders/1/x"} {
		if _, _, err := parseRecord(bad); err == nil {
			t.Errorf("%q is taken for a record", bad)
		}
	}
}

func ExampleSummary() {
	sum := settle(evidence{
		topic: "orders", produced: map[coordinates]fingerprint{{0, 0}: {}},
		calls: []server.Call{{Record: "orders/0/0", Outcome: "ok", Phase: well}},
	})
	fmt.Println(sum.Produced, sum.Handled, sum.DeadLettered, sum.AddsUp)
	// Output: 1 1 0 true
}
