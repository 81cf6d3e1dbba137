package simkafka

// A Cluster is logs, consumer groups and the clients that were made from it, under the one mutex of its clock.
//
// Records are never taken out of a log: retention only moves its start, since a client may have fetched a record before
// it was deleted. An offset is an index into the log.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// A Cluster is safe for concurrent use.
type Cluster struct {
	clock
	seed    uint64
	brokers int32
	topics  map[string]*topic
	groups  map[string]*group
	clients []*Client
	stopped chan struct{}

	coordBack time.Duration // the coordinator answers from this instant on
	awaySince time.Duration
	fetchBack time.Duration // the leaders answer from this instant on

	minDelay, maxDelay time.Duration // what a rebalance takes beyond its members
	onCommit           func(Commit)
}

type topic struct {
	name *string
	logs []*partitionLog
}

type partitionLog struct {
	records []record
	first   int64 // the first offset that retention has left
}

func (l *partitionLog) end() int64 { return int64(len(l.records)) }

type record struct {
	key, value []byte
	headers    []kafka.Header
	timestamp  time.Time
	marker     bool
}

// tp names a partition.
type tp struct {
	topic     string
	partition int32
}

func (a tp) compare(b tp) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
}

// NewCluster makes a cluster of one broker without topics. Call it inside the bubble.
func NewCluster(seed uint64) *Cluster {
	k := &Cluster{
		seed: seed, brokers: 1, topics: map[string]*topic{}, groups: map[string]*group{}, stopped: make(chan struct{}),
	}
	k.init()
	return k
}

// Stop lets everything return that would block for ever: Close of a fenced client, calls without a timeout. A bubble can
// end after it. The cluster is of no use then.
func (k *Cluster) Stop() {
	k.lock()
	defer k.unlock()
	select {
	case <-k.stopped:
	default:
		close(k.stopped)
	}
	k.plans = nil
}

// Brokers sets how many brokers lead the partitions: partition p is led by p modulo n. Default 1. It matters for what a
// request wakes (see Client.OffsetsForTimes).
func (k *Cluster) Brokers(n int) {
	k.lock()
	defer k.unlock()
	k.brokers = int32(n)
}

// RebalanceDelay sets how long a classic rebalance takes after its last member has joined. Default zero.
func (k *Cluster) RebalanceDelay(least, most time.Duration) {
	k.lock()
	defer k.unlock()
	k.minDelay, k.maxDelay = least, most
}

// CreateTopic creates a topic, or gives an existing one more partitions, which its groups then share out.
func (k *Cluster) CreateTopic(name string, partitions int) {
	k.lock()
	defer k.unlock()
	t := k.topics[name]
	if t == nil {
		t = &topic{name: &name}
		k.topics[name] = t
	}
	for len(t.logs) < partitions {
		t.logs = append(t.logs, &partitionLog{})
	}
	for _, g := range k.sortedGroups() {
		g.topicChanged(name)
	}
}

// Produce appends a record and returns its offset. A zero ts is now; timestamps have millisecond precision.
func (k *Cluster) Produce(topic string, partition int32, key, value []byte, headers []kafka.Header, ts time.Time) int64 {
	if ts.IsZero() {
		ts = time.Now()
	}
	return k.appendRecord(topic, partition, record{
		key: slices.Clone(key), value: slices.Clone(value), headers: slices.Clone(headers), timestamp: ts.Truncate(time.Millisecond),
	})
}

// ProduceMarker appends what a transaction leaves at its end: an offset that is never delivered.
func (k *Cluster) ProduceMarker(topic string, partition int32) int64 {
	return k.appendRecord(topic, partition, record{marker: true})
}

func (k *Cluster) appendRecord(topic string, partition int32, r record) int64 {
	k.lock()
	defer k.unlock()
	log := k.mustLog(tp{topic, partition})
	log.records = append(log.records, r)
	k.logChanged(log)
	return log.end() - 1
}

// DeleteRecords is retention: the partition starts at before from now on.
func (k *Cluster) DeleteRecords(topic string, partition int32, before int64) {
	k.lock()
	defer k.unlock()
	log := k.mustLog(tp{topic, partition})
	log.first = min(max(log.first, before), log.end())
	k.logChanged(log)
}

func (k *Cluster) logChanged(log *partitionLog) {
	for _, c := range k.clients {
		for _, p := range c.assigned {
			if p.log == log {
				c.wake()
			}
		}
	}
}

// Offsets are the first offset of a partition and the one after its last record.
func (k *Cluster) Offsets(topic string, partition int32) (first, end int64) {
	k.lock()
	defer k.unlock()
	log := k.mustLog(tp{topic, partition})
	return log.first, log.end()
}

// Committed is what a group has committed, or kafka.OffsetInvalid.
func (k *Cluster) Committed(group, topic string, partition int32) kafka.Offset {
	k.lock()
	defer k.unlock()
	return k.group(group).offset(tp{topic, partition})
}

// SetCommitted sets a group's offset, as a person does with kafka-consumer-groups. kafka.OffsetInvalid removes it.
func (k *Cluster) SetCommitted(group, topic string, partition int32, offset kafka.Offset) {
	k.lock()
	defer k.unlock()
	if offset < 0 {
		delete(k.group(group).offsets, tp{topic, partition})
		return
	}
	k.group(group).offsets[tp{topic, partition}] = offset
}

// Generation is the group's generation, or its epoch under KIP-848.
func (k *Cluster) Generation(group string) int {
	k.lock()
	defer k.unlock()
	return k.group(group).generation
}

// Rebalances is how often the group has begun to share out its partitions.
func (k *Cluster) Rebalances(group string) int {
	k.lock()
	defer k.unlock()
	return k.group(group).rebalances
}

// A Member is a member as the coordinator sees it.
type Member struct {
	ID, InstanceID, ClientID string
	Partitions               []kafka.TopicPartition // what it was given, sorted
}

// Members lists a group's members by their ids.
func (k *Cluster) Members(group string) []Member {
	k.lock()
	defer k.unlock()
	var all []Member
	for _, m := range k.group(group).members {
		all = append(all, Member{m.id, m.instance, m.client.opt.ClientID, k.list(m.owned)})
	}
	return all
}

// A Commit is one partition's offset in a commit that the coordinator has accepted.
type Commit struct {
	Group, MemberID string
	Topic           string
	Partition       int32
	Before, After   kafka.Offset
}

// OnCommit has f called for every offset that is committed, under the cluster's mutex: f must not call the cluster.
func (k *Cluster) OnCommit(f func(Commit)) {
	k.lock()
	defer k.unlock()
	k.onCommit = f
}

func (k *Cluster) group(name string) *group {
	g := k.groups[name]
	if g == nil {
		g = &group{k: k, name: name, offsets: map[tp]kafka.Offset{}, rng: k.rng("group", name)}
		k.groups[name] = g
	}
	return g
}

func (k *Cluster) sortedGroups() []*group {
	var all []*group
	for _, g := range k.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	return all
}

func (k *Cluster) log(p tp) *partitionLog {
	t := k.topics[p.topic]
	if t == nil || p.partition < 0 || int(p.partition) >= len(t.logs) {
		return nil
	}
	return t.logs[p.partition]
}

func (k *Cluster) mustLog(p tp) *partitionLog {
	log := k.log(p)
	if log == nil {
		panic(fmt.Sprintf("simkafka: %s[%d] does not exist; CreateTopic comes first", p.topic, p.partition))
	}
	return log
}

// list names partitions the way that the client does, their offsets unset.
func (k *Cluster) list(ps []tp) []kafka.TopicPartition {
	all := make([]kafka.TopicPartition, len(ps))
	for i, p := range ps {
		all[i] = kafka.TopicPartition{Topic: k.topics[p.topic].name, Partition: p.partition, Offset: kafka.OffsetInvalid}
	}
	return all
}

// rng makes a generator of its own for each name, so that one actor's draws do not shift another's.
func (k *Cluster) rng(names ...string) *rand.Rand {
	h := fnv.New64a()
	for _, name := range names {
		h.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(name))))
		h.Write([]byte(name))
	}
	return rand.New(rand.NewPCG(k.seed, h.Sum64()))
}

func (k *Cluster) away() bool { return k.now() < k.coordBack }

// coordinate plans do for the instant at which the coordinator sees a request that arrives at t.
func (k *Cluster) coordinate(t time.Duration, do func()) {
	k.at(max(t, k.coordBack), func() {
		if k.away() {
			k.coordinate(k.coordBack, do)
			return
		}
		do()
	})
}

func errorOf(code kafka.ErrorCode) kafka.Error { return kafka.NewError(code, "", false) }
