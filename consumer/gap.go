package consumer

import (
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// A record that is not the expected one, after an assign or a resume, is kept aside until the log's start and end say what it means. Most gaps are
// harmless: compaction and the markers of transactions leave them. Where retention has torn one, it is reported, and the client may have jumped to the end of the
// partition, over records that are still there. An offset that lies below the expected one is a straggler from before a rebalance, unless the
// log itself has become shorter.

// suspect keeps m aside, and finds out.
func (c *Consumer) suspect(l *lane, m *kafka.Message) {
	n := size(m)
	if len(l.aside) == 0 || !l.asideFull && l.asideB+n <= c.batchBytes() {
		l.aside = append(l.aside, m)
		l.asideB += n
	} else {
		l.asideFull = true // it is fetched again
	}
	if l.gapCheck {
		return
	}
	l.gapCheck = true
	c.inspectGap(l)
}

func (c *Consumer) inspectGap(l *lane) {
	parts := []kafka.TopicPartition{toKafka(l.id(), 0)}
	c.ask(func() {
		low, ok := c.offsets(parts, atStart, int(lookUpTimeout.Milliseconds()))[l.id()]
		end, ok2 := c.offsets(parts, atEnd, int(lookUpTimeout.Milliseconds()))[l.id()]
		c.post(func() {
			switch {
			case c.lanes[l.id()] != l:
			case !ok || !ok2:
				c.later(func() { c.inspectGap(l) }, l)
			default:
				c.resolveGap(l, low, end)
			}
		})
	})
}

// resolveGap decides where reading goes on.
func (c *Consumer) resolveGap(l *lane, low, end int64) {
	aside, full := l.aside, l.asideFull
	l.aside, l.asideB, l.asideFull, l.gapCheck, l.checkGap = nil, 0, false, false, false
	first := int64(aside[0].TopicPartition.Offset)
	next := l.expected
	switch {
	case end < l.expected: // the log is shorter than what we have read of it
		c.tell(observe.Event{Kind: observe.Gap, Topic: l.id().Topic, Partition: l.id().Partition, Offset: l.expected,
			Text: fmt.Sprintf("the log ends at offset %d, but %d was expected: the topic was made anew, or its end was lost; reading goes on at %d", end, l.expected, low)})
		next = low
	case low > l.expected:
		c.gap(l, l.expected, low)
		next = low
	case first > l.expected:
		next = first // nothing is missing
	}
	if first != next || full {
		c.reassign(l, next)
		return
	}
	l.expected = next
	l.paused = false // only while we looked: what was kept aside is no sign that the client has lost the pause
	for _, m := range aside {
		c.takeRecord(m)
	}
	c.handOver()
}

func (c *Consumer) gap(l *lane, from, to int64) {
	c.tell(observe.Event{Kind: observe.Gap, Topic: l.id().Topic, Partition: l.id().Partition, Offset: from, Count: int(to - from),
		Text: fmt.Sprintf("retention deleted the records from offset %d to %d before they were read; reading goes on at %d", from, to, to)})
}

// ask runs f, which asks the broker something, on a goroutine of its own. The client is not closed before it has ended.
func (c *Consumer) ask(f func()) {
	c.asking.Add(1)
	go func() {
		defer c.asking.Done()
		f()
	}()
}
