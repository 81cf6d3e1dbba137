package scenario

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestEveryMistakeIsSaidAtOnceWithPathLineAndCure(t *testing.T) {
	_, err := Parse("bad.json", []byte(`{
  "sed": 7,
  "poison": [{"do": 422}],
  "phases": [
    {"name": "well", "for": "5 seconds"},
    {"name": "well", "for": "20s", "faults": [{"do": 503, "share": 0.7}, {"do": "hnag", "share": 0.7}]},
    {"name": "after", "for": "1m", "latency": {"uniform": ["9ms", "1ms"]}}
  ]
}`))
	want := `8 mistakes:
	bad.json:2: sed: this key is unknown; did you mean "seed"?
	bad.json:3: poison[0]: write which records: either "share": 0.1, or "records": ["orders/0/17"]
	bad.json:5: phases[0].for: "5 seconds" is no duration; write for instance "250ms", "1m30s" or "2h" (the units are ms, s, m, h), or a number of seconds
	bad.json:6: phases[1].name: "well" is the name of an earlier phase; phases are switched by name, so give each its own
	bad.json:6: phases[1].faults[1].do: "hnag" is unknown; write a status from 300 to 599 as a number, or "hang", "refuse", "reset", "drip" or "die"
	bad.json:6: phases[1].faults[1]: the shares add up to 1.4 up to here; they may add up to 1 (a fault without a share takes all)
	bad.json:7: phases[2].latency: the times have to grow from one to the next, and the percentiles too
	bad.json:7: phases[2].for: the last phase lasts for ever; take this away, or write "loop": true, or add a phase behind it`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Each case has exactly one mistake, on line 2, at the path, and its text holds the cure.
func TestRefused(t *testing.T) {
	well := `"phases": [{"name": "well"}]`
	phase := func(fields string) string { return `"phases": [{"name": "p", ` + fields + `}]` }
	fault := func(fields string) string { return phase(`"faults": [{` + fields + `}]`) }
	poison := func(fields string) string { return `"poison": [{` + fields + `}], ` + well }
	cases := []struct{ name, fields, path, cure string }{
		{"no phases", `"seed": 1`, "phases", "missing; write"},
		{"empty phases", `"phases": []`, "phases", "write at least one"},
		{"phases is no list", `"phases": 5`, "phases", "write an array"},
		{"a phase is no object", `"phases": [5]`, "phases[0]", "write an object"},
		{"negative seed", `"seed": -1, ` + well, "seed", "a whole number from 0"},
		{"broken seed", `"seed": 1.5, ` + well, "seed", "a whole number from 0"},
		{"loop is no bool", `"loop": "yes", ` + well, "loop", "write true or false"},

		{"no name", `"phases": [{}]`, "phases[0].name", "missing; write"},
		{"empty name", `"phases": [{"name": ""}]`, "phases[0].name", "write a few printable letters"},
		{"name with a line break", `"phases": [{"name": "a\nb"}]`, "phases[0].name", "write a few printable letters"},
		{"name with space around it", `"phases": [{"name": " a"}]`, "phases[0].name", "write a few printable letters"},
		{"unknown field", phase(`"fro": 1`), "phases[0].fro", `unknown; it can be "name", "for"`},
		{"no length before the last", `"phases": [{"name": "a"}, {"name": "b"}]`, "phases[0].for", "missing; write"},
		{"no length in a loop", `"loop": true, ` + well, "phases[0].for", "missing; write"},
		{"a last phase that ends", phase(`"for": 5`), "phases[0].for", "take this away"},
		{"no time at all", `"loop": true, ` + phase(`"for": 0`), "phases[0].for", "write 10ms or more"},
		{"two months", `"loop": true, ` + phase(`"for": "1440h"`), "phases[0].for", "write 720h (2592000 seconds) at most"},

		{"no faults", phase(`"faults": []`), "phases[0].faults", "it is empty; write at least one, such as"},
		{"a fault that does nothing", fault(`"share": 0.5`), "phases[0].faults[0].do", "missing; write"},
		{"a fault of the wrong kind", fault(`"do": true`), "phases[0].faults[0].do", "write a status such as 503, or a word"},
		{"a status as text", fault(`"do": "503"`), "phases[0].faults[0].do", "as a number"},
		{"a good status", fault(`"do": 200`), "phases[0].faults[0].do", "from 300 to 599"},
		{"a share of 0", fault(`"do": 503, "share": 0`), "phases[0].faults[0].share", "write more than 0"},
		{"a share of 70", fault(`"do": 503, "share": 70`), "phases[0].faults[0].share", "from 0 to 1"},
		{"two whole shares", phase(`"faults": [{"do": 503}, {"do": 504}]`), "phases[0].faults[1]", "may add up to 1"},
		{"refuse with a share", fault(`"do": "refuse", "share": 0.5`), "phases[0].faults[0].share", "take this away"},
		{"refuse beside another", phase(`"faults": [{"do": "refuse"}, {"do": 503, "share": 0.0000000001}]`), "phases[0].faults[0]", `write "refuse" alone`},
		{"fractions of Retry-After", fault(`"do": 429, "retryAfter": 1.5`), "phases[0].faults[0].retryAfter", "whole seconds"},
		{"no Retry-After", fault(`"do": 429, "retryAfter": 0`), "phases[0].faults[0].retryAfter", "write 1s or more"},
		{"Retry-After of a hang", fault(`"do": "hang", "retryAfter": 5`), "phases[0].faults[0].retryAfter", "take it away"},
		{"drip without a time", fault(`"do": "drip"`), "phases[0].faults[0].over", "missing; write"},
		{"over of a status", fault(`"do": 503, "over": 5`), "phases[0].faults[0].over", "take it away"},
		{"latency of a hang", fault(`"do": "hang", "latency": 5`), "phases[0].faults[0].latency", "take it away"},

		{"latency below zero", phase(`"latency": -1`), "phases[0].latency", "write 0s or more"},
		{"latency of two kinds", phase(`"latency": {"exponential": 1, "uniform": [1, 2]}`), "phases[0].latency", "write one of"},
		{"latency of no kind", phase(`"latency": {}`), "phases[0].latency", "write one of"},
		{"one end", phase(`"latency": {"uniform": [1]}`), "phases[0].latency.uniform", "the shortest and the longest"},
		{"ends in the wrong order", phase(`"latency": {"uniform": [2, 1]}`), "phases[0].latency", "have to grow"},
		{"no average", phase(`"latency": {"exponential": 0}`), "phases[0].latency.exponential", "write 1ns or more"},
		{"no percentiles", phase(`"latency": {"percentiles": {}}`), "phases[0].latency.percentiles", "write at least one"},
		{"percentiles is no object", phase(`"latency": {"percentiles": 5}`), "phases[0].latency.percentiles", "write an object"},
		{"a percentile by name", phase(`"latency": {"percentiles": {"p99": 1}}`), "phases[0].latency.percentiles.p99", "from 0 to 100"},
		{"a percentile over 100", phase(`"latency": {"percentiles": {"101": 1}}`), "phases[0].latency.percentiles.101", "from 0 to 100"},
		{"a percentile that is none", phase(`"latency": {"percentiles": {"NaN": 1}}`), "phases[0].latency.percentiles.NaN", "from 0 to 100"},
		{"percentiles that fall", phase(`"latency": {"percentiles": {"50": 2, "99": 1}}`), "phases[0].latency", "have to grow"},
		{"percentiles out of order", phase(`"latency": {"percentiles": {"99": 1, "50": 2}}`), "phases[0].latency", "have to grow"},

		{"flapping of nothing", phase(`"flapping": {"down": 1, "up": 1}`), "phases[0].flapping", `write "faults" beside it`},
		{"flapping without up", phase(`"faults": [{"do": 503}], "flapping": {"down": 1}`), "phases[0].flapping.up", "missing; write"},
		{"flapping too fast", phase(`"faults": [{"do": 503}], "flapping": {"down": 0.001, "up": 1}`), "phases[0].flapping.down", "write 10ms or more"},
		{"unknown broker fault", phase(`"broker": ["away"]`), "phases[0].broker[0]", `"refuse-dlq"`},
		{"unknown Redis fault", phase(`"redis": "gone"`), "phases[0].redis", `"away", "slow"`},

		{"poison of nothing", `"poison": [], ` + well, "poison", "it is empty; write at least one, such as"},
		{"poison for no record", poison(`"do": 422`), "poison[0]", "write which records"},
		{"poison for both", poison(`"do": 422, "share": 0.1, "records": ["a"]`), "poison[0]", "write which records"},
		{"poison named twice", poison(`"do": 422, "records": ["a", "a"]`), "poison[0].records[1]", "one fault"},
		{"poison that refuses", poison(`"do": "refuse", "share": 0.1`), "poison[0]", "in a phase of its own"},
		{"too much poison", `"poison": [{"do": 422, "share": 0.6}, {"do": 500, "share": 0.6}], ` + well, "poison[1]", "may add up to 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("file", []byte("{\n"+c.fields+"}"))
			var refused *ParseError
			if !errors.As(err, &refused) || len(refused.Mistakes) != 1 {
				t.Fatalf("want one mistake, got %v", err)
			}
			m := refused.Mistakes[0]
			line := 2
			if m.Path == "phases" && strings.HasPrefix(m.Text, "it is missing") {
				line = 1 // where the object begins
			}
			if m.Path != c.path || m.Line != line || !strings.Contains(m.Text, c.cure) {
				t.Errorf("got %v; want %s with %q", m, c.path, c.cure)
			}
		})
	}
}

func TestParseReadsEveryField(t *testing.T) {
	s, err := Parse("all.json", []byte(`{
		"$comment": "all there is", "seed": 7, "loop": true,
		"poison": [{"share": 0.25, "do": 422}, {"records": ["orders/0/17", "orders/0/18"], "do": "die", "latency": 1}],
		"phases": [
			{"name": "a", "for": "5s", "latency": "2ms", "broker": ["refuse-dlq", "slow-fetch"], "redis": "slow"},
			{"name": "b", "for": 20, "flapping": {"down": "1s", "up": "3s"}, "faults": [
				{"do": 429, "share": 0.5, "retryAfter": 3}, {"do": "drip", "over": "10s", "share": 0.25}, {"do": "hang", "share": 0.25}]},
			{"name": "c", "for": 0.5, "faults": [{"do": "refuse"}]}
		]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	second := Latency{points: []point{{0, time.Second}}}
	want := &Scenario{
		Name: "all.json", Seed: 7, Loop: true,
		Poison: []Poison{
			{Fault: Fault{Do: Respond, Status: 422, Share: 0.25, outcome: "422"}},
			{Fault: Fault{Do: Die, Status: 500, Latency: &second, outcome: "die"}, Records: []string{"orders/0/17", "orders/0/18"}},
		},
		Phases: []Phase{
			{Name: "a", For: 5 * time.Second, Latency: Latency{points: []point{{0, 2 * time.Millisecond}}}, Broker: []string{"refuse-dlq", "slow-fetch"}, Redis: "slow"},
			{Name: "b", For: 20 * time.Second, Flapping: Flapping{time.Second, 3 * time.Second}, Faults: []Fault{
				{Do: Respond, Status: 429, Share: 0.5, RetryAfter: 3 * time.Second, outcome: "429"},
				{Do: Drip, Over: 10 * time.Second, Share: 0.25, outcome: "drip"},
				{Do: Hang, Share: 0.25, outcome: "hang"},
			}},
			{Name: "c", For: 500 * time.Millisecond, Faults: []Fault{{Do: Refuse, Share: 1, outcome: "refuse"}}},
		},
	}
	want.named = map[string]*Fault{"orders/0/17": &want.Poison[1].Fault, "orders/0/18": &want.Poison[1].Fault}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got\n%+v\nwant\n%+v", s, want)
	}
}

func TestAScenarioSaysItself(t *testing.T) {
	s := MustParse(`{
		"loop": true, "poison": [{"share": 0.1, "do": 422}, {"records": ["a", "b"], "do": "die"}],
		"phases": [
			{"name": "well", "for": 5, "latency": {"exponential": "2ms"}},
			{"name": "down", "for": 20, "latency": {"percentiles": {"50": "5ms", "100": "1s"}}, "faults": [
				{"do": 429, "share": 0.7, "retryAfter": 3}, {"do": "drip", "over": 10, "share": 0.3, "latency": "1ms"}]},
			{"name": "gone", "for": 4, "faults": [{"do": "refuse"}], "flapping": {"down": 1, "up": 3}, "broker": ["fail-commits"], "redis": "away"}
		]}`)
	want := `well for 5s: all well, answers take 2ms on average (exponential)
down for 20s: 429 with Retry-After 3s for 70 %, drip over 10s after 1ms for 30 %, answers take p50 5ms, p100 1s
gone for 4s: refuse for all, 1s down and 3s up in turn, broker: fail-commits, redis: away
always: 422 for 10 % of the records
always: die for a, b
and again from the first
`
	if got := s.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is taken can be played: no time and no call makes it panic, a moment always comes to its end, and the shares hold.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"loop": true, "phases": [{"name": "a", "for": 1, "faults": [{"do": 503, "share": 0.5}], "flapping": {"down": 1, "up": 2}}]}`), int64(1e9))
	f.Add([]byte(`{"poison": [{"share": 0.1, "do": "die"}, {"records": ["a"], "do": 422}], "phases": [{"name": "a", "latency": {"percentiles": {"50": 1}}}]}`), int64(5))
	f.Fuzz(func(t *testing.T, data []byte, since int64) {
		s, err := Parse("file", data)
		if err != nil {
			var refused *ParseError
			if !errors.As(err, &refused) || len(refused.Mistakes) == 0 {
				t.Fatalf("refused without a mistake: %v", err)
			}
			return
		}
		since = max(since, 0)
		m := s.At(time.Duration(since))
		if m.Left < 0 {
			t.Fatalf("%v left", m.Left)
		}
		a := s.Answer(m.Phase, m.Down, "a", 1)
		if a.Latency < 0 || a.Outcome == "" {
			t.Fatalf("answer %+v", a)
		}
		_ = s.String()
	})
}
