package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// The rebalance callback. The client calls it from inside Poll, so it runs on the poll goroutine, and the whole group waits for it: everything in it
// is bounded, and while it waits the lanes are served. It always carries the assignment out itself: what the binding does for a
// callback that did not can block for ever (confluent-kafka-go#1457). The epoch of a partition is its lane: what comes late from an old lane does nothing.

func (c *Consumer) rebalance(_ *kafka.Consumer, ev kafka.Event) error {
	switch e := ev.(type) {
	case kafka.AssignedPartitions:
		c.assigned(e.Partitions)
	case kafka.RevokedPartitions:
		c.revoked(e.Partitions)
	}
	if c.cfg.OnRebalance != nil && !c.closing {
		c.cfg.OnRebalance(ev)
	}
	return nil // the binding discards it
}

func (c *Consumer) assigned(parts []kafka.TopicPartition) {
	c.eager = c.client.GetRebalanceProtocol() != "COOPERATIVE"
	if c.closing {
		c.carry("assign", parts)
		return
	}
	lanes := make([]*lane, 0, len(parts))
	c.mu.Lock()
	for _, tp := range parts {
		p := partitionOf(tp)
		if c.lanes[p] != nil {
			continue // an eager client says again what we have
		}
		l := newLane(c)
		l.part = c.desk.Assign(p, l)
		if c.wish(p) {
			c.desk.Pause(l.part)
		}
		c.lanes[p] = l
		lanes = append(lanes, l)
		go l.run()
	}
	c.mu.Unlock()
	if len(lanes) > 0 {
		c.keeper.claim(lanes)
	}

	var starts map[partition]start
	if len(lanes) > 0 {
		answer := make(chan map[partition]start, 1)
		c.ask(func() { answer <- c.lookUp(parts, lookUpTimeout) })
		c.serve(func() bool {
			select {
			case starts = <-answer:
				return true
			default:
				return false
			}
		}, lookUpTimeout)
	}

	// At an absolute offset where it is known. Else the client is left to look it up, paused: nothing is delivered before we know.
	at := make([]kafka.TopicPartition, len(parts))
	for i, tp := range parts {
		at[i] = plain(parts[i : i+1])[0]
		l := c.lanes[partitionOf(tp)]
		switch s := starts[partitionOf(tp)]; {
		case l.expected >= 0:
			at[i].Offset = kafka.Offset(l.expected)
		case s.known && s.err == nil:
			at[i].Offset = kafka.Offset(s.offset)
		case s.known:
			at[i].Offset = kafka.OffsetEnd
		default:
			at[i].Offset = kafka.OffsetStored
			l.lookingUp = true
		}
	}
	if !c.carry("assign", at) {
		return
	}
	now := time.Now()
	for _, l := range lanes {
		l.quietSince = now
		l.checkGap = true
		if s := starts[l.id()]; s.known {
			c.began(l, s)
		}
	}
	c.lookAgain()
	// The crash guard lasts until the first commit: that is one interval's work, as it was when the last owner died.
	c.lastCommit = now
	// First assigned, then paused: the other way round does nothing for a partition that the client has not seen. What an earlier assignment
	// left paused is told again, one way or the other.
	for _, l := range lanes {
		l.tellAgain = c.told[l.id()]
	}
	c.reconcile(now)
	if len(parts) > 0 {
		c.tell(observe.Event{Kind: observe.Assigned, Count: len(parts), Text: list(parts)})
	}
}

// lookAgain asks again where partitions start whose look-up was not answered.
func (c *Consumer) lookAgain() {
	var parts []kafka.TopicPartition
	for _, l := range c.lanes {
		if l.lookingUp {
			parts = append(parts, toKafka(l.id(), 0))
		}
	}
	if len(parts) == 0 || c.looking {
		return
	}
	c.looking = true
	c.ask(func() {
		starts := c.lookUp(parts, lookUpTimeout)
		c.post(func() {
			c.looking = false
			for p, s := range starts {
				l := c.lanes[p]
				if l == nil || !l.lookingUp || !s.known {
					continue
				}
				if s.err == nil {
					c.reassign(l, s.offset)
				}
				c.began(l, s)
			}
			time.AfterFunc(calmPoll, func() { c.post(c.lookAgain) })
		})
	})
}

// reassign starts one partition of the assignment anew, at an offset. An eager client is given the whole assignment, each partition where it is.
func (c *Consumer) reassign(l *lane, offset int64) {
	l.expected = offset
	l.quietSince = time.Now()
	l.everFlowed = false
	if c.eager {
		var all []kafka.TopicPartition
		for _, o := range c.lanes {
			tp := toKafka(o.id(), o.expected)
			if o.lookingUp && o != l {
				tp.Offset = kafka.OffsetStored
			}
			all = append(all, tp)
			o.everFlowed = false // each can lose its start now
		}
		c.carry("assign", all)
	} else {
		one := []kafka.TopicPartition{toKafka(l.id(), offset)}
		if err := c.client.IncrementalUnassign(one); err != nil {
			c.fail(fmt.Errorf("partition %s could not be started anew: %w", list(one), err))
			return
		}
		c.carry("assign", one)
	}
	l.tellAgain = c.told[l.id()]
	c.reconcile(time.Now())
}

// carry tells the client what it is assigned. A client that refuses is tried the other way, since a wrong call leaves it silent for ever; one that refuses that too
// ends the consumer.
func (c *Consumer) carry(what string, parts []kafka.TopicPartition) bool {
	cooperative, eager := c.client.IncrementalAssign, c.client.Assign
	if what == "unassign" {
		cooperative, eager = c.client.IncrementalUnassign, func([]kafka.TopicPartition) error { return c.client.Unassign() }
	}
	first, second := cooperative, eager
	if c.eager {
		first, second = eager, cooperative
	}
	err := first(parts)
	if err == nil {
		return true
	}
	if err2 := second(parts); err2 != nil {
		c.fail(fmt.Errorf("the client refused to %s %s: %w", what, list(parts), errors.Join(err, err2)))
		return false
	}
	return true
}

// fail ends the consumer.
func (c *Consumer) fail(err error) {
	if c.fatal != nil || c.closing {
		return
	}
	c.fatal = err
	c.mu.Lock()
	c.fatalText = err.Error()
	c.mu.Unlock()
	c.tell(observe.Event{Kind: observe.Fatal, Err: err})
}

func (c *Consumer) revoked(parts []kafka.TopicPartition) {
	// Asked before the unassign, which clears it.
	lost := c.client.AssignmentLost()
	c.eager = c.client.GetRebalanceProtocol() != "COOPERATIVE"
	var lanes []*lane
	for _, tp := range parts {
		if l := c.lanes[partitionOf(tp)]; l != nil {
			lanes = append(lanes, l)
		}
	}
	if !lost {
		c.drain(lanes, c.cfg.DrainTimeout)
	}
	c.drop(lanes)
	c.carry("unassign", parts)
	if len(lanes) > 0 {
		kind := observe.Revoked
		if lost {
			kind = observe.Lost
		}
		c.tell(observe.Event{Kind: kind, Count: len(lanes), Text: list(parts)})
	}
}

// drain lets the records in hand of these lanes come to their end, stores and commits what is done, and takes our marks off. After it nothing of them is
// worth waiting for; it takes no longer than the time-out, whatever hangs.
func (c *Consumer) drain(lanes []*lane, timeout time.Duration) {
	if len(lanes) == 0 {
		return
	}
	c.draining.Store(true)
	defer c.draining.Store(false)
	deadline := time.Now().Add(timeout)
	c.mu.Lock()
	for _, l := range lanes {
		c.desk.Leave(l.part)
	}
	c.mu.Unlock()

	// Most of the time is the handlers'; the rest is for those that heed their context, and for the commit.
	grace := min(time.Second, timeout/4)
	drained := func() bool { return c.drained(lanes) }
	if !c.serve(drained, time.Until(deadline)-2*grace) {
		for _, l := range lanes {
			l.cut(errTakenAway)
		}
		c.serve(drained, time.Until(deadline)-grace)
	}

	var offsets []kafka.TopicPartition
	for _, l := range lanes {
		if tp, ok := l.storable(); ok {
			offsets = append(offsets, tp)
		}
	}
	c.storeOffsets(offsets)
	c.mu.Lock()
	guard := c.desk.Guard()
	c.mu.Unlock()
	released := c.keeper.release(lanes, guard)
	committed := c.commitNow(time.Until(deadline))
	c.serve(func() bool { return isClosed(released) && isClosed(committed) }, time.Until(deadline))
}

var errTakenAway = errors.New("the partition is being taken away")

func (c *Consumer) drained(lanes []*lane) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lanes {
		if !c.desk.Drained(l.part) || l.current.Load() != nil && !l.part.Stalled() {
			return false
		}
	}
	return true
}

// commitNow asks for a commit of what is stored now, and waits for room in the committer's queue no longer than the time-out.
func (c *Consumer) commitNow(timeout time.Duration) (done chan struct{}) {
	if !c.unsaid {
		return nil
	}
	c.serve(func() bool { done = c.commit.request(); return done != nil }, timeout)
	c.unsaid = done == nil
	c.lastCommit = time.Now()
	return done
}

// isClosed reports whether a channel that nobody sends on is closed; nil counts as closed.
func isClosed(ch chan struct{}) bool {
	if ch == nil {
		return true
	}
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// drop raises the epoch: from here on nothing that these lanes do counts.
func (c *Consumer) drop(lanes []*lane) {
	for _, l := range lanes {
		l.cut(errTakenAway)
		c.decide(func(now time.Time) {
			l.Adopt(now)
			c.desk.Drop(now, l.part)
			delete(c.lanes, l.id())
		})
		l.close()
		if c.lastLane == l {
			c.lastLane = nil
		}
	}
}

// serve goes on with what the poll goroutine owes the lanes until done, or until the time-out, and reports whether it was done. It leaves the inbox alone: to assign
// anything inside the callback is to answer the rebalance.
func (c *Consumer) serve(done func() bool, timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	for wait := time.Millisecond; ; wait = min(2*wait, busyPoll) {
		if done() {
			return true
		}
		now := time.Now()
		if !now.Before(deadline) {
			return false
		}
		c.duties(now)
		time.Sleep(min(wait, time.Until(deadline)))
	}
}

// list names partitions for a person: "orders/0, orders/1".
func list(parts []kafka.TopicPartition) string {
	text := ""
	for i, tp := range parts {
		if i > 0 {
			text += ", "
		}
		text += name(partitionOf(tp))
	}
	return text
}
