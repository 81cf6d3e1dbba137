package dlq

import (
	"maps"
	"strings"
	"testing"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func TestZeroConfigIsReady(t *testing.T) {
	var c Config
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.TopicFor("orders") != "orders.dlq" || (Config{Topic: "dead"}).TopicFor("orders") != "dead" {
		t.Error("wrong topic")
	}
}

func TestValidateReportsEveryMistakeAtOnce(t *testing.T) {
	err := Config{
		Topic: "no/slash", Partitions: -1, ReplicationFactor: -2, TextLimit: -3,
		TopicConfig: map[string]string{"cleanup.policy": "compact,delete"},
		Kafka:       &kafka.ConfigMap{"acks": 1, "enable.idempotence": false, "go.events.channel.size": 1, "transactional.id": "x", "linger.ms": 1, "sasl.password": "hunter2"},
	}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, word := range []string{"no/slash", "Partitions is -1", "ReplicationFactor is -2", "set Create", "compacted", "TextLimit is -3 bytes",
		"acks", "enable.idempotence", "go.events.channel.size", "transactional.id"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is missing in %v", word, err)
		}
	}
	for _, word := range []string{"linger.ms", "hunter2", "sasl"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%q is in %v", word, err)
		}
	}
	if _, err := NewWriter(Config{TextLimit: -3}, nil, nil); err == nil {
		t.Error("NewWriter takes what Validate refuses")
	}
}

func TestProducerReachesTheClusterAsTheConsumerDoes(t *testing.T) {
	consumer := kafka.ConfigMap{
		"metadata.broker.list": "a:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p",
		"ssl.ca.location": "ca.pem", "socket.keepalive.enable": true, "client.id": "billing",
		"group.id": "g", "group.instance.id": "i", "session.timeout.ms": 6000, "max.poll.interval.ms": "6000", "enable.auto.commit": false,
		"auto.offset.reset": "earliest", "go.application.rebalance.enable": true, "go.logs.channel": make(chan kafka.LogEvent),
		"statistics.interval.ms": 1000, "default.topic.config": kafka.ConfigMap{"auto.offset.reset": "earliest"},
	}
	before := maps.Clone(consumer)
	own := kafka.ConfigMap{"bootstrap.servers": "b:2", "queue.buffering.max.ms": 50, "partitioner": "murmur2_random"}
	got := settings(Config{Kafka: &own}, &consumer)
	want := kafka.ConfigMap{
		"bootstrap.servers": "b:2", "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": "u", "sasl.password": "p",
		"ssl.ca.location": "ca.pem", "socket.keepalive.enable": true, "client.id": "billing-dlq",
		"linger.ms": 50, "partitioner": "murmur2_random", "compression.type": "lz4", "message.max.bytes": 1_000_000_000,
		"message.timeout.ms": 2000, "topic.metadata.propagation.max.ms": 2000,
		"acks": "all", "enable.idempotence": true,
		"go.logs.channel.enable": true, "go.delivery.report.fields": "none", "go.events.channel.size": 1024, "go.produce.channel.size": 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if len(consumer) != len(before) || len(own) != 3 {
		t.Error("a map was changed")
	}
	if got := settings(Config{}, nil)["message.timeout.ms"]; got != 30_000 {
		t.Errorf("by default a letter is given up after %v ms", got)
	}
}

// librdkafka says of each setting that means nothing to a producer that it is ignored; none of those that a consumer may hold is left.
func TestClientFindsNothingToComplainAboutInItsSettings(t *testing.T) {
	consumer := kafka.ConfigMap{"bootstrap.servers": "127.0.0.1:1", "log_level": 4}
	for _, key := range consumerOnly {
		consumer[key] = "1"
	}
	consumer["{topic}.auto.offset.reset"] = "earliest"
	s := settings(Config{}, &consumer)
	p, err := kafka.NewProducer(&s)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for line := range p.Logs() {
		if strings.Contains(line.Tag, "CONFWARN") {
			t.Error(line)
		}
	}
}

func TestASettingThatTheClientRefusesIsNamed(t *testing.T) {
	_, err := NewWriter(Config{Kafka: &kafka.ConfigMap{"lingerie.ms": 5, "sasl.password": "hunter2"}}, &kafka.ConfigMap{"sasl.username": "u"}, nil)
	if err == nil || !strings.Contains(err.Error(), "lingerie.ms") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}
