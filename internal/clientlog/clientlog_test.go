package clientlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestIdenticalLinesWithin30SecondsAreCountedNotRepeated(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	now := time.Unix(0, 0)
	th := New(zap.New(core), "dlq producer")
	th.now = func() time.Time { return now }
	refused := func(ms int) kafka.LogEvent {
		return kafka.LogEvent{Name: "c", Tag: "FAIL", Level: 3, Message: fmt.Sprintf("broker 1: Connection refused (after %dms in state CONNECT)", ms)}
	}
	other := kafka.LogEvent{Name: "c", Tag: "FAIL", Level: 3, Message: "broker 2: Connection refused (after 1ms in state CONNECT)"}

	for i := range 100 {
		th.Line(refused(i))
		now = now.Add(200 * time.Millisecond)
	}
	th.Line(other)
	if logs.Len() != 2 {
		t.Fatalf("%d lines: %v", logs.Len(), logs.All())
	}
	now = now.Add(thinFor)
	th.Line(refused(5))
	th.Flush()
	var got []string
	for _, e := range logs.TakeAll() {
		got = append(got, fmt.Sprint(e.Message, " ", e.ContextMap()["repeated"]))
	}
	want := []string{
		"dlq producer: broker 1: Connection refused (after 0ms in state CONNECT) <nil>",
		"dlq producer: broker 2: Connection refused (after 1ms in state CONNECT) <nil>",
		"dlq producer: broker 1: Connection refused (after 0ms in state CONNECT) 99",
		"dlq producer: broker 1: Connection refused (after 5ms in state CONNECT) <nil>",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

func TestSyslogLevels(t *testing.T) {
	for syslog, want := range map[int]string{0: "error", 2: "error", 3: "warn", 4: "warn", 5: "info", 6: "debug", 7: "debug"} {
		if got := level(syslog).String(); got != want {
			t.Errorf("%d is %s, want %s", syslog, got, want)
		}
	}
}
