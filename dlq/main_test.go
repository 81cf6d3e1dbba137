package dlq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// broker starts an embedded broker.
func broker(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// consumerMap is what a consumer of the broker would be made from.
func consumerMap(c *kfake.Cluster) *kafka.ConfigMap {
	return &kafka.ConfigMap{
		"bootstrap.servers":               strings.Join(c.ListenAddrs(), ","),
		"group.id":                        "billing",
		"auto.offset.reset":               "earliest",
		"go.application.rebalance.enable": true,
	}
}

// writerOn starts a writer that ends with the test.
func writerOn(t testing.TB, c *kfake.Cluster, cfg Config, log ...*zap.Logger) *Writer {
	t.Helper()
	if len(log) == 0 {
		log = append(log, zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)))
	}
	w, err := NewWriter(cfg, consumerMap(c), log[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// write waits for what becomes of a letter.
func write(t testing.TB, w *Writer, l Letter) error {
	t.Helper()
	done := make(chan error, 2)
	w.Write(l, func(err error) { done <- err })
	return receive(t, done)
}

func receive[T any](t testing.TB, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		t.Fatal("it did not come in time")
	}
	return v
}

// eventually asks again until ok, as something that nobody announces takes a while.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// read waits for n records of a topic, seen with another client than the one that wrote them.
func read(t testing.TB, c *kfake.Cluster, topic string, n int) []*kgo.Record {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var rs []*kgo.Record
	for len(rs) < n {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records in %s", len(rs), n, topic)
		}
		fs.EachRecord(func(r *kgo.Record) { rs = append(rs, r) })
	}
	return rs
}

// count is how many records a topic has.
func count(c *kfake.Cluster, topic string) (n int64) {
	for _, p := range c.PartitionInfos(topic) {
		n += p.HighWatermark
	}
	return n
}

// headersOf makes the client's headers of what was read.
func headersOf(r *kgo.Record) (hs []kafka.Header) {
	for _, h := range r.Headers {
		hs = append(hs, kafka.Header{Key: h.Key, Value: h.Value})
	}
	return hs
}

// record is a record of topic "orders".
func record(partition int32, offset int64) *kafka.Message {
	topic := "orders"
	return &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: partition, Offset: kafka.Offset(offset)},
		Key:            fmt.Appendf(nil, "key-%d", offset),
		Value:          fmt.Appendf(nil, "value-%d", offset),
		Timestamp:      time.UnixMilli(1_700_000_000_000 + offset),
		TimestampType:  kafka.TimestampCreateTime,
	}
}

// letter is a letter about r.
func letter(r *kafka.Message) Letter {
	return Letter{
		Record: r, GroupID: "billing", Attempts: 14, Kind: Exhausted,
		ErrorClass: "http 503", ErrorMessage: "service unavailable", FirstErrorMessage: "connection refused",
		FirstFailedAt: time.UnixMilli(1_700_000_100_000), FailedAt: time.UnixMilli(1_700_000_700_000),
		Episode: "e1", Instance: "billing-1@host",
	}
}

func wantErr(t testing.TB, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want one that wraps %v", err, want)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}
