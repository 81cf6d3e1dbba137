package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/chaos/judge"
)

// What stands in a record is a function of the seed and of its number in its partition, and what becomes of it is a function of the seed, the partition and the
// offset. So nothing has to be remembered to know what a dead letter must look like, and the dependency needs nobody to tell it how to answer.

// fate is what the dependency has for a record, outages aside.
type fate string

// The fates. Most records are well.
const (
	well      fate = "well"
	poison    fate = "poison"    // fails always
	flaky     fate = "flaky"     // fails the first one or two times that it is called
	permanent fate = "permanent" // refused
	panicking fate = "panicking" // its handler panics
	slow      fate = "slow"      // takes its time
	deadly    fate = "deadly"    // kills the process that handles it
)

// shares of the fates in 100000 records; the rest is well.
var shares = []struct {
	fate  fate
	share uint64
}{{poison, 500}, {flaky, 800}, {permanent, 700}, {panicking, 200}, {slow, 700}}

// destiny answers the fates of a run; one record in deadlyOneIn kills.
type destiny struct {
	seed        uint64
	deadlyOneIn uint64
}

func (d destiny) of(id judge.ID) fate {
	r := rand.New(rand.NewPCG(d.seed^0xfa7e, uint64(id.Partition)<<48|uint64(id.Offset)))
	if r.Uint64N(d.deadlyOneIn) == 0 {
		return deadly
	}
	n := r.Uint64N(100_000)
	for _, s := range shares {
		if n < s.share {
			return s.fate
		}
		n -= s.share
	}
	return well
}

// content is the n-th record that is produced to a partition.
func content(seed uint64, topic string, partition int32, n uint64, at time.Time) *kafka.Message {
	r := rand.New(rand.NewPCG(seed^0xc047e47, uint64(partition)<<48|n))
	text := func(limit int) []byte {
		b := make([]byte, r.IntN(limit))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: partition},
		Key:            [][]byte{nil, {}, text(40), text(40)}[r.IntN(4)],
		Value:          [][]byte{nil, {}, text(300), text(300), text(300), text(20_000)}[r.IntN(6)],
		Timestamp:      at,
	}
	for range r.IntN(5) {
		h := kafka.Header{Key: []string{"trace", "note", "note", "REASON", "BREAKWATER"}[r.IntN(5)], Value: [][]byte{nil, {}, text(30)}[r.IntN(3)]}
		m.Headers = append(m.Headers, h)
	}
	return m
}

// differs says in what a record differs from what it was; "": in nothing.
func differs(was, is *kafka.Message) string {
	switch {
	case !same(was.Key, is.Key):
		return fmt.Sprintf("the key was %s and is %s", brief(was.Key), brief(is.Key))
	case !same(was.Value, is.Value):
		return fmt.Sprintf("the value was %s and is %s", brief(was.Value), brief(is.Value))
	case !was.Timestamp.Equal(is.Timestamp):
		return fmt.Sprintf("the timestamp was %v and is %v", was.Timestamp, is.Timestamp)
	case !slices.EqualFunc(was.Headers, is.Headers, func(a, b kafka.Header) bool { return a.Key == b.Key && same(a.Value, b.Value) }):
		return fmt.Sprintf("the headers were %v and are %v", was.Headers, is.Headers)
	}
	return ""
}

func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func brief(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%d bytes %.16x", len(b), b)
}
