package simkafka

// A partition as the client knows it: from its first assignment on, for the client's life.
//
// pos is the next offset for the application; records from pos to ahead are prefetched. A pause throws the prefetch away
// and keeps pos (1.1.1). The pause belongs to the client, not to the assignment (1.2.2). Fetching is not simulated
// request by request: when Poll looks, what would have been fetched by then is there.

import (
	"fmt"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

type phase int

const (
	none     phase = iota // not assigned
	pending               // assigned, not started
	querying              // its committed offset is asked for
	fetching              // started
	silent                // started, and stopped by auto.offset.reset=error until a seek (1.11.1)
)

type partition struct {
	c    *Client
	tp   tp
	name *string
	log  *partitionLog

	paused    bool         // by the application
	committed kafka.Offset // the last that this client knows of

	assigned bool
	epoch    int // raised at the end of each assignment
	from     kafka.Offset
	phase    phase
	held     bool // paused by the library while a rebalance waits for its answer (1.2.1)
	dead     bool // its start was lost (1.3.3)
	stored   kafka.Offset
	app      kafka.Offset // the application's position, unset before its first record
	pos      int64
	ahead    int64
	readyAt  time.Duration
}

func (p *partition) named(o kafka.Offset) kafka.TopicPartition {
	return kafka.TopicPartition{Topic: p.name, Partition: p.tp.partition, Offset: o}
}

func (p *partition) purge() { p.ahead = p.pos }

// delay sets when the next record can come.
func (p *partition) delay(d time.Duration) { p.readyAt = p.c.k.now() + d }

func (p *partition) begin(o kafka.Offset) {
	p.phase, p.held, p.app = fetching, false, kafka.OffsetInvalid
	if p.c.happens(p.c.opt.Faults.LoseStart) {
		p.dead = true
		return
	}
	p.jump(o)
	p.c.wake()
}

// jump goes to an offset, given or logical.
func (p *partition) jump(o kafka.Offset) {
	p.phase = fetching
	p.delay(p.c.opt.Latency)
	switch o {
	case kafka.OffsetBeginning:
		p.pos = p.log.first
	case kafka.OffsetEnd:
		p.pos = p.log.end()
	case kafka.OffsetInvalid:
		p.reset("no previously committed offset available")
	default:
		p.pos = int64(o)
	}
	p.purge()
}

// reset is auto.offset.reset.
func (p *partition) reset(why string) {
	switch p.c.opt.AutoOffsetReset {
	case "earliest":
		p.pos = p.log.first
	case "latest":
		p.pos = p.log.end()
	default:
		p.phase = silent
		p.c.post(kafka.NewError(kafka.ErrAutoOffsetReset, fmt.Sprintf("%s [%d]: %s", p.tp.topic, p.tp.partition, why), false))
	}
	p.purge()
}

// flows reports whether the partition takes part in fetching at all.
func (p *partition) flows() bool {
	return p.phase == fetching && !p.dead && !p.held && !p.paused
}

// ready makes the next record available, if there is one by now.
func (p *partition) ready() bool {
	if !p.flows() || p.readyAt > p.c.k.now() {
		return false
	}
	for {
		if p.fetch(); p.pos == p.ahead {
			return false
		}
		if !p.log.records[p.pos].marker {
			return true
		}
		p.pos++
	}
}

func (p *partition) fetch() {
	if p.c.k.now() < p.c.k.fetchBack || int(p.ahead-p.pos) > p.c.opt.Prefetch/2 {
		return
	}
	if p.ahead < p.log.first || p.ahead > p.log.end() {
		if p.pos < p.ahead {
			return // what was fetched in time is delivered first
		}
		p.reset("fetch offset out of range")
		if p.phase != fetching {
			return
		}
	}
	next := min(p.log.end(), p.pos+int64(p.c.opt.Prefetch))
	p.c.fetched += int(next - p.ahead)
	p.ahead = next
}

// nextRecord takes the next record of some partition that has one: a run from one, then from another.
func (c *Client) nextRecord() *kafka.Message {
	for i := range c.assigned {
		at := (c.cursor + i) % len(c.assigned)
		p := c.assigned[at]
		if !p.ready() {
			continue
		}
		if i > 0 || c.burst <= 0 {
			c.cursor, c.burst = at, 1+c.draw.IntN(c.opt.Prefetch)
		}
		m := p.message()
		p.pos++
		p.app = kafka.Offset(p.pos)
		if c.opt.AutoOffsetStore {
			p.stored = p.app
		}
		if c.burst--; c.burst == 0 {
			c.cursor = c.draw.IntN(len(c.assigned))
		}
		return m
	}
	return nil
}

func (p *partition) message() *kafka.Message {
	r := &p.log.records[p.pos]
	m := &kafka.Message{
		TopicPartition: p.named(kafka.Offset(p.pos)),
		Key:            slices.Clone(r.key), Value: slices.Clone(r.value),
		Timestamp: r.timestamp, TimestampType: kafka.TimestampCreateTime,
	}
	for _, h := range r.headers {
		m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: slices.Clone(h.Value)})
	}
	return m
}

// nextReady is when a record can be there at the earliest without anybody's doing; never is negative.
func (c *Client) nextReady() time.Duration {
	at := time.Duration(-1)
	for _, p := range c.assigned {
		if !p.flows() || p.ahead == p.pos && p.pos == p.log.end() {
			continue
		}
		t := p.readyAt
		if p.ahead == p.pos {
			t = max(t, c.k.fetchBack)
		}
		if at < 0 || t < at {
			at = t
		}
	}
	return at
}

// resumeDelay is how long the fetcher's thread sleeps on when nobody wakes it (1.1.5, 6.3).
func (c *Client) resumeDelay() time.Duration {
	return 500*time.Millisecond + time.Duration(c.net.Int64N(int64(500*time.Millisecond)))
}

// wakeDelay is how long it takes after a request has woken it.
const wakeDelay = 20 * time.Millisecond

// wakeLeaders is what any request to the leaders of these partitions does to the fetchers.
func (c *Client) wakeLeaders(parts []kafka.TopicPartition) {
	for _, p := range c.assigned {
		if slices.ContainsFunc(parts, func(q kafka.TopicPartition) bool {
			return q.Partition%c.k.brokers == p.tp.partition%c.k.brokers
		}) {
			p.readyAt = min(p.readyAt, c.k.now()+wakeDelay)
		}
	}
	c.wake()
}

// Pause stops the delivery of partitions. It never says that it failed: a partition that this client never had is passed
// over (1.1.3, 1.2.4).
func (c *Client) Pause(parts []kafka.TopicPartition) error {
	return c.each("Pause", parts, func(p *partition) {
		if !p.paused && !c.happens(c.opt.Faults.LosePause) {
			p.paused = true
			p.purge()
		}
	})
}

// Resume lets partitions go on where the application was. It never says that it failed.
func (c *Client) Resume(parts []kafka.TopicPartition) error {
	return c.each("Resume", parts, func(p *partition) {
		if p.paused && !c.happens(c.opt.Faults.LoseResume) {
			p.paused = false
			p.delay(c.resumeDelay())
		}
	})
}

func (c *Client) each(call string, parts []kafka.TopicPartition, do func(*partition)) error {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return errClosed
	}
	c.changes(call)
	for _, want := range parts {
		if p := c.partitions[tp{*want.Topic, want.Partition}]; p != nil {
			do(p)
		}
	}
	c.wake()
	return nil
}

// SeekPartitions moves partitions. What it could not do is said per partition, with a nil error (1.4.1).
func (c *Client) SeekPartitions(parts []kafka.TopicPartition) ([]kafka.TopicPartition, error) {
	if len(parts) == 0 {
		return nil, kafka.NewError(kafka.ErrInvalidArg, "partitions must be specified", false)
	}
	return c.look(parts, func(p *partition, r *kafka.TopicPartition) {
		c.changes("SeekPartitions")
		switch {
		case p == nil:
			r.Error = errorOf(kafka.ErrUnknownPartition)
		case p.phase != fetching && p.phase != silent || p.dead:
			r.Error = errorOf(kafka.ErrState)
		case r.Offset < 0 && r.Offset != kafka.OffsetBeginning && r.Offset != kafka.OffsetEnd:
			r.Error = errorOf(kafka.ErrInvalidArg)
		default:
			p.jump(r.Offset)
			p.app = kafka.OffsetInvalid // 1.4.2
			c.wake()
		}
	})
}

// Position is the offset after the last record that was delivered, unset before the first one of an assignment or seek.
func (c *Client) Position(parts []kafka.TopicPartition) ([]kafka.TopicPartition, error) {
	return c.look(parts, func(p *partition, r *kafka.TopicPartition) {
		r.Offset = kafka.OffsetInvalid
		if p == nil {
			r.Error = errorOf(kafka.ErrUnknownPartition)
		} else {
			r.Offset = p.app
		}
	})
}

// look answers for each partition that is asked for, in a copy.
func (c *Client) look(parts []kafka.TopicPartition, answer func(*partition, *kafka.TopicPartition)) ([]kafka.TopicPartition, error) {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return nil, errClosed
	}
	out := slices.Clone(parts)
	for i := range out {
		out[i].Error = nil
		answer(c.partitions[tp{*out[i].Topic, out[i].Partition}], &out[i])
	}
	return out, nil
}
