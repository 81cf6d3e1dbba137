package stage

import (
	"slices"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// source has ten records in two partitions.
func source() *Source {
	return &Source{Topic: "orders", Partitions: 2, Headers: true, Began: time.UnixMilli(1_700_000_000_000), produced: 10}
}

// letter is a whole dead letter of the record at partition 1, offset 3.
func letter(src *Source) *kafka.Message {
	m := src.record(src.number(1, 3))
	for _, key := range []string{"BREAKWATER", "DESTINATION", "ORIGINAL_PARTITION", "ORIGINAL_OFFSET", "REASON"} {
		m.Headers = append(m.Headers, kafka.Header{Key: key, Value: []byte("…")})
	}
	return m
}

func TestAWholeDeadLetterIsComplete(t *testing.T) {
	src := source()
	if got, want := src.read(letter(src)), (Letter{Partition: 1, Offset: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhatIsMissingInADeadLetterIsFound(t *testing.T) {
	header := func(key string, do func(h *kafka.Header)) func(*kafka.Message) {
		return func(m *kafka.Message) {
			do(&m.Headers[slices.IndexFunc(m.Headers, func(h kafka.Header) bool { return h.Key == key })])
		}
	}
	for _, c := range []struct {
		name string
		do   func(*kafka.Message)
		want string
	}{
		{"no value", func(m *kafka.Message) { m.Value = nil }, "its value"},
		{"another record's value", func(m *kafka.Message) { m.Value[100] = '!' }, "its value"},
		{"no such record", func(m *kafka.Message) { copy(m.Value[1:], "1/99 ") }, "its value"},
		{"another key", func(m *kafka.Message) { m.Key = []byte("key") }, "its key"},
		{"no timestamp of its own", func(m *kafka.Message) { m.Timestamp = time.Now() }, "its timestamp"},
		{"headers in another order", func(m *kafka.Message) { m.Headers[0], m.Headers[1] = m.Headers[1], m.Headers[0] }, "its headers"},
		{"nil made empty", func(m *kafka.Message) { m.Headers[2].Value = []byte{} }, "its headers"},
		{"a header gone", func(m *kafka.Message) { m.Headers = m.Headers[1:] }, "its headers"},
		{"not told from which topic", header("DESTINATION", func(h *kafka.Header) { h.Key = "other" }), "its topic"},
		{"not told from where", header("ORIGINAL_OFFSET", func(h *kafka.Header) { h.Key = "other" }), "its offset"},
		{"not told why", header("REASON", func(h *kafka.Header) { h.Key = "other" }), "the reason"},
	} {
		src := source()
		m := letter(src)
		c.do(m)
		if got := src.read(m).Missing; got != c.want {
			t.Errorf("%s: missing is %q, want %q", c.name, got, c.want)
		}
	}
}

func TestEveryRecordSaysWhereItStands(t *testing.T) {
	src := source()
	for n := range src.produced {
		m := src.record(n)
		p, offset, ok := identify(m.Value)
		if !ok || src.number(p, offset) != n || m.TopicPartition.Partition != p {
			t.Errorf("record %d says that it stands at %d/%d (%v)", n, p, offset, ok)
		}
	}
}

func TestAChangeOfTheGroupIsARebalance(t *testing.T) {
	of := func(state kafka.ConsumerGroupState, members ...string) kafka.ConsumerGroupDescription {
		g := kafka.ConsumerGroupDescription{State: state}
		for _, m := range members {
			g.Members = append(g.Members, kafka.MemberDescription{ConsumerID: m})
		}
		return g
	}
	const stable, moving = kafka.ConsumerGroupStateStable, kafka.ConsumerGroupStatePreparingRebalance
	for _, c := range []struct {
		name string
		seen []kafka.ConsumerGroupDescription
		want int
	}{
		{"the first assignment", []kafka.ConsumerGroupDescription{of(moving), of(stable, "a"), of(stable, "a")}, 0},
		{"a member joins", []kafka.ConsumerGroupDescription{of(stable, "a"), of(moving), of(moving), of(stable, "a", "b")}, 1},
		{"thrown out and back between two looks", []kafka.ConsumerGroupDescription{of(stable, "a"), of(stable, "a2")}, 1},
		{"back as it was", []kafka.ConsumerGroupDescription{of(stable, "a"), of(moving), of(stable, "a")}, 1},
	} {
		w := &Watch{}
		for _, g := range c.seen {
			w.see(g)
		}
		if w.changes != c.want {
			t.Errorf("%s: %d rebalances, want %d", c.name, w.changes, c.want)
		}
	}
}
