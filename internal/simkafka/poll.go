package simkafka

// Poll, the callbacks that run inside it, max.poll.interval.ms, and Close.
//
// What is queued comes before records: a rebalance that is queued has purged all that was prefetched, and no record of an
// assignment comes after its revoke.

import (
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// item is what waits for Poll: an event, or a rebalance.
type item struct {
	event     kafka.Event
	rebalance *rebalance
}

type rebalance struct {
	assigned bool
	parts    []kafka.TopicPartition
}

func (c *Client) post(e kafka.Event) {
	c.queue = append(c.queue, item{event: e})
	c.wake()
}

// Poll returns the next event, or nil when the timeout has passed, when a rebalance was served, or when a fatal error was
// said (then for ever). A negative timeout waits for ever.
func (c *Client) Poll(timeoutMs int) kafka.Event {
	c.k.lock()
	defer c.k.unlock()
	if c.closed || c.closing {
		panic("simkafka: Poll during or after Close crashes the real client (confluent-kafka-go#1569); let the poll loop end first")
	}
	return c.poll(timeoutMs)
}

func (c *Client) poll(timeoutMs int) kafka.Event {
	if c.polling {
		panic("simkafka: two goroutines are in Poll")
	}
	c.polling = true
	defer func() {
		c.polling = false
		c.lastPoll = c.k.now()
	}()
	if c.exceeded {
		c.exceeded = false
		c.watchPoll()
		if c.joinAtPoll {
			c.joinAtPoll = false
			c.join()
		}
	}
	deadline := c.k.now() + time.Duration(timeoutMs)*time.Millisecond
	for {
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			if next.rebalance == nil {
				return next.event
			}
			c.call(next.rebalance)
			return nil
		}
		if m := c.nextRecord(); m != nil {
			return m
		}
		if len(c.queue) > 0 {
			continue // the look for a record has failed with an event
		}
		until := c.nextReady()
		if timeoutMs >= 0 {
			if c.k.now() >= deadline {
				return nil
			}
			if until < 0 || until > deadline {
				until = deadline
			}
		}
		c.sleep(until)
		if c.left || until < 0 && c.isStopped() {
			return nil
		}
	}
}

// sleep lets the mutex go until an instant, or for ever, or until something has happened.
func (c *Client) sleep(until time.Duration) {
	stopped := c.k.stopped
	if until >= 0 {
		c.timer.Reset(until - c.k.now())
		stopped = nil
	}
	c.k.unlock()
	select {
	case <-c.woken:
	case <-c.timer.C:
	case <-stopped:
	}
	c.timer.Stop()
	c.k.lock()
}

// call runs the application's callback, and answers the rebalance where that has not. The callback's time counts as time
// without a poll (1.5.7), and its error goes nowhere (1.5.1).
func (c *Client) call(r *rebalance) {
	c.reassigned = false
	if c.cb != nil {
		var e kafka.Event = kafka.RevokedPartitions{Partitions: r.parts}
		if r.assigned {
			e = kafka.AssignedPartitions{Partitions: r.parts}
		}
		c.inCallback = true
		c.lastPoll = c.k.now()
		c.k.unlock()
		_ = c.cb(nil, e)
		c.k.lock()
		c.inCallback = false
	}
	if c.reassigned {
		return
	}
	var err error
	c.inCallback = true
	c.k.unlock()
	switch {
	case r.assigned && c.eager():
		err = c.Assign(r.parts)
	case r.assigned:
		err = c.IncrementalAssign(r.parts)
	case c.eager():
		err = c.Unassign()
	default:
		err = c.IncrementalUnassign(r.parts)
	}
	c.k.lock()
	c.inCallback = false
	if err != nil {
		panic(fmt.Sprintf("simkafka: the binding's own answer to a rebalance failed (%v): the real Poll blocks for ever now (1.5.4)", err))
	}
}

// watchPoll plans the check of max.poll.interval.ms. The client looks twice a second.
func (c *Client) watchPoll() {
	if c.watching || c.exceeded || c.gone() {
		return
	}
	c.watching = true
	const beat = 500 * time.Millisecond
	due := (c.lastPoll+c.opt.MaxPollInterval)/beat*beat + beat
	c.k.at(due, func() {
		c.watching = false
		if c.polling && !c.inCallback {
			c.lastPoll = c.k.now()
		}
		over := c.k.now() - c.lastPoll - c.opt.MaxPollInterval
		switch {
		case c.gone() || c.closing:
		case over <= 0:
			c.watchPoll()
		default:
			c.exceed(over)
		}
	})
}

// exceed is what happens to a client that was not polled: it says so, leaves the group, and takes its partitions for
// lost, unless a rebalance is under way already (1.6.2, 1.5.6). A static member does not leave: its heartbeats end, and
// the coordinator waits for the session to expire (1.6.3).
func (c *Client) exceed(over time.Duration) {
	c.exceeded = true
	c.post(kafka.NewError(kafka.ErrMaxPollExceeded, fmt.Sprintf("Application maximum poll interval (%dms) exceeded by %dms", c.opt.MaxPollInterval.Milliseconds(), over.Milliseconds()), false))
	if c.opt.InstanceID == "" {
		c.leaveGroup()
	} else {
		c.expire(c.k.now() + c.opt.SessionTimeout)
	}
	c.memberID, c.generation = "", -1
	c.lose()
}

// leaveGroup sends LeaveGroup.
func (c *Client) leaveGroup() {
	if m := c.group.member(c.memberID); m != nil {
		c.k.coordinate(c.k.now()+c.opt.Latency, func() { c.group.remove(m) })
	}
}

// expire has the coordinator put the member out at an instant, for its heartbeats have ended.
func (c *Client) expire(at time.Duration) {
	if m := c.group.member(c.memberID); m != nil {
		c.k.coordinate(at, func() { c.group.remove(m) })
	}
}

// Close revokes what is assigned, with a callback, leaves the group and ends the client. A static member does not leave
// (1.8.2). With the coordinator away it takes up to five seconds; after a fatal error it hangs until Cluster.Stop (1.8.1).
func (c *Client) Close() error {
	c.k.lock()
	defer c.k.unlock()
	switch {
	case c.closed:
		return errClosed
	case c.closing:
		return kafka.NewError(kafka.ErrState, "Consumer is already closing", false)
	case c.polling:
		panic("simkafka: Close while another goroutine polls crashes the real client (confluent-kafka-go#1569)")
	}
	c.closing = true
	if c.fatal {
		c.k.unlock()
		<-c.k.stopped
		c.k.lock()
	} else if !c.crashed {
		c.terminate()
		for !c.left && !c.isStopped() {
			c.poll(100) // what comes is thrown away
		}
	}
	if c.blocking > 0 {
		c.misuse = append(c.misuse, fmt.Sprintf("Close ends while %d calls are under way", c.blocking))
	}
	c.drop(c.assigned)
	c.closed = true
	return nil
}

func (c *Client) isStopped() bool {
	select {
	case <-c.k.stopped:
		return true
	default:
		return false
	}
}

// terminate begins the end. What waits for an answer already is served, and in place of an assignment comes none. The rest
// is revoked: under the incremental protocols behind what waits, under Range only when nothing does.
func (c *Client) terminate() {
	waits := c.state == awaitAssign || c.state == awaitUnassign
	switch {
	case c.eager() && c.groupAssignment != nil && !waits, !c.eager() && len(c.groupAssignment) > 0:
		c.rebalance(awaitUnassign, c.groupAssignment)
	case !waits:
		c.leave()
	}
}

// leave ends the membership.
func (c *Client) leave() {
	c.state = idle
	if c.opt.InstanceID == "" {
		c.leaveGroup()
	} else {
		c.expire(c.lastHeartbeat(c.k.now()) + c.opt.SessionTimeout)
	}
	wait := min(max(c.opt.Latency, c.k.coordBack-c.k.now()), 5*time.Second)
	c.k.after(wait, func() {
		c.left = true
		c.wake()
	})
}
