package decide

import (
	"errors"
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
)

// Pause and Resume carry out an operator's wish. Taking it away lifts no other reason.
func (d *Desk) Pause(p *Part) {
	p.operator = true
	d.calm(p)
}

// Resume takes an operator's pause away.
func (d *Desk) Resume(now time.Time, p *Part) {
	p.operator = false
	d.free(now, p)
}

// RetryNow ends the waits of the head of p. It is the one exception to "the later retryAt wins".
func (d *Desk) RetryNow(now time.Time, p *Part) error {
	at := fmt.Sprintf("%s/%d", p.ID.Topic, p.ID.Partition)
	switch {
	case p.operator:
		return fmt.Errorf("%s is paused by an operator: resume it first", at)
	case p.leaving || !p.ready():
		return fmt.Errorf("%s is being revoked or has not started yet", at)
	case p.before != nil:
		return fmt.Errorf("a handler of %s from before the last rebalance has not returned yet; no other call of the partition may begin", at)
	case p.phase == Calling || p.phase == Noting:
		return fmt.Errorf("%s offset %d is being called right now", at, p.head.Offset)
	case p.phase == Stalled:
		return fmt.Errorf("%s offset %d: its handler has not returned yet; no other call of the partition may begin", at, p.head.Offset)
	}
	if d.resendNow(p) > 0 {
		return nil
	}
	switch {
	case p.phase == Empty:
		return fmt.Errorf("%s holds no record that waits", at)
	case p.open() && p.scope.Breaker.Probing():
		return errors.New("a probe is under way: its verdict comes first")
	}
	s := &p.story
	s.verdict, s.waitsFor, s.retryAt = "", forRetry, now
	d.tell(now, p.event(observe.OperatorRetry))
	if p.open() {
		p.scope.Breaker.OpenGate(now)
		p.scope.prefer = p
	}
	d.free(now, p)
	return nil
}

// RetryAll ends every wait that it can, and says how many; what it can't is no error. Under an open breaker the gate opens, and the witness
// that was called longest ago probes.
func (d *Desk) RetryAll(now time.Time) (ended int) {
	for _, p := range d.parts {
		first := d.longestAgo(p.scope)
		if p.open() && first != p {
			ended += d.resendNow(p)
			if first == nil && !p.scope.Breaker.Probing() {
				p.scope.Breaker.OpenGate(now) // for the first record that comes
				ended++
			}
		} else if p.open() || p.held() || len(p.letters) > 0 {
			if d.RetryNow(now, p) == nil {
				ended++
			}
		}
	}
	return ended
}

// longestAgo is the partition whose head probes when an operator names none: the witness that was called longest ago, or any record if
// there is no witness; nil: nothing can be called.
func (d *Desk) longestAgo(s *Scope) (best *Part) {
	for _, p := range d.parts {
		switch {
		case p.scope != s || !d.callableOnceSaved(p):
		case best == nil, d.witness(p) && !d.witness(best), d.witness(p) == d.witness(best) && p.story.called < best.story.called:
			best = p
		}
	}
	return best
}

func (d *Desk) resendNow(p *Part) (n int) {
	for _, l := range p.letters {
		if !l.written && !l.flying {
			l.flying = true
			d.do(Effect{Do: Send, Part: p, Letter: l})
			n++
		}
	}
	return n
}

// Skip dead-letters a held record at an operator's word, whatever the budget. It answers with the letter, whose end the caller may wait for.
func (d *Desk) Skip(now time.Time, p *Part, offset int64, why string) (*Letter, error) {
	at := fmt.Sprintf("%s/%d", p.ID.Topic, p.ID.Partition)
	for _, l := range p.letters {
		if l.Record.Offset != offset {
			continue
		}
		if l.flying || l.written {
			return nil, fmt.Errorf("%s offset %d is on its way to the DLQ", at, offset)
		}
		l.Kind, l.Reason, l.flying = dlq.Skipped, why, true
		l.Reference = errors.Is(l.Err, dlq.ErrTooLarge)
		d.do(Effect{Do: Send, Part: p, Letter: l})
		d.skipped(now, p, offset, why)
		return l, nil
	}
	switch {
	case p.phase == Empty || p.head.Offset != offset:
		return nil, fmt.Errorf("%s holds no record at offset %d", at, offset)
	case p.phase == Stalled:
		return nil, fmt.Errorf("%s offset %d: its handler has not returned yet", at, offset)
	case p.phase != Waiting:
		return nil, fmt.Errorf("%s offset %d is being called right now", at, offset)
	case !p.held():
		return nil, fmt.Errorf("%s offset %d has not failed: only a held record can be skipped", at, offset)
	case p.leaving || !p.ready():
		return nil, fmt.Errorf("%s is being revoked or has not started yet", at)
	}
	d.skipped(now, p, offset, why)
	d.send(now, p, dlq.Skipped, why)
	d.everyone(now)
	d.calm(p)
	return p.letters[len(p.letters)-1], nil
}

func (d *Desk) skipped(now time.Time, p *Part, offset int64, why string) {
	e := p.event(observe.Skipped)
	e.Offset, e.Text = offset, why
	d.tell(now, e)
}
