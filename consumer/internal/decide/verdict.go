package decide

import (
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Outcome is what a handler call came to.
type Outcome struct {
	Kind       OutcomeKind
	Err        error // as the handler returned it; for the observers
	Text       string
	Class      string
	Stack      string
	RetryAfter time.Duration
}

// OutcomeKind sorts outcomes.
type OutcomeKind int

const (
	Success   OutcomeKind = iota
	Transient             // waiting may cure it
	Permanent             // waiting cannot
	Panic                 // permanent, with a stack
	Neutral               // an error after our own cancel: no verdict
)

// Result takes the end of the call of p's head.
func (d *Desk) Result(now time.Time, p *Part, o Outcome) {
	if p.gone {
		d.returned(now, p)
		return
	}
	stalled := p.phase == Stalled
	p.phase = Waiting
	p.guarded = false
	if stalled {
		d.tell(now, p.event(observe.Unstalled))
	}
	switch {
	case o.Kind == Success:
		d.succeed(now, p, stalled)
	case stalled:
		// The verdict was given when the handler had outlived its time.
	case o.Kind == Neutral:
		// A probe is handed on when the epoch is raised, not before: the revoke is still on its way.
		p.leaving = true
		d.unnote(now, p)
		d.calm(p)
		return
	case o.Kind == Transient:
		d.fail(now, p, o)
	default:
		d.condemn(now, p, o)
	}
	d.after(now, p)
}

// Outlived takes a handler that has outlived its time-out and did not return when its context ended: a transient verdict, and
// a lane that calls nothing until the handler returns.
func (d *Desk) Outlived(now time.Time, p *Part, o Outcome) {
	if p.gone || p.phase != Calling {
		return
	}
	p.phase = Stalled
	p.guarded = false
	d.fail(now, p, o)
	d.tell(now, p.event(observe.Stalled))
	d.after(now, p)
}

// after a verdict: what it set free.
func (d *Desk) after(now time.Time, p *Part) {
	d.judge(now, p)
	if d.guard || p.open() {
		d.everyone(now)
	} else {
		d.grant(now, p)
	}
	d.calm(p)
	d.wants.Store(d.wanted())
}

// succeed takes a record that is done. late: its call has had its verdict, and the breaker is not told a second one.
func (d *Desk) succeed(now time.Time, p *Part, late bool) {
	if p.story.attempts > 0 {
		e := p.event(observe.Released)
		e.Attempt = p.call.Attempt
		d.tell(now, e)
	}
	ended := p.event(observe.Closed)
	ended.For = now.Sub(p.scope.Breaker.Opened())
	closed := !late && p.scope.Breaker.Success(p.call.Stamp, p.call.Probe)
	noted := p.story.noted
	d.unnote(now, p)
	p.close()
	if noted {
		p.phase = Clearing
	}
	p.finished.Store(p.head.Offset + 1)
	if closed {
		ended.Attempt = p.call.Attempt
		d.tell(now, ended)
		p.scope.next, p.scope.prefer = time.Time{}, nil
		d.recalm()
	}
	budget := d.spent > 0
	d.spent, d.spentTold = 0, false
	if budget {
		for _, q := range d.parts {
			if q.story.waitsFor == forBudget {
				d.judge(now, q)
			}
		}
	}
	if closed {
		d.everyone(now)
	}
}

// Unnoted tells that the store has taken a note back, or was given up for it. Only then is the next record called: a death in between would be
// counted for one that is done.
func (d *Desk) Unnoted(now time.Time, p *Part, r attempts.Record) {
	if p.gone || p.phase != Clearing || p.head.id() != r {
		return
	}
	p.phase = Empty
	d.do(Effect{Do: Wake, Part: p})
	d.everyone(now)
	d.calm(p)
}

// close ends the head's stay: its lane may take the next record.
func (p *Part) close() {
	p.phase, p.story = Empty, story{}
	p.call.Probe = false
}

// fail takes a transient verdict: the attempt is counted, the wait set and stored, and the breaker told.
func (d *Desk) fail(now time.Time, p *Part, o Outcome) {
	st, s := d.strategy(), &p.story
	p.note(now, o)
	wait, left := st.Wait(s.attempts)
	if !left {
		wait = st.Last()
	}
	s.exhausted = !left
	after := min(o.RetryAfter, strategy.MaxWait)
	wait = max(wait, after)
	s.retryAt = now.Add(wait)
	if s.exhausted && st.OnExhausted() == strategy.DLQ && d.afford(now, p) {
		s.verdict = dlq.Exhausted
	}
	f := breaker.Failure{Now: now, RetryAt: s.retryAt, First: max(st.First(), after), Again: s.again, Alone: d.alone(p)}
	if s.exhausted {
		f.RetryAt = time.Time{}
	}
	j := p.scope.Breaker.Fail(p.call.Stamp, p.call.Probe, f)
	p.call.Probe = false
	s.again = true
	s.episode = p.scope.Breaker.Episode()
	d.save(p, p.entry(wait))

	e := p.event(observe.Held)
	e.Err, e.RetryAt = o.Err, s.retryAt
	if j.Suspect {
		e.Text = "others succeed, so it is this record: its failure does not count for the breaker"
	}
	if p.open() && !j.Suspect {
		p.scope.since = now
		d.pick(now, p.scope) // sets the instant that people are shown
		if j.Tripped || j.Failed {
			e.RetryAt = p.scope.next
		}
	}
	switch {
	case j.Tripped:
		e.Kind = observe.Tripped
		d.recalm()
	case j.Failed:
		e.Kind = observe.ProbeFailed
	case p.open() && !j.Suspect:
		e.Kind = observe.AlsoFailed
	}
	if s.verdict != "" {
		e.Text = "no interval is left"
		if e.Kind == observe.Held || e.Kind == observe.AlsoFailed {
			e.RetryAt = time.Time{} // it is not called again
		}
	}
	d.tell(now, e)
}

// condemn takes a permanent verdict. It says nothing to the breaker; a probe is handed on.
func (d *Desk) condemn(now time.Time, p *Part, o Outcome) {
	noted := p.story.noted
	p.note(now, o)
	p.story.verdict = dlq.Permanent
	if o.Kind == Panic {
		p.story.verdict = dlq.PanicKind
	}
	if noted {
		d.save(p, p.entry(0)) // a verdict replaces the note
	}
	if p.call.Probe {
		p.call.Probe = false
		p.scope.Breaker.HandOn()
	}
}

// note writes a verdict into the story. A death that was noted before this call, and did not happen, is no death.
func (p *Part) note(now time.Time, o Outcome) {
	s := &p.story
	s.attempts++
	s.noted = false
	s.failedAt = now
	if s.firstFailed.IsZero() {
		s.firstFailed, s.firstError = now, o.Text
	}
	s.lastError, s.class, s.stack = o.Text, o.Class, o.Stack
}

// alone reports whether no other witness stands under the breaker of p.
func (d *Desk) alone(p *Part) bool {
	for _, q := range d.parts {
		if q != p && q.scope == p.scope && d.witness(q) {
			return false
		}
	}
	return true
}
