package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
)

// Members join and leave while the breaker is open, under each protocol: laws 4, 5, 10, 15 and 19.

var protocols = []string{simkafka.Range, simkafka.Cooperative, simkafka.Consumer}

// eachProtocol runs a test in virtual time under each of the three group protocols.
func eachProtocol(t *testing.T, f func(t *testing.T, w *world, with func(*setup))) {
	t.Helper()
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				f(t, w, func(s *setup) { s.client.Protocol = protocol })
			})
		})
	}
}

func TestMemberThatJoinsWhileOpenFindsTheAttemptsAndTheWait(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 5)
		w.setDown(true)
		a := w.start(`{"intervals": [10, 40], "jitter": 0}`, with)
		w.until(time.Minute, "a's trip", func() bool { return a.state() == "open" })
		first := w.failed()
		w.pass(2 * time.Second)
		b := w.start(`{"intervals": [10, 40], "jitter": 0}`, with)
		w.until(time.Minute, "b's partitions", func() bool { return len(b.c.Status().Partitions) == 2 })
		w.pass(30 * time.Second)
		w.setDown(false)
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(4, 5) })
		for _, c := range first {
			calls := w.of(c.Partition, c.Offset)
			if len(calls) < 2 || calls[1].Attempt != 2 {
				t.Errorf("the count started over: %v", calls)
			} else if wait := calls[1].At - calls[0].Ended; wait < 10*time.Second {
				t.Errorf("called %v after its failure, before its retryAt: %v", wait, calls)
			}
		}
		for _, i := range w.instances {
			if i.count(observe.Lost) > 0 {
				t.Error("a partition was lost")
			}
		}
	})
}

func TestPartitionThatReturnsIsNotLeftPausedByItsPast(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 5)
		w.setDown(true)
		a := w.start(`[5, 5, 5, 5]`, with)
		w.until(time.Minute, "a's trip", func() bool { return a.state() == "open" })
		b := w.start(`[5, 5, 5, 5]`, with)
		w.until(time.Minute, "b's partitions", func() bool { return len(b.c.Status().Partitions) == 2 })
		w.setDown(false)
		w.until(time.Minute, "both closed", func() bool { return a.state() == "closed" && b.state() == "closed" && w.handled(4, 5) })
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "a has everything", func() bool { return len(a.c.Status().Partitions) == 4 })
		for p := range 4 {
			w.produce(int32(p), 5)
		}
		w.until(5*time.Second, "everything handled by a", func() bool { return w.handled(4, 10) })
		for _, p := range a.c.Status().Partitions {
			if p.Paused || a.client.Paused(topic, p.Partition) {
				t.Errorf("still paused: %+v", p)
			}
		}
	})
}

func TestNewPartitionIsPausedWhileOpenAndNotCalled(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 5)
		b := w.start(`{"intervals": [60, 60], "jitter": 0}`, with)
		a := w.start(`{"intervals": [60, 60], "jitter": 0}`, with)
		w.until(time.Minute, "both have partitions", func() bool {
			return len(a.c.Status().Partitions) == 2 && len(b.c.Status().Partitions) == 2
		})
		w.until(time.Minute, "everything handled", func() bool { return w.handled(4, 5) })
		w.setDown(true)
		mine := a.c.Status().Partitions[0].Partition
		w.produce(mine, 1)
		w.until(time.Minute, "a's trip", func() bool { return a.state() == "open" })
		tripped := len(w.seen())
		for p := range 4 {
			w.produce(int32(p), 3)
		}
		b.stop()
		w.until(time.Minute, "a has everything", func() bool { return len(a.c.Status().Partitions) == 4 })
		w.pass(5 * time.Second)
		for _, c := range w.seen()[tripped:] {
			if c.Instance == a.name {
				t.Errorf("called while open: %v", c)
			}
		}
		for _, p := range a.c.Status().Partitions {
			if !a.client.Paused(topic, p.Partition) {
				t.Errorf("not paused: %+v", p)
			}
			if p.Records < 1 {
				t.Errorf("its lane has nothing to probe with: %+v", p)
			}
		}
	})
}

func TestWaitLongerThanMaxPollIntervalCostsNoMembership(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(2, 5)
		w.setDown(true)
		a := w.start(`[60, 60]`, func(s *setup) {
			with(s)
			s.client.MaxPollInterval, s.client.SessionTimeout = 6*time.Second, 6*time.Second
		})
		w.until(time.Minute, "the trip", func() bool { return a.state() == "open" })
		generation := w.cluster.Generation(group)
		w.pass(50 * time.Second)
		w.setDown(false)
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(2, 5) })
		if now := w.cluster.Generation(group); now != generation {
			t.Errorf("generation %d became %d", generation, now)
		}
	})
}

func TestHandlerLongerThanMaxPollIntervalCostsNoMembership(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 3)
		w.handler = func(ctx context.Context, c call) error {
			if c.Partition == 0 && c.Offset == 0 {
				time.Sleep(time.Minute)
			}
			return nil
		}
		a := w.start(`[1]`, func(s *setup) {
			s.client.MaxPollInterval, s.client.SessionTimeout = 6*time.Second, 6*time.Second
			s.config.HandlerTimeout = 2 * time.Minute
		})
		w.until(10*time.Second, "the other partition goes on", func() bool { return len(w.of(1, 2)) == 1 })
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(2, 3) })
		if a.count(observe.Lost) > 0 || w.cluster.Rebalances(group) != 1 {
			t.Error(w.picture())
		}
	})
}

func TestRevokeWaitsForTheRecordInHandAndCommitsIt(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(2, 3)
		w.handler = func(ctx context.Context, c call) error {
			if c.Instance == "c1" && c.Offset == 1 {
				time.Sleep(8 * time.Second)
			}
			return nil
		}
		w.start(`[1]`, with)
		w.until(time.Minute, "the slow records", func() bool { return len(w.of(0, 1)) == 1 && len(w.of(1, 1)) == 1 })
		b := w.start(`[1]`, with)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(2, 3) })
		w.until(time.Minute, "b has a partition", func() bool { return len(b.c.Status().Partitions) == 1 })
		for p := range int32(2) {
			for o := range int64(3) {
				if calls := w.of(p, o); len(calls) != 1 {
					t.Errorf("a revoke that waits repeats nothing: %v", calls)
				}
			}
		}
	})
}

func TestCallOfAnEarlierAssignmentKeepsThePartitionFromBeingCalledAgain(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(1, 3)
		release := make(chan struct{})
		w.handler = func(ctx context.Context, c call) error {
			if len(w.of(0, 0)) == 1 {
				<-release // deaf to its context
			}
			return nil
		}
		a := w.start(`[1]`, func(s *setup) { with(s); s.config.DrainTimeout = time.Second; s.config.HandlerTimeout = time.Hour })
		w.until(time.Minute, "the call", func() bool { return len(w.seen()) == 1 })
		a.client.LoseAssignment()
		w.until(time.Minute, "the partition is lost", func() bool { return a.count(observe.Lost) == 1 })
		w.until(time.Minute, "the partition is back", func() bool { return a.count(observe.Assigned) == 2 })
		w.pass(10 * time.Second)
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d calls while the first still runs", n)
		}
		close(release)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 3) })
		if calls := w.of(0, 0); len(calls) != 2 {
			t.Errorf("the result of a lost partition does nothing, so the record comes again: %v", calls)
		}
	})
}

func TestOperatorsPauseOutlivesTheBreakerAndARebalance(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(2, 3)
		w.setDown(true)
		a := w.start(`[1, 1, 1, 1]`, with)
		w.until(time.Minute, "the trip", func() bool { return a.state() == "open" })
		name := topic
		p0 := kafka.TopicPartition{Topic: &name, Partition: 0}
		if err := a.c.Pause(p0); err != nil {
			t.Fatal(err)
		}
		w.setDown(false)
		w.until(time.Minute, "partition 1 is handled", func() bool { return len(w.of(1, 2)) > 0 })
		b := w.start(`[1]`, with)
		w.until(time.Minute, "b has a partition", func() bool { return len(b.c.Status().Partitions) == 1 })
		b.stop()
		w.until(time.Minute, "a has both", func() bool { return len(a.c.Status().Partitions) == 2 })
		w.pass(10 * time.Second)
		if r := a.reasons(0); r != "operator" && r != "operator,held" && r != "held,operator" {
			t.Errorf("reasons of the paused partition: %q", r)
		}
		if !a.client.Paused(topic, 0) {
			t.Error("the client flows")
		}
		if err := a.c.Resume(p0); err != nil {
			t.Fatal(err)
		}
		w.until(time.Minute, "everything handled", func() bool { return w.handled(2, 3) })
	})
}
