package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
)

// What the client says, and does behind our back.

func TestTransportErrorsInALongPauseNeitherTripNorEndAnything(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 2)
		var passed int
		i := w.start(`[1]`, func(s *setup) { s.config.OnEvent = func(kafka.Event) { passed++ } })
		w.until(time.Minute, "the records", func() bool { return w.handled(1, 2) })
		for range 100 {
			i.client.Emit(kafka.NewError(kafka.ErrTransport, "broker connection failed", false))
			i.client.Emit(kafka.NewError(kafka.ErrAllBrokersDown, "1/1 brokers are down", false))
			w.pass(100 * time.Millisecond)
		}
		if i.state() != "closed" || isClosed(i.ended) {
			t.Errorf("the breaker is %s; ended: %v", i.state(), i.err)
		}
		if n := i.count(observe.ClientError); n != 2 {
			t.Errorf("told %d times in ten seconds, not once for each", n)
		}
		if passed != 200 {
			t.Errorf("OnEvent heard %d of 200", passed)
		}
		w.produce(0, 3)
		w.until(time.Minute, "what came later", func() bool { return w.handled(1, 5) })
	})
}

func TestPreviewProtocolIsAWarning(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		i := w.start(`[1]`, func(s *setup) { s.client.Protocol = simkafka.Consumer })
		w.until(time.Minute, "the record", func() bool { return w.handled(1, 1) })
		for _, e := range i.told() {
			if e.Kind == observe.Warning && strings.Contains(e.Text, "preview") {
				return
			}
		}
		t.Error(w.picture())
	})
}

func TestStragglersFromBeforeARebalanceMoveNothing(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(4, 60)
		stale := func(s *setup) { with(s); s.client.Faults.Stale = 1 }
		w.handler = func(context.Context, call) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		w.start(`[1]`, stale)
		w.until(time.Minute, "the first records", func() bool { return len(w.seen()) > 10 })
		b := w.start(`[1]`, stale)
		w.until(time.Minute, "b's records", func() bool { return len(b.c.Status().Partitions) == 2 && len(w.seen()) > 60 })
		b.stop()
		w.until(2*time.Minute, "everything handled", func() bool { return w.handled(4, 60) })
		inOrder(t, w)
		for p := range int32(4) {
			w.until(time.Minute, "the commits", func() bool { return w.committed(p) == 60 })
		}
	})
}

func TestAlternatingErrorsDoNotStartTheStrategyOver(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		n := 0
		w.handler = func(context.Context, call) error {
			if n++; n%2 == 0 {
				return errors.New("deadlock found")
			}
			return context.DeadlineExceeded
		}
		w.start(`{"intervals": [1, 2, 4], "jitter": 0}`, nil)
		w.until(time.Minute, "the dead letter", func() bool { return len(w.dlq.written()) == 1 })
		if calls := w.of(0, 0); len(calls) != 4 {
			t.Errorf("%v", calls)
		}
	})
}
