package dlq

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

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

// Letter is one dead letter: the record and what is known of its failure.
type Letter struct {
	Record            *kafka.Message // as it was consumed; it is neither changed nor kept after done
	GroupID           string         // the consumer group
	Attempts          int            // counted calls
	Kind              Kind
	Reason            string // what happened, where Kind does not say it: why a person skipped it
	ErrorClass        string // a short machine word
	ErrorMessage      string // the last error
	FirstErrorMessage string // the first error
	Stack             string // of a panic
	FirstFailedAt     time.Time
	FailedAt          time.Time
	Episode           string // the breaker's episode
	Instance          string // client.id and host
	Reference         bool   // write no value, since the record does not fit; for Skipped only
}

// Headers are the record's own headers and our block at the end.
func (l Letter) Headers(redact func(string) string, limit int) []kafka.Header { return nil }
