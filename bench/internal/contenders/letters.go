package contenders

// The dead letters of the loops that are not Breakwater's: the record as it was, and headers that say where from and why. Each waits for the
// broker's acknowledgement, and tries again until it has it.

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
)

type letters struct {
	producer *kafka.Producer
	topic    string
}

// openLetters makes the producer; more adds to its settings.
func openLetters(h *contend.Host, more kafka.ConfigMap) (*letters, error) {
	m := kafka.ConfigMap{"bootstrap.servers": h.Brokers, "enable.idempotence": true, "linger.ms": 0, "message.timeout.ms": 5000, "log_level": 0}
	maps.Copy(m, more)
	p, err := kafka.NewProducer(&m)
	if err != nil {
		return nil, err
	}
	go func() {
		for range p.Events() { // errors; the deliveries have channels of their own
		}
	}()
	return &letters{p, h.DLQ}, nil
}

// make is the dead letter of a record.
func (l *letters) make(m *kafka.Message, why error, attempts int) *kafka.Message {
	at := m.TopicPartition
	headers := append(append([]kafka.Header(nil), m.Headers...),
		kafka.Header{Key: "original-topic", Value: []byte(*at.Topic)},
		kafka.Header{Key: "original-partition", Value: []byte(strconv.Itoa(int(at.Partition)))},
		kafka.Header{Key: "original-offset", Value: []byte(strconv.FormatInt(int64(at.Offset), 10))},
		kafka.Header{Key: "attempts", Value: []byte(strconv.Itoa(attempts))},
		kafka.Header{Key: "error", Value: []byte(why.Error())})
	return &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &l.topic, Partition: at.Partition}, Key: m.Key, Value: m.Value,
		Headers: headers, Timestamp: m.Timestamp}
}

// write returns when the broker has the letter; false: ctx has ended before.
func (l *letters) write(ctx context.Context, letter *kafka.Message) bool {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if l.try(letter) == nil {
			return true
		}
	}
	return false
}

// try is one attempt to write.
func (l *letters) try(letter *kafka.Message) error {
	delivered := make(chan kafka.Event, 1)
	if err := l.producer.Produce(letter, delivered); err != nil {
		return err
	}
	return (<-delivered).(*kafka.Message).TopicPartition.Error
}

func (l *letters) close() { l.producer.Close() }
