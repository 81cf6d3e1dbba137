package simkafka

// Stored and committed offsets, and what is asked of the brokers.
//
// A commit takes its offsets when it is called. Its answer may be long in coming: while the coordinator is away the
// request waits, at most for a session timeout, and nobody can tell then whether it was done (1.7.2).

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type storedOffset struct {
	tp     tp
	offset kafka.Offset
}

// StoreOffsets stores offsets for the next commit. Each that could not be stored says so in its Error; the call fails only
// where none could (1.4.4). With AutoOffsetStore it is refused, and so an empty list tells the setting (6.3).
func (c *Client) StoreOffsets(offsets []kafka.TopicPartition) ([]kafka.TopicPartition, error) {
	if c.opt.AutoOffsetStore {
		out, err := c.look(offsets, func(*partition, *kafka.TopicPartition) {})
		if err == nil {
			err = errorOf(kafka.ErrInvalidArg)
		}
		return out, err
	}
	var last error
	stored := 0
	out, err := c.look(offsets, func(p *partition, r *kafka.TopicPartition) {
		c.changes("StoreOffsets")
		switch {
		case p == nil:
			r.Error = errorOf(kafka.ErrUnknownPartition)
		case !p.assigned:
			r.Error = errorOf(kafka.ErrState)
		default:
			p.stored = r.Offset
			stored++
		}
		if r.Error != nil {
			last = r.Error
		}
	})
	if err == nil && stored == 0 {
		err = last
	}
	return out, err
}

// commit is a request under way.
type commit struct {
	offsets    []storedOffset
	list       []kafka.TopicPartition // for the answer
	memberID   string
	generation int
	sentAt     time.Duration
	waited     bool // for the coordinator
	answered   bool
	answer     func(error)
}

// Commit commits the stored offsets of all that is assigned and has moved since the last commit. The answer lists the
// whole assignment, unset where nothing was committed. It blocks until the coordinator has answered.
func (c *Client) Commit() ([]kafka.TopicPartition, error) {
	c.k.lock()
	defer c.k.unlock()
	switch {
	case c.closed:
		return nil, errClosed
	case c.crashed:
		return nil, errorOf(kafka.ErrDestroy)
	case c.lost && len(c.assigned) > 0:
		return nil, errorOf(kafka.ErrAssignmentLost)
	}
	r := c.newCommit(c.assigned)
	switch {
	case c.fatal:
		return nil, errorOf(kafka.ErrFatal) // which does not say that it is fatal (1.7.6)
	case len(r.offsets) == 0:
		return nil, errorOf(kafka.ErrNoOffset) // 1.7.5
	}
	done := make(chan error, 1)
	r.answer = func(err error) { done <- err }
	c.send(r)
	c.blocking++
	c.k.unlock()
	var err error
	select {
	case err = <-done:
	case <-c.k.stopped:
		err = errorOf(kafka.ErrDestroy)
	}
	c.k.lock()
	c.blocking--
	if err != nil {
		return nil, err
	}
	return r.list, nil
}

func (c *Client) newCommit(of []*partition) *commit {
	r := &commit{}
	for _, p := range of {
		named := p.named(kafka.OffsetInvalid)
		if p.stored >= 0 && p.stored > p.committed {
			named.Offset = p.stored
			r.offsets = append(r.offsets, storedOffset{p.tp, p.stored})
		}
		r.list = append(r.list, named)
	}
	return r
}

func (c *Client) send(r *commit) {
	c.commits++
	r.sentAt = c.k.now()
	r.memberID, r.generation = c.memberID, c.generation
	c.deliver(r)
}

// deliver brings the request to the coordinator, or has it wait for one.
func (c *Client) deliver(r *commit) {
	if !c.k.away() {
		c.k.after(c.opt.Latency, func() {
			if c.k.away() {
				c.deliver(r)
			} else {
				c.arrive(r)
			}
		})
		return
	}
	if !r.waited {
		r.waited = true
		c.k.at(r.sentAt+c.opt.SessionTimeout, func() {
			if !r.answered {
				c.finish(r, errorOf(kafka.ErrWaitCoord))
			}
		})
	}
	c.k.coordinate(c.k.coordBack, func() {
		switch {
		case !r.answered:
			r.memberID, r.generation = c.memberID, c.generation
			c.deliver(r)
		case c.net.IntN(2) == 0:
			c.arrive(r) // it lay in the coordinator's socket: given up here, done there
		}
	})
}

func (c *Client) arrive(r *commit) {
	code := c.group.admits(r.memberID, c.opt.InstanceID, r.generation)
	if code == kafka.ErrNoError {
		c.group.commit(r.memberID, r.offsets)
	}
	if r.answered {
		return
	}
	if code != kafka.ErrNoError {
		c.finish(r, errorOf(code))
		c.commitRefused(r, code)
		return
	}
	for _, o := range r.offsets {
		c.partitions[o.tp].committed = o.offset
	}
	c.finish(r, nil)
}

func (c *Client) finish(r *commit, err error) {
	r.answered = true
	c.commits--
	r.answer(err)
	c.serve()
}

// commitRefused is what the client makes of a refusal: some tell it that it is no member any more.
func (c *Client) commitRefused(r *commit, code kafka.ErrorCode) {
	switch code {
	case kafka.ErrFencedInstanceID:
		c.fail(code)
	case kafka.ErrUnknownMemberID:
		if c.opt.Protocol != Consumer && c.memberID == r.memberID {
			c.unknownMember(r.memberID)
		}
	case kafka.ErrIllegalGeneration:
		if !c.rebalancing() {
			c.generation = -1
			c.lose()
		}
	}
}

func (c *Client) planAutoCommit() {
	if !c.opt.AutoCommit {
		return
	}
	c.k.after(c.opt.AutoCommitInterval, func() {
		if c.gone() || c.closing {
			return
		}
		if c.state == steady && !c.lost {
			c.autoCommit(c.assigned)
		}
		c.planAutoCommit()
	})
}

// autoCommit commits without anybody waiting; Poll tells the outcome.
func (c *Client) autoCommit(of []*partition) {
	r := c.newCommit(of)
	if len(r.offsets) == 0 {
		return
	}
	r.answer = func(err error) {
		if !c.gone() {
			c.post(kafka.OffsetsCommitted{Error: err, Offsets: r.list})
		}
	}
	c.send(r)
}

// Committed asks the coordinator what the group has committed. It fails with ErrTimedOut when that is away.
func (c *Client) Committed(parts []kafka.TopicPartition, timeoutMs int) ([]kafka.TopicPartition, error) {
	c.k.lock()
	defer c.k.unlock()
	if err := c.ask(timeoutMs, func() time.Duration { return c.k.coordBack }); err != nil {
		return nil, err
	}
	out := make([]kafka.TopicPartition, len(parts))
	for i, p := range parts {
		out[i] = kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition, Offset: c.group.offset(tp{*p.Topic, p.Partition})}
	}
	return out, nil
}

// OffsetsForTimes asks the partitions' leaders for the first offset at or after a time in milliseconds; -1 is the end and
// -2 the start. As it is sent it wakes the fetchers of those leaders (6.3).
func (c *Client) OffsetsForTimes(times []kafka.TopicPartition, timeoutMs int) ([]kafka.TopicPartition, error) {
	c.k.lock()
	defer c.k.unlock()
	if !c.closed {
		c.wakeLeaders(times)
	}
	if err := c.ask(timeoutMs, func() time.Duration { return c.k.fetchBack }); err != nil {
		return nil, err
	}
	out := make([]kafka.TopicPartition, len(times))
	for i, p := range times {
		log := c.k.log(tp{*p.Topic, p.Partition})
		if log == nil {
			return nil, errorOf(kafka.ErrUnknownPartition)
		}
		out[i] = kafka.TopicPartition{Topic: p.Topic, Partition: p.Partition, Offset: log.lookUp(p.Offset)}
	}
	return out, nil
}

func (l *partitionLog) lookUp(at kafka.Offset) kafka.Offset {
	switch at {
	case kafka.OffsetEnd:
		return kafka.Offset(l.end())
	case kafka.OffsetBeginning:
		return kafka.Offset(l.first)
	}
	for o := l.first; o < l.end(); o++ {
		if r := l.records[o]; !r.marker && r.timestamp.UnixMilli() >= int64(at) {
			return kafka.Offset(o)
		}
	}
	return kafka.OffsetEnd
}

// ask blocks for a round trip to a broker that answers from an instant on, and fails when that takes too long.
func (c *Client) ask(timeoutMs int, back func() time.Duration) error {
	if c.closed {
		return errClosed
	}
	if c.crashed {
		return errorOf(kafka.ErrDestroy)
	}
	c.blocking++
	defer func() { c.blocking-- }()
	start := c.k.now()
	for {
		at := max(start, back()) + c.opt.Latency
		deadline := start + time.Duration(timeoutMs)*time.Millisecond
		late := timeoutMs >= 0 && at > deadline
		if late {
			at = deadline
		}
		if at <= c.k.now() {
			if late {
				return errorOf(kafka.ErrTimedOut)
			}
			return nil
		}
		timer := time.NewTimer(at - c.k.now())
		c.k.unlock()
		select {
		case <-timer.C:
		case <-c.k.stopped:
			timer.Stop()
			c.k.lock()
			return errorOf(kafka.ErrDestroy)
		}
		c.k.lock()
	}
}
