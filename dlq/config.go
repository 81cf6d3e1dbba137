package dlq

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/internal/topicname"
)

// Config says where dead letters go and how. The zero value is ready: for each source an existing topic "<source>.dlq".
type Config struct {
	// Topic takes the dead letters of all sources. Default "": each source has its own, "<source>.dlq".
	Topic string
	// Create makes a missing topic at start. Default false: a missing topic is an error of Check, since on most clusters
	// topics are made by somebody else.
	Create bool
	// Partitions and ReplicationFactor of a topic that is created. Default 0: as many partitions as the source has, and the
	// broker's default replication factor.
	Partitions, ReplicationFactor int
	// TopicConfig of a topic that is created, over cleanup.policy=delete, retention.ms=-1, a max.message.bytes with room for the
	// headers of a record of the source's greatest size, and no limit to a record's age. Time-based retention is off by
	// default because it counts from the record's timestamp, which a dead letter keeps: a week would delete a record of last
	// month at once.
	TopicConfig map[string]string
	// Kafka holds producer settings over those that are made from the consumer's: another cluster, say, or a
	// "message.timeout.ms". What a dead letter's safety rests on (acks, idempotence) can't be set.
	Kafka *kafka.ConfigMap
	// Redact is given every error text, whole, before it is written, and answers what may be written: the place to mask
	// card numbers. It is called by whoever calls Write. Default nil: texts are written as they are.
	Redact func(text string) string
	// OnEvent is given what the producer says and no letter hears of: kafka.Error, kafka.OAuthBearerTokenRefresh (to be answered
	// with SetOAuthBearerToken), statistics. It is called from the producer's goroutine and must not block. Default nil.
	OnEvent func(kafka.Event)
	// TextLimit is where each error text is cut, in bytes of UTF-8. Default 0: 8192.
	TextLimit int
}

const defaultTextLimit = 8192

// forbidden are the producer settings that a user can't have over ours, and why.
var forbidden = map[string]string{
	"acks":                       "a dead letter counts once all in-sync replicas have it",
	"request.required.acks":      "a dead letter counts once all in-sync replicas have it",
	"enable.idempotence":         "without it a retry may write a dead letter twice",
	"transactional.id":           "dead letters are not written in transactions",
	"delivery.report.only.error": "the acknowledgement of each letter is needed",
	"log.queue":                  "the client's log goes to the logger",
}

// Validate reports every mistake at once.
func (c Config) Validate() error {
	var errs []error
	if c.Topic != "" {
		if err := topicname.Check(c.Topic); err != nil {
			errs = append(errs, fmt.Errorf("dlq: Topic: %w", err))
		}
	}
	if c.Partitions < 0 {
		errs = append(errs, fmt.Errorf("dlq: Partitions is %d; leave it 0 for as many as the source has", c.Partitions))
	}
	if c.ReplicationFactor < 0 {
		errs = append(errs, fmt.Errorf("dlq: ReplicationFactor is %d; leave it 0 for the broker's default", c.ReplicationFactor))
	}
	if !c.Create && (c.Partitions != 0 || c.ReplicationFactor != 0 || len(c.TopicConfig) != 0) {
		errs = append(errs, errors.New("dlq: Partitions, ReplicationFactor and TopicConfig are for a topic that is created; set Create, or leave them"))
	}
	if strings.Contains(c.TopicConfig["cleanup.policy"], "compact") {
		errs = append(errs, errors.New("dlq: a compacted topic forgets dead letters; leave cleanup.policy out of TopicConfig"))
	}
	if c.TextLimit < 0 {
		errs = append(errs, fmt.Errorf("dlq: TextLimit is %d bytes; leave it 0 for %d", c.TextLimit, defaultTextLimit))
	}
	if c.Kafka != nil {
		for _, key := range sortedKeys(*c.Kafka) {
			if why, found := forbidden[key]; found {
				errs = append(errs, fmt.Errorf("dlq: Kafka can't set %s: %s", key, why))
			} else if strings.HasPrefix(key, "go.") {
				errs = append(errs, fmt.Errorf("dlq: Kafka can't set %s: how the client is driven from Go is ours to choose", key))
			}
		}
	}
	return errors.Join(errs...)
}

func sortedKeys(m kafka.ConfigMap) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// TopicFor is the DLQ of a source topic.
func (c Config) TopicFor(source string) string {
	if c.Topic != "" {
		return c.Topic
	}
	return source + ".dlq"
}

func (c Config) textLimit() int {
	if c.TextLimit == 0 {
		return defaultTextLimit
	}
	return c.TextLimit
}
