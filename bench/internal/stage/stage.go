// Package stage is what the contenders stand on, and everybody who looks at them from the outside: a broker, a Redis, topics, the producer, the
// reader of the dead letters, the watch on the group, and the contenders' processes.
package stage

// What was made here is gone after Close; a broker or a Redis that was given is left as it was, save for the groups' offsets.

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/breakwater-go/breakwater/internal/committed"
	"github.com/breakwater-go/breakwater/internal/servers"
)

// Stage is open until Close. Its methods may be called from any goroutine.
type Stage struct {
	Brokers string // for clients
	About   string // the broker, for people
	Redis   string // address; the proxy's
	Fake    *kfake.Cluster
	Prefix  string // of topics and groups, so that two runs on one broker don't meet

	proxy   *servers.Proxy // in front of Redis
	admin   *kafka.AdminClient
	topics  []string
	closers []func()
}

// Options says what to stand on. The zero value: a broker and a Redis in this process.
type Options struct {
	Brokers string // of a Kafka that runs
	Real    bool   // start a Kafka and a Redis; without Brokers
	Redis   string // host:port of one that runs
}

const patience = 20 * time.Second // for one question to the broker

// Open starts what is missing.
func Open(ctx context.Context, o Options) (s *Stage, err error) {
	s = &Stage{Brokers: o.Brokers, About: "Kafka at " + o.Brokers, Redis: o.Redis, Prefix: "bench-" + time.Now().Format("150405") + "-"}
	defer func() {
		if err != nil {
			s.Close()
			s = nil
		}
	}()
	switch {
	case o.Brokers != "":
	case o.Real:
		k, err := servers.NewKafka(ctx, servers.KafkaConfig{})
		if err != nil {
			return s, err
		}
		s.closers = append(s.closers, func() { k.Close() })
		s.Brokers, s.About = k.Bootstrap(), "a Kafka of its own"
	default:
		if s.Fake, err = servers.NewFake(); err != nil {
			return s, err
		}
		s.closers = append(s.closers, s.Fake.Close)
		s.Brokers, s.About = servers.FakeBootstrap(s.Fake), "an embedded broker"
		s.Prefix = ""
	}
	if err := s.openRedis(ctx, o); err != nil {
		return s, err
	}
	if s.admin, err = kafka.NewAdminClient(s.client(nil)); err != nil {
		return s, fmt.Errorf("no Kafka client: %w", err)
	}
	s.closers = append(s.closers, s.admin.Close)
	if _, err := s.admin.GetMetadata(nil, true, int(patience.Milliseconds())); err != nil {
		return s, fmt.Errorf("no answer from %s: %w; check -brokers", s.About, err)
	}
	if s.Fake == nil {
		s.closers = append(s.closers, s.deleteTopics)
	}
	return s, nil
}

func (s *Stage) openRedis(ctx context.Context, o Options) error {
	addr := o.Redis
	switch {
	case addr != "":
	case o.Real:
		r, err := servers.NewRedis(ctx)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, func() { r.Close() })
		addr = r.Addr
	default:
		r, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("no embedded Redis: %w; give -redis", err)
		}
		s.closers = append(s.closers, r.Close)
		addr = r.Addr()
	}
	var err error
	if s.proxy, err = servers.NewProxy(addr); err != nil {
		return err
	}
	s.closers = append(s.closers, func() { s.proxy.Close() })
	s.Redis = s.proxy.Addr()
	return nil
}

// Close ends what was started here.
func (s *Stage) Close() {
	for _, c := range slices.Backward(s.closers) {
		c()
	}
}

// CreateTopic makes a topic with the stage's prefix, and answers its name.
func (s *Stage) CreateTopic(ctx context.Context, name string, partitions int) (string, error) {
	name = s.Prefix + name
	made, err := s.admin.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: name, NumPartitions: partitions, ReplicationFactor: -1}},
		kafka.SetAdminOperationTimeout(patience))
	if err == nil && made[0].Error.Code() != kafka.ErrNoError {
		err = made[0].Error
	}
	if err != nil {
		return "", fmt.Errorf("topic %q could not be made: %w", name, err)
	}
	s.topics = append(s.topics, name)
	return name, nil
}

func (s *Stage) deleteTopics() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if len(s.topics) > 0 {
		_, _ = s.admin.DeleteTopics(ctx, s.topics, kafka.SetAdminOperationTimeout(patience))
	}
}

// Ends are the offsets of the records to come, by partition. A broker that has just made the topic is asked again.
func (s *Stage) Ends(topic string, partitions int) (ends []int64, err error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if ends, err = s.askEnds(topic, partitions); err == nil || time.Now().After(deadline) {
			return ends, err
		}
	}
}

func (s *Stage) askEnds(topic string, partitions int) ([]int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	asked := map[kafka.TopicPartition]kafka.OffsetSpec{}
	for p := range partitions {
		asked[kafka.TopicPartition{Topic: &topic, Partition: int32(p)}] = kafka.LatestOffsetSpec
	}
	r, err := s.admin.ListOffsets(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("the broker did not tell the offsets of %s: %w", topic, err)
	}
	ends := make([]int64, partitions)
	for p, o := range r.ResultInfos {
		if o.Error.Code() != kafka.ErrNoError {
			return nil, fmt.Errorf("the broker did not tell the offsets of %s: %w", topic, o.Error)
		}
		ends[p.Partition] = int64(o.Offset)
	}
	return ends, nil
}

// Committed are a group's offsets, by partition; 0 where there is none.
func (s *Stage) Committed(group, topic string, partitions int) ([]int64, error) {
	a, err := committed.NewAsker(s.client(nil), group)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	offsets, err := a.Offsets(topic, partitions, patience)
	for p := range offsets {
		offsets[p] = max(0, offsets[p])
	}
	return offsets, err
}

// client is the configuration of a client that observes: it says nothing on standard error.
func (s *Stage) client(more kafka.ConfigMap) *kafka.ConfigMap {
	m := kafka.ConfigMap{"bootstrap.servers": s.Brokers, "client.id": "breakwater-bench", "log_level": 0}
	for k, v := range more {
		m[k] = v
	}
	return &m
}
