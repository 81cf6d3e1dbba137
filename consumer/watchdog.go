package consumer

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/observe"
)

// The watchdog finds partitions that should flow and don't. The client can lose a resume, or the start of a partition (librdkafka#5591: 113 of
// 2.4 million): then it is silent for ever. A lag has to be seen twice: what is written after a silence is on its way for a moment. Resume is tried, with growing
// distance and without an end; only a partition that has delivered nothing since its last start can have lost it, and is assigned again. A lag of one may be the
// marker of a transaction; there it is assigned again once.

const (
	watchEvery  = time.Second
	quietLimit  = 5 * time.Second
	maxDistance = 4 // quietLimit is doubled so many times
)

// flowed notes that records have come.
func (l *lane) flowed() {
	l.quietSince = time.Now()
	l.everFlowed = true
	l.behind, l.revivals = false, 0
}

// lookAfter asks for the lag of the partitions that are silent, and revives those that have one.
func (c *Consumer) lookAfter(now time.Time) {
	var quiet []kafka.TopicPartition
	for p, l := range c.lanes {
		if c.told[p] || l.lookingUp || l.gapCheck || l.expected < 0 {
			continue
		}
		if now.Sub(l.quietSince) >= quietLimit<<min(l.revivals, maxDistance) {
			quiet = append(quiet, toKafka(p, 0))
		}
	}
	if len(quiet) == 0 || c.watching {
		return
	}
	c.watching = true
	c.ask(func() {
		ends := c.offsets(quiet, atEnd, int(lookUpTimeout.Milliseconds()))
		lows := c.offsets(quiet, atStart, int(lookUpTimeout.Milliseconds()))
		c.post(func() {
			c.watching = false
			for p, end := range ends {
				if l := c.lanes[p]; l != nil && !c.told[p] {
					c.revive(l, lows[p], end)
				}
			}
		})
	})
}

func (c *Consumer) revive(l *lane, low, end int64) {
	lag := end - l.expected
	quiet := time.Since(l.quietSince)
	if quiet < quietLimit || lag <= 0 {
		l.behind, l.revivals = false, 0
		if lag <= 0 {
			l.quietSince = time.Now() // nothing to deliver: silence is right
		}
		return
	}
	if !l.behind {
		l.behind = true
		return
	}
	l.revivals++
	how := "resumed again"
	switch {
	case low > l.expected:
		how = "moved past records that retention deleted"
		c.gap(l, l.expected, low)
		c.reassign(l, low)
	case !l.everFlowed && l.revivals > 1 && (lag > 1 || !l.reassigned):
		how = "assigned again: its start was lost"
		l.reassigned = true
		c.reassign(l, l.expected)
	}
	// In any case: a start does not lift a pause.
	_ = c.client.Resume([]kafka.TopicPartition{toKafka(l.id(), 0)})
	c.wakeFetchers([]kafka.TopicPartition{toKafka(l.id(), 0)})
	if how == "resumed again" && (lag == 1 || l.revivals > maxDistance) {
		return // the marker at the end of an idle transactional topic is a lag of one for ever, an aborted transaction one of many
	}
	c.tell(observe.Event{Kind: observe.Revived, Topic: l.id().Topic, Partition: l.id().Partition, Offset: l.expected, Count: int(lag), For: quiet, Text: how})
}
