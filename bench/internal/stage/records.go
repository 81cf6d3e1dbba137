package stage

// What is produced. A record says where it belongs: partition and offset are in its value, since there is one producer, which is idempotent, and
// the topic is new. So a dead letter can be told from its value alone, whatever a contender wrote around it.

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
)

// Size is the size of a record's value.
const Size = 200

// Source is a topic and what stands in it.
type Source struct {
	Topic      string
	Partitions int
	Poison     func(partition int32, offset int64) bool // the dependency refuses it always
	Headers    bool
	Began      time.Time // the timestamp of the record n is that plus n ms

	producer *kafka.Producer
	produced int
	at       []time.Time // when each was produced
}

// Open makes the source's producer.
func (s *Stage) Open(src *Source) (err error) {
	src.Began = time.Now().Truncate(time.Millisecond)
	src.producer, err = kafka.NewProducer(s.client(kafka.ConfigMap{"linger.ms": 5, "batch.size": 1_000_000, "enable.idempotence": true,
		"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 2_000_000, "go.delivery.reports": false}))
	if err != nil {
		return err
	}
	go func() {
		for range src.producer.Events() {
		}
	}()
	return nil
}

// place is where the record n stands.
func (src *Source) place(n int) (p int32, offset int64) {
	return int32(n % src.Partitions), int64(n / src.Partitions)
}

// number is which record stands there.
func (src *Source) number(p int32, offset int64) int { return int(offset)*src.Partitions + int(p) }

// At is when the record was produced; false: there is none.
func (src *Source) At(p int32, offset int64) (time.Time, bool) {
	n := src.number(p, offset)
	if n >= len(src.at) {
		return time.Time{}, false
	}
	return src.at[n], true
}

// record is what the record n is made of.
func (src *Source) record(n int) *kafka.Message {
	p, offset := src.place(n)
	value := make([]byte, Size)
	for i := range value {
		value[i] = '.'
	}
	if src.Poison != nil && src.Poison(p, offset) {
		value[0] = contend.Poison
	}
	copy(value[1:], fmt.Sprintf("%d/%d ", p, offset))
	m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &src.Topic, Partition: p}, Value: value,
		Timestamp: src.Began.Add(time.Duration(n) * time.Millisecond)}
	if src.Headers {
		m.Key = []byte("key" + strconv.Itoa(n))
		m.Headers = []kafka.Header{{Key: "trace", Value: []byte(strconv.Itoa(n))}, {Key: "note", Value: []byte("a")}, {Key: "note", Value: nil}}
	}
	return m
}

// identify reads from a value where the record stood.
func identify(value []byte) (p int32, offset int64, ok bool) {
	if len(value) != Size {
		return 0, 0, false
	}
	text, _, _ := strings.Cut(string(value[1:]), " ")
	left, right, found := strings.Cut(text, "/")
	a, err1 := strconv.ParseInt(left, 10, 32)
	b, err2 := strconv.ParseInt(right, 10, 64)
	return int32(a), b, found && err1 == nil && err2 == nil
}

// Produce adds n records.
func (src *Source) Produce(n int) error {
	for range n {
		for {
			err := src.producer.Produce(src.record(src.produced), nil)
			if e, ok := err.(kafka.Error); ok && e.Code() == kafka.ErrQueueFull {
				src.producer.Flush(100)
				continue
			}
			if err != nil {
				return fmt.Errorf("the producer: %w", err)
			}
			break
		}
		src.at = append(src.at, time.Now())
		src.produced++
	}
	return nil
}

// Flow produces at a rate until ctx ends.
func (src *Source) Flow(ctx context.Context, perSecond float64) error {
	began, tick := time.Now(), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for done := 0; ; {
		due := int(time.Since(began).Seconds() * perSecond)
		if err := src.Produce(due - done); err != nil {
			return err
		}
		done = due
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Finish waits until the broker has everything, closes the producer and answers the topic's end offsets. They are checked: a record that is missing
// in the topic would look like one that a contender lost.
func (s *Stage) Finish(src *Source) ([]int64, error) {
	for left, deadline := src.producer.Flush(1000), time.Now().Add(time.Minute); left > 0; left = src.producer.Flush(1000) {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the broker did not take %d records in a minute", left)
		}
	}
	src.producer.Close()
	ends, err := s.Ends(src.Topic, src.Partitions)
	if err != nil {
		return nil, err
	}
	for p, end := range ends {
		want := int64(0)
		if src.produced > p {
			want = int64((src.produced-1-p)/src.Partitions) + 1
		}
		if end != want {
			return nil, fmt.Errorf("partition %d of %s has %d records instead of %d: the producer's own", p, src.Topic, end, want)
		}
	}
	return ends, nil
}
