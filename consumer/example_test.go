package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/strategy"
)

func Example() {
	ctx := context.Background()
	strat, err := strategy.Watch(ctx, "strategy.json")
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.New(consumer.Config{
		Kafka:  &kafka.ConfigMap{"bootstrap.servers": "localhost:9092", "group.id": "billing"},
		Topics: []string{"orders"},
		Handler: func(ctx context.Context, record *kafka.Message) error {
			if len(record.Value) == 0 {
				return failure.Permanent(errors.New("an order without a body"))
			}
			return nil // charge it
		},
		Strategy: strat,
		Attempts: attempts.Redis(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), attempts.RedisConfig{}),
		Logger:   zap.Must(zap.NewProduction()),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

func ExampleWrap() {
	m := &kafka.ConfigMap{"bootstrap.servers": "localhost:9092", "group.id": "billing"}
	if err := consumer.Prepare(m); err != nil { // sets what was left open, refuses what was set against a law
		log.Fatal(err)
	}
	client, err := kafka.NewConsumer(m) // as ever; or a tracing wrapper around it
	if err != nil {
		log.Fatal(err)
	}
	c, err := consumer.Wrap(client, consumer.Config{
		Kafka:    m,
		Topics:   []string{"orders"},
		Handler:  func(context.Context, *kafka.Message) error { return nil },
		Strategy: strategy.MustParse(`[1, 4, 16]`),
	})
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background()))
}

func ExamplePrepare() {
	m := &kafka.ConfigMap{"group.id": "billing", "enable.auto.offset.store": true}
	fmt.Println(consumer.Prepare(m))
	// Output:
	// consumer: enable.auto.offset.store=true: offsets would be stored for records that are not done, and lost at a crash: leave it out, or set false
}

func ExampleAttemptFrom() {
	handler := func(ctx context.Context, record *kafka.Message) error {
		if a := consumer.AttemptFrom(ctx); a.Number > 1 {
			fmt.Println("again, after", a.LastError)
		} else {
			fmt.Println("the first time")
		}
		return nil
	}
	_ = handler(context.Background(), &kafka.Message{})
	// Output: the first time
}
