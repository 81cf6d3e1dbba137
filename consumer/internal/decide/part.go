package decide

import (
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/dlq"
)

// Part is one assignment of one partition: a return of the partition makes another Part, so that whatever comes late to an old one
// finds it gone. That is its epoch.
type Part struct {
	ID    attempts.Partition
	Owner any // the caller's; an Adopter, or the desk does not look at it

	scope   *Scope
	claimed bool // the attempt store has answered, or was given up
	begun   bool // the start offset is known and committed
	refused error
	leaving bool // being revoked: no new call
	gone    bool
	before  *Part // an earlier assignment whose handler still runs
	guarded bool  // its last owner did not leave cleanly, and none of its records has come through since

	operator bool // paused by an operator
	phase    Phase
	head     Record // means something while phase is not Empty
	call     Call
	story    story // of the head

	known   map[attempts.Record]found // what the store knew at the assignment
	inStore int64                     // the store may hold something of the records before this offset
	letters []*Letter
	turn    uint64

	calm       atomic.Bool
	finished   atomic.Int64 // the offset after the last record that its lane is through with; -1: none yet
	unanswered atomic.Int64 // the offset of the first dead letter that is not acknowledged; math.MaxInt64: there is none
}

// Phase is where the record at the head of a partition stands.
type Phase int

const (
	Empty    Phase = iota // the lane has told of no record
	Waiting               // it waits for permission: for its retryAt, the gate, a person, …
	Noting                // permitted, and being noted in the store first (crash guard)
	Calling               // its handler runs
	Stalled               // its handler runs, but has outlived its time: the verdict is given
	Clearing              // it is done, and its note is being taken back before anything else is called (crash guard)
)

func (p Phase) String() string {
	return [...]string{"empty", "waiting", "noting", "calling", "stalled", "clearing"}[p]
}

// Record is a record that a lane holds.
type Record struct {
	Offset    int64
	Timestamp time.Time
	Message   *kafka.Message
}

func (r Record) id() attempts.Record { return attempts.NewRecord(r.Offset, r.Timestamp) }

// Call is one permission to call the handler. A call that a lane began while its partition was calm has no number.
type Call struct {
	Number  uint64 // counts over all partitions
	Attempt int    // which attempt of its record it is, from 1
	Stamp   breaker.Stamp
	Probe   bool
	Began   time.Time
}

// story is what is known of a record that did not succeed at once.
type story struct {
	attempts    int
	deaths      int
	again       bool // it has failed in this process
	called      uint64
	failedAt    time.Time
	retryAt     time.Time
	exhausted   bool // no interval is left: it goes on at the last one
	verdict     dlq.Kind
	waitsFor    waiting
	saving      bool
	noted       bool // the call that is permitted was noted in the store
	firstFailed time.Time
	firstError  string
	lastError   string
	class       string
	stack       string
	episode     string
}

// waiting is what a verdict waits for, where it is not a retryAt.
type waiting int

const (
	forRetry waiting = iota
	forPerson
	forBudget
)

// found is an entry of the store with its wait turned into an instant of this process.
type found struct {
	attempts.Entry
	retryAt time.Time
}

// Letter is a dead letter on its way. Its record's offset is not stored before the broker has acknowledged it.
type Letter struct {
	Record      Record
	Kind        dlq.Kind
	Attempts    int
	Reason      string
	Class       string
	LastError   string
	FirstError  string
	Stack       string
	FirstFailed time.Time
	FailedAt    time.Time
	Episode     string
	Reference   bool // write no value: the record does not fit
	Err         error

	blocks   bool // the lane waits for it
	flying   bool
	saved    bool // its verdict is in the store
	sentAt   time.Time
	written  bool
	failures int
	retryAt  time.Time
}

// Calm reports whether the lane may call its records without asking. Safe without the mutex.
func (p *Part) Calm() bool { return p.calm.Load() }

// Stamp is the breaker's stamp for a call that begins now. Safe without the mutex.
func (p *Part) Stamp() breaker.Stamp { return p.scope.Breaker.Stamp() }

// Finish says that the lane is through with every record before offset, where its partition is calm. Safe without the mutex.
func (p *Part) Finish(offset int64) { p.finished.Store(offset) }

// Storable is the offset that may be stored, since every record before it is done; -1: none. Safe without the mutex: a letter is among the
// unanswered before its record is finished, so whoever reads in the other order never sees it done too early.
func (p *Part) Storable() int64 {
	finished := p.finished.Load()
	return min(finished, p.unanswered.Load())
}

// Phase is where the head of the partition stands. It and the readers below need the mutex.
func (p *Part) Phase() Phase { return p.phase }

// Call is the permission that was given last.
func (p *Part) Call() Call { return p.call }

// Gone reports whether the assignment is over.
func (p *Part) Gone() bool { return p.gone }

// History is when the head first failed, and the last error's text.
func (p *Part) History() (firstFailed time.Time, lastError string) {
	return p.story.firstFailed, p.story.lastError
}

// ready reports whether the first record may be called at all: its past is known.
func (p *Part) ready() bool { return p.claimed && p.begun && p.refused == nil && !p.gone }

// held reports whether the head is a held record: one that failed and is not done, also while it is called again.
func (p *Part) held() bool {
	return p.phase != Empty && (p.story.attempts > 0 || p.story.verdict != "")
}

// letterFailed reports whether a write failed, and the letter is still to be written.
func (p *Part) letterFailed() bool {
	return slices.ContainsFunc(p.letters, func(l *Letter) bool { return l.Err != nil })
}

// settle says up to where the letters let offsets be stored.
func (p *Part) settle() {
	for len(p.letters) > 0 && p.letters[0].written {
		p.letters = p.letters[1:]
	}
	if len(p.letters) > 0 {
		p.unanswered.Store(p.letters[0].Record.Offset)
	} else {
		p.unanswered.Store(math.MaxInt64)
	}
}

// lettersWait reports whether the lane has to wait for its letters: their bound is full, a write failed, or one of them is of a record that may be called again.
func (p *Part) lettersWait(bound int) bool {
	return len(p.letters) >= bound || slices.ContainsFunc(p.letters, func(l *Letter) bool { return l.blocks || l.Err != nil })
}
