package dlq

import (
	"errors"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// What a caller would branch on. Every error of Check, Write and Close is a sentence that wraps one of these where it
// applies, and the client's kafka.Error where there is one. An error of Write that wraps none of them may pass: write the
// letter again, a little later.
var (
	// ErrTooLarge: the record does not fit the DLQ, even without any text of ours.
	ErrTooLarge = errors.New("too large")
	// ErrUnauthorized: the broker refuses us. Later letters are written once that is mended.
	ErrUnauthorized = errors.New("not authorized")
	// ErrTopicMissing: the DLQ does not exist. Later letters are written once it does.
	ErrTopicMissing = errors.New("topic missing")
	// ErrNoAnswer: Check had no answer from any broker in its time. It may be asked again.
	ErrNoAnswer = errors.New("no broker answered in time")
	// ErrClosed: the writer was closed before the letter was acknowledged.
	ErrClosed = errors.New("writer closed")
	// ErrNotDeadLetter: Read found no headers of a dead letter.
	ErrNotDeadLetter = errors.New("dlq: no headers of a dead letter")
)

// errReplaced is what a letter gets whose producer failed under it.
var errReplaced = errors.New("the producer failed and is replaced; write the letter again")

// kafkaCode is the code of the first kafka.Error in err, ErrNoError where there is none.
func kafkaCode(err error) kafka.ErrorCode {
	var e kafka.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return kafka.ErrNoError
}

// cures are the errors for which somebody can do something: what they mean, with the topic for %s, and the sentinel they wrap.
var cures = map[kafka.ErrorCode]struct {
	sentence string
	sentinel error
}{
	kafka.ErrMsgSizeTooLarge: {
		"the record does not fit topic %q even without any text of ours; raise its max.message.bytes above the source's, or skip the record, which writes a reference to it", ErrTooLarge},
	kafka.ErrUnknownTopic: {
		"topic %q does not exist; create it, or set Create, which makes it at the next start", ErrTopicMissing},
	kafka.ErrUnknownTopicOrPart: {
		"topic %q does not exist; create it, or set Create, which makes it at the next start", ErrTopicMissing},
	kafka.ErrTopicAuthorizationFailed: {
		"not allowed to write to topic %q; grant this client Write and Describe on it", ErrUnauthorized},
	kafka.ErrClusterAuthorizationFailed: {
		"not allowed to write to topic %q with an idempotent producer; grant this client IdempotentWrite on the cluster, which brokers before 2.8 ask for", ErrUnauthorized},
	kafka.ErrSaslAuthenticationFailed: {
		"no letter for topic %q can be written, since the broker does not accept this client's credentials; correct them", ErrUnauthorized},
	kafka.ErrAuthentication: {
		"no letter for topic %q can be written, since the broker does not accept this client's credentials; correct them", ErrUnauthorized},
	kafka.ErrInvalidTimestamp: {
		"topic %q refuses the record's own timestamp, which a dead letter keeps; set its message.timestamp.before.max.ms and message.timestamp.after.max.ms as wide as the source's", nil},
	kafka.ErrQueueFull: {
		"too many letters for topic %q wait for the broker; write the letter again later", nil},
	kafka.ErrNotEnoughReplicas: {
		"topic %q has too few replicas in sync; bring the missing brokers back", nil},
	kafka.ErrNotEnoughReplicasAfterAppend: {
		"topic %q has too few replicas in sync; bring the missing brokers back", nil},
}

// explain makes a sentence with a cure of what the client said.
func explain(topic string, err error) error {
	if err == nil {
		return nil
	}
	c, found := cures[kafkaCode(err)]
	switch {
	case !found:
		return fmt.Errorf("dlq: topic %q: %w", topic, err)
	case c.sentinel == nil:
		return fmt.Errorf("dlq: "+c.sentence+": %w", topic, err)
	default:
		return fmt.Errorf("dlq: "+c.sentence+" (%w): %w", topic, c.sentinel, err)
	}
}
