package consumer

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/servers"
)

// The laws on an embedded and on a real Kafka, with members that are processes: they join and leave in the middle of an outage, and are killed.

func TestMain(m *testing.M) {
	if cfg := os.Getenv(memberEnv); cfg != "" {
		os.Exit(runMember(cfg))
	}
	goleak.VerifyTestMain(servers.Main(m))
}

const oneTwoFour = `{"intervals": [1, 2, 4], "jitter": 0}`

var intervals = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}

// clients are the settings of the three group protocols. KIP-848 has its session on the broker.
var clients = map[string]map[string]string{
	"range":              {"partition.assignment.strategy": "range", "session.timeout.ms": "6000"},
	"cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "6000"},
	"consumer":           {"group.protocol": "consumer"},
}

func TestMembersThatJoinAndLeaveInAnOutageLoseNothing(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b broker) {
		for name, client := range clients {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				topic := "orders-" + name
				const partitions, n = 6, 50
				b.create(topic, partitions)
				fill(t, b, topic, partitions, n)
				d := newDependency(t)
				started := time.Now()
				d.set(func(c seenCall) int {
					if c.Offset >= 10 && time.Since(started) < 6*time.Second {
						return http.StatusServiceUnavailable
					}
					return http.StatusOK
				})
				join := func(member string) *member {
					return b.member(t, d, memberConfig{Name: member, Topic: topic, Group: "g-" + name, Strategy: oneTwoFour, Client: client})
				}
				a := join("a")
				wait(t, 30*time.Second, "the outage", func() bool { return len(d.seen()) > 10 })
				c := join("b")
				wait(t, 30*time.Second, "the end of the outage", func() bool { return time.Since(started) > 4*time.Second })
				if err := a.stop(); err != nil {
					t.Errorf("a ended with %v", err)
				}
				wait(t, 60*time.Second, "every record", func() bool { return d.succeeded() == partitions*n })
				if err := c.stop(); err != nil {
					t.Errorf("b ended with %v", err)
				}
				if letters := readDeadLetters(t, b, topic, partitions); len(letters) != 0 {
					t.Errorf("dead letters: %+v", letters)
				}
				checkCalls(t, d.seen(), intervals)
			})
		}
	})
}

func TestKillInTheWaitNeitherRestartsTheStrategyNorCallsEarly(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b broker) {
		b.create("kill", 1)
		fill(t, b, "kill", 1, 5)
		d := newDependency(t)
		d.set(always(http.StatusServiceUnavailable))
		start := func() *member {
			return b.member(t, d, memberConfig{Name: "a", Topic: "kill", Group: "g", Strategy: `{"intervals": [1, 10, 1], "jitter": 0}`,
				Client: map[string]string{"session.timeout.ms": "6000"}})
		}
		m := start()
		wait(t, 30*time.Second, "the second failure", func() bool { return len(d.seen()) == 2 })
		// The wait is stored at the moment of the failure; the process is killed in the middle of it.
		wait(t, 10*time.Second, "a second of the wait", func() bool { return time.Since(d.seen()[1].Ended) > time.Second })
		m.kill()
		m = start()
		wait(t, 60*time.Second, "the third call", func() bool { return len(d.seen()) == 3 })
		d.set(always(http.StatusOK))
		wait(t, 60*time.Second, "every record", func() bool { return d.succeeded() == 5 })
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		calls := d.of(0, 0)
		if len(calls) != 4 {
			t.Fatalf("calls of the record: %+v", calls)
		}
		for i, c := range calls {
			if c.Attempt != i+1 {
				t.Errorf("call %d is attempt %d", i+1, c.Attempt)
			}
		}
		checkCalls(t, d.seen(), []time.Duration{time.Second, 10 * time.Second, time.Second})
	})
}

func TestRecordThatKillsTheProcessEndsInTheDLQ(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b broker) {
		const partitions, n = 3, 20
		b.create("deadly", partitions)
		fill(t, b, "deadly", partitions, n)
		d := newDependency(t)
		d.set(func(c seenCall) int {
			if c.Partition == 1 && c.Offset == 7 {
				return dieStatus
			}
			return http.StatusOK
		})
		deaths := 0
		var m *member
		for began := time.Now(); ; {
			m = b.member(t, d, memberConfig{Name: fmt.Sprint("life-", deaths+1), Topic: "deadly", Group: "g", Strategy: `{"intervals": [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], "jitter": 0}`,
				Client: map[string]string{"session.timeout.ms": "6000", "group.instance.id": "pod-0"}})
			lived := false
			wait(t, 90*time.Second, "death or the end", func() bool {
				lived = d.succeeded() == partitions*n-1
				return lived || isClosed(m.done)
			})
			if lived {
				break
			}
			if deaths++; deaths > 8 || time.Since(began) > 4*time.Minute {
				t.Fatalf("%d deaths: it goes on for ever", deaths)
			}
		}
		wait(t, 30*time.Second, "the last records", func() bool { return d.succeeded() == partitions*n-1 })
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		letters := readDeadLetters(t, b, "deadly", partitions)
		if len(letters) != 1 || letters[0].Kind != dlq.Crash || letters[0].Partition != 1 || letters[0].Offset != 7 {
			t.Errorf("dead letters: %+v", letters)
		}
		t.Logf("%d deaths", deaths)
		if deaths > 4 {
			t.Errorf("%d deaths; the first goes unseen, and three are noted", deaths)
		}
	})
}

func TestWaitLongerThanMaxPollIntervalOnABroker(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b broker) {
		b.create("patient", 2)
		fill(t, b, "patient", 2, 5)
		d := newDependency(t)
		d.set(always(http.StatusServiceUnavailable))
		m := b.member(t, d, memberConfig{Name: "a", Topic: "patient", Group: "g", Strategy: `{"intervals": [14], "jitter": 0}`, HandlerTimeout: 2 * time.Second,
			Client: map[string]string{"session.timeout.ms": "6000", "max.poll.interval.ms": "6000"}})
		wait(t, 30*time.Second, "the trip", func() bool { return len(d.seen()) > 0 })
		d.set(always(http.StatusOK))
		wait(t, 60*time.Second, "every record", func() bool { return d.succeeded() == 10 })
		if err := m.stop(); err != nil {
			t.Error(err)
		}
		checkCalls(t, d.seen(), []time.Duration{14 * time.Second})
		for p := range int32(2) {
			for o := range int64(5) {
				if calls := d.of(p, o); len(calls) > 2 {
					t.Errorf("called %d times, as after a lost membership: %+v", len(calls), calls)
				}
			}
		}
	})
}

func TestMissingDLQIsRefusedAtStartWithTheCure(t *testing.T) {
	t.Parallel()
	eachBroker(t, func(t *testing.T, b broker) {
		b.create("lonely", 1)
		d := newDependency(t)
		m := b.member(t, d, memberConfig{Name: "a", Topic: "lonely.dlq", Group: "g", Strategy: `[1]`})
		wait(t, time.Minute, "the end", func() bool { return isClosed(m.done) })
		if m.err == nil || !strings.Contains(m.err.Error(), "exit status 1") {
			t.Errorf("ended with %v", m.err)
		}
	})
}
