package dlq_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/breakwater-go/breakwater/dlq"
)

// A dead letter is written, and its acknowledgement awaited, without blocking whoever has more to write.
func Example() {
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "orders"))
	if err != nil {
		panic(err)
	}
	defer broker.Close()
	consumer := &kafka.ConfigMap{"bootstrap.servers": broker.ListenAddrs()[0], "group.id": "billing"}

	w, err := dlq.NewWriter(dlq.Config{Create: true}, consumer, nil)
	if err != nil {
		panic(err)
	}
	if err := w.Check(context.Background(), []string{"orders"}); err != nil {
		panic(err)
	}
	orders := "orders"
	written := make(chan error, 1)
	w.Write(dlq.Letter{
		Record:  &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &orders, Partition: 2, Offset: 41}, Value: []byte("{")},
		GroupID: "billing", Attempts: 1, Kind: dlq.Permanent, ErrorMessage: "unexpected end of JSON input",
	}, func(err error) { written <- err })
	fmt.Println("written:", <-written)
	fmt.Println("closed:", w.Close(context.Background()))
	// Output:
	// written: <nil>
	// closed: <nil>
}

func ExampleRead() {
	orders := "orders"
	letter := dlq.Letter{
		Record: &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &orders, Partition: 2, Offset: 41},
			Headers:        []kafka.Header{{Key: "traceparent", Value: []byte("00-…")}},
		},
		GroupID: "billing", Attempts: 14, Kind: dlq.Exhausted, ErrorMessage: "i/o timeout", FailedAt: time.Unix(0, 0),
	}
	headers := letter.Headers(nil, 8192)
	for _, h := range headers[:3] {
		fmt.Printf("%s=%s\n", h.Key, h.Value)
	}
	info, err := dlq.Read(headers)
	fmt.Println(info.Topic, info.Partition, info.Offset, info.Kind, err)
	fmt.Println(info.Reason)

	_, err = dlq.Read(nil)
	fmt.Println(errors.Is(err, dlq.ErrNotDeadLetter))
	// Output:
	// traceparent=00-…
	// BREAKWATER=1; headers=11
	// GROUP_ID=billing
	// orders 2 41 exhausted <nil>
	// still failing after 14 attempts, and the strategy has no interval left: i/o timeout
	// true
}
