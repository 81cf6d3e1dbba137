package main

// What the play stands on: a broker, a Redis and a topic, ours or real ones. Whatever was made here is gone after close; what existed is left as it
// was, save for the group's offsets and a DLQ that was missing.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/committed"
	"github.com/breakwater-go/breakwater/internal/servers"
)

type stage struct {
	brokers, redis string // addresses, for the clients
	kafka, store   string // what they are, for people
	topic, group   string
	dlq            string
	partitions     int
	ours           bool // the topic was made by us, so we produce
	hadDLQ         bool
	fake           *kfake.Cluster // nil: a real broker
	admin          *kafka.AdminClient
	attempts       redis.UniversalClient
	closers        []func()
}

const answerTimeout = 10 * time.Second // for one question to the broker

func setStage(ctx context.Context, o options, partitions int) (s *stage, err error) {
	s = &stage{brokers: o.brokers, redis: o.redis, topic: o.topic, group: o.group, partitions: partitions}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.kafka = "Kafka at " + s.brokers; s.brokers == "" {
		if s.fake, err = servers.NewFake(); err != nil {
			return s, err
		}
		s.closers = append(s.closers, s.fake.Close)
		s.brokers = servers.FakeBootstrap(s.fake)
		s.kafka = "an embedded broker"
	}
	if err := s.openRedis(); err != nil {
		return s, err
	}
	if s.admin, err = kafka.NewAdminClient(s.client(nil)); err != nil {
		return s, fmt.Errorf("no Kafka client: %w", err)
	}
	s.closers = append(s.closers, s.admin.Close)
	return s, s.openTopic(ctx)
}

func (s *stage) openRedis() error {
	logging.Disable() // the consumer's own events tell when Redis is away
	if s.store = "Redis"; s.redis == "" {
		embedded, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("no embedded Redis: %w; give -redis", err)
		}
		s.closers = append(s.closers, embedded.Close)
		s.redis, s.store = embedded.Addr(), "an embedded Redis"
	}
	url, err := redisOptions(s.redis)
	if err != nil {
		return err
	}
	if url != nil {
		s.attempts = redis.NewClient(url)
	} else {
		s.attempts = redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(s.redis, ",")})
	}
	s.closers = append(s.closers, func() { s.attempts.Close() })
	return nil
}

// redisOptions reads a URL; nil: it is none, but an address. What is wrong with it is not said in the words of the parser, which repeat the password.
func redisOptions(address string) (*redis.Options, error) {
	if !strings.Contains(address, "://") {
		return nil, nil
	}
	url, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("-redis is no URL that Redis clients know: it looks like redis://user:password@localhost:6379/0")
	}
	return url, nil
}

// openTopic looks whether the topic exists, and makes it if not.
func (s *stage) openTopic(ctx context.Context) error {
	if s.topic == "" {
		if s.topic = "orders"; s.fake == nil {
			s.topic = "breakwater-demo-" + time.Now().Format("20060102-150405")
		}
	}
	s.dlq = dlq.Config{}.TopicFor(s.topic)
	all, err := s.admin.GetMetadata(nil, true, int(answerTimeout.Milliseconds()))
	if err != nil {
		return fmt.Errorf("no answer from %s: %w; check -brokers", s.kafka, err)
	}
	_, s.hadDLQ = all.Topics[s.dlq]
	if t, exists := all.Topics[s.topic]; exists {
		s.partitions = len(t.Partitions)
		return s.aloneInGroup(ctx)
	}
	s.ours = true
	made, err := s.admin.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: s.topic, NumPartitions: s.partitions, ReplicationFactor: -1}},
		kafka.SetAdminOperationTimeout(answerTimeout))
	if err == nil && made[0].Error.Code() != kafka.ErrNoError {
		err = made[0].Error
	}
	if err != nil {
		return fmt.Errorf("topic %q could not be made: %w; name one that exists with -topic", s.topic, err)
	}
	if s.fake == nil {
		s.closers = append(s.closers, s.deleteTopics)
	}
	return s.aloneInGroup(ctx)
}

// aloneInGroup refuses a group in which others would handle a part of the records, unseen.
func (s *stage) aloneInGroup(ctx context.Context) error {
	g, err := s.describeGroup(ctx)
	if err != nil {
		return err
	}
	if len(g.Members) > 0 {
		return fmt.Errorf("group %q has %d other members, which would handle records unseen; name another one with -group", s.group, len(g.Members))
	}
	return nil
}

func (s *stage) describeGroup(ctx context.Context) (g kafka.ConsumerGroupDescription, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r, err := s.admin.DescribeConsumerGroups(ctx, []string{s.group})
	if err == nil {
		g = r.ConsumerGroupDescriptions[0]
		if code := g.Error.Code(); code != kafka.ErrNoError && code != kafka.ErrGroupIDNotFound {
			err = g.Error
		}
	}
	if err != nil {
		err = fmt.Errorf("the broker did not describe group %q: %w", s.group, err)
	}
	return g, err
}

// committed are the group's offsets; -1 for a partition without one.
func (s *stage) committed() ([]int64, error) {
	a, err := committed.NewAsker(s.client(nil), s.group)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return a.Offsets(s.topic, s.partitions, answerTimeout)
}

func (s *stage) deleteTopics() {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	topics := []string{s.topic}
	if !s.hadDLQ {
		topics = append(topics, s.dlq)
	}
	_, _ = s.admin.DeleteTopics(ctx, topics, kafka.SetAdminOperationTimeout(answerTimeout))
}

func (s *stage) close() {
	for _, c := range slices.Backward(s.closers) {
		c()
	}
}

// client is the configuration of a client that observes: it says nothing on standard error.
func (s *stage) client(more kafka.ConfigMap) *kafka.ConfigMap {
	m := kafka.ConfigMap{"bootstrap.servers": s.brokers, "client.id": "breakwater-demo", "log_level": 0}
	for k, v := range more {
		m[k] = v
	}
	return &m
}
