package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
)

// What an operator can do, in each state that a partition can be in, and why not where he can't.

// arranged is partition 0 of a world in one of these states, with its first record at the head.
type arranged struct {
	i       *instance
	release chan error // ends the call that hangs
}

const (
	flowing  = "flowing"   // its records are done, and nothing waits
	calling  = "calling"   // its first call runs
	held     = "held"      // its first call failed, below the threshold: it waits a minute alone
	open     = "open"      // its first call failed and tripped the breaker, for a minute
	halfOpen = "half-open" // its second call runs as the probe
	stalled  = "stalled"   // its first call has outlived its time
)

// arrange brings partition 0 into a state. The partitions beside it are empty, and their records succeed.
func arrange(w *world, state string) arranged {
	w.t.Helper()
	a := arranged{release: make(chan error, 1)}
	w.topic(3, 0)
	w.produce(0, 5)
	w.handler = func(_ context.Context, c call) error {
		if c.Partition != 0 || c.Offset != 0 {
			return nil
		}
		switch {
		case (state == held || state == open || state == halfOpen) && c.Attempt == 1:
			return errDown
		case state == calling || state == stalled || state == halfOpen && c.Attempt == 2:
			select {
			case err := <-a.release:
				return err
			case <-w.over:
			}
		}
		return nil
	}
	strat := `{"intervals": [60, 60, 60], "jitter": 0}`
	if state == held {
		strat = `{"intervals": [60, 60, 60], "jitter": 0, "breaker": {"consecutiveFailures": 5}}`
	}
	a.i = w.start(strat, func(s *setup) {
		if state == stalled {
			s.config.HandlerTimeout = 10 * time.Second
		}
	})
	w.until(3*time.Minute, "the state "+state, func() bool {
		s := a.i.c.Status()
		switch state {
		case flowing:
			return w.committed(0) == 5
		case calling:
			return len(w.seen()) == 1
		case held:
			return len(s.Held) == 1
		case stalled:
			return len(s.Stalled) == 1
		case halfOpen:
			return s.Breaker.State == halfOpen && len(w.seen()) == 2
		}
		return s.Breaker.State == state
	})
	return a
}

// inTime is a ctx that ends before a test hangs.
func inTime(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var states = []string{flowing, calling, held, open, halfOpen, stalled}

func TestRetryNowInEachState(t *testing.T) {
	refused := map[string]string{
		flowing:  "holds no record that waits",
		calling:  "orders/0 ",
		halfOpen: "is being called right now",
		stalled:  "has not returned",
	}
	for _, state := range states {
		t.Run(state, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				a := arrange(w, state)
				before := len(w.of(0, 0))
				err := a.i.c.RetryNow(t.Context(), at(0))
				w.pass(100 * time.Millisecond)
				if why, no := refused[state]; no {
					if err == nil || !strings.Contains(err.Error(), why) {
						t.Errorf("answered %v, not %q", err, why)
					}
					if len(w.of(0, 0)) != before {
						t.Error("called all the same")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if calls := w.of(0, 0); len(calls) != 2 || calls[1].Attempt != 2 {
					t.Errorf("not called at once, or it does not count as an attempt: %v", calls)
				}
				if a.i.count(observe.OperatorRetry) != 1 {
					t.Error("not told once")
				}
				w.until(time.Second, "all flow", func() bool { return a.i.state() == "closed" && w.handled(1, 5) })
			})
		})
	}
}

func TestSkipInEachState(t *testing.T) {
	refused := map[string]string{
		flowing:  "holds no record at offset 0",
		calling:  "orders/0 ",
		halfOpen: "is being called right now",
		stalled:  "has not returned",
	}
	for _, state := range states {
		t.Run(state, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				a := arrange(w, state)
				w.dlq.set(func(d *scriptedDLQ) { d.latency = time.Second })
				began := w.now()
				err := a.i.c.Skip(inTime(t), at(0), 0, "the customer is gone")
				if why, no := refused[state]; no {
					if err == nil || !strings.Contains(err.Error(), why) {
						t.Errorf("answered %v, not %q", err, why)
					}
					if len(w.dlq.written()) != 0 {
						t.Error("dead-lettered all the same")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if took := w.now() - began; took < time.Second || took > 1100*time.Millisecond {
					t.Errorf("returned after %v: not with the acknowledgement", took)
				}
				l := w.dlq.written()[0]
				if l.Kind != dlq.Skipped || l.Reason != "the customer is gone" || l.Attempts != 1 || l.ErrorMessage != errDown.Error() {
					t.Errorf("%+v", l)
				}
				if state == open {
					// A trip to the DLQ is no success: the next record probes, at the gate.
					if a.i.state() != "open" || len(w.seen()) != 1 {
						t.Error(w.picture())
					}
				}
				w.until(2*time.Minute, "the rest", func() bool { return w.committed(0) == 5 })
				if n := len(w.of(0, 0)); n != 1 {
					t.Errorf("called %d times", n)
				}
			})
		})
	}
}

// A pause in each state: what runs is finished, nothing else is called however long it lasts, and Resume lets it go on.
func TestPauseInEachState(t *testing.T) {
	for _, state := range states {
		t.Run(state, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				a := arrange(w, state)
				for range 2 { // twice is once
					if err := a.i.c.Pause(at(0)); err != nil {
						t.Fatal(err)
					}
				}
				before := len(w.seen())
				a.release <- nil
				w.produce(0, 5)
				w.pass(90 * time.Second)
				if n := len(w.seen()); n != before {
					t.Errorf("%d calls of a paused partition", n-before)
				}
				if r := a.i.reasons(0); !strings.Contains(r, "operator") {
					t.Errorf("paused by %q", r)
				}
				if !a.i.client.Paused(topic, 0) {
					t.Error("the client fetches")
				}
				if state == calling || state == halfOpen || state == stalled {
					if at := w.committed(0); at != 1 {
						t.Errorf("the call that ran was not finished: committed %d", at)
					}
				}
				// The others flow: they may even probe.
				w.produce(1, 1)
				w.until(5*time.Second, "another partition", func() bool { return len(w.of(1, 0)) == 1 && a.i.state() == "closed" })
				if err := a.i.c.Resume(at(0)); err != nil {
					t.Fatal(err)
				}
				w.until(time.Second, "the rest", func() bool { return w.handled(1, 10) })
				inOrder(t, w)
			})
		})
	}
}

// Taking one reason away lifts no other, in either order. spring-kafka#1866
func TestResumeLiftsNoOtherReason(t *testing.T) {
	for _, state := range []string{held, open} {
		t.Run(state, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				a := arrange(w, state)
				w.pass(5 * time.Second)
				was := a.i.reasons(0)
				for range 3 {
					if err := errors.Join(a.i.c.Pause(), a.i.c.Resume()); err != nil {
						t.Fatal(err)
					}
					w.pass(time.Second)
				}
				if now := a.i.reasons(0); now != was || !a.i.client.Paused(topic, 0) {
					t.Errorf("%q became %q", was, now)
				}
				if n := len(w.seen()); n != 1 {
					t.Errorf("%d calls", n)
				}
				w.until(time.Minute, "the retry", func() bool { return len(w.of(0, 0)) == 2 })
				if calls := w.of(0, 0); calls[1].At-calls[0].At < time.Minute {
					t.Errorf("early: %v", calls)
				}
			})
		})
	}
}

// None named is all, those to come included; and one named is an exception to it.
func TestPauseOfAllHoldsForPartitionsToCome(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 3)
		a := w.start(`[1]`, with)
		b := w.start(`[1]`, with)
		w.until(time.Minute, "everything handled by both", func() bool {
			return len(a.c.Status().Partitions) == 2 && len(b.c.Status().Partitions) == 2 && w.handled(4, 3)
		})
		if err := a.c.Pause(); err != nil {
			t.Fatal(err)
		}
		b.stop()
		w.until(time.Minute, "a has everything", func() bool { return len(a.c.Status().Partitions) == 4 })
		before := len(w.seen())
		for p := range 4 {
			w.produce(int32(p), 2)
		}
		w.pass(time.Minute)
		if n := len(w.seen()); n != before {
			t.Errorf("%d calls of paused partitions", n-before)
		}
		if err := a.c.Resume(at(2)); err != nil {
			t.Fatal(err)
		}
		w.until(5*time.Second, "the partition that is named", func() bool { return len(w.of(2, 4)) == 1 })
		w.pass(time.Minute)
		if n := len(w.seen()); n != before+2 {
			t.Errorf("%d calls, of two records", n-before)
		}
		if err := a.c.Resume(); err != nil {
			t.Fatal(err)
		}
		w.until(5*time.Second, "everything handled", func() bool { return w.handled(4, 5) })
		for p := range 4 {
			if a.client.Paused(topic, int32(p)) {
				t.Errorf("partition %d is still paused", p)
			}
		}
		// A resume of all takes back what was said of one.
		if err := errors.Join(a.c.Pause(at(1)), a.c.Resume()); err != nil {
			t.Fatal(err)
		}
		a.client.LoseAssignment()
		w.until(time.Minute, "the partitions are back", func() bool { return a.count(observe.Lost) == 1 && len(a.c.Status().Partitions) == 4 })
		w.produce(1, 1)
		w.until(5*time.Second, "everything handled", func() bool { return len(w.of(1, 5)) == 1 })
	})
}

// Under an open breaker a retry of all is one call: of the record that was called longest ago.
func TestRetryNowOfAllIsOneProbeWhileOpen(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(4, 2)
		w.handler = func(context.Context, call) error {
			time.Sleep(10 * time.Millisecond) // so that all four calls are under way at the trip
			return errDown
		}
		i := w.start(`{"intervals": [600, 600], "jitter": 0}`, nil)
		w.until(time.Minute, "four witnesses", func() bool { return len(w.failed()) == 4 })
		for n := 1; n <= 3; n++ {
			if err := i.c.RetryNow(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			if calls := w.seen(); len(calls) != 4+n {
				t.Fatalf("%d calls after %d commands: %v", len(calls)-4, n, calls)
			}
		}
		again := map[int32]int{}
		for _, c := range w.seen()[4:] {
			again[c.Partition]++
			if c.Attempt != 2 || c.Offset != 0 {
				t.Errorf("%v", c)
			}
		}
		if len(again) != 3 {
			t.Errorf("they do not take turns: %v", w.seen())
		}
		w.mu.Lock()
		w.handler = nil
		w.mu.Unlock()
		if err := i.c.RetryNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.until(time.Second, "the breaker closes", func() bool { return i.state() == "closed" })
		w.pass(time.Second)
		if len(w.of(0, 1))+len(w.of(1, 1))+len(w.of(2, 1))+len(w.of(3, 1)) != 1 {
			t.Errorf("the records whose own wait is still to come wait alone: %v", w.seen())
		}
		// Closed, a retry of all ends every wait.
		if err := i.c.RetryNow(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.until(time.Second, "everything handled", func() bool { return w.handled(4, 2) })
	})
}

func TestRetryNowShortensNoLaterWait(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		w.setDown(true)
		i := w.start(`{"intervals": [30, 30], "jitter": 0}`, nil)
		w.until(time.Minute, "the failure", func() bool { return len(w.failed()) == 1 })
		w.pass(10 * time.Second)
		if err := i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		w.until(2*time.Minute, "the dead letter", func() bool { return w.handled(1, 1) })
		calls := w.seen()
		if len(calls) != 3 {
			t.Fatalf("%v", calls)
		}
		if wait := calls[2].At - calls[1].At; wait < 30*time.Second {
			t.Errorf("the next wait was %v", wait)
		}
	})
}

func TestCommandsSayWhyTheyCannot(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		a := arrange(w, open)
		w.produce(1, 1)
		w.pass(time.Second)
		ended, end := context.WithCancel(t.Context())
		end()
		nowhere := at(7)
		for what, c := range map[string]struct {
			err error
			why string
		}{
			"pause of a partition that is not ours":  {a.i.c.Pause(at(1), nowhere), "orders/7 is not assigned to this instance"},
			"resume of a partition that is not ours": {a.i.c.Resume(nowhere), "not assigned"},
			"retry of a partition that is not ours":  {a.i.c.RetryNow(t.Context(), nowhere), "not assigned"},
			"skip in a partition that is not ours":   {a.i.c.Skip(t.Context(), nowhere, 0, ""), "not assigned"},
			"a partition without a topic":            {a.i.c.Pause(kafka.TopicPartition{}), "without a topic"},
			"skip of another offset":                 {a.i.c.Skip(t.Context(), at(0), 3, ""), "holds no record at offset 3"},
			"skip of a record that has not failed":   {a.i.c.Skip(t.Context(), at(1), 0, ""), "has not failed"},
			"retry with a ctx that has ended":        {a.i.c.RetryNow(ended, at(0)), "context canceled"},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.why) {
				t.Errorf("%s: %v", what, c.err)
			}
		}
		if r := a.i.reasons(1); strings.Contains(r, "operator") {
			t.Error("a command that was refused has paused a partition")
		}
		if len(w.seen()) != 1 {
			t.Error("a command that was refused has called")
		}
		a.i.c.Pause(at(0))
		if err := a.i.c.RetryNow(t.Context(), at(0)); err == nil || !strings.Contains(err.Error(), "resume it first") {
			t.Error(err)
		}
		a.i.c.Resume()
		if err := a.i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 5) })
		if err := a.i.c.RetryNow(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing waits") {
			t.Error(err)
		}
		a.i.stop()
		for _, err := range []error{a.i.c.Pause(), a.i.c.Resume(at(0)), a.i.c.RetryNow(t.Context()), a.i.c.Skip(t.Context(), at(0), 0, "")} {
			if !errors.Is(err, ErrNotRunning) {
				t.Errorf("after the end: %v", err)
			}
		}
	})
}

func TestSkipWaitsForTheAcknowledgementAndItsContext(t *testing.T) {
	t.Run("the write fails", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			a := arrange(w, open)
			w.dlq.set(func(d *scriptedDLQ) { d.away = errDLQAway })
			err := a.i.c.Skip(inTime(t), at(0), 0, "known")
			if !errors.Is(err, errDLQAway) || !strings.Contains(err.Error(), "still held") {
				t.Errorf("answered %v", err)
			}
			w.dlq.set(func(d *scriptedDLQ) { d.away = nil })
			w.until(2*time.Minute, "the rest", func() bool { return w.committed(0) == 5 })
			if ls := w.dlq.written(); len(ls) != 1 || ls[0].Kind != dlq.Skipped || ls[0].Reason != "known" {
				t.Errorf("dead letters %+v", ls)
			}
		})
	})
	t.Run("ctx ends first", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			a := arrange(w, open)
			w.dlq.set(func(d *scriptedDLQ) { d.latency = 10 * time.Second })
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if err := a.i.c.Skip(ctx, at(0), 0, "known"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("answered %v", err)
			}
			if err := a.i.c.Skip(t.Context(), at(0), 0, "known"); err == nil || !strings.Contains(err.Error(), "on its way") {
				t.Errorf("a second time: %v", err)
			}
			w.until(2*time.Minute, "the rest", func() bool { return w.committed(0) == 5 })
			if ls := w.letters(); len(ls) != 1 || ls[0] != "0@0 skipped" {
				t.Errorf("dead letters %q", ls)
			}
		})
	})
	t.Run("the consumer stops first", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			a := arrange(w, open)
			w.dlq.set(func(d *scriptedDLQ) { d.silent = true })
			answer, ctx := make(chan error, 1), inTime(t)
			go func() { answer <- a.i.c.Skip(ctx, at(0), 0, "known") }()
			w.pass(time.Second)
			a.i.stop()
			if err := <-answer; !errors.Is(err, ErrNotRunning) {
				t.Errorf("answered %v", err)
			}
			if at := w.committed(0); at > 0 {
				t.Errorf("committed %d", at)
			}
		})
	})
}

// A dead letter that could not be written is written at once at an operator's word.
func TestRetryNowWritesADeadLetterAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 2)
		w.handler = failing(errBad, "0@0")
		w.dlq.set(func(d *scriptedDLQ) { d.away = errDLQAway })
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "the failed write", func() bool { return i.count(observe.DeadLetterFailed) == 1 })
		w.pass(time.Minute) // by now the writes are 15 s apart
		w.dlq.set(func(d *scriptedDLQ) { d.away = nil })
		if err := i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		w.until(100*time.Millisecond, "the dead letter", func() bool { return len(w.letters()) == 1 })
		if n := len(w.of(0, 0)); n != 1 {
			t.Errorf("called %d times", n)
		}
	})
}
