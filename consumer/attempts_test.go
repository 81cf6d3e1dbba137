package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
)

// Attempts survive, and the store may fail: laws 6, 11 and 12.

func TestCountAndWaitSurvive(t *testing.T) {
	const strat = `{"intervals": [5, 60], "jitter": 0}`
	for how, leave := range map[string]func(w *world, a *instance){
		"a restart": func(w *world, a *instance) {
			if err := a.stop(); err != nil {
				w.t.Fatal(err)
			}
			w.start(strat, quick)
		},
		"a kill": func(w *world, a *instance) {
			a.kill()
			w.start(strat, quick)
		},
		"a move": func(w *world, a *instance) {
			w.start(strat, quick)
			w.pass(time.Second)
			if err := a.stop(); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(how, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(1, 3)
				w.handler = func(_ context.Context, c call) error {
					if c.Offset == 0 {
						return errDown
					}
					return nil
				}
				a := w.start(strat, quick)
				w.until(time.Minute, "two attempts", func() bool { return len(w.of(0, 0)) == 2 })
				w.pass(10 * time.Second)
				leave(w, a)
				w.until(2*time.Minute, "everything handled", func() bool { return w.handled(1, 3) })

				calls := w.of(0, 0)
				if len(calls) != 3 {
					t.Fatalf("n intervals make n+1 calls: %v", calls)
				}
				for n, c := range calls {
					if c.Attempt != n+1 {
						t.Errorf("attempt %d of %v", n+1, calls)
					}
				}
				if wait := calls[2].At - calls[1].Ended; wait < time.Minute || wait > time.Minute+500*time.Millisecond {
					t.Errorf("called %v after the second failure, not a minute: %v", wait, calls)
				}
				if calls[2].Instance != "c2" {
					t.Errorf("the third call was not the successor's: %v", calls)
				}
				if ls := w.dlq.written(); len(ls) != 1 || ls[0].Attempts != 3 || ls[0].Kind != dlq.Exhausted || ls[0].ErrorMessage != errDown.Error() {
					t.Errorf("dead letters: %+v", ls)
				}
			})
		})
	}
}

// karafka#3223: a count from before is not used when the partition returns.
func TestCountOfAPartitionThatReturnsIsTheStores(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		const strat = `{"intervals": [{"wait": 4, "times": 30}], "jitter": 0, "breaker": {"scope": "partition"}}`
		w.topic(2, 1)
		w.setDown(true)
		a := w.start(strat, with)
		w.until(time.Minute, "a's attempts", func() bool { return len(w.of(0, 0)) == 2 && len(w.of(1, 0)) == 2 })
		b := w.start(strat, with)
		w.until(time.Minute, "b's partition", func() bool { return len(b.c.Status().Partitions) == 1 && len(b.c.Status().Held) == 1 })
		w.pass(10 * time.Second)
		b.stop()
		w.until(time.Minute, "it is back", func() bool { return len(a.c.Status().Partitions) == 2 })
		w.pass(10 * time.Second)
		byB := 0
		for p := range int32(2) {
			calls := w.of(p, 0)
			for n, c := range calls {
				if c.Attempt != n+1 {
					t.Fatalf("call %d is attempt %d: %v", n+1, c.Attempt, calls)
				}
				if n > 0 && c.At-calls[n-1].Ended < 4*time.Second {
					t.Errorf("early: %v", calls)
				}
				if c.Instance == b.name {
					byB++
				}
			}
			if last := calls[len(calls)-1]; last.Instance != a.name {
				t.Errorf("partition %d was not called by a in the end", p)
			}
		}
		if byB < 2 {
			t.Errorf("b called %d times: nothing moved", byB)
		}
	})
}

// Law 11: a topic that was made anew has other records at the same offsets.
func TestAnotherRecordAtTheSameOffsetStartsAtZero(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		old := attempts.NewRecord(0, w.began.Add(-time.Hour))
		if _, err := w.store.Save(t.Context(), group, partition{Topic: topic, Partition: 0}, old, attempts.Entry{Attempts: 3, Wait: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.topic(1, 1)
		w.setDown(true)
		w.start(`[1, 1]`, nil)
		w.until(time.Second, "its first call", func() bool { return len(w.seen()) == 1 })
		if c := w.seen()[0]; c.Attempt != 1 {
			t.Errorf("called as attempt %d", c.Attempt)
		}
	})
}

// A success elsewhere wipes nothing (spring-kafka#4371), an error that changes starts nothing over (spring-kafka#2641), and only
// calls are attempts.
func TestEachRecordHasItsOwnCount(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(3, 20)
		w.handler = func(_ context.Context, c call) error {
			time.Sleep(300 * time.Millisecond)
			if c.Offset == 4 && c.Partition < 2 {
				return fmt.Errorf("error number %d: %w", c.Attempt, errDown)
			}
			return nil
		}
		w.start(`{"intervals": [1, 2, 1, 2], "jitter": 0, "breaker": {"consecutiveFailures": 2}}`, nil)
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(3, 20) })
		for p := range int32(2) {
			calls := w.of(p, 4)
			if len(calls) != 5 {
				t.Fatalf("%d calls with 4 intervals: %v", len(calls), calls)
			}
			for n, c := range calls {
				if c.Attempt != n+1 {
					t.Errorf("call %d is attempt %d: %v", n+1, c.Attempt, calls)
				}
			}
		}
		for _, c := range w.seen() {
			if c.Err == nil && len(w.of(c.Partition, c.Offset)) != 1 {
				t.Errorf("called more than once: %v", c)
			}
		}
		if ls := w.dlq.written(); len(ls) != 2 || ls[0].Attempts != 5 || ls[1].Attempts != 5 || ls[0].FirstErrorMessage != "error number 1: connection refused" {
			t.Errorf("dead letters: %+v", ls)
		}
	})
}

// Law 12: whatever the store does, counting goes on, nothing is lost, nothing is dead-lettered by mistake or called in a hot loop.
func TestStoreMayFail(t *testing.T) {
	away := func(s *scriptedStore) { s.err = fmt.Errorf("%w: connection refused", attempts.ErrAway) }
	for _, c := range []struct {
		name        string
		start, then func(s *scriptedStore)
		told        map[observe.Kind]int
	}{
		{name: "away from the start", start: away, told: map[observe.Kind]int{observe.StoreAway: 1}},
		{name: "away in the middle", then: away, told: map[observe.Kind]int{observe.StoreAway: 1}},
		{name: "away at the start, then back", start: away, then: func(s *scriptedStore) { s.err = nil },
			told: map[observe.Kind]int{observe.StoreAway: 1, observe.StoreBack: 1}},
		{name: "slow", start: func(s *scriptedStore) { s.latency = 900 * time.Millisecond }},
		{name: "silent", start: func(s *scriptedStore) { s.latency = time.Hour }, told: map[observe.Kind]int{observe.StoreAway: 1}},
		{name: "silent in the middle", then: func(s *scriptedStore) { s.latency = time.Hour }, told: map[observe.Kind]int{observe.StoreAway: 1}},
		// jedis#3187: a write that arrived, and whose answer did not, counts once.
		{name: "the answers are lost", start: func(s *scriptedStore) { away(s); s.replyLost = true }, told: map[observe.Kind]int{observe.StoreAway: 1}},
		{name: "another type under the key", start: func(s *scriptedStore) { s.err = attempts.ErrWrongType },
			told: map[observe.Kind]int{observe.StoreAway: 0, observe.Warning: 3}}, // one for the claim, one for each partition
		{name: "away, then another type under the key", start: away, then: func(s *scriptedStore) { s.err = attempts.ErrWrongType },
			told: map[observe.Kind]int{observe.StoreAway: 1, observe.StoreBack: 1, observe.Warning: 3}}, // it is there, and that is an answer
		{name: "garbage under the key", start: func(s *scriptedStore) { s.err, s.replyLost = attempts.ErrGarbage, true },
			told: map[observe.Kind]int{observe.StoreAway: 0, observe.Warning: 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				store := w.scripted()
				if c.start != nil {
					store.set(c.start)
				}
				w.topic(2, 5)
				w.handler = func(_ context.Context, c call) error {
					if c.Offset == 2 && (c.Partition == 0 || c.Attempt < 3) {
						return errDown
					}
					return nil
				}
				i := w.start(`{"intervals": [2, 4, 8], "jitter": 0}`, nil)
				w.until(time.Minute, "a failure", func() bool { return len(w.failed()) > 0 })
				if c.then != nil {
					store.set(c.then)
				}
				w.until(2*time.Minute, "everything handled", func() bool { return w.handled(2, 5) })
				w.pass(5 * time.Second)

				for p, want := range map[int32]int{0: 4, 1: 3} {
					calls := w.of(p, 2)
					if len(calls) != want {
						t.Fatalf("%d calls, not %d: %v", len(calls), want, calls)
					}
					for n := 1; n < len(calls); n++ {
						if wait := calls[n].At - calls[n-1].Ended; wait < 2*time.Second<<(n-1) {
							t.Errorf("early, after %v: %v", wait, calls)
						}
					}
				}
				if ls := w.dlq.written(); len(ls) != 1 || ls[0].Record.TopicPartition.Partition != 0 || ls[0].Attempts != 4 {
					t.Errorf("dead letters: %+v", ls)
				}
				for _, kind := range []observe.Kind{observe.StoreAway, observe.StoreBack, observe.Warning} {
					if n := i.count(kind); n != c.told[kind] {
						t.Errorf("%v was told %d times, not %d", kind, n, c.told[kind])
					}
				}
				if n, most := len(store.calls()), 20+5*int(w.now()/time.Second); n > most {
					t.Errorf("the store was asked %d times in %v", n, w.now())
				}
				if w.committed(0) != 5 || w.committed(1) != 5 {
					t.Errorf("committed %d and %d", w.committed(0), w.committed(1))
				}
				if at := w.now(); at > 40*time.Second {
					t.Errorf("took %v", at)
				}
				began := time.Now()
				if err := i.stop(); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("the shutdown took %v", took)
				}
			})
		})
	}
}

func TestWhatTheStoreDidNotTakeIsWrittenWhenItIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 2)
		w.setDown(true)
		a := w.start(`{"intervals": [5, 60], "jitter": 0}`, quick)
		w.until(time.Minute, "the first attempt", func() bool { return len(w.seen()) == 1 })
		store.set(func(s *scriptedStore) { s.err = attempts.ErrAway })
		w.until(time.Minute, "the second attempt", func() bool { return len(w.seen()) == 2 })
		w.pass(10 * time.Second)
		store.set(func(s *scriptedStore) { s.err = nil })
		w.until(3*time.Second, "the store is back", func() bool { return a.count(observe.StoreBack) == 1 })
		if away := a.c.Status().StoreAway; away != 0 {
			t.Errorf("away for %v, says the status", away)
		}
		a.kill()
		w.start(`{"intervals": [5, 60], "jitter": 0}`, quick)
		w.until(2*time.Minute, "the third attempt", func() bool { return len(w.seen()) == 3 })
		calls := w.seen()
		if wait := calls[2].At - calls[1].Ended; calls[2].Attempt != 3 || wait < time.Minute || wait > time.Minute+500*time.Millisecond {
			t.Errorf("the count or the wait was lost: %v", calls)
		}
	})
}

func TestCountThatTheStoreCouldNotTellAtTheStartHoldsWhenItIsBack(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 1)
		w.setDown(true)
		const strat = `{"intervals": [5, 40, 5], "jitter": 0}`
		a := w.start(strat, nil)
		w.until(time.Minute, "two attempts", func() bool { return len(w.seen()) == 2 })
		a.stop()
		store.set(func(s *scriptedStore) { s.err = attempts.ErrAway })
		w.start(strat, nil)
		w.until(time.Second, "a call without the store", func() bool { return len(w.seen()) == 3 })
		store.set(func(s *scriptedStore) { s.err = nil })
		w.until(2*time.Minute, "the end", func() bool { return w.handled(1, 1) })
		calls := w.seen()
		// One attempt was counted from zero, since nobody knew better; from then on the store's count and its longer wait hold.
		if len(calls) != 5 || calls[2].Attempt != 1 || calls[3].Attempt != 3 || calls[4].Attempt != 4 {
			t.Fatalf("%v", calls)
		}
		if wait := calls[3].At - calls[1].Ended; wait < 40*time.Second {
			t.Errorf("the store's wait was not kept: %v", calls)
		}
	})
}

func TestHappyPathAsksTheStoreNothing(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(4, 300)
		w.handler = func(_ context.Context, c call) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		}
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(4, 300) })
		w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 300 && w.committed(3) == 300 })
		if asked := store.calls(); !slices.Equal(asked, []string{"claim"}) {
			t.Errorf("asked %q", asked)
		}
		// A record that failed costs its writes, and the happy path after it again nothing.
		w.mu.Lock()
		w.handler = nil
		w.mu.Unlock()
		w.setDown(true)
		w.produce(0, 1)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		w.setDown(false)
		w.until(time.Minute, "all is well", func() bool { return w.committed(0) == 301 })
		w.pass(2 * time.Second)
		for p := range 4 {
			w.produce(int32(p), 100)
		}
		w.until(time.Minute, "everything committed", func() bool { return w.committed(0) == 401 && w.committed(3) == 400 })
		i.stop()
		if asked := store.calls(); !slices.Equal(asked, []string{"claim", "save", "forget", "release"}) {
			t.Errorf("asked %q", asked)
		}
	})
}

func TestNoCallBeforeTheStoreHasAnsweredOrWasGivenUp(t *testing.T) {
	for name, c := range map[string]struct{ latency, least, most time.Duration }{
		"slow":   {700 * time.Millisecond, 700 * time.Millisecond, 750 * time.Millisecond},
		"silent": {time.Hour, storePatience, storePatience + 50*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				store := w.scripted()
				w.topic(1, 1)
				w.setDown(true)
				w.start(`{"intervals": [{"wait": 0.1, "times": 9}], "jitter": 0}`, nil)
				w.until(time.Minute, "the first attempt", func() bool { return len(w.seen()) == 1 })
				store.set(func(s *scriptedStore) { s.latency = c.latency })
				w.until(time.Minute, "more attempts", func() bool { return len(w.seen()) == 5 })
				for n, calls := 2, w.seen(); n < len(calls); n++ {
					if wait := calls[n].At - calls[n-1].Ended; wait < c.least || wait > c.most {
						t.Errorf("call %d began %v after the failure before it", n+1, wait)
					}
				}
			})
		})
	}
}

// librdkafka#598: nobody waits for the store inside the rebalance callback.
func TestSlowStoreHoldsUpNoRebalance(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		store := w.scripted()
		w.topic(4, 10)
		a := w.start(`[1]`, with)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(4, 10) })
		store.set(func(s *scriptedStore) { s.latency = 900 * time.Millisecond })
		b := w.start(`[1]`, with)
		oldest := time.Duration(0)
		for range 150 {
			w.pass(100 * time.Millisecond)
			if a := b.c.Status().PollAge; b.c.Status().Running {
				oldest = max(oldest, a)
			}
		}
		// A look-up of the offsets is inside the callback, and nothing else is.
		if oldest > 150*time.Millisecond {
			t.Errorf("no Poll for %v", oldest)
		}
		if len(a.c.Status().Partitions) != 2 || len(b.c.Status().Partitions) != 2 {
			t.Error(w.picture())
		}
		for p := range 4 {
			w.produce(int32(p), 1)
		}
		w.until(5*time.Second, "everything handled", func() bool { return w.handled(4, 11) })
	})
}

// A store of one's own that neither answers nor gives up soon, with many writes behind each other, does not hold up the end.
func TestShutdownDoesNotWaitForEveryWriteToASilentStore(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 200)
		w.handler = func(context.Context, call) error { return errBad }
		w.dlq.set(func(d *scriptedDLQ) { d.away, d.latency = errors.New("broker away"), time.Second })
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "everything called", func() bool { return len(w.seen()) == 200 })
		store.set(func(s *scriptedStore) { s.latency = time.Hour })
		w.pass(5 * time.Second)
		began := time.Now()
		i.stop()
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

func TestCountSurvivesALossWhileTheStoreIsAway(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 1)
		w.setDown(true)
		a := w.start(`{"intervals": [5, 30, 5], "jitter": 0}`, nil)
		w.until(time.Minute, "an attempt", func() bool { return len(w.seen()) == 1 })
		store.set(func(s *scriptedStore) { s.err = attempts.ErrAway })
		w.until(time.Minute, "another", func() bool { return len(w.seen()) == 2 })
		w.pass(time.Second)
		a.client.LoseAssignment()
		w.until(time.Minute, "the partition is back", func() bool { return a.count(observe.Assigned) == 2 })
		w.until(time.Minute, "the third", func() bool { return len(w.seen()) == 3 })
		if calls := w.seen(); calls[2].Attempt != 3 || calls[2].At-calls[1].Ended < 30*time.Second {
			t.Errorf("the count or the wait was lost: %v", calls)
		}
	})
}
