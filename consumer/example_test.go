package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/strategy"
)

// A dependency that is away for a moment: the record waits, and is tried again. An embedded broker stands in for Kafka.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders", "orders.dlq"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer broker.Close()
	servers := strings.Join(broker.ListenAddrs(), ",")
	produce(servers, "orders", "order 42", "order 43")

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := consumer.New(consumer.Config{
		Kafka:    &kafka.ConfigMap{"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"},
		Topics:   []string{"orders"},
		Strategy: strategy.MustParse(`[0.2, 1, 5]`),
		Handler: func(ctx context.Context, record *kafka.Message) error {
			attempt := consumer.AttemptFrom(ctx)
			fmt.Printf("%s, attempt %d, last error %q\n", record.Value, attempt.Number, attempt.LastError)
			if attempt.Number == 1 && string(record.Value) == "order 42" {
				return errors.New("payment provider: connection refused")
			}
			if string(record.Value) == "order 43" {
				stop() // the record in hand is finished, and committed
			}
			return nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("Run:", c.Run(ctx))
	// Output:
	// order 42, attempt 1, last error ""
	// order 42, attempt 2, last error "payment provider: connection refused"
	// order 43, attempt 1, last error ""
	// Run: <nil>
}

// Everything set that a service sets: the strategy follows its file, attempts survive a restart, dead letters hold no card numbers, and
// SIGTERM ends it cleanly.
func ExampleNew() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	logger, _ := zap.NewProduction()

	strat, err := strategy.Watch(ctx, "strategy.json")
	if err != nil {
		logger.Fatal("no strategy", zap.Error(err))
	}
	c, err := consumer.New(consumer.Config{
		Kafka:          &kafka.ConfigMap{"bootstrap.servers": "broker:9092", "group.id": "billing"},
		Topics:         []string{"orders"},
		Handler:        charge,
		Strategy:       strat,
		Attempts:       attempts.Redis(redis.NewClient(&redis.Options{Addr: "redis:6379"}), attempts.RedisConfig{}),
		DLQ:            dlq.Config{Topic: "orders.dlq", Redact: maskCardNumbers},
		HandlerTimeout: 10 * time.Second,
		Logger:         logger,
	})
	if err != nil {
		logger.Fatal("no consumer", zap.Error(err))
	}
	if err := c.Run(ctx); err != nil {
		logger.Fatal("the consumer has ended", zap.Error(err))
	}
}

// A client that exists stays: prepare its map, make it as before, and wrap it. A tracing wrapper with the same methods fits too.
func ExampleWrap() {
	km := kafka.ConfigMap{"bootstrap.servers": "broker:9092", "group.id": "billing", "partition.assignment.strategy": "cooperative-sticky"}
	if err := consumer.Prepare(&km); err != nil {
		fmt.Println(err)
		return
	}
	kc, err := kafka.NewConsumer(&km)
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := consumer.Wrap(kc, consumer.Config{
		Kafka:    &km,
		Topics:   []string{"orders"},
		Handler:  charge,
		Strategy: strategy.MustParse(`{"intervals": [1, 4, 16, {"wait": "1m", "times": 10}], "dlqBudget": 20}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Run(context.Background())) // closes kc at its end
}

// What is set against a law is refused, with the reason and the cure; the rest is left as it is.
func ExamplePrepare() {
	km := kafka.ConfigMap{"bootstrap.servers": "broker:9092", "group.id": "billing"}
	fmt.Println(consumer.Prepare(&km), km["enable.auto.offset.store"])

	km["enable.auto.offset.store"] = true
	fmt.Println(consumer.Prepare(&km))
	// Output:
	// <nil> false
	// consumer: enable.auto.offset.store=true: offsets would be stored for records that are not done, and lost at a crash: leave it out, or set false
}

// A handler can be gentler with a record that has failed before.
func ExampleAttemptFrom() {
	handler := func(ctx context.Context, record *kafka.Message) error {
		if a := consumer.AttemptFrom(ctx); a.Number > 1 {
			fmt.Printf("attempt %d, failing for %v: %s\n", a.Number, time.Since(a.FirstFailedAt), a.LastError)
		}
		return charge(ctx, record)
	}
	_ = handler // goes into consumer.Config
	fmt.Println(consumer.AttemptFrom(context.Background()).Number)
	// Output: 1
}

// charge tells what waiting can cure from what it can't.
func charge(ctx context.Context, record *kafka.Message) error {
	if len(record.Value) == 0 {
		return failure.Permanent(errors.New("an order without a body"))
	}
	return nil
}

func maskCardNumbers(text string) string { return text }

func produce(servers, topic string, values ...string) {
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": servers})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	for _, value := range values {
		delivered := make(chan kafka.Event, 1)
		if err := p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: 0}, Value: []byte(value)}, delivered); err != nil {
			fmt.Println(err)
			return
		}
		<-delivered
	}
}
