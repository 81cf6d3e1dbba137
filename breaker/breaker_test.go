package breaker

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

var start = time.Unix(1e9, 0)

func after(d time.Duration) time.Time { return start.Add(d) }

// failure is the first failure of a record, at now, with a retryAt a while later; the first interval is a second.
func failure(now time.Time, wait time.Duration) Failure {
	return Failure{Now: now, RetryAt: now.Add(wait), First: time.Second, Alone: true}
}

// tripped is a breaker that one failure has opened at start, with its gate a second later.
func tripped(t *testing.T) *Breaker {
	t.Helper()
	b := New(Settings{ConsecutiveFailures: 1})
	if j := b.Fail(b.Stamp(), false, failure(start, time.Second)); !j.Tripped || b.State() != Open {
		t.Fatalf("one failure of one did not trip: %+v, %v", j, b.State())
	}
	return b
}

func TestFailuresInARowTripAndASuccessBreaksTheRow(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 3})
	for range 2 {
		b.Fail(b.Stamp(), false, failure(start, time.Second))
	}
	if !b.WantsSuccess() {
		t.Error("a counted failure wants the next success told")
	}
	b.Success(b.Stamp(), false)
	if b.WantsSuccess() {
		t.Error("after a success there is nothing to tell")
	}
	for i, want := range []bool{false, false, true} {
		if j := b.Fail(b.Stamp(), false, failure(start, time.Second)); j.Tripped != want {
			t.Errorf("failure %d after the success: %+v", i+1, j)
		}
	}
	if b.Episode() == "" || !b.Opened().Equal(start) {
		t.Errorf("the episode has the name %q and began at %v", b.Episode(), b.Opened())
	}
}

func TestAShareOfTheCallsInAWindowTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Settings{FailureRatio: 0.5, MinimumCalls: 4, Window: 10 * time.Second})
		fail := func() Judgement { return b.Fail(b.Stamp(), false, failure(time.Now(), time.Second)) }
		if !b.WantsSuccess() {
			t.Error("a share has to know of every success")
		}
		for range 3 {
			if fail().Tripped {
				t.Fatal("tripped below the minimum of calls")
			}
		}
		time.Sleep(11 * time.Second) // the window rolls
		for range 3 {
			b.Success(b.Stamp(), false)
		}
		for i, want := range []bool{false, false, true} {
			if j := fail(); j.Tripped != want {
				t.Errorf("failure %d of %d calls: %+v", i+1, i+4, j)
			}
		}
		time.Sleep(time.Second)
		if b.Probe(); !b.Success(b.Stamp(), true) {
			t.Error("the probe's success did not close")
		}
	})
}

func TestOnlyTheProbesSuccessCloses(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 1})
	old := b.Stamp()
	b.Fail(b.Stamp(), false, failure(start, time.Second))
	if b.Success(old, false) || b.State() != Open {
		t.Error("a call that began before the trip has closed the breaker")
	}
	if b.MayProbe(after(time.Second - 1)) {
		t.Error("a probe before the gate")
	}
	if !b.MayProbe(after(time.Hour)) || b.State() != Open {
		t.Error("time alone opens the gate, and nothing else")
	}
	s := b.Probe()
	if b.State() != HalfOpen || b.Success(old, false) || b.State() != HalfOpen {
		t.Error("a late success in half-open changed the state")
	}
	if !b.Success(s, true) || b.State() != Closed || b.Episode() != "" || b.WantsSuccess() {
		t.Errorf("after the probe's success: %v, episode %q", b.State(), b.Episode())
	}
}

func TestOneProbe(t *testing.T) {
	b := tripped(t)
	b.Probe()
	if b.MayProbe(after(time.Minute)) {
		t.Error("a second probe")
	}
	b.HandOn()
	if !b.MayProbe(after(time.Minute)) || b.State() != HalfOpen {
		t.Error("a probe that was handed on blocks the next")
	}
}

func TestTheProbesFailureOpensAgain(t *testing.T) {
	b := tripped(t)
	episode := b.Episode()
	f := failure(after(time.Second), 4*time.Second)
	f.Alone = false
	if j := b.Fail(b.Probe(), true, f); !j.Failed || j.Tripped {
		t.Errorf("%+v", j)
	}
	if b.State() != Open || b.Episode() != episode || !b.Opened().Equal(start) {
		t.Error("it is the same episode, and open")
	}
	if want := after(5 * time.Second); !b.Gate().Equal(want) {
		t.Errorf("gate %v, want the record's retryAt %v", b.Gate(), want)
	}
}

func TestTheGateOfASingleWitnessIsOneFirstInterval(t *testing.T) {
	b := tripped(t)
	b.Fail(b.Probe(), true, failure(after(time.Second), time.Hour))
	if want := after(2 * time.Second); !b.Gate().Equal(want) {
		t.Errorf("gate %v, want %v", b.Gate(), want)
	}
}

func TestWhereNoIntervalIsLeftTheGateIsOneFirstInterval(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 1})
	b.Fail(b.Stamp(), false, Failure{Now: start, First: time.Second})
	if want := after(time.Second); !b.Gate().Equal(want) {
		t.Errorf("gate %v, want %v", b.Gate(), want)
	}
}

func TestTheLaterGateWins(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 1})
	old := b.Stamp()
	b.Fail(b.Stamp(), false, failure(start, time.Second))
	long := failure(after(time.Millisecond), time.Minute)
	long.Alone = false
	if j := b.Fail(old, false, long); j != (Judgement{}) {
		t.Errorf("a late failure is no change: %+v", j)
	}
	short := failure(after(2*time.Millisecond), time.Second)
	short.Alone = false
	b.Fail(old, false, short)
	if !b.Gate().Equal(long.RetryAt) {
		t.Errorf("gate %v, want %v", b.Gate(), long.RetryAt)
	}
}

func TestALateFailureLetsTheProbeGoOn(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 1})
	old := b.Stamp()
	b.Fail(b.Stamp(), false, failure(start, time.Second))
	s := b.Probe()
	late := failure(after(time.Second), time.Minute)
	late.Alone = false
	b.Fail(old, false, late)
	if !b.Probing() || b.State() != HalfOpen {
		t.Error("the probe is lost")
	}
	b.HandOn()
	if b.MayProbe(after(59 * time.Second)) {
		t.Error("handed on after that, the next begins no earlier than the new gate")
	}
	if !b.Success(s, true) {
		t.Error("the probe's success still closes")
	}
	if !b.WantsSuccess() {
		t.Error("the probe began before the last failure: it is no evidence against anybody")
	}
}

func TestASuspectCountsForNothingButItself(t *testing.T) {
	again := failure(after(time.Second), time.Second)
	again.Again = true
	t.Run("another has succeeded since", func(t *testing.T) {
		b := New(Settings{ConsecutiveFailures: 2})
		b.Fail(b.Stamp(), false, failure(start, time.Second))
		b.Success(b.Stamp(), false)
		for range 5 {
			if j := b.Fail(b.Stamp(), false, again); !j.Suspect || b.State() != Closed || b.WantsSuccess() {
				t.Fatalf("%+v", j)
			}
		}
	})
	t.Run("no other has", func(t *testing.T) {
		b := New(Settings{ConsecutiveFailures: 2})
		b.Fail(b.Stamp(), false, failure(start, time.Second))
		if j := b.Fail(b.Stamp(), false, again); j.Suspect || !j.Tripped {
			t.Errorf("%+v", j)
		}
	})
	t.Run("the success began before the failure", func(t *testing.T) {
		b := New(Settings{ConsecutiveFailures: 2})
		old := b.Stamp()
		b.Fail(b.Stamp(), false, failure(start, time.Second))
		b.Success(old, false)
		if !b.WantsSuccess() {
			t.Error("the evidence is still wanted")
		}
		if j := b.Fail(b.Stamp(), false, again); j.Suspect {
			t.Errorf("%+v", j)
		}
	})
	t.Run("the record is new", func(t *testing.T) {
		b := New(Settings{ConsecutiveFailures: 2})
		if j := b.Fail(b.Stamp(), false, failure(start, time.Second)); j.Suspect {
			t.Errorf("%+v", j)
		}
	})
}

func TestAFailureFromBeforeTheLastChangeDoesNotCount(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 2})
	old := b.Stamp()
	for range 2 {
		b.Fail(b.Stamp(), false, failure(start, time.Second))
	}
	b.Success(b.Probe(), true)
	for range 3 {
		if j := b.Fail(old, false, failure(after(time.Second), time.Second)); j != (Judgement{}) || b.State() != Closed {
			t.Fatalf("%+v", j)
		}
	}
	if b.Success(old, false); !b.WantsSuccess() {
		t.Error("nor is a success from before it evidence")
	}
}

func TestRetryNowShortensTheWait(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 1})
	b.Fail(b.Stamp(), false, Failure{Now: start, RetryAt: after(time.Hour)})
	b.OpenGate(after(time.Minute))
	if !b.MayProbe(after(time.Minute)) {
		t.Error("the gate is still shut")
	}
}

// In the instant of the trip the clock may stand still: in virtual time, or because it is coarse.
func TestAProbeInTheInstantOfTheTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(Settings{ConsecutiveFailures: 1})
		b.Fail(b.Stamp(), false, failure(time.Now(), time.Hour))
		b.OpenGate(time.Now())
		time.Sleep(time.Until(b.Gate()))
		if !b.MayProbe(time.Now()) || !b.Success(b.Probe(), true) {
			t.Error("not closed")
		}
	})
}

func TestASuccessThatChangesNothingCostsNothing(t *testing.T) {
	b := New(Settings{ConsecutiveFailures: 3})
	if n := testing.AllocsPerRun(100, func() {
		b.Success(b.Stamp(), false)
		b.Fail(b.Stamp(), false, Failure{Now: start, RetryAt: start, First: time.Second})
		b.Success(b.Stamp(), false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever happens in whatever order, the laws of the breaker hold. The model knows of calls and when they began, and nothing of stamps,
// of gobreaker or of how the breaker remembers.
func TestAnyOrderOfCallsKeepsTheLaws(t *testing.T) {
	for seed := range uint64(300) {
		if m := newModel(seed); !m.play(t, 400) {
			t.Fatalf("seed %d", seed)
		}
	}
}

type model struct {
	rand      *rand.Rand
	threshold int
	b         *Breaker
	now       time.Time
	clock     int // counts what happens, to say what came first
	calls     []*modelCall
	probe     *modelCall

	open        bool
	inARow      int
	changed     int // when the breaker changed its state last
	lastFailure int // of a record that was no suspect
	evidence    int // when the latest call that succeeded had begun
	gate        time.Time
}

type modelCall struct {
	began int
	again bool
	stamp Stamp
}

func newModel(seed uint64) *model {
	r := rand.New(rand.NewPCG(seed, 1))
	n := 1 + r.IntN(4)
	return &model{rand: r, threshold: n, b: New(Settings{ConsecutiveFailures: n}), now: start, clock: 1, evidence: 1}
}

func (m *model) play(t *testing.T, steps int) bool {
	for range steps {
		m.clock++
		m.now = m.now.Add(time.Duration(m.rand.IntN(3000)) * time.Millisecond)
		switch {
		case m.rand.IntN(2) == 0:
			m.begin(t)
		case len(m.calls) > 0:
			i := m.rand.IntN(len(m.calls))
			c := m.calls[i]
			m.calls = append(m.calls[:i], m.calls[i+1:]...)
			m.end(t, c)
		}
		if (m.b.State() != Closed) != m.open {
			t.Errorf("%v, and the model says open: %v", m.b.State(), m.open)
		}
		if t.Failed() {
			return false
		}
	}
	return true
}

func (m *model) begin(t *testing.T) {
	c := &modelCall{began: m.clock, again: m.rand.IntN(2) == 0}
	switch {
	case !m.open:
		c.stamp = m.b.Stamp()
	case m.b.MayProbe(m.now):
		if m.probe != nil || m.now.Before(m.gate) {
			t.Errorf("a probe at %v, gate %v, another: %v", m.now, m.gate, m.probe != nil)
		}
		if m.b.State() == Open {
			m.changed = m.clock
		}
		c.stamp, m.probe = m.b.Probe(), c
	default:
		if m.probe == nil && !m.now.Before(m.gate) {
			t.Error("the gate is open, and nobody may probe")
		}
		return
	}
	m.calls = append(m.calls, c)
}

func (m *model) end(t *testing.T, c *modelCall) {
	probe := c == m.probe
	if probe {
		m.probe = nil
	}
	switch m.rand.IntN(5) {
	case 0:
		if probe {
			m.b.HandOn()
		}
	case 1, 2:
		if c.began > m.lastFailure {
			m.evidence = m.clock
		}
		if c.began >= m.changed {
			m.inARow = 0
		}
		if probe {
			m.open, m.changed = false, m.clock
		}
		if closed := m.b.Success(c.stamp, probe); closed != probe {
			t.Errorf("success of a probe: %v, closed: %v", probe, closed)
		}
	default:
		m.fail(t, c, probe)
	}
}

func (m *model) fail(t *testing.T, c *modelCall, probe bool) {
	f := Failure{Now: m.now, RetryAt: m.now.Add(time.Duration(m.rand.IntN(5)) * time.Second), First: time.Second,
		Again: c.again, Alone: m.rand.IntN(2) == 0}
	suspect := f.Again && m.evidence > m.lastFailure
	wasOpen, counts := m.open, c.began >= m.changed
	if !suspect {
		m.lastFailure = m.clock
		if !wasOpen && counts {
			m.inARow++
		}
		if !wasOpen && m.inARow >= m.threshold {
			m.open, m.gate = true, time.Time{}
		}
		if probe || m.open != wasOpen {
			m.changed, m.inARow = m.clock, 0
		}
		gate := f.RetryAt
		if f.Alone {
			gate = m.now.Add(f.First)
		}
		if m.open && gate.After(m.gate) {
			m.gate = gate
		}
	}
	want := Judgement{Suspect: suspect, Tripped: m.open && !wasOpen, Failed: wasOpen && probe && !suspect}
	if got := m.b.Fail(c.stamp, probe, f); got != want {
		t.Errorf("judged %+v, want %+v", got, want)
	}
	if m.open && m.b.Gate().Sub(m.gate) > shortestGate {
		t.Errorf("gate %v, want %v", m.b.Gate(), m.gate)
	}
}
