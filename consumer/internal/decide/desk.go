// Package decide holds every decision of the consumer: which record may be called, what a result means, which record probes,
// what is dead-lettered and what may be stored. It does nothing itself: no clock, no goroutine, no I/O. The loop tells the
// Desk what happened, and carries out the Effects that the Desk answers with.
package decide

import (
	"sync/atomic"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Desk decides for all the partitions that one consumer owns. Its caller holds one mutex over every method; only Wants may be
// called without it.
type Desk struct {
	source     strategy.Source
	crashLimit int
	pending    int // dead letters on their way for one partition, before its lane waits for them

	scoped  strategy.Breaker
	shared  *Scope // nil where each partition has its own
	parts   []*Part
	orphans map[attempts.Partition]*Part // calls that outlived the assignment of their partition

	guard     bool
	spent     int // dead letters since the last success
	spentTold bool
	counter   uint64
	wakeAt    time.Time
	wants     atomic.Bool
	out       []Effect
}

// Settings of a Desk.
type Settings struct {
	Strategy   strategy.Source
	CrashLimit int // noted deaths after which a record is not called again
	Pending    int // permanent records of one partition whose dead letters may be on their way while its lane goes on
}

// New makes a Desk without partitions. The breaker's settings are read here, once.
func New(s Settings) *Desk {
	d := &Desk{
		source:     s.Strategy,
		crashLimit: s.CrashLimit,
		pending:    s.Pending,
		scoped:     s.Strategy.Current().Breaker(),
		orphans:    map[attempts.Partition]*Part{},
	}
	if d.scoped.Scope != strategy.ScopePartition {
		d.shared = d.newScope("consumer")
	}
	d.wants.Store(d.wanted())
	return d
}

// Scope is one breaker and the partitions under it.
type Scope struct {
	Breaker *breaker.Breaker
	next    time.Time // the instant at which the next call can come, as far as it is known; shown to people
	since   time.Time // when the wait that runs was set
	prefer  *Part     // an operator's choice of the next probe
}

func (d *Desk) newScope(name string) *Scope {
	return &Scope{Breaker: breaker.New(breaker.Settings{
		Name:                name,
		ConsecutiveFailures: d.scoped.ConsecutiveFailures,
		FailureRatio:        d.scoped.FailureRatio,
		MinimumCalls:        d.scoped.MinimumCalls,
		Window:              d.scoped.Window,
	})}
}

// Next is the instant at which the next call under an open breaker can come; zero where no record could be called.
func (s *Scope) Next() time.Time { return s.next }

func (d *Desk) strategy() *strategy.Strategy { return d.source.Current() }

// Wants reports whether the success of a call has to be told. While it is false, and the partition is calm, a success changes nothing but
// the offset. Safe without the mutex.
func (d *Desk) Wants() bool { return d.wants.Load() }

func (d *Desk) wanted() bool {
	return d.spent > 0 || d.shared != nil && d.shared.Breaker.WantsSuccess()
}

// WakeAt is the next instant at which time alone changes something; zero: none. The caller calls Tick then.
func (d *Desk) WakeAt() time.Time { return d.wakeAt }

// at remembers that time alone will change something at t.
func (d *Desk) at(t time.Time) {
	if !t.IsZero() && (d.wakeAt.IsZero() || t.Before(d.wakeAt)) {
		d.wakeAt = t
	}
}

// Tick is what time alone changes: waits end, gates open, dead letters are tried again.
func (d *Desk) Tick(now time.Time) {
	d.wakeAt = time.Time{}
	for _, p := range d.parts {
		d.resend(now, p)
	}
	d.everyone(now)
}

// Reloaded tells that another strategy is in force: what waits for a person or for the budget may not have to any more. A wait
// that runs keeps its retryAt.
func (d *Desk) Reloaded(now time.Time) {
	for _, p := range d.parts {
		d.free(now, p)
	}
}

// everyone gives each partition its chance: after whatever may have freed more than one.
func (d *Desk) everyone(now time.Time) {
	if d.guard {
		d.turn(now)
		return
	}
	if d.shared != nil && d.shared.Breaker.State() != breaker.Closed {
		d.elect(now, d.shared)
		return
	}
	for _, p := range d.parts {
		d.grant(now, p)
	}
}

// recalm says again which partitions flow without asking. It is called after whatever changes more than one partition.
func (d *Desk) recalm() {
	d.wants.Store(d.wanted())
	for _, p := range d.parts {
		d.calm(p)
	}
}

// calm says whether the lane of p may call record after record without asking. It is called after whatever changes p.
func (d *Desk) calm(p *Part) {
	p.calm.Store(p.ready() && !p.operator && !p.leaving && p.phase == Empty && !p.lettersWait(d.pending) && len(p.known) == 0 &&
		p.before == nil && !d.guard && !p.guarded && p.scope.Breaker.State() == breaker.Closed &&
		(p.scope == d.shared || !p.scope.Breaker.WantsSuccess()))
}

// Effects takes what is to be done, in order. The slice is valid until the next call.
func (d *Desk) Effects() []Effect {
	out := d.out
	d.out = d.out[:0]
	return out
}

func (d *Desk) do(e Effect) { d.out = append(d.out, e) }

func (d *Desk) tell(now time.Time, e observe.Event) {
	e.At = now
	d.do(Effect{Do: Tell, Event: e})
}

// Parts are the partitions that are assigned, in the order in which they came.
func (d *Desk) Parts() []*Part { return d.parts }

// Guard reports whether the crash guard is on: one call at a time.
func (d *Desk) Guard() bool { return d.guard }

// Spent is how many dead letters were written since the last success.
func (d *Desk) Spent() int { return d.spent }
