// Package attempts remembers how often a failed record was tried, and until when it waits, over restarts, crashes and moves
// between instances.
//
// A Store keeps one Entry for each failed record of a group, and a mark for each partition that somebody owns. Two are
// here: Memory, which keeps nothing over a restart, and Redis. A store of your own passes the suite in attemptstest.
//
// A store is never on the path of a record that succeeds. It may be slow, away or full of nonsense: its callers go on
// counting in memory, and its errors say what to do.
package attempts

import (
	"context"
	"errors"
	"time"
)

// Partition is one partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Record names one record of a partition. The timestamp is part of the name: a topic that was deleted and created again
// has other records at the same offsets, and they start over.
//
// Records are compared with ==, so make them with NewRecord.
type Record struct {
	Offset    int64
	Timestamp time.Time // the record's own, in milliseconds, UTC
}

// NewRecord is the record at offset with its own timestamp, in the one form that compares equal with ==: whole
// milliseconds, which is what Kafka keeps, in UTC.
func NewRecord(offset int64, timestamp time.Time) Record {
	return Record{Offset: offset, Timestamp: time.UnixMilli(timestamp.UnixMilli()).UTC()}
}

// Entry is what is known of a failed record.
type Entry struct {
	// Attempts is how many calls count, from 1; the noted one is included.
	Attempts int

	// Deaths is how many noted calls the process did not survive; a pending note is included while Noted.
	Deaths int

	// Noted says that the last counted attempt is a note, written before its call, and that no verdict has replaced it.
	Noted bool

	// Wait is, in Save, the wait from now on the store's clock: at most MaxWait, never negative. In an answer it is what
	// remains of it, between zero and the wait.
	Wait time.Duration

	// Verdict is "" while the record is being retried. Else it is the KIND of the dead letter that is due ("permanent",
	// "panic", "exhausted", "crash" or "skipped"), and the record is not to be called again.
	Verdict string

	// FirstFailed is when the record first failed, on the clock of the instance that saw it, in milliseconds.
	FirstFailed time.Time

	// FirstError and LastError are cut to MaxErrorText bytes, Class to MaxClass, Stack to MaxStack.
	FirstError, LastError, Class, Stack string
}

// What a store keeps at most. Texts are cut between characters, and what is not UTF-8 in them is replaced, so that they
// can travel as text.
const (
	MaxErrorText = 2 << 10 // bytes of FirstError and of LastError
	MaxClass     = 128     // bytes of Class
	MaxStack     = 8 << 10 // bytes of Stack

	// MaxWait is the longest Wait: twice the seven days that a strategy may ask for, so that there is room for its jitter.
	MaxWait = 14 * 24 * time.Hour

	// MaxAttempts is where Attempts and Deaths stop counting.
	MaxAttempts = 1_000_000_000
)

// Loaded is what Claim found for one partition.
type Loaded struct {
	// Entries has the failed records, under names as NewRecord makes them.
	Entries map[Record]Entry

	// ForeignMark says that somebody else's mark was found: the last owner did not leave cleanly, so a record may have
	// killed it. A Claim that is repeated, because its answer was lost say, says so again, until the first Forget.
	ForeignMark bool
}

// Store keeps entries and marks. All methods may be called from any goroutine, and each returns within a bound of the
// store's own, whatever ctx says.
//
// Every write is absolute: it may be repeated, and may reach the store late or out of order, without counting twice.
type Store interface {
	// Claim sets owner's mark on each partition and reads them, in one round trip for all of them.
	//
	// The owner is a token that no other process has, nor this one after a restart; a host name will not do, since with it
	// a crash would look like one's own mark.
	//
	// With an error the answer holds the partitions that could be read all the same: one that is in it is claimed, one that
	// is missing is to be claimed again. An error although all are there (ErrGarbage) is only to be reported.
	Claim(ctx context.Context, group, owner string, ps []Partition) (map[Partition]Loaded, error)

	// Save writes e and answers what now stands; with an error it answers e, so that counting can go on from it.
	//
	// The larger number of attempts stands. For the same attempt a verdict replaces the note, an entry with a Verdict one
	// without; apart from that what is stored stands, so a repeat changes nothing. The wait keeps its start,
	// and a shorter one never shortens a longer one; a longer one starts now. The earliest first failure is kept.
	// A write that comes late, since the store was away, carries what remains of its wait.
	Save(ctx context.Context, group string, p Partition, r Record, e Entry) (Entry, error)

	// Unnote takes the note of a call back that was cut short by us, so that the entry is as before the note. Without
	// a note it does nothing. Call it also where saving the note has failed: it may have arrived.
	Unnote(ctx context.Context, group string, p Partition, r Record) error

	// Forget removes every entry whose offset lies below the committed offset, and ends what ForeignMark says; the mark stays.
	// Call it with commits that were acknowledged and no others, and only where there is an entry or a foreign mark to forget.
	Forget(ctx context.Context, group string, p Partition, below int64) error

	// Release removes owner's own marks, and only those: a clean leave. An owner whose guard is still on had better not
	// call it, so that the next one is warned as it was.
	Release(ctx context.Context, group, owner string, ps []Partition) error
}

// Durability is implemented by a store that knows whether it keeps its entries over a restart of the process. One that says
// nothing is taken to keep them.
type Durability interface{ Durable() bool }

// Health is implemented by a store that has a breaker of its own. Healthy is false while calls would fail at once; it is
// true again as soon as one is worth trying, though that one may still fail. It costs nothing to ask.
type Health interface{ Healthy() bool }

// The errors that a caller can tell apart with errors.Is. Their texts hold no password, no connection string, no payload.
var (
	// ErrAway: the store is away, too slow or refuses to work. Go on counting in memory and write again later.
	ErrAway = errors.New("attempts: the store is away")

	// ErrWrongType: something else lives under the key of a partition. Nothing of that partition is read or written until a
	// person has removed it; the others are not affected.
	ErrWrongType = errors.New("attempts: the key is in use for something else")

	// ErrGarbage: values that this package can't have written were found, and ignored; Save replaces them.
	ErrGarbage = errors.New("attempts: ignored what nobody here wrote")
)
