package simkafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// 1.3.2, librdkafka#5591
func TestLostPauseLetsRecordsFlow(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		a.SetFaults(simkafka.Faults{LosePause: 1})
		none(t, a.Pause(at(0, 0)))
		a.SetFaults(simkafka.Faults{})
		produce(k, 0, 2)
		want(t, a.run(time.Second), "0@0", "0@1")
		none(t, a.Pause(at(0, 0)))
		produce(k, 0, 2)
		want(t, a.run(time.Minute))
	})
}

// 1.3.2: 37 of 113 silent partitions were cured by a second Resume.
func TestLostResumeIsCuredByAnother(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		none(t, a.Pause(at(0, 0)))
		produce(k, 0, 1)
		a.SetFaults(simkafka.Faults{LoseResume: 1})
		none(t, a.Resume(at(0, 0)))
		a.SetFaults(simkafka.Faults{})
		want(t, a.run(time.Minute))
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(2*time.Second), "0@0")
	})
}

// 1.3.3: 76 of 113 had lost their start.
func TestLostStartIsCuredByANewAssignmentOnly(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 3)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, Faults: simkafka.Faults{LoseStart: 1}})
		a.SetFaults(simkafka.Faults{})
		none(t, a.Resume(at(0, 0)))
		none(t, a.Pause(at(0, 0)))
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(time.Minute))
		where, err := a.Position(at(0, 0))
		none(t, err)
		if where[0].Offset != kafka.OffsetInvalid {
			t.Errorf("position %v, want it unset", where[0].Offset)
		}
		sought, err := a.SeekPartitions(at(0, 1))
		none(t, err)
		wantCode(t, sought[0].Error, kafka.ErrState)

		if protocol == simkafka.Range {
			none(t, a.Assign(at(0, 1)))
		} else {
			none(t, a.IncrementalUnassign(at(0, 0)))
			none(t, a.IncrementalAssign(at(0, 1)))
		}
		want(t, a.run(time.Second), "0@1", "0@2")
	})
}

// Seen by users of node-rdkafka.
func TestStaleRecordAfterRevoke(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, Faults: simkafka.Faults{Stale: 1}})
		produce(k, 0, 1)
		a.LoseAssignment()
		want(t, a.run(100*time.Millisecond), "lost 0", "0@0", "assigned 0", "0@0")
	})
}

// 1.5.10
func TestNoRecordComesAfterItsRevoke(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 100)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		a.until("0@5", time.Second)
		a.LoseAssignment()
		if first := a.run(10 * time.Second)[0]; first != "lost 0" {
			t.Fatalf("after the loss came %q", first)
		}
	})
}

func TestEmittedEventsComeOutOfPoll(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := newApp(t, k, simkafka.Options{})
		a.Emit(kafka.NewError(kafka.ErrAllBrokersDown, "", false))
		want(t, a.run(time.Second), "error "+kafka.ErrAllBrokersDown.String())
	})
}

func TestMarkerLeavesAGap(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 1)
		k.ProduceMarker(orders, 0)
		produce(k, 0, 1)
		k.ProduceMarker(orders, 0)
		a := subscribed(t, k, simkafka.Options{})
		want(t, a.run(time.Second), "0@0", "0@2")
		_, end := k.Offsets(orders, 0)
		where, err := a.Position(at(0, 0))
		none(t, err)
		if end != 4 || where[0].Offset != 3 {
			t.Errorf("end %d, position %v; want a lag of one for ever", end, where[0].Offset)
		}
	})
}

func TestCrashedClientsPartitionsMoveAfterItsSession(t *testing.T) {
	inEach(t, 2, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		o := simkafka.Options{Protocol: protocol, SessionTimeout: 10 * time.Second}
		a, b := subscribed(t, k, o), newApp(t, k, o)
		b.subscribe()
		a.start()
		b.run(20 * time.Second)
		a.Crash()
		crashed := time.Now()
		for len(b.assigned()) < 2 && time.Since(crashed) < time.Minute {
			b.once(10)
		}
		if took := time.Since(crashed); took < 7*time.Second || took > 14*time.Second {
			t.Errorf("the partitions moved after %v, want a session timeout less a heartbeat at least", took)
		}
		if _, err := a.Commit(); errCode(err) != kafka.ErrDestroy {
			t.Errorf("Commit of a crashed client: %v", err)
		}
		a.stop()
		none(t, a.Close())
	})
}

// 6.2: one that is put out goes on until it is told.
func TestKickedMemberGoesOnUntilItsHeartbeat(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		a.run(4 * time.Second)
		if !k.Kick(a.MemberID()) || len(k.Members("billing")) != 0 {
			t.Fatal("the coordinator did not put it out")
		}
		produce(k, 0, 1)
		seen := a.run(10 * time.Second)
		want(t, slices.Compact(seen), "0@0", "lost 0", "assigned 0", "0@0")
	})
}
