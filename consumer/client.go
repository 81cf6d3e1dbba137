package consumer

import "github.com/confluentinc/confluent-kafka-go/v2/kafka"

// Client is what the loop needs of a *kafka.Consumer. A wrapper with the same methods, for tracing say, fits too.
//
// Only the poll goroutine calls Poll and what changes the client: the assignment, pauses, seeks, stored offsets (law 2).
// What may block without a bound (Commit, Committed, OffsetsForTimes) is called from other goroutines, which
// librdkafka permits.
type Client interface {
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

var _ Client = (*kafka.Consumer)(nil)
