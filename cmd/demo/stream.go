package main

// The orders. Where each comes to lie is known beforehand, since the topic is ours alone; what counts as produced is what the broker has
// acknowledged, each with its fingerprint.

import (
	"fmt"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/strategy"
)

// stream produces the orders. It is the script's goroutine's, save for the acknowledgements.
type stream struct {
	*player
	producer       *kafka.Producer
	sent           int
	poisoned       int // the number of the order that is no JSON; -1: none
	choking        int // the one that payments chokes on; -1: none
	acknowledgings sync.WaitGroup
	ended          bool
}

func (s *stream) open() (err error) {
	s.producer, err = kafka.NewProducer(s.stage.client(kafka.ConfigMap{"enable.idempotence": true, "linger.ms": 0}))
	if err != nil {
		return fmt.Errorf("no Kafka producer: %w", err)
	}
	s.acknowledgings.Go(s.acknowledged)
	s.poisoned, _ = s.nth(s.poison)
	s.choking, _ = s.nth(s.choke)
	now := s.waits.Current()
	if now.OnPermanent() == strategy.Hold {
		s.poisoned = -1
		s.board.say("note", plain, "onPermanent is hold, and nobody is here to skip a record: the order that is no JSON is left out")
	}
	if now.OnExhausted() == strategy.Hold {
		s.choking = -1
		s.board.say("note", plain, "onExhausted is hold, and nobody is here to skip a record: the order that payments chokes on is left out")
	}
	if lasts := s.choke + s.waits.last().total; s.choking >= 0 && lasts > s.end {
		s.board.say("note", plain, fmt.Sprintf("with this strategy the play lasts some %v; Ctrl-C ends it earlier", lasts.Round(time.Second)))
	}
	s.board.say("flow", plain, fmt.Sprintf("%d orders a second", s.rate))
	return nil
}

// produce sends what is due, and ends the stream when it is time.
func (s *stream) produce(at time.Duration) error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return failed
	}
	for due, _ := s.nth(at); s.sent < due; s.sent++ {
		if err := s.send(s.sent); err != nil {
			return fmt.Errorf("an order could not be produced: %w", err)
		}
	}
	if at >= s.end && (s.choking < 0 || s.dead(s.choking) || at > s.choke+s.waits.last().total+s.up-s.down+2*patience) {
		s.flush()
		s.board.say("flow", plain, fmt.Sprintf("that was the last of %d orders", s.sent))
	}
	return nil
}

func (s *stream) send(n int) error {
	topic := s.stage.topic
	where := coordinates{int32(n % s.partitions), int64(n / s.partitions)}
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: where.Partition},
		Key:            fmt.Appendf(nil, "customer-%d", where.Partition),
		Value:          fmt.Appendf(nil, `{"id": %d, "amount": "%d.%02d"}`, n, 5+n%90, n*37%100),
		Headers:        []kafka.Header{{Key: "traceparent", Value: fmt.Appendf(nil, "00-%032x-%016x-01", n+1, n+1)}},
		Timestamp:      time.Now().Truncate(time.Millisecond),
	}
	switch n {
	case s.poisoned:
		m.Value = m.Value[:len(m.Value)/2]
		s.board.say("poison", yellow, fmt.Sprintf("%s/%d@%d is cut off in the middle: no JSON", topic, where.Partition, where.Offset))
	case s.choking:
		s.board.say("poison", yellow, fmt.Sprintf("%s/%d@%d is fine, but payments answers 500 to it for ever", topic, where.Partition, where.Offset))
	}
	m.Opaque = fingerprintOf(m)
	return s.producer.Produce(m, nil)
}

// dead tells whether that order was found in the DLQ.
func (s *stream) dead(n int) bool {
	where := coordinates{int32(n % s.partitions), int64(n / s.partitions)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.read {
		if l.of == where {
			return true
		}
	}
	return false
}

// acknowledged notes what the broker has taken: that is what was produced.
func (s *stream) acknowledged() {
	for e := range s.producer.Events() {
		m, ok := e.(*kafka.Message)
		if !ok {
			continue
		}
		s.mu.Lock()
		if err := m.TopicPartition.Error; err != nil {
			s.failed = fmt.Errorf("an order was not taken by the broker: %w", err)
		} else {
			s.produced[coordinates{m.TopicPartition.Partition, int64(m.TopicPartition.Offset)}] = m.Opaque.(fingerprint)
		}
		s.mu.Unlock()
	}
}

// flush waits for the last acknowledgements.
func (s *stream) flush() {
	s.ended = true
	s.producer.Flush(int(answerTimeout.Milliseconds()))
}

func (s *stream) close() {
	s.flush()
	s.producer.Close()
	s.acknowledgings.Wait()
}
