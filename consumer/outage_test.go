package consumer

import (
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/observe"
)

// An outage, seen from the dependency: law 7, law 9, law 3, law 6.

func TestOutageOfOnePartitionIsCalledExactlyAsTheStrategySays(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 10)
		w.setDown(true)
		i := w.start(`{"intervals": [1, 4, 16], "jitter": 0}`, nil)
		w.until(time.Minute, "the dead letter", func() bool { return len(w.dlq.written()) == 1 })
		w.setDown(false)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 10) })

		calls := w.of(0, 0)
		if len(calls) != 4 {
			t.Fatalf("n intervals make n+1 calls: %v", calls)
		}
		for n, want := range []time.Duration{0, time.Second, 5 * time.Second, 21 * time.Second} {
			if got := calls[n].At - calls[0].At; got < want || got > want+20*time.Millisecond {
				t.Errorf("call %d came %v after the first, not %v", n+1, got, want)
			}
		}
		if l := w.dlq.written()[0]; l.Attempts != 4 || l.Kind != "exhausted" {
			t.Errorf("dead letter: %+v", l)
		}
		if n := w.cluster.Rebalances(group); n != 1 {
			t.Errorf("%d rebalances, not the one of the start", n)
		}
		if i.count(observe.Tripped) != 1 || i.count(observe.Closed) != 1 {
			t.Error(w.picture())
		}
	})
}

func TestOneProbeOverAllPartitionsWhileDown(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(6, 10)
		i := w.start(`{"intervals": [1, 4, 16], "jitter": 0}`, nil)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(6, 10) })
		w.setDown(true)
		before := len(w.seen())
		w.produce(3, 1)
		w.pass(30 * time.Second)
		if i.state() != "open" {
			t.Fatal(w.picture())
		}
		for p := range 6 {
			w.produce(int32(p), 5)
		}
		w.pass(20 * time.Second)
		calls := w.seen()[before:]
		for n := 1; n < len(calls); n++ {
			if calls[n].At-calls[n-1].At < time.Second {
				t.Errorf("two calls within a first interval: %v, %v", calls[n-1], calls[n])
			}
		}
		w.setDown(false)
		up := w.now()
		w.until(20*time.Second, "everything handled", func() bool { return w.handled(6, 15) })
		t.Logf("drained %v after the outage, %d calls while down", w.now()-up, len(w.failed()))
	})
}

func TestStopBeforeTheStartIsNoFailure(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.dlq.set(func(d *scriptedDLQ) { d.hangs = true })
		i := w.start(`[1]`, nil)
		w.pass(time.Second)
		if err := i.stop(); err != nil {
			t.Errorf("Run answered %v", err)
		}
		if n := i.count(observe.Fatal); n > 0 {
			t.Errorf("%d fatal errors told", n)
		}
	})
}

func TestBrokerThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.dlq.set(func(d *scriptedDLQ) { d.hangs = true })
		i := w.start(`[1]`, nil)
		w.pass(5 * time.Minute)
		if n := i.count(observe.ClientError); n < 5 || n > 10 || isClosed(i.ended) || len(w.seen()) > 0 {
			t.Errorf("said %d times, ended: %v; %s", n, isClosed(i.ended), w.picture())
		}
		w.dlq.set(func(d *scriptedDLQ) { d.hangs = false })
		w.until(time.Minute, "the records", func() bool { return w.handled(1, 3) })
	})
}
