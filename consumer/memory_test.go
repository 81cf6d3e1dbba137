package consumer

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/observe"
)

// Memory is bounded, whatever the lag and however long the pause (law 16); a short wait does not pause the client.

func TestMemoryStaysWithinTheBudgetInALongPause(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(4, 1)
		const budget = 64 << 10
		i := w.start(`{"intervals": [3600], "jitter": 0}`, func(s *setup) { s.config.BufferBytes = budget })
		w.until(time.Minute, "the first records", func() bool { return w.handled(4, 1) })
		w.setDown(true)
		w.produce(0, 1)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		for p := range int32(4) {
			w.produce(p, 5000)
		}
		most, fetched := int64(0), 0
		for n := range 50 {
			w.pass(10 * time.Second)
			most = max(most, i.c.Status().Bytes)
			if n == 0 {
				fetched = i.client.Fetched()
			}
		}
		if again := i.client.Fetched() - fetched; again > 0 {
			t.Errorf("%d records fetched while nothing happened", again)
		}
		if most > budget {
			t.Errorf("%d bytes in memory, over the budget of %d", most, budget)
		}
		for _, p := range i.c.Status().Partitions {
			if p.Records == 0 {
				t.Errorf("a lane has nothing to probe with: %+v", p)
			}
		}
	})
}

func TestSlowHandlerIsHeldBackByItsShareAndTheOthersFlow(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 4000)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}
		const budget = 256 << 10
		i := w.start(`[1]`, func(s *setup) { s.config.BufferBytes = budget })
		most, pauses, was := int64(0), 0, false
		w.until(5*time.Minute, "the quick partition", func() bool {
			s := i.c.Status()
			most = max(most, s.Bytes)
			return w.committed(1) == 4000
		})
		for range 3000 {
			w.pass(10 * time.Millisecond)
			s := i.c.Status()
			most = max(most, s.Bytes)
			if now := i.client.Paused(topic, 0); now != was {
				was = now
				pauses++
			}
		}
		if most > budget {
			t.Errorf("%d bytes in memory, over the budget of %d", most, budget)
		}
		if pauses == 0 {
			t.Error("the slow partition was never held back")
		}
		// A share holds some 420 records of 50 ms: between full and half full lie ten seconds.
		if pauses > 10 {
			t.Errorf("%d changes in half a minute: no hysteresis", pauses)
		}
		if fetched := i.client.Fetched(); fetched > 2*8000 {
			t.Errorf("%d records fetched for 8000", fetched)
		}
		w.until(5*time.Minute, "the slow one", func() bool { return w.committed(0) == 4000 })
		inOrder(t, w)
	})
}

// librdkafka#5343: each wait costs the prefetch once per partition, and no more, however often the breaker opens.
func TestFlappingBreakerFetchesLittleAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		const flaps, prefetch = 100, 200
		w.topic(2, 5000)
		failed := map[int64]bool{}
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && c.Offset%10 == 0 && c.Offset < 10*flaps && !failed[c.Offset] {
				failed[c.Offset] = true
				return errDown
			}
			return nil
		}
		i := w.start(`{"intervals": [1, 1, 1], "jitter": 0}`, func(s *setup) { s.client.Prefetch = prefetch; s.config.BufferBytes = 256 << 10 })
		w.until(10*time.Minute, "everything", func() bool { return w.committed(0) == 5000 && w.committed(1) == 5000 })
		if n := i.count(observe.Tripped); n < flaps/2 {
			t.Errorf("tripped %d times", n)
		}
		if again, most := i.client.Fetched()-10000, prefetch*flaps; again > most {
			t.Errorf("%d records fetched again, more than %d", again, most)
		}
	})
}

// Many partitions have small shares, smaller than what is gathered between two looks at them.
func TestManyPartitionsTogetherStayWithinTheBudget(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		const parts, budget = 40, 800 << 10
		w.topic(parts, 1500)
		w.handler = func(context.Context, call) error {
			time.Sleep(time.Second)
			return nil
		}
		i := w.start(`[1]`, func(s *setup) { s.client.Prefetch = 1000; s.config.BufferBytes = budget })
		most := int64(0)
		for range 300 {
			w.pass(10 * time.Millisecond)
			most = max(most, i.c.Status().Bytes)
		}
		if most > budget || most < budget/2 {
			t.Errorf("%d bytes in memory, of a budget of %d", most, budget)
		}
	})
}

// A handler that hangs has its share and no more, whatever the lag, and the others have theirs.
func TestHandlerThatHangsFillsItsShareAndNoMore(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(4, 3000)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 {
				<-w.over
			}
			return nil
		}
		const budget = 128 << 10
		i := w.start(`[1]`, func(s *setup) {
			s.config.BufferBytes = budget
			s.config.HandlerTimeout = time.Hour
			s.config.DrainTimeout = time.Second
		})
		w.until(time.Minute, "the others", func() bool { return w.committed(1) == 3000 && w.committed(2) == 3000 && w.committed(3) == 3000 })
		w.pass(10 * time.Second)
		fetched := i.client.Fetched()
		w.pass(3 * time.Minute)
		s := i.c.Status()
		if s.Bytes > budget/4+budget/8 || s.Bytes < budget/8 {
			t.Errorf("%d bytes in memory, of a share of %d", s.Bytes, budget/4)
		}
		if r := i.reasons(0); r != "backpressure" || !i.client.Paused(topic, 0) {
			t.Errorf("paused by %q", r)
		}
		if again := i.client.Fetched() - fetched; again > 0 {
			t.Errorf("%d records fetched while nothing moves", again)
		}
	})
}

func TestRecordLargerThanItsShareIsHandledAllTheSame(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 0)
		for p := range int32(2) {
			for range 3 {
				w.cluster.Produce(topic, p, nil, make([]byte, 100_000), nil, time.Now())
			}
		}
		w.start(`[1]`, func(s *setup) { s.config.BufferBytes = 1000 })
		w.until(time.Minute, "everything", func() bool { return w.handled(2, 3) })
	})
}

func TestShortWaitFillsTheLanesAndDoesNotPauseTheClient(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 10)
		w.setDown(true)
		i := w.start(`{"intervals": [0.5, 0.5, 0.5, 0.5], "jitter": 0}`, nil)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		for range 10 {
			w.pass(100 * time.Millisecond)
			if i.client.Paused(topic, 0) || i.client.Paused(topic, 1) {
				t.Fatal("paused for less than a second: the client's own resume takes as long")
			}
		}
		if r := i.reasons(0); r == "" {
			t.Error("the status says no reason")
		}
		w.setDown(false)
		w.until(time.Minute, "everything", func() bool { return w.handled(2, 10) })
		if n := i.client.Fetched(); n != 20 {
			t.Errorf("%d records fetched for 20", n)
		}
	})
}

// In short waits under load the poll goroutine slows down where the lanes are full, and what the client has prefetched stays.
func TestShortWaitsUnderLoadFetchLittleAgain(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		const each, budget = 20_000, 512 << 10
		w.topic(2, each)
		failed := map[int64]bool{}
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && c.Offset%200 == 0 && !failed[c.Offset] {
				failed[c.Offset] = true
				return errDown
			}
			return nil
		}
		i := w.start(`{"intervals": [0.1, 0.1, 0.1], "jitter": 0}`, func(s *setup) { s.client.Prefetch = 400; s.config.BufferBytes = budget })
		most, rare := int64(0), time.Duration(0)
		w.until(10*time.Minute, "everything", func() bool {
			s := i.c.Status()
			most, rare = max(most, s.Bytes), max(rare, s.PollAge)
			return w.committed(0) == each && w.committed(1) == each
		})
		if n := i.count(observe.Tripped); n < each/200 {
			t.Errorf("tripped %d times", n)
		}
		if again := i.client.Fetched() - 2*each; again > each/2 {
			t.Errorf("%d records fetched again, of %d", again, 2*each)
		}
		if most > budget {
			t.Errorf("%d bytes in memory, over the budget of %d", most, budget)
		}
		if rare > 2*calmPoll { // one that returned, and one that waits for records
			t.Errorf("%v without an answer of Poll", rare)
		}
		inOrder(t, w)
	})
}

// A wait that was to be short and is not pauses the client in the end: a rebalance stands behind the records in its queue.
func TestShortWaitThatGoesOnPausesWhatIsFull(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 1)
		w.handler = func(_ context.Context, c call) error {
			if c.Attempt == 1 {
				return errDown
			}
			<-w.over
			return nil
		}
		i := w.start(`{"intervals": [0.2, 0.2], "jitter": 0}`, func(s *setup) {
			s.client.Prefetch = 400
			s.config.BufferBytes, s.config.HandlerTimeout, s.config.DrainTimeout = 128<<10, time.Hour, time.Second
		})
		w.until(time.Minute, "the probe", func() bool { return len(w.seen()) == 3 })
		w.produce(0, 2000)
		w.produce(1, 2000)
		full := func(p int32) bool { return strings.Contains(i.reasons(p), "backpressure") }
		w.until(time.Minute, "a full lane", func() bool { return full(0) || full(1) })
		first := time.Now()
		if i.client.Paused(topic, 0) || i.client.Paused(topic, 1) {
			t.Error("paused at once")
		}
		w.until(time.Minute, "the pauses", func() bool { return i.client.Paused(topic, 0) && i.client.Paused(topic, 1) })
		if took := time.Since(first); took > decide.ShortWait+2*calmPoll {
			t.Errorf("paused %v after the first lane was full", took)
		}
	})
}

// Where another partition flows, nothing slows down: what is full is paused.
func TestFullLaneThatWaitsDoesNotSlowTheOthersDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 2000)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 {
				return errDown
			}
			return nil
		}
		i := w.start(`{"intervals": [0.9, 0.9, 0.9, 0.9, 0.9], "jitter": 0, "breaker": {"consecutiveFailures": 1, "scope": "partition"}}`, func(s *setup) {
			s.client.Prefetch = 400
			s.config.BufferBytes = 128 << 10
		})
		w.until(time.Minute, "a full lane", func() bool { return strings.Contains(i.reasons(0), "backpressure") })
		w.until(2*calmPoll, "its pause", func() bool { return i.client.Paused(topic, 0) })
		w.until(time.Second, "the other", func() bool { return w.committed(1) == 2000 })
	})
}

func TestNothingIsToldPerRecordAndOneThingOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(3, 500)
		i := w.start(`{"intervals": [2, 2], "jitter": 0}`, nil)
		w.until(time.Minute, "everything", func() bool { return w.handled(3, 500) })
		calm := len(i.told())
		if calm > 6 {
			t.Errorf("%d events on the happy path", calm)
		}
		w.setDown(true)
		w.produce(0, 1)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		w.pass(time.Second)
		w.setDown(false)
		w.until(time.Minute, "the rest", func() bool { return w.handled(1, 501) })
		w.until(time.Minute, "closed", func() bool { return i.count(observe.Closed) == 1 })
		kinds := map[observe.Kind]int{}
		for _, e := range i.told()[calm:] {
			kinds[e.Kind]++
			if e.Topic != topic || e.Kind == observe.Tripped && (e.RetryAt.IsZero() || e.Episode == "" || e.Err == nil || e.Attempt != 1) {
				t.Errorf("an event that does not say what a person needs: %+v", e)
			}
		}
		for _, k := range []observe.Kind{observe.Tripped, observe.Probing, observe.Released, observe.Closed} {
			if kinds[k] != 1 {
				t.Errorf("%v was told %d times", k, kinds[k])
			}
		}
		if len(kinds) != 4 {
			t.Errorf("told: %v", kinds)
		}
	})
}
