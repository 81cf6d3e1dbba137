package servers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// produce writes values with acks=all and waits for the brokers' word.
func produce(t *testing.T, bootstrap, topic string, values ...string) {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
	Must(t, err)
	defer p.Close()
	for _, v := range values {
		acked := make(chan kafka.Event, 1)
		Must(t, p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}, Value: []byte(v)}, acked))
		if m := (<-acked).(*kafka.Message); m.TopicPartition.Error != nil {
			t.Fatalf("produce %q: %v", v, m.TopicPartition.Error)
		}
	}
}

// consume reads n values as a member of a group, commits, and returns them.
func consume(t *testing.T, bootstrap, topic, group string, n int) []string {
	t.Helper()
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": false, "log_level": 0})
	Must(t, err)
	defer func() { Must(t, c.Close()) }()
	Must(t, c.Subscribe(topic, nil))
	var values []string
	eventually(t, fmt.Sprintf("%d records consumed", n), func() bool {
		if m, ok := c.Poll(100).(*kafka.Message); ok {
			values = append(values, string(m.Value))
		}
		return len(values) == n
	})
	if _, err := c.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
	return values
}

func TestOneBroker(t *testing.T) {
	k := SharedKafka(t)
	if again := SharedKafka(t); again != k {
		t.Error("the second call started a second broker")
	}
	Must(t, k.CreateTopic("one", 3, 1, map[string]string{"retention.ms": "3600000"}))
	if err := k.CreateTopic("one", 3, 1, nil); err == nil || !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
		t.Errorf("the same topic once more: %v", err)
	}
	produce(t, k.Bootstrap(), "one", "a", "b", "c")
	if got := consume(t, k.Bootstrap(), "one", "one", 3); len(got) != 3 {
		t.Errorf("consumed %q", got)
	}
}

func TestThreeBrokersLoseALeaderAndGetItBack(t *testing.T) {
	k := StartKafka(t, 3)
	Must(t, k.CreateTopic("orders", 1, 3, nil))
	produce(t, k.Bootstrap(), "orders", "1")

	leader, err := k.Leader(t.Context(), "orders", 0)
	Must(t, err)
	Must(t, leader.Kill())
	produce(t, k.Bootstrap(), "orders", "2")
	Must(t, k.Ready(t.Context()))
	if next, err := k.Leader(t.Context(), "orders", 0); err != nil || next == leader {
		t.Errorf("leader after the kill: %v, %v", next, err)
	}
	Must(t, leader.Restart())
	produce(t, k.Bootstrap(), "orders", "3")

	// what came back can do without another one
	coordinator, err := k.Coordinator(t.Context(), "billing")
	Must(t, err)
	Must(t, coordinator.Stop())
	if got := consume(t, k.Bootstrap(), "orders", "billing", 3); strings.Join(got, " ") != "1 2 3" {
		t.Errorf("consumed %q", got)
	}
	Must(t, coordinator.Cont())
	Must(t, k.Ready(t.Context()))
}

func TestABrokerBehindAProxy(t *testing.T) {
	k := StartKafkaWith(t, KafkaConfig{Proxied: true, Settings: map[string]string{"message.max.bytes": "2000"}})
	Must(t, k.CreateTopic("orders", 1, 1, nil))
	produce(t, k.Bootstrap(), "orders", "1")

	k.Brokers()[0].Proxy().Cut()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": k.Bootstrap(), "message.timeout.ms": 500, "log_level": 0})
	Must(t, err)
	defer p.Close()
	topic, acked := "orders", make(chan kafka.Event, 1)
	Must(t, p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic}, Value: []byte("cut")}, acked))
	if m := (<-acked).(*kafka.Message); m.TopicPartition.Error == nil {
		t.Error("a client got through a cut proxy")
	}
	produce(t, k.Direct(), "orders", "2")

	Must(t, k.Brokers()[0].Proxy().Restore())
	if got := consume(t, k.Bootstrap(), "orders", "billing", 2); strings.Join(got, " ") != "1 2" {
		t.Errorf("consumed %q", got)
	}
	Must(t, p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic}, Value: make([]byte, 3000)}, acked))
	if m := (<-acked).(*kafka.Message); m.TopicPartition.Error == nil {
		t.Error("Settings were not taken")
	}
}

func TestABrokerThatCannotStartSaysWhy(t *testing.T) {
	Real(t)
	k, err := NewKafka(t.Context(), KafkaConfig{Settings: map[string]string{"num.io.threads": "none"}})
	if err == nil {
		Must(t, k.Close())
		t.Fatal("started with a setting that is no number")
	}
	if !strings.Contains(err.Error(), "num.io.threads") {
		t.Errorf("the error does not name the setting: %v", err)
	}
}
