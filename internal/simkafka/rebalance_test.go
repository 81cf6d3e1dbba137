package simkafka_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func TestEagerMovesEverything(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		b := newApp(t, k, simkafka.Options{})
		b.subscribe()
		a.start()
		got := b.run(20 * time.Second)
		a.stop()
		if len(got) != 1 || len(got[0]) != len("assigned 0") {
			t.Errorf("b saw %q, want one partition", got)
		}
		if got := a.saw(); len(got) != 2 || got[0] != "revoked 0 1" || len(got[1]) != len("assigned 0") {
			t.Errorf("a saw %q, want both revoked and one assigned", got)
		}
		if k.Generation("billing") != 2 || k.Rebalances("billing") != 2 {
			t.Errorf("generation %d, %d rebalances", k.Generation("billing"), k.Rebalances("billing"))
		}
	})
}

// 1.5.5: an empty list comes too, and what stays is not touched.
func TestCooperativeMovesWhatMustMove(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{Protocol: simkafka.Cooperative}
		a := subscribed(t, k, o)
		b := newApp(t, k, o)
		b.subscribe()
		a.start()
		want(t, b.run(20*time.Second), "assigned", "assigned 1")
		a.stop()
		want(t, a.saw(), "revoked 1", "assigned", "assigned")
		if k.Generation("billing") != 3 {
			t.Errorf("generation %d, want a second rebalance for what was given up", k.Generation("billing"))
		}
	})
}

func TestConsumerProtocolMovesWhatMustMove(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{Protocol: simkafka.Consumer}
		a := subscribed(t, k, o)
		b := newApp(t, k, o)
		b.subscribe()
		a.start()
		want(t, b.run(20*time.Second), "assigned 1")
		a.stop()
		want(t, a.saw(), "revoked 1", "assigned")
		ms := k.Members("billing")
		if len(ms) != 2 || len(ms[0].Partitions) != 1 || len(ms[1].Partitions) != 1 {
			t.Errorf("members %+v", ms)
		}
	})
}

func TestPartitionsAreSharedOutWhateverComesAndGoes(t *testing.T) {
	inEach(t, 7, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		var apps []*app
		shared := func() {
			t.Helper()
			time.Sleep(30 * time.Second)
			var all []string
			for _, a := range apps {
				if n := len(a.assigned()); n > 7/len(apps)+1 || n < 7/len(apps) {
					t.Errorf("one of %d has %d of 7", len(apps), n)
				}
				all = append(all, strings.Fields(numbers(a.assigned()))...)
			}
			slices.Sort(all)
			want(t, all, "0", "1", "2", "3", "4", "5", "6")
		}
		for range 4 {
			a := newApp(t, k, simkafka.Options{Protocol: protocol})
			a.subscribe()
			a.start()
			apps = append(apps, a)
			shared()
		}
		for range 3 {
			apps[0].stop()
			apps[0].close()
			apps = apps[1:]
			shared()
		}
		apps[0].stop()
		apps[0].close()
		time.Sleep(time.Second)
		if len(k.Members("billing")) != 0 {
			t.Error("members are left")
		}
	})
}

func TestMorePartitions(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		k.CreateTopic(orders, 3)
		a.run(10 * time.Second)
		if got := numbers(a.assigned()); got != " 0 1 2" {
			t.Errorf("assigned%s", got)
		}
	})
}

func TestUnknownTopic(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := newApp(t, k, simkafka.Options{})
		none(t, a.SubscribeTopics([]string{"payments"}, a.rebalanced))
		want(t, a.run(10*time.Second), "error "+kafka.ErrUnknownTopicOrPart.String(), "assigned")
	})
}

func TestRebalanceProtocolIsKnownAfterTheJoin(t *testing.T) {
	for protocol, name := range map[string]string{simkafka.Range: "EAGER", simkafka.Cooperative: "COOPERATIVE", simkafka.Consumer: "COOPERATIVE"} {
		in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
			a := newApp(t, k, simkafka.Options{Protocol: protocol})
			if got := a.GetRebalanceProtocol(); got != "NONE" {
				t.Errorf("%s before the subscription: %s", protocol, got)
			}
			a.subscribe()
			a.run(time.Second)
			if got := a.GetRebalanceProtocol(); got != name {
				t.Errorf("%s: %s, want %s", protocol, got, name)
			}
		})
	}
}

// 1.5.2, 1.5.3, 6.3: the wrong call is refused, counts as the answer for the binding, and nobody answers any more.
func TestTheWrongAssignCallLeavesTheClientSilent(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 1)
		c := k.NewClient(simkafka.Options{Group: "billing", Protocol: protocol, AutoOffsetReset: "earliest"})
		calls := 0
		none(t, c.SubscribeTopics([]string{orders}, func(_ *kafka.Consumer, e kafka.Event) error {
			calls++
			parts := e.(kafka.AssignedPartitions).Partitions
			var err error
			if protocol == simkafka.Range {
				err = c.IncrementalAssign(parts)
				if !strings.Contains(err.Error(), "must be made using assign()") {
					t.Error(err)
				}
				wantCode(t, c.IncrementalUnassign(parts), kafka.ErrState)
			} else {
				err = c.Assign(parts)
				wantCode(t, c.Unassign(), kafka.ErrState)
			}
			wantCode(t, err, kafka.ErrState)
			return nil
		}))
		for range 600 {
			if e := c.Poll(100); e != nil {
				t.Fatalf("got %v", e)
			}
		}
		if calls != 1 {
			t.Errorf("%d callbacks", calls)
		}
	})
}

// 1.5.3: and what it has had before is silent as well.
func TestTheWrongAssignCallSilencesWhatStays(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := newApp(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		wrong := false
		none(t, a.SubscribeTopics([]string{orders}, func(c *kafka.Consumer, e kafka.Event) error {
			if wrong {
				return a.Assign(e.(kafka.AssignedPartitions).Partitions)
			}
			return a.rebalanced(c, e)
		}))
		a.until("assigned 0", time.Second)
		wrong = true
		k.CreateTopic(orders, 2)
		produce(k, 0, 1)
		a.until("0@0", time.Second)
		a.run(10 * time.Second)
		produce(k, 0, 1)
		want(t, a.run(time.Minute))
	})
}

// 1.5.1, 1.5.2
func TestTheBindingAnswersWhereTheApplicationDoesNot(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		for _, cb := range []kafka.RebalanceCb{nil, func(*kafka.Consumer, kafka.Event) error { return kafka.NewError(kafka.ErrFail, "", false) }} {
			c := k.NewClient(simkafka.Options{Group: "billing", Protocol: protocol, AutoOffsetReset: "earliest"})
			none(t, c.SubscribeTopics([]string{orders}, cb))
			for range 10 {
				c.Poll(100)
			}
			if ps, _ := c.Assignment(); len(ps) != 1 {
				t.Errorf("assigned %v", ps)
			}
			none(t, c.Close())
		}
	})
}

// 1.5.5
func TestPollReturnsEarlyAfterARebalance(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := newApp(t, k, simkafka.Options{})
		a.subscribe()
		start := time.Now()
		if e := a.Poll(5000); e != nil || time.Since(start) > time.Second {
			t.Errorf("Poll: %v after %v, want nil at once", e, time.Since(start))
		}
		want(t, a.saw(), "assigned 0")
	})
}

// 1.5.6
func TestAssignmentLostEndsWithTheUnassign(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		a.LoseAssignment()
		if !a.AssignmentLost() {
			t.Error("not lost before its callback")
		}
		want(t, a.run(time.Millisecond), "lost 0")
		if a.AssignmentLost() {
			t.Error("still lost after the answer")
		}
	})
}

// 1.5.6: the known false negative.
func TestALossDuringARebalanceIsNotSaid(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{MaxPollInterval: 10 * time.Second})
		b := newApp(t, k, simkafka.Options{MaxPollInterval: 10 * time.Second})
		b.subscribe()
		a.wait = 15 * time.Second
		seen := a.until("revoked", 40*time.Second)
		want(t, seen, "revoked 0") // and not lost, although the group has put it out meanwhile
		a.wait = 0
		want(t, a.run(time.Second)[:1], "error "+kafka.ErrMaxPollExceeded.String())
	})
}

// 1.5.7
func TestASlowCallbackStallsTheGroup(t *testing.T) {
	for _, protocol := range []string{simkafka.Range, simkafka.Cooperative} {
		in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
			o := simkafka.Options{Protocol: protocol}
			a := subscribed(t, k, o)
			a.wait = 30 * time.Second
			b := newApp(t, k, o)
			b.subscribe()
			a.start()
			defer a.stop()
			start := time.Now()
			for len(b.assigned()) == 0 && time.Since(start) < 5*time.Minute {
				b.once(100)
			}
			if took := time.Since(start); took < 30*time.Second || took > 2*time.Minute {
				t.Errorf("%s: b had a partition after %v", protocol, took)
			}
		})
	}
}

// 1.5.7: at most for max.poll.interval.ms; then the group goes on without the member.
func TestAGroupDoesNotWaitForEver(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{MaxPollInterval: time.Minute}
		a := subscribed(t, k, o)
		release := make(chan struct{})
		a.hook = func(kafka.Event) { <-release }
		b := newApp(t, k, o)
		b.subscribe()
		a.start()
		start := time.Now()
		b.until("assigned 0", 2*time.Minute)
		if took := time.Since(start); took < 50*time.Second || took > 70*time.Second {
			t.Errorf("b had the partition after %v", took)
		}
		close(release)
		a.stop()
	})
}

func TestRebalanceDelay(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		k.RebalanceDelay(5*time.Second, 8*time.Second)
		start := time.Now()
		subscribed(t, k, simkafka.Options{})
		if took := time.Since(start); took < 5*time.Second || took > 9*time.Second {
			t.Errorf("assigned after %v", took)
		}
	})
}

// 6.3
func TestAnotherAssignorIsNotLetIn(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		a.start()
		b := newApp(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		b.subscribe()
		want(t, b.run(time.Minute), "error "+kafka.ErrInconsistentGroupProtocol.String())
		a.stop()
		a.close()
		want(t, b.run(10*time.Second), "assigned 0")
	})
}

// rdkafka_assignment.c: what was not assigned can't be unassigned, and then nobody has answered.
func TestIncrementalUnassignOfWhatIsNotAssigned(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		c := k.NewClient(simkafka.Options{Group: "billing", Protocol: simkafka.Cooperative})
		var refused error
		none(t, c.SubscribeTopics([]string{orders}, func(_ *kafka.Consumer, e kafka.Event) error {
			switch e := e.(type) {
			case kafka.AssignedPartitions:
				none(t, c.IncrementalAssign(e.Partitions[:1])) // the other one is not wanted
			case kafka.RevokedPartitions:
				refused = c.IncrementalUnassign(e.Partitions)
				none(t, c.IncrementalUnassign(e.Partitions[:1]))
			}
			return nil
		}))
		c.Poll(1000)
		c.LoseAssignment()
		c.Poll(1000)
		wantCode(t, refused, kafka.ErrInvalidArg)
	})
}

func TestAssignRefusesNonsense(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{Protocol: simkafka.Cooperative})
		wantCode(t, a.IncrementalAssign(at(0, 0)), kafka.ErrConflict)
		none(t, a.IncrementalUnassign(at(0, 0)))
		wantCode(t, a.IncrementalAssign(at(0, -77)), kafka.ErrInvalidArg)
		wantCode(t, a.IncrementalAssign(slices.Concat(at(0, 0), at(0, 0))), kafka.ErrInvalidArg)
		wantCode(t, a.IncrementalUnassign(at(0, 0)), kafka.ErrInvalidArg)
		none(t, a.IncrementalAssign(nil))
	})
}

// 1.6.1, 1.6.2, 6.2
func TestMaxPollExceeded(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, MaxPollInterval: 10 * time.Second})
		none(t, a.Pause(at(0, 0)))
		a.once(0)
		time.Sleep(10 * time.Second)
		want(t, a.run(time.Second)) // Poll(0) counts, and so does the one that came just in time
		a.once(0)
		time.Sleep(11 * time.Second)
		if len(k.Members("billing")) != 0 {
			t.Error("it has not left the group")
		}
		wantCode(t, second(a.Commit()), kafka.ErrAssignmentLost)
		want(t, a.run(100*time.Millisecond), "error "+kafka.ErrMaxPollExceeded.String(), "lost 0", "assigned 0")
		produce(k, 0, 1)
		want(t, a.run(time.Minute)) // the pause is still on
	})
}

func second[T any](_ T, err error) error { return err }

func TestAPollThatWaitsIsAPoll(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{MaxPollInterval: 10 * time.Second})
		a.once(60_000)
		want(t, a.run(time.Second))
	})
}

// 1.6.3
func TestAStaticMemberBeyondMaxPollKeepsItsPlaceForASession(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{InstanceID: "one", MaxPollInterval: 10 * time.Second, SessionTimeout: 20 * time.Second})
		a.once(0)
		time.Sleep(25 * time.Second)
		if len(k.Members("billing")) != 1 {
			t.Fatal("it has left the group")
		}
		time.Sleep(10 * time.Second)
		if len(k.Members("billing")) != 0 {
			t.Fatal("its session has not expired")
		}
		want(t, a.run(time.Second), "error "+kafka.ErrMaxPollExceeded.String(), "lost 0", "assigned 0")
	})
}

// 1.5.7: the time before the callback was spent in Poll.
func TestMaxPollBeginsWithTheCallback(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{MaxPollInterval: 20 * time.Second})
		a.wait = 15 * time.Second
		time.AfterFunc(50*time.Second, a.LoseAssignment)
		a.once(100_000)
		want(t, a.saw(), "lost 0")
		a.wait = 0
		want(t, a.run(time.Second), "assigned 0")
	})
}

// 1.6.2: who has nothing to revoke does not join behind the application's back.
func TestBeyondMaxPollNobodyJoinsBeforeThePoll(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{Protocol: simkafka.Cooperative, MaxPollInterval: 10 * time.Second}
		a := subscribed(t, k, o)
		a.start()
		defer a.stop()
		b := newApp(t, k, o)
		b.subscribe()
		b.run(20 * time.Second)
		if len(b.assigned()) != 0 {
			t.Fatal("both have something")
		}
		b.saw()
		time.Sleep(time.Minute)
		if got := len(k.Members("billing")); got != 1 {
			t.Errorf("%d members", got)
		}
		want(t, b.run(10*time.Second), "error "+kafka.ErrMaxPollExceeded.String(), "assigned")
		if got := len(k.Members("billing")); got != 2 {
			t.Errorf("%d members after a poll", got)
		}
	})
}

// 1.2.1: while a callback waits, what stays is stopped too, and its prefetch is gone.
func TestARebalanceStopsWhatStays(t *testing.T) {
	for _, protocol := range []string{simkafka.Cooperative, simkafka.Consumer} {
		in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
			produce(k, 0, 100)
			a := subscribed(t, k, simkafka.Options{Protocol: protocol, Prefetch: 10})
			a.until("0@0", time.Second)
			if got := a.Fetched(); got != 10 {
				t.Fatalf("%s: %d records were fetched", protocol, got)
			}
			k.CreateTopic(orders, 2)
			time.Sleep(5 * time.Second)
			a.once(0)
			want(t, a.saw(), "assigned 1")
			a.until("0@1", time.Second)
			if got := a.Fetched(); got != 20 {
				t.Errorf("%s: %d records were fetched, want the prefetch again", protocol, got)
			}
		})
	}
}
