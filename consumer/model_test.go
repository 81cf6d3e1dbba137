package consumer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
)

// The model knows the laws and what the outside of the consumers saw: what was produced, which calls began and how they ended, what was committed, which dead letters
// were written, what an operator and the faults did, and when. It shares nothing with the code that decides. Where two things happen at one instant it can't know their
// order, and takes the one that breaks no law; time goes on only when everything has come to rest, so it loses little.

// model watches a script being played.
type model struct {
	mu      sync.Mutex
	began   time.Time
	reset   string
	parts   []*modelPart
	plans   []planSpan
	badS    []span      // the attempt store was not well
	steps   []clockStep // of the store's clock
	badC    []span      // the coordinator, or the leaders, were away
	members []*modelMember
	broken  []violation
	seen    []string // what happened, for a person
}

type violation struct {
	law  string
	at   time.Duration
	text string
}

func (v violation) String() string { return fmt.Sprintf("%v law %s: %s", v.at, v.law, v.text) }

type span struct{ from, to time.Duration }

type planSpan struct {
	from time.Duration
	plan plan
}

// modelPart is one partition.
type modelPart struct {
	records []*modelRecord
	first   int64 // what retention has left
	base    int64 // where the group began
	based   bool
	commit  int64 // the last that was committed; -1: none
	done    int64 // everything below is done, or gone
}

// modelRecord is one record, and what has become of it.
type modelRecord struct {
	p          int32
	offset     int64
	key, value []byte
	headers    []kafka.Header
	timestamp  time.Time
	fate       string
	latency    time.Duration // of a call

	tries     int
	succeeded bool
	unnotes   []time.Duration // when a note of it was to be taken back, if there was one
	condemned time.Duration   // when a call ended in a permanent error; -1: none did
	operator  time.Duration   // when an operator last ended its waits, or its partition's; -1: never
	skipping  bool
	died      int
	last      *modelVerdict
	failed    time.Duration // first
	most      int           // attempts that can have been counted
	firstText []string      // errors that can have been the first
	letters   []*modelLetter
	dlqKnew   *modelVerdict // its dead letter could not be written, and the store was told so
}

func (r *modelRecord) name() string { return fmt.Sprintf("%d@%d (%s)", r.p, r.offset, r.fate) }

// is takes the fate apart: "fail:2" fails twice, "hang:5s" hangs for that long.
func (r *modelRecord) is() (what string, n int, d time.Duration) {
	what, arg, _ := strings.Cut(r.fate, ":")
	if d, err := time.ParseDuration(arg); err == nil {
		return what, 0, d
	}
	n, _ = strconv.Atoi(arg)
	return what, n, 0
}

// written: the DLQ has acknowledged a letter of it.
func (r *modelRecord) written() bool {
	return slices.ContainsFunc(r.letters, func(l *modelLetter) bool { return l.acked >= 0 })
}

// modelVerdict is the end of a call that counts.
type modelVerdict struct {
	at      time.Duration
	tenure  *tenure
	number  int
	least   time.Duration // the earliest next call
	text    string
	sure    bool // all counts up to it were well known
	instant bool // the verdict is the permanent kind
}

// modelLetter is one dead letter that somebody wants to write.
type modelLetter struct {
	tenure *tenure
	sent   time.Duration
	acked  time.Duration // -1: not
	lost   bool          // its acknowledgement was
}

// modelCall is one call of a handler.
type modelCall struct {
	member  *modelMember
	tenure  *tenure
	record  *modelRecord
	number  int
	try     int
	began   time.Duration
	ended   time.Duration // -1: it runs
	probe   bool
	stalled bool
	cut     func() bool // whether its context has ended
}

// tenure is one assignment of one partition to one member.
type tenure struct {
	member  *modelMember
	p       int32
	from    time.Duration
	leaving time.Duration // a revoke has begun; -1: not
	until   time.Duration // -1: it lasts
	failed  map[*modelRecord]bool
	done    map[*modelRecord]bool
	lowest  int64 // the first offset that was called; -1: none
	highest int64
}

func (t *tenure) over(now time.Duration) bool { return t.until >= 0 && t.until <= now }

// modelMember is one instance.
type modelMember struct {
	name    string
	plan    plan // in force when it started: the breaker's settings are read then
	dead    time.Duration
	ending  time.Duration // asked to stop; -1: not
	tenures map[int32]*tenure
	calls   []*modelCall // that run

	// Its breaker, as the laws have it.
	open     bool
	changed  time.Duration
	gate     time.Duration
	gateWas  time.Duration // before gateSet
	gateSet  time.Duration
	probe    *modelCall
	cleared  bool
	lastFail time.Duration
	doubt    bool // what the breaker heard is not known

	spent      int
	paused     map[int32]bool
	pausedAll  bool
	pausedAt   time.Duration
	freed      time.Duration // when an operator last gave a resume or a retry: its effect can be seen before it has returned
	guard      time.Duration // since when the crash guard is on; -1: it is off
	guardDoubt *violation    // it was broken, unless it ends at this very instant
	hung       bool          // a handler did not return within the drain
	sound      bool          // its client loses nothing
	mayLose    bool
	lost       time.Duration // its partitions, just now; -1: not
}

// wish is whether an operator has paused a partition: what was said of it alone counts more than what was said of all before.
func (x *modelMember) wish(p int32) bool {
	if named, ok := x.paused[p]; ok {
		return named
	}
	return x.pausedAll
}

func newModel(partitions int, reset string) *model {
	m := &model{began: time.Now(), reset: reset}
	for range partitions {
		m.parts = append(m.parts, &modelPart{commit: -1})
	}
	return m
}

func (m *model) now() time.Duration { return time.Since(m.began) }

func (m *model) breaks(law, format string, args ...any) {
	v := violation{law, m.now(), fmt.Sprintf(format, args...)}
	m.broken = append(m.broken, v)
	m.say("!!! %v", v)
}

func (m *model) say(format string, args ...any) {
	if len(m.seen) < 20_000 {
		m.seen = append(m.seen, fmt.Sprintf("%12v  "+format, append([]any{m.now()}, args...)...))
	}
}

// note says something from outside the model.
func (m *model) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say(format, args...)
}

func (m *model) violate(law, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.breaks(law, format, args...)
}

func (m *model) violations() []violation {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.members {
		if v := x.guardDoubt; v != nil {
			m.broken = append(m.broken, *v)
			x.guardDoubt = nil
		}
		// The answer that explains it comes at the same instant.
		if x.lost >= 0 && !x.mayLose && x.dead < 0 {
			m.broken = append(m.broken, violation{"3", x.lost, x.name + " has lost its partitions"})
		}
		x.lost = -1
	}
	return slices.Clone(m.broken)
}

// force says which strategy is in force from now on.
func (m *model) force(p plan) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plans = append(m.plans, planSpan{m.now(), p})
	m.say("strategy in force: %s", p.json)
}

// inForce are the strategies that were in force at some instant since.
func (m *model) inForce(since time.Duration) (all []plan) {
	for i, s := range m.plans {
		if i+1 == len(m.plans) || m.plans[i+1].from >= since {
			all = append(all, s.plan)
		}
	}
	return all
}

func (m *model) storeBad(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.badS = append(m.badS, span{m.now(), m.now() + d})
}

// clockSet: the store's clock was set, forward or back.
func (m *model) clockSet(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = append(m.steps, clockStep{m.now(), by})
}

type clockStep struct{ at, by time.Duration }

// forward is how much shorter a wait since then can look on the store's clock.
func (m *model) forward(since time.Duration) (sum time.Duration) {
	for _, s := range m.steps {
		if s.at >= since {
			sum += max(0, s.by)
		}
	}
	return sum
}

// away: the brokers have been away since.
func (m *model) away(since time.Duration) bool {
	return slices.ContainsFunc(m.badC, func(s span) bool { return s.to >= since })
}

func (m *model) brokersBad(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.badC = append(m.badC, span{m.now(), m.now() + d})
}

// storeWell reports whether the store was well all the time.
func (m *model) storeWell(from, to time.Duration) bool {
	for _, s := range m.badS {
		// What was on its way when it got well may still have failed.
		if s.from <= to && from <= s.to+1100*time.Millisecond {
			return false
		}
	}
	return true
}

// produces is told before a record is.
func (m *model) produces(r *modelRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.condemned, r.operator = -1, -1
	r.offset = int64(len(m.parts[r.p].records))
	m.parts[r.p].records = append(m.parts[r.p].records, r)
	m.say("produced: %s", r.name())
}

func (m *model) deleted(p int32, before int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parts[p].first = max(m.parts[p].first, before)
	m.say("retention deletes %d below %d", p, before)
}

func (m *model) joins(name string, p plan) *modelMember {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &modelMember{name: name, plan: p, sound: true, dead: -1, ending: -1, tenures: map[int32]*tenure{}, cleared: true, lastFail: -1, changed: -1, freed: -1, guard: -1, lost: -1,
		paused: map[int32]bool{}}
	m.members = append(m.members, x)
	m.say("%s starts", name)
	return x
}

// rebalance is told of a callback, before and after it.
func (m *model) rebalance(x *modelMember, ev kafka.Event, over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	switch e := ev.(type) {
	case kafka.AssignedPartitions:
		for _, tp := range e.Partitions {
			if old := x.tenures[tp.Partition]; old != nil || over {
				continue
			}
			x.tenures[tp.Partition] = &tenure{member: x, p: tp.Partition, from: now, leaving: -1, until: -1,
				failed: map[*modelRecord]bool{}, done: map[*modelRecord]bool{}, lowest: -1, highest: -1}
			if m.shared(x, tp.Partition) {
				m.noted(tp.Partition) // the other one may be calling a record
			}
			m.say("%s is assigned %d", x.name, tp.Partition)
		}
	case kafka.RevokedPartitions:
		for _, tp := range e.Partitions {
			t := x.tenures[tp.Partition]
			switch {
			case t == nil:
			case !over:
				if t.leaving < 0 {
					t.leaving = now
				}
				m.say("%s is revoked %d", x.name, tp.Partition)
			default:
				t.until = now
				part := m.parts[tp.Partition]
				for _, r := range part.records[max(0, part.commit):] {
					r.unnotes = append(r.unnotes, now)
				}
				delete(x.tenures, tp.Partition)
				m.say("%s has let go of %d", x.name, tp.Partition)
			}
		}
	}
}

// ends is told that an instance is asked to stop, or has died.
func (m *model) ends(x *modelMember, dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	what := "is asked to stop"
	if dead {
		what = "dies"
		x.dead = now
	} else {
		x.ending = now
	}
	m.say("%s %s", x.name, what)
	for _, t := range x.tenures {
		if dead {
			t.leaving, t.until = now, now
			m.noted(t.p) // a call that never began, or whose end nobody heard
		}
	}
}

// shared: somebody else does not know yet that he has lost the partition.
func (m *model) shared(x *modelMember, p int32) bool {
	return slices.ContainsFunc(m.members, func(o *modelMember) bool { return o != x && o.dead < 0 && o.tenures[p] != nil })
}

// noted: a record that is not committed can have been noted in the store, and be found so.
func (m *model) noted(p int32) {
	part := m.parts[p]
	for _, r := range part.records[max(0, part.commit):] {
		r.most++
	}
}

// ended is told that Run has returned.
func (m *model) ended(x *modelMember, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.say("%s has ended: %v", x.name, err)
	for _, t := range x.tenures {
		t.until = now
	}
	if x.dead >= 0 {
		return
	}
	if x.ending < 0 {
		m.breaks("3", "%s has ended by itself: %v", x.name, err)
	} else if took := now - x.ending; took > 4*time.Second+scriptDrainTimeout+closeTimeout {
		m.breaks("3", "%s took %v to end", x.name, took)
	}
	hung := errors.Is(err, ErrDrainTimeout) && (x.hung || len(x.calls) > 0)
	away := errors.Is(err, ErrCloseTimeout) && slices.ContainsFunc(m.badC, func(s span) bool { return s.from <= now && s.to >= x.ending })
	if err != nil && !hung && !away {
		m.breaks("3", "%s has ended with: %v", x.name, err)
	}
}

// begin is a call of a handler. number is which attempt it says it is; it answers which call of the record it is.
func (m *model) begin(x *modelMember, p int32, offset int64, number int, cut func() bool) *modelCall {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if int(p) >= len(m.parts) || offset < 0 || offset >= int64(len(m.parts[p].records)) {
		m.breaks("1", "%s calls %d@%d, which nobody produced", x.name, p, offset)
		return nil
	}
	part := m.parts[p]
	r := part.records[offset]
	r.tries++
	t := x.tenures[p]
	c := &modelCall{member: x, tenure: t, record: r, number: number, try: r.tries, began: now, ended: -1, cut: cut}
	m.say("%s calls %s, attempt %d, call %d", x.name, r.name(), number, r.tries)
	if t == nil {
		m.breaks("10", "%s calls %s, a partition that is not its own", x.name, r.name())
		t = &tenure{member: x, p: p, from: now, leaving: -1, until: now, failed: map[*modelRecord]bool{}, done: map[*modelRecord]bool{}}
		c.tenure = t
	}
	m.checkOrder(x, t, r, now)
	m.checkDone(t, r, now)
	m.checkNumber(t, r, number, now)
	m.checkEarly(t, r, now)
	m.checkBreaker(x, c, now)
	if x.wish(p) && x.pausedAt < now && x.freed < now {
		m.breaks("4", "%s calls %s, which an operator has paused", x.name, r.name())
	}
	if t.leaving >= 0 && t.leaving < now {
		m.breaks("10", "%s calls %s, which is being revoked", x.name, r.name())
	}
	if x.guard >= 0 && x.guard < now {
		for _, o := range x.calls {
			if !o.stalled && !o.tenure.over(now) && o.began < now {
				x.guardDoubt = &violation{"crash guard", now, fmt.Sprintf("%s calls %s while it calls %s", x.name, r.name(), o.record.name())}
			}
		}
	}
	x.calls = append(x.calls, c)
	return c
}

// checkOrder: nothing is called before everything below it is done, and no two of a partition at a time (law 15).
func (m *model) checkOrder(x *modelMember, t *tenure, r *modelRecord, now time.Duration) {
	for _, o := range x.calls {
		if o.record.p == r.p {
			m.breaks("15", "%s calls %s while an earlier call of %s runs", x.name, r.name(), o.record.name())
		}
	}
	part := m.parts[r.p]
	if !part.based {
		m.breaks("1", "%s calls %s before its start was committed", x.name, r.name())
	}
	for o := m.upTo(part); o < r.offset; o++ {
		below := part.records[o]
		if below.succeeded || below.written() || below.condemned >= 0 && m.condemns(below) {
			continue
		}
		m.breaks("15", "%s calls %s although %s is not done", x.name, r.name(), below.name())
		return
	}
	if t.lowest < 0 {
		t.lowest = r.offset
	}
	t.highest = max(t.highest, r.offset)
}

// upTo is the offset below which everything is done.
func (m *model) upTo(part *modelPart) int64 {
	part.done = max(part.done, part.first, part.base)
	for part.done < int64(len(part.records)) && (part.records[part.done].succeeded || part.records[part.done].written()) {
		part.done++
	}
	return part.done
}

// condemns: a permanent verdict was a reason to go on while the dead letter is on its way.
func (m *model) condemns(r *modelRecord) bool {
	return slices.ContainsFunc(m.inForce(r.condemned), func(p plan) bool { return !p.person })
}

// checkDone: what is done is not called again, save after a move (law 6).
func (m *model) checkDone(t *tenure, r *modelRecord, now time.Duration) {
	if t.done[r] {
		m.breaks("6", "%s calls %s, which it has done", t.member.name, r.name())
	}
	for _, l := range r.letters {
		if l.tenure == t && l.sent < now {
			m.breaks("6", "%s calls %s, whose dead letter it has sent", t.member.name, r.name())
		}
	}
	v := r.last
	if v == nil || r.operator >= v.at {
		return
	}
	if v.instant && (v.tenure == t || m.storeKnew(r.dlqKnew, t)) && v.at < now {
		m.breaks("13", "%s calls %s again, which failed for good", t.member.name, r.name())
	}
	longest := 0
	for _, p := range m.inForce(min(v.at, now)) {
		if p.hold || p.budget >= 0 {
			return
		}
		longest = max(longest, len(p.waits))
	}
	if m.knows(v, t) && v.number > longest {
		m.breaks("6", "%s calls %s, which has had its %d attempts", t.member.name, r.name(), v.number)
	}
}

// knows reports whether the holder of t must know of v: it is its own, or the attempt store was well when it had to take and to give it. A permanent verdict goes
// to the store only where its dead letter can't be written.
func (m *model) knows(v *modelVerdict, t *tenure) bool {
	return v.tenure == t || !v.instant && m.storeKnew(v, t)
}

func (m *model) storeKnew(v *modelVerdict, t *tenure) bool {
	if v == nil || !m.storeWell(t.from, t.from+1500*time.Millisecond) {
		return false
	}
	x := v.tenure.member
	alive := func(until time.Duration) bool { return (x.dead < 0 || x.dead > until) && until <= t.from }
	if m.storeWell(v.at, v.at+50*time.Millisecond) && alive(v.at+50*time.Millisecond) {
		return true
	}
	// It is written again when the store is back, for as long as the instance is there.
	for _, s := range m.badS {
		if from := s.to + 1200*time.Millisecond; from >= v.at && m.storeWell(from, from+3*time.Second) && alive(from+3*time.Second) && x.ending < 0 {
			return true
		}
	}
	return false
}

// checkNumber: attempts are counted, and survive (law 11).
func (m *model) checkNumber(t *tenure, r *modelRecord, number int, now time.Duration) {
	least := 1
	if v := r.last; v != nil && m.knows(v, t) {
		least = v.number + 1
	}
	most := m.most(r) + 1
	if number < least || number > most {
		m.breaks("11", "%s calls %s and says that it is attempt %d; it is one from %d to %d", t.member.name, r.name(), number, least, most)
	}
}

// most is how many attempts can have been counted.
func (m *model) most(r *modelRecord) int {
	most := r.most
	for _, at := range r.unnotes {
		if !m.storeWell(at, at+50*time.Millisecond) {
			most++ // its note may not have been taken back
		}
	}
	return most
}

// checkEarly: no call before the record's retryAt (law 7).
func (m *model) checkEarly(t *tenure, r *modelRecord, now time.Duration) {
	v := r.last
	if v == nil || r.operator >= v.at || t.member.freed == now || !m.knows(v, t) {
		return
	}
	least := v.least
	if v.tenure != t {
		least -= m.forward(v.at) // it knows of the wait from the store
	}
	if now < least {
		m.breaks("7", "%s calls %s %v before its retryAt, after attempt %d", t.member.name, r.name(), least-now, v.number)
	}
}

// checkBreaker: while it is open nothing is called before the gate, and one at a time (laws 7 and 9).
func (m *model) checkBreaker(x *modelMember, c *modelCall, now time.Duration) {
	if !x.plan.first || x.doubt || !x.open || x.changed >= now {
		return
	}
	gate := x.gate
	if x.gateSet == now {
		gate = x.gateWas // it may have been called before
	}
	if now < gate && x.freed < now {
		m.breaks("7", "%s calls %s %v before the gate", x.name, c.record.name(), gate-now)
	}
	// A probe that the drain has cut is released at once, and the callback ends a moment later.
	if p := x.probe; p != nil && p.ended < 0 && !p.stalled && !p.tenure.over(now) && !(p.tenure.leaving >= 0 && p.cut()) {
		m.breaks("9", "%s calls %s while %s probes", x.name, c.record.name(), p.record.name())
	}
	c.probe, x.probe = true, c
}

// outcome is how a call ended.
type outcome struct {
	kind  string // "ok", "transient", "permanent", "panic", "died"
	text  string
	after time.Duration
	cut   bool // the consumer had ended its context, and not for its time
}

// end is the end of a call.
func (m *model) end(c *modelCall, o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	x, r, t := c.member, c.record, c.tenure
	c.ended = now
	x.calls = slices.DeleteFunc(x.calls, func(o *modelCall) bool { return o == c })
	m.say("%s ends its call of %s: %s %s", x.name, r.name(), o.kind, o.text)
	x.hung = x.hung || t.leaving >= 0 && (c.stalled || now-t.leaving > scriptDrainTimeout)
	if o.kind == "died" {
		r.died++
		r.most++
		return
	}
	stale := t.over(now)
	if o.kind == "ok" {
		r.succeeded = true // whoever did it
	}
	switch {
	case stale:
		if !o.cut && o.kind != "ok" && t.until == now {
			r.most++
		}
		if o.kind == "ok" && t.until == now {
			x.spent = 0
		}
		return
	case o.kind == "ok":
		r.unnotes = append(r.unnotes, now)
		t.done[r] = true
		x.spent = 0
		if !c.stalled {
			x.success(c, now)
		}
		return
	case c.stalled:
		return // it has had its verdict
	case o.cut:
		r.unnotes = append(r.unnotes, now)
		return
	case t.leaving >= 0 && now-c.began >= scriptHandlerTimeout:
		// Its time was over, and its partition is being taken away: we can't know which came first.
		r.most++
		r.firstText = append(r.firstText, o.text)
		x.doubt = true
		return
	}
	m.verdict(c, o, now)
}

// verdict is an end that counts.
func (m *model) verdict(c *modelCall, o outcome, now time.Duration) {
	x, r, t := c.member, c.record, c.tenure
	r.most++
	if r.last == nil || !m.knows(r.last, t) {
		r.firstText = append(r.firstText, o.text)
	}
	v := &modelVerdict{at: now, tenure: t, number: c.number, text: o.text, least: now,
		sure: m.storeWell(t.from, now) && !m.shared(x, r.p) && (r.last == nil || r.last.sure)}
	if r.last == nil {
		r.failed = now
	}
	r.last = v
	if o.kind != "transient" {
		r.condemned = now
		v.instant = true
		return
	}
	least := time.Duration(-1)
	for _, p := range m.inForce(now) {
		if w := max(p.wait(c.number), o.after); least < 0 || w < least {
			least = w
		}
	}
	v.least = now + least
	again := t.failed[r]
	t.failed[r] = true
	x.failure(m, c, now, again)
}

// success is what a breaker makes of one.
func (x *modelMember) success(c *modelCall, now time.Duration) {
	if c.began >= x.lastFail {
		x.cleared = true
	}
	switch {
	case x.doubt:
		if c.began > x.lastFail && c.began > x.changed {
			x.doubt, x.open, x.changed = false, false, now
		}
	case x.open && c.probe:
		x.open, x.changed = false, now
	}
}

// failure is what a breaker makes of one.
func (x *modelMember) failure(m *model, c *modelCall, now time.Duration, again bool) {
	if again && x.cleared {
		return // it is the record
	}
	x.cleared = false
	x.lastFail = now
	least := time.Duration(-1)
	for _, p := range m.inForce(now) {
		if least < 0 || p.least() < least {
			least = p.least()
		}
	}
	switch {
	case x.open:
		if x.gateSet != now {
			x.gateSet, x.gateWas = now, x.gate
		}
		x.gate = max(x.gate, now+least)
	case c.began >= x.changed:
		x.open, x.changed, x.gate, x.probe = true, now, now+least, nil
	}
}

// event is what an instance told its observer.
func (m *model) event(x *modelMember, e observe.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("    %s tells: %v %d@%d #%d %s %v", x.name, e.Kind, e.Partition, e.Offset, e.Attempt, e.Text, e.Err)
	if x.dead >= 0 {
		return
	}
	switch e.Kind {
	case observe.Stopping:
		for _, t := range x.tenures {
			if t.leaving < 0 {
				t.leaving = m.now()
			}
		}
	case observe.GuardOn:
		x.guard = m.now()
	case observe.GuardOff:
		x.guard, x.guardDoubt = -1, nil
	case observe.Lost:
		x.lost = m.now()
	case observe.Revived:
		if x.sound && !m.away(m.now()-time.Minute) {
			m.breaks("5", "%s had to be revived although its client loses nothing: %s", x.name, e.Text)
		}
	case observe.Fatal:
		m.breaks("3", "%s has failed: %v", x.name, e.Err)
	case observe.Stalled:
		for _, c := range x.calls {
			if c.record.p != e.Partition || c.record.offset != e.Offset || c.stalled {
				continue
			}
			if age := m.now() - c.began; age < scriptHandlerTimeout+time.Second || age > scriptHandlerTimeout+time.Second+300*time.Millisecond {
				m.breaks("handler timeout", "%s gives %s up after %v", x.name, c.record.name(), age)
			}
			c.stalled = true
			m.verdict(c, outcome{kind: "transient", text: "handler timed out"}, m.now())
		}
	}
}

// loses: from now on the client of an instance may lose a pause, a resume or a start.
func (m *model) loses(x *modelMember) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.sound = false
}

// mayLose: something was done to an instance that can cost it its membership.
func (m *model) mayLose(x *modelMember) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.mayLose = true
}

// frees is told before a command that can let a record go.
func (m *model) frees(x *modelMember) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x.freed = m.now()
}

// operator is told of a command that was carried out. p is -1 for all partitions.
func (m *model) operator(x *modelMember, do string, p int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.say("an operator: %s %s %d", x.name, do, p)
	switch do {
	case "pause", "resume":
		if p < 0 {
			x.pausedAll, x.paused = do == "pause", map[int32]bool{}
		} else {
			x.paused[p] = do == "pause"
		}
		x.pausedAt = now
	case "retry":
		x.gate = now
		for q := range x.tenures {
			if p >= 0 && q != p {
				continue
			}
			for _, r := range m.parts[q].records {
				r.operator = now
			}
		}
	}
}

// skip is told before the command, and of its end.
func (m *model) skip(p int32, offset int64, asked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if asked {
		m.parts[p].records[offset].skipping = true
	}
	m.say("an operator: skip %d@%d: %v", p, offset, asked)
}

// sends is a dead letter that an instance gives to the DLQ's writer.
func (m *model) sends(x *modelMember, l dlq.Letter) *modelLetter {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	p, offset := l.Record.TopicPartition.Partition, int64(l.Record.TopicPartition.Offset)
	r := m.parts[p].records[offset]
	m.say("%s writes the dead letter of %s: %s after %d attempts", x.name, r.name(), l.Kind, l.Attempts)
	t := x.tenures[p]
	if t == nil || t.leaving >= 0 && t.leaving < now {
		m.breaks("10", "%s dead-letters %s, which is not its own any more", x.name, r.name())
		t = &tenure{member: x, p: p, from: now, until: now}
	}
	m.checkLetter(x, r, l)
	for _, old := range r.letters {
		if old.tenure != t {
			continue
		}
		if old.acked >= 0 && !old.lost {
			m.breaks("6", "%s dead-letters %s twice", x.name, r.name())
		}
		return old
	}
	if t.done[r] {
		m.breaks("6", "%s dead-letters %s, which it has done", x.name, r.name())
	}
	m.checkVerdict(t, r, l)
	if l.Kind != dlq.Skipped {
		limit := 0
		for _, p := range m.inForce(now) {
			if p.budget < 0 {
				limit = x.spent + 1
			}
			limit = max(limit, p.budget)
		}
		if x.spent >= limit {
			m.breaks("dlqBudget", "%s dead-letters %s, its %d. since a success", x.name, r.name(), x.spent+1)
		}
		x.spent++
	}
	letter := &modelLetter{tenure: t, sent: now, acked: -1}
	r.letters = append(r.letters, letter)
	return letter
}

// checkLetter: a dead letter is the record (law 14), and says what has happened.
func (m *model) checkLetter(x *modelMember, r *modelRecord, l dlq.Letter) {
	wrong := func(what string, got, want any) {
		m.breaks("14", "the dead letter of %s: %s is %v, not %v", r.name(), what, got, want)
	}
	if !bytes.Equal(l.Record.Key, r.key) || (l.Record.Key == nil) != (r.key == nil) {
		wrong("key", l.Record.Key, r.key)
	}
	if !bytes.Equal(l.Record.Value, r.value) || (l.Record.Value == nil) != (r.value == nil) {
		wrong("value", l.Record.Value, r.value)
	}
	if len(l.Record.Headers) != len(r.headers) {
		wrong("headers", l.Record.Headers, r.headers)
	}
	if !l.Record.Timestamp.Equal(r.timestamp.Truncate(time.Millisecond)) {
		wrong("timestamp", l.Record.Timestamp, r.timestamp)
	}
	if l.GroupID != group || l.Instance != x.name {
		wrong("source", l.GroupID+" "+l.Instance, group+" "+x.name)
	}
	if l.Reference {
		wrong("reference", true, false)
	}
	if l.FirstFailedAt.After(l.FailedAt) || l.FailedAt.After(time.Now()) {
		wrong("failed", l.FirstFailedAt, l.FailedAt)
	}
	if l.Kind == dlq.Crash {
		return // the first death is seen by nobody
	}
	v := r.last
	if v == nil {
		if l.Kind != dlq.Skipped {
			m.breaks("6", "the dead letter of %s, which has not failed", r.name())
		}
		return
	}
	if l.FirstFailedAt.IsZero() || l.ErrorMessage == "" || l.FirstErrorMessage == "" || l.ErrorClass == "" {
		m.breaks("14", "the dead letter of %s is incomplete: %+v", r.name(), l)
	}
	// A store that comes back late knows of more attempts, and of another last error.
	if t := x.tenures[r.p]; t != nil && m.knows(v, t) && r.died == 0 && v.sure && m.storeWell(t.from, m.now()) {
		if !strings.Contains(l.ErrorMessage, v.text) {
			wrong("last error", l.ErrorMessage, v.text)
		}
		if !slices.ContainsFunc(r.firstText, func(s string) bool { return strings.Contains(l.FirstErrorMessage, s) }) {
			wrong("first error", l.FirstErrorMessage, r.firstText)
		}
	}
}

// checkVerdict: the kind of a dead letter follows from what has happened, and no strategy ends early (law 6).
func (m *model) checkVerdict(t *tenure, r *modelRecord, l dlq.Letter) {
	least := 0
	since := time.Duration(0)
	if v := r.last; v != nil {
		since = r.failed // a verdict in the store may be an old one
		if m.knows(v, t) {
			least = v.number
		}
	}
	if most := m.most(r); l.Attempts < least || l.Attempts > most {
		m.breaks("11", "the dead letter of %s counts %d attempts; there were %d to %d", r.name(), l.Attempts, least, most)
	}
	in := m.inForce(since)
	some := func(f func(plan) bool) bool { return slices.ContainsFunc(in, f) }
	ok := false
	switch l.Kind {
	case dlq.Skipped:
		ok = r.skipping
	case dlq.Permanent, dlq.PanicKind:
		panics := r.fate == "panic" || r.fate == "goexit"
		ok = r.condemned >= 0 && panics == (l.Kind == dlq.PanicKind) && some(func(p plan) bool { return !p.person })
	case dlq.Exhausted:
		ok = some(func(p plan) bool { return !p.hold && l.Attempts > len(p.waits) })
	case dlq.Crash:
		ok = l.Attempts >= scriptCrashLimit && r.most >= scriptCrashLimit
	}
	if !ok {
		m.breaks("6", "the dead letter of %s is %q after %d attempts", r.name(), l.Kind, l.Attempts)
	}
}

// answered is what became of a dead letter. lost: it is written, but the writer hears of an error.
func (m *model) answered(x *modelMember, r *modelRecord, l *modelLetter, written, lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if written {
		l.acked = m.now()
		l.lost = lost
	}
	if !written || lost {
		if t := x.tenures[r.p]; t == l.tenure && t.leaving < 0 && x.dead < 0 && r.last != nil && r.last.instant {
			r.dlqKnew = &modelVerdict{at: m.now(), tenure: l.tenure, number: r.last.number}
		}
	}
	m.say("the dead letter of %s: written %v, lost %v", r.name(), written, lost)
}

func (m *model) record(p int32, offset int64) *modelRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.parts[p].records[offset]
}

// committed: nothing is committed that is not done (law 1).
func (m *model) committed(c simkafka.Commit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := m.parts[c.Partition]
	after := int64(c.After)
	m.say("commit of %d: %d", c.Partition, after)
	if !part.based {
		part.based = true
		if m.reset == "latest" {
			part.base = after
		}
	}
	for o := max(part.first, part.base, part.commit); o < after; o++ {
		if o >= int64(len(part.records)) {
			m.breaks("1", "%d is committed for partition %d, which ends at %d", after, c.Partition, len(part.records))
			break
		}
		if r := part.records[o]; !r.succeeded && !r.written() {
			m.breaks("1", "%d is committed for partition %d although %s is not done", after, c.Partition, r.name())
			break
		}
	}
	part.commit = max(part.commit, after)
}

// undone lists what is not done, or not committed.
func (m *model) undone() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, part := range m.parts {
		for o := max(part.first, part.base, part.commit, 0); o < int64(len(part.records)); o++ {
			r := part.records[o]
			what := "is not committed"
			if !r.succeeded && !r.written() {
				what = "is not done"
			}
			all = append(all, r.name()+" "+what)
		}
		if part.commit < int64(len(part.records)) && len(all) == 0 {
			all = append(all, fmt.Sprintf("partition %d is committed up to %d of %d", p, part.commit, len(part.records)))
		}
	}
	return all
}

// overdue: a handler that does not return is given up.
func (m *model) overdue() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.members {
		for _, c := range x.calls {
			if age := m.now() - c.began; age > scriptHandlerTimeout+time.Second+400*time.Millisecond && !c.stalled && x.dead < 0 && c.tenure.leaving < 0 && !c.tenure.over(m.now()) {
				m.breaks("handler timeout", "%s has called %s for %v", x.name, c.record.name(), age)
			}
		}
	}
}

// running counts the calls that have not returned.
func (m *model) running() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, x := range m.members {
		n += len(x.calls)
	}
	return n
}
