package stage

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Letter is a dead letter as a reader of the DLQ found it.
type Letter struct {
	Partition int32 // of the record, as its value says
	Offset    int64
	Missing   string // what of the record, or of its story, is not in it; "": all is
}

// story is what a dead letter has to tell, and under which headers contenders do.
var story = []struct {
	what  string
	names []string
}{
	{"its topic", []string{"DESTINATION", "original-topic", "kafka_dlt-original-topic", "topic_poisoned"}},
	{"its partition", []string{"ORIGINAL_PARTITION", "original-partition", "kafka_dlt-original-partition"}},
	{"its offset", []string{"ORIGINAL_OFFSET", "original-offset", "kafka_dlt-original-offset"}},
	{"the reason", []string{"REASON", "error", "kafka_dlt-exception-message", "reason_poisoned"}},
}

// Letters reads a DLQ from its beginning to its end.
func (s *Stage) Letters(dlq string, src *Source) ([]Letter, error) {
	ends, err := s.Ends(dlq, src.Partitions)
	if err != nil {
		return nil, err
	}
	var assignment []kafka.TopicPartition
	left := int64(0)
	for p, end := range ends {
		if left += end; end > 0 {
			assignment = append(assignment, kafka.TopicPartition{Topic: &dlq, Partition: int32(p), Offset: 0})
		}
	}
	if left == 0 {
		return nil, nil
	}
	c, err := kafka.NewConsumer(s.client(kafka.ConfigMap{"group.id": s.Prefix + "bench-reader", "enable.auto.commit": false, "auto.offset.reset": "earliest",
		"fetch.queue.backoff.ms": 10}))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Assign(assignment); err != nil {
		return nil, err
	}
	var letters []Letter
	for quiet := time.Now(); left > 0; {
		m, ok := c.Poll(100).(*kafka.Message)
		if !ok {
			if time.Since(quiet) > patience {
				return nil, fmt.Errorf("%d dead letters of %s could not be read", left, dlq)
			}
			continue
		}
		quiet = time.Now()
		left--
		letters = append(letters, src.read(m))
	}
	return letters, nil
}

// read compares a dead letter with the record that it is about.
func (src *Source) read(m *kafka.Message) Letter {
	p, offset, ok := identify(m.Value)
	if !ok || src.number(p, offset) >= src.produced {
		return Letter{Partition: -1, Missing: "its value"}
	}
	l := Letter{Partition: p, Offset: offset}
	want := src.record(src.number(p, offset))
	switch {
	case !bytes.Equal(want.Value, m.Value):
		l.Missing = "its value"
	case !bytes.Equal(want.Key, m.Key) || (want.Key == nil) != (m.Key == nil):
		l.Missing = "its key"
	case !want.Timestamp.Equal(m.Timestamp):
		l.Missing = "its timestamp"
	case !begins(m.Headers, want.Headers):
		l.Missing = "its headers"
	}
	for _, part := range story {
		if l.Missing == "" && !slices.ContainsFunc(m.Headers, func(h kafka.Header) bool { return slices.Contains(part.names, h.Key) }) {
			l.Missing = part.what
		}
	}
	return l
}

// begins tells whether all begins with headers, in order, nil and empty told apart.
func begins(all, headers []kafka.Header) bool {
	return len(all) >= len(headers) && slices.EqualFunc(all[:len(headers)], headers, func(a, b kafka.Header) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
	})
}
