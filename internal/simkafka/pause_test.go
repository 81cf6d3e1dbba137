package simkafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// 1.2.2, 6.2
func TestPauseSurvivesRevokeAndReassign(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		none(t, a.Pause(at(0, 0)))
		a.LoseAssignment()
		want(t, a.run(10*time.Second), "lost 0", "assigned 0")
		produce(k, 0, 1)
		want(t, a.run(time.Minute))
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(2*time.Second), "0@0")
	})
}

// 1.2.3
func TestNewPartitionsComeUnpaused(t *testing.T) {
	inEach(t, 2, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		b := newApp(t, k, simkafka.Options{Protocol: protocol})
		b.subscribe()
		a.start()
		b.run(20 * time.Second)
		a.stop()
		mine := int32(0)
		if len(b.assigned()) == 1 {
			mine = b.assigned()[0].Partition
		} else {
			t.Fatalf("b has %v", b.assigned())
		}
		none(t, b.Pause(at(mine, 0)))
		a.saw()
		a.close()
		produce(k, 0, 1)
		produce(k, 1, 1)
		got := records(b.run(20 * time.Second))
		if other := []string{"1@0", "0@0"}[mine]; len(got) != 1 || got[0] != other {
			t.Fatalf("with %d paused b got %q, want %q alone", mine, got, other)
		}
	})
}

func (a *app) assigned() []kafka.TopicPartition {
	ps, err := a.Assignment()
	none(a.t, err)
	return ps
}

// 1.1.3, 1.2.4
func TestPauseOfAPartitionThatWasNeverAssignedDoesNothing(t *testing.T) {
	inEach(t, 2, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		a := newApp(t, k, simkafka.Options{Protocol: protocol})
		a.hook = func(kafka.Event) { none(t, a.Pause(at(0, 0))) } // before the assign: too early
		a.subscribe()
		want(t, a.until("0@0", 10*time.Second), "assigned 0 1", "0@0")
		a.hook = nil
		none(t, a.Pause(at(0, 0)))
		none(t, a.Pause(at(17, 0)))
		none(t, a.Resume(at(17, 0)))
		produce(k, 0, 1)
		want(t, a.run(time.Minute))
	})
}

// 1.1.1
func TestResumeGoesOnAtTheApplicationsPosition(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 5)
		a := subscribed(t, k, simkafka.Options{})
		a.keep = false
		a.until("0@1", time.Second)
		none(t, a.Pause(at(0, 0)))
		want(t, a.run(time.Minute))
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(2*time.Second), "0@2", "0@3", "0@4")
	})
}

// 1.1.8
func TestPauseRightAfterAssignKeepsTheAssignedOffset(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 5)
		a := newApp(t, k, simkafka.Options{AutoOffsetReset: "latest"})
		a.from = 3
		a.subscribe()
		for len(a.assigned()) == 0 {
			a.once(1)
		}
		none(t, a.Pause(at(0, 0)))
		a.run(time.Second)
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(2*time.Second), "0@3", "0@4")
	})
}

// 1.1.5, 6.3
func TestResumeTakesUpToASecondUnlessARequestWakesTheLeader(t *testing.T) {
	for _, test := range []struct {
		name        string
		ask         []kafka.TopicPartition
		least, most time.Duration
	}{
		{"nobody asks", nil, 500 * time.Millisecond, time.Second},
		{"its leader is asked", at(0, kafka.OffsetEnd), 20 * time.Millisecond, 21 * time.Millisecond},
		{"its leader is asked for another partition", at(3, kafka.OffsetEnd), 20 * time.Millisecond, 21 * time.Millisecond},
		{"another leader is asked", at(1, kafka.OffsetEnd), 500 * time.Millisecond, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			in(t, 4, func(t *testing.T, k *simkafka.Cluster) {
				k.Brokers(3)
				a := subscribed(t, k, simkafka.Options{})
				none(t, a.Pause(at(0, 0)))
				produce(k, 0, 1)
				a.run(2 * time.Second)
				none(t, a.Resume(at(0, 0)))
				resumed := time.Now()
				if test.ask != nil {
					go func() { _, _ = a.OffsetsForTimes(test.ask, 1000) }()
				}
				a.until("0@0", 2*time.Second)
				if took := time.Since(resumed); took < test.least || took > test.most {
					t.Errorf("the first record came after %v, want between %v and %v", took, test.least, test.most)
				}
			})
		})
	}
}

// 6.3: the coordinator has a connection of its own.
func TestCommittedDoesNotWakeTheFetcher(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		none(t, a.Pause(at(0, 0)))
		produce(k, 0, 1)
		none(t, a.Resume(at(0, 0)))
		_, err := a.Committed(at(0, 0), 1000)
		none(t, err)
		want(t, a.run(400*time.Millisecond))
	})
}

// 1.1.4
func TestPauseThrowsThePrefetchAway(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 100)
		a := subscribed(t, k, simkafka.Options{Prefetch: 10})
		for range 10 {
			a.once(1000)
			none(t, a.Pause(at(0, 0)))
			none(t, a.Resume(at(0, 0)))
		}
		if got := len(records(a.saw())); got != 10 {
			t.Fatalf("%d records, want 10", got)
		}
		if got := a.Fetched(); got < 80 {
			t.Errorf("%d records were fetched for 10, want them fetched over and over", got)
		}
	})
}

// 1.2.1: the library's own pause, of a rebalance, does not lift the application's.
func TestRebalanceDoesNotLiftAPause(t *testing.T) {
	inEach(t, 2, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		none(t, a.Pause(slices.Concat(at(0, 0), at(1, 0))))
		b := newApp(t, k, simkafka.Options{Protocol: protocol})
		b.subscribe()
		b.start()
		a.run(20 * time.Second)
		b.stop()
		produce(k, 0, 1)
		produce(k, 1, 1)
		if len(a.assigned()) != 1 {
			t.Fatalf("a has %v", a.assigned())
		}
		want(t, records(a.run(time.Minute)))
	})
}
