package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/dlq"
)

// The laws, held against everything that a world does. They know what was called, how it ended and what an operator said, and work out by
// themselves what may be called next; they never ask a decider what it thinks.
type laws struct {
	w        *world
	breakers []*circuit // one, or one for each partition
	records  [][]record
	spent    int
	guard    bool  // a foreign mark was found, and nothing was committed since
	expect   *save // what has to go to the store at this very moment
	asked    bool  // an operator wants a probe, of a record that the desk chooses
}

type circuit struct {
	open, half bool
	fails      int
	gate       time.Time
	evidence   bool // a call that began after the last failure of a record that is no suspect has succeeded
	probe      *call
}

// record is what holds for one record in this assignment of its partition; what was written of it holds for ever.
type record struct {
	attempts  int
	until     time.Time // not called before
	failed    bool      // in this process
	exhausted bool
	noted     bool   // its call is noted in the store
	verdict   string // it is not to be called
	free      bool   // an operator wants it called all the same
	skip      bool   // … or given up
	done      bool   // handled, or its dead letter acknowledged
	sent      bool   // its dead letter is on its way, or acknowledged
	blocks    bool   // its lane waits for the acknowledgement
	flying    bool   // the DLQ has not answered
	refused   bool   // its dead letter was not written, when it was tried last

	written, allowed int // dead letters
}

type save struct {
	q, attempts int
	offset      int64
	wait        time.Duration
}

func newLaws(w *world) *laws {
	v := &laws{w: w}
	for range w.lanes {
		v.records = append(v.records, make([]record, w.plan.records))
	}
	return v
}

func (v *laws) broken(law string, q int, format string, args ...any) {
	if v.w.broken == "" {
		v.w.broken = fmt.Sprintf("%s: partition %d: %s", law, q, fmt.Sprintf(format, args...))
	}
}

func (v *laws) rules() rules { return v.w.plan.strategies[v.w.source.current] }

func (v *laws) circuit(q int) *circuit {
	if v.w.plan.perPartition {
		return v.breakers[q]
	}
	return v.breakers[0]
}

// booted: a new process knows nothing.
func (v *laws) booted() {
	v.breakers = nil
	for range v.w.lanes {
		v.breakers = append(v.breakers, &circuit{evidence: true})
	}
	v.spent, v.guard, v.expect, v.asked = 0, false, nil, false
}

func (v *laws) assigned(q int) {
	if v.w.plan.perPartition {
		v.breakers[q] = &circuit{evidence: true}
	}
}

// dropped: what was in memory is gone. A dead letter that nothing committed stands for may come again.
func (v *laws) dropped(q int) {
	for o := range v.records[q] {
		r := &v.records[q][o]
		n := record{written: r.written, allowed: r.allowed}
		if r.sent && int64(o) >= v.w.lanes[q].committed {
			n.allowed++
		}
		*r = n
	}
	if b := v.circuit(q); b.probe != nil && b.probe.part == v.w.lanes[q].part {
		b.probe = nil
	}
}

// claimed: what the store knows counts on.
func (v *laws) claimed(q int, l attempts.Loaded) {
	for r, e := range l.Entries {
		v.learns(q, v.w.lanes[q].part, r.Offset, e)
	}
	v.guard = v.guard || l.ForeignMark
}

func (v *laws) learns(q int, p *decide.Part, offset int64, e attempts.Entry) {
	l, r := v.w.lanes[q], &v.records[q][offset]
	if p != l.part || e.Attempts <= r.attempts || r.sent || r.done || r.noted && e.Noted && e.Attempts == r.attempts+1 {
		return
	}
	r.attempts = e.Attempts
	if at := v.w.now.Add(e.Wait); at.After(r.until) {
		r.until = at
	}
	r.exhausted = r.attempts > len(v.rules().waits)
	if l.call == nil || l.call.offset != offset || l.call.outlived {
		r.verdict = e.Verdict
		if e.Noted && e.Deaths >= crashLimit {
			r.verdict = string(dlq.Crash)
		}
		if r.verdict == string(dlq.Exhausted) {
			r.verdict, r.exhausted = "", true
		}
	}
}

// free reports whether nothing but time and the breaker stands between a lane's record and its call.
func (v *laws) free(q int) bool { return v.freeOnceSaved(q) && !v.saving(q) }

func (v *laws) freeOnceSaved(q int) bool {
	l := v.w.lanes[q]
	return l.part != nil && l.holds && l.call == nil && !l.paused && !l.leaving && !l.claiming && len(l.earlier) == 0 &&
		v.records[q][l.next].verdict == "" && !v.records[q][l.next].done && !v.dlqStops(q) && !v.waitsForLetter(q)
}

func (v *laws) saving(q int) bool {
	l := v.w.lanes[q]
	for _, o := range l.ops {
		if o.do == decide.Save && o.part == l.part && o.record.Offset == l.next {
			return true
		}
	}
	return false
}

func (v *laws) dlqStops(q int) bool {
	flying := 0
	for _, r := range v.records[q] {
		if r.sent && !r.done {
			flying++
			if r.refused {
				return true
			}
		}
	}
	return flying >= 2
}

func (v *laws) waitsForLetter(q int) bool {
	for _, r := range v.records[q] {
		if r.sent && !r.done && r.blocks {
			return true
		}
	}
	return false
}

// witness reports whether a lane's record has failed and waits for nothing but time and the breaker, or is called again.
func (v *laws) witness(q int) bool {
	l := v.w.lanes[q]
	if l.part == nil || !l.holds || v.records[q][l.next].attempts == 0 {
		return false
	}
	return v.freeOnceSaved(q) || l.call != nil && !l.call.outlived
}

// begins: a call begins. May it?
func (v *laws) begins(q int) {
	l, now := v.w.lanes[q], v.w.now
	c, r, b := l.call, &v.records[q][l.call.offset], v.circuit(q)
	switch {
	case c.part.Gone() || l.leaving:
		v.broken("law 15", q, "a call of a partition that is going or gone")
	case l.paused:
		v.broken("law 4", q, "a call although an operator has paused it")
	case l.claiming:
		v.broken("law 11", q, "a call before the store has said what it knows")
	case len(l.earlier) > 0:
		v.broken("law 15", q, "a call while one of an earlier assignment runs")
	case r.done || r.sent:
		v.broken("law 6", q, "a call of record %d, which is done or on its way to the DLQ", c.offset)
	case now.Before(r.until) && !(v.asked && b.open):
		v.broken("law 7", q, "record %d is called %v before its retryAt", c.offset, r.until.Sub(now))
	case v.saving(q):
		v.broken("law 11", q, "record %d is called before the store has answered", c.offset)
	case r.verdict != "" && !(v.asked && b.open):
		v.broken("law 6", q, "record %d is called with the verdict %s", c.offset, r.verdict)
	case v.dlqStops(q) || v.waitsForLetter(q):
		v.broken("law 13", q, "a call while a dead letter stands against it")
	case !c.calm && c.part.Call().Attempt != r.attempts+1, c.calm && r.attempts > 0:
		v.broken("law 6", q, "record %d is called for the %d. time, as attempt %d", c.offset, r.attempts+1, c.part.Call().Attempt)
	}
	for o := range v.records[q][:c.offset] {
		if before := v.records[q][o]; int64(o) >= l.committed && !before.done && !before.sent {
			v.broken("law 15", q, "record %d is called before %d is done", c.offset, o)
		}
	}
	if x := v.rules(); r.exhausted && !x.holdExhausted && x.budget < 0 && !r.free && v.w.plan.edits == 0 {
		v.broken("law 6", q, "record %d is called a %d. time", c.offset, r.attempts+1)
	}
	r.free, r.verdict = false, ""
	if v.guard {
		for p, o := range v.w.lanes {
			if o.call != nil && o.call != c && !o.call.outlived {
				v.broken("guard", q, "a call while one of partition %d runs", p)
			}
		}
		if e := l.entries[c.offset]; (e == nil || !e.noted || e.attempts != r.attempts+1) && v.w.plan.storeFaults == 0 {
			v.broken("guard", q, "record %d is called without a note", c.offset)
		}
	}
	if !b.open {
		return
	}
	switch {
	case b.probe != nil:
		v.broken("law 9", q, "a call under an open breaker while a probe runs")
	case now.Before(b.gate):
		v.broken("law 7", q, "a call %v before the gate", b.gate.Sub(now))
	}
	b.probe, v.asked = c, false
	if !b.half {
		b.half = true
		v.changed(q)
	}
}

// changed: calls that run began before the breaker's last change of state.
func (v *laws) changed(q int) {
	for p, l := range v.w.lanes {
		if l.call != nil && v.circuit(p) == v.circuit(q) && v.circuit(q).probe != l.call {
			l.call.sinceChange = false
		}
	}
}

// ends: a call ends.
func (v *laws) ends(q int, kind decide.OutcomeKind) {
	c := v.w.lanes[q].call
	r, b := &v.records[q][c.offset], v.circuit(q)
	r.noted = false
	if kind == decide.Success {
		r.done = true
		v.spent = 0
	}
	if c.outlived || kind == decide.Neutral {
		return // it has had its verdict; or a probe is handed on when the epoch is raised
	}
	probe := b.probe == c
	if probe {
		b.probe = nil
	}
	switch kind {
	case decide.Success:
		if c.sinceFailure {
			b.evidence = true
		}
		if c.sinceChange && !b.open {
			b.fails = 0
		}
		if probe {
			*b = circuit{evidence: b.evidence}
			v.changed(q)
		}
	case decide.Transient:
		v.fails(q, c, probe)
	default:
		r.attempts++
		r.verdict = string(dlq.Permanent)
	}
}

// outlived: a call has had its time.
func (v *laws) outlived(q int) {
	c, b := v.w.lanes[q].call, v.circuit(q)
	probe := b.probe == c
	if probe {
		b.probe = nil
	}
	v.fails(q, c, probe)
}

func (v *laws) fails(q int, c *call, probe bool) {
	r, b, x := &v.records[q][c.offset], v.circuit(q), v.rules()
	suspect := r.failed && b.evidence
	r.attempts++
	r.failed, r.noted = true, false
	r.exhausted = r.attempts > len(x.waits)
	wait := time.Duration(x.waits[min(r.attempts, len(x.waits))-1]) * time.Second
	r.until = v.w.now.Add(wait)
	v.expect = &save{q, r.attempts, c.offset, wait}
	if suspect {
		return
	}
	b.evidence = false
	for p, l := range v.w.lanes {
		if l.call != nil && v.circuit(p) == b {
			l.call.sinceFailure = false
		}
	}
	first := v.w.now.Add(time.Duration(x.waits[0]) * time.Second)
	if !b.open {
		if !c.sinceChange {
			return
		}
		b.fails++
		if b.fails < max(1, v.w.plan.threshold) {
			return
		}
		b.open, b.gate = true, time.Time{}
		v.changed(q)
	} else if probe {
		b.half = false
		v.changed(q)
	}
	gate := r.until
	if r.exhausted || v.alone(q) {
		gate = first
	}
	if gate.After(b.gate) {
		b.gate = gate
	}
}

func (v *laws) alone(q int) bool {
	for p := range v.w.lanes {
		if p != q && v.circuit(p) == v.circuit(q) && v.witness(p) {
			return false
		}
	}
	return true
}

// saves: an entry goes to the store.
func (v *laws) saves(e decide.Effect) {
	q, offset := int(e.Part.ID.Partition), e.Record.Offset
	r := &v.records[q][offset]
	r.noted = e.Entry.Noted && e.Part == v.w.lanes[q].part
	switch {
	case e.Part != v.w.lanes[q].part:
		v.broken("law 10", q, "something of an older epoch is saved")
	case e.Entry.Noted && e.Entry.Attempts != r.attempts+1, !e.Entry.Noted && e.Entry.Attempts != r.attempts:
		v.broken("law 11", q, "record %d with %d attempts is saved with %d, noted: %v", offset, r.attempts, e.Entry.Attempts, e.Entry.Noted)
	case e.Entry.Attempts == 0:
		v.broken("law 12", q, "a record that never failed is saved")
	}
	if x := v.expect; x != nil && x.q == q && x.offset == offset && x.attempts == e.Entry.Attempts && x.wait == e.Entry.Wait && !e.Entry.Noted {
		v.expect = nil
	}
}

// sends: a dead letter goes out.
func (v *laws) sends(e decide.Effect) {
	q, l, x := int(e.Part.ID.Partition), e.Letter, v.rules()
	r := &v.records[q][l.Record.Offset]
	again := r.sent && r.refused && !r.flying
	switch {
	case e.Part != v.w.lanes[q].part:
		v.broken("law 10", q, "a dead letter of an older epoch")
	case r.done || r.sent && !again:
		v.broken("law 6", q, "a dead letter for record %d, which is done or on its way", l.Record.Offset)
	case l.Attempts != r.attempts:
		v.broken("law 6", q, "the dead letter of record %d says %d attempts, it had %d", l.Record.Offset, l.Attempts, r.attempts)
	case again && l.Kind != dlq.Skipped:
	case l.Kind == dlq.Exhausted && (!r.exhausted || x.holdExhausted):
		v.broken("law 6", q, "record %d is exhausted after %d attempts", l.Record.Offset, r.attempts)
	case l.Kind == dlq.Permanent && (r.verdict != "permanent" || x.holdPermanent):
		v.broken("law 6", q, "record %d is dead-lettered as permanent, its verdict is %q", l.Record.Offset, r.verdict)
	case l.Kind == dlq.Crash && r.verdict != "crash":
		v.broken("guard", q, "record %d is dead-lettered for its deaths, its verdict is %q", l.Record.Offset, r.verdict)
	case l.Kind == dlq.Skipped && !r.skip && r.verdict != "skipped":
		v.broken("operator", q, "record %d is skipped, and nobody said so", l.Record.Offset)
	}
	if !again && l.Kind != dlq.Skipped {
		v.spent++
		if x.budget >= 0 && v.spent > x.budget {
			v.broken("budget", q, "dead letter %d of %d", v.spent, x.budget)
		}
	}
	r.sent, r.flying, r.skip = true, true, false
	r.blocks = l.Kind != dlq.Permanent && l.Kind != dlq.PanicKind && (!again || r.blocks)
}

// acknowledges: the DLQ has answered.
func (v *laws) acknowledges(q int, l *decide.Letter, err error) {
	r := &v.records[q][l.Record.Offset]
	r.flying, r.refused = false, err != nil
	if r.refused {
		return
	}
	r.done = true
	r.written++
	if r.written > 1+r.allowed {
		v.broken("law 6", q, "record %d has %d dead letters", l.Record.Offset, r.written)
	}
}

// retried: an operator wants a record called now.
func (v *laws) retried(q int, err error) {
	if err == nil && !v.refused(q) {
		r := &v.records[q][v.w.lanes[q].next]
		r.until, r.verdict, r.free = v.w.now, "", true
		if b := v.circuit(q); b.open {
			b.gate, v.asked = v.w.now, true
		}
	}
}

func (v *laws) refused(q int) bool {
	return slices.ContainsFunc(v.records[q], func(r record) bool { return r.refused })
}

// retriesAll: … or all that can be; under an open breaker one.
func (v *laws) retriesAll() {
	for q, l := range v.w.lanes {
		switch b := v.circuit(q); {
		case b.open && b.probe == nil:
			b.gate, v.asked = v.w.now, true
		case !b.open && l.holds && !v.refused(q):
			v.retried(q, nil)
		}
	}
}

// skipped: … or given up.
func (v *laws) skipped(q int, err error) {
	if err == nil {
		v.records[q][v.w.lanes[q].next].skip = true
	}
}

// check holds the laws against the state that a step has led to.
func (v *laws) check() {
	if x := v.expect; x != nil {
		v.broken("law 11", x.q, "attempt %d of record %d did not go to the store with its wait of %v", x.attempts, x.offset, x.wait)
	}
	view := v.w.desk.View()
	at := 0
	for q, l := range v.w.lanes {
		if l.part == nil {
			continue
		}
		b, state := v.circuit(q), ""
		if v.w.plan.perPartition {
			for view.Parts[at].Part != l.part {
				at = (at + 1) % len(view.Parts)
			}
			state = view.Parts[at].Breaker.State
		} else {
			state = view.Breaker.State
		}
		if want := map[bool]string{false: "closed", true: "open"}[b.open]; state != want && !(state == "half-open" && (b.half || b.open && v.noting(q))) {
			v.broken("laws 9, 10, 18", q, "the breaker is %s, and by what has happened %s (half-open: %v)", state, want, b.half)
		}
		v.checkReasons(q)
		v.checkStorable(q)
	}
	v.checkPunctual()
	v.checkCalm()
}

// noting reports whether a probe is permitted, and being noted before it begins.
func (v *laws) noting(q int) bool {
	for p, l := range v.w.lanes {
		if l.part != nil && v.circuit(p) == v.circuit(q) && l.part.Phase() == decide.Noting {
			return true
		}
	}
	return false
}

func (v *laws) checkReasons(q int) {
	l := v.w.lanes[q]
	got, _ := v.w.desk.Reasons(l.part, l.holds)
	want := decide.Reason(0)
	if v.circuit(q).open {
		want |= decide.ByBreaker
	}
	if l.paused {
		want |= decide.ByOperator
	}
	if v.dlqStops(q) {
		want |= decide.ByDLQ
	}
	if l.holds && !v.records[q][l.next].done {
		switch r, x := v.records[q][l.next], v.rules(); {
		case r.verdict != "" && got&decide.ByDLQ != 0 && x.budget >= 0:
			want |= decide.ByDLQ // it waits for the budget
		case r.attempts > 0 || r.verdict != "":
			want |= decide.ByHeld
		}
	}
	if got != want {
		v.broken("law 4", q, "it is paused for [%v], and by what has happened for [%v]", got, want)
	}
}

func (v *laws) checkStorable(q int) {
	l := v.w.lanes[q]
	done := l.committed
	for done < int64(v.w.plan.records) && v.records[q][done].done {
		done++
	}
	if s := l.part.Storable(); s > done {
		v.broken("law 1", q, "%d may be stored, and the records before %d are done", s, done)
	}
}

// checkPunctual: whatever may be called is called at once, or will be: the desk wants to be woken in time.
func (v *laws) checkPunctual() {
	w := v.w
	calling := false
	for _, l := range w.lanes {
		if l.part != nil && (l.part.Phase() == decide.Noting || l.part.Phase() == decide.Clearing || l.call != nil && !l.call.outlived) {
			calling = true
		}
	}
	if w.desk.Guard() && calling {
		return
	}
	for q, l := range w.lanes {
		b := v.circuit(q)
		if !v.free(q) || b.open && (b.probe != nil || v.asked) || l.part.Phase() == decide.Noting {
			continue
		}
		due := v.records[q][l.next].until
		if b.open && b.gate.After(due) {
			due = b.gate
		}
		wake := w.desk.WakeAt()
		switch {
		case !due.After(w.now) && wake.Sub(w.now) > time.Microsecond:
			v.broken("law 7", q, "record %d could be called, and is not", l.next)
		case wake.IsZero() || wake.After(due) && wake.Sub(w.now) > time.Microsecond:
			v.broken("law 7", q, "record %d could be called in %v, and the desk wants to be woken in %v", l.next, due.Sub(w.now), wake.Sub(w.now))
		}
	}
}

// checkCalm: when all is done and well, records flow without asking.
func (v *laws) checkCalm() {
	w := v.w
	if !w.finished() || len(w.plan.killer)+w.plan.crashes+w.plan.losses+w.plan.revokes > 0 { // after these the guard may wait for a record
		return
	}
	for q, l := range w.lanes {
		if l.committed == int64(w.plan.records) && !v.circuit(q).open && !l.part.Calm() {
			v.broken("what it costs", q, "it does not flow, though nothing stands against it")
		}
	}
}

// finished reports whether there is nothing left to do, but for a person.
func (w *world) finished() bool {
	if w.down || w.desk == nil {
		return false
	}
	for q, l := range w.lanes {
		if l.part == nil || l.leaving || l.paused || l.claiming || l.again || len(l.earlier)+len(l.ops)+len(l.letters) > 0 {
			return false
		}
		if l.committed < int64(w.plan.records) && !w.blocked(q) {
			return false
		}
	}
	return true
}

// blocked reports whether a partition can come no further without a person.
func (w *world) blocked(q int) bool {
	l, x := w.lanes[q], w.laws.rules()
	if !l.holds || l.next != l.committed {
		return false
	}
	r := w.laws.records[q][l.next]
	spent := x.budget >= 0 && w.laws.spent >= x.budget
	switch {
	case w.is(w.plan.poison, q, l.next):
		return r.exhausted && (x.holdExhausted || spent)
	case w.is(w.plan.permanent, q, l.next), w.is(w.plan.killer, q, l.next):
		return r.verdict != "" && (x.holdPermanent || spent)
	default:
		return false
	}
}
