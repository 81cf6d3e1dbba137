package decide

import (
	"errors"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// The laws that the deciders carry, in their order.

func TestLaw1_OnlyWhatIsDoneMayBeStored(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.storable(0, -1)
	s.calledAfter(0, sec)
	s.slowDLQ = true
	s.fail(0)
	s.letters("exhausted")
	s.storable(0, 10)
	s.acknowledge(errors.New("away"))
	s.storable(0, 10)
	s.pass(sec)
	s.acknowledge(nil)
	s.storable(0, 11)
}

func TestLaw1_ACalmLaneStoresWhatItHasFinished(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.parts[0].Finish(40)
	s.storable(0, 40)
	s.next[0] = 40
	s.offer(0)
	s.slowDLQ = true
	s.result(0, permanent)
	s.storable(0, 40)
	s.acknowledge(nil)
	s.storable(0, 41)
}

func TestLaw1_NothingIsCalledBeforeTheStartIsCommitted(t *testing.T) {
	s := stage(t, simple("[1]", ""))
	p := s.d.Assign(attempts.Partition{Topic: "orders"}, nil)
	s.parts, s.next = []*Part{p}, []int64{10}
	s.claimed(0, attempts.Loaded{})
	if p.Calm() {
		t.Error("it flows")
	}
	s.offer(0)
	s.only()
	s.reasons(0, ByStart)
	s.d.Begun(s.now, p)
	s.only(0)
}

func TestLaw1_APartitionWithoutAStartCallsNothing(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.d.Refuse(s.parts[0], errors.New("auto.offset.reset is error"))
	if s.parts[0].Calm() {
		t.Error("it flows")
	}
	s.offer(0)
	s.only()
	s.reasons(0, ByStart)
}

func TestLaw4_TakingAwayOneReasonLiftsNoOther(t *testing.T) {
	s := play(t, simple("[5]", ""), 2)
	s.d.Pause(s.parts[1])
	s.offer(0)
	s.fail(0)
	s.reasons(1, ByBreaker|ByOperator)
	s.d.Resume(s.now, s.parts[1])
	s.reasons(1, ByBreaker)
	s.d.Pause(s.parts[1])
	s.calledAfter(0, 5*sec)
	s.succeed(0)
	s.reasons(1, ByOperator)
	s.offer(1)
	s.only()
	s.d.Resume(s.now, s.parts[1])
	s.only(1)
}

func TestLaw4_WhatStopsTheFetching(t *testing.T) {
	stops := func(s *scene, i int, hasRecord bool) Reason {
		_, stop := s.d.Reasons(s.parts[i], hasRecord)
		return stop
	}
	t.Run("an open breaker, once the lane has a record", func(t *testing.T) {
		s := play(t, simple("[5]", ""), 2)
		s.offer(0)
		s.fail(0)
		if stops(s, 1, false) != 0 || stops(s, 1, true) != ByBreaker {
			t.Error("an empty lane takes one record, and no more")
		}
	})
	t.Run("not for a short wait", func(t *testing.T) {
		s := play(t, simple("[0.5]", ""), 2)
		s.offer(0)
		s.fail(0)
		if stops(s, 0, true) != 0 || stops(s, 1, true) != 0 {
			t.Error("a wait of less than a second stops the fetching")
		}
	})
	t.Run("a held record, also while it is called again", func(t *testing.T) {
		s := play(t, simple("[5]", `"breaker": {"consecutiveFailures": 9}`), 1)
		s.offer(0)
		s.fail(0)
		if stops(s, 0, true) != ByHeld {
			t.Error("it fetches")
		}
		s.calledAfter(0, 5*sec)
		if stops(s, 0, true) != ByHeld {
			t.Error("the pause ends for the time of a call")
		}
	})
	t.Run("not the bound of letters on their way: it is over with the broker's answer, and a pause throws the prefetch away", func(t *testing.T) {
		s := play(t, simple("[5]", ""), 1)
		s.slowDLQ = true
		for range 2 { // the bound of the scene
			s.offer(0)
			s.result(0, permanent)
		}
		s.offer(0)
		s.only()
		s.reasons(0, ByDLQ)
		if stops(s, 0, true) != 0 {
			t.Error("it stops the fetching")
		}
		s.acknowledge(nil)
		s.only(0)
	})
	t.Run("the DLQ", func(t *testing.T) {
		s := play(t, simple("[5]", ""), 1)
		s.slowDLQ = true
		s.offer(0)
		s.result(0, permanent)
		if stops(s, 0, false) != 0 {
			t.Error("a letter on its way stops the fetching")
		}
		s.acknowledge(errors.New("away"))
		if stops(s, 0, false) != ByDLQ {
			t.Error("a letter that was not written does not")
		}
	})
}

func TestLaw5_ANewPartitionObeys(t *testing.T) {
	s := play(t, simple("[5]", ""), 1)
	s.offer(0)
	s.fail(0)
	i := s.assign()
	s.claimed(i, attempts.Loaded{})
	if s.parts[i].Calm() {
		t.Error("it flows")
	}
	s.reasons(i, ByBreaker)
	s.offer(i)
	s.only()
	s.calledAfter(i, 5*sec) // as the probe
	s.only(i)
}

func TestLaw5_APartitionThatReturnsIsNotPausedByItsPast(t *testing.T) {
	s := play(t, simple("[5]", ""), 2)
	s.offer(0)
	s.fail(0)
	s.d.Drop(s.now, s.parts[1])
	s.calledAfter(0, 5*sec)
	s.succeed(0)
	s.again(1, attempts.Loaded{})
	s.reasons(1, 0)
	s.flows(1)
}

func TestLaw6_NIntervalsMakeNPlusOneCallsAndOneDeadLetter(t *testing.T) {
	s := play(t, simple("[1, 2, 4]", ""), 1)
	s.offer(0)
	calls := 1
	for s.parts[0].phase == Calling {
		if s.parts[0].Call().Attempt != calls {
			t.Errorf("call %d is attempt %d", calls, s.parts[0].Call().Attempt)
		}
		s.fail(0)
		if s.wait(0) != never {
			calls++
		}
	}
	if calls != 4 {
		t.Errorf("%d calls", calls)
	}
	s.letters("exhausted")
}

func TestLaw6_ARecordFoundAtItsEndIsDeadLetteredWithoutACall(t *testing.T) {
	entry := attempts.Entry{Attempts: 3, Wait: time.Hour, LastError: "down"}
	for name, c := range map[string]struct {
		json    string
		letters []string
	}{
		"where dlq and the budget allow": {simple("[1, 2]", ""), []string{"exhausted"}},
		"not with hold":                  {simple("[1, 2]", `"onExhausted": "hold"`), nil},
		"not without budget":             {simple("[1, 2]", `"dlqBudget": 0`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, c.json)
			s.claimed(s.assign(), stored(10, entry))
			s.offer(0)
			s.only()
			s.letters(c.letters...)
			if c.letters == nil {
				s.calledAfter(0, time.Hour) // it goes on
			}
		})
	}
}

func TestLaw7_NeverBeforeItsRetryAtNorBeforeTheGate(t *testing.T) {
	s := play(t, simple("[2, 7]", ""), 2)
	s.offer(0, 1)
	s.fail(0)
	s.pass(sec)
	s.fail(1)
	s.calledAfter(0, 2*sec) // its own time was up a second ago: the gate
	s.succeed(0)
	s.only(1)
	s.fail(1) // a suspect, so the breaker stays closed
	s.breaker(breaker.Closed)
	s.calledAfter(1, 7*sec)
}

func TestLaw7_AGateDoesNotOutliveTheProcessAndARetryAtDoes(t *testing.T) {
	s := stage(t, simple("[60, 60]", ""))
	s.claimed(s.assign(), stored(10, attempts.Entry{Attempts: 1, Wait: 30 * sec}))
	s.claimed(s.assign(), attempts.Loaded{})
	s.offer(0, 1)
	s.only(1) // each lane may make one call before the trip
	s.succeed(1)
	s.calledAfter(0, 30*sec)
	if s.parts[0].Call().Attempt != 2 {
		t.Errorf("%+v", s.parts[0].Call())
	}
}

func TestLaw7_RetryAfterIsHeededWhereItIsLonger(t *testing.T) {
	for name, c := range map[string]struct{ after, want time.Duration }{
		"longer":         {9 * sec, 9 * sec},
		"shorter":        {sec / 2, sec},
		"absurdly long":  {1000 * 24 * time.Hour, strategy.MaxWait},
		"at the longest": {strategy.MaxWait, strategy.MaxWait},
	} {
		for breaks, more := range map[string]string{"and the breaker opens": "", "and it holds its lane alone": `"breaker": {"consecutiveFailures": 9}`} {
			t.Run(name+" "+breaks, func(t *testing.T) {
				s := play(t, simple("[1, 4]", more), 1)
				s.offer(0)
				o := transient
				o.RetryAfter = c.after
				s.result(0, o)
				s.calledAfter(0, c.want)
				if e := s.lastSave(); e.Wait != c.want {
					t.Errorf("saved %+v", e)
				}
			})
		}
	}
}

func TestLaw7_ATickThatComesEarlyForgetsNothing(t *testing.T) {
	for name, arrange := range map[string]func(s *scene){
		"a held record":           func(s *scene) { s.offer(0, 1); s.succeed(1); s.d.Pause(s.parts[1]); s.fail(0) },
		"a gate with others":      func(s *scene) { s.offer(0, 1, 2); s.fail(0); s.fail(1); s.d.Pause(s.parts[2]) },
		"a witness past the gate": func(s *scene) { s.offer(0); s.fail(0); s.calledAfter(0, sec); s.fail(0) },
		"a letter": func(s *scene) {
			s.slowDLQ = true
			s.offer(0)
			s.result(0, permanent)
			s.acknowledge(errors.New("away"))
		},
		"the guard": func(s *scene) {
			s.claimed(2, attempts.Loaded{ForeignMark: true})
			s.offer(0)
			s.fail(0)
		},
	} {
		for breaks, more := range map[string]string{"open": "", "closed": `"breaker": {"consecutiveFailures": 9}`} {
			t.Run(name+" "+breaks, func(t *testing.T) {
				s := play(t, simple("[1, 60]", more), 3)
				arrange(s)
				want := s.d.WakeAt()
				s.d.Tick(s.now)
				s.pump()
				if got := s.d.WakeAt(); want.IsZero() || !got.Equal(want) {
					t.Errorf("it wants to be woken at %v, and before the tick at %v", got, want)
				}
			})
		}
	}
}

func TestLaw8_TheLaterRetryAtWins(t *testing.T) {
	t.Run("of the store and of us", func(t *testing.T) {
		s := play(t, simple("[10, 20]", `"breaker": {"consecutiveFailures": 9}`), 1)
		s.offer(0)
		s.fail(0)
		s.claimed(0, stored(10, attempts.Entry{Attempts: 2, Wait: sec})) // the store comes back late
		s.calledAfter(0, 10*sec)
		if s.parts[0].Call().Attempt != 3 {
			t.Errorf("the larger count holds: %+v", s.parts[0].Call())
		}
	})
	t.Run("an edit does not shorten a wait that runs", func(t *testing.T) {
		s := play(t, simple("[10]", ""), 1)
		s.offer(0)
		s.fail(0)
		s.strat.Strategy = strategy.MustParse(simple("[1]", ""))
		s.d.Reloaded(s.now)
		s.calledAfter(0, 10*sec)
	})
	t.Run("a late failure with a shorter wait", func(t *testing.T) {
		s := play(t, simple("[1]", ""), 2)
		s.offer(0, 1)
		o := transient
		o.RetryAfter = 10 * sec
		s.result(0, o)
		s.fail(1)
		s.calledAfter(0, 10*sec)
	})
}

func TestLaw9_OneProbeOverAllLanes(t *testing.T) {
	s := play(t, simple("[1]", ""), 3)
	s.offer(0)
	s.fail(0)
	s.offer(1, 2)
	s.calledAfter(1, sec)
	s.pass(time.Hour)
	s.only(1)
}

func TestLaw9_NeitherTimeNorADeadLetterCloses(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.fail(0)
	s.letters("exhausted")
	s.pass(time.Hour)
	s.breaker(breaker.Open)
}

func TestLaw9_ABreakerForEachPartition(t *testing.T) {
	s := play(t, simple("[1, 5]", `"breaker": {"scope": "partition"}`), 3)
	s.offer(0, 1)
	s.fail(0)
	s.fail(1)
	s.flows(2)
	s.pass(sec)
	s.only(0, 1) // a probe each
	s.succeed(0)
	s.fail(1)
	s.flows(0)
	s.reasons(1, ByBreaker|ByHeld)
	s.calledAfter(1, 5*sec)
	s.succeed(1)
	s.flows(1)
}

func TestLaw10_AResultOfAnOlderEpochDoesNothing(t *testing.T) {
	for name, o := range map[string]Outcome{"success": success, "transient": transient, "permanent": permanent, "panic": panicked, "neutral": neutral} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[1]", ""), 2)
			s.offer(0, 1)
			s.d.Drop(s.now, s.parts[0])
			s.pump()
			s.result(0, o)
			s.breaker(breaker.Closed)
			s.storable(0, -1)
			s.letters()
			if len(s.saves) > 0 || len(s.d.Parts()) != 1 {
				t.Errorf("%d saves, %d partitions", len(s.saves), len(s.d.Parts()))
			}
		})
	}
}

func TestLaw10_LateAnswersForAnOlderEpochDoNothing(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.slowStore, s.slowDLQ = true, true
	s.offer(0)
	s.result(0, permanent)
	s.offer(0)
	s.fail(0)
	old, letter := s.parts[0], s.sending[0]
	s.next[0]--
	s.d.Drop(s.now, old)
	s.again(0, attempts.Loaded{})
	s.offer(0)
	s.answer()
	s.d.Claimed(s.now, old, &attempts.Loaded{ForeignMark: true})
	s.d.Committed(s.now, old, 99)
	s.d.LetterFailed(s.now, old, letter, errors.New("away"))
	s.d.LetterWritten(s.now, old, letter)
	s.outlive(0)
	s.d.Outlived(s.now, old, transient)
	s.pump()
	if s.d.Guard() || len(s.forgotten) > 0 || old.Storable() != 10 {
		t.Error("the past has come back")
	}
}

func TestLaw11_NoCallBeforeTheStoreHasAnswered(t *testing.T) {
	s := play(t, simple("[1, 1]", ""), 2)
	s.slowStore = true
	s.offer(0)
	s.fail(0)
	s.pass(5 * sec)
	s.only()
	s.offer(1)
	s.only(1) // another is not in its way
	s.result(1, permanent)
	s.answer()
	s.only(0)
}

func TestLaw11_ARetryNowWaitsForTheStoreToo(t *testing.T) {
	for name, o := range map[string]Outcome{"held for its time": transient, "held for a person": permanent} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[60, 60]", `"onPermanent": "hold"`), 2)
			s.slowStore = true
			s.offer(0, 1)
			s.result(0, o)
			s.fail(1)
			s.offer()
			if err := s.d.RetryNow(s.now, s.parts[0]); err != nil {
				t.Fatal(err)
			}
			s.pass(sec)
			s.only()
			s.answer()
			s.only(0)
		})
	}
}

func TestLaw11_AttemptsAndTheWaitSurvive(t *testing.T) {
	s := stage(t, simple("[1, 2, 4]", ""))
	s.claimed(s.assign(), stored(10, attempts.Entry{Attempts: 2, Wait: sec, FirstFailed: time.Unix(5, 0), FirstError: "first", LastError: "last"}))
	if s.parts[0].Calm() {
		t.Error("what the store knows has to be held against the first record")
	}
	s.offer(0)
	s.calledAfter(0, sec)
	if first, last := s.parts[0].History(); s.parts[0].Call().Attempt != 3 || !first.Equal(time.Unix(5, 0)) || last != "last" {
		t.Errorf("%+v, %v, %q", s.parts[0].Call(), first, last)
	}
	s.fail(0)
	if e := s.lastSave(); e.Attempts != 3 || e.Wait != 4*sec || e.FirstError != "first" || e.LastError != "down" {
		t.Errorf("%+v", e)
	}
}

func TestLaw11_WhatTheStoreKnowsOfAnotherRecordIsNotTaken(t *testing.T) {
	for name, l := range map[string]attempts.Loaded{
		"of another topic of this name": {Entries: map[attempts.Record]attempts.Entry{attempts.NewRecord(10, time.UnixMilli(7)): {Attempts: 9}}},
		"of one that is done":           stored(9, attempts.Entry{Attempts: 9}),
		"of one that is still to come":  stored(11, attempts.Entry{Attempts: 9}),
	} {
		t.Run(name, func(t *testing.T) {
			s := stage(t, simple("[1]", ""))
			s.claimed(s.assign(), l)
			s.offer(0)
			s.only(0)
			if s.parts[0].Call().Attempt != 1 {
				t.Errorf("%+v", s.parts[0].Call())
			}
		})
	}
}

func TestLaw11_WhatTheStoreHoldsIsForgottenWithTheCommitThatCoversIt(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.d.Committed(s.now, s.parts[0], 10)
	s.pump()
	if len(s.forgotten) > 0 {
		t.Error("nothing was stored")
	}
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.d.Committed(s.now, s.parts[0], 10) // while the record is called again
	s.succeed(0)
	s.d.Committed(s.now, s.parts[0], 10) // an earlier commit, acknowledged late
	s.pump()
	before := len(s.forgotten)
	s.d.Committed(s.now, s.parts[0], 11)
	s.pump()
	if len(s.forgotten) != before+1 || s.forgotten[before].Below != 11 {
		t.Errorf("forgotten %+v", s.forgotten)
	}
	s.d.Committed(s.now, s.parts[0], 12)
	s.pump()
	if len(s.forgotten) != before+1 {
		t.Error("and once")
	}
}

func TestLaw12_AStoreThatIsAwayCostsOnlyItsMemory(t *testing.T) {
	s := stage(t, simple("[1]", ""))
	s.slowStore = true
	i := s.assign()
	s.d.Claimed(s.now, s.parts[i], nil)
	s.flows(i)
	s.offer(i)
	s.fail(i)
	s.d.Saved(s.now, s.parts[i], at(10).id(), attempts.Entry{Attempts: 77, Wait: time.Hour}, attempts.ErrAway)
	s.pump()
	s.calledAfter(i, sec)
	if s.parts[i].Call().Attempt != 2 {
		t.Errorf("%+v", s.parts[i].Call())
	}
	s.fail(i)
	s.letters("exhausted")
}

func TestLaw12_AStoreThatComesBackLate(t *testing.T) {
	claim := stored(10, attempts.Entry{Attempts: 2, Wait: 5 * sec})
	t.Run("while the record is called", func(t *testing.T) {
		s := play(t, simple("[1, 2, 4]", ""), 1)
		s.offer(0)
		s.claimed(0, claim)
		s.fail(0)
		if e := s.lastSave(); e.Attempts != 3 || e.Wait != 4*sec {
			t.Errorf("%+v", e)
		}
	})
	t.Run("while a calm lane calls the record", func(t *testing.T) {
		s := play(t, simple("[1, 2, 4]", `"breaker": {"consecutiveFailures": 9}`), 1)
		stamp := s.parts[0].Stamp()
		s.claimed(0, claim) // the lane is in its call, and the desk does not know of it yet
		s.d.Adopt(s.parts[0], at(10), s.now, stamp)
		s.fail(0)
		if e := s.lastSave(); e.Attempts != 3 || e.Wait != 4*sec {
			t.Errorf("%+v", e)
		}
	})
	t.Run("when the record is done and its note is being taken back", func(t *testing.T) {
		s := guarded(t, simple("[1, 2]", ""), attempts.Loaded{})
		s.offer(0)
		s.slowStore = true
		s.succeed(0)
		s.phases(Clearing)
		s.claimed(0, stored(10, attempts.Entry{Attempts: 1, Deaths: 1, Noted: true}))
		s.reasons(0, 0)
	})
	t.Run("with the answer to a write", func(t *testing.T) {
		s := play(t, simple("[1, 2]", ""), 1)
		s.slowStore = true
		s.offer(0)
		s.fail(0)
		s.d.Saved(s.now, s.parts[0], at(10).id(), attempts.Entry{Attempts: 3, Wait: 5 * sec}, nil)
		s.pump()
		s.letters("exhausted") // found with n+1 attempts
	})
	t.Run("with a verdict, while the record is called", func(t *testing.T) {
		s := play(t, simple("[1, 2]", ""), 1)
		s.offer(0)
		s.claimed(0, stored(10, attempts.Entry{Attempts: 1, Verdict: "permanent"}))
		s.fail(0)
		s.letters()
		s.calledAfter(0, 2*sec)
	})
}

func TestLaw13_TheDLQIsAway(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.slowDLQ = true
	s.offer(0)
	s.result(0, permanent)
	s.acknowledge(errors.New("away"))
	s.reasons(0, ByDLQ)
	if e := s.lastSave(); e.Verdict != "permanent" || e.Attempts != 1 || e.Wait != 0 {
		t.Errorf("the verdict goes to the store: %+v", e)
	}
	s.offer(0)
	s.only()
	for _, wait := range []time.Duration{1, 2, 4, 8, 15, 15} {
		s.pass(wait*sec - 1)
		if len(s.sending) > 0 {
			t.Errorf("written again earlier than %d s", wait)
		}
		s.pass(1)
		if len(s.sending) != 1 {
			t.Fatalf("not written again after %d s", wait)
		}
		s.acknowledge(errors.New("away"))
	}
	if s.told(observe.DeadLetterFailed) != 1 || len(s.saves) != 1 {
		t.Errorf("told %d times, saved %d times", s.told(observe.DeadLetterFailed), len(s.saves))
	}
	s.pass(15 * sec)
	s.acknowledge(nil)
	s.storable(0, 11)
	s.only(0)
	if s.told(observe.DeadLettersBack) != 1 {
		t.Error("it was not told that it is back")
	}
}

func TestLaw13_AVerdictOutlivesTheProcess(t *testing.T) {
	for _, kind := range []string{"permanent", "panic", "exhausted", "crash", "skipped"} {
		t.Run(kind, func(t *testing.T) {
			s := stage(t, simple("[1, 1, 1]", ""))
			s.claimed(s.assign(), stored(10, attempts.Entry{Attempts: 1, Verdict: kind, LastError: "bad"}))
			s.offer(0)
			s.only()
			s.letters(kind)
			if s.sent[0].LastError != "bad" || s.sent[0].Attempts != 1 {
				t.Errorf("%+v", s.sent[0])
			}
		})
	}
}

func TestLaw13_ASkipThatOutlivesTheProcessNeedsNoPersonAgain(t *testing.T) {
	s := stage(t, simple("[1]", `"onPermanent": "hold", "dlqBudget": 0`))
	s.claimed(s.assign(), stored(10, attempts.Entry{Attempts: 1, Verdict: "skipped"}))
	s.offer(0)
	s.letters("skipped")
}

func TestLaw15_ALaneGoesOnWhilePermanentRecordsAreOnTheirWay(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.slowDLQ = true
	s.offer(0)
	s.result(0, permanent)
	s.storable(0, 10)
	s.offer(0)
	s.only(0) // one is on its way
	s.succeed(0)
	s.storable(0, 10) // stored in order all the same
	s.offer(0)
	s.result(0, permanent)
	s.offer(0)
	s.only() // two are: the bound
	s.reasons(0, ByDLQ)
	first, second := s.sending[0], s.sending[1]
	s.d.LetterWritten(s.now, s.parts[0], second)
	s.storable(0, 10)
	s.d.LetterWritten(s.now, s.parts[0], first)
	s.storable(0, 13)
	s.pump()
	s.only(0)
}

func TestLaw15_ALaneWaitsForALetterThatWasMoreThanAPermanentError(t *testing.T) {
	s := play(t, simple("[1]", ""), 2)
	s.slowDLQ = true
	s.offer(0, 1)
	s.fail(0)
	s.succeed(1)
	s.offer(1)
	s.calledAfter(1, sec)
	s.succeed(1)
	s.fail(0)
	s.letters("exhausted")
	s.offer(0)
	s.phases(Waiting)
	s.acknowledge(nil)
	s.phases(Calling)
}

func TestLaw15_ASuccessorWaitsForACallOfAnEarlierAssignment(t *testing.T) {
	for name, hang := range map[string]func(*scene){"that runs": func(*scene) {}, "that has outlived its time": func(s *scene) { s.outlive(0) }} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[1]", `"breaker": {"consecutiveFailures": 9}`), 1)
			s.offer(0)
			hang(s)
			first := s.parts[0]
			s.d.Drop(s.now, first)
			for range 3 { // however often it goes and comes
				s.again(0, attempts.Loaded{})
				if s.parts[0].Calm() {
					t.Error("it flows")
				}
				s.offer(0)
				s.pass(time.Hour)
				s.only()
				if s.d.RetryNow(s.now, s.parts[0]) == nil {
					t.Error("retried while the earlier call runs")
				}
				s.d.Drop(s.now, s.parts[0])
				s.pump()
			}
			s.again(0, attempts.Loaded{})
			s.offer(0)
			s.d.Result(s.now, first, success)
			s.pump()
			s.only(0)
			s.storable(0, -1)
		})
	}
}

func TestLaw15_ALaneThatEndedWithoutACallFreesItsSuccessor(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.calm(0) // announced, and then not called
	first := s.parts[0]
	s.d.Drop(s.now, first)
	s.again(0, attempts.Loaded{})
	s.d.Ended(s.now, first)
	s.flows(0)
}

func TestLaw18_OneBadRecordStopsItsOwnPartition(t *testing.T) {
	s := play(t, simple("[1, 5, 5, 5]", ""), 2)
	s.offer(0)
	s.fail(0) // its first failure costs the others one first interval
	s.offer(1)
	s.calledAfter(1, sec)
	s.succeed(1)
	for range 3 {
		s.wait(0)
		s.fail(0)
		s.breaker(breaker.Closed)
		s.offer(1)
		s.only(1)
		s.succeed(1)
	}
	s.wait(0)
	s.fail(0)
	s.letters("exhausted")
	s.breaker(breaker.Closed)
}

func TestLaw18_TheEvidenceIsLostWithTheNextFailureOfAnother(t *testing.T) {
	s := play(t, simple("[1, 5]", ""), 3)
	s.offer(0)
	s.fail(0)
	s.offer(1, 2)
	s.calledAfter(1, sec)
	s.succeed(1)
	s.only(0, 2)
	s.fail(2) // a new record: it is no suspect, and trips
	s.breaker(breaker.Open)
	s.fail(0) // began before; and the dependency may be down again
	s.breaker(breaker.Open)
	if s.told(observe.AlsoFailed) != 1 {
		t.Error("it was taken for a suspect")
	}
}

func TestBudget_BeyondItNothingIsWritten(t *testing.T) {
	s := play(t, simple("[1]", `"dlqBudget": 1`), 3)
	s.offer(0, 1)
	s.result(0, permanent)
	s.result(1, permanent)
	s.letters("permanent")
	s.phases(Empty, Waiting)
	s.reasons(1, ByDLQ)
	if e := s.lastSave(); e.Verdict != "permanent" || s.told(observe.BudgetSpent) != 1 {
		t.Errorf("%+v", e)
	}
	s.pass(time.Hour)
	s.only() // it is not called
	s.offer(2)
	s.succeed(2) // a success gives the budget back
	s.letters("permanent", "permanent")
	s.phases(Empty, Empty, Empty)
}

func TestBudget_AnExhaustedRecordIsTriedAtTheLastInterval(t *testing.T) {
	s := play(t, simple("[1, 7]", `"dlqBudget": 0`), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.fail(0)
	s.calledAfter(0, 7*sec)
	for range 3 {
		s.fail(0)
		s.calledAfter(0, 7*sec)
	}
	s.letters()
	s.strat.Strategy = strategy.MustParse(simple("[1, 7]", ""))
	s.fail(0)
	s.letters("exhausted")
}

func TestBudget_IsHeldAgainWhenTheLetterIsSent(t *testing.T) {
	s := play(t, simple("[1]", `"dlqBudget": 1, "breaker": {"scope": "partition"}`), 2)
	for i := range 2 {
		s.offer(i)
		s.fail(i)
	}
	s.pass(sec)
	s.only(0, 1)
	s.outlive(0) // both are exhausted, and each could afford its letter
	s.outlive(1)
	s.fail(0)
	s.fail(1)
	s.letters("exhausted")
	s.calledAfter(1, sec)
}

func TestBudget_ACalmLaneTellsTheSuccessThatGivesItBack(t *testing.T) {
	s := play(t, simple("[1]", `"dlqBudget": 1`), 2)
	if s.d.Wants() {
		t.Error("no success is wanted")
	}
	s.offer(0)
	s.result(0, permanent)
	if !s.d.Wants() {
		t.Error("a success would give the budget back")
	}
	s.calm(1)
	s.succeed(1)
	if s.d.Wants() || s.d.Spent() != 0 {
		t.Error("it did not")
	}
}

func TestHold_AnExhaustedRecordGoesOnForEver(t *testing.T) {
	s := play(t, simple("[1, 3]", `"onExhausted": "hold"`), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	for range 10 {
		s.fail(0)
		s.calledAfter(0, 3*sec)
	}
	s.letters()
}

func TestHold_APermanentRecordWaitsForAPerson(t *testing.T) {
	s := play(t, simple("[1, 3]", `"onPermanent": "hold"`), 2)
	s.offer(0)
	s.result(0, permanent)
	s.pass(time.Hour)
	s.only()
	s.letters()
	s.reasons(0, ByHeld)
	s.flows(1)
	if e := s.lastSave(); e.Verdict != "permanent" || s.told(observe.WaitsForPerson) != 1 {
		t.Errorf("%+v", e)
	}
	if err := s.d.RetryNow(s.now, s.parts[0]); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.only(0)
	s.result(0, permanent)
	s.phases(Waiting)
	if e := s.lastSave(); e.Attempts != 2 {
		t.Errorf("%+v", e)
	}
	if _, err := s.d.Skip(s.now, s.parts[0], 10, "a test"); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.letters("skipped")
	s.storable(0, 11)
}

func TestReload_AnEditSetsFreeWhatWaitedForAPerson(t *testing.T) {
	s := play(t, simple("[1]", `"onPermanent": "hold"`), 1)
	s.offer(0)
	s.result(0, permanent)
	s.strat.Strategy = strategy.MustParse(simple("[1]", `"dlqBudget": 0`))
	s.d.Reloaded(s.now)
	s.pump()
	s.letters()
	s.reasons(0, ByDLQ)
	s.strat.Strategy = strategy.MustParse(simple("[1]", ""))
	s.d.Reloaded(s.now)
	s.pump()
	s.letters("permanent")
	if len(s.saves) != 1 {
		t.Errorf("the verdict was saved %d times", len(s.saves))
	}
}

func TestReload_HoldKeepsWhatIsOnlyExhausted(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.outlive(0) // exhausted, and due for the DLQ once its handler returns
	s.strat.Strategy = strategy.MustParse(simple("[2]", `"onExhausted": "hold"`))
	s.fail(0)
	s.letters()
	s.calledAfter(0, sec)
}

func guarded(t *testing.T, json string, l attempts.Loaded) *scene {
	t.Helper()
	s := stage(t, json)
	l.ForeignMark = true
	s.claimed(s.assign(), l)
	s.claimed(s.assign(), attempts.Loaded{})
	return s
}

func TestGuard_OneCallAtATimeAndEachIsNotedFirst(t *testing.T) {
	s := guarded(t, simple("[1, 4]", ""), attempts.Loaded{})
	s.slowStore = true
	if s.parts[1].Calm() || s.told(observe.GuardOn) != 1 {
		t.Error("a partition flows under the guard")
	}
	s.offer(0, 1)
	s.phases(Noting, Waiting)
	if e := s.lastSave(); !e.Noted || e.Attempts != 1 || e.Deaths != 1 || e.Wait != sec {
		t.Errorf("noted %+v", e)
	}
	s.answer()
	s.phases(Calling, Waiting)
	s.succeed(0)
	s.phases(Clearing, Waiting)
	s.answer()
	s.phases(Empty, Noting)
	s.answer()
	s.offer(0)
	s.phases(Waiting, Calling)
	s.fail(1)
	if e := s.lastSave(); e.Noted || e.Attempts != 1 || e.Deaths != 0 {
		t.Errorf("the verdict replaces the note: %+v", e)
	}
}

func TestGuard_OurOwnNoteThatTheStoreTellsLateIsNoAttemptMore(t *testing.T) {
	s := guarded(t, simple("[1, 4]", ""), attempts.Loaded{})
	s.offer(0)
	s.phases(Calling, Empty)
	s.claimed(0, stored(10, attempts.Entry{Attempts: 1, Deaths: 1, Noted: true, Wait: sec}))
	s.fail(0)
	if e := s.lastSave(); e.Attempts != 1 || e.Deaths != 0 {
		t.Errorf("one call has failed, and the store is told %+v", e)
	}
}

func TestGuard_ADoneRecordHasNoNoteBeforeAnotherIsCalled(t *testing.T) {
	s := guarded(t, simple("[1]", ""), attempts.Loaded{})
	s.offer(0, 1)
	s.phases(Calling, Waiting)
	s.d.Result(s.now, s.parts[0], success)
	if s.parts[0].phase != Clearing || s.parts[1].phase != Waiting {
		t.Errorf("the store has not answered yet: %v, %v", s.parts[0].phase, s.parts[1].phase)
	}
	if s.parts[0].Storable() != 11 {
		t.Error("the record is done all the same")
	}
	s.pump()
	s.phases(Empty, Calling)
	if len(s.unnoted) != 1 {
		t.Errorf("%d notes taken back", len(s.unnoted))
	}
}

func TestGuard_GoesOnWithoutAStore(t *testing.T) {
	s := guarded(t, simple("[1]", ""), attempts.Loaded{})
	s.slowStore = true
	s.offer(0)
	s.d.Saved(s.now, s.parts[0], at(10).id(), attempts.Entry{}, attempts.ErrAway)
	s.only(0)
}

func TestGuard_EndsWithTheFirstCommit(t *testing.T) {
	s := guarded(t, simple("[1]", ""), attempts.Loaded{})
	s.offer(0)
	s.d.Committed(s.now, s.parts[1], 5)
	if !s.d.Guard() {
		t.Error("another partition's commit ends it just before the record that may kill")
	}
	s.succeed(0)
	s.d.Committed(s.now, s.parts[0], 11)
	s.pump()
	if s.d.Guard() || s.told(observe.GuardOff) != 1 {
		t.Error("it does not end")
	}
	s.flows(0)
	s.flows(1)
	if len(s.forgotten) != 1 {
		t.Error("the note is not cleared away")
	}
}

func TestGuard_ComesBackForThePartitionThatHadNothingToCall(t *testing.T) {
	s := guarded(t, simple("[1]", ""), attempts.Loaded{})
	s.offer(1)
	s.succeed(1)
	s.d.Committed(s.now, s.parts[1], 11)
	s.flows(1)
	s.slowStore = true
	s.offer(0) // its first record, which may be the one that killed the last owner
	s.phases(Noting)
	if s.parts[1].Calm() {
		t.Error("another partition flows meanwhile")
	}
	s.answer()
	s.succeed(0)
	s.answer()
	s.d.Committed(s.now, s.parts[0], 11)
	s.flows(0)
	s.flows(1)
}

func TestGuard_IsNotKeptOnByARecordThatIsNotCalled(t *testing.T) {
	for name, c := range map[string]struct {
		json string
		do   func(s *scene)
	}{
		"it waits for a person": {simple("[1]", `"onPermanent": "hold"`), func(*scene) {}},
		"it is paused":          {simple("[1]", ""), func(s *scene) { s.d.Pause(s.parts[0]) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := guarded(t, c.json, stored(10, attempts.Entry{Attempts: 1, Verdict: "permanent"}))
			c.do(s)
			s.offer(0, 1)
			s.succeed(1)
			s.d.Committed(s.now, s.parts[1], 11)
			if s.d.Guard() {
				t.Error("the guard stays on")
			}
		})
	}
}

func TestGuard_ANotedDeathIsAnAttemptWithItsInterval(t *testing.T) {
	s := stage(t, simple("[1, 8, 8, 8]", ""))
	s.claimed(s.assign(), stored(10, attempts.Entry{Attempts: 2, Deaths: 2, Noted: true, Wait: 5 * sec}))
	s.offer(0)
	s.calledAfter(0, 5*sec)
	if s.parts[0].Call().Attempt != 3 {
		t.Errorf("%+v", s.parts[0].Call())
	}
}

func TestGuard_AfterTheLimitOfDeathsTheRecordIsNotCalledAgain(t *testing.T) {
	for name, intervals := range map[string]string{"within its strategy": "[1, 1, 1, 1, 1]", "and it wins over exhausted": "[1]"} {
		t.Run(name, func(t *testing.T) {
			s := guarded(t, simple(intervals, ""), stored(10, attempts.Entry{Attempts: 3, Deaths: 3, Noted: true}))
			s.offer(0)
			s.only()
			s.letters("crash")
		})
	}
	t.Run("a verdict of a person's is no death", func(t *testing.T) {
		s := guarded(t, simple("[1, 1, 1, 1, 1]", ""), stored(10, attempts.Entry{Attempts: 4, Deaths: 3}))
		s.offer(0)
		s.letters()
	})
}

func TestGuard_ACallThatWeCutShortIsNoDeath(t *testing.T) {
	for name, cut := range map[string]func(s *scene){
		"cancelled":            func(s *scene) { s.answer(); s.d.Leave(s.parts[0]); s.result(0, neutral) },
		"taken away":           func(s *scene) { s.answer(); s.d.Drop(s.now, s.parts[0]) },
		"taken away unstarted": func(s *scene) { s.d.Drop(s.now, s.parts[0]) },
		"leaving":              func(s *scene) { s.d.Leave(s.parts[0]); s.answer() },
		"paused":               func(s *scene) { s.d.Pause(s.parts[0]); s.answer() },
	} {
		t.Run(name, func(t *testing.T) {
			s := guarded(t, simple("[1]", ""), attempts.Loaded{})
			s.slowStore = true
			s.offer(0, 1)
			cut(s)
			s.pump()
			if len(s.unnoted) != 1 || s.unnoted[0].Record != at(10).id() {
				t.Errorf("unnoted %+v", s.unnoted)
			}
			if name != "cancelled" { // then the partition is about to go
				s.answer()
				if s.parts[1].phase != Calling {
					t.Errorf("the next is %v", s.parts[1].phase)
				}
			}
		})
	}
}

func TestGuard_AProbeIsNotedAndObeysAGateThatMovedMeanwhile(t *testing.T) {
	s := stage(t, simple("[1, 30]", ""))
	for range 3 {
		s.claimed(s.assign(), attempts.Loaded{})
	}
	s.offer(0, 1)
	s.fail(0)
	s.claimed(2, attempts.Loaded{ForeignMark: true})
	s.slowStore = true
	s.offer(2)
	s.pass(sec)
	s.phases(Waiting, Calling, Waiting) // the call that began before the guard is the one
	s.result(1, permanent)
	s.phases(Waiting, Empty, Noting)
	s.answer()
	s.phases(Waiting, Empty, Calling)
	s.fail(2)
	s.answer()
	s.pass(sec)
	s.phases(Noting, Empty, Waiting)
	s.breaker(breaker.HalfOpen)
}

func TestOperator_APauseStopsCallsAndNothingElse(t *testing.T) {
	s := play(t, simple("[1]", ""), 2)
	s.offer(0, 1)
	s.d.Pause(s.parts[0])
	s.succeed(0) // a call that runs is finished
	s.offer(0)
	s.only(1)
	s.succeed(1)
	s.flows(1)
	if s.d.RetryNow(s.now, s.parts[0]) == nil {
		t.Error("retried although paused")
	}
	s.d.Resume(s.now, s.parts[0])
	s.only(0)
}

func TestOperator_APausedWitnessIsNoWitness(t *testing.T) {
	s := play(t, simple("[1, 1, 1, 1, 1]", ""), 3)
	s.offer(0, 1, 2)
	s.fail(0)
	s.fail(1)
	s.succeed(2)
	s.offer(2)
	s.d.Pause(s.parts[0])
	s.calledAfter(2, sec) // else the one bad record of partition 1 would hold up the others as long as the pause lasts
}

func TestOperator_RetryNowSaysWhyItCannot(t *testing.T) {
	for name, arrange := range map[string]func(s *scene){
		"nothing is held":      func(s *scene) {},
		"it is being called":   func(s *scene) { s.offer(0) },
		"it is stalled":        func(s *scene) { s.offer(0); s.outlive(0) },
		"it is being revoked":  func(s *scene) { s.offer(0); s.fail(0); s.d.Leave(s.parts[0]) },
		"a probe is under way": func(s *scene) { s.offer(0); s.fail(0); s.offer(1); s.calledAfter(1, sec) },
		"a letter is on its way": func(s *scene) {
			s.slowDLQ = true
			s.offer(0)
			s.result(0, permanent)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[1]", ""), 2)
			arrange(s)
			if err := s.d.RetryNow(s.now, s.parts[0]); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestOperator_RetryNowWritesAFailedLetterAgain(t *testing.T) {
	s := play(t, simple("[1]", ""), 1)
	s.slowDLQ = true
	s.offer(0)
	s.result(0, permanent)
	s.acknowledge(errors.New("away"))
	if err := s.d.RetryNow(s.now, s.parts[0]); err != nil {
		t.Fatal(err)
	}
	s.pump()
	if len(s.sending) != 1 {
		t.Error("not written")
	}
}

func TestOperator_RetryAllEndsEveryWaitThatItCan(t *testing.T) {
	s := play(t, simple("[60, 60]", `"onPermanent": "hold", "breaker": {"consecutiveFailures": 9}`), 4)
	s.offer(0, 1, 2)
	s.fail(0)
	s.result(1, permanent)
	s.d.Pause(s.parts[2])
	if n := s.d.RetryAll(s.now); n != 2 {
		t.Errorf("ended %d", n)
	}
	s.pump()
	s.phases(Calling, Calling, Calling, Empty)
	if s.d.RetryAll(s.now) != 0 {
		t.Error("there was nothing left to end")
	}
}

func TestOperator_RetryAllOpensTheGateForTheNextRecord(t *testing.T) {
	s := play(t, simple("[60]", ""), 1)
	s.offer(0)
	s.fail(0)
	if _, err := s.d.Skip(s.now, s.parts[0], 10, "a test"); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.pass(sec)
	if s.d.RetryAll(s.now) != 1 {
		t.Error("nothing was ended")
	}
	s.offer(0)
	s.only(0)
}

func TestOperator_SkipSaysWhyItCannot(t *testing.T) {
	for name, arrange := range map[string]func(s *scene){
		"no record is held":      func(s *scene) {},
		"it is another record":   func(s *scene) { s.next[0]++; s.offer(0); s.fail(0) },
		"it is being called":     func(s *scene) { s.offer(0) },
		"it is stalled":          func(s *scene) { s.offer(0); s.outlive(0) },
		"it has not failed":      func(s *scene) { s.d.Pause(s.parts[0]); s.offer(0) },
		"it is being revoked":    func(s *scene) { s.offer(0); s.fail(0); s.d.Leave(s.parts[0]) },
		"its letter is flying":   func(s *scene) { s.slowDLQ = true; s.offer(0); s.result(0, permanent) },
		"its letter has arrived": func(s *scene) { s.offer(0); s.result(0, permanent) },
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[1]", ""), 1)
			arrange(s)
			if _, err := s.d.Skip(s.now, s.parts[0], 10, "a test"); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestOperator_SkipTakesARecordThatDoesNotFitByReference(t *testing.T) {
	s := play(t, simple("[1]", `"dlqBudget": 1`), 1)
	s.slowDLQ = true
	s.offer(0)
	s.result(0, permanent)
	s.acknowledge(dlq.ErrTooLarge)
	l, err := s.d.Skip(s.now, s.parts[0], 10, "a test")
	if err != nil || !l.Reference || l.Kind != dlq.Skipped || l.Reason != "a test" {
		t.Fatalf("%+v, %v", l, err)
	}
}

func TestOperator_SkipFreesTheOthersUnderAnOpenBreaker(t *testing.T) {
	s := play(t, simple("[60]", `"dlqBudget": 0`), 2)
	s.offer(0)
	s.fail(0)
	if _, err := s.d.Skip(s.now, s.parts[0], 10, "a test"); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.letters("skipped")
	if s.d.Spent() != 0 {
		t.Error("a skip costs budget")
	}
	s.offer(0, 1)
	s.calledAfter(1, 60*sec)
}

func TestLeave_NoNewCallAndWhatIsInHandDrains(t *testing.T) {
	s := play(t, simple("[1]", ""), 2)
	s.slowStore, s.slowDLQ = true, true
	s.offer(0)
	s.d.Leave(s.parts[0])
	drained := func(want bool) {
		t.Helper()
		if got := s.d.Drained(s.parts[0]); got != want {
			t.Errorf("drained: %v", got)
		}
	}
	drained(false)
	s.fail(0)
	drained(false) // the attempt is on its way to the store
	s.answer()
	drained(true)
	s.pass(time.Hour)
	s.phases(Waiting)

	s.d.Leave(s.parts[1])
	s.offer(1)
	s.only()
}

func TestLeave_ALetterOnItsWayIsWaitedForAndAStalledHandlerIsNot(t *testing.T) {
	s := play(t, simple("[1]", ""), 2)
	s.slowDLQ = true
	s.offer(0, 1)
	s.result(0, permanent)
	s.outlive(1)
	s.d.Leave(s.parts[0])
	s.d.Leave(s.parts[1])
	if s.d.Drained(s.parts[0]) || !s.d.Drained(s.parts[1]) {
		t.Error("the wrong one is waited for")
	}
	s.acknowledge(nil)
	if !s.d.Drained(s.parts[0]) {
		t.Error("it is still waited for")
	}
}

func TestDrop_EagerRebalanceEmptiesAllMemoryAndTheNextProbeStillComes(t *testing.T) {
	s := play(t, simple("[5]", ""), 2)
	s.offer(0, 1)
	s.fail(0)
	s.fail(1)
	for _, p := range s.parts {
		s.d.Drop(s.now, p)
	}
	s.again(0, stored(10, attempts.Entry{Attempts: 1, Wait: 5 * sec}))
	s.again(1, stored(10, attempts.Entry{Attempts: 1, Wait: 5 * sec}))
	s.breaker(breaker.Open)
	s.offer(0, 1)
	s.only()
	s.calledAfter(0, 5*sec)
	s.only(0)
	s.succeed(0)
	s.only(1)
}

func TestView_ShowsWhenTheNextCallCanCome(t *testing.T) {
	s := play(t, simple("[1, 60]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.fail(0) // a single witness whose own wait is longer than the gate
	v := s.d.View()
	if want := s.now.Add(60 * sec); !v.Breaker.RetryAt.Equal(want) || v.Breaker.State != "open" || v.Breaker.Episode == "" {
		t.Errorf("%+v, want %v", v.Breaker, want)
	}
	if h := v.Parts[0].Held; len(h) != 1 || h[0].Offset != 10 || h[0].Attempts != 2 || h[0].WaitsFor != "retry" || h[0].Error != "down" {
		t.Errorf("%+v", h)
	}
}

func TestView_ShowsWhatARecordWaitsFor(t *testing.T) {
	s := play(t, simple("[1]", `"onPermanent": "hold"`), 2)
	s.slowDLQ = true
	s.offer(0)
	s.result(0, permanent)
	if h := s.d.View().Parts[0].Held; len(h) != 1 || h[0].WaitsFor != "person" {
		t.Errorf("%+v", h)
	}
	s.strat.Strategy = strategy.MustParse(simple("[1]", ""))
	s.offer(1)
	s.result(1, permanent)
	s.acknowledge(errors.New("away"))
	if v := s.d.View().Parts[1]; len(v.Held) != 1 || v.Held[0].WaitsFor != "dlq" || v.DLQError == nil || v.Letters != 1 {
		t.Errorf("%+v", v)
	}
}
