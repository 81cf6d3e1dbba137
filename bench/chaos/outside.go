package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/committed"
)

// The outside is who produces, who looks at the committed offsets, and who reads the DLQ: clients of their own, which reach the brokers past the faults of the
// network where that is possible.

type outside struct {
	bootstrap string
	seed      uint64
	producer  *kafka.Producer
	admin     *kafka.AdminClient
	asker     *committed.Asker

	sampling sync.Mutex

	mu      sync.Mutex
	next    [partitions]uint64
	acked   map[judge.ID]produced
	lost    int // the producer gave up: they may be in the topic or not
	samples []judge.Sample
	reading sync.WaitGroup
}

// produced is which record stands somewhere.
type produced struct {
	n  uint64
	at time.Time
}

func openOutside(bootstrap string, seed uint64) (o *outside, err error) {
	o = &outside{bootstrap: bootstrap, seed: seed, acked: map[judge.ID]produced{}}
	o.producer, err = kafka.NewProducer(o.client(kafka.ConfigMap{"acks": "all", "enable.idempotence": true, "linger.ms": 5}))
	if err != nil {
		return nil, err
	}
	if o.admin, err = kafka.NewAdminClient(o.client(nil)); err != nil {
		o.producer.Close()
		return nil, err
	}
	if o.asker, err = committed.NewAsker(o.client(nil), group); err != nil {
		o.admin.Close()
		o.producer.Close()
		return nil, err
	}
	o.reading.Go(o.acknowledgements)
	return o, nil
}

func (o *outside) client(more kafka.ConfigMap) *kafka.ConfigMap {
	m := kafka.ConfigMap{"bootstrap.servers": o.bootstrap, "client.id": "outside", "log_level": 0, "reconnect.backoff.max.ms": 1000}
	for k, v := range more {
		m[k] = v
	}
	return &m
}

func (o *outside) close() {
	o.asker.Close()
	o.admin.Close()
	o.producer.Close()
	o.reading.Wait()
}

// acknowledgements notes what the brokers have taken.
func (o *outside) acknowledgements() {
	for e := range o.producer.Events() {
		m, ok := e.(*kafka.Message)
		if !ok {
			continue
		}
		o.mu.Lock()
		if m.TopicPartition.Error != nil {
			o.lost++
		} else {
			o.acked[judge.ID{Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset)}] = m.Opaque.(produced)
		}
		o.mu.Unlock()
	}
}

// maxBehind is how many records wait to be handled before the producer waits too: the run is to end, and its worst moments are not those of a long queue.
const maxBehind = 1500

// flow produces until ctx ends, now more and now less.
func (o *outside) flow(ctx context.Context, perSecond int, handled func() int) error {
	r := rand.New(rand.NewPCG(o.seed, 0xf10))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	rate, due := perSecond/2, 0.0
	for i := 0; ; i++ {
		if i%40 == 0 {
			rate = []int{0, perSecond / 4, perSecond / 2, perSecond}[r.IntN(4)]
			if o.count()-handled() > maxBehind {
				rate = 0
			}
		}
		for due += float64(rate) / 20; due >= 1; due-- {
			if err := o.produce(r); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (o *outside) produce(r *rand.Rand) error {
	p := int32(r.IntN(partitions))
	is := produced{o.next[p], time.Now().Truncate(time.Millisecond)}
	o.next[p]++
	m := content(o.seed, topic, p, is.n, is.at)
	m.Opaque = is
	for {
		err := o.producer.Produce(m, nil)
		var k kafka.Error
		if errors.As(err, &k) && k.Code() == kafka.ErrQueueFull {
			o.producer.Flush(100)
			continue
		}
		return err
	}
}

// finish waits until the brokers have everything, and answers the ends of the topic.
func (o *outside) finish(patience time.Duration) ([]int64, error) {
	if left := o.producer.Flush(int(patience.Milliseconds())); left > 0 {
		return nil, fmt.Errorf("the brokers did not take %d records in %v", left, patience)
	}
	return o.ends(topic, patience)
}

func (o *outside) ends(topic string, patience time.Duration) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	asked := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for p := range partitions {
		asked[kafka.TopicPartition{Topic: &topic, Partition: int32(p)}] = kafka.LatestOffsetSpec
	}
	for {
		r, err := o.admin.ListOffsets(ctx, asked)
		ends := make([]int64, partitions)
		for p, i := range r.ResultInfos {
			if i.Error.Code() != kafka.ErrNoError {
				err = errors.Join(err, i.Error)
			}
			ends[p.Partition] = int64(i.Offset)
		}
		if err == nil {
			return ends, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the brokers did not tell the ends of %s: %w", topic, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// watch samples the committed offsets until ctx ends.
func (o *outside) watch(ctx context.Context) {
	for {
		_, _ = o.sample(5 * time.Second)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// sample asks what is committed, and keeps the answer where it says something new.
func (o *outside) sample(patience time.Duration) (judge.Sample, error) {
	o.sampling.Lock() // so that an answer that was long under way is not taken for a later one
	defer o.sampling.Unlock()
	s := judge.Sample{Asked: time.Now()}
	var err error
	if s.Committed, err = o.asker.Offsets(topic, partitions, patience); err != nil {
		return s, err
	}
	for p := range s.Committed {
		s.Committed[p] = max(0, s.Committed[p])
	}
	s.At = time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.samples = append(o.samples, s)
	return s, nil
}

// letters reads the DLQ from its start to its end, and compares each with the record that was produced.
func (o *outside) letters(patience time.Duration) ([]judge.Letter, error) {
	ends, err := o.ends(topic+".dlq", patience)
	if err != nil {
		return nil, err
	}
	c, err := kafka.NewConsumer(o.client(kafka.ConfigMap{"group.id": "reader", "enable.auto.commit": false}))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []kafka.TopicPartition
	left := int64(0)
	for p, end := range ends {
		if end > 0 {
			name := topic + ".dlq"
			all = append(all, kafka.TopicPartition{Topic: &name, Partition: int32(p), Offset: 0})
			left += end
		}
	}
	if left == 0 {
		return nil, nil
	}
	if err := c.Assign(all); err != nil {
		return nil, err
	}
	var letters []judge.Letter
	for deadline := time.Now().Add(patience); left > 0; {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%d dead letters could not be read in %v", left, patience)
		}
		if m, ok := c.Poll(100).(*kafka.Message); ok && m.TopicPartition.Error == nil {
			letters = append(letters, o.letter(m))
			left--
		}
	}
	return letters, nil
}

func (o *outside) letter(m *kafka.Message) judge.Letter {
	info, err := dlq.Read(m.Headers)
	l := judge.Letter{ID: judge.ID{Partition: info.Partition, Offset: info.Offset}, Info: info}
	if err != nil {
		l.Wrong = err.Error()
		return l
	}
	o.mu.Lock()
	is, known := o.acked[l.ID]
	o.mu.Unlock()
	was := dlq.Original(m)
	switch {
	case info.Topic != topic || info.GroupID != group || info.System != dlq.Breakwater:
		l.Wrong = fmt.Sprintf("it says that it is of topic %q and group %q", info.Topic, info.GroupID)
	case known:
		l.Wrong = differs(content(o.seed, topic, l.ID.Partition, is.n, is.at), was)
	}
	return l
}

// count is how many records the brokers have acknowledged.
func (o *outside) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acked)
}

// unsure counts those of which the producer never learned whether the brokers have them.
func (o *outside) unsure() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// seen are the samples so far.
func (o *outside) seen() []judge.Sample {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]judge.Sample(nil), o.samples...)
}
