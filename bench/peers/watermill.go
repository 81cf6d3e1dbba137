package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/sony/gobreaker"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/strategy"
)

// watermillRouter is Watermill as its documentation puts it together: the poison queue around Retry around CircuitBreaker around the handler, and
// one more poison queue inside Retry, so that a record that waiting can't cure is not tried again.
//
// Retry knows exponential intervals only: the strategies of the bench are made of the first, the factor to the second, and the longest. Its
// ShouldRetry is not used, since in v1.5.1 asking it skips an interval.
func watermillRouter(ctx context.Context, h *contend.Host) error {
	log := watermill.NopLogger{}
	brokers := strings.Split(h.Brokers, ",")
	in, out := kafka.DefaultSaramaSubscriberConfig(), kafka.DefaultSaramaSyncPublisherConfig()
	in.Version, out.Version = sarama.V2_1_0_0, sarama.V2_1_0_0
	in.Consumer.Offsets.Initial = sarama.OffsetOldest
	out.Producer.Partitioner = sarama.NewManualPartitioner
	if h.MaxPoll > 0 {
		in.Consumer.Group.Session.Timeout = min(h.MaxPoll, 6*time.Second)
		in.Consumer.Group.Heartbeat.Interval = 2 * time.Second
		in.Consumer.Group.Rebalance.Timeout = h.MaxPoll
	}
	sub, err := kafka.NewSubscriber(kafka.SubscriberConfig{Brokers: brokers, Unmarshaler: kafka.DefaultMarshaler{}, ConsumerGroup: h.Group,
		OverwriteSaramaConfig: in}, log)
	if err != nil {
		return err
	}
	pub, err := kafka.NewPublisher(kafka.PublisherConfig{Brokers: brokers, Marshaler: keep{}, OverwriteSaramaConfig: out}, log)
	if err != nil {
		return err
	}
	defer pub.Close()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: 10 * time.Second}, log)
	if err != nil {
		return err
	}
	retry, err := retry(h.Strategy)
	if err != nil {
		return err
	}
	exhausted, err := middleware.PoisonQueue(pub, h.DLQ)
	if err != nil {
		return err
	}
	permanent, err := middleware.PoisonQueueWithFilter(pub, h.DLQ, contend.IsPermanent)
	if err != nil {
		return err
	}
	breaker := middleware.NewCircuitBreaker(gobreaker.Settings{
		Timeout:      retry.InitialInterval,
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= 1 },
		IsSuccessful: func(err error) bool { return err == nil || contend.IsPermanent(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			h.State(map[gobreaker.State]string{gobreaker.StateClosed: contend.Closed, gobreaker.StateHalfOpen: contend.HalfOpen, gobreaker.StateOpen: contend.Open}[to])
		},
	})
	router.AddMiddleware(exhausted, retry.Middleware, permanent, breaker.Middleware)
	router.AddConsumerHandler("bench", h.Topic, sub, func(m *message.Message) error {
		p, _ := kafka.MessagePartitionFromCtx(m.Context())
		offset, _ := kafka.MessagePartitionOffsetFromCtx(m.Context())
		return h.Handle(m.Context(), contend.Record{Topic: h.Topic, Partition: p, Offset: offset, Value: m.Payload})
	})
	if err := router.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func retry(text string) (r middleware.Retry, err error) {
	s, err := strategy.Parse("strategy.json", []byte(text))
	if err != nil {
		return r, err
	}
	second, more := s.Wait(2)
	if !more {
		second = s.First()
	}
	return middleware.Retry{MaxRetries: s.Intervals(), InitialInterval: s.First(), MaxInterval: s.Last(),
		Multiplier: float64(second) / float64(s.First())}, nil
}

// keep writes dead letters with the record's own key, timestamp and partition, which Watermill's own marshaler drops.
type keep struct{ kafka.DefaultMarshaler }

func (k keep) Marshal(topic string, m *message.Message) (*sarama.ProducerMessage, error) {
	out, err := k.DefaultMarshaler.Marshal(topic, m)
	if err != nil {
		return nil, err
	}
	if key, ok := kafka.MessageKeyFromCtx(m.Context()); ok && key != nil {
		out.Key = sarama.ByteEncoder(key)
	}
	if at, ok := kafka.MessageTimestampFromCtx(m.Context()); ok {
		out.Timestamp = at
	}
	out.Partition, _ = kafka.MessagePartitionFromCtx(m.Context())
	return out, nil
}
