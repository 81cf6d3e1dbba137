package committed_test

import (
	"slices"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/internal/committed"
	"github.com/breakwater-go/breakwater/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOffsetsOfAGroup(t *testing.T) {
	cluster := servers.Fake(t, kfake.SeedTopics(3, "orders"))
	client := &kafka.ConfigMap{"bootstrap.servers": servers.FakeBootstrap(cluster)}
	a, err := committed.NewAsker(client, "billing")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got, err := a.Offsets("orders", 3, 10*time.Second); err != nil || !slices.Equal(got, []int64{-1, -1, -1}) {
		t.Errorf("%v, %v of a group that nobody has seen", got, err)
	}
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": servers.FakeBootstrap(cluster), "group.id": "billing"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	topic := "orders"
	if _, err := c.CommitOffsets([]kafka.TopicPartition{{Topic: &topic, Partition: 1, Offset: 7}}); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Offsets("orders", 3, 10*time.Second); err != nil || !slices.Equal(got, []int64{-1, 7, -1}) {
		t.Errorf("%v, %v", got, err)
	}
	if len(*client) != 1 {
		t.Errorf("the settings are %v", *client)
	}
}

func TestBrokerThatDoesNotAnswerIsAnError(t *testing.T) {
	a, err := committed.NewAsker(&kafka.ConfigMap{"bootstrap.servers": "127.0.0.1:1", "log_level": 0}, "billing")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if got, err := a.Offsets("orders", 1, 100*time.Millisecond); err == nil {
		t.Errorf("%v of no broker", got)
	}
}
