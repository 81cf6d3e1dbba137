package consumer

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
)

// The crash guard: a record that kills its process does not crash-loop for ever, and no innocent record shares its deaths.

// quick has a member that died found out in seconds.
func quick(s *setup) { s.client.SessionTimeout = 6 * time.Second }

// instance finds one by its name.
func (w *world) instance(name string) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[slices.IndexFunc(w.instances, func(i *instance) bool { return i.name == name })]
}

// deadly is a handler that kills its process at some records, as os.Exit would.
func (w *world) deadly(at ...string) func(context.Context, call) error {
	return func(_ context.Context, c call) error {
		if slices.Contains(at, fmt.Sprintf("%d@%d", c.Partition, c.Offset)) {
			w.instance(c.Instance).kill()
			<-w.over
		}
		time.Sleep(10 * time.Millisecond)
		return nil
	}
}

// supervise starts an instance whenever the last one has died, as an orchestrator does, until everything is handled.
func (w *world) supervise(strat string, change func(*setup), partitions, n int) (last *instance) {
	last = w.start(strat, change)
	w.until(10*time.Minute, "everything handled", func() bool {
		if last.dead.Load() {
			last = w.start(strat, change)
		}
		return w.handled(partitions, n)
	})
	return last
}

// pulsar#5881: the first death goes unseen, three more are noted, then it is dead-lettered without a call.
func TestRecordThatKillsItsProcessIsDeadLetteredInTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		strat    string
		offset   int64
		calls    int // that began, the unseen one included
		attempts int
		kind     dlq.Kind
	}{
		"first of its partition":     {`{"intervals": [{"wait": 20, "times": 9}], "jitter": 0}`, 0, 4, 3, dlq.Crash},
		"behind others":              {`{"intervals": [{"wait": 20, "times": 9}], "jitter": 0}`, 4, 4, 3, dlq.Crash},
		"with no interval left":      {`{"intervals": [20, 20], "jitter": 0}`, 0, 4, 3, dlq.Crash}, // crash says more
		"with a shorter strategy":    {`{"intervals": [20], "jitter": 0}`, 0, 3, 2, dlq.Exhausted},
		"with a breaker of 3 in row": {`{"intervals": [20, 20, 20], "jitter": 0, "breaker": {"consecutiveFailures": 3}}`, 0, 4, 3, dlq.Crash},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(3, 8)
				w.handler = w.deadly(fmt.Sprintf("1@%d", c.offset))
				last := w.supervise(c.strat, quick, 3, 8)
				calls := w.of(1, c.offset)
				if len(calls) > c.calls || len(calls) < c.attempts+1 {
					t.Fatalf("%d calls: %v", len(calls), calls)
				}
				for n := 1; n < len(calls); n++ {
					if wait := calls[n].At - calls[n-1].At; calls[n].Attempt > calls[n-1].Attempt && wait < 20*time.Second {
						t.Errorf("a noted death is an attempt with its interval: %v after the call before", wait)
					}
				}
				if ls := w.dlq.written(); len(ls) != 1 || ls[0].Kind != c.kind || ls[0].Attempts != c.attempts || ls[0].Record.TopicPartition.Partition != 1 {
					t.Errorf("dead letters: %+v", ls)
				}
				for _, k := range w.seen() {
					if k.Attempt != 1 && (k.Partition != 1 || k.Offset != c.offset) {
						t.Errorf("an innocent record shares a death: %v", k)
					}
				}
				w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 8 && w.committed(1) == 8 && w.committed(2) == 8 })
				w.until(time.Minute, "the guard is off", func() bool { return !last.c.Status().Guard })
				if err := last.stop(); err != nil {
					t.Error(err)
				}
				// Nothing is left of it.
				found, err := w.store.Claim(t.Context(), group, "another", []partition{{Topic: topic, Partition: 0}, {Topic: topic, Partition: 1}, {Topic: topic, Partition: 2}})
				if err != nil {
					t.Fatal(err)
				}
				for p, l := range found {
					if len(l.Entries) > 0 || l.ForeignMark {
						t.Errorf("%v: the store still has %+v", p, l)
					}
				}
			})
		})
	}
}

func TestCrashLimitIsTheUsers(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.handler = w.deadly("0@1")
		w.supervise(`{"intervals": [{"wait": 1, "times": 9}], "jitter": 0}`, func(s *setup) { quick(s); s.config.CrashLimit = 1 }, 1, 3)
		if calls, ls := w.of(0, 1), w.letters(); len(calls) != 2 || !slices.Equal(ls, []string{"0@1 crash"}) {
			t.Errorf("%v, dead letters %q", calls, ls)
		}
	})
}

// One call at a time over all lanes, each noted first, until the first commit; then as before.
func TestOneCallAtATimeUntilTheFirstCommit(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(4, 20)
		w.handler = func(_ context.Context, c call) error {
			if c.Instance == "c1" {
				<-w.over
			}
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		a := w.start(`[1]`, quick)
		w.until(time.Minute, "its calls", func() bool { return len(w.seen()) == 4 })
		a.kill()
		b := w.start(`[1]`, quick)
		w.until(time.Minute, "the guard", func() bool { return b.count(observe.GuardOn) == 1 })
		if !b.c.Status().Guard {
			t.Error("the status does not say it")
		}
		w.until(time.Minute, "everything handled", func() bool { return w.handled(4, 20) })
		var off time.Duration
		for _, e := range b.told() {
			if e.Kind == observe.GuardOff {
				off = e.At.Sub(w.began)
			}
		}
		if off == 0 || b.count(observe.GuardOn) != 1 || b.count(observe.GuardOff) != 1 {
			t.Fatal(w.picture())
		}
		guarded, overlap := 0, 0
		last := call{}
		for _, c := range w.seen()[4:] {
			if c.At < off {
				guarded++
				if c.At < last.Ended {
					t.Errorf("two calls at a time: %v and %v", last, c)
				}
			} else if c.At < last.Ended {
				overlap++
			}
			last = c
		}
		if guarded < 4 || guarded > 30 {
			t.Errorf("%d calls under the guard", guarded)
		}
		if overlap == 0 {
			t.Error("still one call at a time after the guard")
		}
		notes := 0
		for _, what := range store.calls() {
			if what == "save" {
				notes++
			}
		}
		if notes != guarded {
			t.Errorf("%d notes for %d calls under the guard", notes, guarded)
		}
	})
}

func TestCleanLeaveLeavesNoMark(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 10)
		w.handler = func(context.Context, call) error {
			time.Sleep(20 * time.Millisecond)
			return nil
		}
		a := w.start(`[1]`, with)
		w.until(time.Minute, "a few records", func() bool { return len(w.seen()) > 8 })
		b := w.start(`[1]`, with)
		w.until(time.Minute, "b's records", func() bool { return len(b.c.Status().Partitions) == 2 && w.handled(4, 10) })
		a.stop()
		w.until(time.Minute, "b has everything", func() bool { return len(b.c.Status().Partitions) == 4 })
		b.stop()
		c := w.start(`[1]`, with)
		for p := range 4 {
			w.produce(int32(p), 1)
		}
		w.until(time.Minute, "everything handled", func() bool { return w.handled(4, 11) })
		for _, i := range []*instance{a, b, c} {
			if i.count(observe.GuardOn) > 0 {
				t.Errorf("%s took a clean leave for a death", i.name)
			}
		}
	})
}

// A claim that is still on its way when its partition is given back does not set the mark behind the release.
func TestClaimThatIsLateDoesNotLeaveAMark(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 1)
		store.set(func(s *scriptedStore) { s.latency = 900 * time.Millisecond })
		a := w.start(`[1]`, nil)
		w.until(time.Minute, "the assignment", func() bool { return a.count(observe.Assigned) == 1 })
		store.set(func(s *scriptedStore) { s.latency = 0 })
		a.stop()
		w.pass(time.Second)
		b := w.start(`[1]`, nil)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 1) })
		if b.count(observe.GuardOn) > 0 {
			t.Error("a clean leave was taken for a death")
		}
	})
}

// A call that we cut short is no death; and who leaves while the guard is on has the next one warned as he was.
func TestCleanLeaveUnderTheGuardKeepsTheWarning(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.handler = func(ctx context.Context, c call) error {
			switch c.Instance {
			case "c1":
				<-w.over
			case "c2":
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		a := w.start(`[1, 1]`, quick)
		w.until(time.Minute, "its call", func() bool { return len(w.seen()) == 1 })
		a.kill()
		b := w.start(`[1, 1]`, func(s *setup) { quick(s); s.config.DrainTimeout = 5 * time.Second })
		w.until(time.Minute, "its call under the guard", func() bool { return len(w.seen()) == 2 })
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		c := w.start(`[1, 1]`, quick)
		w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 3 })
		if c.count(observe.GuardOn) != 1 {
			t.Error("the warning was lost")
		}
		if calls := w.of(0, 0); len(calls) != 3 || calls[2].Attempt != 1 {
			t.Errorf("a call that was cut short counts as a death: %v", calls)
		}
	})
}

// A process that dies while a record waits has no death to note: only a call that was under way.
func TestDeathBetweenCallsIsNoAttempt(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 3)
		w.setDown(true)
		const strat = `{"intervals": [{"wait": 30, "times": 6}], "jitter": 0}`
		i := w.start(strat, quick)
		for n := 1; n <= 3; n++ {
			w.until(2*time.Minute, "another call", func() bool { return len(w.of(0, 0)) >= n || len(w.of(1, 0)) >= n })
			w.pass(5 * time.Second)
			i.kill()
			i = w.start(strat, quick)
		}
		w.setDown(false)
		w.until(5*time.Minute, "everything handled", func() bool { return w.handled(2, 3) })
		if len(w.letters()) > 0 {
			t.Errorf("dead letters %q", w.letters())
		}
		for p := range int32(2) {
			for n, c := range w.of(p, 0) {
				if c.Attempt != n+1 {
					t.Errorf("call %d is attempt %d: %v", n+1, c.Attempt, w.of(p, 0))
				}
			}
		}
	})
}

// Without the store nobody can be warned, and nobody is held up.
func TestGuardNeedsTheStoreAndNothingNeedsTheGuard(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(2, 10)
		w.handler = func(_ context.Context, c call) error {
			if c.Instance == "c1" {
				<-w.over
			}
			return nil
		}
		a := w.start(`[1]`, quick)
		w.until(time.Minute, "its calls", func() bool { return len(w.seen()) == 2 })
		a.kill()
		b := w.start(`[1]`, quick)
		w.until(time.Minute, "the guard", func() bool { return b.count(observe.GuardOn) == 1 })
		store.set(func(s *scriptedStore) { s.latency = time.Hour })
		w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 10 && w.committed(1) == 10 })
		if len(w.letters()) > 0 {
			t.Errorf("dead letters %q", w.letters())
		}
	})
}
