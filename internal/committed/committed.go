// Package committed asks what a consumer group has committed, for those who look at a group from the outside.
package committed

import (
	"errors"
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Asker asks for one group, as a consumer that never joins it. The admin client's ListConsumerGroupOffsets would be the plain way, but in librdkafka 2.11.1 an answer that
// comes while the coordinator moves can crash the process. Its methods may be called from any goroutine, save that none runs when Close is called.
type Asker struct {
	c     *kafka.Consumer
	group string
}

// NewAsker makes an Asker with the settings of a client (brokers, security), which are not changed. It waits for no broker.
func NewAsker(client *kafka.ConfigMap, group string) (*Asker, error) {
	m := kafka.ConfigMap{"group.id": group, "enable.auto.commit": false}
	for k, v := range *client {
		m[k] = v
	}
	c, err := kafka.NewConsumer(&m)
	if err != nil {
		return nil, fmt.Errorf("no Kafka client for group %q: %w", group, err)
	}
	return &Asker{c, group}, nil
}

// Offsets are the group's committed offsets of a topic's partitions from 0 on; -1 where there is none.
func (a *Asker) Offsets(topic string, partitions int, patience time.Duration) ([]int64, error) {
	asked, offsets := make([]kafka.TopicPartition, partitions), make([]int64, partitions)
	for p := range asked {
		offsets[p] = -1
		asked[p] = kafka.TopicPartition{Topic: &topic, Partition: int32(p)}
	}
	told, err := a.c.Committed(asked, int(patience.Milliseconds()))
	if e := (kafka.Error{}); errors.As(err, &e) && e.Code() == kafka.ErrGroupIDNotFound {
		told, err = nil, nil // nobody has committed yet
	}
	for _, p := range told {
		err = errors.Join(err, p.Error)
		offsets[p.Partition] = max(-1, int64(p.Offset))
	}
	if err != nil {
		return nil, fmt.Errorf("the broker did not tell what group %q has committed: %w", a.group, err)
	}
	return offsets, nil
}

// Close ends it.
func (a *Asker) Close() { _ = a.c.Close() }
