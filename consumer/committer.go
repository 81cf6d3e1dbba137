package consumer

import (
	"errors"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// committer commits what is stored. It has a goroutine of its own because a commit blocks for as long as the coordinator is away:
// eleven seconds, measured, during which the poll goroutine has to go on polling.
type committer struct {
	c      *Consumer
	asked  chan chan struct{}
	ended  chan struct{}
	failed time.Time // since when commits fail; the goroutine's own
}

func newCommitter(c *Consumer) *committer {
	return &committer{c: c, asked: make(chan chan struct{}, 1), ended: make(chan struct{})}
}

// request asks for a commit of everything stored so far. done is closed after one that began after the request; nil where another request is waiting
// already.
func (k *committer) request() (done chan struct{}) {
	done = make(chan struct{})
	select {
	case k.asked <- done:
		return done
	default:
		return nil
	}
}

func (k *committer) run() {
	defer close(k.ended)
	for done := range k.asked {
		k.commit()
		close(done)
	}
}

func (k *committer) commit() {
	offsets, err := k.c.client.Commit()
	if code(err) == kafka.ErrNoOffset {
		k.confirm()
		return
	}
	now := time.Now()
	if err == nil {
		for _, o := range offsets {
			// Each partition has its own answer; only this call's counts.
			if o.Error != nil && err == nil {
				err = o.Error
			}
		}
		k.c.acknowledged(offsets)
	}
	switch {
	case err == nil && !k.failed.IsZero():
		k.c.tell(observe.Event{Kind: observe.CommitsBack, For: now.Sub(k.failed)})
		k.failed = time.Time{}
	case err != nil:
		k.c.kicked.Store(true)
		if k.failed.IsZero() && !passing(err) {
			k.failed = now
			k.c.tell(observe.Event{Kind: observe.CommitFailed, Err: err})
		}
	}
}

// confirm is for "nothing to commit": a normal answer, save where somebody waits for an acknowledgement that the client's own commit (enable.auto.commit)
// has got instead of us.
func (k *committer) confirm() {
	var open []kafka.TopicPartition
	k.c.mu.Lock()
	for p, l := range k.c.lanes {
		if l.start.wanted || l.part.Storable() > l.acked {
			open = append(open, toKafka(p, int64(kafka.OffsetInvalid)))
		}
	}
	k.c.mu.Unlock()
	if len(open) == 0 {
		return
	}
	if offsets, err := k.c.client.Committed(open, int(lookUpTimeout.Milliseconds())); err == nil {
		k.c.acknowledged(offsets)
	}
}

// passing errors belong to a rebalance that is under way: what was not committed is committed after it, or delivered to the next owner.
func passing(err error) bool {
	switch code(err) {
	case kafka.ErrRebalanceInProgress, kafka.ErrIllegalGeneration, kafka.ErrUnknownMemberID, kafka.ErrAssignmentLost,
		kafka.ErrStaleMemberEpoch, kafka.ErrState:
		return true
	}
	return false
}

func code(err error) kafka.ErrorCode {
	var k kafka.Error
	if errors.As(err, &k) {
		return k.Code()
	}
	return kafka.ErrNoError
}

// acknowledged tells the desk which offsets are safe.
func (c *Consumer) acknowledged(offsets []kafka.TopicPartition) {
	c.decide(func(now time.Time) {
		for _, o := range offsets {
			if o.Error != nil || o.Offset < 0 || o.Topic == nil {
				continue
			}
			l := c.lanes[partition{Topic: *o.Topic, Partition: o.Partition}]
			if l == nil {
				continue
			}
			l.acked = max(l.acked, int64(o.Offset))
			if l.start.wanted && int64(o.Offset) >= l.start.offset {
				l.start.wanted = false
				c.desk.Begun(now, l.part)
			}
			if int64(o.Offset) > l.start.offset || !l.start.mine {
				c.desk.Committed(now, l.part, int64(o.Offset))
			}
		}
	})
}
