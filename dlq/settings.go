package dlq

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// The producer reaches the cluster as the consumer does: what the consumer's map says of brokers, security and the network holds for
// it too, and what is about consuming is left behind. Then come our defaults, then the user's own, then what must be.

// consumerOnly are librdkafka's settings that mean something to a consumer alone, as its CONFIGURATION.md marks them, and
// those that would make the producer say on its own what nobody listens to.
var consumerOnly = []string{
	"group.id", "group.instance.id", "group.protocol", "group.protocol.type", "group.remote.assignor",
	"partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms", "coordinator.query.interval.ms",
	"max.poll.interval.ms", "enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms",
	"enable.auto.offset.store", "auto.offset.reset", "offset.store.method", "offset.store.path",
	"offset.store.sync.interval.ms", "consume.callback.max.messages", "enable.partition.eof", "check.crcs",
	"isolation.level", "allow.auto.create.topics", "queued.min.messages", "queued.max.messages.kbytes",
	"fetch.wait.max.ms", "fetch.queue.backoff.ms", "fetch.message.max.bytes", "max.partition.fetch.bytes",
	"fetch.max.bytes", "fetch.min.bytes", "fetch.error.backoff.ms", "default.topic.config",
	"statistics.interval.ms", "log.queue",
}

// aliases are settings with two names, of which a map must not hold both.
var aliases = map[string]string{
	"metadata.broker.list":     "bootstrap.servers",
	"sasl.mechanism":           "sasl.mechanisms",
	"queue.buffering.max.ms":   "linger.ms",
	"compression.codec":        "compression.type",
	"delivery.timeout.ms":      "message.timeout.ms",
	"message.send.max.retries": "retries",
}

func canonical(key string) string {
	if other, found := aliases[key]; found {
		return other
	}
	return key
}

const (
	defaultMaxPoll        = 300_000 // ms; librdkafka's max.poll.interval.ms
	defaultMessageTimeout = 30_000  // ms
)

// settings is the producer's map. It shares nothing with the maps that it is made from.
func settings(cfg Config, consumer *kafka.ConfigMap) kafka.ConfigMap {
	s := kafka.ConfigMap{}
	clientID, maxPoll := "breakwater", defaultMaxPoll
	if consumer != nil {
		for key, value := range *consumer {
			s[canonical(key)] = value
		}
		if n, err := strconv.Atoi(fmt.Sprint(s["max.poll.interval.ms"])); err == nil {
			maxPoll = n
		}
		if id, found := s["client.id"]; found {
			clientID = fmt.Sprint(id)
		}
	}
	maps.DeleteFunc(s, func(key string, _ kafka.ConfigValue) bool {
		return strings.HasPrefix(key, "go.") || strings.HasPrefix(key, "{topic}.") || slices.Contains(consumerOnly, key)
	})

	s["client.id"] = clientID + "-dlq"
	// Records that came compressed should fit again, and the headers of a flood of letters are much alike.
	s["compression.type"] = "lz4"
	// In a flood the broker pays for each batch. Nobody waits for a dead letter by the millisecond.
	s["linger.ms"] = 20
	// What is too large is for the broker to say; the default is 1 MB, below the broker's own.
	s["message.max.bytes"] = 1_000_000_000
	// A letter that is given up comes back and is written again, so it need not be waited for long; a drain is over sooner.
	s["message.timeout.ms"] = min(defaultMessageTimeout, maxPoll/3)
	// How long a topic may be missing before its letters are told so.
	s["topic.metadata.propagation.max.ms"] = min(5000, maxPoll/3)
	if cfg.Kafka != nil {
		for key, value := range *cfg.Kafka {
			s[canonical(key)] = value
		}
	}

	s["acks"] = "all"
	s["enable.idempotence"] = true
	s["go.logs.channel.enable"] = true
	s["go.delivery.report.fields"] = "none"
	s["go.events.channel.size"] = 1024
	s["go.produce.channel.size"] = 1
	return s
}
