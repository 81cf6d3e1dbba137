package simkafka

// What goes wrong when a test says so.

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Faults are probabilities, from 0 to 1, of what the client's own races do (librdkafka#5591).
type Faults struct {
	LosePause  float64 // of a partition in a Pause: it goes on flowing
	LoseResume float64 // of a partition in a Resume: it stays silent until a further Resume
	LoseStart  float64 // of a partition that is assigned: it is silent, and only a new assignment revives it
	Stale      float64 // that one more record comes from a partition that is taken away
}

// SetFaults changes the client's faults from now on.
func (c *Client) SetFaults(f Faults) {
	c.k.lock()
	defer c.k.unlock()
	c.opt.Faults = f
}

func (c *Client) happens(chance float64) bool {
	return chance > 0 && c.fault.Float64() < chance
}

// maybeStale lets the next record of a partition that is about to be dropped slip through.
func (c *Client) maybeStale(p *partition) {
	if p.phase == fetching && !p.dead && !p.paused && !c.gone() && !c.closing && c.happens(c.opt.Faults.Stale) {
		if p.fetch(); p.pos < p.ahead && !p.log.records[p.pos].marker {
			c.post(p.message())
		}
	}
}

// Emit has Poll return an event: a transport error, statistics, whatever a test needs.
func (c *Client) Emit(e kafka.Event) {
	c.k.lock()
	defer c.k.unlock()
	c.post(e)
}

// LoseAssignment expires the client's session: its partitions are lost, and it joins again.
func (c *Client) LoseAssignment() {
	c.k.lock()
	defer c.k.unlock()
	if c.memberID != "" {
		c.giveUp()
	}
}

// Fence raises the fatal error that a static member gets when another one takes its place.
func (c *Client) Fence() {
	c.k.lock()
	defer c.k.unlock()
	c.fail(kafka.ErrFencedInstanceID)
}

// Crash is a kill -9: nothing of the client reaches the cluster any more, and the group finds its session expired in time.
// Calls fail or do nothing; Poll waits and returns nil.
func (c *Client) Crash() {
	c.k.lock()
	defer c.k.unlock()
	if c.gone() {
		return
	}
	c.expire(c.lastHeartbeat(c.k.now()) + c.opt.SessionTimeout)
	c.crashed = true
	c.drop(c.assigned)
	c.groupAssignment, c.queue, c.state, c.memberID, c.generation = nil, nil, idle, "", -1
	c.wake()
}

// Kick has the coordinator put a member out, as it does with a session that expired. Its client goes on delivering until
// its next heartbeat tells it. Kick reports whether there is such a member.
func (k *Cluster) Kick(memberID string) bool {
	k.lock()
	defer k.unlock()
	for _, g := range k.sortedGroups() {
		if m := g.member(memberID); m != nil {
			g.remove(m)
			return true
		}
	}
	return false
}

// CoordinatorAway has the group coordinator answer nothing for d: no joins, heartbeats, commits or look-ups of committed
// offsets. Records go on flowing. Classic members whose session ends meanwhile lose their partitions (6.2).
func (k *Cluster) CoordinatorAway(d time.Duration) {
	k.lock()
	defer k.unlock()
	now := k.now()
	if !k.away() {
		k.awaySince = now
	}
	k.coordBack = max(k.coordBack, now+d)
	for _, c := range k.clients {
		id := c.memberID
		end := c.lastHeartbeat(k.awaySince) + c.opt.SessionTimeout
		if id == "" || end >= k.coordBack {
			continue
		}
		k.at(end, func() {
			if k.away() && c.memberID == id {
				c.sessionLost()
			}
		})
	}
}

// FetchAway has the leaders answer nothing for d: no records beyond the prefetch, and no OffsetsForTimes.
func (k *Cluster) FetchAway(d time.Duration) {
	k.lock()
	defer k.unlock()
	k.fetchBack = max(k.fetchBack, k.now()+d)
	for _, c := range k.clients {
		c.wake()
	}
}
