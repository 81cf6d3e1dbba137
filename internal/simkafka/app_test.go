package simkafka_test

// An app is the smallest consumer there is: it answers rebalances the right way, polls, and writes down what it saw.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

var orders = "orders"

var protocols = []string{simkafka.Range, simkafka.Cooperative, simkafka.Consumer}

// in runs a test in virtual time with a cluster that has the topic orders.
func in(t *testing.T, partitions int, test func(t *testing.T, k *simkafka.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := simkafka.NewCluster(1)
		defer k.Stop()
		k.CreateTopic(orders, partitions)
		test(t, k)
	})
}

// inEach is in, once for each protocol.
func inEach(t *testing.T, partitions int, test func(t *testing.T, k *simkafka.Cluster, protocol string)) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			in(t, partitions, func(t *testing.T, k *simkafka.Cluster) { test(t, k, protocol) })
		})
	}
}

func produce(k *simkafka.Cluster, partition int32, n int) {
	for range n {
		k.Produce(orders, partition, nil, []byte("v"), nil, time.Time{})
	}
}

func at(partition int32, offset kafka.Offset) []kafka.TopicPartition {
	return []kafka.TopicPartition{{Topic: &orders, Partition: partition, Offset: offset}}
}

type app struct {
	*simkafka.Client
	t    *testing.T
	wait time.Duration // that a callback takes
	hook func(e kafka.Event)
	from kafka.Offset // where assignments begin
	keep bool         // store the offset of each record

	mu      sync.Mutex
	seen    []string // "0@3", "assigned 0 1", "revoked 0", "lost 0", "error …"
	stopped chan struct{}
	ended   chan struct{}
}

func newApp(t *testing.T, k *simkafka.Cluster, o simkafka.Options) *app {
	t.Helper()
	if o.Group == "" {
		o.Group = "billing"
	}
	if o.AutoOffsetReset == "" {
		o.AutoOffsetReset = "earliest"
	}
	a := &app{Client: k.NewClient(o), t: t, from: kafka.OffsetInvalid, keep: true}
	return a
}

// subscribed is a new app that has joined alone, has seen its first callback, and whose partitions have started.
func subscribed(t *testing.T, k *simkafka.Cluster, o simkafka.Options) *app {
	t.Helper()
	a := newApp(t, k, o)
	a.subscribe()
	a.until("assigned", 30*time.Second)
	time.Sleep(10 * time.Millisecond)
	return a
}

func (a *app) subscribe() {
	a.t.Helper()
	if err := a.SubscribeTopics([]string{orders}, a.rebalanced); err != nil {
		a.t.Fatal(err)
	}
}

func (a *app) rebalanced(c *kafka.Consumer, e kafka.Event) error {
	if c != nil {
		a.t.Error("the callback was given a consumer")
	}
	time.Sleep(a.wait)
	if a.hook != nil {
		a.hook(e)
	}
	eager := a.GetRebalanceProtocol() == "EAGER"
	var err error
	switch e := e.(type) {
	case kafka.AssignedPartitions:
		a.note("assigned" + numbers(e.Partitions))
		for i := range e.Partitions {
			e.Partitions[i].Offset = a.from
		}
		if eager {
			err = a.Assign(e.Partitions)
		} else {
			err = a.IncrementalAssign(e.Partitions)
		}
	case kafka.RevokedPartitions:
		word := "revoked"
		if a.AssignmentLost() {
			word = "lost"
		}
		a.note(word + numbers(e.Partitions))
		if eager {
			err = a.Unassign()
		} else {
			err = a.IncrementalUnassign(e.Partitions)
		}
	}
	if err != nil {
		a.t.Errorf("%T: %v", e, err)
	}
	return err
}

func numbers(ps []kafka.TopicPartition) string {
	var b strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&b, " %d", p.Partition)
	}
	return b.String()
}

func (a *app) note(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, s)
}

// saw takes what was seen since the last call.
func (a *app) saw() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.seen
	a.seen = nil
	return seen
}

// once polls once and notes what comes.
func (a *app) once(timeoutMs int) kafka.Event {
	e := a.Poll(timeoutMs)
	switch e := e.(type) {
	case nil:
	case *kafka.Message:
		a.note(fmt.Sprintf("%d@%d", e.TopicPartition.Partition, e.TopicPartition.Offset))
		if a.keep {
			at := e.TopicPartition
			at.Offset++
			if _, err := a.StoreOffsets([]kafka.TopicPartition{at}); err != nil && errCode(err) != kafka.ErrState {
				a.t.Error(err)
			}
		}
	case kafka.Error:
		a.note("error " + e.Code().String())
	default:
		a.note(e.String())
	}
	return e
}

// run polls for a while.
func (a *app) run(d time.Duration) []string {
	for end := time.Now().Add(d); ; {
		left := time.Until(end)
		if left <= 0 {
			return a.saw()
		}
		a.once(int(min(left+time.Millisecond-1, 100*time.Millisecond) / time.Millisecond))
	}
}

// until polls until something is seen that begins with a word, and answers what was seen so far.
func (a *app) until(word string, most time.Duration) []string {
	a.t.Helper()
	var all []string
	for end := time.Now().Add(most); time.Now().Before(end); {
		a.once(10)
		all = append(all, a.saw()...)
		if slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, word) }) {
			return all
		}
	}
	a.t.Fatalf("no %q within %v; saw %q", word, most, all)
	return nil
}

// start polls in a goroutine until stop.
func (a *app) start() {
	a.stopped, a.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(a.ended)
		for {
			select {
			case <-a.stopped:
				return
			default:
				a.once(100)
			}
		}
	}()
}

func (a *app) stop() {
	close(a.stopped)
	<-a.ended
}

func (a *app) close() {
	a.t.Helper()
	if err := a.Close(); err != nil {
		a.t.Error(err)
	}
}

func errCode(err error) kafka.ErrorCode {
	if e, ok := err.(kafka.Error); ok {
		return e.Code()
	}
	return kafka.ErrNoError
}

func wantCode(t *testing.T, err error, code kafka.ErrorCode) {
	t.Helper()
	if errCode(err) != code {
		t.Fatalf("error %v, want %v", err, code)
	}
}

func want(t *testing.T, got []string, wanted ...string) {
	t.Helper()
	if !slices.Equal(got, wanted) {
		t.Fatalf("saw %q, want %q", got, wanted)
	}
}

// records are the records among what was seen.
func records(seen []string) []string {
	return slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return !strings.Contains(s, "@") })
}

func none(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
