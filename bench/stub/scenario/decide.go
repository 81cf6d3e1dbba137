package scenario

// What becomes of one call is a function of the seed, the phase, the record and the attempt, and of nothing else: no clock, no order of
// arrival, no state. So the same seed gives the same faults, however the calls interleave and whatever process they come from.

import (
	"math"
	"time"
)

// Answer is what one call meets.
type Answer struct {
	Do         Do
	Status     int           // of OK, Respond and Die
	RetryAfter time.Duration // 0: no such header
	Over       time.Duration // of Drip
	Latency    time.Duration // to wait before anything is sent
	Outcome    string        // its name in a report: "ok", "503", "hang"
}

// What a draw is for, so that one doesn't depend on another.
const (
	forFault = iota + 1
	forLatency
	forPoison
)

// Answer decides about the attempt (from 1) at the record, in a phase whose faults are there (down) or not.
func (s *Scenario) Answer(phase int, down bool, record string, attempt int) Answer {
	p := &s.Phases[phase]
	fault := (*Fault)(nil)
	if down {
		fault = pick(p.Faults, draw(s.Seed, record, forFault, phase, attempt))
	}
	if fault == nil {
		fault = s.poison(record)
	}
	if fault == nil {
		return Answer{Do: OK, Status: 200, Outcome: string(OK), Latency: p.Latency.At(draw(s.Seed, record, forLatency, phase, attempt))}
	}
	latency := &p.Latency
	if fault.Latency != nil {
		latency = fault.Latency
	}
	return Answer{
		Do: fault.Do, Status: fault.Status, RetryAfter: fault.RetryAfter, Over: fault.Over, Outcome: fault.outcome,
		Latency: latency.At(draw(s.Seed, record, forLatency, phase, attempt)),
	}
}

// poison is the fault that always hits the record; nil for most.
func (s *Scenario) poison(record string) *Fault {
	if len(s.Poison) == 0 {
		return nil
	}
	if fault, ok := s.named[record]; ok {
		return fault
	}
	u := draw(s.Seed, record, forPoison, 0, 0)
	for i := range s.Poison {
		if u -= s.Poison[i].Share; u < 0 {
			return &s.Poison[i].Fault
		}
	}
	return nil
}

// pick is the fault whose share u, from 0 to 1, falls into; nil: none.
func pick(faults []Fault, u float64) *Fault {
	for i := range faults {
		if u -= faults[i].Share; u < 0 {
			return &faults[i]
		}
	}
	return nil
}

// draw is a number from 0 up to 1 that looks random and is the same in every process: FNV-1a over the record, then the finalizer of SplitMix64
// over each number.
func draw(seed uint64, record string, purpose, phase, attempt int) float64 {
	h := uint64(14695981039346656037)
	for i := range len(record) {
		h = (h ^ uint64(record[i])) * 1099511628211
	}
	h = mix(h ^ mix(seed))
	h = mix(h ^ uint64(purpose)<<48 ^ uint64(phase)<<32 ^ uint64(attempt))
	return float64(h>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Latency is how long an answer takes: a distribution, or nothing.
type Latency struct {
	mean   time.Duration // of an exponential distribution; else 0
	points []point       // of any other: its quantiles, with straight lines between; none: no latency
}

// point says that this share of all answers takes no longer than that.
type point struct {
	share float64
	takes time.Duration
}

// At is the time that the share u, from 0 up to 1, of all answers doesn't exceed. The longest of an exponential distribution is 37 times its mean.
func (l Latency) At(u float64) time.Duration {
	if l.mean > 0 {
		return time.Duration(-math.Log1p(-u) * float64(l.mean))
	}
	below := point{}
	for _, p := range l.points {
		if u < p.share {
			return below.takes + time.Duration((u-below.share)/(p.share-below.share)*float64(p.takes-below.takes))
		}
		below = p
	}
	return below.takes
}
