package simkafka

// The client's side of its group.
//
// At most one rebalance waits for the application's *assign call at a time: states awaitAssign and awaitUnassign, from
// the moment at which it is queued for Poll. What else happens to the membership meanwhile is noticed when it is over,
// and then AssignmentLost says nothing (1.5.6). Transitions follow rdkafka_cgrp.c.

import (
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type state int

const (
	idle          state = iota
	joining             // JoinGroup is sent, or about to be
	syncing             // the group waits for its assignment
	awaitAssign         // the application must call *Assign
	awaitUnassign       // the application must call *Unassign
	steady
)

// given is an assignment that a KIP-848 coordinator has sent.
type given struct {
	epoch int
	parts []tp
}

func (c *Client) rebalancing() bool {
	switch c.state {
	case syncing, awaitAssign, awaitUnassign:
		return true
	case joining:
		return c.memberID != "" || c.rejoin || c.follow != nil
	}
	return c.rejoin || c.follow != nil
}

// nextHeartbeat is when the coordinator can next tell the client something.
func (c *Client) nextHeartbeat() time.Duration {
	interval := c.opt.HeartbeatInterval
	return c.k.now() + interval - (c.k.now()-c.beatPhase)%interval
}

func (c *Client) lastHeartbeat(before time.Duration) time.Duration {
	return before - (before-c.beatPhase)%c.opt.HeartbeatInterval
}

// join asks to become, or to be again, a member of the present generation.
func (c *Client) join() {
	if c.gone() || c.closing {
		return
	}
	c.state = joining
	c.joins++
	n := c.joins
	c.k.coordinate(c.k.now()+c.opt.Latency, func() {
		switch {
		case c.joins != n || c.state != joining || c.gone() || c.closing:
		case c.exceeded:
			c.joinAtPoll = true // not before the application polls again
		default:
			c.group.join(c)
		}
	})
}

// refused is a JoinGroup that was answered with a lasting error: it is tried again every second.
func (c *Client) refused(code kafka.ErrorCode) {
	if !c.wasRefused {
		c.wasRefused = true
		c.post(kafka.NewError(code, "JoinGroup failed: "+code.String(), false))
	}
	c.k.after(time.Second, c.join)
}

// joined: the group knows the member, under this generation or epoch.
func (c *Client) joined(memberID string, generation int) {
	if c.gone() || c.closing || c.state != joining || c.memberID != memberID {
		return
	}
	c.wasRefused = false
	c.knowsProtocol = true
	c.generation = generation
	c.beatPhase = c.k.now()
	if c.opt.Protocol == Consumer {
		c.state = steady
	} else {
		c.state = syncing
	}
}

// synced is the answer to SyncGroup: the classic protocols' assignment.
func (c *Client) synced(memberID string, parts []tp) {
	if c.gone() || c.closing || c.state != syncing || c.memberID != memberID {
		return
	}
	if c.eager() {
		c.groupAssignment = slices.Clone(parts)
		if c.groupAssignment == nil {
			c.groupAssignment = []tp{}
		}
		c.rebalance(awaitAssign, parts)
		return
	}
	c.differ(parts)
}

// given is a heartbeat of KIP-848 that was answered with an assignment.
func (c *Client) given(memberID string, epoch int, parts []tp) {
	if c.gone() || c.closing || c.memberID != memberID {
		return
	}
	c.generation = epoch
	if c.state != steady {
		c.target = &given{epoch, parts}
		return
	}
	c.take(parts)
}

func (c *Client) take(parts []tp) {
	if slices.Equal(parts, c.groupAssignment) {
		c.settled()
		return
	}
	c.differ(parts)
}

// differ turns an assignment into the incremental callbacks: what goes first, then what comes, which may be nothing.
func (c *Client) differ(parts []tp) {
	goes, comes := subtract(c.groupAssignment, parts), subtract(parts, c.groupAssignment)
	if len(goes) == 0 {
		c.rebalance(awaitAssign, comes)
		return
	}
	c.follow = &comes
	c.rebalance(awaitUnassign, goes)
}

// rebalance queues a callback and stops the fetching of all that is assigned until it is answered.
func (c *Client) rebalance(await state, parts []tp) {
	c.state = await
	if !c.eager() {
		if await == awaitAssign {
			c.groupAssignment = append(subtract(c.groupAssignment, parts), parts...)
			slices.SortFunc(c.groupAssignment, tp.compare)
		} else {
			c.groupAssignment = subtract(c.groupAssignment, parts)
		}
	} else if await == awaitUnassign {
		c.groupAssignment = nil
	}
	for _, p := range c.assigned {
		p.held = true
		p.purge()
	}
	c.queue = append(c.queue, item{rebalance: &rebalance{await == awaitAssign, c.k.list(parts)}})
	c.wake()
}

// rebalanceInProgress is what a heartbeat answers while the group prepares a rebalance.
func (c *Client) rebalanceInProgress() {
	if c.gone() || c.closing || c.rebalancing() {
		return
	}
	if c.eager() && c.groupAssignment != nil {
		c.rebalance(awaitUnassign, c.groupAssignment)
		return
	}
	c.join()
}

// unknownMember is what a heartbeat answers when the coordinator has put the member out.
func (c *Client) unknownMember(id string) {
	if c.gone() || c.memberID != id {
		return
	}
	c.memberID, c.generation = "", -1
	if c.state == joining {
		c.join()
	} else {
		c.lose()
	}
}

// lose: the partitions may be somebody else's by now.
func (c *Client) lose() {
	if c.gone() || c.closing {
		return
	}
	if c.state == syncing {
		c.join() // its SyncGroup is answered with UNKNOWN_MEMBER_ID
		return
	}
	if c.rebalancing() {
		return
	}
	c.target = nil
	if c.groupAssignment == nil || !c.eager() && len(c.groupAssignment) == 0 {
		c.join()
		return
	}
	c.lost = true
	c.rejoin = !c.eager()
	c.rebalance(awaitUnassign, c.groupAssignment)
}

// sessionLost: the coordinator has not answered for a session timeout. A member of KIP-848 does not mind (1.9).
func (c *Client) sessionLost() {
	if c.gone() || c.closing || c.state != steady || c.memberID == "" || c.opt.Protocol == Consumer {
		return
	}
	c.giveUp()
}

// giveUp forgets the membership on the client's side; the coordinator finds the session expired.
func (c *Client) giveUp() {
	if m := c.group.member(c.memberID); m != nil {
		c.k.coordinate(0, func() { c.group.remove(m) })
	}
	c.memberID, c.generation = "", -1
	c.lose()
}

// answered: the application has made the call that the rebalance waited for.
func (c *Client) answered() {
	was := c.state
	for _, p := range c.assigned {
		if p.held {
			p.held = false
			p.delay(time.Duration(c.net.Int64N(int64(500 * time.Millisecond)))) // a fetch of before is still to return
		}
	}
	switch {
	case c.closing:
		c.leave()
	case was == awaitUnassign && c.follow != nil:
		comes := *c.follow
		c.follow = nil
		c.rejoin = c.opt.Protocol == Cooperative
		c.rebalance(awaitAssign, comes)
	case was == awaitUnassign, c.rejoin:
		c.rejoin = false
		c.join()
	default:
		c.state = steady
		c.settled()
	}
}

// settled: no rebalance is under way; catch up on what was missed meanwhile.
func (c *Client) settled() {
	c.watchPoll()
	if c.target != nil {
		parts := c.target.parts
		c.target = nil
		c.take(parts)
		return
	}
	m := c.group.member(c.memberID)
	switch {
	case c.memberID == "":
		c.k.coordinate(c.nextHeartbeat(), func() {
			if c.memberID == "" && c.state == steady {
				c.lose()
			}
		})
	case m == nil:
		id := c.memberID
		c.k.coordinate(c.nextHeartbeat(), func() { c.unknownMember(id) })
	case c.opt.Protocol == Consumer:
		holds := slices.Clone(c.groupAssignment)
		c.k.coordinate(c.k.now()+c.opt.Latency, func() { c.group.acknowledge(m, holds) })
	case c.k.away() && c.k.now() >= c.lastHeartbeat(c.k.awaySince)+c.opt.SessionTimeout:
		c.sessionLost()
	case c.group.state == preparing && !m.joined:
		c.group.call(m)
	}
}

// fail is a fatal error: said once, and then nothing more happens, for ever (1.8.1).
func (c *Client) fail(code kafka.ErrorCode) {
	if c.gone() {
		return
	}
	c.fatal = true
	c.drop(c.assigned)
	c.groupAssignment, c.memberID, c.generation, c.state = nil, "", -1, idle
	c.follow, c.rejoin, c.target, c.lost = nil, false, nil, false
	c.queue = []item{{event: kafka.NewError(code, code.String(), true)}}
	c.wake()
}
