// Package contenders is what the bench holds against each other in Go on confluent-kafka-go: Breakwater, and the loops that people write.
//
// All do the same work and mean the same by a committed offset: every record before it is done. They differ in how they wait.
package contenders

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/consumer"
)

// All are the contenders by name.
var All = map[string]contend.Contender{
	"breakwater":   breakwater,
	"bare":         bare,
	"usual":        usual(false),
	"usual-tuned":  usual(true),
	"hand-written": handWritten,
}

// Names are the contenders in the order of a table, and what each is.
var Names = []struct{ Name, About string }{
	{"breakwater", "this library"},
	{"bare", "a bare loop with the same client settings: the floor. What fails is skipped; what is refused for good goes to a producer, and nobody waits for it"},
	{"usual", "Poll, sleep and retry in place, StoreMessage; the client's default settings"},
	{"usual-tuned", "the same, with our client settings"},
	{"hand-written", "pause and poll by hand, as a good engineer would in an afternoon; our client settings"},
}

// settings are the client's for a job; tuned: those that Breakwater uses.
func settings(j *contend.Job, tuned bool) (*kafka.ConfigMap, error) {
	m := &kafka.ConfigMap{
		"bootstrap.servers": j.Brokers, "group.id": j.Group, "client.id": j.Instance, "auto.offset.reset": "earliest",
		"statistics.interval.ms": int(j.Statistics.Milliseconds()), "log_level": 0,
	}
	if j.MaxPoll > 0 {
		(*m)["max.poll.interval.ms"] = int(j.MaxPoll.Milliseconds())
		(*m)["session.timeout.ms"] = int(min(j.MaxPoll, 6*time.Second).Milliseconds())
	}
	if !tuned {
		(*m)["enable.auto.offset.store"] = false
		return m, nil
	}
	if err := consumer.Prepare(m); err != nil {
		return nil, err
	}
	delete(*m, "go.logs.channel.enable") // its reader is Breakwater's
	return m, nil
}

// open makes a client for a loop that is not Breakwater's, subscribed.
func open(h *contend.Host, tuned bool, rebalance kafka.RebalanceCb) (*kafka.Consumer, error) {
	m, err := settings(&h.Job, tuned)
	if err != nil {
		return nil, err
	}
	c, err := kafka.NewConsumer(m)
	if err == nil {
		err = c.SubscribeTopics([]string{h.Topic}, rebalance)
	}
	return c, err
}

func record(m *kafka.Message, attempt int) contend.Record {
	at := &m.TopicPartition
	return contend.Record{Topic: *at.Topic, Partition: at.Partition, Offset: int64(at.Offset), Value: m.Value, Attempt: attempt}
}
