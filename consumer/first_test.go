package consumer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"errors"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/zap/zaptest"

	"github.com/breakwater-go/breakwater/internal/servers"
	"github.com/breakwater-go/breakwater/strategy"
)

func TestFirst(t *testing.T) {
	cl := servers.Fake(t, kfake.SeedTopics(3, "orders", "orders.dlq"))
	boot := servers.FakeBootstrap(cl)
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": boot})
	if err != nil { t.Fatal(err) }
	topic := "orders"
	for i := range 300 {
		p.Produce(&kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: int32(i % 3)}, Value: []byte(fmt.Sprint(i))}, nil)
	}
	p.Flush(5000)
	p.Close()
	var down atomic.Bool
	var mu sync.Mutex
	handled := map[string]int{}
	n := 0
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := func(ctx context.Context, m *kafka.Message) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		if n == 50 { down.Store(true); time.AfterFunc(2500*time.Millisecond, func() { down.Store(false) }) }
		if down.Load() { t.Log("call while down", m.TopicPartition, AttemptFrom(ctx)); return errors.New("down") }
		if string(m.Value) == "200" { panic("poison") }
		handled[string(m.Value)]++
		if len(handled) == 299 { close(done) }
		return nil
	}
	c, err := New(Config{Kafka: &kafka.ConfigMap{"bootstrap.servers": boot, "group.id": "g", "auto.offset.reset": "earliest"}, Topics: []string{"orders"}, Handler: h,
		Strategy: strategy.MustParse(`[1,2,4]`), Logger: zaptest.NewLogger(t)})
	if err != nil { t.Fatal(err) }
	end := make(chan error)
	go func() { end <- c.Run(ctx) }()
	select { case <-done: case <-time.After(20*time.Second): t.Error("timeout"); t.Logf("%+v", c.Status()) }
	cancel()
	t.Log(<-end)
}
