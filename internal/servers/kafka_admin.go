package servers

// What a cluster is asked over the wire. Questions go to one broker at a time, past the proxies, so that each broker speaks for
// itself: that a cluster is ready means that each living broker says so.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetsPartitions is how many partitions __consumer_offsets has. The groups "0", "1", … "9" have coordinators on all of
// them, since Kafka takes String.hashCode() modulo that number, and the hash of one character is its code.
const offsetsPartitions = 5

// Ready waits until the living brokers (those neither killed nor frozen) can be used: each answers and knows the others, each
// partition whose replicas all live has a leader, living replicas are in sync with theirs, and each group's coordinator has
// loaded. It fails when ctx ends, or at once when a broker has ended by itself.
func (k *Kafka) Ready(ctx context.Context) error {
	return k.until(ctx, func(ctx context.Context, living []*Broker) error {
		for _, b := range living {
			if err := b.knows(ctx, living); err != nil {
				return err
			}
		}
		return k.coordinatorsAnswer(ctx)
	})
}

// until repeats check, with the brokers that live then, until it has nothing to complain about. A complaint that wraps errEnded
// is final.
func (k *Kafka) until(ctx context.Context, check func(ctx context.Context, living []*Broker) error) error {
	for {
		living, err := k.living()
		if err == nil {
			attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
			err = check(attempt, living)
			cancel()
		}
		if err == nil || errors.Is(err, errEnded) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("servers: Kafka is not ready: %w: %w%s", ctx.Err(), err, k.logs())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// logs returns the end of what each broker has printed, where there is anything: Kafka prints errors only.
func (k *Kafka) logs() (text string) {
	for _, b := range k.brokers {
		if p := b.living(); p != nil && p.tail() != "" {
			text += "\n" + b.name() + " says:\n" + p.tail()
		}
	}
	return text
}

// living returns the brokers that neither Kill nor Stop has stopped.
func (k *Kafka) living() (living []*Broker, err error) {
	for _, b := range k.brokers {
		p := b.living()
		if p == nil {
			continue
		}
		select {
		case <-p.exited:
			return nil, fmt.Errorf("servers: %s of Kafka %w:\n%s", b.name(), errEnded, p.tail())
		default:
			living = append(living, b)
		}
	}
	if living == nil {
		return nil, errors.New("no broker lives")
	}
	return living, nil
}

// knows complains about what the broker does not know yet of the cluster.
func (b *Broker) knows(ctx context.Context, living []*Broker) error {
	md, err := ask[*kmsg.MetadataResponse](ctx, b, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return err
	}
	lives := func(id int32) bool { return slices.ContainsFunc(living, func(b *Broker) bool { return b.ID == id }) }
	for _, other := range living {
		if !slices.ContainsFunc(md.Brokers, func(m kmsg.MetadataResponseBroker) bool { return m.NodeID == other.ID }) {
			return fmt.Errorf("%s does not know %s", b.name(), other.name())
		}
	}
	for _, t := range md.Topics {
		for _, p := range t.Partitions {
			if !lives(p.Leader) && !slices.ContainsFunc(p.Replicas, func(id int32) bool { return !lives(id) }) {
				return fmt.Errorf("%s knows no leader of %s/%d", b.name(), *t.Topic, p.Partition)
			}
			for _, id := range p.Replicas {
				if lives(p.Leader) && lives(id) && !slices.Contains(p.ISR, id) {
					return fmt.Errorf("replica %d of %s/%d is not in sync", id, *t.Topic, p.Partition)
				}
			}
		}
	}
	return nil
}

// coordinatorsAnswer asks for groups that nobody has: a coordinator that has loaded says so.
func (k *Kafka) coordinatorsAnswer(ctx context.Context) error {
	for id := range offsetsPartitions {
		group := fmt.Sprint(id)
		b, err := k.Coordinator(ctx, group)
		if err != nil {
			return err
		}
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Groups = []string{group}
		resp, err := ask[*kmsg.DescribeGroupsResponse](ctx, b, req)
		if err != nil {
			return err
		}
		if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("coordinator of group %s: %w", group, err)
		}
	}
	return nil
}

// Coordinator returns the broker that coordinates the group now.
func (k *Kafka) Coordinator(ctx context.Context, group string) (*Broker, error) {
	living, err := k.living()
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = group, []string{group} // the first for old brokers, the second for new ones
	resp, err := ask[*kmsg.FindCoordinatorResponse](ctx, living[0], req)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.Coordinators[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("servers: coordinator of group %s: %w", group, err)
	}
	return k.broker(resp.Coordinators[0].NodeID)
}

// Leader returns the broker that leads the partition now.
func (k *Kafka) Leader(ctx context.Context, topic string, partition int32) (*Broker, error) {
	living, err := k.living()
	if err != nil {
		return nil, err
	}
	t, err := living[0].topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	for _, p := range t.Partitions {
		if p.Partition == partition {
			return k.broker(p.Leader)
		}
	}
	return nil, fmt.Errorf("servers: topic %q has no partition %d", topic, partition)
}

// CreateTopic creates a topic and waits until each living broker knows the leaders of its partitions. Configs may be nil; a
// replication factor of -1 is the broker's default, see [KafkaConfig].Brokers.
func (k *Kafka) CreateTopic(name string, partitions, replicationFactor int, configs map[string]string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	living, err := k.living()
	if err != nil {
		return err
	}
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, int32(partitions), int16(replicationFactor)
	for key, value := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, &value
		topic.Configs = append(topic.Configs, c)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, topic)
	resp, err := ask[*kmsg.CreateTopicsResponse](ctx, living[0], req)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		why := ""
		if m := resp.Topics[0].ErrorMessage; m != nil {
			why = ": " + *m
		}
		return fmt.Errorf("servers: create topic %q: %w%s", name, err, why)
	}
	return k.until(ctx, func(ctx context.Context, living []*Broker) error {
		for _, b := range living {
			t, err := b.topic(ctx, name)
			if err != nil {
				return err
			}
			if len(t.Partitions) != partitions || slices.ContainsFunc(t.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader < 0 }) {
				return fmt.Errorf("%s does not know all leaders of %q", b.name(), name)
			}
		}
		return nil
	})
}

func (k *Kafka) broker(id int32) (*Broker, error) {
	for _, b := range k.brokers {
		if b.ID == id {
			return b, nil
		}
	}
	return nil, fmt.Errorf("servers: Kafka has no broker %d", id)
}

// topic asks the broker about one topic.
func (b *Broker) topic(ctx context.Context, name string) (*kmsg.MetadataResponseTopic, error) {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	md, err := ask[*kmsg.MetadataResponse](ctx, b, req)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(md.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("servers: topic %q: %w", name, err)
	}
	return &md.Topics[0], nil
}

// ask sends one request to this very broker.
func ask[R kmsg.Response](ctx context.Context, b *Broker, req kmsg.Request) (r R, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.direct), kgo.RetryTimeout(0))
	if err != nil {
		return r, fmt.Errorf("servers: %w", err)
	}
	defer client.Close()
	resp, err := client.SeedBrokers()[0].Request(ctx, req)
	if err != nil {
		return r, fmt.Errorf("servers: %s does not answer: %w", b.name(), err)
	}
	return resp.(R), nil
}
