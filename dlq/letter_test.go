package dlq

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func h(key, value string) kafka.Header { return kafka.Header{Key: key, Value: []byte(value)} }

func TestOurBlockStandsAtTheEndWordForWord(t *testing.T) {
	r := record(3, 42)
	r.Headers = []kafka.Header{h("traceparent", "00-1"), h("x", ""), {Key: "x"}, h("REASON", "mine")}
	l := letter(r)
	l.Kind, l.Attempts, l.Stack = PanicKind, 2, "goroutine 1 [running]:\n\tmain.go:1"
	got := l.Headers(nil, 1000)
	want := append(slices.Clone(r.Headers),
		h("BREAKWATER", "1; headers=18"),
		h("GROUP_ID", "billing"),
		h("DESTINATION", "orders"),
		h("ORIGINAL_PARTITION", "3"),
		h("ORIGINAL_OFFSET", "42"),
		h("ORIGINAL_TIMESTAMP", "1700000000042"),
		h("COUNTER", "2"),
		h("SEND_TO", "backout"),
		h("REASON", "the handler panicked after 2 attempts: service unavailable"),
		h("KIND", "panic"),
		h("ERROR_CLASS", "http 503"),
		h("ERROR_MESSAGE", "service unavailable"),
		h("FIRST_ERROR_MESSAGE", "connection refused"),
		h("ERROR_STACKTRACE", "goroutine 1 [running]:\n\tmain.go:1"),
		h("FIRST_FAILED_AT", "2023-11-14T22:15:00.000Z"),
		h("FAILED_AT", "2023-11-14T22:25:00.000Z"),
		h("EPISODE", "e1"),
		h("INSTANCE", "billing-1@host"),
		h("REDRIVE_COUNT", "0"),
	)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

func TestReasonIsOneSentenceForAPerson(t *testing.T) {
	for _, c := range []struct {
		l    Letter
		want string
	}{
		{Letter{Kind: Permanent, Attempts: 1, ErrorMessage: "unexpected end of JSON input"}, "permanent error after 1 attempt: unexpected end of JSON input"},
		{Letter{Kind: Exhausted, Attempts: 14, ErrorMessage: "i/o timeout"}, "still failing after 14 attempts, and the strategy has no interval left: i/o timeout"},
		{Letter{Kind: Crash, Attempts: 3}, "the process did not survive the calls, 3 attempts so far"},
		{Letter{Kind: Skipped, Attempts: 5, Reason: "ticket 17", ErrorMessage: "no such customer"}, "skipped by a person after 5 attempts: ticket 17; last error: no such customer"},
		{Letter{Kind: Skipped, Reason: "ticket 17"}, "skipped by a person after 0 attempts: ticket 17"},
		{Letter{Kind: "unheard of", Attempts: 2}, "dead-lettered after 2 attempts"},
		{Letter{Kind: Permanent, Attempts: 1, ErrorMessage: "one\ntwo\x1b[31m\tthree"}, "permanent error after 1 attempt: one two [31m three"},
	} {
		c.l.Record = record(0, 0)
		hs := c.l.Headers(nil, 1000)
		i, _ := Read(hs)
		if i.Reason != c.want {
			t.Errorf("got  %q\nwant %q", i.Reason, c.want)
		}
	}
}

// Law 14: nothing grows over passes, and only what stays true goes over.
func TestPassingAgainReplacesTheBlock(t *testing.T) {
	first := letter(record(3, 42))
	first.Record.Headers = []kafka.Header{h("a", "1"), {Key: "a"}, h("REASON", "mine"), h("BREAKWATER", "mine too")}
	own := slices.Clone(first.Record.Headers)
	hs := first.Headers(nil, 1000)

	// a redrive counts itself
	i, err := Read(hs)
	if err != nil {
		t.Fatal(err)
	}
	i.RedriveCount, i.Reference = 2, "value"
	hs = append(slices.Clone(own), block(i)...)

	for pass := range 5 {
		again := letter(record(int32(pass), int64(pass)))
		again.Kind, again.Attempts, again.ErrorMessage = Permanent, 1, "bad"
		again.Record.Headers = hs
		hs = again.Headers(nil, 1000)
		if !reflect.DeepEqual(hs[:len(own)], own) {
			t.Fatalf("pass %d: the record's own headers became %v", pass, hs[:len(own)])
		}
		i, err := Read(hs)
		if err != nil || i.RedriveCount != 2 || i.Reference != "value" || i.Partition != int32(pass) || i.Kind != Permanent {
			t.Fatalf("pass %d: read %+v, %v", pass, i, err)
		}
		if n := len(hs) - len(own); n != len(block(i)) {
			t.Fatalf("pass %d: the block has %d headers", pass, n)
		}
	}
}

func TestOnlyAWellFormedBlockAtTheVeryEndIsOurs(t *testing.T) {
	good := letter(record(3, 42)).Headers(nil, 1000)
	if _, _, found := split(good); !found {
		t.Fatal("the good one is not found")
	}
	change := func(key, value string) []kafka.Header {
		hs := slices.Clone(good)
		at := slices.IndexFunc(hs, func(h kafka.Header) bool { return h.Key == key })
		hs[at] = h(key, value)
		return hs
	}
	without := func(key string) []kafka.Header {
		return slices.DeleteFunc(slices.Clone(good), func(h kafka.Header) bool { return h.Key == key })
	}
	null := slices.Clone(good)
	null[len(null)-2].Value = nil
	swapped := slices.Clone(good)
	swapped[1], swapped[2] = swapped[2], swapped[1]
	for name, hs := range map[string][]kafka.Header{
		"none":                      nil,
		"the user's REASON":         {h("REASON", "mine")},
		"the user's BREAKWATER":     {h("BREAKWATER", "1; headers=0")},
		"something behind it":       append(slices.Clone(good), h("later", "x")),
		"wrong count":               change("BREAKWATER", "1; headers=7"),
		"another version":           change("BREAKWATER", fmt.Sprintf("2; headers=%d", len(good)-1)),
		"blanks":                    change("BREAKWATER", fmt.Sprintf("1;  headers=%d", len(good)-1)),
		"a number that is none":     change("COUNTER", "many"),
		"a number with a sign":      change("COUNTER", "+14"),
		"a partition beyond int32":  change("ORIGINAL_PARTITION", "4294967299"),
		"another way to write time": change("FAILED_AT", "2023-11-14T23:25:00.000+01:00"),
		"a count gone":              without("REDRIVE_COUNT"),
		"an optional one gone":      without("EPISODE"),
		"an optional one empty":     change("EPISODE", ""),
		"a null value":              null,
		"another order":             swapped,
	} {
		t.Run(name, func(t *testing.T) {
			own, _, found := split(hs)
			if found || !reflect.DeepEqual(own, hs) {
				t.Errorf("%v was taken for a block", hs[len(own):])
			}
		})
	}
}

func TestRecordIsNeverChangedAndNeverShared(t *testing.T) {
	r := record(0, 1)
	r.Headers = make([]kafka.Header, 1, 64)
	r.Headers[0] = h("a", "1")
	spare := r.Headers[:64]
	letter(r).Headers(nil, 1000)
	if spare[1].Key != "" {
		t.Error("the block was written into the record's own memory")
	}
}

func TestHeadersProperties(t *testing.T) {
	names := []string{"a", "", "REASON", "BREAKWATER", "COUNTER", "KIND", "ä"}
	rng := rand.New(rand.NewPCG(1, 2))
	text := func() string {
		b := make([]byte, rng.IntN(40))
		for i := range b {
			b[i] = byte(rng.IntN(256))
		}
		return string(b)
	}
	for range 5000 {
		r := record(rng.Int32(), rng.Int64())
		for range rng.IntN(5) {
			hdr := h(names[rng.IntN(len(names))], text())
			if rng.IntN(4) == 0 {
				hdr.Value = nil
			}
			r.Headers = append(r.Headers, hdr)
		}
		own := slices.Clone(r.Headers)
		l := Letter{Record: r, GroupID: text(), Attempts: rng.IntN(100), Kind: Kind(text()), Reason: text(), ErrorClass: text(),
			ErrorMessage: text(), FirstErrorMessage: text(), Stack: text(), Episode: text(), Instance: text(), Reference: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			l.FailedAt, l.FirstFailedAt = time.UnixMilli(rng.Int64N(4e12)), time.UnixMilli(rng.Int64N(4e12))
		}
		limit := rng.IntN(50)
		hs := l.Headers(nil, limit)
		got, i, found := split(hs)
		if !found || !reflect.DeepEqual(got[:len(own):len(own)], own[:len(own):len(own)]) && len(own) > 0 {
			t.Fatalf("%q: own headers %v", l.Headers(nil, limit), got)
		}
		for _, s := range []string{i.ErrorMessage, i.FirstErrorMessage, i.Stack} {
			if len(s) > limit {
				t.Fatalf("%q is longer than %d", s, limit)
			}
		}
		if i.GroupID != l.GroupID || i.Topic != "orders" || i.Partition != r.TopicPartition.Partition ||
			i.Offset != int64(r.TopicPartition.Offset) || !i.Timestamp.Equal(r.Timestamp) || i.Attempts != l.Attempts ||
			!i.FailedAt.Equal(l.FailedAt) || (i.Reference == "value") != l.Reference {
			t.Fatalf("%+v of %+v", i, l)
		}
	}
}

func TestTimesThatHaveNoTextAreLeftOut(t *testing.T) {
	l := letter(record(0, 1))
	l.Record.Timestamp, l.Record.TimestampType = time.Time{}, kafka.TimestampNotAvailable
	l.FirstFailedAt, l.FailedAt = time.Time{}, time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC)
	i, err := Read(l.Headers(nil, 10))
	if err != nil || !i.Timestamp.IsZero() || !i.FirstFailedAt.IsZero() || !i.FailedAt.IsZero() {
		t.Errorf("%+v, %v", i, err)
	}
	l.Record.Timestamp = time.UnixMilli(0)
	if i, _ := Read(l.Headers(nil, 10)); i.Timestamp.IsZero() || i.Timestamp.UnixMilli() != 0 {
		t.Errorf("1970 became %v", i.Timestamp)
	}
}

func TestFormsBecomeSmallerAndEndWithoutTexts(t *testing.T) {
	size := func(m *kafka.Message) (n int) {
		for _, h := range m.Headers {
			n += len(h.Key) + len(h.Value)
		}
		return n + len(m.Key) + len(m.Value)
	}
	l := letter(record(0, 1))
	l.Record.Headers = []kafka.Header{h("big", strings.Repeat("x", 100))}
	l.ErrorMessage, l.Stack = strings.Repeat("e", 5000), strings.Repeat("s", 20000)
	fs := l.forms(8192)
	if len(fs) != 3 {
		t.Fatalf("forms %v", fs)
	}
	last := l.message("t", 0, fs[0])
	for _, f := range fs[1:] {
		m := l.message("t", 0, f)
		if size(m) >= size(last) {
			t.Errorf("form %v is no smaller", f)
		}
		if !bytes.Equal(m.Value, l.Record.Value) || !bytes.Equal(m.Key, l.Record.Key) || !reflect.DeepEqual(m.Headers[0], l.Record.Headers[0]) {
			t.Errorf("form %v cuts the payload", f)
		}
		last = m
	}
	i, _ := Read(last.Headers)
	if i.ErrorMessage+i.FirstErrorMessage+i.Stack != "" || i.Reason != "still failing after 14 attempts, and the strategy has no interval left" {
		t.Errorf("the last form says %+v", i)
	}

	l.Reference = true
	fs = l.forms(8192)
	m := l.message("t", 0, fs[0])
	if i, _ := Read(m.Headers); m.Value != nil || m.Key == nil || i.Reference != "value" {
		t.Errorf("a reference has value %q, key %q and says %q", m.Value, m.Key, i.Reference)
	}
	m = l.message("t", 0, fs[len(fs)-1])
	if i, _ := Read(m.Headers); m.Key != nil || len(m.Headers) != len(block(i)) || i.Reference != "key, value and headers" {
		t.Errorf("the smallest reference has key %q and says %q", m.Key, i.Reference)
	}

	if fs := (Letter{Record: record(0, 1)}).forms(8192); len(fs) != 1 {
		t.Errorf("a letter without texts has forms %v", fs)
	}
}
