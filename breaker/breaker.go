// Package breaker decides whether to call at all. sony/gobreaker says when to trip and when to close; a gate, which the
// strategy's waits set, says when to probe; [Choose] says with which record.
//
// A Breaker is a plain state machine: no goroutine, no I/O, and no clock but gobreaker's own for the window of a ratio. Its caller
// holds one mutex over every method save Stamp, and passes the instant in. It asks Stamp when a call begins, and tells Success or Fail with that stamp when the call has ended;
// while the breaker is not closed it begins no call but one at a time, with MayProbe and Probe. What ends without a verdict it does
// not tell, save that a probe is handed on.
package breaker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// State is what the breaker lets through.
type State int

// Closed lets records flow. Open lets nothing through. HalfOpen lets one record through, the probe.
const (
	Closed State = iota
	Open
	HalfOpen
)

func (s State) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// Settings say when failures trip the breaker: after a number in a row, or at a ratio within a window.
type Settings struct {
	Name                string
	ConsecutiveFailures int           // 0: FailureRatio decides
	FailureRatio        float64       // of the calls within Window
	MinimumCalls        int           // below it the ratio decides nothing
	Window              time.Duration // of the ratio
}

// windowBuckets is how finely the window of a ratio rolls. gobreaker drops the whole count at once with fewer than two.
const windowBuckets = 10

// Breaker is closed at first. The zero value is not usable; call New.
type Breaker struct {
	engine *gobreaker.CircuitBreaker[struct{}]
	ratio  bool

	state   State
	gate    time.Time
	episode string
	opened  time.Time
	shut    time.Time // when gobreaker opened last
	probing bool

	// stamp holds two counters: changes of state in its upper half, failures of records that were no suspects in its
	// lower. A call carries the stamp of its begin, which says all that the verdict needs to know about "since then".
	stamp atomic.Uint64

	cleared bool // a call that began after the last failure of a record that was no suspect has succeeded
	owes    bool // gobreaker has counted a failure since a success was last told
}

// New makes a closed breaker.
func New(s Settings) *Breaker {
	settings := gobreaker.Settings{
		Name:        s.Name,
		MaxRequests: 1,
		// The gate says when to probe. gobreaker's own time-out is out of the way: it can't be zero.
		Timeout: 1,
	}
	if s.ConsecutiveFailures > 0 {
		settings.ReadyToTrip = func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= s.ConsecutiveFailures }
	} else {
		settings.Interval = s.Window
		settings.BucketPeriod = s.Window / windowBuckets
		settings.ReadyToTrip = func(c gobreaker.Counts) bool {
			return int(c.Requests) >= s.MinimumCalls && float64(c.TotalFailures) >= s.FailureRatio*float64(c.Requests)
		}
	}
	b := &Breaker{ratio: s.ConsecutiveFailures <= 0, cleared: true}
	settings.OnStateChange = b.note
	b.engine = gobreaker.NewCircuitBreaker[struct{}](settings)
	return b
}

// note is gobreaker's callback. It runs under gobreaker's mutex, so it must not call it.
func (b *Breaker) note(_ string, _, to gobreaker.State) {
	switch to {
	case gobreaker.StateOpen:
		b.change(Open)
	case gobreaker.StateClosed:
		b.change(Closed)
	}
}

func (b *Breaker) change(to State) {
	b.state = to
	b.stamp.Add(1 << 32)
}

// The verdicts that gobreaker is told. Static functions, so that telling costs no allocation; each takes a slot and gives
// it back at once, so that no slot can leak, and none is held over a call.
var (
	errFailed = errors.New("failed")
	succeed   = func() (struct{}, error) { return struct{}{}, nil }
	fail      = func() (struct{}, error) { return struct{}{}, errFailed }
)

// Stamp says when a call began, for its verdict. It may be called without the mutex.
func (b *Breaker) Stamp() Stamp { return Stamp(b.stamp.Load()) }

// Stamp is the breaker's time: it moves with each change of state and with each counted failure.
type Stamp uint64

func (s Stamp) sameState(t Stamp) bool { return s>>32 == t>>32 }

// State is what the breaker lets through now. It never changes by time alone.
func (b *Breaker) State() State { return b.state }

// Gate is the instant before which nothing is called; it means something while the breaker is not closed.
func (b *Breaker) Gate() time.Time { return b.gate }

// Episode names the time since the trip; "" while closed.
func (b *Breaker) Episode() string { return b.episode }

// Opened is the instant of the trip that began the episode.
func (b *Breaker) Opened() time.Time { return b.opened }

// Probing reports whether a probe is under way.
func (b *Breaker) Probing() bool { return b.probing }

// WantsSuccess reports whether the next success has to be told. While it is false a success changes nothing here.
func (b *Breaker) WantsSuccess() bool { return b.owes || !b.cleared || b.ratio }

// MayProbe reports whether the next record may be called as the probe now.
func (b *Breaker) MayProbe(now time.Time) bool {
	return b.state != Closed && !b.probing && !now.Before(b.gate)
}

// Probe begins the probe; the caller has asked MayProbe.
func (b *Breaker) Probe() Stamp {
	if b.state == Open {
		b.change(HalfOpen)
	}
	b.probing = true
	return b.Stamp()
}

// HandOn ends the probe without a verdict on the dependency: neutral, permanent, revoked. The next record may probe, at the gate.
func (b *Breaker) HandOn() { b.probing = false }

// OpenGate is the operator's "retry now": the one thing that shortens a wait.
func (b *Breaker) OpenGate(now time.Time) { b.gate = latest(now, b.shut.Add(shortestGate)) }

// Success takes the success of a call that began at s. It reports whether that closed the breaker: only the probe can.
func (b *Breaker) Success(s Stamp, probe bool) (closed bool) {
	now := b.Stamp()
	if s == now {
		b.cleared = true
	}
	switch {
	case probe:
		b.probing = false
		_, err := b.engine.Execute(succeed)
		if err != nil || b.state != Closed {
			panic(fmt.Sprintf("breaker: gobreaker did not close after the probe: %v", err))
		}
		b.owes, b.gate, b.episode = false, time.Time{}, ""
		return true
	case b.state == Closed && s.sameState(now) && (b.owes || b.ratio):
		_, _ = b.engine.Execute(succeed)
		b.owes = false
	}
	return false
}

// Failure is a transient verdict, as the breaker sees it.
type Failure struct {
	Now     time.Time
	RetryAt time.Time     // the record's own; zero where no interval is left
	First   time.Duration // one first interval, or the dependency's RetryAfter where that is longer
	Again   bool          // the record has failed before in this process
	Alone   bool          // no other witness stands under this breaker
}

// Judgement is what a failure meant.
type Judgement struct {
	Suspect bool // it is the record, not the dependency: it counted for nothing but itself
	Tripped bool // closed became open
	Failed  bool // half-open became open again
}

// Fail takes the failure of a call that began at s.
func (b *Breaker) Fail(s Stamp, probe bool, f Failure) Judgement {
	if probe {
		b.probing = false
	}
	if f.Again && b.cleared {
		return Judgement{Suspect: true}
	}
	current := s.sameState(b.Stamp())
	b.cleared = false
	b.stamp.Add(1)
	was := b.state
	if was == Closed {
		if !current {
			return Judgement{}
		}
		b.owes = true
		_, _ = b.engine.Execute(fail)
		if b.state == Closed {
			return Judgement{}
		}
		b.opened = f.Now
		b.episode = newEpisode()
		b.gate = time.Time{}
	} else if probe {
		_, _ = b.engine.Execute(fail)
		if b.state == HalfOpen {
			panic("breaker: gobreaker stayed half-open after a failed probe")
		}
	}
	// The later wait wins.
	gate := f.RetryAt
	if f.Alone || gate.IsZero() {
		gate = f.Now.Add(f.First)
	}
	if was == Closed || probe {
		b.shut = f.Now
	}
	b.gate = latest(b.gate, gate, b.shut.Add(shortestGate))
	return Judgement{Tripped: was == Closed, Failed: was == HalfOpen && b.state == Open}
}

// shortestGate keeps the gate out of the instant in which gobreaker opened: its own time-out of one nanosecond has to be over
// before it is told the next verdict, and a clock may be coarse.
const shortestGate = 10 * time.Nanosecond

func latest(ts ...time.Time) time.Time {
	var last time.Time
	for _, t := range ts {
		if t.After(last) {
			last = t
		}
	}
	return last
}

func newEpisode() string { return fmt.Sprintf("%08x", rand.Uint32()) }
