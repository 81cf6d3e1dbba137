package dlq

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func int4(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func int8(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func springHeaders() []kafka.Header {
	return []kafka.Header{
		h("traceparent", "00-1"),
		h("kafka_dlt-exception-fqcn", "org.springframework.kafka.listener.ListenerExecutionFailedException"),
		h("kafka_dlt-exception-cause-fqcn", "java.lang.IllegalStateException"),
		h("kafka_dlt-exception-message", "Listener failed"),
		h("kafka_dlt-exception-stacktrace", "org.springframework…\n\tat …"),
		h("kafka_dlt-original-topic", "orders"),
		{Key: "kafka_dlt-original-partition", Value: int4(7)},
		{Key: "kafka_dlt-original-offset", Value: int8(1 << 40)},
		{Key: "kafka_dlt-original-timestamp", Value: int8(1_700_000_000_000)},
		h("kafka_dlt-original-timestamp-type", "CreateTime"),
		h("kafka_dlt-original-consumer-group", "billing"),
	}
}

func TestSpringKafkaIsRead(t *testing.T) {
	want := Info{
		System: SpringKafka, GroupID: "billing", Topic: "orders", Partition: 7, Offset: 1 << 40, Timestamp: time.UnixMilli(1_700_000_000_000).UTC(),
		Reason: "Listener failed", ErrorClass: "java.lang.IllegalStateException", ErrorMessage: "Listener failed", Stack: "org.springframework…\n\tat …",
	}
	got, err := Read(springHeaders())
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}

	// the DLT at the end of Spring's retry topics
	hs := springHeaders()
	for i := range hs {
		hs[i].Key = strings.Replace(hs[i].Key, "kafka_dlt-", "kafka_", 1)
	}
	hs = append(hs, kafka.Header{Key: "retry_topic-attempts", Value: int4(4)})
	want.Attempts = 4
	got, err = Read(hs)
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestOfSeveralPassesTheLastIsRead(t *testing.T) {
	hs := append(springHeaders(), kafka.Header{Key: "kafka_dlt-original-offset", Value: int8(99)})
	if got, err := Read(hs); err != nil || got.Offset != 99 {
		t.Errorf("%+v, %v", got, err)
	}
}

func connectHeaders() []kafka.Header {
	return []kafka.Header{
		h("__connect.errors.topic", "orders"),
		h("__connect.errors.partition", "7"),
		h("__connect.errors.offset", "1099511627776"),
		h("__connect.errors.connector.name", "jdbc-sink"),
		h("__connect.errors.task.id", "0"),
		h("__connect.errors.stage", "VALUE_CONVERTER"),
		h("__connect.errors.class.name", "org.apache.kafka.connect.json.JsonConverter"),
		h("__connect.errors.exception.class.name", "org.apache.kafka.connect.errors.DataException"),
		h("__connect.errors.exception.message", "Converting byte[] to Kafka Connect data failed"),
		h("__connect.errors.exception.stacktrace", "org.apache…"),
	}
}

func TestKafkaConnectIsRead(t *testing.T) {
	want := Info{
		System: KafkaConnect, Topic: "orders", Partition: 7, Offset: 1 << 40, Instance: "jdbc-sink/0",
		Reason:     "failed in stage VALUE_CONVERTER: Converting byte[] to Kafka Connect data failed",
		ErrorClass: "org.apache.kafka.connect.errors.DataException", ErrorMessage: "Converting byte[] to Kafka Connect data failed", Stack: "org.apache…",
	}
	if got, err := Read(connectHeaders()); err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestOursIsReadBeforeOthers(t *testing.T) {
	r := record(3, 42)
	r.Headers = append(springHeaders(), connectHeaders()...)
	got, err := Read(letter(r).Headers(nil, 100))
	if err != nil || got.System != Breakwater || got.Offset != 42 || got.SendTo != "backout" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatCantBeReadIsNamedAndTheRestIsRead(t *testing.T) {
	spring := springHeaders()
	spring[6].Value = []byte("7")
	spring[8].Value = nil
	got, err := Read(spring)
	if got.Topic != "orders" || got.Partition != -1 || got.Offset != 1<<40 || !got.Timestamp.IsZero() {
		t.Errorf("%+v", got)
	}
	wantErr(t, err, err, "kafka_dlt-original-partition has 1 bytes", "kafka_dlt-original-timestamp has 0 bytes")

	connect := connectHeaders()
	connect[1].Value = []byte("seven")
	got, err = Read(connect)
	if got.Topic != "orders" || got.Partition != -1 || got.Offset != 1<<40 {
		t.Errorf("%+v", got)
	}
	wantErr(t, err, err, `__connect.errors.partition is no number: "seven"`)
}

func TestNoDeadLetterIsSaidSo(t *testing.T) {
	for _, hs := range [][]kafka.Header{nil, {h("REASON", "mine"), h("kafka_groupId", "g"), h("__connect.errors", "")}} {
		if _, err := Read(hs); !errors.Is(err, ErrNotDeadLetter) {
			t.Errorf("%v: %v", hs, err)
		}
	}
}

func TestOriginalIsTheRecordAsItWas(t *testing.T) {
	r := record(3, 42)
	r.Headers = []kafka.Header{h("a", "1"), {Key: "a"}, h("REASON", "mine")}
	dead := letter(r).message("orders.dlq", 0, form{limit: 100})
	dead.TopicPartition.Offset = 7
	dead.TimestampType = kafka.TimestampLogAppendTime
	dead.Timestamp = time.Now()
	headers := slices.Clone(dead.Headers)

	was := Original(dead)
	if !reflect.DeepEqual(was.Headers, r.Headers) || !reflect.DeepEqual(was.TopicPartition, r.TopicPartition) ||
		string(was.Key) != string(r.Key) || string(was.Value) != string(r.Value) || !was.Timestamp.Equal(r.Timestamp) {
		t.Errorf("%+v is not %+v", was, r)
	}
	if !reflect.DeepEqual(dead.Headers, headers) || dead.TopicPartition.Offset != 7 {
		t.Error("the dead letter was changed")
	}
	if again := Original(was); !reflect.DeepEqual(again, was) {
		t.Errorf("%+v became %+v", was, again)
	}
}

// FuzzRead feeds any headers to the readers: "name\x00value\x00name\x00value…".
func FuzzRead(f *testing.F) {
	flat := func(hs []kafka.Header) (s string) {
		for i, h := range hs {
			if i > 0 {
				s += "\x01"
			}
			s += h.Key + "\x01" + string(h.Value)
		}
		return s
	}
	r := record(3, 42)
	r.Headers = []kafka.Header{h("BREAKWATER", "1; headers=0")}
	f.Add(flat(letter(r).Headers(nil, 100)))
	f.Add(flat(springHeaders()))
	f.Add(flat(connectHeaders()))
	f.Fuzz(func(t *testing.T, s string) {
		parts := strings.Split(s, "\x01")
		var hs []kafka.Header
		for i := 0; i+1 < len(parts); i += 2 {
			hs = append(hs, h(parts[i], parts[i+1]))
		}
		before := slices.Clone(hs)
		i, err := Read(hs)
		if errors.Is(err, ErrNotDeadLetter) != (i.System == "") {
			t.Errorf("%+v, %v", i, err)
		}
		own, _, found := split(hs)
		if found && !reflect.DeepEqual(append(own[:len(own):len(own)], block(i)...), hs) {
			t.Errorf("what was read is not what was written: %v", hs)
		}
		// Whatever the record carries, our block can be put on and taken off.
		topic := "t"
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &topic}, Headers: hs}
		dead := *m
		dead.Headers = Letter{Record: m}.Headers(nil, 100)
		if got := Original(&dead).Headers; len(got) != len(own) || len(own) > 0 && !reflect.DeepEqual(got, own) {
			t.Errorf("%v came back as %v", own, got)
		}
		if !reflect.DeepEqual(hs, before) {
			t.Error("the headers were changed")
		}
	})
}
