package explore

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/strategy"
)

// A world is a desk with what it decides about: lanes, a store, a DLQ, committed offsets and a clock. It moves by actions, one at a time, and
// everything else in it follows at once. There are those of a kind world, in which each thing that waits gets its turn, and those of
// an adversary, who may do each a number of times.

// A place is one record.
type place struct{ partition, offset int }

// A plan says what a world is made of, and what may happen in it.
type plan struct {
	name                string
	partitions, records int
	strategies          []rules // the first is in force; an edit takes up the next
	threshold           int     // consecutive failures; 0: 1
	perPartition        bool    // a breaker for each

	poison, permanent, killer []place // always transient; always permanent; kills the process

	outages, hangs, revokes, losses, crashes                         int
	pauses, retries, retryAlls, skips, edits, storeFaults, dlqFaults int

	slowStore, slowDLQ, slowCommit bool // else they answer at once
}

// rules are a strategy as the checks see it.
type rules struct {
	waits                        []int // seconds
	holdExhausted, holdPermanent bool
	budget                       int // -1: no limit
}

const crashLimit = 3

func (p *plan) settings() breaker.Settings {
	return breaker.Settings{ConsecutiveFailures: max(1, p.threshold)}
}

// beyond is a number of attempts from which on more make no difference.
func (p *plan) beyond() int {
	n := crashLimit
	for _, r := range p.strategies {
		n = max(n, len(r.waits), r.budget)
	}
	return n + 2
}

// source is a strategy that can be edited.
type source struct {
	all     []*strategy.Strategy
	current int
}

func (s *source) Current() *strategy.Strategy { return s.all[s.current] }

func (p *plan) source() *source {
	s := &source{}
	for _, r := range p.strategies {
		action := map[bool]string{true: "hold", false: "dlq"}
		budget, scope := "", "consumer"
		if r.budget >= 0 {
			budget = fmt.Sprintf(`"dlqBudget": %d, `, r.budget)
		}
		if p.perPartition {
			scope = "partition"
		}
		waits := ""
		for i, w := range r.waits {
			if i > 0 {
				waits += ", "
			}
			waits += fmt.Sprint(w)
		}
		s.all = append(s.all, strategy.MustParse(fmt.Sprintf(
			`{"intervals": [%s], "jitter": 0, "onExhausted": %q, "onPermanent": %q, %s"breaker": {"consecutiveFailures": %d, "scope": %q}}`,
			waits, action[r.holdExhausted], action[r.holdPermanent], budget, max(1, p.threshold), scope)))
	}
	return s
}

type world struct {
	plan   *plan
	now    time.Time
	desk   *decide.Desk
	source *source
	lanes  []*lane
	laws   *laws
	down   bool // the dependency
	left   left // what the adversary may still do
	broken string
}

type left struct {
	outages, hangs, revokes, losses, crashes                         int
	pauses, retries, retryAlls, skips, edits, storeFaults, dlqFaults int
}

// lane is one partition, with what is kept of it elsewhere.
type lane struct {
	w        *world
	part     *decide.Part // nil: not ours
	next     int64        // the record that it holds or takes next
	holds    bool         // the desk knows of the record
	call     *call
	earlier  []*call // calls of earlier assignments that still run
	leaving  bool
	paused   bool
	claiming bool // the store has not said yet what it knows
	again    bool // it could not, and is asked again
	ops      []op
	letters  []*letter

	committed int64
	entries   map[int64]*entry // the store's
	mark      mark
	guard     bool // it has found a foreign mark, and nothing was forgotten since
}

// mark is whose mark stands on a partition in the store.
type mark byte

const (
	nobodys mark = iota
	ours
	foreign
)

// call is a handler that runs.
type call struct {
	part     *decide.Part
	offset   int64
	calm     bool // begun without asking
	stamp    breaker.Stamp
	outlived bool

	sinceChange  bool // nothing has changed the breaker's state since it began
	sinceFailure bool // no record that is no suspect has failed since it began
}

// op is something that the store has been asked to do, and has not done yet.
type op struct {
	do     decide.Verb
	part   *decide.Part
	record attempts.Record
	entry  attempts.Entry
	below  int64
}

type letter struct {
	part *decide.Part
	l    *decide.Letter
}

// entry is what the store has of one record.
type entry struct {
	attempts, deaths int
	noted            bool
	verdict          string
	until            time.Time
	before           *entry
}

func newWorld(p *plan) *world {
	w := &world{plan: p, now: time.Unix(1e9, 0), left: left{
		p.outages, p.hangs, p.revokes, p.losses, p.crashes,
		p.pauses, p.retries, p.retryAlls, p.skips, p.edits, p.storeFaults, p.dlqFaults,
	}}
	for range p.partitions {
		w.lanes = append(w.lanes, &lane{w: w, entries: map[int64]*entry{}})
	}
	w.laws = newLaws(w)
	w.boot()
	w.answerClaims(nil)
	w.settle()
	return w
}

// boot starts a process: all partitions come to it.
func (w *world) boot() {
	w.source = w.plan.source()
	w.desk = decide.New(decide.Settings{Strategy: w.source, CrashLimit: crashLimit, Pending: 2})
	w.laws.booted()
	for q := range w.lanes {
		w.assign(q)
	}
}

func (w *world) assign(q int) {
	l := w.lanes[q]
	l.part = w.desk.Assign(attempts.Partition{Topic: "t", Partition: int32(q)}, l)
	l.next, l.claiming = l.committed, true
	w.laws.assigned(q)
	w.desk.Begun(w.now, l.part)
}

func at(offset int64) decide.Record {
	return decide.Record{Offset: offset, Timestamp: time.UnixMilli(offset)}
}

func (w *world) is(list []place, q int, offset int64) bool {
	return slices.Contains(list, place{q, int(offset)})
}

// An action is one step of the world. A kind one is taken at last if it stays possible.
type action struct {
	verb verb
	q    int
}

type verb byte

const (
	take   verb = iota // a lane takes its next record
	end                // a call returns
	late               // a call that has outlived its time, or its assignment, returns
	tick               // time passes until the desk wants to be woken
	answer             // the store does the next thing
	ack                // the DLQ acknowledges the oldest letter
	commit             // what may be stored is committed
	claim              // the store says what it knows of new partitions
	leave              // a revoke begins
	drop               // … and ends: nothing runs any more
	back               // the partition returns
	up                 // the dependency is well again
	resume             // an operator's pause ends
	kindVerbs

	down     // the dependency fails
	hang     // a call outlives its time
	cut      // we cancel a call of a leaving partition, and it heeds that
	force    // a revoke ends although a call runs
	lose     // a partition is lost
	crash    // the process dies
	pause    // an operator pauses a partition
	retry    // … calls a held record now
	retryAll // … or whatever can be called
	skip     // … or gives it up
	edit     // … or edits the strategy
	refuse   // the store fails to do the next thing
	away     // the store fails to say what it knows
	lost     // the DLQ refuses the oldest letter
	verbs
)

var verbNames = [...]string{"take", "end", "late", "tick", "answer", "ack", "commit", "claim", "leave", "drop", "back", "up", "resume", "",
	"down", "hang", "cut", "force", "lose", "crash", "pause", "retry", "retryAll", "skip", "edit", "refuse", "away", "lost"}

func (a action) kind() bool { return a.verb < kindVerbs && a.verb != leave }

func (a action) String() string { return fmt.Sprintf("%s %d", verbNames[a.verb], a.q) }

// actions are the steps that are possible now.
func (w *world) actions() (as []action) {
	may := func(yes bool, v verb, q int) {
		if yes {
			as = append(as, action{v, q})
		}
	}
	for q, l := range w.lanes {
		running := l.call != nil && !l.call.outlived
		if p := l.part; p != nil {
			may(w.takes(q), take, q)
			may(running, end, q)
			may(l.call != nil && l.call.outlived, late, q)
			may(w.plan.slowCommit && p.Storable() > l.committed, commit, q)
			may(l.leaving && w.drained(q), drop, q)
			may(l.paused, resume, q)
			may(running && w.left.hangs > 0, hang, q)
			may(running && l.leaving, cut, q)
			may(l.leaving && !w.drained(q), force, q)
			may(!l.leaving && w.left.revokes > 0, leave, q)
			may(!l.leaving && w.left.losses > 0, lose, q)
			may(!l.paused && w.left.pauses > 0, pause, q)
			may(l.holds && w.left.retries > 0, retry, q)
			may(l.holds && w.left.skips > 0, skip, q)
		} else {
			may(true, back, q)
		}
		may(len(l.earlier) > 0, late, q)
		may(len(l.ops) > 0, answer, q)
		may(len(l.ops) > 0 && l.ops[0].do == decide.Save && w.left.storeFaults > 0, refuse, q)
		may(len(l.letters) > 0, ack, q)
		may(len(l.letters) > 0 && w.left.dlqFaults > 0, lost, q)
	}
	claims := slices.ContainsFunc(w.lanes, func(l *lane) bool { return l.claiming || l.again })
	may(claims, claim, 0)
	may(slices.ContainsFunc(w.lanes, func(l *lane) bool { return l.claiming }) && w.left.storeFaults > 0, away, 0)
	may(!w.desk.WakeAt().IsZero(), tick, 0)
	may(w.down, up, 0)
	may(!w.down && w.left.outages > 0, down, 0)
	may(w.left.crashes > 0, crash, 0)
	may(w.left.retryAlls > 0, retryAll, 0)
	may(w.left.edits > 0 && w.source.current+1 < len(w.source.all), edit, 0)
	return as
}

// takes reports whether a lane that has no record may fetch its next one.
func (w *world) takes(q int) bool {
	l := w.lanes[q]
	if l.holds || l.call != nil || l.next >= int64(w.plan.records) || l.leaving {
		return false
	}
	_, stop := w.desk.Reasons(l.part, false)
	return stop == 0
}

// drained reports whether nothing of a leaving partition has to be waited for.
func (w *world) drained(q int) bool {
	l := w.lanes[q]
	return w.desk.Drained(l.part) && (l.call == nil || l.call.outlived)
}

// do takes one step, and lets follow what follows at once.
func (w *world) do(a action) {
	l := w.lanes[a.q]
	switch a.verb {
	case take:
		if l.part.Calm() {
			w.begin(a.q, true)
			break
		}
		l.holds = true
		w.desk.Offer(w.now, l.part, at(l.next))
	case end:
		if w.is(w.plan.killer, a.q, l.call.offset) {
			w.die()
			break
		}
		w.returns(a.q, w.outcome(a.q, l.call.offset))
	case cut:
		w.returns(a.q, decide.Outcome{Kind: decide.Neutral})
	case late:
		if l.call != nil && l.call.outlived {
			w.returns(a.q, w.outcome(a.q, l.call.offset))
			break
		}
		c := l.earlier[0]
		l.earlier = l.earlier[1:]
		w.desk.Result(w.now, c.part, w.outcome(a.q, c.offset))
		w.desk.Ended(w.now, c.part)
	case hang:
		w.left.hangs--
		w.adopt(l)
		l.call.outlived = true
		w.laws.outlived(a.q)
		w.desk.Outlived(w.now, l.part, decide.Outcome{Kind: decide.Transient})
	case tick:
		if wake := w.desk.WakeAt(); wake.After(w.now) {
			w.now = wake
		}
		w.desk.Tick(w.now)
	case answer:
		w.answerStore(l, nil)
	case refuse:
		w.left.storeFaults--
		w.answerStore(l, attempts.ErrAway)
	case ack:
		w.acknowledge(a.q, nil)
	case lost:
		w.left.dlqFaults--
		w.acknowledge(a.q, errors.New("away"))
	case commit:
		w.commit(l)
	case claim:
		w.answerClaims(nil)
	case away:
		w.left.storeFaults--
		w.answerClaims(attempts.ErrAway)
	case leave:
		w.left.revokes--
		l.leaving = true
		w.desk.Leave(l.part)
	case drop:
		w.commit(l)
		for len(l.ops) > 0 {
			w.answerStore(l, nil)
		}
		if l.mark == ours {
			l.mark, l.guard = nobodys, false
		}
		w.drop(a.q)
	case force, lose:
		if a.verb == lose {
			w.left.losses--
		} else {
			w.commit(l)
		}
		w.drop(a.q)
	case back:
		w.assign(a.q)
	case down, up:
		w.down = a.verb == down
		if w.down {
			w.left.outages--
		}
	case crash:
		w.left.crashes--
		w.die()
	case pause:
		w.left.pauses--
		l.paused = true
		w.desk.Pause(l.part)
	case resume:
		l.paused = false
		w.desk.Resume(w.now, l.part)
	case retry:
		w.left.retries--
		w.laws.retried(a.q, w.desk.RetryNow(w.now, l.part))
	case retryAll:
		w.left.retryAlls--
		w.laws.retriesAll()
		w.desk.RetryAll(w.now)
	case skip:
		w.left.skips--
		_, err := w.desk.Skip(w.now, l.part, l.next, "")
		w.laws.skipped(a.q, err)
	case edit:
		w.left.edits--
		w.source.current++
		w.desk.Reloaded(w.now)
	}
	w.settle()
	w.laws.check()
}

// outcome is what the dependency makes of a record now.
func (w *world) outcome(q int, offset int64) decide.Outcome {
	switch {
	case w.down || w.is(w.plan.poison, q, offset):
		return decide.Outcome{Kind: decide.Transient}
	case w.is(w.plan.permanent, q, offset):
		return decide.Outcome{Kind: decide.Permanent}
	default:
		return decide.Outcome{Kind: decide.Success}
	}
}

// begin starts the call of a lane's record.
func (w *world) begin(q int, calm bool) {
	l := w.lanes[q]
	l.call = &call{part: l.part, offset: l.next, calm: calm, stamp: l.part.Stamp(), sinceChange: true, sinceFailure: true}
	w.laws.begins(q)
}

// returns takes the end of a lane's call, as the lane does.
func (w *world) returns(q int, o decide.Outcome) {
	l := w.lanes[q]
	c := l.call
	w.laws.ends(q, o.Kind)
	l.call = nil
	if c.calm && !c.outlived && o.Kind == decide.Success && l.part.Calm() && !w.desk.Wants() {
		l.part.Finish(c.offset + 1)
		l.next++
		return
	}
	if c.calm {
		w.adoptCall(l, c)
	}
	w.desk.Result(w.now, l.part, o)
}

// adopt tells the desk of a call that was begun without asking.
func (w *world) adopt(l *lane) {
	if l.call != nil && l.call.calm {
		w.adoptCall(l, l.call)
	}
}

// Adopt is what the desk asks for when it has taken the calm away.
func (l *lane) Adopt(time.Time) { l.w.adopt(l) }

func (w *world) adoptCall(l *lane, c *call) {
	l.holds = true
	if l.part.Phase() == decide.Empty {
		w.desk.Adopt(l.part, at(c.offset), w.now, c.stamp)
	}
}

// drop takes a partition away.
func (w *world) drop(q int) {
	l := w.lanes[q]
	w.adopt(l)
	w.laws.dropped(q)
	w.desk.Drop(w.now, l.part)
	if l.call != nil {
		l.earlier = append(l.earlier, l.call)
	} else {
		w.desk.Ended(w.now, l.part)
	}
	l.part, l.call, l.holds, l.leaving, l.claiming, l.again, l.letters = nil, nil, false, false, false, false, nil
}

// die ends the process with everything in its memory, and starts the next.
func (w *world) die() {
	for q, l := range w.lanes {
		if l.part != nil {
			w.laws.dropped(q)
		}
		w.lanes[q] = &lane{w: w, committed: l.committed, entries: l.entries, mark: l.mark}
		if l.mark == ours {
			w.lanes[q].mark = foreign
		}
	}
	w.boot()
}

// settle carries out what the desk wants done, and lets the lanes look at their phase.
func (w *world) settle() {
	for range 100 {
		effects := slices.Clone(w.desk.Effects())
		for _, e := range effects {
			w.carryOut(e)
		}
		for q, l := range w.lanes {
			if !w.plan.slowStore {
				for len(l.ops) > 0 {
					w.answerStore(l, nil)
				}
			}
			for !w.plan.slowDLQ && len(l.letters) > 0 {
				w.acknowledge(q, nil)
			}
			if l.part == nil {
				continue
			}
			switch {
			case l.holds && l.call == nil && l.part.Phase() == decide.Calling:
				w.begin(q, false)
			case l.holds && l.call == nil && l.part.Phase() == decide.Empty:
				l.holds = false
				l.next++
			}
			if !w.plan.slowCommit && !l.leaving {
				w.commit(l)
			}
		}
		if len(effects) == 0 {
			return
		}
	}
	w.broken = "the desk never has enough"
}

func (w *world) carryOut(e decide.Effect) {
	switch e.Do {
	case decide.Save, decide.Unnote, decide.Forget:
		l := w.lanes[e.Part.ID.Partition]
		switch {
		case e.Do == decide.Save:
			w.laws.saves(e)
		case e.Do == decide.Unnote && e.Part == l.part:
			w.laws.records[e.Part.ID.Partition][e.Record.Offset].noted = false
		}
		l.ops = append(l.ops, op{e.Do, e.Part, e.Record, e.Entry, e.Below})
	case decide.Send:
		w.laws.sends(e)
		l := w.lanes[e.Part.ID.Partition]
		l.letters = append(l.letters, &letter{e.Part, e.Letter})
	}
}

func (w *world) commit(l *lane) {
	if to := l.part.Storable(); to > l.committed {
		l.committed = to
		w.laws.guard = false
		w.desk.Committed(w.now, l.part, to)
	}
}

func (w *world) acknowledge(q int, err error) {
	l := w.lanes[q]
	flying := l.letters[0]
	l.letters = l.letters[1:]
	w.laws.acknowledges(q, flying.l, err)
	if err != nil {
		w.desk.LetterFailed(w.now, flying.part, flying.l, err)
	} else {
		w.desk.LetterWritten(w.now, flying.part, flying.l)
	}
}
