package decide

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/observe"
)

// The table "what happens when", row by row. Each test is named by its row: the state, what happens, and what then.

const sec = time.Second

func TestClosedSuccess_TheOffsetMayBeStored(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 1)
	s.storable(0, -1)
	s.offer(0)
	s.storable(0, -1)
	s.succeed(0)
	s.storable(0, 11)
	s.flows(0)
	if len(s.saves) > 0 {
		t.Error("the happy path asked the store")
	}
}

func TestClosedTransientBelowTheThreshold_ItsLaneIsHeldAlone(t *testing.T) {
	s := play(t, simple("[1, 4]", `"breaker": {"consecutiveFailures": 2}`), 2)
	s.offer(0, 1)
	s.fail(0)
	s.breaker(breaker.Closed)
	s.only(1)
	s.reasons(0, ByHeld)
	if e := s.lastSave(); e.Attempts != 1 || e.Wait != sec || e.LastError != "down" {
		t.Errorf("saved %+v", e)
	}
	s.succeed(1)
	s.offer(1)
	s.only(1)
	s.succeed(1)
	s.flows(1)
	s.calledAfter(0, sec)
	s.breaker(breaker.Closed)
}

func TestClosedTransientOfASuspect_ItsLaneIsHeldAlone(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 2)
	s.offer(0)
	s.fail(0)
	s.offer(1)
	s.calledAfter(1, sec) // the other partition goes first
	s.succeed(1)
	s.only(0)
	s.fail(0) // others succeed: it is this record
	s.breaker(breaker.Closed)
	s.offer(1)
	s.only(1)
	s.calledAfter(0, 4*sec)
	if e := s.lastSave(); e.Attempts != 2 || e.Wait != 4*sec {
		t.Errorf("the suspect's own attempt counts: saved %+v", e)
	}
}

func TestClosedTransientAtTheThreshold_TheBreakerTrips(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 3)
	s.offer(0, 1)
	s.fail(0)
	s.breaker(breaker.Open)
	s.offer(2)
	s.only(1) // it began before; nobody else is called
	for i, want := range []Reason{ByBreaker | ByHeld, ByBreaker, ByBreaker} {
		s.reasons(i, want)
	}
	for _, p := range s.parts {
		if p.Calm() {
			t.Error("a partition still flows")
		}
	}
	if s.told(observe.Tripped) != 1 {
		t.Error("the trip was not told")
	}
	s.pass(sec - 1)
	s.only(1)
	s.pass(1)
	s.only(1, 2)
}

func TestOpenALateSuccess_TheRecordIsDoneAndTheBreakerStays(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 2)
	s.offer(0, 1)
	s.fail(0)
	s.succeed(1)
	s.storable(1, 11)
	s.breaker(breaker.Open)
	s.offer(1)
	s.only()
}

func TestHalfOpenALateSuccess_TheBreakerStays(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 3)
	s.offer(0, 1)
	s.fail(0)
	s.offer(2)
	s.calledAfter(2, sec)
	s.succeed(1)
	s.breaker(breaker.HalfOpen)
	s.only(2)
}

func TestOpenALateFailure_OneMoreWitnessAndTheLaterGateWins(t *testing.T) {
	s := play(t, simple("[2, 9]", ""), 2)
	s.offer(0, 1)
	s.fail(0)
	s.pass(sec)
	s.fail(1)
	s.only()
	if e := s.lastSave(); e.Attempts != 1 {
		t.Errorf("the late failure counts: %+v", e)
	}
	s.calledAfter(0, 2*sec) // the gate has moved from 2 s to 3 s after the trip
	s.only(0)
}

func TestHalfOpenALateFailure_TheProbeGoesOnAndTheGateMoves(t *testing.T) {
	s := play(t, simple("[2, 9]", ""), 3)
	s.offer(0, 1)
	s.fail(0)
	s.offer(2)
	s.calledAfter(2, 2*sec)
	s.fail(1)
	s.only(2)
	s.result(2, permanent) // handed on
	s.only()
	s.calledAfter(0, 2*sec)
}

func TestOpenTheGateOpens_OneRecordProbes(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.breaker(breaker.HalfOpen)
	if !s.parts[0].Call().Probe || s.parts[0].Call().Attempt != 2 {
		t.Errorf("%+v", s.parts[0].Call())
	}
}

func TestHalfOpenSuccess_EverythingResumesAtOnce(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 4)
	s.offer(0, 1)
	s.fail(0)
	s.fail(1)
	s.calledAfter(0, sec)
	s.fail(0) // its next retryAt is 4 s away, and so is the gate
	s.offer(2)
	s.calledAfter(1, 4*sec) // called longest ago
	s.succeed(1)
	s.breaker(breaker.Closed)
	s.only(0, 2)
	s.flows(1)
	s.flows(3)
	s.reasons(3, 0)
}

func TestHalfOpenSuccess_ARecordWhoseTimeHasNotComeWaitsAlone(t *testing.T) {
	s := play(t, simple("[1, 60]", ""), 2)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.fail(0) // a single witness: the gate opens a first interval later
	s.offer(1)
	s.calledAfter(1, sec)
	s.succeed(1)
	s.breaker(breaker.Closed)
	s.flows(1)
	s.phases(Waiting, Empty)
	s.reasons(0, ByHeld)
	s.calledAfter(0, 59*sec)
}

func TestHalfOpenTransient_OpenAgainAtTheLaterGate(t *testing.T) {
	t.Run("of two witnesses", func(t *testing.T) {
		s := play(t, simple("[1, 30]", ""), 2)
		s.offer(0, 1)
		s.fail(0)
		s.fail(1)
		s.calledAfter(0, sec)
		s.fail(0)
		s.breaker(breaker.Open)
		if e := s.lastSave(); e.Attempts != 2 {
			t.Errorf("%+v", e)
		}
		s.calledAfter(1, 30*sec)
	})
	t.Run("of a single one", func(t *testing.T) {
		s := play(t, simple("[1, 30]", ""), 2)
		s.offer(0)
		s.fail(0)
		s.calledAfter(0, sec)
		s.fail(0)
		s.offer(1)
		s.calledAfter(1, sec)
	})
}

func TestAnyExhausted_DeadLetterAndStillAFailureForTheBreaker(t *testing.T) {
	s := play(t, simple("[3, 5]", ""), 1)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, 3*sec)
	s.fail(0)
	s.calledAfter(0, 5*sec)
	s.slowDLQ = true
	s.fail(0)
	s.letters("exhausted")
	s.breaker(breaker.Open)
	if s.sent[0].Attempts != 3 || s.sent[0].Episode == "" {
		t.Errorf("%+v", s.sent[0])
	}
	s.storable(0, 10)
	s.acknowledge(nil)
	s.storable(0, 11)
	s.offer(0)
	s.calledAfter(0, 3*sec) // no interval is left: the gate is now + the first interval
}

func TestAnyExhaustedSuspect_DeadLetterAndNoFailureForTheBreaker(t *testing.T) {
	s := play(t, simple("[1]", ""), 2)
	s.offer(0, 1)
	s.fail(0)
	s.succeed(1)
	s.offer(1)
	s.calledAfter(1, sec)
	s.succeed(1)
	s.fail(0)
	s.letters("exhausted")
	s.breaker(breaker.Closed)
}

func TestAnyPermanent_DeadLetterAndNothingToTheBreaker(t *testing.T) {
	for name, o := range map[string]Outcome{"permanent": permanent, "panic": panicked} {
		t.Run(name, func(t *testing.T) {
			s := play(t, simple("[1, 4]", ""), 1)
			s.offer(0)
			s.result(0, o)
			s.letters(name)
			s.breaker(breaker.Closed)
			s.storable(0, 11)
			if l := s.sent[0]; l.Attempts != 1 || l.LastError != o.Text || l.Stack != o.Stack {
				t.Errorf("%+v", l)
			}
			if len(s.saves) > 0 {
				t.Error("nothing goes to the store while the DLQ is well")
			}
		})
	}
}

func TestHalfOpenPermanent_TheProbeGoesToTheNextRecordAtOnce(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 3)
	s.offer(0)
	s.fail(0)
	s.offer(1, 2)
	s.calledAfter(1, sec)
	s.result(1, permanent)
	s.only(2)
	s.breaker(breaker.HalfOpen)
	s.succeed(2)
	s.breaker(breaker.Closed)
}

func TestHalfOpenNeutral_TheProbeIsHandedOnWhenTheEpochIsRaised(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 3)
	s.offer(0)
	s.fail(0)
	s.offer(1, 2)
	s.calledAfter(1, sec)
	saves := len(s.saves)
	s.d.Leave(s.parts[1])
	s.result(1, neutral)
	s.only()
	if len(s.saves) != saves || s.parts[1].story.attempts > 0 {
		t.Error("a neutral outcome was counted")
	}
	s.d.Drop(s.now, s.parts[1])
	s.pump()
	s.only(2)
}

func TestHalfOpenRevokedOrLost_TheProbeIsHandedOnWhileItStillRuns(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 3)
	s.offer(0)
	s.fail(0)
	s.offer(1, 2)
	s.calledAfter(1, sec)
	s.d.Drop(s.now, s.parts[1])
	s.pump()
	s.phases(Waiting, Calling, Calling)
	s.succeed(1) // of an older epoch
	s.breaker(breaker.HalfOpen)
	s.storable(1, -1)
}

func TestOpenRetryNow_TheGateOpensAndTheRecordNamedProbes(t *testing.T) {
	s := play(t, simple("[60, 60]", ""), 3)
	s.offer(0, 1)
	s.fail(0)
	s.fail(1)
	s.offer(2)
	if err := s.d.RetryNow(s.now, s.parts[1]); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.calledAfter(1, 0+10*time.Nanosecond) // gobreaker's own time-out
	s.only(1)
	s.breaker(breaker.HalfOpen)
	s.fail(1)
	if e := s.lastSave(); e.Attempts != 2 {
		t.Errorf("it counts as an attempt: %+v", e)
	}
}

func TestOpenRetryNow_TheRecordNamedGoesBeforeAnotherPartition(t *testing.T) {
	s := play(t, simple("[60, 60]", ""), 2)
	s.offer(0)
	s.fail(0)
	s.offer(1)
	s.pass(sec)
	if err := s.d.RetryNow(s.now, s.parts[0]); err != nil {
		t.Fatal(err)
	}
	s.pump()
	s.only(0)
}

func TestOpenRetryAll_TheWitnessCalledLongestAgoProbes(t *testing.T) {
	s := play(t, simple("[60, 60]", ""), 3)
	s.offer(1, 0)
	s.fail(0)
	s.fail(1)
	s.offer(2)
	s.pass(sec)
	if s.d.RetryAll(s.now) != 1 {
		t.Error("it ended no wait")
	}
	s.pump()
	s.only(1)
}

func TestOutlived_ATransientVerdictAndAStalledLane(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 2)
	s.offer(0)
	s.outlive(0)
	s.phases(Stalled)
	s.breaker(breaker.Open)
	if e := s.lastSave(); e.Attempts != 1 {
		t.Errorf("%+v", e)
	}
	s.reasons(0, ByHeld|ByBreaker)
	s.pass(time.Hour)
	s.phases(Stalled)
	s.offer(1)
	s.only(1)
	s.succeed(1)
	s.breaker(breaker.Closed)
	s.phases(Stalled)
}

func TestOutlivedThenALateNil_TheRecordIsDone(t *testing.T) {
	s := play(t, simple("[1, 4]", `"breaker": {"consecutiveFailures": 2}`), 2)
	s.offer(0)
	s.outlive(0)
	s.succeed(0)
	s.phases(Empty)
	s.storable(0, 11)
	s.offer(1)
	s.fail(1) // the call that outlived its time has had its verdict: the late nil does not break the row
	s.breaker(breaker.Open)
}

func TestOutlivedThenALateError_NothingIsCountedTwice(t *testing.T) {
	s := play(t, simple("[1, 4]", `"breaker": {"consecutiveFailures": 2}`), 1)
	s.offer(0)
	s.outlive(0)
	s.pass(5 * sec)
	s.fail(0)
	s.breaker(breaker.Closed)
	s.only(0)
	if s.parts[0].Call().Attempt != 2 || len(s.saves) != 1 {
		t.Errorf("%+v, %d saves", s.parts[0].Call(), len(s.saves))
	}
}

func TestAProbeThatOutlivesItsTimeFails(t *testing.T) {
	s := play(t, simple("[1, 4]", ""), 2)
	s.offer(0)
	s.fail(0)
	s.calledAfter(0, sec)
	s.outlive(0)
	s.breaker(breaker.Open)
	s.offer(1)
	s.calledAfter(1, sec)
}
