package consumer

// The hot path over a client that answers at once, so that what is measured is ours: taking records from Poll, handing them to the lanes, calling the
// handler, storing offsets. Compare two revisions with benchstat:
//
//	go test -run '^$' -bench HappyPath -count 10 ./consumer

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/strategy"
)

// BenchmarkHappyPath is one record: from Poll to the handler's nil.
func BenchmarkHappyPath(b *testing.B) {
	b.Run("bare", func(b *testing.B) { // the floor: Poll, and the handler on the same goroutine
		c := newFirehose(6)
		c.goal.Store(int64(b.N))
		b.ReportAllocs()
		b.ResetTimer()
		for range b.N {
			m := c.Poll(0).(*kafka.Message)
			c.called[m.TopicPartition.Partition].Add(1)
			c.handled.Add(int64(min(1, len(m.Value))))
		}
	})
	for _, partitions := range []int{1, 6, 60} {
		b.Run(fmt.Sprint("partitions=", partitions), func(b *testing.B) {
			flow, end := run(b, partitions)
			defer end()
			b.ReportAllocs()
			b.ResetTimer()
			flow(int64(b.N))
		})
	}
}

func TestHappyPathAllocatesNothing(t *testing.T) {
	flow, end := run(t, 6)
	defer end()
	flow(3 * ring) // so that every queue has its size
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const records = 500_000
	flow(records)
	runtime.ReadMemStats(&after)
	// A tick and a commit may allocate, whatever the number of records.
	if n := float64(after.Mallocs-before.Mallocs) / records; n > 0.02 {
		t.Errorf("%.3f allocations for each record, want none", n)
	}
}

// run starts a consumer over a firehose. flow lets that many records through and returns when the last one was handled.
func run(t testing.TB, partitions int) (flow func(records int64), end func()) {
	client := newFirehose(partitions)
	cfg := Config{
		Kafka: &kafka.ConfigMap{"group.id": "bench"}, Topics: []string{"orders"}, Strategy: strategy.MustParse(`[1]`),
		Handler: func(_ context.Context, m *kafka.Message) error {
			client.called[m.TopicPartition.Partition].Add(1)
			if client.handled.Add(1) == client.goal.Load() {
				client.reached <- struct{}{}
			}
			return nil
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := assemble(client, cfg.withDefaults(), noLetters{})
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	flow = func(records int64) {
		client.goal.Store(client.handled.Load() + records)
		<-client.reached
	}
	return flow, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// ring is how many records a firehose is made of. It delivers them again and again, each with its next offset.
const ring = 1 << 15

// firehose is a client that has the next record at once, up to the goal. The methods that it lacks are not called on the happy path.
type firehose struct {
	Client
	rebalance kafka.RebalanceCb
	parts     []kafka.TopicPartition
	messages  []kafka.Message
	delivered int64

	goal, handled atomic.Int64
	called        []atomic.Int64 // by partition: the calls that have begun
	reached       chan struct{}
}

func newFirehose(partitions int) *firehose {
	f := &firehose{messages: make([]kafka.Message, ring), reached: make(chan struct{}, 1), called: make([]atomic.Int64, partitions)}
	topic := "orders"
	for p := range partitions {
		f.parts = append(f.parts, kafka.TopicPartition{Topic: &topic, Partition: int32(p)})
	}
	value := make([]byte, 200)
	for i := range f.messages {
		f.messages[i] = kafka.Message{TopicPartition: f.parts[i%partitions], Value: value}
	}
	return f
}

func (f *firehose) SubscribeTopics(_ []string, cb kafka.RebalanceCb) error {
	f.rebalance = cb
	return nil
}

func (f *firehose) Poll(timeoutMs int) kafka.Event {
	if cb := f.rebalance; cb != nil {
		f.rebalance = nil
		_ = cb(nil, kafka.AssignedPartitions{Partitions: f.parts})
		return nil
	}
	m := &f.messages[f.delivered%ring]
	// A record is free again once its lane has begun a later one.
	last := &m.TopicPartition
	if f.delivered >= f.goal.Load() || f.delivered >= ring && f.called[last.Partition].Load() <= int64(last.Offset)+1 {
		if timeoutMs > 0 {
			time.Sleep(100 * time.Microsecond)
		}
		return nil
	}
	m.TopicPartition.Offset = kafka.Offset(f.delivered / int64(len(f.parts)))
	if ring%len(f.parts) != 0 { // the last lap ended in the middle of the partitions
		m.TopicPartition.Partition = int32(f.delivered % int64(len(f.parts)))
	}
	f.delivered++
	return m
}

func (f *firehose) Subscription() ([]string, error)             { return nil, nil }
func (f *firehose) Events() chan kafka.Event                    { return nil }
func (f *firehose) Logs() chan kafka.LogEvent                   { return nil }
func (f *firehose) GetRebalanceProtocol() string                { return "EAGER" }
func (f *firehose) AssignmentLost() bool                        { return false }
func (f *firehose) Assign([]kafka.TopicPartition) error         { return nil }
func (f *firehose) Unassign() error                             { return nil }
func (f *firehose) Pause([]kafka.TopicPartition) error          { return nil }
func (f *firehose) Resume([]kafka.TopicPartition) error         { return nil }
func (f *firehose) Assignment() ([]kafka.TopicPartition, error) { return f.parts, nil }
func (f *firehose) Commit() ([]kafka.TopicPartition, error)     { return nil, nil }
func (f *firehose) Close() error                                { return nil }

func (f *firehose) StoreOffsets(offsets []kafka.TopicPartition) ([]kafka.TopicPartition, error) {
	return offsets, nil
}

func (f *firehose) Committed(parts []kafka.TopicPartition, _ int) ([]kafka.TopicPartition, error) {
	committed := append([]kafka.TopicPartition(nil), parts...)
	for i := range committed {
		committed[i].Offset = 0
	}
	return committed, nil
}

func (f *firehose) OffsetsForTimes(parts []kafka.TopicPartition, _ int) ([]kafka.TopicPartition, error) {
	return f.Committed(parts, 0)
}

// noLetters is the DLQ of a stream without a bad record.
type noLetters struct{}

func (noLetters) Check(context.Context, []string) error            { return nil }
func (noLetters) Write(dlq.Letter, func(error))                    { panic("no record was bad") }
func (noLetters) SetOAuthBearerToken(kafka.OAuthBearerToken) error { return nil }
func (noLetters) SetOAuthBearerTokenFailure(string) error          { return nil }
func (noLetters) Close(context.Context) error                      { return nil }
