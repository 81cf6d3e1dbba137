package simkafka_test

import (
	"fmt"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Tests run it inside synctest.Test, where the second of the pause takes no time.
func Example() {
	cluster := simkafka.NewCluster(1)
	defer cluster.Stop()
	cluster.CreateTopic("orders", 1)
	cluster.Produce("orders", 0, []byte("4711"), []byte("two chairs"), nil, time.Time{})

	client := cluster.NewClient(simkafka.Options{Group: "billing", AutoOffsetReset: "earliest"})
	if err := client.SubscribeTopics([]string{"orders"}, nil); err != nil {
		fmt.Println(err)
	}
	for {
		if m, ok := client.Poll(100).(*kafka.Message); ok {
			fmt.Printf("%s: %s\n", m.TopicPartition, m.Value)
			break
		}
	}
	fmt.Println(client.Close())
	// Output:
	// orders[0]@0: two chairs
	// <nil>
}
