package main

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/strategy"
)

// franz is a loop on franz-go as a good engineer writes it in an afternoon: one record after the other; on failure fetching is paused, and the record
// is called again when its wait is over. franz-go keeps its place in the group by itself, so the loop may sleep.
func franz(ctx context.Context, h *contend.Host) error {
	s, err := strategy.Parse("strategy.json", []byte(h.Strategy))
	if err != nil {
		return err
	}
	l := &loop{h: h, strategy: s, gone: make(chan struct{})}
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(h.Brokers, ",")...), kgo.ClientID(h.Instance), kgo.ConsumerGroup(h.Group), kgo.ConsumeTopics(h.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks(), kgo.AutoCommitInterval(time.Second),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.WithHooks(&l.fetched),
		kgo.OnPartitionsRevoked(l.revoked), kgo.OnPartitionsLost(l.lost),
	}
	if h.MaxPoll > 0 {
		opts = append(opts, kgo.SessionTimeout(min(h.MaxPoll, 6*time.Second)), kgo.RebalanceTimeout(h.MaxPoll))
	}
	if l.client, err = kgo.NewClient(opts...); err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := l.client.PollRecords(ctx, 10_000)
		h.Fetched(l.fetched.Load())
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			for _, r := range p.Records {
				if !l.handle(ctx, r) {
					return // its partition was taken away, or we end: the rest comes again
				}
				l.client.MarkCommitRecords(r)
			}
		})
	}
	leave, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = l.client.CommitMarkedOffsets(leave)
	l.client.LeaveGroup()
	l.client.Close()
	return err
}

type loop struct {
	h        *contend.Host
	client   *kgo.Client
	strategy *strategy.Strategy
	fetched  counter

	mu   sync.Mutex
	gone chan struct{} // closed when partitions were taken away
}

// handle brings a record to its end; false: it is not ours any more.
func (l *loop) handle(ctx context.Context, r *kgo.Record) bool {
	l.mu.Lock()
	gone := l.gone
	l.mu.Unlock()
	for attempt := 1; ; attempt++ {
		err := l.h.Handle(ctx, contend.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Value: r.Value, Attempt: attempt})
		wait, more := l.strategy.Wait(attempt)
		if err == nil || contend.IsPermanent(err) || !more {
			if attempt > 1 {
				l.client.ResumeFetchTopics(l.h.Topic)
				l.h.State(contend.Closed)
			}
			return err == nil || l.letter(ctx, r, err, attempt)
		}
		if attempt == 1 {
			l.client.PauseFetchTopics(l.h.Topic)
			l.h.State(contend.Open)
		}
		select {
		case <-time.After(wait):
		case <-gone:
			l.client.ResumeFetchTopics(l.h.Topic)
			l.h.State(contend.Closed)
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// letter writes a dead letter, however long it takes.
func (l *loop) letter(ctx context.Context, r *kgo.Record, why error, attempts int) bool {
	text := func(key, value string) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: []byte(value)} }
	dead := &kgo.Record{Topic: l.h.DLQ, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Timestamp,
		Headers: append(append([]kgo.RecordHeader(nil), r.Headers...), text("original-topic", r.Topic), text("original-partition", strconv.Itoa(int(r.Partition))),
			text("original-offset", strconv.FormatInt(r.Offset, 10)), text("attempts", strconv.Itoa(attempts)), text("error", why.Error()))}
	for ctx.Err() == nil {
		if l.client.ProduceSync(ctx, dead).FirstErr() == nil {
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	return false
}

func (l *loop) revoked(ctx context.Context, c *kgo.Client, p map[string][]int32) {
	_ = c.CommitMarkedOffsets(ctx)
	l.lost(ctx, c, p)
}

func (l *loop) lost(context.Context, *kgo.Client, map[string][]int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.gone)
	l.gone = make(chan struct{})
}

// counter counts the bytes that came from the brokers.
type counter struct{ atomic.Int64 }

func (c *counter) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, bytes int, _, _ time.Duration, _ error) {
	c.Add(int64(bytes))
}
