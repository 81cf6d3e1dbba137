package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/internal/simkafka"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// The whole consumer in virtual time: a simulated cluster and client, a scripted dependency, a scripted DLQ. A wait of hours costs nothing, and two runs
// of a test see the same world.

// virtual runs a test in a bubble of virtual time.
func virtual(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		f(t, w)
	})
}

// world is everything around the consumers of a test.
type world struct {
	t       *testing.T
	began   time.Time
	cluster *simkafka.Cluster
	store   attempts.Store
	dlq     *scriptedDLQ

	over    chan struct{} // closed at the end of the test
	mu      sync.Mutex
	calls   []call
	down    bool
	handler func(ctx context.Context, c call) error // over down, where it is set

	instances []*instance
}

// call is one call of the handler, as the dependency saw it.
type call struct {
	Instance  string
	Partition int32
	Offset    int64
	Attempt   int
	At        time.Duration // since the world began
	Ended     time.Duration // -1 while it runs
	Err       error
}

func (c call) String() string {
	return fmt.Sprintf("%s: %d@%d #%d at %v: %v", c.Instance, c.Partition, c.Offset, c.Attempt, c.At, c.Err)
}

var (
	errDown = errors.New("connection refused")
	errHang = errors.New("hangs")
	errBad  = failure.Permanent(errors.New("bad JSON"))
)

const (
	topic = "orders"
	group = "billing"
)

func newWorld(t *testing.T) *world {
	w := &world{t: t, began: time.Now(), cluster: simkafka.NewCluster(1), store: attempts.Memory(), over: make(chan struct{})}
	w.dlq = &scriptedDLQ{w: w}
	return w
}

func (w *world) now() time.Duration { return time.Since(w.began) }

func (w *world) end() {
	close(w.over)
	for _, i := range w.instances {
		i.stop()
	}
	w.cluster.Stop()
}

// topic makes the source topic and fills each partition with n records.
func (w *world) topic(partitions, n int) {
	w.cluster.CreateTopic(topic, partitions)
	for p := range partitions {
		w.produce(int32(p), n)
	}
}

func (w *world) produce(p int32, n int) {
	for range n {
		w.cluster.Produce(topic, p, []byte("key"), []byte("value"), nil, time.Now())
	}
}

// at names a partition of the topic, as an operator does.
func at(p int32) kafka.TopicPartition { return toKafka(partition{Topic: topic, Partition: p}, 0) }

func (w *world) setDown(down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = down
}

// handle is the handler of every instance.
func (w *world) handle(i *instance, ctx context.Context, m *kafka.Message) error {
	if i.dead.Load() {
		<-w.over
		return errDown
	}
	c := call{Instance: i.name, Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset), Attempt: AttemptFrom(ctx).Number, At: w.now(), Ended: -1}
	w.mu.Lock()
	n := len(w.calls)
	w.calls = append(w.calls, c)
	handler, down := w.handler, w.down
	w.mu.Unlock()
	var err error
	defer func() {
		w.mu.Lock()
		w.calls[n].Ended, w.calls[n].Err = w.now(), err
		w.mu.Unlock()
	}()
	switch {
	case handler != nil:
		err = handler(ctx, c)
	case down:
		err = errDown
	}
	return err
}

// seen are the calls so far.
func (w *world) seen() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// failed are the calls that ended in an error.
func (w *world) failed() []call {
	return slices.DeleteFunc(w.seen(), func(c call) bool { return c.Err == nil })
}

// of are the calls of one record.
func (w *world) of(p int32, offset int64) []call {
	return slices.DeleteFunc(w.seen(), func(c call) bool { return c.Partition != p || c.Offset != offset })
}

// handled reports whether each of the first n records of each partition has succeeded or is in the DLQ.
func (w *world) handled(partitions, n int) bool {
	done := map[[2]int64]bool{}
	for _, c := range w.seen() {
		if c.Err == nil && c.Ended >= 0 {
			done[[2]int64{int64(c.Partition), c.Offset}] = true
		}
	}
	for _, l := range w.dlq.written() {
		tp := l.Record.TopicPartition
		done[[2]int64{int64(tp.Partition), int64(tp.Offset)}] = true
	}
	for p := range partitions {
		for o := range n {
			if !done[[2]int64{int64(p), int64(o)}] {
				return false
			}
		}
	}
	return true
}

// doneBy reports whether one instance has succeeded with each record of a partition from one offset up to another.
func (w *world) doneBy(name string, p int32, from, to int64) bool {
	for o := from; o < to; o++ {
		if !slices.ContainsFunc(w.of(p, o), func(c call) bool { return c.Instance == name && c.Ended >= 0 && c.Err == nil }) {
			return false
		}
	}
	return true
}

func (w *world) committed(p int32) int64 { return int64(w.cluster.Committed(group, topic, p)) }

// until lets time pass until the condition holds, and fails the test after the limit. It looks often at first, then less often.
func (w *world) until(limit time.Duration, what string, condition func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(limit)
	for look := time.Millisecond; ; look = min(look+look/8, 100*time.Millisecond) {
		synctest.Wait()
		if condition() {
			return
		}
		if !time.Now().Before(deadline) {
			w.t.Fatalf("after %v not yet: %s\n%s", limit, what, w.picture())
		}
		time.Sleep(look)
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// picture is what a failed test shows.
func (w *world) picture() string {
	var b strings.Builder
	for _, c := range w.seen() {
		fmt.Fprintln(&b, c)
	}
	for _, i := range w.instances {
		fmt.Fprintf(&b, "%s: %+v\n", i.name, i.c.Status())
		for _, e := range i.told() {
			fmt.Fprintf(&b, "  %v %v %s/%d@%d #%d %v %s %v\n", e.At.Sub(w.began), e.Kind, e.Topic, e.Partition, e.Offset, e.Attempt, e.RetryAt.Sub(w.began), e.Text, e.Err)
		}
	}
	return b.String()
}

// instance is one consumer of the group.
type instance struct {
	w      *world
	name   string
	client *simkafka.Client
	c      *Consumer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	dead   atomic.Bool

	mu     sync.Mutex
	events []observe.Event
}

// setup is what a test may change of an instance before it starts.
type setup struct {
	client simkafka.Options
	config Config
}

// start runs an instance with a strategy; change may be nil.
func (w *world) start(strat string, change func(*setup)) *instance {
	w.t.Helper()
	i := &instance{w: w, name: fmt.Sprintf("c%d", len(w.instances)+1), ended: make(chan struct{})}
	s := setup{client: simkafka.Options{Group: group, AutoOffsetReset: "earliest", Protocol: simkafka.Range}}
	s.config = Config{
		Topics:    []string{topic},
		Strategy:  strategy.MustParse(strat),
		Attempts:  w.store,
		Instance:  i.name,
		Handler:   func(ctx context.Context, m *kafka.Message) error { return w.handle(i, ctx, m) },
		Observers: []observe.Observer{observe.Func(i.observe)},
	}
	if change != nil {
		change(&s)
	}
	s.config.Attempts = mortal{s.config.Attempts, i}
	if s.client.MaxPollInterval == 0 {
		s.client.MaxPollInterval = 5 * time.Minute
	}
	s.config.Kafka = &kafka.ConfigMap{
		"bootstrap.servers":    "simulated",
		"group.id":             group,
		"auto.offset.reset":    s.client.AutoOffsetReset,
		"max.poll.interval.ms": int(s.client.MaxPollInterval.Milliseconds()),
	}
	if s.client.Protocol == simkafka.Consumer {
		(*s.config.Kafka)["group.protocol"] = "consumer"
	}
	if err := s.config.Validate(); err != nil {
		w.t.Fatal(err)
	}
	i.client = w.cluster.NewClient(s.client)
	if err := inspect(i.client); err != nil {
		w.t.Fatal(err)
	}
	i.c = assemble(i.client, s.config.withDefaults(), w.dlq)
	w.mu.Lock()
	w.instances = append(w.instances, i)
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	go func() {
		defer close(i.ended)
		i.err = i.c.Run(ctx)
	}()
	return i
}

func (i *instance) observe(e observe.Event) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.events = append(i.events, e)
}

func (i *instance) told() []observe.Event {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.events)
}

// count is how often a kind of event was told.
func (i *instance) count(k observe.Kind) (n int) {
	for _, e := range i.told() {
		if e.Kind == k {
			n++
		}
	}
	return n
}

// stop ends the instance cleanly and answers what Run did.
func (i *instance) stop() error {
	i.cancel()
	<-i.ended
	return i.err
}

// kill is a kill -9: from here on nothing that the instance does has an effect on the world, and no call of its handler returns.
func (i *instance) kill() {
	i.dead.Store(true)
	i.client.Crash()
}

func (w *world) killed(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.instances, func(i *instance) bool { return i.name == name && i.dead.Load() })
}

// state is the breaker's.
func (i *instance) state() string { return i.c.Status().Breaker.State }

// reasons are why a partition is paused, as the status says: "breaker,held".
func (i *instance) reasons(p int32) string {
	for _, s := range i.c.Status().Partitions {
		if s.Partition == p {
			return strings.Join(s.Reasons, ",")
		}
	}
	return "not assigned"
}

// scriptedDLQ is a dead letter queue whose broker can be away. It hears nothing of an instance that was killed.
type scriptedDLQ struct {
	w *world

	mu      sync.Mutex
	away    error                                                 // every write fails with it
	latency time.Duration                                         // of an acknowledgement
	silent  bool                                                  // no write is ever answered
	script  func(l dlq.Letter) (latency time.Duration, err error) // over away and latency, where it is set
	hangs   bool                                                  // Check does not answer before its ctx ends
	letters []dlq.Letter
	tried   int
	last    time.Time // the latest instant of an acknowledgement
}

func (d *scriptedDLQ) set(change func(d *scriptedDLQ)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *scriptedDLQ) written() []dlq.Letter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.letters)
}

func (d *scriptedDLQ) Check(ctx context.Context, _ []string) error {
	d.mu.Lock()
	hangs := d.hangs
	d.mu.Unlock()
	if !hangs {
		return nil
	}
	select { // as dlq.Writer.Check
	case <-ctx.Done():
	case <-time.After(30 * time.Second):
	}
	return fmt.Errorf("dlq: %w", dlq.ErrNoAnswer)
}

func (d *scriptedDLQ) Write(l dlq.Letter, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w.killed(l.Instance) {
		return
	}
	d.tried++
	if d.silent {
		return
	}
	latency, away := d.latency, d.away
	if d.script != nil {
		latency, away = d.script(l)
	}
	at := time.Now().Add(max(latency, time.Microsecond))
	if d.script == nil && !at.After(d.last) {
		at = d.last.Add(1) // in the order of the writes
	}
	d.last = at
	time.AfterFunc(time.Until(at), func() {
		if away == nil {
			d.mu.Lock()
			d.letters = append(d.letters, l)
			d.mu.Unlock()
		}
		done(away)
	})
}

func (d *scriptedDLQ) SetOAuthBearerToken(kafka.OAuthBearerToken) error { return nil }
func (d *scriptedDLQ) SetOAuthBearerTokenFailure(string) error          { return nil }
func (d *scriptedDLQ) Close(context.Context) error                      { return nil }
