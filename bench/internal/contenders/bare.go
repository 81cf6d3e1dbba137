package contenders

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/dlq"
)

// bare is the floor: it can't be done with less. It stores what is done in batches. It has no idea of what to do with a record that fails, and
// skips it; one that is refused for good it hands to a producer, with the headers and settings of Breakwater's dead letters, and does not wait for the answer.
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
	dead, err := openLetters(h, kafka.ConfigMap{"acks": "all", "compression.type": "lz4", "linger.ms": 20, "go.delivery.report.fields": "none"})
	if err != nil {
		return err
	}
	defer dead.close()
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
			if err := h.Handle(ctx, record(e, 1)); err != nil && contend.IsPermanent(err) {
				_ = dead.producer.Produce(likeOurs(h, e, err), nil)
			}
			done[e.TopicPartition.Partition] = e.TopicPartition
		case *kafka.Stats:
			h.Statistics(e.String())
		case nil:
			n = -1 // nothing to do: store
		}
	}
	dead.producer.Flush(int(leaving.Milliseconds()))
	store(c)
	return c.Close()
}

const leaving = 10 * time.Second

// likeOurs is the dead letter that Breakwater would write.
func likeOurs(h *contend.Host, m *kafka.Message, why error) *kafka.Message {
	now := time.Now()
	l := dlq.Letter{Record: m, GroupID: h.Group, Attempts: 1, Kind: dlq.Permanent, ErrorClass: "permanent", ErrorMessage: why.Error(), FirstErrorMessage: why.Error(),
		FirstFailedAt: now, FailedAt: now, Instance: h.Instance}
	return &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &h.DLQ, Partition: m.TopicPartition.Partition}, Key: m.Key, Value: m.Value,
		Headers: l.Headers(nil, 4096), Timestamp: m.Timestamp}
}
