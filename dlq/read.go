package dlq

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// Reading is lenient with others and strict with ourselves: of our own block only a well-formed one at the very end
// counts; of the headers of other systems the last of each name counts, and one that can't be read is named while the rest is read
// all the same.

// System is who wrote a dead letter.
type System string

// The systems whose headers Read knows.
const (
	Breakwater   System = "breakwater"
	SpringKafka  System = "spring-kafka"
	KafkaConnect System = "kafka-connect"
)

// Info is what the headers of a dead letter say. What they don't say is zero; Partition and Offset are then -1.
type Info struct {
	System            System
	GroupID           string // the consumer group; Kafka Connect does not tell it
	Topic             string // where the record comes from, as are Partition, Offset and Timestamp
	Partition         int32
	Offset            int64
	Timestamp         time.Time // of the record
	Attempts          int       // calls made
	SendTo            string    // where a Retryer is to send it; "backout" is the DLQ
	Kind              Kind
	Reason            string // one sentence for a person
	ErrorClass        string // a short machine word; of Java, the exception's class
	ErrorMessage      string
	FirstErrorMessage string
	Stack             string
	FirstFailedAt     time.Time
	FailedAt          time.Time
	Episode           string
	Instance          string // client.id and host; of Kafka Connect, connector and task: "jdbc-sink/0"
	RedriveCount      int
	Reference         string // what was left off because the record did not fit; "": nothing
}

// Read says what the headers of a dead letter say: our own block's, else Spring Kafka's kafka_dlt-* (and the kafka_* of its
// retry topics), else Kafka Connect's __connect.errors.*. The error is ErrNotDeadLetter where there are none of them. Any
// other error names the headers that could not be read; the Info then holds what the others say.
func Read(headers []kafka.Header) (Info, error) {
	if _, i, found := split(headers); found {
		return i, nil
	}
	for _, foreign := range []func([]kafka.Header) (Info, bool, error){readSpring, readConnect} {
		if i, found, err := foreign(headers); found {
			return i, err
		}
	}
	return Info{}, ErrNotDeadLetter
}

// Original is the record as it was: m without our block, and with the topic, partition, offset and timestamp that the block
// tells. A record without our block comes back as it is. Key, value and header values are shared with m, which is not
// changed. A reference (Info.Reference) has lost what it says, for good.
func Original(m *kafka.Message) *kafka.Message {
	was := *m
	own, i, found := split(m.Headers)
	if !found {
		return &was
	}
	was.Headers = own[:len(own):len(own)]
	was.TopicPartition = kafka.TopicPartition{Topic: &i.Topic, Partition: i.Partition, Offset: kafka.Offset(i.Offset)}
	was.LeaderEpoch = nil
	if !i.Timestamp.IsZero() {
		was.Timestamp = i.Timestamp
	}
	return &was
}
