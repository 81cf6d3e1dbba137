package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
)

// Nothing is lost: law 1, and where a partition starts.

func TestOffsetIsStoredOnlyWhenTheRecordIsDone(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 10)
		w.handler = func(ctx context.Context, c call) error {
			switch c.Offset {
			case 3:
				return failure.Permanent(errors.New("bad"))
			case 7:
				return errDown
			}
			return nil
		}
		w.dlq.set(func(d *scriptedDLQ) { d.away = errors.New("broker away") })
		w.cluster.OnCommit(func(c simkafka.Commit) {
			if c.After > 3 && len(w.dlq.written()) == 0 {
				t.Errorf("committed %d before the dead letter of 3 was acknowledged", c.After)
			}
		})
		i := w.start(`{"intervals": [3600], "jitter": 0}`, nil)
		w.pass(10 * time.Second)
		if at := w.committed(0); at != 3 {
			t.Fatalf("committed %d with record 3 not done\n%s", at, w.picture())
		}
		w.dlq.set(func(d *scriptedDLQ) { d.away = nil })
		w.until(time.Minute, "7 is held", func() bool { return i.count(observe.Tripped) == 1 })
		w.pass(10 * time.Second)
		if at := w.committed(0); at != 7 {
			t.Fatalf("committed %d with record 7 held", at)
		}
		if err := i.stop(); err != nil {
			t.Fatal(err)
		}
		if at := w.committed(0); at != 7 {
			t.Fatalf("the shutdown committed %d, with record 7 held", at)
		}
	})
}

func TestStartIsCommittedBeforeTheFirstCallSoThatLatestLosesNothing(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(1, 3) // from before the group was there
		w.setDown(true)
		w.handler = func(ctx context.Context, c call) error {
			if at := w.committed(0); at < 0 {
				t.Errorf("called %v with no offset committed", c)
			}
			if c.Instance == "c1" {
				return errDown
			}
			return nil
		}
		latest := func(s *setup) { with(s); s.client.AutoOffsetReset = "latest" }
		a := w.start(`[60]`, latest)
		w.until(time.Minute, "the start's commit", func() bool { return w.committed(0) == 3 })
		w.produce(0, 5)
		w.until(time.Minute, "a's trip", func() bool { return a.state() == "open" })
		a.client.Crash()
		w.start(`[60]`, latest)
		w.until(3*time.Minute, "the records after the start", func() bool { return w.doneBy("c2", 0, 3, 8) })
		if n := len(w.of(0, 0)); n != 0 {
			t.Error("records from before the start were called")
		}
	})
}

func TestNoCommittedOffsetAndResetErrorRefusesThatPartitionAlone(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 3)
		w.cluster.SetCommitted(group, topic, 1, 1)
		i := w.start(`[1]`, func(s *setup) { s.client.AutoOffsetReset = "error" })
		w.until(time.Minute, "partition 1 runs", func() bool { return len(w.of(1, 2)) == 1 })
		w.pass(30 * time.Second)
		if n := len(w.of(0, 0)); n != 0 {
			t.Error("the refused partition was called")
		}
		if i.count(observe.Refused) != 1 {
			t.Error("not told once")
		}
		for _, p := range i.c.Status().Partitions {
			if p.Partition == 0 && !strings.Contains(p.Refused, "auto.offset.reset") {
				t.Errorf("the status does not say why: %+v", p)
			}
		}
	})
}

func TestLookUpThatTimesOutIsNotNoneCommitted(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(1, 10)
		w.cluster.SetCommitted(group, topic, 0, 6)
		w.start(`[1]`, with)
		w.until(time.Minute, "the member", func() bool { return len(w.cluster.Members(group)) == 1 })
		w.cluster.CoordinatorAway(30 * time.Second)
		w.until(2*time.Minute, "the rest", func() bool { return len(w.of(0, 9)) == 1 })
		if n := len(w.of(0, 5)); n != 0 {
			t.Error("a committed record was called again")
		}
	})
}

func TestGapThatRetentionToreDuringAPauseIsReportedWithBothOffsets(t *testing.T) {
	for _, reset := range []string{"earliest", "latest"} {
		t.Run(reset, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(1, 1)
				w.cluster.SetCommitted(group, topic, 0, 0)
				w.setDown(true)
				i := w.start(`{"intervals": [60], "jitter": 0}`, func(s *setup) {
					s.client.AutoOffsetReset = reset
					s.client.Prefetch = 4
				})
				w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
				w.pass(time.Second) // paused by now
				w.produce(0, 39)
				w.cluster.DeleteRecords(topic, 0, 30)
				w.setDown(false)
				w.until(3*time.Minute, "the records that are left", func() bool { return len(w.of(0, 30)) == 1 && len(w.of(0, 39)) == 1 })
				w.until(time.Minute, "the report", func() bool { return i.count(observe.Gap) == 1 })
				for _, e := range i.told() {
					if e.Kind == observe.Gap && !strings.Contains(e.Text, "to 30") {
						t.Errorf("%+v", e)
					}
				}
			})
		})
	}
}

func TestMarkersOfTransactionsAreNoGap(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 0)
		for range 5 {
			w.cluster.ProduceMarker(topic, 0)
			w.produce(0, 1)
		}
		w.cluster.ProduceMarker(topic, 0)
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "the records", func() bool { return len(w.seen()) == 5 })
		w.pass(10 * time.Minute)
		if i.count(observe.Gap) > 0 || i.count(observe.Revived) > 0 {
			t.Error(w.picture())
		}
		if n := len(w.seen()); n != 5 {
			t.Errorf("%d calls of 5 records", n)
		}
	})
}

// The record that a gap was found by was kept aside while its partition was paused, and the client has lost no pause.
func TestPartitionFlowsOnAtOnceAfterAGap(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.setDown(true)
		i := w.start(`{"intervals": [20, 20], "jitter": 0}`, nil)
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		w.pass(time.Second) // paused by now
		w.produce(0, 2)
		w.cluster.DeleteRecords(topic, 0, 4)
		w.setDown(false)
		w.until(time.Minute, "what is left", func() bool { return len(w.of(0, 4)) == 1 })
		w.pass(time.Second)
		w.produce(0, 2)
		w.until(500*time.Millisecond, "what came next", func() bool { return len(w.of(0, 6)) == 1 })
		if i.count(observe.PauseLost) > 0 || i.count(observe.Revived) > 0 {
			t.Error(w.picture())
		}
	})
}

// What is written after a silence is on its way to us for a moment, and nothing is wrong with that: a lag that is seen once is none.
func TestWatchdogLooksTwice(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		i := w.start(`[1]`, nil)
		w.until(time.Minute, "the records", func() bool { return w.handled(1, 3) })
		see := func(end int64) {
			i.c.post(func() {
				l := i.c.lanes[partition{Topic: topic}]
				l.quietSince = time.Now().Add(-quietLimit)
				i.c.revive(l, 0, end)
			})
			w.pass(100 * time.Millisecond)
		}
		see(5)
		see(3) // it has come
		see(7)
		if i.count(observe.Revived) > 0 {
			t.Error(w.picture())
		}
		see(7)
		if i.count(observe.Revived) != 1 {
			t.Error("a lag that stays is not seen")
		}
	})
}

func TestCommitThatHangsDoesNotStopThePolling(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 5)
		i := w.start(`[1]`, func(s *setup) { s.client.SessionTimeout = 45 * time.Second })
		w.until(time.Minute, "the first records", func() bool { return w.handled(1, 5) })
		w.cluster.CoordinatorAway(20 * time.Second)
		w.produce(0, 50)
		oldest := time.Duration(0)
		for range 150 {
			w.pass(100 * time.Millisecond)
			oldest = max(oldest, i.c.Status().PollAge)
		}
		if oldest > 110*time.Millisecond {
			t.Errorf("no Poll for %v", oldest)
		}
		w.until(time.Minute, "the records meanwhile", func() bool { return w.handled(1, 55) })
		w.until(time.Minute, "their commit", func() bool { return w.committed(0) == 55 })
	})
}

func TestRecordFromAPausedPartitionIsKeptAndThePauseRepeated(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		w.setDown(true)
		i := w.start(`{"intervals": [20, 20], "jitter": 0}`, func(s *setup) { s.client.Faults.LosePause = 1 })
		w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
		w.pass(time.Second)
		w.produce(0, 199)
		w.until(time.Minute, "the lost pause", func() bool { return i.count(observe.PauseLost) > 0 })
		i.client.SetFaults(simkafka.Faults{})
		w.produce(0, 1)
		w.pass(10 * time.Second)
		if !i.client.Paused(topic, 0) {
			t.Error("not paused again")
		}
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d calls while open", n)
		}
		w.setDown(false)
		w.until(time.Minute, "everything handled", func() bool { return w.handled(1, 201) })
		inOrder(t, w)
	})
}

func TestWatchdogRevivesAPartitionWhoseResumeOrStartWasLost(t *testing.T) {
	for name, faults := range map[string]simkafka.Faults{"resume": {LoseResume: 1}, "start": {LoseStart: 1}} {
		t.Run(name, func(t *testing.T) {
			eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
				w.topic(2, 30)
				i := w.start(`[2]`, func(s *setup) { with(s); s.client.Faults = faults })
				if name == "resume" {
					w.setDown(true)
					w.until(time.Minute, "the trip", func() bool { return i.state() == "open" })
					w.setDown(false)
				}
				w.pass(8 * time.Second)
				w.produce(0, 5)
				w.produce(1, 5)
				i.client.SetFaults(simkafka.Faults{})
				w.until(2*time.Minute, "everything handled", func() bool { return w.handled(2, 35) })
				inOrder(t, w)
			})
		})
	}
}

func TestFencedMemberEndsLoudlyAndInTime(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 5)
		i := w.start(`[1]`, func(s *setup) { s.client.InstanceID = "pod-0" })
		w.until(time.Minute, "the records", func() bool { return w.handled(1, 5) })
		i.client.Fence()
		w.until(time.Minute, "the end", func() bool { return isClosed(i.ended) })
		if !errors.Is(i.err, ErrFenced) || !strings.Contains(i.err.Error(), "group.instance.id") {
			t.Errorf("Run answered %v", i.err)
		}
		if i.c.Status().Fatal == "" {
			t.Error("the status does not say it")
		}
		if err := i.c.Pause(); !errors.Is(err, ErrNotRunning) {
			t.Error(err)
		}
	})
}

// inOrder checks law 15 from what the dependency saw: no call of a partition begins while another runs, and no record is called after a later one of its partition
// has been done by the same instance.
func inOrder(t *testing.T, w *world) {
	t.Helper()
	type key struct {
		instance  string
		partition int32
	}
	last := map[key]call{}
	for _, c := range w.seen() {
		k := key{c.Instance, c.Partition}
		if l, ok := last[k]; ok && (c.Offset < l.Offset || c.At < l.Ended) {
			t.Errorf("out of order: %v after %v", c, l)
		}
		last[k] = c
	}
}
