package simkafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func TestCommitTakesWhatWasStored(t *testing.T) {
	inEach(t, 2, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 3)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		wantCode(t, second(a.Commit()), kafka.ErrNoOffset) // 1.7.5
		want(t, a.run(time.Second), "0@0", "0@1", "0@2")
		done, err := a.Commit()
		none(t, err)
		if len(done) != 2 || done[0].Offset != 3 || done[1].Offset != kafka.OffsetInvalid {
			t.Errorf("committed %v, want the whole assignment, unset where nothing was stored", done)
		}
		wantCode(t, second(a.Commit()), kafka.ErrNoOffset)
		_, err = a.StoreOffsets(at(0, 2))
		none(t, err)
		wantCode(t, second(a.Commit()), kafka.ErrNoOffset) // 1.4.5: it only moves forward
		if got := k.Committed("billing", orders, 0); got != 3 {
			t.Errorf("committed %v", got)
		}
		if got := k.Committed("billing", orders, 1); got != kafka.OffsetInvalid {
			t.Errorf("committed %v where nothing was", got)
		}
	})
}

// 6.3
func TestAStartCanBeCommittedInsideTheCallback(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 5)
		c := k.NewClient(simkafka.Options{Group: "billing", Protocol: protocol})
		committed := make(chan error)
		none(t, c.SubscribeTopics([]string{orders}, func(_ *kafka.Consumer, e kafka.Event) error {
			if protocol == simkafka.Range {
				none(t, c.Assign(at(0, 5)))
			} else {
				none(t, c.IncrementalAssign(at(0, 5)))
			}
			none(t, second(c.StoreOffsets(at(0, 5))))
			go func() { committed <- second(c.Commit()) }()
			none(t, <-committed)
			return nil
		}))
		c.Poll(1000)
		if got := k.Committed("billing", orders, 0); got != 5 {
			t.Errorf("committed %v", got)
		}
	})
}

// 1.4.4
func TestStoreOffsetsOfWhatIsNotAssigned(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		none(t, a.IncrementalUnassign(at(1, 0)))
		out, err := a.StoreOffsets(slices.Concat(at(0, 1), at(1, 1), at(7, 1)))
		none(t, err) // one could be stored
		if out[0].Error != nil {
			t.Error(out[0].Error)
		}
		wantCode(t, out[1].Error, kafka.ErrState)
		wantCode(t, out[2].Error, kafka.ErrUnknownPartition)
		out, err = a.StoreOffsets(at(1, 1))
		wantCode(t, err, kafka.ErrState)
		wantCode(t, out[0].Error, kafka.ErrState)
	})
}

// 6.3
func TestStoreOffsetsTellsWhetherOffsetsStoreThemselves(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		for _, commits := range []bool{false, true} {
			c := k.NewClient(simkafka.Options{Group: "g", AutoCommit: commits})
			none(t, second(c.StoreOffsets([]kafka.TopicPartition{})))
			c = k.NewClient(simkafka.Options{Group: "g", AutoCommit: commits, AutoOffsetStore: true})
			wantCode(t, second(c.StoreOffsets([]kafka.TopicPartition{})), kafka.ErrInvalidArg)
		}
	})
}

// rdkafka_assignment.c
func TestStoredOffsetsGoWithTheAssignment(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		want(t, a.run(time.Second), "0@0")
		a.LoseAssignment()
		want(t, a.run(200*time.Millisecond), "lost 0", "assigned 0", "0@0")
		a.LoseAssignment()
		a.once(0)
		wantCode(t, second(a.Commit()), kafka.ErrNoOffset)
	})
}

// 1.5.6, 1.7.1
func TestCommitOfALostAssignment(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		want(t, a.run(time.Second), "0@0")
		a.LoseAssignment()
		wantCode(t, second(a.Commit()), kafka.ErrAssignmentLost)
	})
}

// 1.7.4, 6.2: who was put out and does not know it yet.
func TestCommitOfAnUnknownMember(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		b := newApp(t, k, simkafka.Options{Protocol: protocol}) // keeps the group from being empty
		b.subscribe()
		a.start()
		b.run(20 * time.Second)
		k.Kick(a.MemberID())
		a.stop()
		a.saw()
		none(t, second(a.StoreOffsets(at(a.assigned()[0].Partition, 1))))
		wantCode(t, second(a.Commit()), kafka.ErrUnknownMemberID)
		a.run(20 * time.Millisecond)
		if protocol != simkafka.Consumer && a.MemberID() == "" {
			t.Error("the refusal did not make it join again")
		}
	})
}

// 1.7.4
func TestCommitWhileARebalanceCompletes(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 1)
		k.RebalanceDelay(time.Second, time.Second)
		a := subscribed(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		want(t, a.run(100*time.Millisecond), "0@0")
		b := newApp(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		b.subscribe()
		for k.Generation("billing") == 1 {
			a.once(10)
		}
		wantCode(t, second(a.Commit()), kafka.ErrRebalanceInProgress)
		a.run(10 * time.Second)
		none(t, second(a.Commit()))
	})
}

// 1.7.4: the generation that a commit was sent with is over when it arrives.
func TestCommitOfAnOldGeneration(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 1)
		o := simkafka.Options{Protocol: simkafka.Cooperative, Latency: 100 * time.Millisecond}
		a := subscribed(t, k, o)
		want(t, a.run(time.Second), "0@0")
		b := newApp(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		b.subscribe()
		sent := time.Duration(0)
		for k.Rebalances("billing") == 1 {
			time.Sleep(time.Millisecond)
		}
		for start := time.Now(); ; time.Sleep(time.Millisecond) { // its heartbeat comes, and its JoinGroup goes out
			if sent = time.Since(start); sent > 10*time.Second {
				t.Fatal("never")
			}
			none(t, second(a.StoreOffsets(at(0, kafka.Offset(1+sent/time.Millisecond)))))
			answers := make(chan error, 1)
			go func() { answers <- second(a.Commit()) }()
			if err := <-answers; err != nil {
				wantCode(t, err, kafka.ErrIllegalGeneration)
				return
			}
		}
	})
}

// 1.7.7
func TestCommitOfAStaleEpoch(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: simkafka.Consumer, Latency: 50 * time.Millisecond, AutoOffsetReset: "earliest"})
		a.run(time.Second)
		k.CreateTopic(orders, 2)
		for start := time.Now(); time.Since(start) < 10*time.Second; {
			none(t, second(a.StoreOffsets(at(0, kafka.Offset(time.Since(start))))))
			if err := second(a.Commit()); err != nil && errCode(err) != kafka.ErrNoOffset {
				wantCode(t, err, kafka.ErrStaleMemberEpoch)
				a.run(time.Second)
				none(t, second(a.StoreOffsets(at(0, kafka.Offset(time.Hour)))))
				none(t, second(a.Commit()))
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Error("no commit met the change of epoch")
	})
}

// 1.7.2, 6.2
func TestCommitBlocksWhileTheCoordinatorIsAway(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, SessionTimeout: 10 * time.Second})
		want(t, a.run(time.Second), "0@0")
		a.start() // it is not the polling goroutine that blocks

		k.CoordinatorAway(4 * time.Second)
		start := time.Now()
		none(t, second(a.Commit()))
		if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("the commit took %v", took)
		}

		none(t, second(a.StoreOffsets(at(0, 2))))
		k.CoordinatorAway(time.Hour)
		start = time.Now()
		wantCode(t, second(a.Commit()), kafka.ErrWaitCoord)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("the commit took %v", took)
		}
		a.stop()
	})
}

// lrk#4558 and 1.7.2: whether it was done is not known.
func TestACommitThatWasGivenUpMayHaveBeenDone(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		outcomes := map[kafka.Offset]int{}
		for i := range 20 {
			group := string(rune('a' + i))
			a := subscribed(t, k, simkafka.Options{Group: group, Protocol: simkafka.Consumer, SessionTimeout: 10 * time.Second})
			none(t, second(a.StoreOffsets(at(0, 1))))
			k.CoordinatorAway(20 * time.Second)
			wantCode(t, second(a.Commit()), kafka.ErrWaitCoord)
			a.run(20 * time.Second)
			outcomes[k.Committed(group, orders, 0)]++
		}
		if outcomes[1] == 0 || outcomes[kafka.OffsetInvalid] == 0 {
			t.Errorf("outcomes %v, want both", outcomes)
		}
	})
}

// 1.7.3
func TestACommitUnderWayHoldsUpTheStart(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 1)
		a := subscribed(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		a.run(time.Second)
		none(t, a.IncrementalUnassign(at(1, 0)))
		k.CoordinatorAway(5 * time.Second)
		go func() { _, _ = a.Commit() }()
		time.Sleep(time.Millisecond)
		produce(k, 1, 1)
		none(t, a.IncrementalAssign(at(1, 0)))
		want(t, a.run(4*time.Second))
		want(t, a.run(2*time.Second), "1@0")
	})
}

func TestAutoCommit(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 2)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, AutoCommit: true})
		seen := a.run(6 * time.Second)
		if k.Committed("billing", orders, 0) != 2 || len(seen) != 3 {
			t.Errorf("committed %v, saw %q", k.Committed("billing", orders, 0), seen)
		}
		produce(k, 0, 1)
		a.run(100 * time.Millisecond)
		a.close() // what is left is committed with the unassign
		if got := k.Committed("billing", orders, 0); got != 3 {
			t.Errorf("committed %v at the end", got)
		}
	})
}

func TestOffsetsThatStoreThemselves(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 2)
		a := subscribed(t, k, simkafka.Options{AutoOffsetStore: true})
		a.keep = false
		a.run(time.Second)
		none(t, second(a.Commit()))
		if got := k.Committed("billing", orders, 0); got != 2 {
			t.Errorf("committed %v", got)
		}
	})
}

func TestCommitted(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		k.SetCommitted("billing", orders, 0, 7)
		c := k.NewClient(simkafka.Options{Group: "billing"})
		both := slices.Concat(at(0, 0), at(1, 0))
		out, err := c.Committed(both, 1000)
		none(t, err)
		if out[0].Offset != 7 || out[1].Offset != kafka.OffsetInvalid {
			t.Errorf("%v", out)
		}
		k.CoordinatorAway(time.Minute)
		start := time.Now()
		wantCode(t, second(c.Committed(both, 2000)), kafka.ErrTimedOut)
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("it took %v", took)
		}
		none(t, second(c.Committed(both, -1)))
		if took := time.Since(start); took < time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

// 6.3
func TestOffsetsForTimes(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		base := time.Now()
		for i := range 5 {
			k.Produce(orders, 0, nil, nil, nil, base.Add(time.Duration(i)*time.Second))
		}
		k.DeleteRecords(orders, 0, 1)
		c := k.NewClient(simkafka.Options{Group: "billing"})
		for _, test := range []struct{ ask, answer kafka.Offset }{
			{kafka.OffsetEnd, 5}, {kafka.OffsetBeginning, 1},
			{kafka.Offset(base.UnixMilli()), 1}, {kafka.Offset(base.UnixMilli() + 2001), 3},
			{kafka.Offset(base.UnixMilli() + 9000), kafka.OffsetEnd},
		} {
			out, err := c.OffsetsForTimes(at(0, test.ask), 1000)
			none(t, err)
			if out[0].Offset != test.answer {
				t.Errorf("asked %v, got %v, want %v", test.ask, out[0].Offset, test.answer)
			}
		}
		wantCode(t, second(c.OffsetsForTimes(at(9, -1), 1000)), kafka.ErrUnknownPartition)
		k.FetchAway(time.Minute)
		wantCode(t, second(c.OffsetsForTimes(at(0, -1), 1000)), kafka.ErrTimedOut)
	})
}

// 1.4.1, 1.4.2
func TestSeekPartitions(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 5)
		a := subscribed(t, k, simkafka.Options{})
		where := func() kafka.Offset {
			out, err := a.Position(at(0, 0))
			none(t, err)
			return out[0].Offset
		}
		if where() != kafka.OffsetInvalid {
			t.Error("a position before the first record")
		}
		a.run(time.Second)
		if where() != 5 {
			t.Errorf("position %v", where())
		}
		wantCode(t, second(a.SeekPartitions(nil)), kafka.ErrInvalidArg)
		out, err := a.SeekPartitions(slices.Concat(at(0, 3), at(1, kafka.OffsetStored), at(9, 0)))
		none(t, err)
		if out[0].Error != nil {
			t.Error(out[0].Error)
		}
		wantCode(t, out[1].Error, kafka.ErrInvalidArg)
		wantCode(t, out[2].Error, kafka.ErrUnknownPartition)
		if where() != kafka.OffsetInvalid {
			t.Error("a position right after a seek")
		}
		want(t, a.run(time.Second), "0@3", "0@4")

		none(t, a.Pause(at(0, 0)))
		none(t, second(a.SeekPartitions(at(0, 4)))) // and it stays paused
		want(t, a.run(time.Minute))
		none(t, a.Resume(at(0, 0)))
		want(t, a.run(2*time.Second), "0@4")
		none(t, a.Unassign())
		out, err = a.SeekPartitions(at(0, 0))
		none(t, err)
		wantCode(t, out[0].Error, kafka.ErrState)
	})
}

// 1.11.1, 1.11.2
func TestAutoOffsetReset(t *testing.T) {
	gone := "error " + kafka.ErrAutoOffsetReset.String()
	for _, test := range []struct {
		policy                string
		none, jumped, revived []string
	}{
		{"earliest", []string{"0@0", "0@1"}, []string{"0@6", "0@7"}, []string{"0@7"}},
		{"latest", nil, nil, []string{"0@7"}},
		{"error", []string{gone}, []string{gone}, []string{"0@7"}},
	} {
		t.Run(test.policy, func(t *testing.T) {
			in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
				produce(k, 0, 2)
				a := subscribed(t, k, simkafka.Options{AutoOffsetReset: test.policy})
				want(t, a.run(time.Second), test.none...)
				none(t, second(a.SeekPartitions(at(0, 2))))
				none(t, a.Pause(at(0, 0)))
				a.run(time.Second)
				produce(k, 0, 6)
				k.DeleteRecords(orders, 0, 6)
				none(t, a.Resume(at(0, 0)))
				want(t, a.run(2*time.Second), test.jumped...)
				want(t, a.run(time.Minute)) // silence
				none(t, second(a.SeekPartitions(at(0, 7))))
				want(t, a.run(time.Second), test.revived...)
			})
		})
	}
}

func TestRecordsThatWereFetchedOutliveRetention(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 20)
		a := subscribed(t, k, simkafka.Options{Prefetch: 4})
		a.until("0@0", time.Second)
		k.DeleteRecords(orders, 0, 19)
		want(t, a.run(time.Second), "0@1", "0@2", "0@3", "0@19")
	})
}

func TestFetchAway(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		produce(k, 0, 20)
		a := subscribed(t, k, simkafka.Options{Prefetch: 4})
		a.until("0@0", time.Second)
		k.FetchAway(time.Minute)
		want(t, a.run(time.Second), "0@1", "0@2", "0@3")
		want(t, a.run(58*time.Second))
		if got := len(a.run(2 * time.Second)); got != 16 {
			t.Errorf("%d records after it came back", got)
		}
	})
}

func TestRecordsComeAsTheyWereProduced(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		ts := time.Date(2026, 1, 2, 3, 4, 5, 678_912_345, time.UTC)
		hs := []kafka.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte{}}}
		k.Produce(orders, 0, nil, []byte{}, hs, ts)
		k.Produce(orders, 0, []byte("key"), nil, nil, time.Time{})
		a := subscribed(t, k, simkafka.Options{})
		m := a.Poll(1000).(*kafka.Message)
		if m.Key != nil || m.Value == nil || len(m.Value) != 0 || !m.Timestamp.Equal(ts.Truncate(time.Millisecond)) ||
			len(m.Headers) != 3 || m.Headers[1].Value != nil || m.Headers[2].Value == nil || m.TimestampType != kafka.TimestampCreateTime {
			t.Errorf("%+v", m)
		}
		m = a.Poll(1000).(*kafka.Message)
		if string(m.Key) != "key" || m.Value != nil || m.Headers != nil || *m.TopicPartition.Topic != orders {
			t.Errorf("%+v", m)
		}
	})
}
