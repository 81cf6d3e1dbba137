package consumer

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// prepared is what Prepare sets where it was left open, and why.
var prepared = []struct {
	key   string
	value kafka.ConfigValue
}{
	// A record is stored when it is done, not when it is delivered (law 1).
	{"enable.auto.offset.store", false},
	// The default of 1000 leaves the client idle most of the time on small records: 130 k records/s against 425 k.
	{"fetch.queue.backoff.ms", 10},
	// The prefetch is for each partition, and a pause throws it away. The default of 64 MiB would be fetched again after each wait.
	{"queued.min.messages", 20_000},
	{"queued.max.messages.kbytes", 4096},
	// librdkafka writes to stderr by itself, many lines a second while a broker is away.
	{"go.logs.channel.enable", true},
}

// forbidden is what no law survives.
var forbidden = []struct{ key, value, why string }{
	{"enable.auto.offset.store", "true", "offsets would be stored for records that are not done, and lost at a crash: leave it out, or set false"},
	{"go.events.channel.enable", "true", "the events channel hands out records of partitions that are paused or gone: leave it out; Run polls"},
}

// Prepare sets in a kafka.ConfigMap what the consumer needs and what was left open, and refuses what was set against a law, with the reason and the cure. The
// assignor and the group protocol are the group's and never touched; enable.auto.commit may be either. Make the client from the map after it.
func Prepare(m *kafka.ConfigMap) error {
	if m == nil {
		return errors.New("consumer: no kafka.ConfigMap to prepare")
	}
	if err := refuse(m); err != nil {
		return err
	}
	for _, p := range prepared {
		if _, set := (*m)[p.key]; !set {
			(*m)[p.key] = p.value
		}
	}
	return nil
}

func refuse(m *kafka.ConfigMap) error {
	var errs []error
	for _, f := range forbidden {
		if setting(m, f.key, "") == f.value {
			errs = append(errs, fmt.Errorf("consumer: %s=%s: %s", f.key, f.value, f.why))
		}
	}
	return errors.Join(errs...)
}

// setting reads one value of a map as text. librdkafka takes any type for any key, and so do we.
func setting(m *kafka.ConfigMap, key, def string) string {
	v, ok := (*m)[key]
	if !ok {
		return def
	}
	return fmt.Sprint(v)
}

func maxPollInterval(m *kafka.ConfigMap) time.Duration {
	ms, err := strconv.Atoi(setting(m, "max.poll.interval.ms", "300000"))
	if err != nil || ms <= 0 {
		ms = 300000
	}
	return time.Duration(ms) * time.Millisecond
}

func instanceName(m *kafka.ConfigMap) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return setting(m, "client.id", "rdkafka") + "@" + host
}
