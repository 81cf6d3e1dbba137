package consumer

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// The poll goroutine. It alone polls, assigns, pauses, resumes and stores offsets (law 2), and it never waits for anything but Poll: at most 100 ms,
// and 10 ms while anything is paused, held or draining, since nothing else wakes it (law 3).

// Records are handed to the lanes when Poll has nothing more, or at this many or this much: a hand-over for each record costs a quarter of
// the throughput.
const (
	handOverRecords = 1024
	handOverBytes   = 1 << 20
	tickEvery       = busyPoll
)

// poll runs until ctx ends or the client fails for good.
func (c *Consumer) poll(ctx context.Context) {
	var polled time.Time
	for ctx.Err() == nil && c.fatal == nil {
		if c.slow && time.Since(polled) < calmPoll-busyPoll {
			c.rest(ctx)
			continue
		}
		polled = time.Now()
		ev := c.client.Poll(c.pollTimeout())
		c.lastPoll.Store(int64(time.Since(c.made)))
		for ev != nil {
			c.take(ev)
			if c.slow || c.brimming || c.gathered >= handOverRecords || c.gatheredB >= c.batchBytes() {
				break
			}
			ev = c.client.Poll(0)
		}
		c.handOver()
		c.tick(time.Now())
	}
}

// rest is a round without a poll.
func (c *Consumer) rest(ctx context.Context) {
	select {
	case f := <-c.inbox:
		f()
	case <-time.After(busyPoll):
	case <-ctx.Done():
	}
	c.tick(time.Now())
}

// batchBytes bounds what is gathered between two looks at the lanes, so that it fits the budget on top of their shares. A lane that has its share ends the
// gathering, since the next look pauses it: else each could exceed its share by a whole batch.
func (c *Consumer) batchBytes() int64 { return min(handOverBytes, c.cfg.BufferBytes/8) }

func (c *Consumer) pollTimeout() int {
	if c.restless {
		return int(busyPoll.Milliseconds())
	}
	return int(calmPoll.Milliseconds())
}

// take sorts what Poll answered with.
func (c *Consumer) take(ev kafka.Event) {
	switch e := ev.(type) {
	case *kafka.Message:
		if e.TopicPartition.Error != nil {
			c.clientError(e.TopicPartition.Error)
			return
		}
		c.takeRecord(e)
	case kafka.Error:
		c.clientError(e)
	case kafka.OAuthBearerTokenRefresh:
		c.passOn(e)
	case kafka.OffsetsCommitted:
		// The client's own commits, with enable.auto.commit: an acknowledgement like any other.
		if e.Error == nil {
			c.acknowledged(e.Offsets)
		}
	case kafka.PartitionEOF:
	default:
		c.passOn(ev)
	}
}

func (c *Consumer) passOn(ev kafka.Event) {
	if c.cfg.OnEvent != nil {
		c.cfg.OnEvent(ev)
	}
}

// clientError is what the client reports and mends by itself, save a fatal error, which is latched: after one Poll is silent for
// ever. None of them is a failure of a record, so the breaker never hears of them.
func (c *Consumer) clientError(err error) {
	e, ok := err.(kafka.Error)
	if ok && (e.IsFatal() || e.Code() == kafka.ErrFatal || e.Code() == kafka.ErrFencedInstanceID) {
		c.fail(e)
		return
	}
	if c.thin.first(err.Error(), time.Now()) {
		c.tell(observe.Event{Kind: observe.ClientError, Err: err})
	}
	if ok {
		c.passOn(e)
	}
}

// thin lets one of equal texts through in half a minute: a client that has lost its broker says the same many times a second.
type thin map[string]time.Time

const thinFor = 30 * time.Second

func (t *thin) first(text string, now time.Time) bool {
	if *t == nil {
		*t = thin{}
	}
	for old, at := range *t {
		if now.Sub(at) >= thinFor {
			delete(*t, old)
		}
	}
	if _, told := (*t)[text]; told {
		return false
	}
	(*t)[text] = now
	return true
}

// takeRecord puts a record into the batch of its lane. A record of a partition that is not ours, in the window of a rebalance, moves nothing.
func (c *Consumer) takeRecord(m *kafka.Message) {
	tp := &m.TopicPartition
	l := c.lastLane
	if l == nil || l.part.ID.Partition != tp.Partition || l.part.ID.Topic != *tp.Topic {
		if l = c.lanes[partitionOf(*tp)]; l == nil {
			return
		}
		c.lastLane = l
	}
	offset := int64(tp.Offset)
	if l.lookingUp {
		return // before its start is known: the partition is assigned again when it is, at the start
	}
	if l.gapCheck || offset < l.expected || offset > l.expected && l.checkGap {
		c.suspect(l, m)
		return
	}
	l.checkGap = false
	l.leaked = l.leaked || l.paused
	l.expected = offset + 1
	if len(l.incoming) == 0 {
		c.touched = append(c.touched, l)
	}
	l.incoming = append(l.incoming, m)
	n := size(m)
	l.incomingB += n
	c.gathered++
	c.gatheredB += n
	c.brimming = c.brimming || l.bytes.Load()+l.incomingB >= c.share
}

// handOver gives each lane what has been gathered for it.
func (c *Consumer) handOver() {
	for _, l := range c.touched {
		l.push(l.incoming, l.incomingB)
		clear(l.incoming)
		l.incoming, l.incomingB = l.incoming[:0], 0
		l.flowed()
	}
	c.touched = c.touched[:0]
	c.gathered, c.gatheredB, c.brimming = 0, 0, false
}

// tick does what has to be done now and then: what others have left for this goroutine, and its duties.
func (c *Consumer) tick(now time.Time) {
	for {
		select {
		case f := <-c.inbox:
			f()
			continue
		default:
		}
		break
	}
	c.duties(now)
}

// duties is the part of a tick that may be done inside the rebalance callback too.
func (c *Consumer) duties(now time.Time) {
	c.reconcile(now)
	if now.Sub(c.lastTick) < tickEvery && !c.kicked.Load() {
		return
	}
	c.lastTick = now
	for _, l := range c.lanes {
		l.watch(now)
	}
	if c.kicked.Load() || now.Sub(c.lastStore) >= calmPoll {
		c.lastStore = now
		c.store()
		if c.kicked.Swap(false) || c.unsaid && now.Sub(c.lastCommit) >= c.cfg.CommitInterval {
			if c.commit.request() != nil {
				c.unsaid = false
				c.lastCommit = now
			} else {
				c.kicked.Store(true)
			}
		}
	}
	if now.Sub(c.lastWatch) >= watchEvery {
		c.lastWatch = now
		c.lookAfter(now)
	}
}

// store stores the offsets of what is done. Nothing else does (law 1).
func (c *Consumer) store() {
	var offsets []kafka.TopicPartition
	for _, l := range c.lanes {
		if tp, ok := l.storable(); ok {
			offsets = append(offsets, tp)
		}
	}
	c.storeOffsets(offsets)
}

func (l *lane) storable() (kafka.TopicPartition, bool) {
	done := l.part.Storable()
	if done < 0 || done == l.stored {
		return kafka.TopicPartition{}, false
	}
	return toKafka(l.id(), done), true
}

func (c *Consumer) storeOffsets(offsets []kafka.TopicPartition) {
	if len(offsets) == 0 {
		return
	}
	// A partition that is just being taken away answers ErrState: its record comes again, at the next owner.
	stored, _ := c.client.StoreOffsets(offsets)
	for _, tp := range stored {
		if tp.Error == nil {
			c.lanes[partitionOf(tp)].stored = int64(tp.Offset)
			c.unsaid = true
		}
	}
}

// later runs f on the poll goroutine in a while, unless the lane is gone by then.
func (c *Consumer) later(f func(), l *lane) {
	time.AfterFunc(calmPoll, func() {
		c.post(func() {
			if c.lanes[l.id()] == l {
				f()
			}
		})
	})
}

// post gives f to the poll goroutine; at a shutdown, to nobody.
func (c *Consumer) post(f func()) {
	select {
	case c.inbox <- f:
	case <-c.deaf:
	}
}
