package dlq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// What other systems write. Names and encodings are those of Spring Kafka's KafkaHeaders and DeadLetterPublishingRecoverer
// (numbers big-endian, 4 and 8 bytes) and of Kafka Connect's DeadLetterQueueReporter (everything is text).

// bag is the last value of each header name, and what could not be read of them.
type bag struct {
	last map[string][]byte
	errs []error
}

func newBag(headers []kafka.Header) *bag {
	b := &bag{last: make(map[string][]byte, len(headers))}
	for _, h := range headers {
		b.last[h.Key] = h.Value
	}
	return b
}

func (b *bag) has(name string) bool { _, found := b.last[name]; return found }

// text is the value of the first of names that is there.
func (b *bag) text(names ...string) string {
	for _, name := range names {
		if b.has(name) {
			return string(b.last[name])
		}
	}
	return ""
}

// number is a signed big-endian integer of one of the sizes, in bytes.
func (b *bag) number(absent int64, name string, sizes ...int) int64 {
	if !b.has(name) {
		return absent
	}
	v := b.last[name]
	for _, size := range sizes {
		if len(v) == size {
			var wide [8]byte
			copy(wide[:], v)
			return int64(binary.BigEndian.Uint64(wide[:])) >> (64 - 8*size)
		}
	}
	b.errs = append(b.errs, fmt.Errorf("dlq: header %s has %d bytes, and is no big-endian number of %d", name, len(v), sizes[len(sizes)-1]))
	return absent
}

// decimal is an integer as text.
func (b *bag) decimal(absent int64, name string, bits int) int64 {
	if !b.has(name) {
		return absent
	}
	n, err := strconv.ParseInt(string(b.last[name]), 10, bits)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("dlq: header %s is no number: %q", name, cut(string(b.last[name]), 40)))
		return absent
	}
	return n
}

func readSpring(headers []kafka.Header) (i Info, found bool, err error) {
	b := newBag(headers)
	prefix := "kafka_dlt-"
	for _, p := range []string{"kafka_dlt-", "kafka_"} { // the second in retry topics and their DLT
		if b.has(p+"original-topic") || b.has(p+"exception-fqcn") {
			prefix, found = p, true
			break
		}
	}
	if !found {
		return Info{}, false, nil
	}
	i = Info{
		System:       SpringKafka,
		GroupID:      b.text(prefix + "original-consumer-group"),
		Topic:        b.text(prefix + "original-topic"),
		Partition:    int32(b.number(-1, prefix+"original-partition", 4)),
		Offset:       b.number(-1, prefix+"original-offset", 8),
		Attempts:     int(b.number(0, "retry_topic-attempts", 1, 4)),
		ErrorClass:   b.text(prefix+"exception-cause-fqcn", prefix+"exception-fqcn"), // the outer one is Spring's own
		ErrorMessage: b.text(prefix+"exception-message", prefix+"key-exception-message"),
		Stack:        b.text(prefix+"exception-stacktrace", prefix+"key-exception-stacktrace"),
	}
	if ms := b.number(-1, prefix+"original-timestamp", 8); ms != -1 { // -1: Kafka's "none"
		i.Timestamp = time.UnixMilli(ms).UTC()
	}
	i.Reason = i.ErrorMessage
	return i, true, errors.Join(b.errs...)
}

func readConnect(headers []kafka.Header) (i Info, found bool, err error) {
	const prefix = "__connect.errors."
	b := newBag(headers)
	if !b.has(prefix+"topic") && !b.has(prefix+"connector.name") && !b.has(prefix+"exception.class.name") {
		return Info{}, false, nil
	}
	i = Info{
		System:       KafkaConnect,
		Topic:        b.text(prefix + "topic"),
		Partition:    int32(b.decimal(-1, prefix+"partition", 32)),
		Offset:       b.decimal(-1, prefix+"offset", 64),
		ErrorClass:   b.text(prefix + "exception.class.name"),
		ErrorMessage: b.text(prefix + "exception.message"),
		Stack:        b.text(prefix + "exception.stacktrace"),
		Instance:     b.text(prefix+"connector.name") + "/" + b.text(prefix+"task.id"),
		Reason:       b.text(prefix + "exception.message"),
	}
	if stage := b.text(prefix + "stage"); stage != "" {
		i.Reason = "failed in stage " + stage + ": " + i.Reason
	}
	return i, true, errors.Join(b.errs...)
}
