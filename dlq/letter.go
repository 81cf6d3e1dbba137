package dlq

import (
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// A dead letter is the record (law 14): the record's own headers come first, in order, duplicates and nil values
// included, and one block of ours stands at the end. Where the record already ends with such a block, because it has passed a DLQ before,
// the new one takes its place; nothing else of the record is touched.

// Kind is why a record became a dead letter; the KIND header.
type Kind string

// The kinds.
const (
	Permanent Kind = "permanent" // an error that waiting cannot cure
	Exhausted Kind = "exhausted" // the strategy has no interval left
	PanicKind Kind = "panic"     // the handler panicked
	Crash     Kind = "crash"     // the process did not survive the calls
	Skipped   Kind = "skipped"   // a person skipped it
)

// Letter is one dead letter: the record and what is known of its failure. Empty fields have no header.
type Letter struct {
	Record            *kafka.Message // as it was consumed; it is read until done is called, and never changed
	GroupID           string         // the consumer group
	Attempts          int            // counted calls
	Kind              Kind
	Reason            string    // what happened, where the kind does not say it: why a person skipped it. Part of the REASON sentence
	ErrorClass        string    // a short machine word: "http 503"
	ErrorMessage      string    // the last error
	FirstErrorMessage string    // the first error; the last is often just "timeout"
	Stack             string    // of a panic
	FirstFailedAt     time.Time // of the first attempt that failed
	FailedAt          time.Time // of the last one, or of the skip
	Episode           string    // the breaker's episode
	Instance          string    // client.id and host
	Reference         bool      // write no value, because the record does not fit; only for Skipped
}

// Headers are the record's own headers, in order, and our block at the end. Every error text passes redact, which may be nil, and is
// cut to limit bytes; at limit 0 there is none, and REASON says only what the kind says. A block that the record already
// ends with is replaced; its REDRIVE_COUNT and its REFERENCE, which stay true, go over to the new one.
//
// The block, UTF-8 text in this order; the optional ones are left out where there is nothing to say:
//
//	BREAKWATER           "1; headers=N": the version of the block, and how many headers follow in it
//	GROUP_ID             the consumer group
//	DESTINATION          the source topic
//	ORIGINAL_PARTITION
//	ORIGINAL_OFFSET
//	ORIGINAL_TIMESTAMP   optional; milliseconds since 1970
//	COUNTER              attempts made
//	SEND_TO              "backout"
//	REASON               one sentence for a person, the error's text included
//	KIND                 "permanent", "exhausted", "panic", "crash" or "skipped"
//	ERROR_CLASS          optional
//	ERROR_MESSAGE        optional
//	FIRST_ERROR_MESSAGE  optional
//	ERROR_STACKTRACE     optional
//	FIRST_FAILED_AT      optional; RFC 3339, UTC
//	FAILED_AT            optional; RFC 3339, UTC
//	EPISODE              optional
//	INSTANCE             optional
//	REDRIVE_COUNT        how often it was sent back from a DLQ
//	REFERENCE            optional; what was left off because the record does not fit: "value", or "key, value and headers"
func (l Letter) Headers(redact func(text string) string, limit int) []kafka.Header {
	return l.cleaned(redact).headers(form{limit: limit})
}

// form is how much of a letter is written: the texts up to a limit, and of a reference perhaps nothing but our block.
type form struct {
	limit int
	bare  bool
}

// forms are the steps by which a letter that does not fit becomes smaller. Texts go before anything else, and the payload
// of a record is never cut; of a reference the key and the record's own headers go in the end.
func (l Letter) forms(limit int) []form {
	fs := []form{{limit: limit}}
	longest := max(len(l.Reason), len(l.ErrorMessage), len(l.FirstErrorMessage), len(l.Stack))
	for _, less := range []int{512, 0} {
		if min(longest, limit) > less {
			fs = append(fs, form{limit: less})
		}
	}
	if l.Reference {
		fs = append(fs, form{bare: true})
	}
	return fs
}

// message is the record as it goes to the DLQ. The client takes the zero time, and 1970 to the millisecond, for none, and
// sets its own; ORIGINAL_TIMESTAMP tells the two apart.
func (l Letter) message(topic string, partition int32, f form) *kafka.Message {
	m := &kafka.Message{
		TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: partition},
		Key:            l.Record.Key,
		Value:          l.Record.Value,
		Timestamp:      l.Record.Timestamp,
		Headers:        l.headers(f),
	}
	if l.Reference {
		m.Value = nil
	}
	if f.bare {
		m.Key = nil
	}
	return m
}

// cleaned is the letter with its texts redacted and printable, which is done once however often it is cut.
func (l Letter) cleaned(redact func(string) string) Letter {
	for _, text := range []*string{&l.Reason, &l.ErrorMessage, &l.FirstErrorMessage, &l.Stack} {
		*text = printable(redacted(redact, *text))
	}
	l.ErrorClass = cut(oneLine(printable(l.ErrorClass)), 256)
	return l
}

func (l Letter) headers(f form) []kafka.Header {
	own, last, _ := split(l.Record.Headers)
	if f.bare {
		own = nil
	}
	return append(own[:len(own):len(own)], block(l.info(f, last))...)
}

// info is what the block says; last is what the one that it replaces said.
func (l Letter) info(f form, last Info) Info {
	tp := l.Record.TopicPartition
	i := Info{
		System:  Breakwater,
		GroupID: l.GroupID,
		Topic:   *tp.Topic, Partition: tp.Partition, Offset: int64(tp.Offset),
		Timestamp:         l.Record.Timestamp,
		Attempts:          l.Attempts,
		SendTo:            "backout",
		Kind:              l.Kind,
		Reason:            l.sentence(f.limit),
		ErrorClass:        l.ErrorClass,
		ErrorMessage:      cut(l.ErrorMessage, f.limit),
		FirstErrorMessage: cut(l.FirstErrorMessage, f.limit),
		Stack:             cut(l.Stack, f.limit),
		FirstFailedAt:     l.FirstFailedAt,
		FailedAt:          l.FailedAt,
		Episode:           l.Episode,
		Instance:          l.Instance,
		RedriveCount:      last.RedriveCount,
		Reference:         last.Reference,
	}
	if l.Reference {
		i.Reference = "value"
	}
	if f.bare {
		i.Reference = "key, value and headers"
	}
	return i
}

// sentences say what each kind means.
var sentences = map[Kind]string{
	Permanent: "permanent error after %s",
	Exhausted: "still failing after %s, and the strategy has no interval left",
	PanicKind: "the handler panicked after %s",
	Crash:     "the process did not survive the calls, %s so far",
	Skipped:   "skipped by a person after %s",
}

// sentence is the REASON: what the kind means, and of why as much as the limit permits.
func (l Letter) sentence(limit int) string {
	attempts := fmt.Sprintf("%d attempts", l.Attempts)
	if l.Attempts == 1 {
		attempts = "1 attempt"
	}
	why := ""
	if l.Reason != "" {
		why = ": " + l.Reason
	}
	switch {
	case l.ErrorMessage == "":
	case l.Reason == "":
		why = ": " + l.ErrorMessage
	default:
		why += "; last error: " + l.ErrorMessage
	}
	what, known := sentences[l.Kind]
	if !known {
		what = "dead-lettered after %s"
	}
	return fmt.Sprintf(what, attempts) + cut(oneLine(why), limit)
}
