// Package observe says what Breakwater is doing. The loop tells one Observer what happened, as one flat Event; a logger, a
// metric or a test is an Observer behind it.
package observe

import "time"

// Observer is told what happened, in the order in which it happened.
//
// Observe is called from several goroutines, one call at a time, never under a lock of the library, and off the path of
// the records: a slow observer delays later events and nothing else. Nothing is told per record while all is well.
type Observer interface {
	Observe(Event)
}

// Func makes an Observer of a function.
type Func func(Event)

// Observe calls f.
func (f Func) Observe(e Event) { f(e) }

// Event is one thing that happened to a person. Fields that say nothing for a Kind are zero; Partition and Offset mean
// something only where Topic is set. An Event never holds a record's key or value.
type Event struct {
	Kind      Kind
	At        time.Time
	Topic     string
	Partition int32
	Offset    int64         // -1 where the event is about a whole partition
	Attempt   int           // counted calls of the record so far
	RetryAt   time.Time     // the instant of the next call
	Episode   string        // the breaker's episode, from trip to close
	For       time.Duration // how long it lasted: an episode, an absence, a stall
	Count     int           // how many: partitions, dead letters, records
	Text      string        // one sentence for a person, where the kind alone does not say it
	Err       error         // what went wrong, as the handler, the store or the broker said it
}

// Severity is how urgently a person wants to know.
type Severity int

// The severities, as a logger has them.
const (
	Info Severity = iota
	Warn
	Error
)
