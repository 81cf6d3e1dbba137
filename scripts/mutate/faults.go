package main

// A fault is a small mistake that somebody could make, at an exact place, with the tests that have to notice it: the cheapest first.
type fault struct {
	name  string
	edits []edit
	tests []tests
}

type edit struct{ file, old, new string }

// tests are those of one package; with run those whose name matches.
type tests struct{ pkg, run string }

const (
	breakerGo = "breaker/breaker.go"
	chooseGo  = "breaker/choose.go"
	decideDir = "consumer/internal/decide/"
)

var (
	ofBreaker = []tests{{pkg: "breaker"}}
	ofDecide  = []tests{{pkg: "consumer/internal/decide"}}
	ofExplore = []tests{{"consumer/internal/explore", "TestEverySchedule"}}
	ofRandom  = []tests{{"consumer", "TestRandomSchedules"}}
)

// ofConsumer are tests of the whole consumer in virtual time.
func ofConsumer(run string) []tests { return []tests{{"consumer", run}} }

// The first four are rules that look simpler than ours. Each holds up somebody for ever, or again and again, and the search through every schedule
// says whom.
var faults = []fault{
	{"rule: always the first witness", []edit{{chooseGo,
		`if other >= 0 && (witnesses <= 1 || due < 0 || exhausted == witnesses) {`,
		`if other >= 0 && due < 0 {`}}, ofExplore},
	{"rule: other partitions only at the first probe", []edit{
		{decideDir + "desk.go", "	prefer  *Part     // an", "	probed  bool\n	prefer  *Part     // an"},
		{decideDir + "verdict.go", "	case j.Tripped:\n", "	case j.Tripped:\n		p.scope.probed = false\n"},
		{decideDir + "permit.go", "		p.call.Stamp = p.scope.Breaker.Probe()\n", "		p.call.Stamp = p.scope.Breaker.Probe()\n		p.scope.probed = true\n"},
		{decideDir + "permit.go", "	i, next := breaker.Choose(at, candidates)\n", `	for i := 0; s.probed && d.someWitness(s) && i < len(parts); i++ {
		if !d.witness(parts[i]) {
			candidates[i].Callable = false
		}
	}
	i, next := breaker.Choose(at, candidates)
`},
		{decideDir + "permit.go", "// turn lets one record", `func (d *Desk) someWitness(s *Scope) bool {
	for _, p := range d.parts {
		if p.scope == s && d.witness(p) {
			return true
		}
	}
	return false
}

// turn lets one record`},
	}, ofExplore},
	{"rule: no fetch for an empty lane", []edit{{decideDir + "reasons.go", "if hasRecord && next.Sub", "if next.Sub"}}, ofExplore},
	{"rule: a suspect that forgets", []edit{{breakerGo, "	if f.Again && b.cleared {\n", "	if f.Again && b.cleared {\n		b.cleared = false\n		b.stamp.Add(1)\n"}}, ofExplore},

	// breaker: when it trips, who probes, what a result means.
	{"the probe is always the first witness of the list", []edit{{chooseGo, "candidates[i].Called < candidates[best].Called", "false"}}, ofBreaker},
	{"the probe stays with the witnesses when all are exhausted", []edit{{chooseGo, " || exhausted == witnesses", ""}}, ofBreaker},
	{"the probe is chosen before its retryAt", []edit{{chooseGo, "if now.Before(c.RetryAt) {", "if false {"}}, ofBreaker},
	{"a witness that can't be called is chosen", []edit{{chooseGo, "if !c.Callable {", "if !c.Callable && !c.Witness {"}}, ofBreaker},
	{"a success from before the trip closes", []edit{{breakerGo, "	case probe:\n		b.probing = false\n", "	case probe || b.state == Open:\n		b.probing = false\n"}}, ofBreaker},
	{"failures count while open", []edit{{breakerGo, "	} else if probe {\n", "	} else {\n"}}, ofBreaker},
	{"the later gate does not win", []edit{{breakerGo, "b.gate = latest(b.gate, gate,", "b.gate = latest(gate,"}}, ofBreaker},
	{"a single witness holds up all others for its own wait", []edit{{breakerGo, "if f.Alone || gate.IsZero() {", "if gate.IsZero() {"}}, ofBreaker},
	{"two probes at a time", []edit{{breakerGo, "!b.probing && !now.Before", "!now.Before"}}, ofBreaker},
	{"a probe before the gate", []edit{{breakerGo, " && !now.Before(b.gate)", ""}}, ofBreaker},
	{"a probe that is handed on keeps its slot", []edit{{breakerGo, "HandOn() { b.probing = false }", "HandOn() {}"}}, ofBreaker},
	{"a suspect counts for the breaker", []edit{{breakerGo, "if f.Again && b.cleared {", "if false {"}}, ofBreaker},
	{"a new record is a suspect", []edit{{breakerGo, "if f.Again && b.cleared {", "if b.cleared {"}}, ofBreaker},
	{"a success that began before the failure is evidence", []edit{{breakerGo, "	if s == now {\n", "	if s.sameState(now) {\n"}}, ofBreaker},
	{"a failure from before the last change of state counts", []edit{{breakerGo, "		if !current {\n", "		if !current && false {\n"}}, ofBreaker},
	{"retry now in the instant of the trip", []edit{{breakerGo, "b.gate = latest(now, b.shut.Add(shortestGate))", "b.gate = now"}}, ofBreaker},
	{"a ratio without a rolling window", []edit{{breakerGo, "settings.BucketPeriod = s.Window / windowBuckets", "settings.Interval = 0"}}, ofBreaker},

	// decide: epochs and order.
	{"the epoch of a result is not checked", []edit{{decideDir + "verdict.go", `	if p.gone {
		d.returned(now, p)
		return
	}
	stalled`, `	if p.gone {
		d.returned(now, p)
	}
	stalled`}}, ofDecide},
	{"the epoch of the store's answer is not checked", []edit{{decideDir + "assign.go", `	p.claimed = true
	if p.gone {
		return
	}
`, `	p.claimed = true
`}}, ofDecide},
	{"the epoch of an acknowledgement is not checked", []edit{{decideDir + "letters.go", `	if p.gone || l.written {
		return
	}
	back`, `	if l.written {
		return
	}
	back`}}, ofDecide},
	{"a partition that returns is called while its old call runs", []edit{{decideDir + "assign.go", "before: d.orphans[id]}", "before: nil}"}}, ofDecide},
	{"a late return frees no successor", []edit{{decideDir + "assign.go", "			q.before = nil\n", ""}}, ofDecide},
	{"a stalled handler is forgotten at the revoke", []edit{{decideDir + "assign.go", "if p.phase == Calling || p.phase == Stalled {", "if p.phase == Calling {"}}, ofDecide},
	{"a partition that is leaving is called", []edit{{decideDir + "permit.go", " || p.operator || p.leaving || p.before", " || p.operator || p.before"}}, ofDecide},
	{"a revoke does not wait for the call in hand", []edit{{decideDir + "assign.go", "if p.phase == Calling || p.phase == Noting ||", "if p.phase == Noting ||"}}, ofDecide},
	{"a revoke does not hand the probe on", []edit{{decideDir + "assign.go", "		p.call.Probe = false\n		p.scope.Breaker.HandOn()\n", "		p.call.Probe = false\n"}}, ofDecide},

	// decide: offsets and dead letters.
	{"the offset is stored before the DLQ has acknowledged", []edit{{decideDir + "part.go", "	return min(finished, p.unanswered.Load())\n", "	return finished\n"}}, ofDecide},
	{"offsets are stored in the order of the acknowledgements", []edit{{decideDir + "part.go", "	for len(p.letters) > 0 && p.letters[0].written {\n		p.letters = p.letters[1:]\n	}\n",
		"	for i := len(p.letters) - 1; i >= 0; i-- {\n		if p.letters[i].written {\n			p.letters = p.letters[i+1:]\n			break\n		}\n	}\n"}}, ofDecide},
	{"a lane does not wait for the letter of an exhausted record", []edit{{decideDir + "letters.go", "blocks: kind != dlq.Permanent && kind != dlq.PanicKind,", ""}}, ofDecide},
	{"any number of letters on their way", []edit{{decideDir + "part.go", "	return len(p.letters) >= bound ||", "	return"}}, ofDecide},
	{"a full bound of letters on their way pauses the client", []edit{{decideDir + "reasons.go", "	stopFetch = all\n	if len(", "	if len("}, {decideDir + "reasons.go", "	if !p.begun {", "	stopFetch = all\n	if !p.begun {"}}, ofDecide},
	{"a verdict is not kept while the DLQ is away", []edit{{decideDir + "letters.go", "	if l.saved {\n", "	if l.saved || true {\n"}}, ofDecide},
	{"a letter that failed is not written again", []edit{{decideDir + "letters.go", "	l.retryAt = now.Add(min(time.Second<<min(l.failures-1, 10), longestResend))\n	d.at(l.retryAt)\n", "	l.retryAt = now.Add(min(time.Second<<min(l.failures-1, 10), longestResend))\n"}}, ofDecide},
	{"n calls for n intervals", []edit{{decideDir + "verdict.go", "st.Wait(s.attempts)", "st.Wait(s.attempts + 1)"}}, ofDecide},
	{"one call too many", []edit{{decideDir + "verdict.go", "st.Wait(s.attempts)", "st.Wait(s.attempts - 1)"}}, ofDecide},
	{"a record found at its end is called once more", []edit{{decideDir + "assign.go", "	case s.exhausted:\n		s.verdict = dlq.Exhausted\n", ""}}, ofDecide},
	{"hold dead-letters what is exhausted", []edit{{decideDir + "letters.go", "st.OnExhausted() == strategy.Hold || !d.afford(now, p)", "!d.afford(now, p)"}}, ofDecide},
	{"hold dead-letters what is permanent", []edit{{decideDir + "letters.go", "	case st.OnPermanent() == strategy.Hold:\n		d.wait(now, p, forPerson)\n", ""}}, ofDecide},
	{"the budget allows one more", []edit{{decideDir + "letters.go", "d.spent < limit", "d.spent <= limit"}}, ofDecide},
	{"a success does not give the budget back", []edit{{decideDir + "verdict.go", "	d.spent, d.spentTold = 0, false\n", ""}}, ofDecide},
	{"a calm lane does not tell the success that gives the budget back", []edit{{decideDir + "desk.go", "return d.spent > 0 || d.shared", "return d.shared"}}, ofDecide},
	{"a stalled record is sent without a look at the budget", []edit{{decideDir + "letters.go", "case s.verdict == dlq.Exhausted && (st", "case s.verdict == dlq.Exhausted && !s.again && (st"}}, ofDecide},

	// decide: verdicts.
	{"a neutral outcome is counted", []edit{{decideDir + "verdict.go", "	case o.Kind == Transient:\n", "	case o.Kind == Transient, o.Kind == Neutral:\n"},
		{decideDir + "verdict.go", "	case o.Kind == Neutral:\n", "	case false:\n"}}, ofDecide},
	{"a panic is retried", []edit{{decideDir + "verdict.go", "	case o.Kind == Transient:\n", "	case o.Kind == Transient || o.Kind == Panic:\n"}}, ofDecide},
	{"a permanent error keeps the probe", []edit{{decideDir + "verdict.go", "	if p.call.Probe {\n		p.call.Probe = false\n		p.scope.Breaker.HandOn()\n	}\n", ""}}, ofDecide},
	{"a handler that outlived its time fails twice", []edit{{decideDir + "verdict.go", "	case stalled:\n", "	case false:\n"}}, ofDecide},
	{"the late nil of a call that failed tells the breaker of a success", []edit{{decideDir + "verdict.go", "closed := !late && p.scope", "closed := p.scope"}}, ofDecide},
	{"RetryAfter is not heeded", []edit{{decideDir + "verdict.go", "wait = max(wait, after)", "wait = max(wait, 0*after)"}}, ofDecide},

	// decide: waits and wake-ups.
	{"a held record is called before its retryAt", []edit{{decideDir + "permit.go", "	if now.Before(p.story.retryAt) {\n		d.at", "	if false {\n		d.at"}}, ofDecide},
	{"nobody wakes for a retryAt", []edit{{decideDir + "permit.go", "	if now.Before(p.story.retryAt) {\n		d.at(p.story.retryAt)\n", "	if now.Before(p.story.retryAt) {\n"}}, ofDecide},
	{"nobody wakes for the gate", []edit{{decideDir + "permit.go", "	if at.After(now) {\n		d.at(at)\n", "	if at.After(now) {\n"}}, ofDecide},
	{"nobody wakes for the first witness that is due", []edit{{decideDir + "permit.go", "		s.next = next\n		d.at(next)\n", "		s.next = next\n"}}, ofDecide},
	{"an instant that has passed is asked for again and again", []edit{{decideDir + "desk.go", "	d.wakeAt = time.Time{}\n", ""}}, ofExplore},
	{"what a success sets free is not called", []edit{{decideDir + "verdict.go", "	if closed {\n		d.everyone(now)\n	}\n", ""}}, ofDecide},
	{"a lane stays calm under an open breaker", []edit{{decideDir + "desk.go", "p.scope.Breaker.State() == breaker.Closed &&\n", "true &&\n"}}, ofDecide},
	{"a witness that an operator has paused keeps the probe", []edit{{decideDir + "permit.go", "return p.story.attempts > 0 && (p.phase == Noting || p.phase == Calling || d.callableOnceSaved(p))", "return p.story.attempts > 0 && p.phase != Empty"}}, ofDecide},

	// decide: the store.
	{"a call before the store has answered", []edit{{decideDir + "permit.go", "	p.story.saving = true\n", ""}}, ofDecide},
	{"an attempt does not go to the store", []edit{{decideDir + "verdict.go", "	d.save(p, p.entry(wait))\n", ""}}, ofDecide},
	{"what the store knew is not read", []edit{{decideDir + "permit.go", "	if len(p.known) > 0 {\n		d.recall(p)\n	}\n", ""}}, ofDecide},
	{"the store's wait shortens ours", []edit{{decideDir + "assign.go", "if retryAt.After(s.retryAt) {", "if true {"}}, ofDecide},
	{"another topic's record has our attempts", []edit{{decideDir + "part.go", "attempts.NewRecord(r.Offset, r.Timestamp)", "attempts.NewRecord(r.Offset, time.Time{})"}}, ofDecide},
	{"any commit clears the store's entries away", []edit{{decideDir + "assign.go", "if offset >= p.inStore {", "if true {"}}, ofDecide},

	// decide: the crash guard.
	{"two calls at a time under the guard", []edit{{decideDir + "permit.go", "if p.phase == Noting || p.phase == Calling || p.phase == Clearing {", "if false {"}}, ofDecide},
	{"a call without a note under the guard", []edit{{decideDir + "permit.go", "	if !d.guard && p.story.deaths == 0 {\n", "	if true {\n"}}, ofDecide},
	{"the guard never ends", []edit{{decideDir + "assign.go", "	d.guard = false\n", ""}}, ofDecide},
	{"deaths have no limit", []edit{{decideDir + "assign.go", "e.Noted && e.Deaths >= d.crashLimit", "false"}}, ofDecide},
	{"a call that we cut short is a death", []edit{{decideDir + "permit.go", "	d.do(e)\n}\n\n// unbegin", "	_ = e\n}\n\n// unbegin"}}, ofDecide},

	// decide: the operator and the pauses.
	{"closing lifts an operator's pause", []edit{{decideDir + "verdict.go", "		p.scope.next, p.scope.prefer = time.Time{}, nil\n", "		p.scope.next, p.scope.prefer = time.Time{}, nil\n		for _, q := range d.parts {\n			q.operator = false\n		}\n"}}, ofDecide},
	{"a paused partition is called", []edit{{decideDir + "permit.go", " || p.operator || p.leaving", " || p.leaving"}}, ofDecide},
	{"retry now forgets which record was named", []edit{{decideDir + "operator.go", "		p.scope.prefer = p\n", ""}}, ofDecide},
	{"a skip costs budget", []edit{{decideDir + "letters.go", "	if kind != dlq.Skipped {\n		d.spent++\n	}\n", "	d.spent++\n"}}, ofDecide},
	{"a skip needs budget after a restart", []edit{{decideDir + "letters.go", "	case s.verdict == dlq.Skipped:\n		d.send(now, p, s.verdict, \"\")\n", ""}}, ofDecide},
	{"the client is resumed while a held record is called", []edit{{decideDir + "part.go", "return p.phase != Empty && (p.story.attempts", "return p.phase == Waiting && (p.story.attempts"}}, ofDecide},

	// consumer: the loop around the deciders, in virtual time.
	{"consumer: the reason to pause is forgotten when a partition comes again", []edit{{"consumer/rebalance.go", "			delete(c.lanes, l.id())\n", "			delete(c.lanes, l.id())\n			delete(c.told, l.id())\n"}},
		ofConsumer("TestPartitionThatReturnsIsNotLeftPausedByItsPast|TestOperatorsPauseOutlives")},
	{"consumer: an operator's pause is forgotten when a partition comes again", []edit{{"consumer/rebalance.go", "		if c.wish(p) {\n", "		if false {\n"}},
		ofConsumer("TestOperatorsPauseOutlives|TestPauseOfAllHolds")},
	{"consumer: a pause that the client lost is not repeated", []edit{{"consumer/pause.go", "			l.leaked = false\n			c.told[p] = false\n", "			l.leaked = false\n"}},
		ofConsumer("TestRecordFromAPausedPartition")},
	{"consumer: what is read is stored", []edit{{"consumer/poll.go", "	done := l.part.Storable()\n", "	done := l.expected\n"}},
		ofConsumer("TestOffsetIsStoredOnlyWhen")},
	{"consumer: a revoke drops the record in hand", []edit{{"consumer/rebalance.go", "	if !lost {\n		c.drain", "	if false {\n		c.drain"}},
		ofConsumer("TestRevokeWaitsForTheRecordInHand")},
	{"consumer: a revoke stores and does not commit", []edit{{"consumer/rebalance.go", "	committed := c.commitNow(time.Until(deadline))\n", "	var committed chan struct{}\n"}},
		ofConsumer("TestRevokeWaitsForTheRecordInHand")},
	{"consumer: a partition is called before its start is committed", []edit{{"consumer/start.go", "		if !s.mine {\n			c.desk.Begun(now, l.part)\n			return\n		}\n", "		c.desk.Begun(now, l.part)\n		if !s.mine {\n			return\n		}\n"}},
		ofConsumer("TestNothingIsCalledBeforeTheStart")},
	{"consumer: no answer is taken for none committed", []edit{{"consumer/start.go", "	if err != nil {\n		return nil\n	}\n	low", "	if err != nil {\n		committed, deadline = plain(parts), time.Now().Add(timeout)\n	}\n	low"}},
		ofConsumer("TestALookUpWithoutAnAnswer")},
	{"consumer: the poll goroutine commits", []edit{{"consumer/committer.go", "	select {\n	case k.asked <- done:\n		return done\n	default:\n		return nil\n	}\n", "	k.commit()\n	close(done)\n	return done\n"}},
		ofConsumer("TestCommitThatHangs")},
	{"consumer: a silent partition is not revived", []edit{{"consumer/watchdog.go", ">= quietLimit<<min(l.revivals, maxDistance) {", "< 0 {"}},
		ofConsumer("TestWatchdogRevives")},
	{"consumer: a gap is jumped over in silence", []edit{{"consumer/gap.go", "	case low > l.expected:\n		c.gap(l, l.expected, low)\n", "	case low > l.expected:\n"}},
		ofConsumer("TestGapThatRetention")},
	{"consumer: our own cancel is a failure", []edit{{"consumer/lane.go", "	if l.ours.Load() {\n		return decide.Outcome", "	if false {\n		return decide.Outcome"}},
		ofConsumer("TestOurOwnCancel|TestCallThatAShutdownCutsShort")},
	{"consumer: nobody rings when time alone changes something", []edit{{"consumer/consumer.go", "	c.alarm.Reset(max(0, time.Until(at)))\n", ""}},
		ofConsumer("TestOutageOfOnePartition")},
	{"consumer: a handler that outlives its time is not noticed", []edit{{"consumer/lane.go", "				l.c.desk.Outlived(now, l.part, l.outlived())\n", ""}},
		ofConsumer("TestHandlerThatOutlivesItsTime")},
	{"consumer: what the store did not take is forgotten", []edit{{"consumer/keeper.go", "		k.keep(l.id(), r, unsaved{e, at}, err)\n", "		k.keep(l.id(), r, unsaved{e, at}, nil)\n"}},
		ofConsumer("TestWhatTheStoreDidNotTake")},
	{"consumer: intake without a bound", []edit{{"consumer/pause.go", "want := l.stopped || l.full && (!c.slow || c.told[p])", "want := l.stopped"}},
		ofConsumer("TestMemoryStaysWithinTheBudget|TestSlowHandlerIsHeldBack")},
	{"consumer: each lane exceeds its share by a batch", []edit{{"consumer/poll.go", "c.slow || c.brimming ||", "c.slow ||"}}, ofConsumer("TestManyPartitions")},
	{"consumer: a short wait throws the prefetch away", []edit{{"consumer/pause.go", "	return !crowd.flows", "	return false && !crowd.flows"}}, ofConsumer("TestShortWaits")},
	{"consumer: what flows is slowed down", []edit{{"consumer/pause.go", "return !crowd.flows &&", "return"}}, ofConsumer("TestFullLaneThatWaits")},
	{"consumer: a wait that goes on is polled through", []edit{{"consumer/pause.go", " && now.Sub(c.crowdedSince) < decide.ShortWait", ""}}, ofConsumer("TestShortWaitThatGoesOn")},
	{"consumer: a shutdown drops the record in hand", []edit{{"consumer/run.go", "	if c.fatal == nil {\n		c.drain", "	if false {\n		c.drain"}},
		ofConsumer("TestShutdownFinishesTheRecordInHand")},
	{"consumer: what was known before a note goes with it", []edit{{"consumer/keeper.go", "		if before.Attempts > 0 {\n", "		if false {\n"}}, ofConsumer("TestCounts")},
	{"our own note is an attempt more", []edit{{decideDir + "assign.go", "s.noted && e.Noted && e.Attempts <= p.call.Attempt {", "false {"}}, ofDecide},
	{"consumer: a time-out ends the call that came after", []edit{{"consumer/lane.go", "	if l.current.Load() == m && l.asked.Load() == asked {\n", "	if true {\n"}}, ofConsumer("TestTimeOutEndsNoOtherCall")},
	{"consumer: a lag that is seen once is one", []edit{{"consumer/watchdog.go", "	if !l.behind {\n", "	if false {\n"}}, ofConsumer("TestWatchdogLooksTwice")},
	{"consumer: a record kept aside is a sign of a lost pause", []edit{{"consumer/gap.go", "	l.paused = false", "	_ = 0"}}, ofConsumer("TestPartitionFlowsOnAtOnceAfterAGap")},
	{"consumer: a gap jumps to the record that came", []edit{{"consumer/gap.go", "	case low > l.expected:\n", "	case first > l.expected:\n		next = first\n	case low > l.expected:\n"}}, ofConsumer("TestGapThatRetention")},
	{"consumer: calls that run when the guard begins are not seen", []edit{{decideDir + "assign.go", "ok && q.phase == Empty {", "ok && false {"}}, ofConsumer("TestCallsThatRun")},

	// consumer: what random schedules of the whole find, with nobody having thought of the case.
	{"random: a start is not committed before the first record", []edit{{"consumer/start.go", "		if !s.mine {\n", "		if true {\n"}}, ofRandom},
	{"random: a handler that hangs is waited for", []edit{{"consumer/lane.go", "	if age >= l.c.cfg.HandlerTimeout+stallAfter {", "	if false {"}}, ofRandom},
	{"random: two calls of one record count as one that hangs", []edit{{"consumer/lane.go", "m != l.seen || asked != l.seenAsked {", "m != l.seen {"}}, ofRandom},
	{"random: a note is not taken back in the store", []edit{{"consumer/keeper.go", "err := k.store().Unnote(ctx, k.c.group, l.id(), r)", "err := error(nil)"}}, ofRandom},
	{"random: backpressure is forgotten", []edit{{"consumer/pause.go", "want := l.stopped || l.full && (!c.slow || c.told[p])", "want := l.stopped"}}, ofRandom},
	{"random: the watchdog sleeps", []edit{{"consumer/watchdog.go", "	l.revivals++\n", "	l.revivals++\n	if true {\n		return\n	}\n"}}, ofRandom},
	{"random: a dead letter that failed is done", []edit{{"consumer/postal.go", "		if err != nil {\n", "		if false {\n"}}, ofRandom},
	{"random: a dead letter does not hold back what may be stored", []edit{{decideDir + "part.go", "	return min(finished, p.unanswered.Load())\n", "	return finished\n"}}, ofRandom},
	{"random: a revoke waits for a handler as long as it takes", []edit{{"consumer/rebalance.go", "if !c.serve(drained, time.Until(deadline)-2*grace) {", "if !c.serve(drained, time.Hour) {"}}, ofRandom},
}
