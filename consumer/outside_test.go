package consumer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/servers"
	"github.com/breakwater-go/breakwater/strategy"
)

// What the tests on brokers share: members that are processes of their own and can be killed, and a dependency that counts what reaches it. Everything is judged by what
// the dependency, the producer and the DLQ's readers saw; the members are not asked.

// broker is a Kafka to test on, with an attempt store beside it.
type broker struct {
	name      string
	bootstrap string
	redis     string
	create    func(topic string, partitions int)
}

// eachBroker runs a test on the embedded servers and on real ones.
func eachBroker(t *testing.T, f func(t *testing.T, b broker)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		cluster := servers.Fake(t)
		store := miniredis.RunT(t)
		f(t, broker{"embedded", servers.FakeBootstrap(cluster), store.Addr(), func(topic string, partitions int) {
			admin(t, servers.FakeBootstrap(cluster), topic, partitions)
		}})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		servers.Real(t)
		k := servers.SharedKafka(t)
		f(t, broker{"real", k.Bootstrap(), servers.Redis(t), func(topic string, partitions int) {
			admin(t, k.Bootstrap(), topic, partitions)
		}})
	})
}

// admin creates a topic and its DLQ.
func admin(t *testing.T, bootstrap, topic string, partitions int) {
	t.Helper()
	a, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": bootstrap})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	results, err := a.CreateTopics(context.Background(), []kafka.TopicSpecification{
		{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1},
		{Topic: topic + ".dlq", NumPartitions: partitions, ReplicationFactor: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Error.Code() != kafka.ErrNoError {
			t.Fatal(r.Error)
		}
	}
}

// fill produces n records to each partition, and answers when the broker has them.
func fill(t *testing.T, b broker, topic string, partitions, n int) {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": b.bootstrap, "acks": "all", "go.delivery.reports": false})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range n {
		for part := range partitions {
			tp := kafka.TopicPartition{Topic: &topic, Partition: int32(part)}
			if err := p.Produce(&kafka.Message{TopicPartition: tp, Value: []byte(strconv.Itoa(i))}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left := p.Flush(30_000); left > 0 {
		t.Fatalf("%d records were not produced", left)
	}
}

// deadLetters reads a DLQ from its start to its end, with a client of its own.
func readDeadLetters(t *testing.T, b broker, topic string, partitions int) (letters []dlq.Info) {
	t.Helper()
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": b.bootstrap, "group.id": "reader", "enable.auto.commit": false, "enable.partition.eof": true, "isolation.level": "read_committed"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := topic + ".dlq"
	var all []kafka.TopicPartition
	for p := range partitions {
		all = append(all, kafka.TopicPartition{Topic: &name, Partition: int32(p), Offset: kafka.OffsetBeginning})
	}
	if err := c.Assign(all); err != nil {
		t.Fatal(err)
	}
	for ends, deadline := 0, time.Now().Add(30*time.Second); ends < partitions; {
		switch e := c.Poll(100).(type) {
		case *kafka.Message:
			info, err := dlq.Read(e.Headers)
			if err != nil {
				t.Errorf("dead letter %v: %v", e.TopicPartition, err)
			}
			letters = append(letters, info)
		case kafka.PartitionEOF:
			ends++
		}
		if time.Now().After(deadline) {
			t.Fatal("the DLQ's end was not reached")
		}
	}
	return letters
}

// seenCall is a call as the dependency saw it.
type seenCall struct {
	Member    string
	Partition int32
	Offset    int64
	Attempt   int
	Began     time.Time
	Ended     time.Time
	Status    int
}

// dependency is what the members' handlers call over HTTP.
type dependency struct {
	server *httptest.Server
	mu     sync.Mutex
	calls  []*seenCall
	answer func(c seenCall) int // the status; dieStatus kills the member
}

const dieStatus = 599

func newDependency(t *testing.T) *dependency {
	d := &dependency{answer: func(seenCall) int { return http.StatusOK }}
	d.server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.server.Close)
	return d
}

func (d *dependency) set(answer func(c seenCall) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

func always(status int) func(seenCall) int { return func(seenCall) int { return status } }

func (d *dependency) serve(w http.ResponseWriter, r *http.Request) {
	var c seenCall
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.Began = time.Now()
	d.mu.Lock()
	answer := d.answer
	d.mu.Unlock()
	c.Status = answer(c)
	c.Ended = time.Now()
	d.mu.Lock()
	d.calls = append(d.calls, &c)
	d.mu.Unlock()
	w.WriteHeader(c.Status)
}

func (d *dependency) seen() []seenCall {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]seenCall, len(d.calls))
	for i, c := range d.calls {
		all[i] = *c
	}
	return all
}

// of are the calls of one record, in their order.
func (d *dependency) of(p int32, offset int64) []seenCall {
	return slices.DeleteFunc(d.seen(), func(c seenCall) bool { return c.Partition != p || c.Offset != offset })
}

// succeeded counts the records that were handled.
func (d *dependency) succeeded() int {
	done := map[[2]int64]bool{}
	for _, c := range d.seen() {
		if c.Status == http.StatusOK {
			done[[2]int64{int64(c.Partition), c.Offset}] = true
		}
	}
	return len(done)
}

// wait waits for a condition of the outside world, and fails the test after the limit.
func wait(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("after %v not yet: %s", limit, what)
		case <-look.C:
		}
	}
}

// member is a consumer in a process of its own.
type member struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	done chan struct{}
	err  error
}

// memberConfig is what a member is told.
type memberConfig struct {
	Name, Bootstrap, Redis, Topic, Group, Dependency, Strategy string
	Client                                                     map[string]string
	HandlerTimeout, DrainTimeout                               time.Duration
}

const memberEnv = "BREAKWATER_TEST_MEMBER"

// member starts a process that consumes until it is told to stop, is killed, or is left alone by its test.
func (b broker) member(t *testing.T, d *dependency, cfg memberConfig) *member {
	t.Helper()
	cfg.Bootstrap, cfg.Redis, cfg.Dependency = b.bootstrap, b.redis, d.server.URL
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{name: cfg.Name, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	m.cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	log := &lines{t: t, name: cfg.Name}
	m.cmd.Stdout, m.cmd.Stderr = log, log
	// Its end of the pipe is closed when this process dies, however it dies.
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.done)
		m.err = m.cmd.Wait()
	}()
	t.Cleanup(func() {
		m.kill()
		log.end()
	})
	return m
}

// kill is kill -9.
func (m *member) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

// stop is a deployment's SIGTERM; it answers how the process ended.
func (m *member) stop() error {
	_ = m.cmd.Process.Signal(syscall.SIGTERM)
	<-m.done
	return m.err
}

// lines shows what a member printed, in the log of the test.
type lines struct {
	mu    sync.Mutex
	t     *testing.T
	name  string
	ended bool
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.t.Logf("%s: %s", l.name, p)
	}
	return len(p), nil
}

func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// runMember is the member's main.
func runMember(text string) int {
	var cfg memberConfig
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(9) // the test is gone
	}()
	m := kafka.ConfigMap{"bootstrap.servers": cfg.Bootstrap, "group.id": cfg.Group, "auto.offset.reset": "earliest", "client.id": cfg.Name}
	for k, v := range cfg.Client {
		m[k] = v
	}
	logger, _ := zap.NewDevelopment(zap.IncreaseLevel(zap.InfoLevel), zap.AddStacktrace(zap.FatalLevel))
	rdb := redis.NewClient(&redis.Options{Addr: cfg.Redis})
	defer rdb.Close()
	c, err := New(Config{
		Kafka: &m, Topics: []string{cfg.Topic}, Strategy: strategy.MustParse(cfg.Strategy), Logger: logger,
		Attempts: attempts.Redis(rdb, attempts.RedisConfig{}), HandlerTimeout: cfg.HandlerTimeout, DrainTimeout: cfg.DrainTimeout,
		Handler: func(ctx context.Context, m *kafka.Message) error { return callDependency(ctx, cfg, m) },
	})
	if err == nil {
		err = c.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func callDependency(ctx context.Context, cfg memberConfig, m *kafka.Message) error {
	c := seenCall{Member: cfg.Name, Partition: m.TopicPartition.Partition, Offset: int64(m.TopicPartition.Offset), Attempt: AttemptFrom(ctx).Number}
	body, reader := io.Pipe()
	go func() { reader.CloseWithError(json.NewEncoder(reader).Encode(c)) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, cfg.Dependency, body)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case dieStatus:
		os.Exit(3)
	}
	return statusError(answer.StatusCode)
}

type statusError int

func (s statusError) Error() string   { return fmt.Sprintf("the dependency answered %d", int(s)) }
func (s statusError) StatusCode() int { return int(s) }

// checkCalls checks, from what the dependency saw, that no record was called before its wait was over, and that within a partition no call began while an
// earlier one ran. intervals are the strategy's, without jitter.
func checkCalls(t *testing.T, calls []seenCall, intervals []time.Duration) {
	t.Helper()
	type id struct {
		p int32
		o int64
	}
	last := map[id]seenCall{}
	running := map[int32]seenCall{}
	slices.SortFunc(calls, func(a, b seenCall) int { return a.Began.Compare(b.Began) })
	for _, c := range calls {
		if l, ok := last[id{c.Partition, c.Offset}]; ok && l.Status != http.StatusOK && l.Attempt <= len(intervals) {
			if early := intervals[l.Attempt-1] - c.Began.Sub(l.Began); early > 0 {
				t.Errorf("%d@%d called %v early: attempt %d by %s after attempt %d by %s", c.Partition, c.Offset, early, c.Attempt, c.Member, l.Attempt, l.Member)
			}
		}
		last[id{c.Partition, c.Offset}] = c
		if r, ok := running[c.Partition]; ok && c.Began.Before(r.Ended) {
			t.Errorf("two calls of partition %d at once: %+v, %+v", c.Partition, r, c)
		}
		running[c.Partition] = c
	}
}
