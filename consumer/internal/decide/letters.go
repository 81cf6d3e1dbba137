package decide

import (
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// afford reports whether the budget allows one more dead letter. That it does not is told once.
func (d *Desk) afford(now time.Time, p *Part) bool {
	limit, limited := d.strategy().DLQBudget()
	if !limited || d.spent < limit {
		return true
	}
	if !d.spentTold {
		d.spentTold = true
		e := p.event(observe.BudgetSpent)
		e.Count = d.spent
		d.tell(now, e)
	}
	return false
}

// judge carries a verdict out, once nothing stands against it: the record goes to the DLQ, or waits for a person, or for the budget.
func (d *Desk) judge(now time.Time, p *Part) {
	s := &p.story
	if p.phase != Waiting || s.verdict == "" || p.leaving || !p.ready() {
		return
	}
	st := d.strategy()
	switch {
	case s.verdict == dlq.Skipped:
		d.send(now, p, s.verdict, "")
	case s.verdict == dlq.Exhausted && (st.OnExhausted() == strategy.Hold || !d.afford(now, p)):
		// It goes on at the last interval.
		s.verdict, s.exhausted = "", true
	case s.verdict == dlq.Exhausted:
		d.send(now, p, s.verdict, "")
	case st.OnPermanent() == strategy.Hold:
		d.wait(now, p, forPerson)
	case d.afford(now, p):
		d.send(now, p, s.verdict, "")
	default:
		d.wait(now, p, forBudget)
	}
}

// wait keeps a permanent record for a person or for the budget. The verdict goes to the store, so that a restart does not call again.
func (d *Desk) wait(now time.Time, p *Part, w waiting) {
	s := &p.story
	if s.waitsFor == w {
		return
	}
	if s.waitsFor == forRetry {
		d.save(p, p.entry(0))
	}
	s.waitsFor = w
	if w == forPerson {
		e := p.event(observe.WaitsForPerson)
		e.Text = p.story.lastError
		d.tell(now, e)
	}
}

// send puts the head on its way to the DLQ and frees the lane. Where the record's end was more than a permanent error, the lane
// waits for the acknowledgement.
func (d *Desk) send(now time.Time, p *Part, kind dlq.Kind, why string) {
	s := &p.story
	l := &Letter{
		Record: p.head, Kind: kind, Attempts: s.attempts, Reason: why,
		Class: s.class, LastError: s.lastError, FirstError: s.firstError, Stack: s.stack,
		FirstFailed: s.firstFailed, FailedAt: now, Episode: s.episode,
		blocks: kind != dlq.Permanent && kind != dlq.PanicKind,
		flying: true,
		sentAt: now,
	}
	d.at(now.Add(patience))
	if l.Episode == "" {
		l.Episode = p.scope.Breaker.Episode()
	}
	if kind != dlq.Skipped {
		d.spent++
	}
	p.letters = append(p.letters, l)
	p.close()
	p.settle()
	p.finished.Store(l.Record.Offset + 1)
	d.wants.Store(d.wanted())
	d.do(Effect{Do: Send, Part: p, Letter: l})
	d.do(Effect{Do: Wake, Part: p})
}

// LetterWritten tells that the DLQ's broker has acknowledged a letter: its record is done.
func (d *Desk) LetterWritten(now time.Time, p *Part, l *Letter) {
	if p.gone || l.written {
		return
	}
	back := l.Err != nil
	l.written, l.flying, l.Err = true, false, nil
	p.settle()
	d.do(Effect{Do: Commit, Part: p})
	e := p.event(observe.DeadLettered)
	e.Offset, e.Attempt, e.Episode, e.Text = l.Record.Offset, l.Attempts, l.Episode, string(l.Kind)+": "+strings.TrimPrefix(l.LastError, string(l.Kind)+": ")
	d.tell(now, e)
	if back && !d.lettersFail() {
		d.tell(now, observe.Event{Kind: observe.DeadLettersBack})
	}
	d.free(now, p)
}

// LetterFailed tells that a letter was not written. The record stays, its lane waits, and the verdict goes to the store, so that a
// restart does not call again.
func (d *Desk) LetterFailed(now time.Time, p *Part, l *Letter, err error) {
	if p.gone || l.written {
		return
	}
	if !d.lettersFail() {
		e := p.event(observe.DeadLetterFailed)
		e.Offset, e.Attempt, e.Episode, e.Err = l.Record.Offset, l.Attempts, l.Episode, err
		d.tell(now, e)
	}
	d.remember(p, l)
	l.Err, l.flying = err, false
	l.failures++
	l.retryAt = now.Add(min(time.Second<<min(l.failures-1, 10), longestResend))
	d.at(l.retryAt)
	d.calm(p)
}

// patience is how long a write may be unanswered before its verdict goes to the store as if it had failed.
const patience = time.Second

// remember puts a letter's verdict into the store, once.
func (d *Desk) remember(p *Part, l *Letter) {
	if l.saved {
		return
	}
	l.saved = true
	p.keeps(l.Record.Offset)
	d.do(Effect{Do: Save, Part: p, Record: l.Record.id(), Entry: l.entry()})
}

// entry is the letter's verdict, as the store keeps it while the DLQ is away.
func (l *Letter) entry() attempts.Entry {
	return attempts.Entry{
		Attempts: l.Attempts, Verdict: string(l.Kind),
		FirstFailed: l.FirstFailed, FirstError: l.FirstError, LastError: l.LastError, Class: l.Class, Stack: l.Stack,
	}
}

// longestResend is how far apart the writes of a letter get while the DLQ is away.
const longestResend = 15 * time.Second

func (d *Desk) lettersFail() bool {
	for _, p := range d.parts {
		for _, l := range p.letters {
			if l.Err != nil {
				return true
			}
		}
	}
	return false
}

// resend writes the letters again that failed a while ago, and remembers those that nobody answers.
func (d *Desk) resend(now time.Time, p *Part) {
	for _, l := range p.letters {
		switch {
		case l.written || l.flying && l.saved:
		case l.flying && now.Before(l.sentAt.Add(patience)):
			d.at(l.sentAt.Add(patience))
		case l.flying:
			d.remember(p, l)
		case now.Before(l.retryAt):
			d.at(l.retryAt)
		case !p.leaving:
			l.flying = true
			d.do(Effect{Do: Send, Part: p, Letter: l})
		}
	}
}
