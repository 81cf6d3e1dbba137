package decide

import (
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/observe"
)

// Offer tells that the lane of p holds r and asks whether it may call it. The answer is p's phase: Calling now, or after a later Wake;
// Empty again where the record was disposed of without a call.
func (d *Desk) Offer(now time.Time, p *Part, r Record) {
	if p.gone {
		return
	}
	p.head, p.phase, p.story = r, Waiting, story{}
	p.call = Call{}
	if len(p.known) > 0 {
		d.recall(p)
	}
	if p.guarded {
		d.guardOn(now, p)
	}
	d.free(now, p)
}

// Adopt tells that the lane of p has called r on its own, while the partition was calm: for a call that a revoke or its time-out finds.
func (d *Desk) Adopt(p *Part, r Record, began time.Time, s breaker.Stamp) {
	p.head, p.phase, p.story = r, Calling, story{}
	p.call = Call{Attempt: 1, Stamp: s, Began: began}
	if len(p.known) > 0 {
		d.recall(p) // the store came back while the lane called
	}
}

// callable: nothing but the breaker, the guard and a wait keeps the head from being called.
func (d *Desk) callable(p *Part) bool { return !p.story.saving && d.callableOnceSaved(p) }

// witness: the head has failed and waits for its retryAt and the gate, for nothing else, or is being called again.
func (d *Desk) witness(p *Part) bool {
	return p.story.attempts > 0 && (p.phase == Noting || p.phase == Calling || d.callableOnceSaved(p))
}

func (d *Desk) callableOnceSaved(p *Part) bool {
	if p.phase != Waiting || !p.ready() || p.operator || p.leaving || p.before != nil {
		return false
	}
	return p.story.verdict == "" && !p.lettersWait(d.pending)
}

// grant lets the head of p be called, if it may be: at its retryAt, under a closed breaker or as the probe, and in its turn while the
// guard is on.
func (d *Desk) grant(now time.Time, p *Part) {
	if !d.callable(p) {
		return
	}
	if now.Before(p.story.retryAt) {
		d.at(p.story.retryAt)
		if !p.open() {
			return
		}
	}
	switch {
	case d.guard:
		d.turn(now)
	case p.open():
		d.elect(now, p.scope)
	default:
		d.begin(now, p, false)
	}
}

// elect begins the probe of s, if it is time for one.
func (d *Desk) elect(now time.Time, s *Scope) {
	if p := d.pick(now, s); p != nil {
		d.begin(now, p, true)
	}
}

// pick says who probes now; nil: nobody yet, and Desk.wakeAt says when to ask again.
func (d *Desk) pick(now time.Time, s *Scope) *Part {
	s.next = time.Time{}
	if s.Breaker.State() == breaker.Closed || s.Breaker.Probing() {
		return nil
	}
	at := now
	if gate := s.Breaker.Gate(); gate.After(now) {
		at = gate
	}
	callable := d.callable
	if at.After(now) {
		callable = d.callableOnceSaved
	}
	chosen, next := d.choose(at, s, callable)
	if chosen == nil {
		s.next = next
		d.at(next)
		return nil
	}
	s.next = at
	if at.After(now) {
		d.at(at)
		return nil
	}
	return chosen
}

func (d *Desk) choose(at time.Time, s *Scope, callable func(*Part) bool) (*Part, time.Time) {
	if p := s.prefer; p != nil && d.callableOnceSaved(p) && !at.Before(p.story.retryAt) {
		if !callable(p) {
			return nil, time.Time{} // the store's answer comes first
		}
		return p, time.Time{}
	}
	var parts []*Part
	var candidates []breaker.Candidate
	for _, p := range d.parts {
		if p.scope != s {
			continue
		}
		c := breaker.Candidate{
			Callable:  callable(p),
			Witness:   d.witness(p),
			RetryAt:   p.story.retryAt,
			Exhausted: p.story.exhausted,
			Called:    p.turn,
		}
		if c.Witness {
			c.Called = p.story.called
		}
		if c.Callable || c.Witness {
			parts, candidates = append(parts, p), append(candidates, c)
		}
	}
	i, next := breaker.Choose(at, candidates)
	if i < 0 {
		return nil, next
	}
	return parts[i], time.Time{}
}

// turn lets one record be called while the guard is on: the lanes take turns, so that no innocent record shares a death.
func (d *Desk) turn(now time.Time) {
	var next *Part
	for _, p := range d.parts {
		if p.phase == Noting || p.phase == Calling || p.phase == Clearing {
			return
		}
		if !d.callable(p) {
			continue
		}
		if p.open() {
			if d.pick(now, p.scope) != p {
				continue
			}
		} else if now.Before(p.story.retryAt) {
			d.at(p.story.retryAt)
			continue
		}
		if next == nil || p.turn < next.turn {
			next = p
		}
	}
	if next != nil {
		d.begin(now, next, next.open())
	}
}

// begin permits the call. While the guard is on the call is noted in the store first.
func (d *Desk) begin(now time.Time, p *Part, probe bool) {
	d.counter++
	p.turn, p.story.called = d.counter, d.counter
	p.call = Call{Number: d.counter, Attempt: p.story.attempts + 1, Probe: probe, Began: now}
	p.scope.prefer = nil
	if probe {
		p.call.Stamp = p.scope.Breaker.Probe()
		p.scope.next = time.Time{}
		e := p.event(observe.Probing)
		e.Attempt = p.call.Attempt
		d.tell(now, e)
	} else {
		p.call.Stamp = p.scope.Breaker.Stamp()
	}
	if !d.guard && p.story.deaths == 0 {
		p.phase = Calling
		d.do(Effect{Do: Wake, Part: p})
		return
	}
	p.phase = Noting
	wait, ok := d.strategy().Wait(p.call.Attempt)
	if !ok {
		wait = d.strategy().Last()
	}
	e := p.entry(wait)
	e.Attempts, e.Deaths, e.Noted = e.Attempts+1, e.Deaths+1, true
	p.story.noted = true
	d.save(p, e)
}

// save writes what is known of the head to the store. It is not called before the store has answered.
func (d *Desk) save(p *Part, e attempts.Entry) {
	p.keeps(p.head.Offset)
	p.story.saving = true
	d.do(Effect{Do: Save, Part: p, Record: p.head.id(), Entry: e})
}

// Saved tells that the store has answered a Save, or was given up for it: err says so, and then nothing else of the answer counts.
func (d *Desk) Saved(now time.Time, p *Part, r attempts.Record, e attempts.Entry, err error) {
	if p.gone || p.phase == Empty || p.head.id() != r {
		return
	}
	p.story.saving = false
	if p.phase == Noting {
		p.phase = Waiting
		if err == nil && e.Attempts > p.call.Attempt {
			d.learn(p, e, now.Add(e.Wait)) // else it is our own note
		}
		if !d.still(now, p) {
			d.unbegin(now, p)
			return
		}
		p.phase = Calling
		p.call.Began, p.call.Stamp = now, p.scope.Breaker.Stamp()
		d.do(Effect{Do: Wake, Part: p})
		return
	}
	if err == nil {
		d.learn(p, e, now.Add(e.Wait))
	}
	d.free(now, p)
}

// still reports whether a call that was permitted before its note may begin now that the note is written.
func (d *Desk) still(now time.Time, p *Part) bool {
	if p.call.Probe && now.Before(p.scope.Breaker.Gate()) || !p.call.Probe && p.open() {
		return false
	}
	return d.callable(p) && !now.Before(p.story.retryAt)
}

// unnote takes the note of a call back that was cut short by us, or never began: that is no death. What was known before goes along, since the store may not have taken
// it until the note came.
func (d *Desk) unnote(now time.Time, p *Part) {
	if !p.story.noted {
		return
	}
	p.story.noted = false
	e := Effect{Do: Unnote, Part: p, Record: p.head.id()}
	if p.story.attempts > 0 {
		e.Entry = p.entry(max(0, p.story.retryAt.Sub(now)))
	}
	d.do(e)
}

// unbegin takes a permission back that no handler has seen.
func (d *Desk) unbegin(now time.Time, p *Part) {
	d.unnote(now, p)
	if p.call.Probe {
		p.call.Probe = false
		p.scope.Breaker.HandOn()
	}
	d.judge(now, p)
	d.everyone(now)
}

// entry is the story as the store keeps it.
func (p *Part) entry(wait time.Duration) attempts.Entry {
	s := &p.story
	return attempts.Entry{
		Attempts: s.attempts, Deaths: s.deaths, Wait: wait, Verdict: string(s.verdict),
		FirstFailed: s.firstFailed, FirstError: s.firstError, LastError: s.lastError, Class: s.class, Stack: s.stack,
	}
}

// event is about the head of p.
func (p *Part) event(k observe.Kind) observe.Event {
	return observe.Event{
		Kind: k, Topic: p.ID.Topic, Partition: p.ID.Partition, Offset: p.head.Offset,
		Attempt: p.story.attempts, Episode: p.scope.Breaker.Episode(),
	}
}
