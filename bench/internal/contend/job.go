// Package contend is a contender's side of the bench: what it is told to do, the work that its handler does, and what it says meanwhile.
//
// A contender is a process of its own, so that its CPU time and memory are nobody else's and it can be killed. It gets a Job as the first line
// of its standard input and commands after that; it answers on its standard output, a JSON object a line. When its input ends it ends too.
package contend

import (
	"fmt"
	"time"
)

// Job is what a contender is told.
type Job struct {
	Contender string
	Instance  string

	Brokers, Group, Topic, DLQ string
	Redis                      string // address; "": attempts are kept in memory
	Strategy                   string // as in strategy.json
	MaxPoll                    time.Duration
	Statistics                 time.Duration // how often the client tells what it has fetched
	Profile                    string        // file for a CPU profile; "": none

	// The dependency: an HTTP address, or else the ledger's file and what the handler does beside noting the call.
	Stub    string
	Ledger  string
	Parts   int
	Records int // of each partition, in the ledger
	Spin    int // turns of CPU
	Wait    time.Duration

	// The record at each multiple of FailEvery in partition 0 fails once, FailTimes of them.
	FailEvery, FailTimes int64
}

// Record is one Kafka record, whatever client it came from.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Value     []byte
	Attempt   int // which call it is, from 1
}

// Poison is the first byte of the value of a record that the dependency always refuses.
const Poison = 'x'

// Refused is an answer of the dependency other than 200.
type Refused struct{ StatusCode int }

func (r Refused) Error() string { return fmt.Sprintf("the dependency answered %d", r.StatusCode) }

// Permanent tells whether waiting is no use.
func (r Refused) Permanent() bool {
	return r.StatusCode >= 400 && r.StatusCode < 500 && r.StatusCode != 429
}

// The states of a contender's breaker, or of what it has in place of one.
const (
	Open     = "open"
	Closed   = "closed"
	HalfOpen = "half-open"
)

// Said is what a contender says.
type Said struct {
	At      int64  // Unix nanoseconds
	State   string `json:",omitempty"` // it has changed to that
	Sample  bool   `json:",omitempty"` // the answer to a command
	Mallocs uint64 `json:",omitempty"` // allocations of Go since the start
	Fetched int64  `json:",omitempty"` // bytes that came from the brokers
	Error   string `json:",omitempty"`
}

// The commands.
const (
	Sample = "sample" // say what was allocated and fetched
	Stop   = "stop"   // end as you would on SIGTERM
)
