package decide

import (
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Assign takes a partition that is ours now. None of its records is called before Begun and Claimed were told, nor while a call of an
// earlier assignment still runs.
func (d *Desk) Assign(id attempts.Partition, owner any) *Part {
	p := &Part{ID: id, Owner: owner, scope: d.shared, before: d.orphans[id]}
	p.finished.Store(-1)
	p.settle()
	if d.scoped.Scope == strategy.ScopePartition {
		p.scope = d.newScope(id.Topic)
	}
	d.parts = append(d.parts, p)
	return p
}

// Begun tells that the start offset is known and committed.
func (d *Desk) Begun(now time.Time, p *Part) {
	p.begun = true
	d.free(now, p)
}

// Refuse tells that the partition has no start; nothing of it is called.
func (d *Desk) Refuse(p *Part, err error) {
	p.refused = err
	d.calm(p)
}

// Claimed tells what the attempt store knew at the assignment; nil: it was given up. It may be told again when the store comes back late;
// then the larger count and the later wait hold.
func (d *Desk) Claimed(now time.Time, p *Part, l *attempts.Loaded) {
	p.claimed = true
	if p.gone {
		return
	}
	if l != nil {
		for r, e := range l.Entries {
			if p.known == nil {
				p.known = map[attempts.Record]found{}
			}
			p.known[r] = found{Entry: e, retryAt: now.Add(e.Wait)}
			p.keeps(r.Offset)
		}
		if p.phase != Empty && p.phase != Clearing {
			d.recall(p)
		}
		if l.ForeignMark {
			p.guarded = true
			d.guardOn(now, p)
		}
	}
	d.free(now, p)
}

// Adopter is an Owner that calls records on its own while its partition is calm. It is asked when the calm has been taken away, before anything else is called, and tells
// the desk of the call that runs.
type Adopter interface{ Adopt(now time.Time) }

// guardOn begins the crash guard: one call at a time, because the last owner of p did not leave cleanly.
func (d *Desk) guardOn(now time.Time, p *Part) {
	if d.guard {
		return
	}
	d.guard = true
	d.tell(now, observe.Event{Kind: observe.GuardOn, Topic: p.ID.Topic, Partition: p.ID.Partition, Offset: -1})
	d.recalm()
	for _, q := range d.parts {
		if l, ok := q.Owner.(Adopter); ok && q.phase == Empty {
			l.Adopt(now) // what was called before shares no death either
		}
	}
}

// free gives one partition its chance, and says whether it flows without asking from here on.
func (d *Desk) free(now time.Time, p *Part) {
	d.judge(now, p)
	d.grant(now, p)
	d.calm(p)
}

// recall turns what the store knew of the head into its story. A note without a verdict is a call that the process did not survive:
// an attempt, with its interval.
func (d *Desk) recall(p *Part) {
	f, ok := p.known[p.head.id()]
	for r := range p.known {
		if r.Offset <= p.head.Offset {
			delete(p.known, r) // passed, or of another topic of this name
		}
	}
	if !ok {
		return
	}
	d.learn(p, f.Entry, f.retryAt)
}

// learn takes what the store knows better of the head than we do: the larger count and the later wait hold.
func (d *Desk) learn(p *Part, e attempts.Entry, retryAt time.Time) {
	s := &p.story
	if e.Attempts <= s.attempts || s.noted && e.Noted && e.Attempts <= p.call.Attempt {
		return // the latter is our own note
	}
	s.attempts, s.deaths = e.Attempts, e.Deaths
	if retryAt.After(s.retryAt) {
		s.retryAt = retryAt
	}
	s.firstFailed, s.firstError, s.lastError, s.class, s.stack = e.FirstFailed, e.FirstError, e.LastError, e.Class, e.Stack
	s.exhausted = s.attempts > d.strategy().Intervals()
	switch {
	case p.phase == Calling:
		// The store came back late: the verdict of the call that runs decides.
	case e.Verdict != "":
		s.verdict = dlq.Kind(e.Verdict)
	case e.Noted && e.Deaths >= d.crashLimit:
		s.verdict = dlq.Crash
	case s.exhausted:
		s.verdict = dlq.Exhausted
	}
}

// Leave begins the revoke: no new call. What runs may finish.
func (d *Desk) Leave(p *Part) {
	p.leaving = true
	d.calm(p)
}

// Drained reports whether nothing of the partition is under way that a revoke has to wait for. A stalled handler is not
// waited for: it has had its time.
func (d *Desk) Drained(p *Part) bool {
	if p.phase == Calling || p.phase == Noting || p.phase == Clearing || p.story.saving {
		return false
	}
	for _, l := range p.letters {
		if l.flying {
			return false
		}
	}
	return true
}

// Stalled reports whether the handler has outlived its time and not returned.
func (p *Part) Stalled() bool { return p.phase == Stalled }

// Drop raises the epoch: the partition is not ours any more, and nothing that comes late from it does anything. A probe that it had
// is handed on.
func (d *Desk) Drop(now time.Time, p *Part) {
	if p.gone {
		return
	}
	p.gone = true
	d.calm(p)
	d.unnote(now, p)
	if p.call.Probe {
		p.call.Probe = false
		p.scope.Breaker.HandOn()
	}
	if p.scope.prefer == p {
		p.scope.prefer = nil
	}
	if p.phase == Calling || p.phase == Stalled {
		d.orphans[p.ID] = p
	}
	d.parts = slices.DeleteFunc(d.parts, func(q *Part) bool { return q == p })
	d.everyone(now)
}

// Ended tells that the lane of p is over: whatever it called has returned, and its successor may call now.
func (d *Desk) Ended(now time.Time, p *Part) {
	if p.gone {
		d.returned(now, p)
	}
}

func (d *Desk) returned(now time.Time, p *Part) {
	p.phase = Empty
	if d.orphans[p.ID] == p {
		delete(d.orphans, p.ID)
	}
	for _, q := range d.parts {
		if q.before == p {
			q.before = nil
			d.free(now, q)
		}
	}
}

// Committed tells that a commit was acknowledged which covers every record of the partition below offset.
func (d *Desk) Committed(now time.Time, p *Part, offset int64) {
	if p.gone {
		return
	}
	if p.inStore > 0 {
		d.do(Effect{Do: Forget, Part: p, Below: offset})
		if offset >= p.inStore {
			p.inStore = 0
		}
	}
	if !d.guard {
		return
	}
	// A partition whose last owner died keeps the guard on until the record that it is about to call has come through, and brings it back
	// with its first: else a commit of another would end the guard each time just before the record that kills.
	for _, q := range d.parts {
		if q.guarded && q.phase != Empty && q.story.verdict == "" && !q.operator {
			return
		}
	}
	d.guard = false
	d.tell(now, observe.Event{Kind: observe.GuardOff})
	d.recalm()
	d.everyone(now)
}

// keeps remembers that the store may hold something of the record at offset, which a commit has to clear away.
func (p *Part) keeps(offset int64) { p.inStore = max(p.inStore, offset+1) }

// open reports whether the breaker of p is not closed.
func (p *Part) open() bool { return p.scope.Breaker.State() != breaker.Closed }
