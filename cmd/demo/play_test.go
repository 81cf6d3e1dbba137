package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Main(m)) }

// fiveSeconds is halfAMinute in short.
var fiveSeconds = script{
	partitions: 3, rate: 40,
	poison: 300 * time.Millisecond,
	down:   600 * time.Millisecond, up: 1600 * time.Millisecond,
	choke: 2500 * time.Millisecond,
	end:   4 * time.Second,
}

const quick = `{"intervals": [0.2, 0.4, 0.8], "jitter": 0.1, "dlqBudget": 20}`

// demo is one run of the command in this process.
type demo struct {
	t         *testing.T
	out, errs syncBuffer
	strategy  string
	code      chan int
}

// start runs the demo with those flags, and a quick strategy.
func start(t *testing.T, ctx context.Context, s script, args ...string) *demo {
	t.Helper()
	d := &demo{t: t, strategy: filepath.Join(t.TempDir(), "strategy.json"), code: make(chan int, 1)}
	write(t, d.strategy, quick)
	go func() {
		d.code <- run(ctx, append([]string{"-json", "-strategy", d.strategy}, args...), &d.out, &d.errs, s)
	}()
	return d
}

// end waits for the exit code and reads the account.
func (d *demo) end(code int) (s Summary) {
	d.t.Helper()
	if got := <-d.code; got != code {
		d.t.Errorf("exit code %d, want %d", got, code)
	}
	if d.t.Failed() || testing.Verbose() {
		d.t.Logf("%s%s", d.out.String(), d.errs.String())
	}
	if d.errs.String() != "" {
		d.t.Errorf("standard error has %q", d.errs.String())
	}
	if strings.ContainsRune(d.out.String(), '\x1b') {
		d.t.Error("there are escape codes, and this is no terminal")
	}
	lines := strings.Split(strings.TrimSuffix(d.out.String(), "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); err != nil {
		d.t.Fatalf("the last line is no account: %v", err)
	}
	return s
}

// saw waits for a line.
func (d *demo) saw(text string) {
	d.t.Helper()
	eventually(d.t, "a line with "+text, func() bool { return strings.Contains(d.out.String(), text) })
}

func TestThePlayAddsUp(t *testing.T) {
	t.Parallel()
	d := start(t, t.Context(), fiveSeconds)
	s := d.end(0)

	if want := fiveSeconds.rate * int(fiveSeconds.end.Seconds()); s.Produced < want {
		t.Errorf("%d produced, want %d at least", s.Produced, want)
	}
	if s.Produced != s.Handled+s.DeadLettered || s.DeadLettered != 2 {
		t.Errorf("%d produced, %d handled, %d dead-lettered", s.Produced, s.Handled, s.DeadLettered)
	}
	if s.Lost+s.Left+s.Duplicated+s.OutOfOrder+s.EarlyCalls+s.Rebalances+s.DamagedLetters != 0 || !s.AddsUp || s.Interrupted {
		t.Errorf("%+v", s)
	}
	// 0 s, 0.2 s, 0.4 s, 0.8 s, and the next after 1.2 s is no longer in the outage; and what was under way at the trip. A busy machine may be late for all but one.
	if s.CallsWhileDown < 1 || s.CallsWhileDown > 4+fiveSeconds.partitions-1 {
		t.Errorf("%d calls while down", s.CallsWhileDown)
	}
	kinds := map[dlq.Kind]letter{}
	for _, l := range s.Letters {
		kinds[l.Kind] = l
	}
	_, choke := fiveSeconds.nth(fiveSeconds.choke)
	if l := kinds[dlq.Exhausted]; l.Record != fmt.Sprintf("orders/%d@%d", choke.Partition, choke.Offset) || l.header("COUNTER") != "4" {
		t.Errorf("the exhausted record is %+v", l)
	}
	if l := kinds[dlq.Permanent]; l.header("COUNTER") != "1" || l.header("traceparent") == "" {
		t.Errorf("the permanent one is %+v", l)
	}
	for _, line := range []string{"DOWN", "OPEN", "probe", "failed", "UP", "CLOSED", "held", "DLQ", "it adds up"} {
		if !strings.Contains(d.out.String(), line) {
			t.Errorf("no line with %q", line)
		}
	}
}

func (l letter) header(name string) string {
	for _, h := range l.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

func TestAnEditOfTheStrategyShows(t *testing.T) {
	t.Parallel()
	d := start(t, t.Context(), fiveSeconds)
	d.saw("assigned")
	write(t, d.strategy, `{"intervals": [0.1, 0.3], "jitter": 0}`)
	d.saw("calls at 0s, 100ms, 400ms")
	write(t, d.strategy, `{"intervals": []}`)
	d.saw("the one in force stays")
	s := d.end(0)
	if l := s.Letters[len(s.Letters)-1]; l.header("COUNTER") != "3" {
		t.Errorf("the exhausted record was called as before the edit: %+v", l)
	}
}

func TestInterruptedInTheOutageItStillAddsUp(t *testing.T) {
	t.Parallel()
	s := fiveSeconds
	s.up = time.Hour
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	d := start(t, ctx, s)
	d.saw("OPEN")
	d.saw("probe")
	interrupt()
	sum := d.end(0)
	if !sum.Interrupted || sum.Left == 0 || sum.Lost != 0 || sum.Produced != sum.Handled+sum.DeadLettered+sum.Left {
		t.Errorf("%+v", sum)
	}
}

// elsewhere is a broker and a Redis of the test's, as real ones are for the demo.
func elsewhere(t *testing.T, topics ...kfake.Opt) (cluster *kfake.Cluster, flags []string) {
	cluster = servers.Fake(t, topics...)
	return cluster, []string{"-brokers", servers.FakeBootstrap(cluster), "-redis", "redis://" + miniredis.RunT(t).Addr() + "/0"}
}

func TestOnOtherServersItLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	cluster, flags := elsewhere(t)
	s := start(t, t.Context(), fiveSeconds, flags...).end(0)
	if s.DeadLettered != 2 || s.Rebalances != 0 {
		t.Errorf("%+v", s)
	}
	topic, _, _ := strings.Cut(s.Letters[0].Record, "/")
	if cluster.TopicInfo(topic) != nil || cluster.TopicInfo(topic+".dlq") != nil {
		t.Errorf("%s is still there", topic)
	}
}

func TestATopicThatExistsIsConsumedAsItIs(t *testing.T) {
	t.Parallel()
	cluster, flags := elsewhere(t, kfake.SeedTopics(4, "invoices"))
	produce(t, cluster, "invoices", 203, func(n int) string { return "no JSON, and fine all the same" })
	flags = append(flags, "-topic", "invoices", "-group", "invoicing")
	s := start(t, t.Context(), fiveSeconds, flags...).end(0)
	if s.Produced != 203 || s.Handled != 203 || s.DeadLettered != 0 || s.CallsWhileDown == 0 {
		t.Errorf("%+v", s)
	}
	total := int64(0)
	for _, p := range cluster.PartitionInfos("invoices") {
		total += p.HighWatermark
	}
	if total != 203 {
		t.Errorf("there are %d records in the topic now", total)
	}

	produce(t, cluster, "invoices", 40, func(n int) string { return "more" })
	if s := start(t, t.Context(), fiveSeconds, flags...).end(0); s.Produced != 40 {
		t.Errorf("the second run counts %d records, not those 40 that the first has not done", s.Produced)
	}

	d := &demo{t: t}
	if code := run(t.Context(), flags, &d.out, &d.errs, fiveSeconds); code != 1 || !strings.Contains(d.errs.String(), "nothing left to do") {
		t.Errorf("exit code %d: %s", code, d.errs.String())
	}
}

// A second letter for a record that is done, and the account does not add up.
func TestAFigureThatDoesNotAddUpIsExitCodeOne(t *testing.T) {
	t.Parallel()
	cluster, flags := elsewhere(t)
	d := start(t, t.Context(), fiveSeconds, append(flags, "-topic", "orders")...)
	d.saw("DLQ ")
	topic := "orders"
	forged := dlq.Letter{GroupID: "breakwater-demo", Kind: dlq.Permanent, Attempts: 1, Record: &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: 1, Offset: 0}, Value: []byte("forged")}}
	send(t, cluster, &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: ptr("orders.dlq"), Partition: 1},
		Value: forged.Record.Value, Headers: forged.Headers(nil, 0)})
	s := d.end(1)
	if s.AddsUp || s.Duplicated != 1 || s.DamagedLetters != 1 || !strings.Contains(d.out.String(), "duplicated: 1, not 0") {
		t.Errorf("%+v", s)
	}
}

// Somebody joins the group: the watch sees it from the outside.
func TestARebalanceIsSeenFromTheOutside(t *testing.T) {
	t.Parallel()
	cluster, flags := elsewhere(t)
	d := start(t, t.Context(), fiveSeconds, append(flags, "-topic", "orders")...)
	d.saw("poison")
	other, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": servers.FakeBootstrap(cluster), "group.id": "breakwater-demo", "log_level": 0})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Subscribe("orders.dlq", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second member", func() bool { other.Poll(50); return len(cluster.GroupInfo("breakwater-demo").Members) == 2 })
	d.saw("revoked")
	other.Close()
	if s := d.end(1); s.Rebalances == 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
}

func TestOnARealKafkaAndARealRedis(t *testing.T) {
	t.Parallel()
	k := servers.SharedKafka(t)
	s := start(t, t.Context(), fiveSeconds, "-brokers", k.Bootstrap(), "-redis", servers.Redis(t)).end(0)
	if s.DeadLettered != 2 {
		t.Errorf("%+v", s)
	}
}

func TestWrongFlagsAreExitCodeTwo(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	write(t, bad, `{"intervals": []}`)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-nonsense"}, "-nonsense"},
		{[]string{"orders"}, `"orders" is no flag`},
		{[]string{"-strategy", "no such file"}, "no such file"},
		{[]string{"-strategy", bad}, "intervals"},
		{[]string{"-group", ""}, "-group is empty"},
		{[]string{"-topic", "a b"}, `-topic "a b" can be no topic's name`},
		{[]string{"-topic", ".."}, `-topic ".." can be no topic's name`},
		{[]string{"-topic", strings.Repeat("a", 246)}, "its DLQ has four more"},
		{[]string{"-redis", "http://localhost:6379"}, "-redis is no URL"},
	} {
		var out, errs syncBuffer
		if code := run(t.Context(), c.args, &out, &errs, fiveSeconds); code != 2 || !strings.Contains(errs.String(), c.says) || out.String() != "" {
			t.Errorf("%q: exit code %d, %q, want 2 with %q", c.args, code, errs.String(), c.says)
		}
	}
	var out, errs syncBuffer
	if code := run(t.Context(), []string{"-h"}, &out, &errs, fiveSeconds); code != 0 || !strings.Contains(errs.String(), "go run ./cmd/demo") {
		t.Errorf("-h: exit code %d, %q", code, errs.String())
	}
}

func produce(t *testing.T, cluster *kfake.Cluster, topic string, n int, value func(int) string) {
	t.Helper()
	var all []*kafka.Message
	for i := range n {
		all = append(all, &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: int32(i % 4)}, Value: []byte(value(i))})
	}
	send(t, cluster, all...)
}

func send(t *testing.T, cluster *kfake.Cluster, all ...*kafka.Message) {
	t.Helper()
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": servers.FakeBootstrap(cluster), "log_level": 0})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	acks := make(chan kafka.Event, len(all))
	for _, m := range all {
		if err := p.Produce(m, acks); err != nil {
			t.Fatal(err)
		}
	}
	for range all {
		if err := (<-acks).(*kafka.Message).TopicPartition.Error; err != nil {
			t.Fatal(err)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// eventually polls a condition, with a deadline.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited 20 s for %s", what)
		}
	}
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
