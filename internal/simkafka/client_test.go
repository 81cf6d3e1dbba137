package simkafka_test

import (
	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// client is the loop's own interface (consumer.Client), written down again so that these tests do not wait for the loop.
type client interface {
	SubscribeTopics(topics []string, cb kafka.RebalanceCb) error
	Subscription() ([]string, error)
	Poll(timeoutMs int) kafka.Event
	Events() chan kafka.Event
	Logs() chan kafka.LogEvent

	GetRebalanceProtocol() string
	AssignmentLost() bool
	Assignment() ([]kafka.TopicPartition, error)
	Assign(partitions []kafka.TopicPartition) error
	Unassign() error
	IncrementalAssign(partitions []kafka.TopicPartition) error
	IncrementalUnassign(partitions []kafka.TopicPartition) error

	Pause(partitions []kafka.TopicPartition) error
	Resume(partitions []kafka.TopicPartition) error
	SeekPartitions(partitions []kafka.TopicPartition) ([]kafka.TopicPartition, error)
	Position(partitions []kafka.TopicPartition) ([]kafka.TopicPartition, error)

	StoreOffsets(offsets []kafka.TopicPartition) ([]kafka.TopicPartition, error)
	Commit() ([]kafka.TopicPartition, error)
	Committed(partitions []kafka.TopicPartition, timeoutMs int) ([]kafka.TopicPartition, error)
	OffsetsForTimes(times []kafka.TopicPartition, timeoutMs int) ([]kafka.TopicPartition, error)

	SetOAuthBearerToken(token kafka.OAuthBearerToken) error
	SetOAuthBearerTokenFailure(errstr string) error
	Close() error
}

var (
	_ client = (*kafka.Consumer)(nil)
	_ client = (*simkafka.Client)(nil)
)
