package consumer

import (
	"context"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/internal/simkafka"
)

// Where a partition starts, while the coordinator answers nothing.

func TestNothingIsCalledBeforeTheStartIsCommittedHoweverLongThatTakes(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(1, 3)
		w.handler = func(_ context.Context, c call) error {
			if at := w.committed(0); at < 0 {
				t.Errorf("called %v with no offset committed", c)
			}
			return nil
		}
		w.start(`[1]`, func(s *setup) {
			with(s)
			s.config.OnRebalance = func(kafka.Event) { w.cluster.CoordinatorAway(10 * time.Second) }
		})
		w.until(time.Minute, "the records", func() bool { return w.handled(1, 3) })
		if first := w.of(0, 0)[0]; first.At < 10*time.Second {
			t.Errorf("called at %v, while the coordinator was away", first.At)
		}
	})
}

// awayAtClaim makes the coordinator silent when a partition is assigned, just as its start is looked up.
type awayAtClaim struct {
	attempts.Store
	cluster *simkafka.Cluster
}

func (s awayAtClaim) Claim(ctx context.Context, group, owner string, ps []attempts.Partition) (map[attempts.Partition]attempts.Loaded, error) {
	s.cluster.CoordinatorAway(30 * time.Second)
	return s.Store.Claim(ctx, group, owner, ps)
}

func TestALookUpWithoutAnAnswerIsAskedAgainAndNotTakenForNoneCommitted(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(1, 10)
		w.cluster.SetCommitted(group, topic, 0, 6)
		w.start(`[1]`, func(s *setup) {
			with(s)
			s.config.Attempts = awayAtClaim{w.store, w.cluster}
		})
		w.until(2*time.Minute, "the rest", func() bool { return len(w.of(0, 9)) == 1 })
		if first := w.seen()[0]; first.Offset != 6 || first.At < 30*time.Second {
			t.Errorf("the first call is %v", first)
		}
	})
}
