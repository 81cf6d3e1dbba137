package scenario

// What a scenario is, once it was read. Only Parse makes one, and nothing changes it afterwards, so every goroutine may use it.

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scenario is one file. Its fields are for reading only.
type Scenario struct {
	Name   string // of the file
	Seed   uint64
	Loop   bool
	Poison []Poison
	Phases []Phase // at least one

	named map[string]*Fault // the poison that is named record by record
}

// Phase is a time in which the dependency behaves in one way.
type Phase struct {
	Name     string
	For      time.Duration // 0: for ever
	Latency  Latency
	Faults   []Fault // their shares add up to 1 at most; the rest is well
	Flapping Flapping
	Broker   []string // faults of the broker, for a benchmark that has one
	Redis    string   // "", "away", "slow"
}

// Flapping is how faults come and go within a phase. The zero value: they stay.
type Flapping struct {
	Down, Up time.Duration
}

// Fault is what a share of the calls meets.
type Fault struct {
	Do         Do
	Status     int           // of Respond
	Share      float64       // over 0, at most 1
	RetryAfter time.Duration // of Respond; 0: no such header
	Over       time.Duration // of Drip
	Latency    *Latency      // nil: the phase's

	outcome string
}

// Poison is a fault that always hits the same records: those named, or else a share.
type Poison struct {
	Fault
	Records []string
}

// Do is what the stub does with a call.
type Do string

// What can be done.
const (
	OK      Do = "ok"      // a 200
	Respond Do = "respond" // another status
	Hang    Do = "hang"    // no answer, until the caller gives up
	Refuse  Do = "refuse"  // no connection
	Reset   Do = "reset"   // half of the answer, then a TCP reset
	Drip    Do = "drip"    // the answer byte by byte
	Die     Do = "die"     // an answer that tells the caller to die
)

// Refuses tells whether the phase closes the port while its faults are there.
func (p Phase) Refuses() bool { return len(p.Faults) == 1 && p.Faults[0].Do == Refuse }

// Find answers the place of the phase with that name.
func (s *Scenario) Find(name string) (int, error) {
	var names []string
	for i, p := range s.Phases {
		if p.Name == name {
			return i, nil
		}
		names = append(names, strconv.Quote(p.Name))
	}
	return 0, fmt.Errorf("scenario: there is no phase %q; there is %s", name, strings.Join(names, ", "))
}

// WithSeed is the same scenario with another seed.
func (s *Scenario) WithSeed(seed uint64) *Scenario {
	other := *s
	other.Seed = seed
	return &other
}
