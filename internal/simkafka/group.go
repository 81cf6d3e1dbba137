package simkafka

// The coordinator's side of a group, classic protocols.
//
// preparing: members are asked to join again, each at its next heartbeat, and the rebalance waits for the last of them,
// at most for the longest max.poll.interval.ms; so one slow callback holds up the whole group (1.5.7). completing: the
// assignment is on its way; commits are refused. stable: it is in force. KIP-848 groups are in epochs.go.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type group struct {
	k          *Cluster
	name       string
	rng        *rand.Rand
	protocol   string // of its members; any when there are none
	state      groupState
	generation int
	rebalances int
	members    []*member // sorted by id
	offsets    map[tp]kafka.Offset
}

type groupState int

const (
	empty groupState = iota
	preparing
	completing
	stable
)

type member struct {
	id, instance string
	client       *Client
	topics       []string
	owned        []tp // what the coordinator has given it

	joined bool // classic: has answered the call to join

	// KIP-848, see epochs.go
	epoch    int
	target   []tp
	sent     []tp // what it was last told to hold
	revoking bool // it has been told to hold less than it owns
	revokes  int  // how many have begun
}

func (g *group) offset(p tp) kafka.Offset {
	if o, ok := g.offsets[p]; ok {
		return o
	}
	return kafka.OffsetInvalid
}

func (g *group) member(id string) *member {
	for _, m := range g.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

func (g *group) instance(id string) *member {
	for _, m := range g.members {
		if id != "" && m.instance == id {
			return m
		}
	}
	return nil
}

// join is a JoinGroup request, or the first heartbeat of KIP-848.
func (g *group) join(c *Client) {
	if len(g.members) == 0 {
		g.protocol = c.opt.Protocol
	}
	if g.protocol != c.opt.Protocol {
		c.refused(kafka.ErrInconsistentGroupProtocol) // 6.3: never joins while one of the others lives
		return
	}
	m := g.member(c.memberID)
	if m != nil {
		m.owned = slices.Clone(c.groupAssignment)
	} else {
		c.memberID, c.generation = "", -1
		if m = g.instance(c.opt.InstanceID); m != nil {
			if !g.replace(m, c) {
				return
			}
		} else {
			m = g.add(c)
		}
	}
	if g.protocol == Consumer {
		g.joinEpoch(m)
		return
	}
	g.prepare()
	m.joined = true
	g.maybeComplete()
}

func (g *group) add(c *Client) *member {
	m := &member{id: fmt.Sprintf("%08x-%s", g.rng.Uint32(), c.opt.ClientID), instance: c.opt.InstanceID, client: c, topics: c.topics}
	c.memberID = m.id
	g.members = append(g.members, m)
	slices.SortFunc(g.members, func(a, b *member) int { return cmp.Compare(a.id, b.id) })
	return m
}

// replace gives the place of a static member to c, and reports whether c goes on to join. Under the classic protocols the
// newcomer wins and the other is fenced; in a stable group it is given the same partitions at once. Under KIP-848 the
// one that lives wins (1.8.2).
func (g *group) replace(m *member, c *Client) bool {
	old := m.client
	lives := old != c && !old.gone()
	if g.protocol == Consumer && lives {
		c.fail(kafka.ErrUnreleasedInstanceID)
		return false
	}
	if lives {
		g.k.coordinate(old.nextHeartbeat(), func() { old.fail(kafka.ErrFencedInstanceID) })
	}
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
	fresh := g.add(c)
	fresh.owned, fresh.target = m.owned, m.target
	if g.protocol == Consumer || g.state != stable {
		return true
	}
	fresh.joined = true
	c.joined(fresh.id, g.generation)
	g.k.after(c.opt.Latency, func() {
		if g.state == stable {
			c.synced(fresh.id, fresh.owned)
		}
	})
	return false
}

// prepare calls all members to join again.
func (g *group) prepare() {
	if g.state == preparing {
		return
	}
	g.rebalances++
	g.state = preparing
	generation := g.generation
	var patience time.Duration
	for _, m := range g.members {
		m.joined = false
		patience = max(patience, m.client.opt.MaxPollInterval)
		if m.client.state == syncing {
			m.client.join() // its SyncGroup is answered with REBALANCE_IN_PROGRESS
			continue
		}
		g.call(m)
	}
	g.k.coordinate(g.k.now()+patience, func() {
		if g.state == preparing && g.generation == generation {
			g.complete()
		}
	})
}

// call tells a member about the rebalance, with its next heartbeat.
func (g *group) call(m *member) {
	g.k.coordinate(m.client.nextHeartbeat(), func() {
		if g.state == preparing && !m.joined && g.member(m.id) == m && m.client.memberID == m.id {
			m.client.rebalanceInProgress()
		}
	})
}

func (g *group) maybeComplete() {
	if g.state == preparing && !slices.ContainsFunc(g.members, func(m *member) bool { return !m.joined }) {
		g.complete()
	}
}

// complete ends the wait for joins: those who did not come are out.
func (g *group) complete() {
	for _, m := range slices.Clone(g.members) {
		if !m.joined {
			g.expel(m)
		}
	}
	g.generation++
	generation := g.generation
	if len(g.members) == 0 {
		g.state = empty
		return
	}
	g.state = completing
	for _, m := range g.members {
		m.client.joined(m.id, generation)
	}
	delay := g.k.minDelay
	if g.k.maxDelay > g.k.minDelay {
		delay += time.Duration(g.rng.Int64N(int64(g.k.maxDelay - g.k.minDelay)))
	}
	g.k.coordinate(g.k.now()+delay, func() {
		if g.state != completing || g.generation != generation {
			return
		}
		g.state = stable
		g.assign()
		for _, m := range g.members {
			m.client.synced(m.id, m.owned)
		}
	})
}

// assign shares the partitions out. Under cooperative-sticky a partition that moves is given to nobody until its old owner
// has joined again without it.
func (g *group) assign() {
	parts := g.partitions()
	if g.protocol == Range {
		assignRange(parts, g.members)
		return
	}
	owner := map[tp]*member{}
	for _, m := range g.members {
		for _, p := range m.owned {
			owner[p] = m
		}
	}
	for m, ps := range assignSticky(parts, g.members, func(m *member) []tp { return m.owned }) {
		m.owned = slices.DeleteFunc(ps, func(p tp) bool { return owner[p] != nil && owner[p] != m })
	}
}

// partitions are those of all topics that a member wants, sorted.
func (g *group) partitions() []tp {
	var ps []tp
	for name, t := range g.k.topics {
		if slices.ContainsFunc(g.members, func(m *member) bool { return slices.Contains(m.topics, name) }) {
			for i := range t.logs {
				ps = append(ps, tp{name, int32(i)})
			}
		}
	}
	slices.SortFunc(ps, tp.compare)
	return ps
}

// remove takes a member out of the group, which then rebalances.
func (g *group) remove(m *member) {
	if g.member(m.id) != m {
		return
	}
	g.expel(m)
	switch {
	case len(g.members) == 0:
		g.generation++
		g.state = empty
	case g.protocol == Consumer:
		g.retarget()
	case g.state == preparing:
		g.maybeComplete()
	default:
		g.prepare()
	}
}

// expel takes a member out; its client learns it with its next heartbeat.
func (g *group) expel(m *member) {
	g.members = slices.DeleteFunc(g.members, func(x *member) bool { return x == m })
	g.k.coordinate(m.client.nextHeartbeat(), func() { m.client.unknownMember(m.id) })
}

func (g *group) topicChanged(name string) {
	if !slices.ContainsFunc(g.members, func(m *member) bool { return slices.Contains(m.topics, name) }) {
		return
	}
	if g.protocol == Consumer {
		g.retarget()
	} else {
		g.prepare()
	}
}

// admits is the coordinator's check of a commit. It looks at the membership, never at who owns a partition (1.7.1).
func (g *group) admits(memberID, instance string, generation int) kafka.ErrorCode {
	m := g.member(memberID)
	switch {
	case generation < 0 && len(g.members) == 0:
		return kafka.ErrNoError
	case m == nil && g.instance(instance) != nil:
		return kafka.ErrFencedInstanceID
	case m == nil:
		return kafka.ErrUnknownMemberID
	case g.protocol == Consumer:
		if generation != m.epoch {
			return kafka.ErrStaleMemberEpoch // 1.7.7
		}
	case generation != g.generation:
		return kafka.ErrIllegalGeneration
	case g.state == completing:
		return kafka.ErrRebalanceInProgress // 1.7.4
	}
	return kafka.ErrNoError
}

func (g *group) commit(memberID string, offsets []storedOffset) {
	for _, o := range offsets {
		if g.k.onCommit != nil {
			g.k.onCommit(Commit{g.name, memberID, o.tp.topic, o.tp.partition, g.offset(o.tp), o.offset})
		}
		g.offsets[o.tp] = o.offset
	}
}
