package dlq

import "github.com/confluentinc/confluent-kafka-go/v2/kafka"

// Config says where dead letters go and how. The zero value is ready: one existing topic "<source>.dlq" for each source.
type Config struct {
	// Topic takes the dead letters of all sources. Default "": "<source>.dlq".
	Topic string
	// Create a missing topic at start. Default false: a missing topic is an error of Check, as it is on most clusters somebody
	// else's to create.
	Create bool
	// Partitions and ReplicationFactor of a topic that is created. Default 0: as many partitions as the source has, the
	// broker's default replication factor.
	Partitions, ReplicationFactor int
	// TopicConfig of a topic that is created, over "cleanup.policy=delete", "retention.ms=-1" and a max.message.bytes
	// above the source's. Retention is off, since a dead letter keeps its record's timestamp, and time-based retention counts from that.
	TopicConfig map[string]string
	// Kafka holds producer settings over those that are derived from the consumer's map.
	Kafka *kafka.ConfigMap
	// Redact is given every error text before it is written, and answers what may be written. It is called from several
	// goroutines. Default nil: texts are written as they are.
	Redact func(text string) string
	// TextLimit cuts each error text, in bytes of UTF-8. Default 0: 8192.
	TextLimit int
}

// Validate reports every mistake at once.
func (c Config) Validate() error { return nil }

// TopicFor is the DLQ of a source topic.
func (c Config) TopicFor(source string) string {
	if c.Topic != "" {
		return c.Topic
	}
	return source + ".dlq"
}
