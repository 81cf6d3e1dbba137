package contenders

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
)

// bare is the floor: it can't be done with less. It stores what is done in batches. It has no idea of what to do with a record that fails, and
// skips it.
func bare(ctx context.Context, h *contend.Host) error {
	done := make([]kafka.TopicPartition, h.Parts) // the last record that was handled
	store := func(c *kafka.Consumer) {
		offsets := make([]kafka.TopicPartition, 0, len(done))
		for i := range done {
			if done[i].Topic != nil {
				at := done[i]
				at.Offset++
				offsets = append(offsets, at)
				done[i].Topic = nil
			}
		}
		if len(offsets) > 0 {
			_, _ = c.StoreOffsets(offsets)
		}
	}
	c, err := open(h, true, func(c *kafka.Consumer, e kafka.Event) error {
		if _, revoked := e.(kafka.RevokedPartitions); revoked {
			store(c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	lastStore := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		if n%1024 == 0 || len(done) == 0 {
			if now := time.Now(); now.Sub(lastStore) > 100*time.Millisecond {
				store(c)
				lastStore = now
			}
		}
		switch e := c.Poll(100).(type) {
		case *kafka.Message:
			_ = h.Handle(ctx, record(e, 1))
			done[e.TopicPartition.Partition] = e.TopicPartition
		case *kafka.Stats:
			h.Statistics(e.String())
		case nil:
			n = -1 // nothing to do: store
		}
	}
	store(c)
	return c.Close()
}
