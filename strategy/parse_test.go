package strategy_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwater-go/breakwater/strategy"
)

// accepted are files that must be taken. The schema is held against them too.
var accepted = []string{
	`[1]`,
	`[1, 4, 16]`,
	`[0, 0]`,
	`[-0, 1.5, 1e2, 0.000000001, 1e-400, 604800, 6.048e5]`,
	`["0", "1ns", "1us", "1µs", "1μs", "1ms", "1s", "1m", "1h", ".5s", "1.s", "1h30m0.5s", "+1s", "168h"]`,
	`[{"wait": 1}, {"wait": "1s", "times": 1}, {"wait": 1, "times": 1000000}, {"times": 1e1, "wait": 0}, {"wait": 1, "times": 3.0}]`,
	`[{"wait": 1, "$comment": "why"}]`,
	"\ufeff[1]",
	"\r\n[1,\r\n4]\r\n",
	`{"intervals": [1]}`,
	`{"$schema": "strategy/schema.json", "$comment": ["a", {"b": null, "b": 1}], "intervals": [1]}`,
	`{"intervals": [1], "jitter": 0}`,
	`{"intervals": [1], "jitter": 1}`,
	`{"intervals": [1], "onExhausted": "dlq", "onPermanent": "hold"}`,
	`{"intervals": [0, 0.1], "onExhausted": "hold"}`,
	`{"intervals": [0, "100ms"], "dlqBudget": 0}`,
	`{"intervals": [1], "dlqBudget": 1000000}`,
	`{"intervals": [0], "onPermanent": "hold"}`,
	`{"intervals": [1], "breaker": {}}`,
	`{"intervals": [1], "breaker": {"consecutiveFailures": 3, "scope": "partition", "$comment": ""}}`,
	`{"intervals": [1], "breaker": {"failureRatio": 1, "minimumCalls": 1, "window": 1}}`,
	`{"intervals": [1], "breaker": {"failureRatio": 1e-9, "minimumCalls": 1000000, "window": "1h", "scope": "consumer"}}`,
	`{"\u0069ntervals": [1]}`,
}

func TestAccepted(t *testing.T) {
	for _, json := range accepted {
		if _, err := strategy.Parse("s", []byte(json)); err != nil {
			t.Errorf("%s: %v", json, err)
		}
	}
}

// refused are files with one mistake each: where it is said to be, on which line, and a part of what is said.
// laxSchema: the schema alone would take it.
var refused = []struct {
	json, path string
	line       int
	text       string
	laxSchema  bool
}{
	{json: ``, line: 1, text: "the file is empty; write for instance [1, 4, 16]"},
	{json: " \n\t ", line: 1, text: "empty"},
	{json: `null`, line: 1, text: "not null; the smallest is [1, 4, 16]"},
	{json: `"1s"`, line: 1, text: "not a string"},
	{json: "\n\n5", line: 3, text: "not a number"},
	{json: `true`, line: 1, text: "not true or false"},

	// No JSON at all.
	{json: "[1,\n4", line: 2, text: "this is not JSON: unexpected end of JSON input; a closing bracket or quote is missing"},
	{json: "[1,\n4\n\n\n", line: 4, text: "unexpected end"},
	{json: "[1,\n4,\n]", line: 3, text: "take away the comma before it"},
	{json: "{\"intervals\": [1],\n}", line: 2, text: "take away the comma before it"},
	{json: "[1]\n[2]", line: 2, text: "after top-level value; take away what follows that value"},
	{json: "[1]]", line: 1, text: "take away what follows that value"},
	{json: "[1] x", line: 1, text: "take away what follows that value"},
	{json: "[\n1, // one\n4]", line: 2, text: `JSON has no comments, write "$comment"`},
	{json: "# comment\n[1]", line: 1, text: `JSON has no comments`},
	{json: "['1s']", line: 1, text: "use double quotes"},
	{json: "[1\n 4]", line: 2, text: "often a comma, a quote or a bracket is missing"},
	{json: "[NaN]", line: 1, text: "invalid character 'N'"},
	{json: "[Infinity]", line: 1, text: "invalid character 'I'"},
	{json: "[-Infinity]", line: 1, text: "invalid character 'I'"},
	{json: "[01]", line: 1, text: "this is not JSON"},
	{json: "[.5]", line: 1, text: "this is not JSON"},
	{json: "[+1]", line: 1, text: "this is not JSON"},
	{json: "[\"1\ns\"]", line: 1, text: "in string literal"},
	{json: strings.Repeat("[", 20000) + strings.Repeat("]", 20000), line: 1, text: "exceeded max depth"},
	{json: strings.Repeat("[", 65) + strings.Repeat("]", 65), path: strings.Repeat("[0]", 64), line: 1, text: "nested deeper than 64"},
	{json: "[1,\n\"\xff\"]", line: 2, text: "not UTF-8; save the file"},
	{json: "[1" + strings.Repeat(" ", 1<<20) + "]", line: 1, text: "larger than 1 MiB", laxSchema: true},

	// Intervals.
	{json: `[]`, line: 1, text: "it is empty; write at least one, such as [1, 4, 16]"},
	{json: "{\n\"intervals\":\n[]}", path: "intervals", line: 3, text: "it is empty; write at least one, such as [1, 4, 16]"},
	{json: "\n{}", path: "intervals", line: 2, text: `missing; write for instance "intervals": [1, 4, 16]`},
	{json: `{"intervals": 5}`, path: "intervals", line: 1, text: "it is a number; write an array, such as [1, 4, 16]"},
	{json: `{"intervals": null}`, path: "intervals", line: 1, text: "it is null; write an array, such as [1, 4, 16]"},
	{json: "[1,\n-4]", path: "[1]", line: 2, text: "-4 is negative; write 0s or more"},
	{json: `{"intervals": [1, -0.001]}`, path: "intervals[1]", line: 1, text: "-0.001 is negative"},
	{json: `[604801]`, path: "[0]", line: 1, text: "604801 is too long; write 168h (604800 seconds) at most"},
	{json: `[1e400]`, path: "[0]", line: 1, text: "1e400 is too long"},
	{json: `[-1e400]`, path: "[0]", line: 1, text: "-1e400 is negative"},
	{json: `[1` + strings.Repeat("0", 500) + `]`, path: "[0]", line: 1, text: "0… is too long"},
	{json: `["-1s"]`, path: "[0]", line: 1, text: `"-1s" is negative`},
	{json: `["-0s"]`, path: "[0]", line: 1, text: `"-0s" is negative`},
	{json: `["168h1ns"]`, path: "[0]", line: 1, text: `"168h1ns" is too long`, laxSchema: true},
	{json: `["9999999h"]`, path: "[0]", line: 1, text: `"9999999h" is no duration`, laxSchema: true},
	{json: `["5"]`, path: "[0]", line: 1, text: `"5" is no duration; write for instance "250ms"`},
	{json: `["1d"]`, path: "[0]", line: 1, text: `(the units are ms, s, m, h)`},
	{json: `[""]`, path: "[0]", line: 1, text: `"" is no duration`},
	{json: `[" 1s"]`, path: "[0]", line: 1, text: `no duration`},
	{json: `["."]`, path: "[0]", line: 1, text: `no duration`},
	{json: `[true]`, path: "[0]", line: 1, text: `it is true or false; write a number of seconds`},
	{json: `[null]`, path: "[0]", line: 1, text: `it is null`},
	{json: `[[1]]`, path: "[0]", line: 1, text: `it is an array`},
	{json: "[1,\n{\n}]", path: "[1].wait", line: 2, text: `missing; write for instance "wait": "1m"`},
	{json: "[{\"wait\": 1,\n\"times\":\n0}]", path: "[0].times", line: 3, text: "0 is out of range; write a whole number from 1 to 1000000"},
	{json: `[{"wait": 1, "times": -1}]`, path: "[0].times", line: 1, text: "out of range"},
	{json: `[{"wait": 1, "times": 1000001}]`, path: "[0].times", line: 1, text: "out of range"},
	{json: `[{"wait": 1, "times": 1e400}]`, path: "[0].times", line: 1, text: "out of range"},
	{json: `[{"wait": 1, "times": 1.5}]`, path: "[0].times", line: 1, text: "1.5 is no whole number"},
	{json: `[{"wait": 1, "times": "3"}]`, path: "[0].times", line: 1, text: "it is a string; write a whole number"},
	{json: `[{"wait": {}, "times": 3}]`, path: "[0].wait", line: 1, text: "it is an object"},
	{json: `[{"wait": 1, "time": 3}]`, path: "[0].time", line: 1, text: `unknown; did you mean "times"?`},

	// A last interval of nothing, where it may be called at for ever.
	{json: "{\"onExhausted\": \"hold\", \"intervals\": [1,\n0]}", path: "intervals[1]", line: 2, text: `the last wait is 0s, and with "onExhausted": "hold" a record is called at it for ever; make it 100ms or more`, laxSchema: true},
	{json: `{"dlqBudget": 20, "intervals": [1, "99ms"]}`, path: "intervals[1]", line: 1, text: `the last wait is 99ms, and with "dlqBudget"`, laxSchema: true},
	{json: `{"dlqBudget": 0, "intervals": [{"wait": 0.05, "times": 2}]}`, path: "intervals[0]", line: 1, text: `the last wait is 50ms`, laxSchema: true},
	{json: `{"dlqBudget": 0, "intervals": [0, "soon"]}`, path: "intervals[1]", line: 1, text: `no duration`},

	// Keys.
	{json: "{\"intervals\": [1],\n\"jiter\": 0.1}", path: "jiter", line: 2, text: `unknown; did you mean "jitter"?`},
	{json: `{"intervals": [1], "DLQBUDGET": 1}`, path: "DLQBUDGET", line: 1, text: `did you mean "dlqBudget"?`},
	{json: `{"intervals": [1], "dlq_budget": 1}`, path: "dlq_budget", line: 1, text: `did you mean "dlqBudget"?`},
	{json: `{"intervals": [1], "colour": 1}`, path: "colour", line: 1, text: `unknown; it can be "intervals", "jitter", "onExhausted"`},
	{json: `{"intervals": [1], "": 1}`, path: "", line: 1, text: `unknown`},
	{json: `{"intervals": [1], "$comments": 1}`, path: "$comments", line: 1, text: `unknown`},
	{json: "{\"intervals\": [1],\n\"jitter\":\n0,\n\"jitter\":\n0.1}", path: "jitter", line: 4, text: `it stands twice, first in line 2; take one away`, laxSchema: true},
	{json: `{"intervals": [1], "intervals": [2]}`, path: "intervals", line: 1, text: `it stands twice`, laxSchema: true},
	{json: `{"intervals": [1], "$comment": 1, "$comment": 2}`, path: "$comment", line: 1, text: `it stands twice`, laxSchema: true},
	{json: `{"intervals": [1], "` + strings.Repeat("x", 5000) + `": 1}`, path: strings.Repeat("x", 60) + "…", line: 1, text: `unknown`},

	// Plain settings.
	{json: `{"intervals": [1], "jitter": -0.1}`, path: "jitter", line: 1, text: "-0.1 is out of range; write a number from 0 to 1"},
	{json: `{"intervals": [1], "jitter": 10}`, path: "jitter", line: 1, text: "10 is out of range"},
	{json: `{"intervals": [1], "jitter": 1e400}`, path: "jitter", line: 1, text: "1e400 is out of range"},
	{json: `{"intervals": [1], "jitter": "10%"}`, path: "jitter", line: 1, text: "it is a string; write a number"},
	{json: `{"intervals": [1], "jitter": null}`, path: "jitter", line: 1, text: "it is null"},
	{json: `{"intervals": [1], "onExhausted": "DLQ"}`, path: "onExhausted", line: 1, text: `"DLQ" is unknown; did you mean "dlq"?`},
	{json: `{"intervals": [1], "onExhausted": "drop"}`, path: "onExhausted", line: 1, text: `it can be "dlq", "hold"`},
	{json: `{"intervals": [1], "onPermanent": false}`, path: "onPermanent", line: 1, text: `it is true or false; it can be "dlq", "hold"`},
	{json: `{"intervals": [1], "dlqBudget": -1}`, path: "dlqBudget", line: 1, text: "-1 is out of range; write a whole number from 0"},
	{json: `{"intervals": [1], "dlqBudget": 2.5}`, path: "dlqBudget", line: 1, text: "2.5 is no whole number"},
	{json: `{"intervals": [1], "dlqBudget": null}`, path: "dlqBudget", line: 1, text: "it is null"},

	// The breaker.
	{json: `{"intervals": [1], "breaker": 3}`, path: "breaker", line: 1, text: "it is a number; write an object with consecutiveFailures"},
	{json: `{"intervals": [1], "breaker": {"consecutiveFailures": 0}}`, path: "breaker.consecutiveFailures", line: 1, text: "0 is out of range; write a whole number from 1"},
	{json: `{"intervals": [1], "breaker": {"consecutiveFailure": 1}}`, path: "breaker.consecutiveFailure", line: 1, text: `did you mean "consecutiveFailures"?`},
	{json: `{"intervals": [1], "breaker": {"scope": "topic"}}`, path: "breaker.scope", line: 1, text: `"topic" is unknown; it can be "consumer", "partition"`},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0, "minimumCalls": 1, "window": 1}}`, path: "breaker.failureRatio", line: 1, text: "it must be over 0"},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 1.1, "minimumCalls": 1, "window": 1}}`, path: "breaker.failureRatio", line: 1, text: "1.1 is out of range"},
	{json: `{"intervals": [1], "breaker": {"failureRatio": "50%", "minimumCalls": 1, "window": 1}}`, path: "breaker.failureRatio", line: 1, text: "it is a string"},
	{json: "{\"intervals\": [1], \"breaker\":\n{\"failureRatio\": 0.5, \"window\": 1}}", path: "breaker.minimumCalls", line: 2, text: `it is missing; a "failureRatio" needs it`},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 1}}`, path: "breaker.window", line: 1, text: `it is missing; a "failureRatio" needs it`},
	{json: `{"intervals": [1], "breaker": {"minimumCalls": 1}}`, path: "breaker.minimumCalls", line: 1, text: `it goes with "failureRatio" only`},
	{json: `{"intervals": [1], "breaker": {"consecutiveFailures": 1, "window": 1}}`, path: "breaker.window", line: 1, text: `it goes with "failureRatio" only`},
	{json: `{"intervals": [1], "breaker": {"consecutiveFailures": 1, "failureRatio": 0.5, "minimumCalls": 1, "window": 1}}`, path: "breaker.failureRatio", line: 1, text: `it does not go with "consecutiveFailures"; keep one of the two`},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 0, "window": 1}}`, path: "breaker.minimumCalls", line: 1, text: "0 is out of range"},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 1, "window": 0.9}}`, path: "breaker.window", line: 1, text: "0.9 is too short; write 1s or more"},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 1, "window": "999ms"}}`, path: "breaker.window", line: 1, text: `"999ms" is too short`, laxSchema: true},
	{json: `{"intervals": [1], "breaker": {"failureRatio": 0.5, "minimumCalls": 1, "window": 3601}}`, path: "breaker.window", line: 1, text: "3601 is too long; write 1h (3600 seconds) at most"},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(short(c.json), func(t *testing.T) {
			s, err := strategy.Parse("s.json", []byte(c.json))
			var parse *strategy.ParseError
			if !errors.As(err, &parse) || s != nil {
				t.Fatalf("got %v, %v; want a *ParseError", s, err)
			}
			if len(parse.Mistakes) != 1 {
				t.Fatalf("want one mistake: %v", err)
			}
			m := parse.Mistakes[0]
			if m.Path != c.path || m.Line != c.line || !strings.Contains(m.Text, c.text) {
				t.Errorf("\n got %q, line %d: %s\nwant %q, line %d: %s", m.Path, m.Line, m.Text, c.path, c.line, c.text)
			}
			if want := fmt.Sprintf("strategy: s.json:%d: ", c.line); !strings.HasPrefix(err.Error(), want) {
				t.Errorf("it reads %q, want it to begin with %q", err, want)
			}
			if len(err.Error()) > 500 {
				t.Errorf("it is %d bytes long", len(err.Error()))
			}
		})
	}
}

func short(s string) string { return s[:min(len(s), 80)] }

func TestAllMistakesAtOnceInTheOrderOfTheirLines(t *testing.T) {
	_, err := strategy.Parse("strategy.json", []byte(`{
  "intervals": [
    1, -4,
    "soon",
    {"wait": "8d", "times": 0, "tiems": 3}
  ],
  "jitter": 2,
  "jitter": 0.1,
  "onExhausted": "holt",
  "dlqBudget": "20",
  "breaker": {
    "consecutiveFailures": 1,
    "failureRatio": 0.5,
    "scope": 1
  },
  "maxAttempts": 3
}`))
	const want = `strategy: 12 mistakes:
	strategy.json:3: intervals[1]: -4 is negative; write 0s or more
	strategy.json:4: intervals[2]: "soon" is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds
	strategy.json:5: intervals[3].tiems: this key is unknown; did you mean "times"?
	strategy.json:5: intervals[3].times: 0 is out of range; write a whole number from 1 to 1000000
	strategy.json:5: intervals[3].wait: "8d" is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds
	strategy.json:7: jitter: 2 is out of range; write a number from 0 to 1
	strategy.json:8: jitter: it stands twice, first in line 7; take one away
	strategy.json:9: onExhausted: "holt" is unknown; did you mean "hold"?
	strategy.json:10: dlqBudget: it is a string; write a whole number from 0 to 1000000
	strategy.json:13: breaker.failureRatio: it does not go with "consecutiveFailures"; keep one of the two
	strategy.json:14: breaker.scope: it is a number; it can be "consumer", "partition"
	strategy.json:16: maxAttempts: this key is unknown; it can be "intervals", "jitter", "onExhausted", "onPermanent", "dlqBudget", "breaker"`
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestManyMistakesMakeABoundedError(t *testing.T) {
	_, err := strategy.Parse("s", []byte("["+strings.Repeat("-1,\n", 5000)+"1]"))
	var parse *strategy.ParseError
	if !errors.As(err, &parse) || len(parse.Mistakes) != 5000 {
		t.Fatalf("want 5000 mistakes: %.200v", err)
	}
	if last := parse.Mistakes[4999]; last.Line != 5000 || last.Path != "[4999]" {
		t.Errorf("the last is %+v", last)
	}
	if text := err.Error(); strings.Count(text, "\n") != 21 || !strings.HasSuffix(text, "and 4980 more") {
		t.Errorf("it has %d lines and ends with %q", strings.Count(text, "\n"), text[len(text)-50:])
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "strategy.json")
	if err := os.WriteFile(file, []byte("[1,\n-4]"), 0o600); err != nil {
		t.Fatal(err)
	}

	_, err := strategy.Load(file)
	var parse *strategy.ParseError
	if !errors.As(err, &parse) || !strings.Contains(err.Error(), file+":2: [1]: ") {
		t.Errorf("of a broken file: %v", err)
	}
	_, err = strategy.Load(filepath.Join(dir, "none.json"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "create it") {
		t.Errorf("of a missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte("[1"+strings.Repeat(" ", 2<<20)+"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = strategy.Load(file); err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
		t.Errorf("of a huge file: %v", err)
	}
	_, err = strategy.Load(dir)
	if err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("of a directory: %v", err)
	}
}

func TestMustParsePanicsWithTheMistake(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), "is negative") {
			t.Errorf("panicked with %v", err)
		}
	}()
	strategy.MustParse(`[-1]`)
}
