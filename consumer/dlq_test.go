package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/observe"
)

// The DLQ may fail, and what goes there is bounded: laws 13, 15 and 6.

var errDLQAway = errors.New("dlq: broker away")

// letters are the dead letters so far: "0@3 permanent".
func (w *world) letters() (all []string) {
	for _, l := range w.dlq.written() {
		all = append(all, fmt.Sprintf("%d@%d %s", l.Record.TopicPartition.Partition, int64(l.Record.TopicPartition.Offset), l.Kind))
	}
	return all
}

func (w *world) writes() int {
	w.dlq.mu.Lock()
	defer w.dlq.mu.Unlock()
	return w.dlq.tried
}

// failing makes a handler that fails at some records and else succeeds.
func failing(err error, at ...string) func(context.Context, call) error {
	return func(_ context.Context, c call) error {
		if slices.Contains(at, fmt.Sprintf("%d@%d", c.Partition, c.Offset)) {
			return err
		}
		return nil
	}
}

// With the DLQ away for a minute the record stays held, whatever happens to the process meanwhile: no further call, one dead letter, order kept.
func TestDLQAwayForAMinute(t *testing.T) {
	const strat = `{"intervals": [1, 2], "jitter": 0}`
	for _, kind := range []dlq.Kind{dlq.Permanent, dlq.PanicKind, dlq.Exhausted} {
		for meanwhile, do := range map[string]func(w *world, i *instance){
			"nothing":   func(*world, *instance) {},
			"a restart": func(w *world, i *instance) { i.stop(); w.start(strat, quick) },
			"a kill":    func(w *world, i *instance) { i.kill(); w.start(strat, quick) },
		} {
			t.Run(string(kind)+", meanwhile "+meanwhile, func(t *testing.T) {
				virtual(t, func(t *testing.T, w *world) {
					w.topic(2, 6)
					w.handler = func(_ context.Context, c call) error {
						switch {
						case c.Partition == 1 || c.Offset != 3:
							return nil
						case kind == dlq.PanicKind:
							panic("no such card")
						case kind == dlq.Exhausted:
							return errDown
						}
						return errBad
					}
					w.dlq.set(func(d *scriptedDLQ) { d.away = errDLQAway })
					i := w.start(strat, quick)
					w.until(time.Minute, "the failed write", func() bool { return i.count(observe.DeadLetterFailed) == 1 })
					if r := i.reasons(0); !strings.Contains(r, "dlq") {
						t.Errorf("paused by %q", r)
					}
					if s := i.c.Status(); !strings.Contains(s.DLQError, "broker away") || len(s.Held) != 1 || s.Held[0].WaitsFor != "dlq" {
						t.Errorf("the status says %q, held %+v", s.DLQError, s.Held)
					}
					called := len(w.of(0, 3))
					w.pass(5 * time.Second)
					do(w, i)
					w.pass(time.Minute)
					if at := w.committed(0); at != 3 {
						t.Errorf("committed %d", at)
					}
					if n := w.writes(); n > 25 {
						t.Errorf("%d writes in a minute", n)
					}
					w.dlq.set(func(d *scriptedDLQ) { d.away = nil })
					w.until(time.Minute, "everything handled and committed", func() bool { return w.committed(0) == 6 && w.committed(1) == 6 })
					if n := len(w.of(0, 3)); n != called {
						t.Errorf("called %d times more", n-called)
					}
					if want := []string{"0@3 " + string(kind)}; !slices.Equal(w.letters(), want) {
						t.Errorf("dead letters %q, not %q", w.letters(), want)
					}
					inOrder(t, w)
					last := w.instances[len(w.instances)-1]
					w.until(time.Second, "the pause is over", func() bool { return last.reasons(0) == "" && last.c.Status().DLQError == "" })
					if n := last.count(observe.DeadLettersBack); n != 1 {
						t.Errorf("told %d times that dead letters are written again", n)
					}
				})
			})
		}
	}
}

// A DLQ that says nothing for a minute, and then acknowledges, is no failure.
func TestDLQSilentForAMinute(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 6)
		w.handler = failing(errBad, "0@3")
		w.dlq.set(func(d *scriptedDLQ) { d.latency = time.Minute })
		i := w.start(`[1]`, nil)
		w.until(time.Second, "the lane goes on", func() bool { return len(w.of(0, 5)) == 1 })
		w.pass(50 * time.Second)
		if r := i.reasons(0); r != "" {
			t.Errorf("paused by %q", r)
		}
		if at := w.committed(0); at != 3 {
			t.Errorf("committed %d", at)
		}
		w.until(20*time.Second, "everything committed", func() bool { return w.committed(0) == 6 })
		if n := len(w.of(0, 3)); n != 1 || w.writes() != 1 {
			t.Errorf("%d calls, %d writes", n, w.writes())
		}
	})
}

// A restart while the DLQ says nothing does not call a permanent record again either.
func TestRestartWhileTheDLQIsSilentDoesNotCallAPermanentRecordAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 6)
		w.handler = failing(errBad, "0@3")
		w.dlq.set(func(d *scriptedDLQ) { d.silent = true })
		i := w.start(`[1]`, nil)
		w.until(time.Second, "the write", func() bool { return w.writes() == 1 })
		w.pass(5 * time.Second)
		i.stop()
		w.dlq.set(func(d *scriptedDLQ) { d.silent = false })
		w.start(`[1]`, nil)
		w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 6 })
		if n := len(w.of(0, 3)); n != 1 {
			t.Errorf("called %d times", n)
		}
	})
}

// A lane goes on while permanent records are on their way, until the bound is full; only then the reason is dlq.
func TestPendingLettersAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 20)
		w.handler = func(context.Context, call) error { return errBad }
		w.dlq.set(func(d *scriptedDLQ) { d.latency = 10 * time.Second })
		i := w.start(`[1]`, func(s *setup) { s.config.PendingLetters = 4 })
		w.until(time.Minute, "the bound is full", func() bool { return i.reasons(0) == "dlq" })
		w.pass(5 * time.Second)
		if n := len(w.seen()); n != 4 {
			t.Errorf("%d records called with a bound of 4", n)
		}
		if n := i.c.Status().Partitions[0].Letters; n != 4 {
			t.Errorf("%d letters on their way, says the status", n)
		}
		w.until(time.Minute, "the first are written", func() bool { return w.committed(0) == 4 })
		w.until(2*time.Minute, "all are written", func() bool { return w.committed(0) == 20 })
		for n, l := range w.letters() {
			if l != fmt.Sprintf("0@%d permanent", n) {
				t.Fatalf("out of order: %q", w.letters())
			}
		}
	})
}

// Offsets are stored in order although acknowledgements are not, and the reason dlq does not come from letters on their way.
func TestOffsetsAreStoredInOrderWhateverTheOrderOfTheAcknowledgements(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 10)
		w.handler = failing(errBad, "0@2", "0@4", "0@5")
		w.dlq.set(func(d *scriptedDLQ) {
			d.script = func(l dlq.Letter) (time.Duration, error) {
				if l.Record.TopicPartition.Offset == 4 {
					return 20 * time.Second, nil
				}
				return time.Second, nil
			}
		})
		i := w.start(`[1]`, nil)
		w.until(time.Second, "everything called", func() bool { return len(w.of(0, 9)) == 1 })
		if at := w.committed(0); at > 2 {
			t.Errorf("committed %d before the first dead letter was acknowledged", at)
		}
		w.pass(10 * time.Second)
		if at := w.committed(0); at != 4 {
			t.Errorf("committed %d with the dead letter of 4 on its way", at)
		}
		if r := i.reasons(0); r != "" {
			t.Errorf("paused by %q", r)
		}
		w.until(20*time.Second, "everything committed", func() bool { return w.committed(0) == 10 })
	})
}

// NServiceBus#5764: a record that does not fit holds its partition and nothing else, until a person says so.
func TestRecordThatDoesNotFitStaysHeldUntilASkipWritesAReference(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 6)
		w.handler = failing(errBad, "0@3")
		w.dlq.set(func(d *scriptedDLQ) {
			d.script = func(l dlq.Letter) (time.Duration, error) {
				if l.Reference {
					return time.Millisecond, nil
				}
				return time.Millisecond, fmt.Errorf("dlq: the record does not fit: %w", dlq.ErrTooLarge)
			}
		})
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "the refused write", func() bool { return i.count(observe.DeadLetterFailed) == 1 })
		w.pass(10 * time.Minute)
		if w.committed(0) != 3 || w.committed(1) != 6 {
			t.Errorf("committed %d and %d", w.committed(0), w.committed(1))
		}
		if n := w.writes(); n > 50 {
			t.Errorf("%d writes in ten minutes", n)
		}
		if n := i.count(observe.DeadLetterFailed); n != 1 {
			t.Errorf("told %d times", n)
		}
		if err := i.c.Skip(inTime(t), at(0), 3, "too large, kept in the archive"); err != nil {
			t.Fatal(err)
		}
		if l := w.dlq.written()[0]; l.Kind != dlq.Skipped || !l.Reference || l.Reason != "too large, kept in the archive" {
			t.Errorf("%+v", l)
		}
		w.until(5*time.Second, "the rest", func() bool { return w.committed(0) == 6 })
	})
}

// An outage that is longer than the strategy does not pour the topic into the DLQ: beyond the budget its records go on at the last interval.
func TestBudgetInALongOutage(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(3, 10)
		w.setDown(true)
		i := w.start(`{"intervals": [1, 3], "jitter": 0, "dlqBudget": 4}`, nil)
		w.until(5*time.Minute, "the budget is spent", func() bool { return i.count(observe.BudgetSpent) == 1 })
		w.pass(5 * time.Minute)
		if n := len(w.dlq.written()); n != 4 {
			t.Errorf("%d dead letters with a budget of 4", n)
		}
		if n := i.count(observe.BudgetSpent); n != 1 {
			t.Errorf("told %d times", n)
		}
		if n := i.c.Status().Budget; n != 4 {
			t.Errorf("the status says %d", n)
		}
		for _, h := range i.c.Status().Held {
			calls := w.of(h.Partition, h.Offset)
			for n := 3; n < len(calls); n++ {
				if wait := calls[n].At - calls[n-1].At; wait < 3*time.Second || wait > 6*time.Second {
					t.Fatalf("called %v after the failure before: %v", wait, calls[n])
				}
			}
			if len(calls) < 75 {
				t.Errorf("%d calls in five minutes at an interval of 3 s", len(calls))
			}
		}
		w.setDown(false)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(3, 10) })
		if n := len(w.dlq.written()); n != 4 {
			t.Errorf("%d dead letters after the outage", n)
		}
		if n := i.c.Status().Budget; n != 0 {
			t.Errorf("a success gives the budget back; the status says %d", n)
		}
	})
}

// Nor does a bad deployment: beyond the budget a permanent record is not called and waits, until a success gives the budget back.
func TestBudgetInABadDeployment(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 0)
		w.produce(0, 6)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 {
				return errBad
			}
			return nil
		}
		i := w.start(`{"intervals": [1], "dlqBudget": 2}`, nil)
		w.until(time.Minute, "the budget is spent", func() bool { return i.count(observe.BudgetSpent) == 1 })
		for round := 1; round <= 2; round++ {
			w.pass(time.Minute)
			if n, calls := len(w.dlq.written()), len(w.of(0, int64(2*round))); n != 2*round || calls != 1 {
				t.Fatalf("%d dead letters, %d calls of the record that waits", n, calls)
			}
			if r := i.reasons(0); r != "dlq" {
				t.Errorf("paused by %q", r)
			}
			if s := i.c.Status(); len(s.Held) != 1 || s.Held[0].WaitsFor != "budget" {
				t.Errorf("held %+v", s.Held)
			}
			w.produce(1, 1) // succeeds, in the other partition
			w.until(5*time.Second, "the next two", func() bool { return len(w.dlq.written()) == 2*round+2 })
		}
		w.until(5*time.Second, "the end", func() bool { return w.committed(0) == 6 })
		if n := len(w.of(0, -1)); n != 0 || len(w.failed()) != 6 {
			t.Errorf("%v", w.failed())
		}
		if n := i.count(observe.BudgetSpent); n != 2 {
			t.Errorf("told %d times that the budget is spent, of two times", n)
		}
	})
}

func TestBudgetOfZeroWritesNoneButWhatAPersonSkips(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 4)
		w.handler = func(_ context.Context, c call) error {
			switch {
			case c.Offset == 1 && c.Partition == 0:
				return errBad
			case c.Offset == 1:
				return errDown
			}
			return nil
		}
		i := w.start(`{"intervals": [2, 5], "jitter": 0, "dlqBudget": 0}`, nil)
		w.pass(5 * time.Minute)
		if n := len(w.dlq.written()); n != 0 {
			t.Errorf("%d dead letters", n)
		}
		if n := len(w.of(0, 1)); n != 1 {
			t.Errorf("%d calls of a permanent record", n)
		}
		if n := len(w.of(1, 1)); n < 55 || n > 62 {
			t.Errorf("%d calls of an exhausted one, in five minutes at 5 s", n)
		}
		for p := range int32(2) {
			if err := i.c.Skip(inTime(t), at(p), 1, "known"); err != nil {
				t.Fatal(err)
			}
		}
		w.until(time.Minute, "the rest", func() bool { return w.committed(0) == 4 && w.committed(1) == 4 })
		if want := []string{"0@1 skipped", "1@1 skipped"}; !slices.Equal(w.letters(), want) {
			t.Errorf("dead letters %q", w.letters())
		}
	})
}

// With onPermanent hold the record waits for a person, over a restart too, and nothing behind it is called.
func TestPermanentRecordOnHoldWaitsForAPerson(t *testing.T) {
	const strat = `{"intervals": [1], "onPermanent": "hold"}`
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 5)
		healed := make(chan struct{})
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && c.Offset == 2 && !isClosed(healed) {
				return errBad
			}
			return nil
		}
		i := w.start(strat, nil)
		w.until(time.Minute, "it waits", func() bool { return i.count(observe.WaitsForPerson) == 1 })
		w.pass(time.Minute)
		i.stop()
		i = w.start(strat, nil)
		w.until(time.Minute, "it waits again", func() bool { return i.count(observe.WaitsForPerson) == 1 })
		w.pass(time.Minute)
		if n := len(w.of(0, 2)); n != 1 {
			t.Errorf("%d calls without a person's word", n)
		}
		if h := i.c.Status().Held; len(h) != 1 || h[0].WaitsFor != "person" || h[0].Error != "bad JSON" || h[0].Attempts != 1 {
			t.Errorf("held %+v", h)
		}
		if w.committed(0) != 2 || w.committed(1) != 5 || len(w.dlq.written()) != 0 {
			t.Errorf("committed %d and %d, %d dead letters", w.committed(0), w.committed(1), len(w.dlq.written()))
		}
		if err := i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		w.until(time.Second, "a call at a person's word", func() bool { return len(w.of(0, 2)) == 2 })
		w.pass(time.Minute)
		if calls := w.of(0, 2); len(calls) != 2 || calls[1].Attempt != 2 {
			t.Errorf("%v", calls)
		}
		close(healed)
		if err := i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "the rest", func() bool { return w.committed(0) == 5 })
		inOrder(t, w)
	})
}

// With onExhausted hold a transient error is never dead-lettered.
func TestExhaustedRecordOnHoldGoesOnAtTheLastInterval(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.setDown(true)
		w.start(`{"intervals": [1, 20], "jitter": 0, "onExhausted": "hold"}`, nil)
		w.until(10*time.Minute, "many calls", func() bool { return len(w.of(0, 0)) == 12 })
		calls := w.of(0, 0)
		// Nothing else can probe, so the gate is one first interval; the record's own wait holds all the same.
		for n := 2; n < len(calls); n++ {
			if wait := calls[n].At - calls[n-1].At; wait < 20*time.Second || wait > 20*time.Second+50*time.Millisecond {
				t.Errorf("call %d came after %v", n+1, wait)
			}
		}
		if len(w.dlq.written()) != 0 {
			t.Error("dead-lettered")
		}
		w.setDown(false)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 3) })
	})
}

// Law 6: found with all its attempts, it is dead-lettered without a call.
func TestRecordFoundWithAllItsAttemptsIsNotCalledAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.handler = failing(errDown, "0@0")
		w.dlq.set(func(d *scriptedDLQ) { d.silent = true })
		i := w.start(`[1, 1]`, nil)
		w.until(time.Minute, "its last attempt", func() bool { return len(w.of(0, 0)) == 3 })
		w.pass(time.Second)
		i.kill()
		w.dlq.set(func(d *scriptedDLQ) { d.silent = false })
		w.start(`[1, 1]`, nil)
		w.until(2*time.Minute, "the rest", func() bool { return w.committed(0) == 3 })
		if n := len(w.of(0, 0)); n != 3 {
			t.Errorf("%d calls", n)
		}
		if ls := w.dlq.written(); len(ls) != 1 || ls[0].Kind != dlq.Exhausted || ls[0].Attempts != 3 || ls[0].ErrorMessage != "connection refused" {
			t.Errorf("dead letters %+v", ls)
		}
	})
}

// A RetryAfter of the dependency that is longer than the interval holds.
func TestRetryAfterOfTheDependencyHolds(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		w.handler = func(_ context.Context, c call) error { return failure.RetryAfter(errDown, 30*time.Second) }
		w.start(`{"intervals": [1, 45], "jitter": 0, "breaker": {"consecutiveFailures": 9}}`, nil)
		w.until(3*time.Minute, "the dead letter", func() bool { return w.handled(1, 1) })
		calls := w.seen()
		for n, want := range []time.Duration{0, 30 * time.Second, 75 * time.Second} {
			if got := calls[n].At - calls[0].At; got < want || got > want+50*time.Millisecond {
				t.Errorf("call %d after %v, not %v", n+1, got, want)
			}
		}
	})
}
