package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// Where a partition starts. Each is looked up before it is assigned, and assigned at an absolute offset: an assignment that leaves the look-up to the
// client can lose its start (librdkafka#5591), and its auto.offset.reset would jump over a held record when the partition moves before
// the first commit (law 1). A time-out is not "none committed".

// start is one partition's answer.
type start struct {
	known  bool
	offset int64
	mine   bool  // none was committed: this start is ours to commit before the first record
	wanted bool  // its commit is not acknowledged yet; guarded by Consumer.mu
	torn   int64 // retention has deleted the records from here to offset; -1: it has not
	err    error // there is none: the partition is refused
}

// The special timestamps of OffsetsForTimes.
const (
	atEnd   = kafka.Offset(-1)
	atStart = kafka.Offset(-2)
)

// lookUp asks where the partitions start, in three requests at most for all of them. What is missing in the answer was not answered.
func (c *Consumer) lookUp(parts []kafka.TopicPartition, timeout time.Duration) map[partition]start {
	deadline := time.Now().Add(timeout)
	remaining := func() int { return max(1, int(time.Until(deadline).Milliseconds())) }
	committed, err := c.client.Committed(plain(parts), remaining())
	if err != nil {
		return nil
	}
	low := c.offsets(parts, atStart, remaining())
	starts := map[partition]start{}
	var fresh []kafka.TopicPartition
	for _, tp := range committed {
		p := partitionOf(tp)
		switch {
		case tp.Error != nil:
		case tp.Offset < 0:
			fresh = append(fresh, tp)
		default:
			s := start{known: true, offset: int64(tp.Offset), torn: -1}
			if l, ok := low[p]; ok && l > s.offset {
				s.torn, s.offset = s.offset, l
				if c.reset() == "error" {
					s = start{known: true, err: fmt.Errorf("records from offset %d to %d were deleted before they were read, and auto.offset.reset is error: commit an offset for the group, or set earliest", s.torn, l)}
				}
			}
			starts[p] = s
		}
	}
	if len(fresh) == 0 {
		return starts
	}
	from := low
	switch c.reset() {
	case "latest":
		from = c.offsets(fresh, atEnd, remaining())
	case "error":
		for _, tp := range fresh {
			starts[partitionOf(tp)] = start{known: true, err: errors.New("the group has no committed offset, and auto.offset.reset is error: commit one, or set earliest or latest")}
		}
		return starts
	}
	for _, tp := range fresh {
		if o, ok := from[partitionOf(tp)]; ok {
			starts[partitionOf(tp)] = start{known: true, offset: o, mine: true, torn: -1}
		}
	}
	return starts
}

// reset is auto.offset.reset under one name for each meaning.
func (c *Consumer) reset() string {
	switch v := setting(c.cfg.Kafka, "auto.offset.reset", "largest"); v {
	case "smallest", "earliest", "beginning":
		return "earliest"
	case "error":
		return "error"
	default:
		return "latest"
	}
}

// offsets asks for the start or the end of many partitions in one call (50 of them: 0.9 ms, against 29 ms one by one).
func (c *Consumer) offsets(parts []kafka.TopicPartition, at kafka.Offset, timeoutMs int) map[partition]int64 {
	ask := plain(parts)
	for i := range ask {
		ask[i].Offset = at
	}
	answer, err := c.client.OffsetsForTimes(ask, timeoutMs)
	if err != nil {
		return nil
	}
	found := map[partition]int64{}
	for _, tp := range answer {
		if tp.Error == nil && tp.Offset >= 0 {
			found[partitionOf(tp)] = int64(tp.Offset)
		}
	}
	return found
}

// began takes a start into the lane that waits for it; the partition is assigned at it already.
func (c *Consumer) began(l *lane, s start) {
	l.lookingUp = false
	if s.err != nil {
		c.mu.Lock()
		c.desk.Refuse(l.part, s.err)
		c.mu.Unlock()
		c.tell(observe.Event{Kind: observe.Refused, Topic: l.id().Topic, Partition: l.id().Partition, Offset: -1, Err: s.err})
		return
	}
	l.expected = s.offset
	if s.torn >= 0 {
		c.gap(l, s.torn, s.offset)
	}
	c.decide(func(now time.Time) {
		l.start = s
		if !s.mine {
			c.desk.Begun(now, l.part)
			return
		}
		l.start.wanted = true
	})
	if s.mine {
		c.storeStart(l)
	}
}

// storeStart stores a start that nobody has committed yet; the lane begins when its commit is acknowledged.
func (c *Consumer) storeStart(l *lane) {
	tp := toKafka(l.id(), l.start.offset)
	if stored, err := c.client.StoreOffsets([]kafka.TopicPartition{tp}); err != nil || len(stored) > 0 && stored[0].Error != nil {
		c.later(func() { c.storeStart(l) }, l)
		return
	}
	c.kicked.Store(true)
}

func partitionOf(tp kafka.TopicPartition) partition {
	return partition{Topic: *tp.Topic, Partition: tp.Partition}
}

func toKafka(p partition, offset int64) kafka.TopicPartition {
	topic := p.Topic
	return kafka.TopicPartition{Topic: &topic, Partition: p.Partition, Offset: kafka.Offset(offset)}
}

// plain is the partitions without offsets and errors.
func plain(parts []kafka.TopicPartition) []kafka.TopicPartition {
	out := make([]kafka.TopicPartition, len(parts))
	for i, tp := range parts {
		out[i] = toKafka(partitionOf(tp), int64(kafka.OffsetInvalid))
	}
	return out
}
