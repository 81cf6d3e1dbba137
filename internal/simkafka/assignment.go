package simkafka

// What the application has assigned, as rdkafka_assignment.c keeps it: partitions are added, wait until no commit is
// under way and their committed offset is known, and are started.

import (
	"fmt"
	"slices"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type change int

const (
	assignAll change = iota
	assignMore
	unassignAll
	unassignSome
)

// Assign replaces the assignment. Only for Range (1.5.3).
func (c *Client) Assign(parts []kafka.TopicPartition) error {
	if err := c.change("Assign", assignAll, parts); err != nil {
		return errorOf(err.(kafka.Error).Code()) // this call's error has no text
	}
	return nil
}

// Unassign empties the assignment. Only for Range.
func (c *Client) Unassign() error {
	if err := c.change("Unassign", unassignAll, nil); err != nil {
		return errorOf(err.(kafka.Error).Code())
	}
	return nil
}

// IncrementalAssign adds to the assignment. Not for Range.
func (c *Client) IncrementalAssign(parts []kafka.TopicPartition) error {
	return c.change("IncrementalAssign", assignMore, parts)
}

// IncrementalUnassign takes from the assignment. Not for Range.
func (c *Client) IncrementalUnassign(parts []kafka.TopicPartition) error {
	return c.change("IncrementalUnassign", unassignSome, parts)
}

// Assignment is what is assigned, with the offsets that were asked for.
func (c *Client) Assignment() ([]kafka.TopicPartition, error) {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return nil, errClosed
	}
	all := make([]kafka.TopicPartition, len(c.assigned))
	for i, p := range c.assigned {
		all[i] = p.named(p.from)
	}
	return all, nil
}

func (c *Client) change(call string, what change, parts []kafka.TopicPartition) error {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return errClosed
	}
	c.changes(call)
	c.reassigned = true // even when it fails (1.5.2)
	incremental := what == assignMore || what == unassignSome
	answers := awaitAssign
	switch {
	case c.fatal || c.closing || c.crashed:
		// Whatever is asked for, everything goes.
		what, answers = unassignAll, c.state
	case c.knowsProtocol && !c.eager() && !incremental:
		return kafka.NewError(kafka.ErrState, "Changes to the current assignment must be made using incremental_assign() or incremental_unassign() when rebalance protocol type is COOPERATIVE", false)
	case c.knowsProtocol && c.eager() && incremental:
		return kafka.NewError(kafka.ErrState, "Changes to the current assignment must be made using assign() when rebalance protocol type is EAGER", false)
	case what == unassignAll || what == unassignSome:
		answers = awaitUnassign
	}
	var err error
	switch what {
	case assignAll:
		c.drop(c.assigned)
		err = c.add(parts)
	case assignMore:
		err = c.add(parts)
	case unassignAll:
		c.drop(c.assigned)
	case unassignSome:
		err = c.subtract(parts)
	}
	if err != nil {
		return err
	}
	c.lost = false
	if c.state == answers && (c.state == awaitAssign || c.state == awaitUnassign) {
		c.answered()
	}
	c.serve()
	return nil
}

func (c *Client) add(parts []kafka.TopicPartition) error {
	fresh := make([]*partition, 0, len(parts))
	for _, want := range parts {
		id := tp{*want.Topic, want.Partition}
		p := c.partitions[id]
		switch {
		case want.Offset < 0 && !slices.Contains([]kafka.Offset{kafka.OffsetBeginning, kafka.OffsetEnd, kafka.OffsetStored, kafka.OffsetInvalid}, want.Offset):
			return kafka.NewError(kafka.ErrInvalidArg, fmt.Sprintf("%s [%d] has invalid start offset %d", id.topic, id.partition, int64(want.Offset)), false)
		case slices.ContainsFunc(fresh, func(q *partition) bool { return q.tp == id }):
			return kafka.NewError(kafka.ErrInvalidArg, fmt.Sprintf("Duplicate %s [%d] in input list", id.topic, id.partition), false)
		case p != nil && p.assigned:
			return kafka.NewError(kafka.ErrConflict, fmt.Sprintf("%s [%d] is already part of the current assignment", id.topic, id.partition), false)
		case p == nil:
			log := c.k.mustLog(id)
			p = &partition{c: c, tp: id, name: c.k.topics[id.topic].name, log: log, committed: kafka.OffsetInvalid}
		}
		p.from = want.Offset
		if p.from == kafka.OffsetInvalid {
			p.from = kafka.OffsetStored
		}
		fresh = append(fresh, p)
	}
	for _, p := range fresh {
		c.partitions[p.tp] = p
		p.assigned, p.phase, p.stored, p.app = true, pending, kafka.OffsetInvalid, kafka.OffsetInvalid
	}
	c.assigned = append(c.assigned, fresh...)
	slices.SortFunc(c.assigned, func(a, b *partition) int { return a.tp.compare(b.tp) })
	return nil
}

func (c *Client) subtract(parts []kafka.TopicPartition) error {
	if len(c.assigned) == 0 && len(parts) > 0 {
		return kafka.NewError(kafka.ErrInvalidArg, "Can't subtract from empty assignment", false)
	}
	var out []*partition
	for _, want := range parts {
		p := c.partitions[tp{*want.Topic, want.Partition}]
		if p == nil || !p.assigned {
			return kafka.NewError(kafka.ErrInvalidArg, fmt.Sprintf("%s [%d] can't be unassigned since it is not in the current assignment", *want.Topic, want.Partition), false)
		}
		out = append(out, p)
	}
	c.drop(out)
	return nil
}

// drop ends partitions' assignment. Their stored offsets go with it, committed first where that happens by itself.
func (c *Client) drop(out []*partition) {
	if c.opt.AutoCommit && !c.lost && !c.fatal && !c.crashed {
		c.autoCommit(out)
	}
	out = slices.Clone(out)
	for _, p := range out {
		c.maybeStale(p)
		p.assigned, p.phase, p.held, p.dead = false, none, false, false
		p.stored, p.app = kafka.OffsetInvalid, kafka.OffsetInvalid
		p.epoch++
		p.purge()
	}
	c.assigned = slices.DeleteFunc(c.assigned, func(p *partition) bool { return !p.assigned })
	c.burst = 0
}

// serve starts what can be started. Commits that are under way hold it up (1.7.3).
func (c *Client) serve() {
	if c.commits > 0 {
		return
	}
	for _, p := range c.assigned {
		if p.phase != pending {
			continue
		}
		if p.from != kafka.OffsetStored {
			p.begin(p.from)
			continue
		}
		p.phase = querying
		epoch := p.epoch
		c.k.coordinate(c.k.now()+c.opt.Latency, func() {
			if p.epoch == epoch && p.phase == querying {
				p.committed = c.group.offset(p.tp)
				p.begin(p.committed)
			}
		})
	}
}
