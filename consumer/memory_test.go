package consumer

import (
	"context"
	"testing"
	"time"

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
		most := int64(0)
		for range 50 {
			w.pass(10 * time.Second)
			most = max(most, i.c.Status().Bytes)
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
			return len(w.of(1, 3999)) == 1
		})
		for range 1500 {
			w.pass(100 * time.Millisecond)
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
		// 4000 records of some 264 bytes are eight shares; between full and half full there is one pause for each half.
		if pauses > 2*20 {
			t.Errorf("%d changes: no hysteresis", pauses)
		}
		if fetched := i.client.Fetched(); fetched > 2*8000 {
			t.Errorf("%d records fetched for 8000", fetched)
		}
		w.until(5*time.Minute, "the slow one", func() bool { return len(w.of(0, 3999)) == 1 })
		inOrder(t, w)
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
