package dlq

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func check(t testing.TB, w *Writer, sources ...string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.Check(ctx, sources)
}

func TestAnExistingDLQIsFit(t *testing.T) {
	c := broker(t, kfake.SeedTopics(3, "orders"), kfake.SeedTopics(1, "orders.dlq"))
	core, logs := observer.New(zap.InfoLevel)
	w := writerOn(t, c, Config{}, zap.New(core))
	if err := check(t, w, "orders"); err != nil {
		t.Error(err)
	}
	if logs.Len() != 0 {
		t.Errorf("log: %v", logs.All())
	}
	if err := check(t, w); err != nil {
		t.Errorf("no sources: %v", err)
	}
}

// Scenarios 77 and 84.
func TestAMissingDLQIsRefusedWithTheCureAndNotCreated(t *testing.T) {
	c := broker(t, kfake.SeedTopics(3, "orders", "payments"), kfake.AllowAutoTopicCreation())
	err := check(t, writerOn(t, c, Config{}), "orders", "payments")
	wantErr(t, err, ErrTopicMissing, `topic "orders.dlq" does not exist`, `topic "payments.dlq" does not exist`, "create it, or set Create")
	if c.TopicInfo("orders.dlq") != nil {
		t.Error("the question created the topic")
	}
}

func TestAMissingDLQIsCreatedWhenAskedFor(t *testing.T) {
	c := broker(t, kfake.SeedTopics(3, "orders"), kfake.SeedTopics(5, "payments"))
	if err := c.CreateTopic("large", 2, map[string]string{"max.message.bytes": "5000000"}); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic("dated", 2, map[string]string{"message.timestamp.after.max.ms": "1000"}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		cfg        Config
		sources    []string
		topic      string
		partitions int
		config     map[string]string
	}{
		"as many partitions as the source": {Config{Create: true}, []string{"orders"}, "orders.dlq", 3, map[string]string{"retention.ms": "-1", "cleanup.policy": "delete"}},
		"as many as the widest source":     {Config{Create: true, Topic: "dead"}, []string{"orders", "payments"}, "dead", 5, nil},
		"as told":                          {Config{Create: true, Topic: "one", Partitions: 1, ReplicationFactor: 1, TopicConfig: map[string]string{"retention.ms": "1000"}}, []string{"orders"}, "one", 1, map[string]string{"retention.ms": "1000"}},
		"records of any age":               {Config{Create: true}, []string{"dated"}, "dated.dlq", 2, map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"}},
		"room for the headers":             {Config{Create: true}, []string{"large"}, "large.dlq", 2, map[string]string{"max.message.bytes": "5040960"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := writerOn(t, c, test.cfg, zap.NewNop())
			for range 2 { // the second finds it there
				if err := check(t, w, test.sources...); err != nil {
					t.Fatal(err)
				}
			}
			if got := len(c.PartitionInfos(test.topic)); got != test.partitions {
				t.Errorf("%d partitions, want %d", got, test.partitions)
			}
			for key, want := range test.config {
				if got := c.TopicInfo(test.topic).Configs[key]; got == nil || *got != want {
					t.Errorf("%s is not %s", key, want)
				}
			}
			l := letter(record(0, 1))
			l.Record.TopicPartition.Topic = &test.sources[0]
			if err := write(t, w, l); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWhatTheBrokerDoesNotCreateIsSaid(t *testing.T) {
	c := broker(t, kfake.SeedTopics(3, "orders"))
	err := check(t, writerOn(t, c, Config{Create: true, ReplicationFactor: 7}), "orders")
	if err == nil || !strings.Contains(err.Error(), "could not be created") || !strings.Contains(err.Error(), "ReplicationFactor") {
		t.Error(err)
	}
}

// Scenario 83.
func TestADLQThatIsConsumedIsRefused(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders", "orders.dlq", "orders.eu"))
	for name, test := range map[string]struct {
		cfg     Config
		sources []string
	}{
		"the source itself":       {Config{Topic: "orders"}, []string{"orders"}},
		"another source":          {Config{Topic: "orders.eu"}, []string{"orders", "orders.eu"}},
		"by its default name":     {Config{}, []string{"orders", "orders.dlq"}},
		"by a pattern":            {Config{}, []string{"^orders.*"}},
		"by a pattern, and fixed": {Config{Topic: "orders.dead"}, []string{"^orders\\.(eu|dead)$"}},
		"created":                 {Config{Topic: "orders", Create: true}, []string{"orders"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(t, writerOn(t, c, test.cfg), test.sources...)
			if err == nil || !strings.Contains(err.Error(), "come back as a record") || !strings.Contains(err.Error(), "take another Topic") {
				t.Error(err)
			}
		})
	}
	if err := check(t, writerOn(t, c, Config{}), "^orders$"); err != nil {
		t.Error(err)
	}
	if err := check(t, writerOn(t, c, Config{}), "^("); err == nil || !strings.Contains(err.Error(), "regular expression") {
		t.Error(err)
	}
}

func TestACompactedDLQIsRefused(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders", "payments"))
	for source, policy := range map[string]string{"orders": "compact", "payments": "compact,delete"} {
		if err := c.CreateTopic(source+".dlq", 1, map[string]string{"cleanup.policy": policy}); err != nil {
			t.Fatal(err)
		}
		err := check(t, writerOn(t, c, Config{Create: true}), source)
		if err == nil || !strings.Contains(err.Error(), source+`.dlq" is compacted (cleanup.policy=`+policy) || !strings.Contains(err.Error(), "cleanup.policy=delete") {
			t.Error(err)
		}
	}
}

func TestWhatMaySurpriseIsAWarning(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders"))
	if err := c.CreateTopic("orders.dlq", 1, map[string]string{
		"max.message.bytes": "1000", "retention.ms": "60000", "message.timestamp.after.max.ms": "1000", "message.timestamp.type": "LogAppendTime"}); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	if err := check(t, writerOn(t, c, Config{}, zap.New(core)), "orders"); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"smaller records", "forgets records sooner", "in the future", "LogAppendTime"} {
		if logs.FilterMessageSnippet(word).Len() != 1 {
			t.Errorf("no warning of %q", word)
		}
	}
}

func TestAConfigurationThatCantBeSeenIsAWarningOnly(t *testing.T) {
	c := guarded(t, []kfake.ACL{
		topicACL(kmsg.ACLOperationWrite, "orders.dlq"), topicACL(kmsg.ACLOperationRead, "orders"),
	}, kfake.SeedTopics(1, "orders", "orders.dlq"))
	core, logs := observer.New(zap.WarnLevel)
	if err := check(t, writerOn(t, c, Config{Kafka: as("app", "hunter2")}, zap.New(core)), "orders"); err != nil {
		t.Error(err)
	}
	if logs.FilterMessageSnippet("grant this client DescribeConfigs").Len() != 1 {
		t.Errorf("log: %v", logs.All())
	}
}

func TestADLQThatMayNotBeSeenOrMadeIsNotAuthorized(t *testing.T) {
	c := guarded(t, []kfake.ACL{
		topicACL(kmsg.ACLOperationRead, "orders"), topicACL(kmsg.ACLOperationDescribe, "orders.new"),
		topicACL(kmsg.ACLOperationDescribe, "seen"), topicACL(kmsg.ACLOperationWrite, "other"),
	}, kfake.SeedTopics(1, "orders", "orders.dlq", "seen"))
	wantErr(t, check(t, writerOn(t, c, Config{Kafka: as("app", "hunter2")}), "orders"), ErrUnauthorized, "grant")
	wantErr(t, check(t, writerOn(t, c, Config{Kafka: as("app", "hunter2"), Topic: "orders.new", Create: true}), "orders"), ErrUnauthorized, "not allowed to create")
	wantErr(t, check(t, writerOn(t, c, Config{Kafka: as("app", "hunter2"), Topic: "seen"}), "orders"), ErrUnauthorized, `not allowed to write to topic "seen"`)
}

func TestCheckWithoutABrokerEndsWithItsContext(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, test := range map[string]struct {
		addr    string
		sources []string
		word    string
	}{
		"away":              {gone.Addr().String(), []string{"orders"}, "Connection refused"},
		"away, by pattern":  {gone.Addr().String(), []string{"^orders$"}, "Connection refused"},
		"frozen":            {frozen.Addr().String(), []string{"orders"}, "no broker answered in time"},
		"no bootstrap list": {"", []string{"orders"}, "no broker answered in time"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := NewWriter(Config{}, &kafka.ConfigMap{"bootstrap.servers": test.addr}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close(context.Background())
			ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
			defer cancel()
			began := time.Now()
			err = w.Check(ctx, test.sources)
			if err == nil || !strings.Contains(err.Error(), test.word) || !strings.Contains(err.Error(), "see that the brokers can be reached") {
				t.Error(err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestCloseEndsACheck(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	w, err := NewWriter(Config{}, &kafka.ConfigMap{"bootstrap.servers": frozen.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checked := make(chan error, 1)
	go func() { checked <- w.Check(context.Background(), []string{"orders"}) }()
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
	wantErr(t, receive(t, checked), ErrClosed)
}
