package main

// Those who look on: a reader of a topic, and a watch on the consumer group. None of them asks the consumer anything.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// reader reads a topic by itself, in no group, and hands each record on.
type reader struct {
	client *kafka.Consumer
	topic  string
	stop   chan struct{}
	ended  chan struct{}

	mu   sync.Mutex
	next map[int32]int64 // every record below it was handed on
}

// read starts a reader at those offsets. seen is called from one goroutine.
func (s *stage) read(topic string, from map[int32]int64, seen func(*kafka.Message)) (*reader, error) {
	client, err := kafka.NewConsumer(s.client(kafka.ConfigMap{"group.id": "breakwater-demo-reader", "enable.auto.commit": false,
		"enable.auto.offset.store": false, "auto.offset.reset": "earliest", "enable.partition.eof": true}))
	if err != nil {
		return nil, fmt.Errorf("no Kafka client: %w", err)
	}
	var assignment []kafka.TopicPartition
	r := &reader{client: client, topic: topic, stop: make(chan struct{}), ended: make(chan struct{}), next: map[int32]int64{}}
	for p, offset := range from {
		r.next[p] = offset
		assignment = append(assignment, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.Offset(offset)})
	}
	if err := client.Assign(assignment); err != nil {
		client.Close()
		return nil, fmt.Errorf("%s can't be read: %w", topic, err)
	}
	go r.run(seen)
	return r, nil
}

func (r *reader) run(seen func(*kafka.Message)) {
	defer close(r.ended)
	for {
		select {
		case <-r.stop:
			return
		default:
		}
		switch e := r.client.Poll(50).(type) {
		case *kafka.Message:
			seen(e)
			r.reached(e.TopicPartition.Partition, int64(e.TopicPartition.Offset)+1)
		case kafka.PartitionEOF:
			r.reached(e.Partition, int64(e.Offset))
		}
	}
}

func (r *reader) reached(p int32, next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next[p] = max(r.next[p], next)
}

// upTo waits until everything below those offsets was handed on.
func (r *reader) upTo(ctx context.Context, ends map[int32]int64) error {
	for {
		missing := 0
		r.mu.Lock()
		for p, end := range ends {
			if r.next[p] < end {
				missing++
			}
		}
		r.mu.Unlock()
		if missing == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d partitions of %s could not be read to their end: %w", missing, r.topic, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *reader) close() {
	close(r.stop)
	<-r.ended
	r.client.Close()
}

// bounds are the offsets of a topic's first records, and of those to come. A broker that has just made the topic may not know for a moment who leads its
// partitions, so it is asked again.
func (s *stage) bounds(ctx context.Context, topic string) (first, end map[int32]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	for {
		if first, err = s.offsets(ctx, topic, kafka.EarliestOffsetSpec); err == nil {
			end, err = s.offsets(ctx, topic, kafka.LatestOffsetSpec)
		}
		if err == nil {
			return first, end, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("the broker did not tell the offsets of %s: %w", topic, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *stage) offsets(ctx context.Context, topic string, spec kafka.OffsetSpec) (map[int32]int64, error) {
	meta, err := s.admin.GetMetadata(&topic, false, int(answerTimeout.Milliseconds()))
	if err != nil {
		return nil, err
	}
	asked, offsets := map[kafka.TopicPartition]kafka.OffsetSpec{}, map[int32]int64{}
	for _, p := range meta.Topics[topic].Partitions {
		asked[kafka.TopicPartition{Topic: &topic, Partition: p.ID}] = spec
	}
	if len(asked) == 0 {
		return nil, errors.New("it does not know the topic")
	}
	r, err := s.admin.ListOffsets(ctx, asked)
	if err != nil {
		return nil, err
	}
	for p, o := range r.ResultInfos {
		if o.Error.Code() != kafka.ErrNoError {
			return nil, o.Error
		}
		offsets[p.Partition] = int64(o.Offset)
	}
	return offsets, nil
}

// groupWatch counts rebalances of the group after its first assignment. The embedded broker tells its generation. A real one is asked ten
// times a second who is in the group and what each of them has: a change of that is a rebalance.
type groupWatch struct {
	stage *stage
	stop  context.CancelFunc
	ended chan struct{}
	first int32 // generation of the embedded broker's group; -1: no assignment yet

	settled string // who has what
	moving  bool
	changes int
}

func (s *stage) watchGroup() *groupWatch {
	ctx, stop := context.WithCancel(context.Background())
	w := &groupWatch{stage: s, stop: stop, ended: make(chan struct{}), first: -1}
	go func() {
		defer close(w.ended)
		for ctx.Err() == nil {
			w.look(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *groupWatch) look(ctx context.Context) {
	if fake := w.stage.fake; fake != nil {
		if g := fake.GroupInfo(w.stage.group); g != nil && g.State == "Stable" {
			if w.first < 0 {
				w.first = g.Epoch
			}
			w.changes = int(g.Epoch - w.first)
		}
		return
	}
	if g, err := w.stage.describeGroup(ctx); err == nil {
		w.see(g)
	}
}

// see takes one description of the group.
func (w *groupWatch) see(g kafka.ConsumerGroupDescription) {
	if g.State != kafka.ConsumerGroupStateStable {
		if w.settled != "" && !w.moving {
			w.moving = true
			w.changes++
		}
		return
	}
	now := ""
	for _, m := range g.Members {
		now += fmt.Sprintln(m.ConsumerID, m.Assignment.TopicPartitions)
	}
	if w.settled != "" && !w.moving && now != w.settled {
		w.changes++
	}
	w.settled, w.moving = now, false
}

// rebalances looks once more, ends the watch and answers the count. Ask while the consumer still runs: its leave is a rebalance too.
func (w *groupWatch) rebalances() int {
	w.stop()
	<-w.ended
	w.look(context.Background())
	return w.changes
}
