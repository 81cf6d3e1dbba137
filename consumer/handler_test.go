package consumer

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Handlers that hang, panic, are cut short, or never return.

func TestContextEndsAtTheHandlersTimeAndNotBefore(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 4)
		var cut []time.Duration
		w.handler = func(ctx context.Context, c call) error {
			if c.Partition == 1 && c.Offset == 2 && c.Attempt == 1 {
				<-ctx.Done()
				cut = append(cut, w.now()-c.At)
				return ctx.Err()
			}
			select {
			case <-ctx.Done():
				t.Errorf("cut short: %v", c)
			case <-time.After(9900 * time.Millisecond):
			}
			return nil
		}
		i := w.start(`{"intervals": [3], "jitter": 0}`, func(s *setup) { s.config.HandlerTimeout = 10 * time.Second })
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(2, 4) })
		if len(cut) != 1 || cut[0] < 10*time.Second || cut[0] > 10200*time.Millisecond {
			t.Errorf("the context ended after %v", cut)
		}
		// An error after that, within the second, is a verdict like any other.
		if calls := w.of(1, 2); len(calls) != 2 || calls[1].Attempt != 2 || calls[1].At-calls[0].Ended < 3*time.Second {
			t.Errorf("%v", calls)
		}
		if i.count(observe.Stalled) != 0 {
			t.Error("a handler that heeds its context is not stalled")
		}
	})
}

// A handler that is deaf to its context has failed a second after its time, and its lane waits for it.
func TestHandlerThatOutlivesItsTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		late  func() error
		calls int // of the record in the end
		kind  dlq.Kind
	}{
		{"and succeeds late", func() error { return nil }, 1, ""},
		{"and fails late", func() error { return errDown }, 2, ""},
		{"and fails late for good", func() error { return errBad }, 2, ""}, // one call, one verdict: the first
		{"and panics late", func() error { panic("late") }, 2, ""},
		{"and ends its goroutine late", func() error { runtime.Goexit(); return nil }, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				store := w.scripted()
				w.topic(3, 4)
				release := make(chan struct{})
				var ctxEnded time.Duration
				w.handler = func(ctx context.Context, k call) error {
					if k.Partition == 0 && k.Offset == 1 && k.Attempt == 1 {
						<-ctx.Done()
						ctxEnded = w.now() - k.At
						<-release
						return c.late()
					}
					return nil
				}
				i := w.start(`{"intervals": [5, 5], "jitter": 0}`, func(s *setup) { s.config.HandlerTimeout = 10 * time.Second })
				w.until(time.Minute, "the verdict", func() bool { return i.count(observe.Tripped) == 1 })
				hung := w.of(0, 1)[0]
				if took := w.now() - hung.At; took < 11*time.Second || took > 11300*time.Millisecond {
					t.Errorf("the verdict came after %v", took)
				}
				if ctxEnded < 10*time.Second || ctxEnded > 10200*time.Millisecond {
					t.Errorf("the context ended after %v", ctxEnded)
				}
				if s := i.c.Status(); !slices.Equal(s.Stalled, []string{"orders/0"}) || len(s.Held) != 1 || s.Held[0].Attempts != 1 || !strings.Contains(s.Held[0].Error, "handler timed out") {
					t.Errorf("stalled %v, held %+v", s.Stalled, s.Held)
				}
				w.pass(10 * time.Millisecond)
				if !slices.Contains(store.calls(), "save") {
					t.Error("the attempt was not stored at once")
				}
				// The breaker has been told: it opened, and the others probe.
				for p := range int32(3) {
					w.produce(p, 1)
				}
				w.until(20*time.Second, "the others go on", func() bool { return len(w.of(1, 4)) == 1 && len(w.of(2, 4)) == 1 })
				w.pass(time.Minute)
				if n := len(w.of(0, 1)); n != 1 || len(w.of(0, 2)) != 0 {
					t.Errorf("called while its handler still ran: %v", w.seen())
				}
				if at := w.committed(0); at != 1 {
					t.Errorf("committed %d", at)
				}
				close(release)
				w.until(time.Minute, "the rest", func() bool { return w.committed(0) == 5 })
				calls := w.of(0, 1)
				if len(calls) != c.calls {
					t.Errorf("called %d times, not %d: %v", len(calls), c.calls, calls)
				}
				if last := calls[len(calls)-1]; last.Attempt != c.calls {
					t.Errorf("counted twice: %v", calls)
				}
				if ls := w.letters(); len(ls) != 0 {
					t.Errorf("dead letters %q", ls)
				}
				if i.count(observe.Stalled) != 1 || i.count(observe.Unstalled) != 1 || len(i.c.Status().Stalled) != 0 {
					t.Error(w.picture())
				}
				inOrder(t, w)
			})
		})
	}
}

func TestPanicAndGoexitArePermanentWithTheirStack(t *testing.T) {
	for name, c := range map[string]struct {
		fail func()
		text string
	}{
		"panic":                 {func() { panic("no such card") }, "panic: no such card"},
		"panic with an error":   {func() { panic(errDown) }, "panic: connection refused"},
		"nil pointer":           {func() { var m *kafka.Message; _ = m.Value }, "panic: runtime error: invalid memory address or nil pointer dereference"},
		"runtime.Goexit":        {runtime.Goexit, "panic: the handler called runtime.Goexit"},
		"panic(nil)":            {func() { panic(nil) }, "panic called with nil argument"},
		"panic in a second try": {func() { panic("second") }, "panic: second"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(2, 5)
				again := name == "panic in a second try"
				w.handler = func(_ context.Context, k call) error {
					if k.Partition == 0 && k.Offset%2 == 0 {
						if again && k.Attempt == 1 {
							return errDown
						}
						c.fail()
					}
					return nil
				}
				i := w.start(`[1]`, nil)
				w.until(time.Minute, "everything handled and committed", func() bool { return w.committed(0) == 5 && w.committed(1) == 5 })
				ls := w.dlq.written()
				if len(ls) != 3 {
					t.Fatalf("dead letters %q", w.letters())
				}
				for _, l := range ls {
					if l.Kind != dlq.PanicKind || !strings.Contains(l.ErrorMessage, c.text) || l.ErrorClass != "panic" || l.Attempts != len(w.of(0, int64(l.Record.TopicPartition.Offset))) {
						t.Errorf("%q, %q, %q, %d attempts", l.Kind, l.ErrorMessage, l.ErrorClass, l.Attempts)
					}
					if name != "runtime.Goexit" && !strings.Contains(l.Stack, "handler_test.go") {
						t.Errorf("the stack does not show where:\n%s", l.Stack)
					}
				}
				if !again && i.count(observe.Tripped) != 0 {
					t.Error("a panic says nothing to the breaker")
				}
				inOrder(t, w)
			})
		})
	}
}

func TestHandlerReadsTheAttemptFromItsContext(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 2)
		var seen []Attempt
		var failed []time.Time
		w.handler = func(ctx context.Context, c call) error {
			if c.Offset == 0 {
				seen = append(seen, AttemptFrom(ctx))
				failed = append(failed, time.Now())
				return errors.New("error " + string(rune('0'+c.Attempt)))
			}
			if a := AttemptFrom(ctx); a != (Attempt{Number: 1}) {
				t.Errorf("of a fresh record: %+v", a)
			}
			return nil
		}
		i := w.start(`{"intervals": [2, 2, 2], "jitter": 0}`, nil)
		w.until(time.Minute, "two attempts", func() bool { return len(w.of(0, 0)) == 2 })
		w.pass(100 * time.Millisecond)
		i.stop()
		w.start(`{"intervals": [2, 2, 2], "jitter": 0}`, nil)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 2) })
		first := failed[0]
		for n, want := range []Attempt{
			{Number: 1},
			{Number: 2, LastError: "error 1", FirstFailedAt: first},
			{Number: 3, LastError: "error 2", FirstFailedAt: first}, // from the store
			{Number: 4, LastError: "error 3", FirstFailedAt: first},
		} {
			got := seen[n]
			if got.Number != want.Number || got.LastError != want.LastError || got.FirstFailedAt.Sub(want.FirstFailedAt).Abs() > time.Millisecond {
				t.Errorf("call %d: %+v, not %+v", n+1, got, want)
			}
		}
		if a := AttemptFrom(context.Background()); a != (Attempt{Number: 1}) {
			t.Errorf("outside of a handler: %+v", a)
		}
	})
}

// The record in hand is finished: its context does not end with Run's.
func TestShutdownFinishesTheRecordInHand(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 5)
		w.handler = func(ctx context.Context, c call) error {
			select {
			case <-time.After(5 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "the second calls", func() bool { return len(w.seen()) == 4 })
		w.pass(time.Second)
		began := w.now()
		if err := i.stop(); err != nil {
			t.Fatal(err)
		}
		if took := w.now() - began; took < 3500*time.Millisecond || took > 4500*time.Millisecond {
			t.Errorf("the shutdown took %v", took)
		}
		if w.committed(0) != 2 || w.committed(1) != 2 || len(w.failed()) != 0 || len(w.seen()) != 4 {
			t.Errorf("committed %d and %d; %v", w.committed(0), w.committed(1), w.seen())
		}
		for _, e := range i.told() {
			if e.Kind == observe.Stopping && e.Text != "orders/0@1, orders/1@1" {
				t.Errorf("it says that it finishes %q", e.Text)
			}
		}
	})
}

// After our own cancel an error says nothing of the record, and nil is still success. At a shutdown:
func TestCallThatAShutdownCutsShortIsNoAttempt(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(3, 2)
		w.handler = func(ctx context.Context, c call) error {
			if c.Instance != "c1" {
				return nil
			}
			<-ctx.Done()
			switch c.Partition {
			case 0:
				return ctx.Err()
			case 1:
				return errBad
			}
			return nil
		}
		i := w.start(`[60]`, func(s *setup) { s.config.DrainTimeout = 8 * time.Second })
		w.until(time.Minute, "the calls", func() bool { return len(w.seen()) == 3 })
		began := w.now()
		if err := i.stop(); err != nil {
			t.Errorf("Run answered %v", err)
		}
		if took := w.now() - began; took < 5*time.Second || took > 8*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		if slices.Contains(store.calls(), "save") || i.count(observe.Tripped)+i.count(observe.Held) > 0 || len(w.dlq.written()) > 0 {
			t.Errorf("counted: %q\n%s", store.calls(), w.picture())
		}
		if w.committed(0) > 0 || w.committed(1) > 0 || w.committed(2) != 1 {
			t.Errorf("committed %d, %d, %d", w.committed(0), w.committed(1), w.committed(2))
		}
		w.start(`[60]`, nil)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(3, 2) })
		for p, calls := range map[int32]int{0: 2, 1: 2, 2: 1} {
			if got := w.of(p, 0); len(got) != calls || got[len(got)-1].Attempt != 1 {
				t.Errorf("partition %d: %v", p, got)
			}
		}
	})
}

// At a revoke, with the record in hand the probe: it is handed on. resilience4j#544
func TestProbeThatARevokeCutsShortIsHandedOn(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(2, 3)
		w.handler = func(ctx context.Context, c call) error {
			switch {
			case c.At < 30*time.Second:
				time.Sleep(10 * time.Millisecond) // so that both calls are under way at the trip
				return errDown
			case c.At < 42*time.Second:
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		const strat = `{"intervals": [40, 40, 40], "jitter": 0}`
		quick := func(s *setup) {
			with(s)
			s.config.HandlerTimeout, s.config.DrainTimeout = time.Hour, 4*time.Second
			s.client.MaxPollInterval, s.client.SessionTimeout = 20*time.Second, 10*time.Second
		}
		a := w.start(strat, quick)
		w.until(time.Minute, "two witnesses", func() bool { return len(w.failed()) == 2 })
		if err := a.c.Pause(at(0)); err != nil { // so that partition 1 probes, which an incremental rebalance takes away
			t.Fatal(err)
		}
		w.until(2*time.Minute, "a's probe", func() bool { return a.state() == "half-open" })
		b := w.start(strat, quick)
		w.until(time.Minute, "b's partition", func() bool { return len(b.c.Status().Partitions) == 1 && len(a.c.Status().Partitions) == 1 })
		if err := a.c.Resume(); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "everything handled", func() bool { return w.handled(2, 3) })
		w.until(time.Second, "a's breaker is closed", func() bool { return a.state() == "closed" })
		cut := 0
		for _, c := range w.failed() {
			if errors.Is(c.Err, context.Canceled) {
				cut++
				if c.Attempt != 2 || c.Partition != 1 {
					t.Errorf("%v", c)
				}
			}
		}
		if cut != 1 {
			t.Errorf("%d calls were cut short: %v", cut, w.failed())
		}
		for p := range int32(2) {
			if calls := w.of(p, 0); calls[len(calls)-1].Attempt != 2 {
				t.Errorf("a call that was cut short was counted: %v", calls)
			}
		}
	})
}

// OmniRoute#13836: a probe that never returns gives the slot back, and another record may probe.
func TestProbeThatHangsGivesTheSlotBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 0)
		w.produce(0, 2)
		w.handler = func(_ context.Context, c call) error {
			switch {
			case c.Partition == 1:
				return nil
			case c.Attempt == 1:
				return errDown
			}
			<-w.over
			return nil
		}
		i := w.start(`{"intervals": [5, 30], "jitter": 0}`, func(s *setup) { s.config.HandlerTimeout = 3 * time.Second })
		w.until(time.Minute, "the probe hangs", func() bool { return i.state() == "half-open" })
		w.produce(1, 2)
		w.until(20*time.Second, "its verdict", func() bool { return i.count(observe.ProbeFailed) == 1 })
		w.until(time.Minute, "another probe", func() bool { return i.state() == "closed" && len(w.of(1, 1)) == 1 })
	})
}

func TestOnePartitionThatHangsDoesNotStopTheOthers(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(4, 300)
		release := make(chan struct{})
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 2 && c.Offset == 5 {
				<-release
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		i := w.start(`[1]`, nil)
		w.until(10*time.Second, "the others", func() bool { return w.committed(0) == 300 && w.committed(1) == 300 && w.committed(3) == 300 })
		if at := w.committed(2); at != 5 {
			t.Errorf("committed %d", at)
		}
		if age := i.c.Status().PollAge; age > 110*time.Millisecond {
			t.Errorf("no Poll for %v", age)
		}
		close(release)
		w.until(10*time.Second, "the rest", func() bool { return w.committed(2) == 300 })
		inOrder(t, w)
	})
}

func TestHandlerThatNeverReturnsDoesNotHoldUpTheEnd(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"before its time-out": time.Hour, "stalled": time.Second} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(3, 2)
				w.handler = func(_ context.Context, c call) error {
					if c.Partition == 1 {
						<-w.over
					}
					return nil
				}
				i := w.start(`[1]`, func(s *setup) {
					s.client.MaxPollInterval, s.config.DrainTimeout, s.config.HandlerTimeout = time.Minute, 5*time.Second, timeout
				})
				w.until(time.Minute, "the others", func() bool { return w.committed(0) == 2 && w.committed(2) == 2 })
				w.pass(5 * time.Second)
				began := w.now()
				err := i.stop()
				took := w.now() - began
				if took > 7*time.Second {
					t.Errorf("the shutdown took %v with a DrainTimeout of 5 s", took)
				}
				if !errors.Is(err, ErrDrainTimeout) || !strings.Contains(err.Error(), "orders/1") || strings.Contains(err.Error(), "orders/0") {
					t.Errorf("Run answered %v", err)
				}
				if at := w.committed(1); at > 0 {
					t.Errorf("committed %d", at)
				}
				// Nothing is left to a late handler: the group goes on without it.
				w.mu.Lock()
				w.handler = nil
				w.mu.Unlock()
				w.start(`[1]`, nil)
				w.until(time.Minute, "everything handled by another", func() bool { return w.doneBy("c2", 1, 0, 2) })
			})
		})
	}
}

// A shutdown in the middle of an hour's wait ends in seconds, the record stays uncommitted, and the next start honours the wait.
func TestShutdownInAnHoursWait(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 3)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && c.Offset == 1 && c.Attempt == 1 {
				return errDown
			}
			return nil
		}
		const strat = `{"intervals": ["1h"], "jitter": 0}`
		i := w.start(strat, nil)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		w.pass(5 * time.Second)
		began := w.now()
		if err := i.stop(); err != nil {
			t.Fatal(err)
		}
		if took := w.now() - began; took > time.Second {
			t.Errorf("the shutdown took %v", took)
		}
		if at := w.committed(0); at != 1 {
			t.Errorf("committed %d", at)
		}
		w.pass(59 * time.Minute) // nobody is there
		w.start(strat, nil)
		w.until(5*time.Second, "the other partition: a gate does not outlive the process", func() bool { return w.committed(1) == 3 })
		w.until(2*time.Minute, "the rest", func() bool { return w.committed(0) == 3 })
		calls := w.of(0, 1)
		if len(calls) != 2 || calls[1].Attempt != 2 {
			t.Fatalf("%v", calls)
		}
		if wait := calls[1].At - calls[0].Ended; wait < time.Hour || wait > time.Hour+100*time.Millisecond {
			t.Errorf("called %v after its failure", wait)
		}
	})
}

// A call that returns in the very instant of its time-out leaves the call after it alone.
func TestTimeOutEndsNoOtherCall(t *testing.T) {
	l := newLane(assemble(newFirehose(1), Config{Kafka: &kafka.ConfigMap{"group.id": "g"}, Strategy: strategy.MustParse(`[1]`)}.withDefaults(), noLetters{}))
	slow, quick := &kafka.Message{}, &kafka.Message{}
	var over atomic.Bool
	var watching sync.WaitGroup
	watching.Go(func() {
		for !over.Load() {
			if l.current.Load() == slow {
				runtime.Gosched() // it may be over by now
				l.timeOut(slow, 0)
			}
		}
	})
	defer watching.Wait()
	defer over.Store(true)
	ended, last := 0, l.ctx
	for range 100_000 {
		l.current.Store(slow)
		l.context()
		runtime.Gosched()
		l.current.Store(quick)
		ctx := l.context()
		if ctx.Err() != nil {
			t.Fatal("it was ended for the call before")
		}
		if ctx != last {
			ended, last = ended+1, ctx
		}
		runtime.Gosched()
		if ctx.Err() != nil {
			t.Fatal("it was ended for the call before, in its middle")
		}
	}
	if ended == 0 {
		t.Error("no call was ended, so nothing was shown")
	}
}
