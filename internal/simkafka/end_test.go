package simkafka_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// 1.8.1, 1.7.6, 6.2
func TestAFencedClientIsSilentForEver(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{InstanceID: "one"}
		produce(k, 0, 1)
		a := subscribed(t, k, o)
		want(t, a.run(time.Second), "0@0")
		b := newApp(t, k, o)
		b.subscribe()
		want(t, b.run(time.Second), "assigned 0", "0@0") // the newcomer wins, at once
		e := a.Poll(10_000).(kafka.Error)
		if e.Code() != kafka.ErrFencedInstanceID || !e.IsFatal() {
			t.Errorf("%v", e)
		}
		produce(k, 0, 1)
		want(t, a.run(time.Minute)) // no Revoked either
		if len(a.assigned()) != 0 {
			t.Error("it is still assigned")
		}
		none(t, second(a.StoreOffsets(nil)))
		_, err := a.Commit()
		wantCode(t, err, kafka.ErrFatal)
		if err.(kafka.Error).IsFatal() {
			t.Error("the error of Commit says that it is fatal; the real one does not")
		}

		closed := make(chan bool)
		go func() {
			_ = a.Close()
			close(closed)
		}()
		select {
		case <-closed:
			t.Error("Close returned")
		case <-time.After(24 * time.Hour):
		}
		k.Stop()
		<-closed
	})
}

// 1.8.2: under KIP-848 the other way round.
func TestALiveInstanceKeepsItsPlaceUnderKIP848(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{InstanceID: "one", Protocol: simkafka.Consumer}
		a := subscribed(t, k, o)
		b := newApp(t, k, o)
		b.subscribe()
		if e, ok := b.Poll(1000).(kafka.Error); !ok || e.Code() != kafka.ErrUnreleasedInstanceID || !e.IsFatal() {
			t.Errorf("%v", e)
		}
		want(t, a.run(time.Minute))
	})
}

// 1.8.2
func TestAStaticMemberComesBackWithoutARebalance(t *testing.T) {
	in(t, 2, func(t *testing.T, k *simkafka.Cluster) {
		o := simkafka.Options{SessionTimeout: 20 * time.Second, InstanceID: "one"}
		a := subscribed(t, k, o)
		o.InstanceID = "two"
		b := newApp(t, k, o)
		b.subscribe()
		b.start()
		a.run(20 * time.Second)
		generation, had := k.Generation("billing"), numbers(a.assigned())
		a.close()
		time.Sleep(5 * time.Second)
		o.InstanceID = "one"
		again := subscribed(t, k, o)
		if got := numbers(again.assigned()); got != had || k.Generation("billing") != generation {
			t.Errorf("assigned%s, had%s; generation %d, was %d", got, had, k.Generation("billing"), generation)
		}
		again.close()
		time.Sleep(40 * time.Second) // it does not come back: its session expires
		b.stop()
		if got := numbers(b.assigned()); got != " 0 1" {
			t.Errorf("assigned%s", got)
		}
	})
}

// 1.8.3
func TestCloseRevokesAndLeaves(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 3)
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		a.until("0@0", time.Second)
		a.hook = func(kafka.Event) { none(t, second(a.Commit())) }
		a.close()
		want(t, a.saw(), "revoked 0")
		if len(k.Members("billing")) != 0 || k.Committed("billing", orders, 0) != 1 {
			t.Errorf("members %v, committed %v", k.Members("billing"), k.Committed("billing", orders, 0))
		}
		wantCode(t, a.Close(), kafka.ErrState)
		wantCode(t, a.Pause(at(0, 0)), kafka.ErrState)
		wantCode(t, second(a.Commit()), kafka.ErrState)
		wantCode(t, second(a.Subscription()), kafka.ErrState)
		if got := a.Misuse(); len(got) != 0 {
			t.Errorf("misuse %q", got)
		}
	})
}

// rdkafka_cgrp.c: a rebalance that waits is served by Close, and its assign becomes an unassign.
func TestCloseWithAnAssignmentThatWaits(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		produce(k, 0, 3)
		a := newApp(t, k, simkafka.Options{Protocol: protocol})
		a.subscribe()
		time.Sleep(time.Second)
		a.close()
		if protocol == simkafka.Range {
			want(t, a.saw(), "assigned 0")
		} else {
			want(t, a.saw(), "assigned 0", "revoked 0")
		}
		if len(k.Members("billing")) != 0 {
			t.Error("it has not left")
		}
	})
}

func TestCloseBeforeAnything(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		newApp(t, k, simkafka.Options{Protocol: protocol}).close()
		a := newApp(t, k, simkafka.Options{Protocol: protocol})
		a.subscribe()
		a.close()
		time.Sleep(time.Minute)
		if len(k.Members("billing")) != 0 {
			t.Error("it is a member after Close")
		}
	})
}

// 6.2
func TestCloseWithTheCoordinatorAway(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol})
		k.CoordinatorAway(time.Hour)
		start := time.Now()
		a.close()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("Close took %v", took)
		}
		time.Sleep(time.Hour + time.Minute)
		if len(k.Members("billing")) != 0 {
			t.Error("it has not left")
		}
	})
}

// 6.2, 1.9
func TestAWholeSessionWithoutTheCoordinator(t *testing.T) {
	inEach(t, 1, func(t *testing.T, k *simkafka.Cluster, protocol string) {
		a := subscribed(t, k, simkafka.Options{Protocol: protocol, SessionTimeout: 10 * time.Second})
		k.CoordinatorAway(7 * time.Second)
		want(t, a.run(20*time.Second)) // shorter than a session: nothing
		k.CoordinatorAway(30 * time.Second)
		produce(k, 0, 1)
		want(t, a.run(5*time.Second), "0@0") // records go on
		seen := a.run(24 * time.Second)
		if protocol == simkafka.Consumer {
			want(t, seen)
			return
		}
		want(t, seen, "lost 0")
		want(t, a.run(10*time.Second), "assigned 0", "0@0")
	})
}

func TestPollDuringCloseAndTwoPollsPanic(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		a.start()
		time.Sleep(time.Second)
		panics := func(what string, f func()) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", what)
				}
			}()
			f()
		}
		panics("a second Poll", func() { a.Poll(0) })
		panics("Close during Poll", func() { _ = a.Close() })
		a.stop()
		a.close()
		panics("Poll after Close", func() { a.Poll(0) })
	})
}

func TestMisuseIsNoted(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		a := subscribed(t, k, simkafka.Options{})
		a.start()
		synctest.Wait()
		none(t, a.Pause(at(0, 0)))
		none(t, second(a.StoreOffsets(at(0, 1))))
		a.stop()
		k.CoordinatorAway(time.Minute)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = a.Commit()
		}()
		synctest.Wait()
		a.close()
		<-ended
		if got := a.Misuse(); len(got) != 3 {
			t.Errorf("misuse %q", got)
		}
	})
}

func TestWhatAClientSaysOfItself(t *testing.T) {
	in(t, 1, func(t *testing.T, k *simkafka.Cluster) {
		logs := make(chan kafka.LogEvent)
		c := k.NewClient(simkafka.Options{Group: "g", EventsChannel: true, Logs: logs, OAuthBearer: true})
		if c.Events() == nil || c.Logs() != logs {
			t.Error("no channels")
		}
		if _, ok := c.Poll(0).(kafka.OAuthBearerTokenRefresh); !ok {
			t.Error("no request for a token")
		}
		none(t, c.SetOAuthBearerToken(kafka.OAuthBearerToken{TokenValue: "x"}))
		none(t, c.SetOAuthBearerTokenFailure("later"))
		if _, ok := c.Poll(11_000).(kafka.OAuthBearerTokenRefresh); !ok || len(c.Tokens()) != 1 {
			t.Error("no second request for a token")
		}
		plain := k.NewClient(simkafka.Options{Group: "g"})
		if plain.Events() != nil || plain.Logs() != nil {
			t.Error("channels that nobody asked for")
		}
		wantCode(t, plain.SetOAuthBearerToken(kafka.OAuthBearerToken{}), kafka.ErrState)
		wantCode(t, plain.SetOAuthBearerTokenFailure(""), kafka.ErrState)
		if topics, err := plain.Subscription(); err != nil || len(topics) != 0 {
			t.Errorf("%v, %v", topics, err)
		}
		none(t, plain.SubscribeTopics([]string{orders}, nil))
		if topics, _ := plain.Subscription(); !slices.Equal(topics, []string{orders}) {
			t.Errorf("%v", topics)
		}
	})
}
