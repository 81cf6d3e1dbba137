package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
)

// Each law is one method, which reads the file and notes what it found: a violation, or an excuse, which is a repeat or an early call that the laws allow for a
// reason that is named. Excuses are counted and listed: a run that has many of one kind is worth a look.

// Findings are what became of a History.
type Findings struct {
	Violations []Violation         `json:"violations"`
	Excuses    map[string][]string `json:"excuses"` // by kind: each instance in a sentence
	Done       int                 `json:"done"`    // records that a call succeeded for
	Dead       int                 `json:"dead"`    // records with a dead letter
	Open       int                 `json:"open"`    // neither
}

// Violation is one law broken.
type Violation struct {
	Law    string   `json:"law"`
	Record string   `json:"record,omitempty"`
	Text   string   `json:"text"`
	Story  []string `json:"story,omitempty"` // what happened to the record, and around it
}

// Judge reads a history.
func Judge(h History) Findings {
	f := open(h)
	f.found.Excuses = map[string][]string{}
	f.members()
	f.nothingLost()
	f.commits()
	for _, calls := range f.of {
		f.attempts(calls)
	}
	for _, owned := range f.owners {
		for _, o := range owned {
			f.order(o)
		}
	}
	f.gates()
	f.letters()
	slices.SortStableFunc(f.found.Violations, func(a, b Violation) int { return strings.Compare(a.Law+a.Record, b.Law+b.Record) })
	for kind := range f.found.Excuses {
		slices.Sort(f.found.Excuses[kind])
	}
	return f.found
}

func (f *file) violation(law string, id ID, format string, args ...any) {
	f.found.Violations = append(f.found.Violations, Violation{Law: law, Record: id.String(), Text: fmt.Sprintf(format, args...), Story: f.story(id)})
}

func (f *file) excuse(kind string, id ID, format string, args ...any) {
	f.found.Excuses[kind] = append(f.found.Excuses[kind], id.String()+": "+fmt.Sprintf(format, args...))
}

// members: a consumer may be killed; it may not break by itself.
func (f *file) members() {
	for _, l := range f.Lives {
		if l.Wrong != "" {
			f.found.Violations = append(f.found.Violations, Violation{Law: "members end as they are told", Text: l.Name + ": " + l.Wrong})
		}
	}
}

const lawLost = "1: nothing is lost"

// nothingLost: each record is handled or dead-lettered, and committed in the end.
func (f *file) nothingLost() {
	final := make([]int64, len(f.Ends))
	if len(f.Samples) > 0 {
		final = f.Samples[len(f.Samples)-1].Committed
	}
	for p, end := range f.Ends {
		late := map[string]int{} // records of the partition, by what they lack
		tell := func(id ID, what string) {
			if late[what]++; late[what] == 1 && !f.Interrupted {
				f.violation("progress", id, "%v after the faults had ended %s; it is the first of its partition", f.Bound, what)
			}
		}
		for o := range end {
			id := ID{int32(p), o}
			ok := f.succeeded(id, time.Time{})
			switch {
			case ok:
				f.found.Done++
			case f.dead[id]:
				f.found.Dead++
			default:
				f.found.Open++
				if o < final[p] {
					f.violation(lawLost, id, "its offset is committed, and it was neither handled nor dead-lettered")
				} else {
					tell(id, "neither handled nor dead-lettered")
				}
				continue
			}
			if o >= final[p] {
				tell(id, "done, and not committed")
			}
		}
	}
}

// succeeded tells whether a call of the record was answered with success; before an instant, where one is given.
func (f *file) succeeded(id ID, before time.Time) bool {
	return slices.ContainsFunc(f.of[id], func(c *call) bool { return c.Answer == OK && (before.IsZero() || c.Began.Before(before)) })
}

// commits: what is committed was done before, stays committed, and is not called by an owner that came later.
func (f *file) commits() {
	high := make([]int64, len(f.Ends))
	since := make([][]time.Time, len(f.Ends)) // when each offset was first seen committed
	for _, s := range f.Samples {
		for p, committed := range s.Committed {
			if committed < high[p] {
				f.violation("19: commits never go back", ID{int32(p), committed}, "%d was committed, and then %d", high[p], committed)
				continue
			}
			for o := high[p]; o < committed; o++ {
				id := ID{int32(p), o}
				since[p] = append(since[p], s.At)
				if o < f.Ends[p] && !f.succeeded(id, s.At) && !f.dead[id] {
					f.violation(lawLost, id, "committed at %s before it was done", s.At.Format("15:04:05.000"))
				}
			}
			high[p] = committed
		}
	}
	for _, c := range f.calls {
		p := c.ID.Partition
		if c.ID.Offset >= int64(len(since[p])) {
			continue
		}
		from := c.own.From.Add(-claimGrace)
		if at := since[p][c.ID.Offset]; at.Before(from) && !f.frozen(c.Caller, from, c.own.From) {
			f.violation("6: n+1 calls", c.ID, "called by %s, which got the partition at %s, although it was committed since %s", c.Caller, c.own.From.Format("15:04:05.000"), at.Format("15:04:05.000"))
		}
	}
}

// attempts: the calls of one record count from 1, one by one, each after its wait; what the caller could not know is excused.
func (f *file) attempts(calls []*call) {
	for i, n := range calls {
		if n.Attempt > len(f.Intervals)+1 {
			f.violation("6: n+1 calls", n.ID, "attempt %d by %s: the strategy permits %d", n.Attempt, n.Caller, len(f.Intervals)+1)
		}
		var c *call
		for j := i - 1; j >= 0 && c == nil; j-- {
			if calls[j].own == n.own || !calls[j].Ended.After(n.own.since()) {
				c = calls[j]
			} else {
				f.excuse("two owners at once: one of them had lost the partition and did not know yet", n.ID, "%s called it, attempt %d, while it was %s's, attempt %d",
					n.Caller, n.Attempt, calls[j].Caller, calls[j].Attempt)
			}
		}
		switch {
		case c == nil:
			f.first(n)
		case c.own == n.own:
			f.again(c, n)
		default:
			f.moved(c, n)
		}
	}
}

// first: a record that no one can have called is called as attempt 1.
func (f *file) first(n *call) {
	if n.Attempt > 1 && !f.jumps(nil, n) {
		f.violation("6: n+1 calls", n.ID, "its first call is attempt %d", n.Attempt)
	}
}

// again: within an ownership the caller knows all that it has seen, and there is no excuse but an answer that did not reach it.
func (f *file) again(c, n *call) {
	switch c.Answer {
	case OK, Refused, Panicked:
		if !unread(n.LastError) {
			f.violation("6: n+1 calls", n.ID, "called again by %s, attempt %d, after attempt %d was %s", n.Caller, n.Attempt, c.Attempt, c.Answer)
			return
		}
		f.excuse("the answer did not reach the caller in time", n.ID, "%s was %s, and saw %q", n.Caller, c.Answer, n.LastError)
	case Failed, Silent:
	default:
		return
	}
	if n.Attempt <= c.Attempt || n.Attempt > c.Attempt+1 && !f.jumps(c, n) {
		f.violation("6: n+1 calls", n.ID, "%s counts attempt %d after attempt %d", n.Caller, n.Attempt, c.Attempt)
	}
	if early := f.early(c, n); early > 0 {
		f.violation("7: never early", n.ID, "attempt %d by %s came %v early after its own attempt %d", n.Attempt, n.Caller, early, c.Attempt)
	}
}

func (f *file) early(c, n *call) time.Duration {
	wait, _ := f.wait(c.Attempt)
	return wait - n.Began.Sub(c.failure())
}

// unread: what a caller says that got no answer in time.
func unread(lastError string) bool {
	for _, text := range []string{"deadline exceeded", "canceled", "Timeout", "timed out", "EOF", "reset", "broken pipe", "outlived"} {
		if strings.Contains(lastError, text) {
			return true
		}
	}
	return false
}

// moved: the next owner knows what was stored, and everything was, save for a reason.
func (f *file) moved(c, n *call) {
	if c.Answer != Failed && c.Answer != Silent {
		if c.Answer != Died {
			f.excuse("called again, since its owner changed before the commit: "+f.end(c.own), n.ID, "%s after %s", n.Caller, c.Caller)
		}
		return
	}
	early := f.early(c, n)
	if n.Attempt == c.Attempt+1 && early <= 0 || n.Attempt > c.Attempt+1 && f.jumps(c, n) {
		return
	}
	what := fmt.Sprintf("attempt %d by %s after attempt %d by %s", n.Attempt, n.Caller, c.Attempt, c.Caller)
	law := "11: attempts survive"
	if early > 0 {
		what += fmt.Sprintf(", %v early", early.Round(time.Millisecond))
		law = "7: never early"
	}
	if why := f.unstored(c, n); why != "" {
		f.excuse("a failure that could not be stored: "+why, n.ID, "%s", what)
		return
	}
	f.violation(law, n.ID, "%s; nothing kept the failure from being stored", what)
}

// unstored is why the failure of c may be unknown to n; "": there is no reason.
func (f *file) unstored(c, n *call) string {
	until := c.Ended.Add(storeGrace)
	l := f.life(c.Caller)
	switch {
	case l.Dirty && !l.Ended.Before(c.Began) && l.Ended.Before(until):
		return "its caller was killed"
	case f.frozen(c.Caller, c.Began, until):
		return "its caller was frozen"
	case f.unwritten(c):
		return "Redis was away, and was not back before the owner changed"
	case f.storeFault(n.own.since().Add(-storeGrace), n.Began):
		return "Redis was away when the next owner asked"
	case !c.own.To.Before(c.Began) && (c.own.To.Before(until) || c.Answer == Silent && c.own.To.Before(c.Ended.Add(moveGrace))):
		return "the partition was taken away meanwhile"
	case f.storeSaid(c, n):
		return "a consumer said that it could not reach Redis"
	}
	return ""
}

// jumps tells whether attempts between c and n (nil: before n) may have come about that nobody saw from the outside: a note of the crash guard before a call that a
// death cut short, or a store that was read late.
func (f *file) jumps(c, n *call) bool {
	from := time.Time{}
	if c != nil {
		from = c.Began
	}
	for _, o := range f.owners {
		for _, own := range o {
			l := f.life(own.Caller)
			if own.Partition == n.ID.Partition && l.Dirty && own.To.Equal(l.Ended) && !l.Ended.Before(from) && l.Ended.Before(n.Began) {
				f.excuse("attempts that did not reach the dependency: deaths that the crash guard had noted", n.ID, "attempt %d by %s", n.Attempt, n.Caller)
				return true
			}
		}
	}
	if c != nil && f.storeFault(from, n.Began) {
		f.excuse("attempts that were read late, since Redis was away", n.ID, "attempt %d by %s after attempt %d", n.Attempt, n.Caller, c.Attempt)
		return true
	}
	for _, b := range f.of[n.ID] {
		if b.Began.Before(n.Began) && b.Attempt >= n.Attempt-1 {
			return true // counted by an owner that overlapped, and stored
		}
	}
	return false
}

func (f *file) frozen(caller string, from, to time.Time) bool {
	return slices.ContainsFunc(f.life(caller).Frozen, func(s Span) bool { return s.meets(from, to) })
}

func (f *file) storeFault(from, to time.Time) bool {
	return slices.ContainsFunc(f.Store, func(s Span) bool { s.To = s.To.Add(storeBack); return s.meets(from, to) })
}

// unwritten tells whether Redis was away when c failed, and did not come back for long enough before the caller's ownership ended.
func (f *file) unwritten(c *call) bool {
	until := c.Ended.Add(storeGrace)
	away := false
	for _, s := range f.Store { // in the order of time
		if s.meets(c.Began, until) {
			away = true
			until = s.To.Add(storeBack)
		}
	}
	return away && !c.own.To.After(until)
}

func (f *file) storeSaid(c, n *call) bool {
	return slices.ContainsFunc(f.StoreSaid, func(s Span) bool {
		s.To = s.To.Add(storeBack)
		return (s.What == c.Caller || s.What == n.Caller) && s.meets(c.Began, n.Began)
	})
}

// end is how an ownership ended.
func (f *file) end(o *ownership) string {
	l := f.life(o.Caller)
	switch {
	case f.frozen(o.Caller, o.From, o.To):
		return "frozen"
	case l.Dirty && o.To.Equal(l.Ended):
		return "killed"
	}
	how := "the partition was taken away"
	if o.To.Equal(l.Ended) {
		how = "it left"
	}
	if slices.ContainsFunc(f.Network, func(s Span) bool { return s.meets(o.To.Add(-2*moveGrace), o.To) }) {
		return how + " while brokers were away"
	}
	return how + " while brokers were well"
}

// order: within an ownership the calls of a partition come one after the other, in offset order, and a record that is not done is not passed over.
func (f *file) order(o *ownership) {
	const law = "15: order"
	for i := 1; i < len(o.calls); i++ {
		c, n := o.calls[i-1], o.calls[i]
		if n.Began.Before(c.Ended) && c.Answer != Silent {
			f.violation(law, n.ID, "%s called it while its call of %v still ran", n.Caller, c.ID)
		}
		if n.ID.Offset < c.ID.Offset {
			f.violation(law, n.ID, "%s called it after %v", n.Caller, c.ID)
			continue
		}
		for off := c.ID.Offset; off < n.ID.Offset; off++ {
			id := ID{n.ID.Partition, off}
			if !f.dead[id] && !f.succeeded(id, n.Began) {
				f.violation(law, id, "%s passed it over, and called %v, although it was not done", n.Caller, n.ID)
			}
		}
	}
}

// gates: while every call fails, a consumer that has seen it calls one record at a time, and no two within the shortest interval.
func (f *file) gates() {
	if f.Trips == 0 {
		return
	}
	const law = "9: one probe at a time"
	type breaker struct {
		inARow int
		trip   time.Time
		last   *call // the latest probe
	}
	shortest := slices.Min(f.Intervals)
	for _, down := range f.Down {
		breakers := map[owner]*breaker{}
		for _, n := range f.calls {
			if n.Began.Before(down.From) || n.Ended.After(down.To) {
				continue
			}
			k := owner{caller: n.Caller}
			if f.PerPart {
				k.partition = n.ID.Partition
			}
			b := breakers[k]
			switch {
			case b == nil:
				b = &breaker{}
				breakers[k] = b
				fallthrough
			case b.trip.IsZero():
				// Only a first attempt, since a record that failed before may be taken for one that is bad by itself, and trips nothing.
				if n.Answer == Failed && n.Attempt == 1 {
					if b.inARow++; b.inARow == f.Trips {
						b.trip = n.Ended
					}
				}
			case n.Sent.Before(b.trip.Add(min(tripGrace, shortest))): // it had begun
			default:
				since, what := b.trip, "its breaker had tripped"
				if b.last != nil {
					since, what = b.last.failure(), fmt.Sprintf("its probe with %v", b.last.ID)
				}
				switch {
				case !n.Sent.Before(since.Add(shortest)):
				case b.last != nil && b.last.own.To.Before(b.last.Ended.Add(moveGrace)):
					f.excuse("the next probe at once, since the partition of the one before was taken away", n.ID, "%s after %v", n.Caller, b.last.ID)
				default:
					f.violation(law, n.ID, "%s called it %v after %s, and the shortest interval is %v", n.Caller, n.Sent.Sub(since), what, shortest)
				}
				b.last = n
			}
			if n.Answer == OK {
				delete(breakers, k) // the outage was over
			}
		}
	}
}

// letters: a dead letter is the record, says rightly why it is dead, and is there once; the next owner may write it once more.
func (f *file) letters() {
	seen := map[ID][]Letter{}
	for _, l := range f.Letters {
		if l.Wrong != "" {
			f.violation("14: a dead letter is the record", l.ID, "its dead letter differs: %s", l.Wrong)
		}
		f.kind(l)
		f.once(l, seen[l.ID])
		seen[l.ID] = append(seen[l.ID], l)
	}
}

func (f *file) kind(l Letter) {
	const law = "6: one dead letter after n+1 calls"
	answered := func(as ...Answer) bool {
		return slices.ContainsFunc(f.of[l.ID], func(c *call) bool { return slices.Contains(as, c.Answer) })
	}
	most := 0
	for _, c := range f.of[l.ID] {
		most = max(most, c.Attempt)
	}
	switch l.Info.Kind {
	case dlq.Exhausted:
		if l.Info.Attempts > len(f.Intervals)+1 && f.readLate(l) {
			f.excuse("more attempts than the strategy permits: Redis was away when the last owner asked, and it called before it knew of those", l.ID, "%d", l.Info.Attempts)
		} else if l.Info.Attempts != len(f.Intervals)+1 {
			f.violation(law, l.ID, "exhausted after %d attempts; the strategy permits %d", l.Info.Attempts, len(f.Intervals)+1)
		} else if most < l.Info.Attempts && !f.deaths(l.ID.Partition, 1) {
			f.violation(law, l.ID, "exhausted after %d attempts, and only %d reached the dependency", l.Info.Attempts, most)
		} else if !answered(Failed, Silent, Died) {
			f.violation(law, l.ID, "exhausted, and no call of it failed")
		}
	case dlq.Permanent:
		if !answered(Refused) {
			f.violation(law, l.ID, "dead-lettered as permanent, and no call was refused: %s", l.Info.Reason)
		}
	case dlq.PanicKind:
		if !answered(Panicked) {
			f.violation(law, l.ID, "dead-lettered for a panic that was not asked for: %s", l.Info.Reason)
		}
	case dlq.Crash:
		if !f.deaths(l.ID.Partition, f.CrashLimit) {
			f.violation(law, l.ID, "dead-lettered as one that kills, and fewer than %d owners of its partition died", f.CrashLimit)
		} else if !answered(Died) {
			f.excuse("dead-lettered as one that kills, since its callers were killed by us each time", l.ID, "%d attempts", l.Info.Attempts)
		}
	default:
		f.violation(law, l.ID, "dead-lettered as %q, which nobody asked for", l.Info.Kind)
	}
}

// readLate tells whether the owner that wrote a letter called its record before the store could tell it what was counted; each attempt that the letter counts must have
// been made all the same.
func (f *file) readLate(l Letter) bool {
	made, late := 0, false
	for _, c := range f.of[l.ID] {
		if c.Answer == Failed || c.Answer == Silent || c.Answer == Died {
			made++
		}
		late = late || c.Caller == l.Info.Instance && f.storeFault(c.own.since().Add(-storeGrace), c.Began)
	}
	return late && made >= l.Info.Attempts
}

// deaths tells whether at least n owners of the partition died in office.
func (f *file) deaths(partition int32, n int) bool {
	for k, owned := range f.owners {
		last := owned[len(owned)-1]
		if l := f.life(k.caller); k.partition == partition && l.Dirty && !last.To.Before(l.Ended) {
			n--
		}
	}
	return n <= 0
}

// once: no ownership writes two letters of a record, nor one of a record that it has handled.
func (f *file) once(l Letter, before []Letter) {
	const law = "6: one dead letter after n+1 calls"
	owned := f.owners[owner{l.Info.Instance, l.ID.Partition}]
	for _, b := range before {
		if b.Info.Instance == l.Info.Instance && b.Info.FailedAt.Equal(l.Info.FailedAt) && f.unacknowledged(l) {
			f.excuse("one more dead letter, since the brokers failed while the first was written, and its acknowledgement was lost", l.ID, "by %s", l.Info.Instance)
		} else if b.Info.Instance == l.Info.Instance && len(owned) < 2 {
			f.violation(law, l.ID, "two dead letters from %s, which had the partition without a break", l.Info.Instance)
		} else {
			f.excuse("one more dead letter, since the owner changed before the commit", l.ID, "%s after %s", l.Info.Instance, b.Info.Instance)
		}
	}
	for _, c := range f.of[l.ID] {
		if c.Answer != OK {
			continue
		}
		late := slices.ContainsFunc(f.of[l.ID], func(n *call) bool { return n.own == c.own && n.Began.After(c.Began) && unread(n.LastError) })
		switch {
		case c.Caller == l.Info.Instance && len(owned) < 2 && !late && !unread(l.Info.ErrorMessage):
			f.violation(law, l.ID, "handled by %s, and dead-lettered by it as well", c.Caller)
		default:
			f.excuse("handled and dead-lettered, by two owners or since the answer came too late", l.ID, "handled by %s, dead-lettered by %s", c.Caller, l.Info.Instance)
		}
	}
}

// unacknowledged tells whether brokers failed while a letter was on its way: then nobody knows whether it was written, and it is written again.
func (f *file) unacknowledged(l Letter) bool {
	return slices.ContainsFunc(f.Network, func(s Span) bool { return s.meets(l.Info.FailedAt, l.Info.FailedAt.Add(moveGrace)) })
}

// story is what happened to a record, and around it.
func (f *file) story(id ID) []string {
	var all []line
	from, to := time.Time{}, time.Time{}
	for _, c := range f.of[id] {
		if from.IsZero() {
			from = c.Began
		}
		to = c.Ended
		text := fmt.Sprintf("call by %s, attempt %d: %s after %v", c.Caller, c.Attempt, c.Answer, c.Ended.Sub(c.Began).Round(time.Millisecond))
		if c.LastError != "" {
			text += fmt.Sprintf(" (the attempt before: %s)", c.LastError)
		}
		all = append(all, line{c.Began, text})
	}
	for _, l := range f.Letters {
		if l.ID == id {
			all = append(all, line{l.Info.FailedAt, fmt.Sprintf("dead letter by %s: %s, %d attempts, %s", l.Info.Instance, l.Info.Kind, l.Info.Attempts, l.Info.Reason)})
		}
	}
	for _, s := range f.Samples {
		if int(id.Partition) < len(s.Committed) && s.Committed[id.Partition] > id.Offset {
			all = append(all, line{s.At, fmt.Sprintf("committed: %d", s.Committed[id.Partition])})
			break
		}
	}
	if from.IsZero() {
		return lines(all)
	}
	const around = 10 * time.Second
	from, to = from.Add(-around), to.Add(around)
	near := func(at time.Time) bool { return !at.Before(from) && !at.After(to) }
	say := func(at time.Time, format string, args ...any) {
		if near(at) {
			all = append(all, line{at, fmt.Sprintf(format, args...)})
		}
	}
	for k, owned := range f.owners {
		if k.partition != id.Partition {
			continue
		}
		for _, o := range owned {
			say(o.From, "%s got the partition", k.caller)
			if !o.To.Equal(f.life(k.caller).Ended) {
				say(o.To, "%s lost the partition", k.caller)
			}
		}
		say(f.life(k.caller).Ended, "%s ended: %s", k.caller, f.life(k.caller).How)
		for _, s := range f.life(k.caller).Frozen {
			say(s.From, "%s frozen", k.caller)
			say(s.To, "%s goes on", k.caller)
		}
	}
	for _, spans := range [][]Span{f.Store, f.Network} {
		for _, s := range spans {
			say(s.From, "%s", s.What)
			say(s.To, "over: %s", s.What)
		}
	}
	for _, s := range f.StoreSaid {
		say(s.From, "%s says that Redis is away", s.What)
		say(s.To, "%s says that Redis is back", s.What)
	}
	return lines(all)
}
