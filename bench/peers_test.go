package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/internal/servers"
)

// The Java program speaks the protocol, notes in the book where the Go programs do, dead-letters what is poisoned, calls as its strategy says and
// leaves its group.
func TestSpringKafkaDoesTheSameWork(t *testing.T) {
	servers.Real(t)
	k := servers.StartKafka(t, 1)
	file := filepath.Join(t.TempDir(), "mine.json")
	script := `{"phases": [{"name": "well", "for": "5s"}, {"name": "down", "for": "3s", "faults": [{"do": 503}]}, {"name": "well again"}]}`
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir("..") // the peers are built where the module is
	_, rows := runBench(t, "-brokers", k.Bootstrap(), "-scenario", "poison,"+file, "-contenders", "spring", "-records", "2000", "-partitions", "2")
	race, outage := rows["poison spring"], rows["mine spring"]
	if note, _ := race["note"].(string); strings.Contains(note, "not to be had") {
		t.Skip(note) // a peer that can't be had is no fault of ours
	}
	for name, row := range rows {
		for _, figure := range []string{"lost", "left", "dlq_missing", "dlq_incomplete"} {
			if n, counted := row[figure]; counted && n != 0.0 {
				t.Errorf("%s: %s is %v", name, figure, n)
			}
		}
	}
	if race["records_per_s"].(float64) <= 0 {
		t.Errorf("the race: %v", race)
	}
	if calls := outage["calls_while_down"].(float64); calls < 1 {
		t.Errorf("%v calls while the dependency was down", calls)
	}

	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": k.Bootstrap()})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	groups, err := admin.ListConsumerGroups(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Valid {
		if g.State != kafka.ConsumerGroupStateEmpty {
			t.Errorf("group %s is %v after its members have left", g.GroupID, g.State)
		}
	}
	if len(groups.Valid) < 2 {
		t.Errorf("groups: %v", groups.Valid)
	}
}

func TestSpringKafkaThatCanNotBeHadSaysWhy(t *testing.T) {
	t.Chdir("..")
	b := &bench{options: options{real: true}, temp: t.TempDir(), out: t.Output()}
	t.Setenv("PATH", t.TempDir())
	if _, err := b.buildSpring(t.Context()); err == nil || !strings.Contains(err.Error(), "apt-get install openjdk") {
		t.Errorf("without Java: %v", err)
	}
	b.real = false
	if _, err := b.buildSpring(t.Context()); err == nil || !strings.Contains(err.Error(), "give -real, or -brokers") {
		t.Errorf("on an embedded broker: %v", err)
	}
}
