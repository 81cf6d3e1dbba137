package dlq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/internal/topicname"
)

// Whether dead letters will have a place is found out at start, not with the first of them in the hand. What would lose a
// dead letter, or bring it back as a record, is refused; what may only surprise is a warning; what we are not allowed to see is not
// held against the topic.

const checkTimeout = 30 * time.Second

// Check says whether the DLQ of every source is there and fit to take dead letters, and creates what is missing where Create is set.
// A source that begins with '^' is a pattern, as in a subscription, and stands for the topics that match it now.
//
// It refuses, with all mistakes at once, a DLQ that does not exist (ErrTopicMissing), may not be seen or written to
// (ErrUnauthorized), is a source itself, or is compacted. A DLQ that takes smaller records than its source, forgets them sooner,
// or has its own idea of their time is a warning in the log, and so is a broker that does not show us the configuration. Without an
// answer from a broker Check fails with ErrNoAnswer when ctx ends, after 30 seconds at most.
func (w *Writer) Check(ctx context.Context, sources []string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	defer context.AfterFunc(w.life, cancel)()
	err := w.main.use(func(c *client) error {
		admin, err := kafka.NewAdminClientFromProducer(c.Producer)
		if err != nil {
			return fmt.Errorf("dlq: the DLQ could not be checked: %w", err)
		}
		defer admin.Close()
		k := checker{ctx: ctx, cfg: w.cfg, log: w.log, admin: admin}
		err = k.check(sources)
		if code := kafkaCode(err); err != nil && (ctx.Err() != nil || code == kafka.ErrTimedOut || code == kafka.ErrTransport) {
			return fmt.Errorf("dlq: the DLQ could not be checked, since %w; see that the brokers can be reached and that this client may connect: %w", ErrNoAnswer,
				errors.Join(err, c.lastTrouble()))
		}
		if fatal := c.GetFatalError(); err == nil && fatal != nil { // as where we may not be idempotent
			return failed(fatal)
		}
		return err
	})
	switch {
	case w.life.Err() != nil:
		return fmt.Errorf("dlq: the check was cut short: %w", ErrClosed)
	case errors.Is(err, errReplaced):
		return explain(w.cfg.TopicFor(strings.Join(sources, ", ")), err)
	}
	return err
}

type checker struct {
	ctx   context.Context
	cfg   Config
	log   *zap.Logger
	admin *kafka.AdminClient
}

func (k checker) check(sources []string) error {
	patterns, names, err := k.resolve(sources)
	if err != nil {
		return err
	}
	feeds := map[string][]string{} // DLQ to its sources
	var refused []error
	for _, source := range names {
		topic := k.cfg.TopicFor(source)
		if slices.Contains(names, topic) || slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(topic) }) {
			refused = append(refused, fmt.Errorf("dlq: topic %q is the DLQ of %q and is consumed itself, so that a dead letter would come back as a record; take another Topic, or do not subscribe to this one", topic, source))
			continue
		}
		if err := topicname.Check(topic); err != nil {
			refused = append(refused, fmt.Errorf("dlq: the DLQ of topic %q: %w; set Topic", source, err))
			continue
		}
		feeds[topic] = append(feeds[topic], source)
	}
	if len(feeds) == 0 {
		return errors.Join(refused...)
	}

	topics := slices.Sorted(maps.Keys(feeds))
	all := append(slices.Clone(topics), names...)
	partitions, problems, err := k.describe(all)
	if err != nil {
		return err
	}
	configs, err := k.configs(all)
	if err != nil {
		return err
	}
	var there []string
	for _, topic := range topics {
		code := problems[topic].Code()
		if code == kafka.ErrUnknownTopicOrPart && k.cfg.Create {
			if err := k.create(topic, feeds[topic], partitions, configs); err != nil {
				refused = append(refused, err)
				continue
			}
		} else if code != kafka.ErrNoError && code != kafka.ErrLeaderNotAvailable {
			err := explain(topic, problems[topic])
			for _, source := range feeds[topic] {
				if problems[source].Code() == kafka.ErrUnknownTopicOrPart {
					err = fmt.Errorf("%w; and its source %q does not exist either: check the name", err, source)
				}
			}
			refused = append(refused, err)
			continue
		}
		there = append(there, topic)
	}
	if k.cfg.Create && len(there) > 0 { // somebody else may have been faster, and of another opinion
		now, err := k.configs(there)
		if err != nil {
			return err
		}
		maps.Copy(configs, now)
	}
	for _, topic := range there {
		refused = append(refused, k.judge(topic, configs[topic], feeds[topic], configs))
	}
	return errors.Join(refused...)
}

// resolve tells patterns from names, and adds to the names the topics that match a pattern now.
func (k checker) resolve(sources []string) (patterns []*regexp.Regexp, names []string, err error) {
	for _, s := range sources {
		if !strings.HasPrefix(s, "^") {
			names = append(names, s)
			continue
		}
		p, err := regexp.CompilePOSIX(s)
		if err != nil {
			return nil, nil, fmt.Errorf("dlq: source %q is no regular expression: %w", s, err)
		}
		patterns = append(patterns, p)
	}
	if len(patterns) > 0 {
		deadline, _ := k.ctx.Deadline()
		md, err := k.admin.GetMetadata(nil, true, int(time.Until(deadline).Milliseconds()))
		if err != nil {
			return nil, nil, fmt.Errorf("dlq: the topics that match the sources could not be listed: %w", err)
		}
		for _, topic := range slices.Sorted(maps.Keys(md.Topics)) {
			if slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(topic) }) {
				names = append(names, topic)
			}
		}
	}
	slices.Sort(names)
	return patterns, slices.Compact(names), nil
}

// describe asks how many partitions the topics have, and what speaks against writing to each. It creates nothing, whatever
// the brokers' auto.create.topics.enable says.
func (k checker) describe(topics []string) (partitions map[string]int, problems map[string]kafka.Error, err error) {
	res, err := k.admin.DescribeTopics(k.ctx, kafka.NewTopicCollectionOfTopicNames(topics),
		kafka.SetAdminRequestTimeout(k.left()), kafka.SetAdminOptionIncludeAuthorizedOperations(true))
	if err != nil {
		return nil, nil, fmt.Errorf("dlq: the topics could not be described: %w", err)
	}
	partitions, problems = map[string]int{}, map[string]kafka.Error{}
	for _, d := range res.TopicDescriptions {
		partitions[d.Name], problems[d.Name] = len(d.Partitions), d.Error
		if may := d.AuthorizedOperations; d.Error.Code() == kafka.ErrNoError && len(may) > 0 && !slices.Contains(may, kafka.ACLOperationWrite) {
			problems[d.Name] = kafka.NewError(kafka.ErrTopicAuthorizationFailed, "Write is not permitted", false)
		}
	}
	return partitions, problems, nil
}

// left is the time that remains, which the client wants to know on its own.
func (k checker) left() time.Duration {
	deadline, _ := k.ctx.Deadline()
	return max(time.Millisecond, time.Until(deadline))
}

// config is the configuration of a topic; nil where it can't be seen.
type config map[string]kafka.ConfigEntryResult

// limit is an entry that limits something; absent and negative ones don't.
func (c config) limit(name string) int64 {
	if n, err := strconv.ParseInt(c[name].Value, 10, 64); err == nil && n >= 0 {
		return n
	}
	return math.MaxInt64
}

// limits are what a DLQ should not have narrower than its source, and what happens where it has.
var limits = []struct{ name, what string }{
	{"max.message.bytes", "takes smaller records than its source; one that does not fit will be held"},
	{"message.timestamp.before.max.ms", "takes no record as old as its source does; an older one will be held"},
	{"message.timestamp.after.max.ms", "takes no record from as far in the future as its source does; such a one will be held"},
	{"retention.ms", "forgets records sooner than its source, and counts from the record's own time, which a dead letter keeps"},
}

func (k checker) configs(topics []string) (map[string]config, error) {
	resources := make([]kafka.ConfigResource, len(topics))
	for i, topic := range topics {
		resources[i] = kafka.ConfigResource{Type: kafka.ResourceTopic, Name: topic}
	}
	res, err := k.admin.DescribeConfigs(k.ctx, resources, kafka.SetAdminRequestTimeout(k.left()))
	if err != nil {
		return nil, fmt.Errorf("dlq: the configuration of the topics could not be read: %w", err)
	}
	configs := map[string]config{}
	for _, r := range res {
		if r.Error.Code() == kafka.ErrNoError {
			configs[r.Name] = r.Config
		}
	}
	return configs, nil
}

// judge says what speaks against an existing DLQ.
func (k checker) judge(topic string, c config, sources []string, configs map[string]config) error {
	if c == nil {
		k.log.Warn("dlq: the configuration of the DLQ can't be read, so it was not checked whether it is compacted; grant this client DescribeConfigs on it, or see to it",
			zap.String("topic", topic))
		return nil
	}
	if strings.Contains(c["cleanup.policy"].Value, "compact") {
		return fmt.Errorf("dlq: topic %q is compacted (cleanup.policy=%s), which deletes dead letters with equal keys and refuses those without; set cleanup.policy=delete, or take another Topic",
			topic, c["cleanup.policy"].Value)
	}
	if c["message.timestamp.type"].Value == "LogAppendTime" {
		k.log.Warn("dlq: the DLQ sets its own timestamps (message.timestamp.type=LogAppendTime), so that a record's own is left in the ORIGINAL_TIMESTAMP header only",
			zap.String("topic", topic))
	}
	for _, source := range sources {
		s := configs[source]
		for _, l := range limits {
			if has, wants := c.limit(l.name), s.limit(l.name); s != nil && has < wants {
				k.log.Warn("dlq: the DLQ "+l.what+". Raise "+l.name+" of the DLQ",
					zap.String("topic", topic), zap.Int64("limit", has), zap.String("source", source), zap.Int64("limit of the source", wants))
			}
		}
	}
	return nil
}

// create makes the DLQ and waits until the brokers know it.
func (k checker) create(topic string, sources []string, partitions map[string]int, configs map[string]config) error {
	spec := kafka.TopicSpecification{
		Topic:             topic,
		NumPartitions:     k.cfg.Partitions,
		ReplicationFactor: cmp.Or(k.cfg.ReplicationFactor, -1),
		Config:            map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"},
	}
	var largest int64
	for _, source := range sources {
		s := configs[source]
		if k.cfg.Partitions == 0 {
			spec.NumPartitions = max(spec.NumPartitions, partitions[source])
		}
		if _, found := s["max.message.bytes"]; found {
			largest = max(largest, s.limit("max.message.bytes"))
		}
		for _, name := range []string{"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"} {
			if _, found := s[name]; found { // which brokers before 3.6 don't know
				spec.Config[name] = strconv.FormatInt(math.MaxInt64, 10)
			}
		}
	}
	if spec.NumPartitions == 0 {
		spec.NumPartitions = -1 // no source to go by: the broker's default
	}
	if largest > 0 {
		spec.Config["max.message.bytes"] = strconv.FormatInt(min(largest+k.headroom(), math.MaxInt32), 10)
	}
	maps.Copy(spec.Config, k.cfg.TopicConfig)

	res, err := k.admin.CreateTopics(k.ctx, []kafka.TopicSpecification{spec},
		kafka.SetAdminOperationTimeout(k.left()), kafka.SetAdminRequestTimeout(k.left()))
	if err == nil && len(res) == 1 && res[0].Error.Code() != kafka.ErrNoError && res[0].Error.Code() != kafka.ErrTopicAlreadyExists {
		err = res[0].Error
	}
	switch kafkaCode(err) {
	case kafka.ErrTopicAuthorizationFailed, kafka.ErrClusterAuthorizationFailed:
		return fmt.Errorf("dlq: not allowed to create topic %q; grant this client Create, or create it yourself (%w): %w", topic, ErrUnauthorized, err)
	}
	if err != nil {
		return fmt.Errorf("dlq: topic %q could not be created; create it yourself, or correct Partitions, ReplicationFactor and TopicConfig: %w", topic, err)
	}
	for {
		_, problems, err := k.describe([]string{topic})
		if err != nil {
			return err
		}
		if problems[topic].Code() == kafka.ErrNoError {
			break
		}
		select {
		case <-k.ctx.Done():
			return fmt.Errorf("dlq: topic %q was created, but the brokers do not know it yet; start again: %w", topic, k.ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	k.log.Info("dlq: topic created", zap.String("topic", topic), zap.Int("partitions", spec.NumPartitions), zap.Any("config", spec.Config))
	return nil
}

// headroom is what a DLQ that we create takes beyond the source's largest record: our block with all four texts at their
// longest.
func (k checker) headroom() int64 { return 4*int64(k.cfg.textLimit()) + 8<<10 }
