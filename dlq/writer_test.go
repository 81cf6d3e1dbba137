package dlq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// Law 14, end to end: consumed with the client, written, and read with another client.
func TestDeadLetterIsTheRecord(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders", "orders.dlq"))
	topic := "orders"
	var headers []kafka.Header
	for _, v := range [][]byte{nil, {}, []byte("x"), {0, 255}, nil} {
		headers = append(headers, kafka.Header{Key: "h", Value: v}, kafka.Header{Key: "", Value: v}, kafka.Header{Key: "REASON", Value: v})
	}
	produced := []*kafka.Message{
		{},
		{Key: []byte{}},
		{Value: []byte{}},
		{Key: []byte{}, Value: []byte{}, Headers: headers},
		{Key: []byte{0, 1}, Value: []byte("\xff\x00"), Headers: headers, Timestamp: time.UnixMilli(1)},
		{Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 100_000), Timestamp: time.UnixMilli(1_700_000_000_123)},
	}
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": c.ListenAddrs()[0]})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range produced {
		m.TopicPartition = kafka.TopicPartition{Topic: &topic, Partition: 0}
		if err := p.Produce(m, nil); err != nil {
			t.Fatal(err)
		}
		if m := receive(t, p.Events()).(*kafka.Message); m.TopicPartition.Error != nil {
			t.Fatal(m.TopicPartition.Error)
		}
	}
	p.Close()

	km := *consumerMap(c)
	delete(km, "go.application.rebalance.enable")
	consumer, err := kafka.NewConsumer(&km)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	if err := consumer.Subscribe(topic, nil); err != nil {
		t.Fatal(err)
	}
	w := writerOn(t, c, Config{})
	for range produced {
		var m *kafka.Message
		eventually(t, "a record", func() (ok bool) { m, ok = consumer.Poll(100).(*kafka.Message); return ok })
		if err := write(t, w, letter(m)); err != nil {
			t.Fatal(err)
		}
	}
	sources := read(t, c, "orders", len(produced))
	for n, dead := range read(t, c, "orders.dlq", len(produced)) {
		source := sources[n]
		if !reflect.DeepEqual(dead.Key, source.Key) || !reflect.DeepEqual(dead.Value, source.Value) || !dead.Timestamp.Equal(source.Timestamp) {
			t.Errorf("record %d: key %#v, value %#v, %v became %#v, %#v, %v", n, source.Key, source.Value, source.Timestamp, dead.Key, dead.Value, dead.Timestamp)
		}
		own := len(source.Headers)
		if len(dead.Headers) < own || own > 0 && !reflect.DeepEqual(dead.Headers[:own], source.Headers) {
			t.Errorf("record %d: headers %v became %v", n, source.Headers, dead.Headers)
		}
		i, err := Read(headersOf(dead))
		if err != nil || i.Topic != "orders" || i.Offset != int64(n) || !i.Timestamp.Equal(source.Timestamp) {
			t.Errorf("record %d: %+v, %v", n, i, err)
		}
	}
}

func TestPartitionIsTheSourcesWhereTheDLQHasIt(t *testing.T) {
	c := broker(t, kfake.SeedTopics(3, "orders.dlq"))
	w := writerOn(t, c, Config{})
	for p := range int32(6) {
		for offset := range int64(10) {
			if err := write(t, w, letter(record(p, offset%5))); err != nil {
				t.Fatalf("partition %d: %v", p, err)
			}
		}
	}
	byKey := map[string]int32{}
	for _, r := range read(t, c, "orders.dlq", 60) {
		i, _ := Read(headersOf(r))
		if i.Partition < 3 && i.Partition != r.Partition {
			t.Errorf("a record of partition %d went to %d", i.Partition, r.Partition)
		}
		if i.Partition >= 3 {
			if p, found := byKey[string(r.Key)]; found && p != r.Partition {
				t.Errorf("key %s went to %d and %d", r.Key, p, r.Partition)
			}
			byKey[string(r.Key)] = r.Partition
		}
	}
}

func TestARecordWithoutAKeyGoesAnywhere(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{})
	for _, key := range [][]byte{nil, {}} {
		r := record(500, 1)
		r.Key = key
		if err := write(t, w, letter(r)); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range [][]byte{nil, {}} {
		if got := read(t, c, "orders.dlq", 2)[n].Key; !reflect.DeepEqual(got, want) {
			t.Errorf("key %#v became %#v", want, got)
		}
	}
}

func TestAPartitionThatWasMissingIsFoundLater(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{})
	if err := write(t, w, letter(record(2, 1))); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	believed := w.few["orders.dlq"]
	w.few["orders.dlq"] = ceiling{believed.partition, time.Now().Add(-time.Second)} // a minute later
	w.mu.Unlock()
	if believed.partition != 2 || time.Until(believed.until) > fewFor {
		t.Fatalf("believed %+v", believed)
	}
	if p := w.partition(&sending{topic: "orders.dlq", letter: letter(record(2, 1))}); p != 2 {
		t.Errorf("partition %d", p)
	}
}

// Law 1: done says nil only when the broker has the letter.
func TestNothingIsAcknowledgedBeforeTheBrokerHasIt(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	var let atomic.Bool
	asked := make(chan struct{}, 100)
	c.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if req.(*kmsg.ProduceRequest).Acks != -1 {
			t.Error("not acks=all")
		}
		asked <- struct{}{}
		c.SleepControl(func() {
			for !let.Load() {
				runtime.Gosched()
			}
		})
		return nil, nil, false
	})
	w := writerOn(t, c, Config{})
	done := make(chan error, 1)
	w.Write(letter(record(0, 1)), func(err error) { done <- err })
	receive(t, asked)
	select {
	case err := <-done:
		t.Fatalf("answered %v before the broker did", err)
	default:
	}
	let.Store(true)
	if err := receive(t, done); err != nil {
		t.Fatal(err)
	}
}

// Scenario 79, at the broker: an append whose answer was lost is sent again by the client, and stands there once.
func TestALostAnswerMakesNoDuplicate(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{})
	lost := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Count: 2})
	for offset := range int64(20) {
		if err := write(t, w, letter(record(0, offset))); err != nil {
			t.Fatal(err)
		}
	}
	if lost.Hits() == 0 {
		t.Error("no answer was lost")
	}
	if n := count(c, "orders.dlq"); n != 20 {
		t.Errorf("%d letters for 20 records", n)
	}
}

func TestManyLettersShareARoundTrip(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{})
	var requests atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		requests.Add(1)
		return nil, nil, false
	})
	const n = 5000
	var failed atomic.Int64
	var wg sync.WaitGroup
	for offset := range int64(n) {
		wg.Add(1)
		w.Write(letter(record(0, offset)), func(err error) {
			if err != nil {
				failed.Add(1)
			}
			wg.Done()
		})
	}
	wg.Wait()
	if failed.Load() != 0 || count(c, "orders.dlq") != n {
		t.Errorf("%d of %d written, %d failed", count(c, "orders.dlq"), n, failed.Load())
	}
	if requests.Load() > n/20 {
		t.Errorf("%d requests for %d letters", requests.Load(), n)
	}
	for at, r := range read(t, c, "orders.dlq", n) {
		if i, _ := Read(headersOf(r)); i.Offset != int64(at) {
			t.Fatalf("letter %d is of offset %d", at, i.Offset)
		}
	}
}

func TestDoneComesFromAnotherGoroutine(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{})
	empty, badName := letter(nil), letter(record(0, 1))
	*badName.Record.TopicPartition.Topic = "no/name"
	for _, l := range []Letter{letter(record(0, 1)), empty, badName} {
		var mu sync.Mutex // as a caller may hold one that done takes
		done := make(chan error, 1)
		mu.Lock()
		w.Write(l, func(err error) { mu.Lock(); defer mu.Unlock(); done <- err })
		mu.Unlock()
		receive(t, done)
	}
}

// Scenario 77: reported as such, and cured without a restart.
func TestMissingTopicIsReportedAndLaterLettersAreWritten(t *testing.T) {
	c := broker(t)
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"topic.metadata.propagation.max.ms": 500}})
	wantErr(t, write(t, w, letter(record(0, 1))), ErrTopicMissing, `topic "orders.dlq" does not exist`, "set Create")
	if err := c.CreateTopic("orders.dlq", 1, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a letter after the topic is there", func() bool { return write(t, w, letter(record(0, 1))) == nil })
}

func allow(op kmsg.ACLOperation, rt kmsg.ACLResourceType, name string) kfake.ACL {
	return kfake.ACL{Resource: rt, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
}

func topicACL(op kmsg.ACLOperation, name string) kfake.ACL {
	return allow(op, kmsg.ACLResourceTypeTopic, name)
}

// guarded is a broker with a user "app" who may do what the ACLs say.
func guarded(t testing.TB, acls []kfake.ACL, opts ...kfake.Opt) *kfake.Cluster {
	return broker(t, append(opts, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "app", "hunter2", acls...))...)
}

func as(user, password string) *kafka.ConfigMap {
	return &kafka.ConfigMap{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN", "sasl.username": user, "sasl.password": password}
}

func TestNotAuthorizedIsReportedAndLaterLettersAreWritten(t *testing.T) {
	c := guarded(t, []kfake.ACL{topicACL(kmsg.ACLOperationWrite, "other"), topicACL(kmsg.ACLOperationDescribe, "orders.dlq")}, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: as("app", "hunter2")})
	wantErr(t, write(t, w, letter(record(0, 1))), ErrUnauthorized, `topic "orders.dlq"`, "grant")

	admin, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": c.ListenAddrs()[0], "security.protocol": "SASL_PLAINTEXT",
		"sasl.mechanisms": "PLAIN", "sasl.username": "admin", "sasl.password": "admin"})
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	res, err := admin.CreateACLs(context.Background(), kafka.ACLBindings{{Type: kafka.ResourceTopic, Name: "orders.dlq", ResourcePatternType: kafka.ResourcePatternTypeLiteral,
		Principal: "User:app", Host: "*", Operation: kafka.ACLOperationWrite, PermissionType: kafka.ACLPermissionTypeAllow}})
	if err != nil || res[0].Error.Code() != kafka.ErrNoError {
		t.Fatal(err, res)
	}
	eventually(t, "a letter after the grant", func() bool { return write(t, w, letter(record(0, 1))) == nil })
}

func TestATopicThatMayNotBeSeenIsNotAuthorized(t *testing.T) {
	c := guarded(t, []kfake.ACL{topicACL(kmsg.ACLOperationWrite, "other")}, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: as("app", "hunter2")})
	wantErr(t, write(t, w, letter(record(0, 1))), ErrUnauthorized)
}

// Before KIP-679 an idempotent producer needs a right of its own; without it librdkafka's client fails for good, again and again.
func TestNoRightToBeIdempotentIsReported(t *testing.T) {
	c := guarded(t, []kfake.ACL{topicACL(kmsg.ACLOperationDescribe, "orders.dlq")}, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: as("app", "hunter2")})
	wantErr(t, write(t, w, letter(record(0, 1))), ErrUnauthorized)
}

// Law 17.
func TestWrongCredentialsAreReportedAndPasswordsAreNotLogged(t *testing.T) {
	c := guarded(t, nil, kfake.SeedTopics(1, "orders.dlq"))
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) { // as a broker says it
		c.KeepControl()
		res := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		res.ErrorCode, res.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("Authentication failed: Invalid username or password")
		return res, nil, true
	})
	core, logs := observer.New(zap.DebugLevel)
	km := as("app", "correct-horse")
	(*km)["message.timeout.ms"] = 1500
	(*km)["debug"] = "all"
	w := writerOn(t, c, Config{Kafka: km}, zap.New(core))
	err := write(t, w, letter(record(0, 1)))
	wantErr(t, err, ErrUnauthorized, "credentials")
	for _, e := range logs.All() {
		if strings.Contains(e.Message, "correct-horse") || strings.Contains(fmt.Sprint(e.ContextMap()), "correct-horse") {
			t.Errorf("the password is in the log: %s", e.Message)
		}
		if strings.Contains(e.Message, "value-1") {
			t.Errorf("the payload is in the log: %s", e.Message)
		}
	}
}

// Scenarios 36 and 82.
func TestTextsGoBeforeAnythingElse(t *testing.T) {
	c := broker(t)
	const limit = 20_000
	if err := c.CreateTopic("orders.dlq", 1, map[string]string{"max.message.bytes": fmt.Sprint(limit)}); err != nil {
		t.Fatal(err)
	}
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"compression.type": "none"}})
	of := func(offset int64, size int) Letter {
		l := letter(record(0, offset))
		l.Record.Value = bytes.Repeat([]byte("v"), size)
		l.Record.Headers = []kafka.Header{h("own", strings.Repeat("h", 200))}
		l.ErrorMessage, l.Stack = strings.Repeat("e", 3000), strings.Repeat("s", 5000)
		return l
	}
	sizes := []int{1000, 16_000, limit - 1400} // all texts fit; some; none
	for n, size := range sizes {
		if err := write(t, w, of(int64(n), size)); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	err := write(t, w, of(9, limit))
	wantErr(t, err, ErrTooLarge, "max.message.bytes", "skip the record")

	for n, r := range read(t, c, "orders.dlq", len(sizes)) {
		i, err := Read(headersOf(r))
		if err != nil || len(r.Value) != sizes[n] || len(r.Headers[0].Value) != 200 || len(r.Key) == 0 {
			t.Errorf("letter %d: %d bytes of value, %+v, %v", n, len(r.Value), i, err)
		}
		if want := []int{5000, 512, 0}[n]; len(i.Stack) != want {
			t.Errorf("letter %d has %d bytes of stack, want %d", n, len(i.Stack), want)
		}
	}

	// a person's Skip writes a reference to what does not fit
	ref := of(9, limit)
	ref.Kind, ref.Reference = Skipped, true
	if err := write(t, w, ref); err != nil {
		t.Fatal(err)
	}
	ref.Record.Headers = []kafka.Header{h("own", strings.Repeat("h", limit))}
	if err := write(t, w, ref); err != nil {
		t.Fatal(err)
	}
	rs := read(t, c, "orders.dlq", len(sizes)+2)[len(sizes):]
	for n, want := range []string{"value", "key, value and headers"} {
		if i, err := Read(headersOf(rs[n])); err != nil || i.Reference != want || i.Offset != 9 || rs[n].Value != nil {
			t.Errorf("reference: %+v, %v", i, err)
		}
	}
}

// The broker measures a batch, and librdkafka fails all of it.
func TestALetterIsNotTooLargeForItsCompany(t *testing.T) {
	c := broker(t)
	if err := c.CreateTopic("orders.dlq", 1, map[string]string{"max.message.bytes": "5000"}); err != nil {
		t.Fatal(err)
	}
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"compression.type": "none", "linger.ms": 200}})
	const n = 50
	done := make(chan error, n)
	for offset := range int64(n) {
		l := letter(record(0, offset))
		l.ErrorMessage = strings.Repeat("e", 1000)
		w.Write(l, func(err error) { done <- err })
	}
	for range n {
		if err := receive(t, done); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range read(t, c, "orders.dlq", n) {
		if i, _ := Read(headersOf(r)); len(i.ErrorMessage) != 1000 {
			t.Fatalf("the text was cut to %d", len(i.ErrorMessage))
		}
	}
}

func TestARecordBeyondTheClientsOwnLimitIsForTheBrokerToJudge(t *testing.T) {
	c := broker(t)
	if err := c.CreateTopic("orders.dlq", 1, map[string]string{"max.message.bytes": "20000000"}); err != nil {
		t.Fatal(err)
	}
	r := record(0, 1)
	r.Value = bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	w := writerOn(t, c, Config{})
	if err := write(t, w, letter(r)); err != nil {
		t.Fatal(err)
	}
	mean := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"message.max.bytes": 2000}})
	r = record(0, 2)
	r.Value = make([]byte, 1900)
	wantErr(t, write(t, mean, letter(r)), ErrTooLarge)
}

// Scenarios 35 and 41, law 13: what is not acknowledged is an error, and can be written again.
func TestABrokerThatIsAwayIsAnErrorAndLaterLettersAreWritten(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"message.timeout.ms": 500}})
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	err := write(t, w, letter(record(0, 1)))
	if err == nil || errors.Is(err, ErrTopicMissing) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrTooLarge) {
		t.Fatalf("%v", err)
	}
	away.Remove()
	eventually(t, "a letter after the broker is back", func() bool { return write(t, w, letter(record(0, 1))) == nil })
}

func TestAFullQueueIsAnErrorAtOnce(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"queue.buffering.max.messages": 10}})
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	done := make(chan error, 15)
	for offset := range int64(15) {
		w.Write(letter(record(0, offset)), func(err error) { done <- err })
	}
	for range 5 {
		if err := receive(t, done); err == nil || !strings.Contains(err.Error(), "write the letter again later") {
			t.Error(err)
		}
	}
	away.Remove()
	for range 10 {
		if err := receive(t, done); err != nil {
			t.Error(err)
		}
	}
}

func TestNoBrokerIsSaidSo(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	w, err := NewWriter(Config{Kafka: &kafka.ConfigMap{"message.timeout.ms": 1000}}, &kafka.ConfigMap{"bootstrap.servers": addr}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	if err := write(t, w, letter(record(0, 1))); err == nil || !strings.Contains(err.Error(), "Connection refused") {
		t.Errorf("%v", err)
	}
}

// Scenario 41, facts: a fatal producer is replaced, and no letter is left without an answer.
func TestAFatalProducerIsReplaced(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	core, logs := observer.New(zap.ErrorLevel)
	w := writerOn(t, c, Config{}, zap.New(core))
	away := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1})
	const n = 100
	done := make(chan error, n)
	for offset := range int64(n) {
		w.Write(letter(record(0, offset)), func(err error) { done <- err })
	}
	kill(t, w)
	for range n {
		wantErr(t, receive(t, done), errReplaced, "write the letter again")
	}
	away.Remove()
	eventually(t, "a letter through the new producer", func() bool { return write(t, w, letter(record(0, 1))) == nil })
	if logs.FilterMessageSnippet("the producer failed and is replaced").Len() != 1 {
		t.Errorf("log: %v", logs.All())
	}
}

// kill makes the client fail for good, as the broker may.
func kill(t testing.TB, w *Writer) {
	t.Helper()
	eventually(t, "a client", func() bool {
		return w.main.use(func(c *client) error { c.TestFatalError(kafka.ErrOutOfOrderSequenceNumber, "test"); return nil }) == nil
	})
}

func TestNoLetterIsLostWhileProducersFail(t *testing.T) {
	c := broker(t, kfake.SeedTopics(2, "orders.dlq"))
	w := writerOn(t, c, Config{}, zap.NewNop())
	const lanes, each = 4, 500
	written := make(chan struct{}, lanes*each)
	var failed atomic.Int64
	var send func(Letter)
	send = func(l Letter) {
		w.Write(l, func(err error) {
			if err == nil {
				written <- struct{}{}
				return
			}
			failed.Add(1)
			time.AfterFunc(50*time.Millisecond, func() { send(l) }) // as the consumer writes it again
		})
	}
	for round := range int64(3) {
		for offset := range int64(each) {
			for lane := range int32(lanes) {
				if offset%3 == round {
					send(letter(record(lane, offset)))
				}
			}
		}
		kill(t, w)
	}
	for range lanes * each {
		receive(t, written)
	}
	seen := map[[2]int64]bool{}
	for _, r := range read(t, c, "orders.dlq", int(count(c, "orders.dlq"))) {
		i, _ := Read(headersOf(r))
		seen[[2]int64{int64(i.Partition), i.Offset}] = true
	}
	if len(seen) != lanes*each {
		t.Errorf("%d letters are in the DLQ, want %d", len(seen), lanes*each)
	}
	if failed.Load() == 0 {
		t.Error("no producer failed under a letter")
	}
	select {
	case <-written:
		t.Error("a letter was answered twice")
	default:
	}
}

func TestCloseWaitsForOutstandingLetters(t *testing.T) {
	c := broker(t, kfake.SeedTopics(1, "orders.dlq"))
	w := writerOn(t, c, Config{Kafka: &kafka.ConfigMap{"linger.ms": 300}})
	var answered atomic.Int64
	for offset := range int64(10) {
		w.Write(letter(record(0, offset)), func(err error) {
			if err != nil {
				t.Error(err)
			}
			answered.Add(1)
		})
	}
	if err := w.Close(context.Background()); err != nil || answered.Load() != 10 {
		t.Errorf("%d answered, %v", answered.Load(), err)
	}
	wantErr(t, write(t, w, letter(record(0, 1))), ErrClosed)
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := w.Check(context.Background(), []string{"orders"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestCloseGivesUpWhenItsTimeEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers, as a frozen broker does
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := NewWriter(Config{}, &kafka.ConfigMap{"bootstrap.servers": l.Addr().String()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 3)
	for offset := range int64(3) {
		w.Write(letter(record(0, offset)), func(err error) { done <- err })
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	wantErr(t, w.Close(ctx), context.DeadlineExceeded, "3 letters were not acknowledged")
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	for range 3 {
		select {
		case err := <-done:
			wantErr(t, err, ErrClosed)
		default:
			t.Fatal("a letter has no answer")
		}
	}
}

func TestRecordThatTheClientForgotIsAnsweredInTheEnd(t *testing.T) {
	w, err := NewWriter(Config{}, &kafka.ConfigMap{"bootstrap.servers": "127.0.0.1:1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 2)
	_ = w.main.use(func(c *client) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open[&answer{func(err error) { answered <- err }}] = struct{}{}
		return nil
	})
	if err := w.Close(context.Background()); err != nil {
		t.Error(err)
	}
	wantErr(t, receive(t, answered), ErrClosed)
}

func TestTokenIsKeptForTheProducerThatTakesOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	connections := make(chan net.Conn, 100) // librdkafka does not connect before it has a token
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(connections)
				return
			}
			connections <- conn
		}
	}()
	asked := make(chan kafka.Event, 100)
	w, err := NewWriter(Config{OnEvent: func(e kafka.Event) {
		if _, ok := e.(kafka.OAuthBearerTokenRefresh); ok {
			asked <- e
		}
	}}, &kafka.ConfigMap{"bootstrap.servers": l.Addr().String(), "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(context.Background())
	receive(t, asked)
	if err := w.SetOAuthBearerTokenFailure("the issuer is away"); err != nil {
		t.Error(err)
	}
	if err := w.SetOAuthBearerToken(kafka.OAuthBearerToken{}); err == nil {
		t.Error("an expired token is taken")
	}
	token := kafka.OAuthBearerToken{TokenValue: "x", Expiration: time.Now().Add(time.Hour), Principal: "me"}
	if err := w.SetOAuthBearerToken(token); err != nil {
		t.Error(err)
	}
	defer receive(t, connections).Close() // left open, so that it is not made again
	kill(t, w)
	receive(t, asked) // the one that takes over
	eventually(t, "a connection of the one that takes over", func() bool {
		select {
		case conn := <-connections:
			defer conn.Close()
			return true
		default:
			return false
		}
	})
	if _, err := w.alone(); err != nil {
		t.Fatal(err)
	}
	if w.single.token == nil {
		t.Error("the second producer has no token")
	}
	if err := w.SetOAuthBearerToken(token); err != nil {
		t.Error(err)
	}

	plain := writerOn(t, broker(t), Config{})
	if err := plain.SetOAuthBearerToken(token); err == nil {
		t.Error("a producer without OAUTHBEARER takes a token")
	}
}

// BenchmarkWrite is the throughput of letters with a thousand of them outstanding.
func BenchmarkWrite(b *testing.B) {
	c := broker(b, kfake.SeedTopics(6, "orders.dlq"))
	w := writerOn(b, c, Config{}, zap.NewNop())
	slots := make(chan struct{}, 1000)
	l := letter(record(0, 1))
	l.Record.Value = make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		slots <- struct{}{}
		w.Write(l, func(err error) {
			if err != nil {
				b.Error(err)
			}
			<-slots
		})
	}
	for range cap(slots) {
		slots <- struct{}{}
	}
}
