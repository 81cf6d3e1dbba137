package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/server"
	"github.com/breakwater-go/breakwater/strategy"
)

func TestEarlyCalls(t *testing.T) {
	edit := func(at time.Duration, text string) func(*evidence) {
		return func(e *evidence) {
			e.waits = append(e.waits, inForce{Strategy: strategy.MustParse(text), since: e.began.Add(at)})
		}
	}
	asked := func(p int32, o int64, began, ended time.Duration, heard bool) func(*evidence) {
		return func(e *evidence) {
			name := recordName("orders", coordinates{p, o})
			if e.asked == nil {
				e.asked = map[string][]asking{}
			}
			e.asked[name] = append(e.asked[name], asking{began: e.began.Add(began), ended: e.began.Add(ended), unheard: !heard})
		}
	}
	slow := func(c server.Call, took time.Duration) server.Call { c.Took = took; return c }
	for _, c := range []struct {
		name   string
		calls  []server.Call
		change func(*evidence)
		want   int
	}{
		{"each wait is kept", []server.Call{failed(0, 0, 0), failed(2*s, 0, 0), ok(6*s, 0, 0)}, nil, 0},
		{"the first is not", []server.Call{failed(0, 0, 0), failed(1*s, 0, 0), ok(6*s, 0, 0)}, nil, 1}, // the call took a millisecond
		{"the second is not", []server.Call{failed(0, 0, 0), failed(2*s, 0, 0), ok(4*s, 0, 0)}, nil, 1},
		{"beyond the last the last goes on", []server.Call{failed(0, 0, 0), failed(2*s, 0, 0), failed(6*s, 0, 0), failed(8*s, 0, 0)}, nil, 1},
		{"others flow meanwhile", []server.Call{failed(0, 0, 0), ok(1, 1, 0), ok(2, 1, 1)}, nil, 0},
		{"while down the gate holds for all", []server.Call{whileDown(0, 0, 0), whileDown(s/2, 1, 0)}, nil, 1},
		{"and opens", []server.Call{whileDown(0, 0, 0), whileDown(2*s, 1, 0), whileDown(4*s, 0, 0)}, nil, 0},
		{"a call that was under way", []server.Call{whileDown(0, 0, 0), whileDown(2*time.Millisecond, 1, 0)}, nil, 0},
		{"but not one in each interval", []server.Call{whileDown(0, 0, 0), whileDown(2*s, 1, 0), whileDown(2*s+2*time.Millisecond, 2, 0)}, nil, 1},
		{"an answer that was still on its way when the probe began", []server.Call{whileDown(0, 0, 0), slow(whileDown(50*time.Millisecond, 1, 0), 1200*time.Millisecond),
			whileDown(1100*time.Millisecond, 2, 0)}, nil, 0},
		{"and that was known before", []server.Call{whileDown(0, 0, 0), slow(whileDown(50*time.Millisecond, 1, 0), 700*time.Millisecond),
			whileDown(1100*time.Millisecond, 2, 0)}, nil, 1},
		{"and that its caller had not read yet", []server.Call{whileDown(0, 0, 0), slow(whileDown(50*time.Millisecond, 1, 0), 700*time.Millisecond),
			whileDown(1100*time.Millisecond, 2, 0)}, asked(1, 0, 40*time.Millisecond, 1050*time.Millisecond, true), 0},
		{"a call that began before the trip and was long on its way", []server.Call{whileDown(0, 0, 0), whileDown(s/2, 1, 0)}, asked(1, 0, 0, s, true), 0},
		{"and was longer on its way than the first probe", []server.Call{whileDown(0, 0, 0), whileDown(1100*time.Millisecond, 1, 0), whileDown(1200*time.Millisecond, 2, 0)},
			asked(2, 0, 0, 2*s, true), 0},
		{"one that began after it", []server.Call{whileDown(0, 0, 0), whileDown(s/2, 1, 0)}, asked(1, 0, s/4, s, true), 1},
		{"an answer to a caller who had gone", []server.Call{slow(failed(0, 0, 0), 2*s), ok(2*s+s/2, 0, 0)}, asked(0, 0, 0, s, false), 0},
		{"and to one who had not", []server.Call{slow(failed(0, 0, 0), 2*s), ok(2*s+s/2, 0, 0)}, asked(0, 0, 0, 2*s, true), 1},
		{"whether it was an attempt nobody knows, and the shorter wait holds", []server.Call{slow(failed(0, 0, 0), s), failed(2*s, 0, 0), ok(4*s, 0, 0)},
			func(e *evidence) {
				asked(0, 0, 0, s, false)(e)
				asked(0, 0, 2*s, 2*s+s/2, true)(e)
				e.waits[0].Strategy = strategy.MustParse(`{"intervals": [9, 1], "jitter": 0}`)
			}, 0},
		{"with a breaker that waits for more there is no gate", []server.Call{whileDown(0, 0, 0), whileDown(s/2, 1, 0)},
			func(e *evidence) {
				e.waits[0].Strategy = strategy.MustParse(`{"intervals": [1, 3], "jitter": 0, "breaker": {"consecutiveFailures": 3}}`)
			}, 0},
		{"an edit shortens the waits that begin after it", []server.Call{failed(20*s, 0, 0), ok(20*s+s/2, 0, 0)}, edit(10*s, `{"intervals": [0.1], "jitter": 0}`), 0},
		{"and none that began long before", []server.Call{failed(0, 0, 0), ok(s/2, 0, 0)}, edit(10*s, `{"intervals": [0.1], "jitter": 0}`), 1},
		{"in the seconds around it either may hold", []server.Call{failed(9*s, 0, 0), ok(9*s+s/2, 0, 0)}, edit(10*s, `{"intervals": [0.1], "jitter": 0}`), 0},
		{"and one that lengthens holds later", []server.Call{failed(20*s, 0, 0), ok(22*s, 0, 0)}, edit(10*s, `{"intervals": [9], "jitter": 0}`), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := books()
			e.calls = c.calls
			if c.change != nil {
				c.change(&e)
			}
			if got := early(e); len(got) != c.want {
				t.Errorf("%d early calls, want %d: %v", len(got), c.want, got)
			}
		})
	}
}

// Whoever reads that a call was early is told which, by how much, and of which wait.
func TestAnEarlyCallIsToldWithBothStamps(t *testing.T) {
	e := books()
	e.calls[4].At = 3*s - 20*time.Millisecond
	e.calls[4].Attempt = 2
	sum := settle(e)
	var text, line strings.Builder
	sum.print(&text, func(_, text string) string { return text })
	const want = "orders/0/1, attempt 2, came at 2.9800 s, which is 0.0210 s too early: the failure of orders/0/1 was answered at 2.0010 s, and the wait after it is 1 s"
	if !strings.Contains(text.String(), want) {
		t.Errorf("%q is not said:\n%s", want, text.String())
	}
	sum.printJSON(&line)
	var back Summary
	if err := json.Unmarshal([]byte(line.String()), &back); err != nil || len(back.Early) != 1 || back.Early[0] != sum.Early[0] {
		t.Errorf("in JSON it is %+v, %v", back.Early, err)
	}
}

func TestTheCallersNoteWhatTheyHeard(t *testing.T) {
	var j journal
	first := j.begin("orders/0/1")
	j.begin("orders/0/1")(true)
	first(false)
	got := j.entries()["orders/0/1"]
	if len(got) != 2 || !got[0].unheard || got[1].unheard || got[0].ended.Before(got[0].began) {
		t.Errorf("%+v", got)
	}
}
