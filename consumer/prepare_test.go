package consumer

import (
	"context"
	"strings"
	"testing"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/strategy"
)

// What is set against a law is found out at once, and not by losing a record.

func TestPrepareSetsWhatWasLeftOpenAndNothingElse(t *testing.T) {
	m := kafka.ConfigMap{"group.id": "g", "fetch.queue.backoff.ms": 500, "partition.assignment.strategy": "roundrobin", "enable.auto.commit": false}
	if err := Prepare(&m); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]kafka.ConfigValue{
		"enable.auto.offset.store":      false,
		"fetch.queue.backoff.ms":        500,
		"partition.assignment.strategy": "roundrobin",
		"enable.auto.commit":            false,
		"group.id":                      "g",
	} {
		if m[key] != want {
			t.Errorf("%s is %v, not %v", key, m[key], want)
		}
	}
	if _, set := m["group.protocol"]; set {
		t.Error("the protocol is the group's")
	}
	if err := Prepare(&m); err != nil {
		t.Errorf("a second time: %v", err)
	}
}

func TestPrepareRefusesWhatIsSetAgainstALawWithTheCure(t *testing.T) {
	for key, value := range map[string]kafka.ConfigValue{
		"enable.auto.offset.store": true,
		"go.events.channel.enable": "true",
	} {
		m := kafka.ConfigMap{"group.id": "g", key: value}
		err := Prepare(&m)
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "leave it out") {
			t.Errorf("%s: %v", key, err)
		}
	}
	if Prepare(nil) == nil {
		t.Error("no map, no error")
	}
}

// ready is a Config that Wrap takes.
func ready() Config {
	return Config{
		Kafka:    &kafka.ConfigMap{"bootstrap.servers": "127.0.0.1:1", "group.id": "g"},
		Topics:   []string{"orders"},
		Handler:  func(context.Context, *kafka.Message) error { return nil },
		Strategy: strategy.MustParse(`[1]`),
	}
}

// made makes a client that never reaches a broker.
func made(t *testing.T, change kafka.ConfigMap) *kafka.Consumer {
	t.Helper()
	m := kafka.ConfigMap{"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
	for k, v := range change {
		m[k] = v
	}
	c, err := kafka.NewConsumer(&m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestWrapFindsOutWhatAClientWasMadeFor(t *testing.T) {
	t.Run("stores offsets by itself", func(t *testing.T) {
		_, err := Wrap(made(t, nil), ready())
		if err == nil || !strings.Contains(err.Error(), "enable.auto.offset.store=false") {
			t.Error(err)
		}
	})
	t.Run("uses the events channel", func(t *testing.T) {
		_, err := Wrap(made(t, kafka.ConfigMap{"enable.auto.offset.store": false, "go.events.channel.enable": true}), ready())
		if err == nil || !strings.Contains(err.Error(), "events channel") {
			t.Error(err)
		}
	})
	t.Run("is subscribed", func(t *testing.T) {
		client := made(t, kafka.ConfigMap{"enable.auto.offset.store": false})
		if err := client.Subscribe("orders", nil); err != nil {
			t.Fatal(err)
		}
		_, err := Wrap(client, ready())
		if err == nil || !strings.Contains(err.Error(), "subscribed already") {
			t.Error(err)
		}
	})
	for _, autoCommit := range []bool{true, false} {
		client := made(t, kafka.ConfigMap{"enable.auto.offset.store": false, "enable.auto.commit": autoCommit})
		c, err := Wrap(client, ready())
		if err != nil {
			t.Fatalf("enable.auto.commit=%v may be either: %v", autoCommit, err)
		}
		_ = c.letters.Close(context.Background())
	}
}

func TestValidateReportsEveryMistakeAtOnce(t *testing.T) {
	bad := Config{
		Kafka:          &kafka.ConfigMap{"go.events.channel.enable": true},
		Topics:         []string{"orders", "", "a", "a", "^(", "b c", "orders"},
		Strategy:       (*strategy.Watcher)(nil),
		DLQ:            dlq.Config{Topic: "orders"},
		HandlerTimeout: -1,
		BufferBytes:    -1,
	}
	err := bad.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"group.id", "bootstrap.servers", "events channel", "Topics[1]", "DLQ of \"orders\" is the topic itself", `Topics[3]: "a" is there twice`, "Topics[4]", "Topics[5]",
		"Topics[6]", "Handler is missing", "Strategy is a nil *strategy.Watcher", "HandlerTimeout", "BufferBytes"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("does not name %q: %v", field, err)
		}
	}
	both := ready()
	both.Topics = []string{"a", "a.dlq"}
	if err := both.Validate(); err == nil || !strings.Contains(err.Error(), "both consumed") {
		t.Error(err)
	}
	good := ready()
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, client := range []Client{nil, (*kafka.Consumer)(nil)} {
		if _, err := Wrap(client, ready()); err == nil || !strings.Contains(err.Error(), "no client") {
			t.Error(err)
		}
	}
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Kafka is missing") {
		t.Error(err)
	}
}
