// Package plays is what the bench can run: for each scenario, how many records, which strategy, and what happens to the members.
package plays

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/bench/scenarios"
	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// Play is one scenario as the bench runs it.
type Play struct {
	Name, About string
	Script      *scenario.Scenario // what the dependency does
	Strategy    string
	Partitions  int

	// A race: the records are there, and each contender takes them as fast as it can, one contender after the other. The dependency is a book in memory.
	Race    bool
	Records int
	Spin    time.Duration // of CPU in the handler
	Wait    time.Duration // in the handler
	// In a race: the record at each multiple of FailEvery in partition 0 fails once, FailTimes of them.
	FailEvery, FailTimes int

	// Not a race: the records come at a rate, to all contenders at once, and the dependency is the stub, over HTTP.
	Rate    float64 // a second, over all partitions
	Ahead   int     // records that are there before
	MaxPoll time.Duration
	Events  []Event
	Only    []string // contenders; nil: all

	Exact bool // what the strategy says can be computed: every call of the outage fails
}

// Event is something that happens to a contender's members.
type Event struct {
	At time.Duration // since the schedule began
	Do Do
}

// Do is what happens.
type Do int

// What can happen.
const (
	Kill  Do = iota // the first member is killed, as by kill -9
	Start           // a member is started
	Leave           // the last member leaves
)

// The strategies: short ones, so that an outage of seconds shows what takes minutes elsewhere. None has a jitter, so that calls can be counted
// exactly.
const (
	patient  = `{"intervals": [1, 4, 16, {"wait": 16, "times": 10}], "jitter": 0}`
	quick    = `{"intervals": [0.2, 0.5, 1, {"wait": 1, "times": 100}], "jitter": 0}`
	short    = `{"intervals": [1, 2, 4], "jitter": 0}`
	budgeted = `{"intervals": [1, 2, 4], "jitter": 0, "dlqBudget": 5}`
	tenths   = `{"intervals": [{"wait": 0.1, "times": 100}], "jitter": 0}`
	threes   = `{"intervals": [{"wait": 3, "times": 100}], "jitter": 0}`
)

// maxPoll is shorter than the client's default of five minutes as outages and strategies here are.
const maxPoll = 10 * time.Second

// all are the plays that ship.
func all() []Play {
	return []Play{
		{Name: "steady", About: "all is well, and the handler does nothing", Race: true, Records: 400_000},
		{Name: "busy", About: "the handler takes 10 µs of CPU", Race: true, Records: 150_000, Spin: 10 * time.Microsecond},
		{Name: "slow", About: "the handler waits for 1 ms", Race: true, Records: 6_000, Wait: time.Millisecond},
		{Name: "poison", About: "one record in ten is refused for good", Race: true, Records: 200_000},
		{Name: "waits-100ms", About: "a hundred waits of 100 ms under load", Race: true, Records: 1_200_000, Strategy: tenths, FailEvery: 1500, FailTimes: 100},
		{Name: "waits-3s", About: "ten waits of 3 s under load", Race: true, Records: 1_200_000, Strategy: threes, FailEvery: 15_000, FailTimes: 10},
		{Name: "outage", About: "down for 20 s", Exact: true},
		{Name: "flapping", About: "down for one second in four", Strategy: quick},
		{Name: "long-outage", About: "down for longer than the strategy lasts", Strategy: short},
		{Name: "long-outage-budget", About: "the same, with a dlqBudget of 5", Strategy: budgeted, Only: []string{"breakwater"}},
		{Name: "dlq-down", About: "the broker takes no dead letters for 20 s", Strategy: short},
		{Name: "redis-down", About: "an outage, with Redis away in the middle", Only: []string{"breakwater"}},
		{Name: "rebalance", About: "members join and leave during an outage",
			Events: []Event{{8 * time.Second, Start}, {14 * time.Second, Leave}, {19 * time.Second, Start}}},
		{Name: "crash", About: "kill -9 in the middle of an outage, and a restart", Events: []Event{{12 * time.Second, Kill}, {13 * time.Second, Start}}},
		{Name: "lag", About: "ten minutes' outage over a million records", Rate: 1, Ahead: 1_000_000, Only: []string{"breakwater"}},
	}
}

// scripts are the scenario files of plays that are not called like theirs.
var scripts = map[string]string{
	"busy": "steady", "waits-100ms": "steady", "waits-3s": "steady", "long-outage-budget": "long-outage", "rebalance": "outage", "crash": "outage",
}

// Names are the plays that ship.
func Names() []string {
	var names []string
	for _, p := range all() {
		names = append(names, p.Name)
	}
	return names
}

// Find is the play that ships under that name, or one around the scenario file at that path.
func Find(name string) (Play, error) {
	plays := all()
	if i := slices.IndexFunc(plays, func(p Play) bool { return p.Name == name }); i >= 0 {
		return plays[i].complete()
	}
	s, err := scenarios.Load(name)
	if err != nil {
		return Play{}, fmt.Errorf("no scenario %q: give %s, or a file: %w", name, strings.Join(Names(), ", "), err)
	}
	return Play{Name: strings.TrimSuffix(filepath.Base(name), ".json"), About: "a scenario file", Script: s}.complete()
}

// complete fills in what was left open.
func (p Play) complete() (Play, error) {
	if p.Strategy == "" {
		p.Strategy = patient
	}
	if p.Partitions == 0 {
		p.Partitions = 6
	}
	if !p.Race && p.Rate == 0 {
		p.Rate = 300
	}
	if !p.Race {
		p.MaxPoll = maxPoll
	}
	if p.Script != nil {
		return p, nil
	}
	name := p.Name
	if s, ok := scripts[name]; ok {
		name = s
	}
	var err error
	if p.Name == "lag" {
		p.Script, err = scenario.Parse("lag", []byte(`{"phases": [{"name": "well", "for": "5s"}, {"name": "down", "for": "10m", "faults": [{"do": 503}]}, {"name": "well again"}]}`))
	} else {
		p.Script, err = scenarios.Load(name)
	}
	return p, err
}

// Has tells whether a contender takes part.
func (p Play) Has(contender string) bool { return p.Only == nil || slices.Contains(p.Only, contender) }

// Length is how long the schedule of a play that is no race takes, up to the last phase; one that loops is played once.
func (p Play) Length() (sum time.Duration) {
	for _, phase := range p.Script.Phases {
		sum += phase.For
	}
	return sum
}
