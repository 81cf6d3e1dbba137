package consumer

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/observe"
)

// Paused is a set (law 4): a partition is paused while it has a reason. The desk knows all reasons but backpressure. What should be is held against what
// the client was told, at every assign and every tick; the client is never asked, since it can't answer.

// reconcile tells the client which partitions to pause and to resume.
func (c *Consumer) reconcile(now time.Time) {
	var pause, resume []kafka.TopicPartition
	c.share = (c.cfg.BufferBytes - c.batchBytes()) / int64(max(1, len(c.lanes)))
	restless := false
	var crowd crowd
	c.mu.Lock()
	for p, l := range c.lanes {
		b := l.bytes.Load()
		l.full = b >= c.share || l.full && b > c.share/2
		l.stopped = l.lookingUp || l.gapCheck
		waits := false
		if !l.part.Calm() || c.told[p] {
			restless = true
			all, stop := c.desk.Reasons(l.part, l.records.Load() > 0)
			l.stopped = l.stopped || stop != 0
			waits = all&(decide.ByBreaker|decide.ByHeld) != 0
		}
		crowd.bytes += b
		crowd.full = crowd.full || l.full && !l.stopped
		crowd.flows = crowd.flows || !l.stopped && !waits
	}
	c.slow = c.slowDown(now, crowd)
	for p, l := range c.lanes {
		// Where the poll goroutine slows down, what is not paused yet need not be.
		want := l.stopped || l.full && (!c.slow || c.told[p])
		if l.leaked {
			// The client delivered from a partition that it was told to pause: it has lost the pause (librdkafka#5591). The record is in its lane.
			l.leaked = false
			c.told[p] = false
			c.tell(observe.Event{Kind: observe.PauseLost, Topic: p.Topic, Partition: p.Partition, Offset: l.expected - 1})
		}
		l.paused = want
		if want == c.told[p] && !l.tellAgain {
			continue
		}
		l.tellAgain = false
		c.told[p] = want
		if want {
			pause = append(pause, toKafka(p, 0))
		} else {
			resume = append(resume, toKafka(p, 0))
			l.quietSince, l.checkGap = now, true
			l.behind, l.revivals = false, 0
		}
	}
	c.mu.Unlock()
	c.restless = restless || c.draining.Load() || c.closing
	// Neither says that it failed, and neither has anything to say about a partition that has just gone.
	if len(pause) > 0 {
		_ = c.client.Pause(pause)
	}
	if len(resume) > 0 {
		_ = c.client.Resume(resume)
		c.wakeFetchers(resume)
	}
}

// crowd is what the lanes hold that nothing but memory could pause.
type crowd struct {
	bytes int64
	full  bool // one is full
	flows bool // one may call its records
}

// slowDown says whether to poll rarely, for one record at a time, instead of pausing the lanes that are full. In a short wait that keeps
// what the client has prefetched, which a pause would throw away: a hundred waits of 100 ms fetched a third again as much. It is right only while no
// lane flows, which would starve, and for a second in all until none is full: a rebalance stands in the client's queue behind the records.
func (c *Consumer) slowDown(now time.Time, crowd crowd) bool {
	if !crowd.full {
		c.crowdedSince = time.Time{}
		return false
	}
	if c.crowdedSince.IsZero() {
		c.crowdedSince = now
	}
	return !crowd.flows && crowd.bytes < c.cfg.BufferBytes && now.Sub(c.crowdedSince) < decide.ShortWait
}

// wakeFetchers has the leaders of resumed partitions fetch at once: the client's broker threads sleep for up to a second when nothing wants a
// fetch, and any request wakes them. First record after 20 ms instead of 0.9 s.
func (c *Consumer) wakeFetchers(parts []kafka.TopicPartition) {
	if c.waking.Swap(true) {
		c.wakeAgain.Store(true)
		return
	}
	c.ask(func() {
		c.offsets(parts, atEnd, int(time.Second.Milliseconds()))
		c.waking.Store(false)
		if c.wakeAgain.Swap(false) {
			c.post(func() {
				var flowing []kafka.TopicPartition
				for p := range c.lanes {
					if !c.told[p] {
						flowing = append(flowing, toKafka(p, 0))
					}
				}
				if len(flowing) > 0 {
					c.wakeFetchers(flowing)
				}
			})
		}
	})
}

// reasons is everything that pauses l, for the status.
func (c *Consumer) reasons(l *lane) decide.Reason {
	all, _ := c.desk.Reasons(l.part, l.records.Load() > 0)
	if l.full {
		all |= decide.ByBackpressure
	}
	return all
}
