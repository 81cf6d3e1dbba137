package contenders

import (
	"context"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// breakwater is the library as a user sets it up.
func breakwater(ctx context.Context, h *contend.Host) error {
	m, err := settings(&h.Job, false)
	if err != nil {
		return err
	}
	s, err := strategy.Parse("strategy.json", []byte(h.Strategy))
	if err != nil {
		return err
	}
	cfg := consumer.Config{
		Kafka: m, Topics: []string{h.Topic}, Strategy: s, DLQ: dlq.Config{Topic: h.DLQ}, Instance: h.Instance,
		Handler: func(ctx context.Context, m *kafka.Message) error {
			attempt := 1
			if h.Stub != "" {
				attempt = consumer.AttemptFrom(ctx).Number
			}
			return h.Handle(ctx, record(m, attempt))
		},
		OnEvent: func(e kafka.Event) {
			if s, ok := e.(*kafka.Stats); ok {
				h.Statistics(s.String())
			}
		},
		Observers: []observe.Observer{observe.Func(func(e observe.Event) {
			switch e.Kind {
			case observe.Tripped, observe.ProbeFailed:
				h.State(contend.Open)
			case observe.Probing:
				h.State(contend.HalfOpen)
			case observe.Closed:
				h.State(contend.Closed)
			}
		})},
	}
	if h.Redis != "" {
		logging.Disable()
		client := redis.NewClient(&redis.Options{Addr: h.Redis})
		defer client.Close()
		cfg.Attempts = attempts.Redis(client, attempts.RedisConfig{})
	}
	// The DLQ's producer is made of the consumer's map and would tell statistics as well: they are not what was consumed.
	cfg.DLQ.OnEvent = func(kafka.Event) {}
	c, err := consumer.New(cfg)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
