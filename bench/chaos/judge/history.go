// Package judge says whether what the outside saw of a run keeps the laws. It asks no member how it went: it knows the calls that reached the dependency, the
// acknowledgements of the producer, the dead letters as a reader found them, and the offsets that the group had committed at some instants. What
// the members said is used for one thing alone: whose a partition was when, so that a repeat can be told from a mistake.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/breakwater-go/breakwater/dlq"
)

// A History is a plain value that nothing changes while it is judged. All its instants are of one machine's clock.

// ID names a record of the run's one topic.
type ID struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// String is "2@17": offset 17 of partition 2.
func (id ID) String() string { return fmt.Sprintf("%d@%d", id.Partition, id.Offset) }

// Answer is how the dependency answered a call.
type Answer string

// The answers.
const (
	OK       Answer = "ok"
	Failed   Answer = "failed"   // transient: a 503, a reset connection
	Refused  Answer = "refused"  // permanent: a 422
	Panicked Answer = "panicked" // the handler was told to panic
	Died     Answer = "died"     // the process was told to die
	Silent   Answer = "silent"   // none: the caller gave up, or is not there any more
)

// Call is one call that reached the dependency.
type Call struct {
	ID        ID
	Caller    string    // the consumer's instance name
	Attempt   int       // as the caller counts
	LastError string    // of the attempt before, as the caller says
	Sent      time.Time // on the caller's word: for whose call it was, since one that was cut short may arrive after the partition was taken away
	Began     time.Time // it arrived
	Ended     time.Time // before the answer was sent
	Answer    Answer
}

// Letter is a dead letter as a reader of the DLQ found it, in the order of the DLQ.
type Letter struct {
	ID    ID
	Info  dlq.Info
	Wrong string // in what it differs from the record that was produced; "": in nothing
}

// Span is a time in which something was the case.
type Span struct {
	From, To time.Time
	What     string
}

// meets tells whether the span has an instant in common with from…to.
func (s Span) meets(from, to time.Time) bool { return !s.From.After(to) && !s.To.Before(from) }

// Life is one consumer's, from the start of its process to the end of it.
type Life struct {
	Name   string
	Began  time.Time
	Ended  time.Time
	Dirty  bool   // it was killed, or killed itself
	How    string // it ended
	Wrong  string // what must not happen, and did: a crash of its own, an end that was not asked for in quiet times
	Frozen []Span
}

// Owned is a time in which a consumer believed that a partition was its own.
type Owned struct {
	Caller    string
	Partition int32
	From, To  time.Time
}

// Sample is what the group had committed at an instant between Asked and At; 0 where there was nothing. No two overlap.
type Sample struct {
	Asked, At time.Time
	Committed []int64
}

// History is all that is known of a run.
type History struct {
	Intervals   []time.Duration // the strategy's, without jitter
	CrashLimit  int
	Ends        []int64 // of the topic's partitions, when nothing was produced any more
	Calls       []Call
	Letters     []Letter
	Lives       []Life
	Owned       []Owned
	Store       []Span // faults of Redis that we made
	StoreSaid   []Span // consumers said that they could not reach it; What is the consumer
	Network     []Span // faults of brokers and of the network to them
	Down        []Span // the dependency failed every call at once
	Trips       int    // how many failures in a row trip a breaker; 0: it is not known
	PerPart     bool   // each partition has a breaker of its own
	Samples     []Sample
	Bound       time.Duration // how long after the faults every record had time to be done
	Interrupted bool          // a person ended it: what is not done is not late
}

// How long the outside may be behind what happens inside. They are generous, since a loaded machine is no violation.
const (
	storeGrace = 500 * time.Millisecond // from a failure to its being stored: hundreds of times what a write to Redis takes
	moveGrace  = 4 * time.Second        // from the end of a call that was cut to the end of the drain
	storeBack  = 3 * time.Second        // from the end of a fault of Redis to its being used again
	claimGrace = 10 * time.Second       // from the look-up of a partition's start to its being announced
	tripGrace  = 500 * time.Millisecond // from the answer that trips to the last call that had begun before it was read
)

// file is a History with its calls by record and by owner.
type file struct {
	History
	calls  []*call
	of     map[ID][]*call
	owners map[owner][]*ownership
	lives  map[string]*Life
	dead   map[ID]bool // has a dead letter
	found  Findings
}

type owner struct {
	caller    string
	partition int32
}

type ownership struct {
	Owned
	calls []*call
}

type call struct {
	Call
	own *ownership
}

func open(h History) *file {
	f := &file{History: h, of: map[ID][]*call{}, owners: map[owner][]*ownership{}, lives: map[string]*Life{}, dead: map[ID]bool{}}
	for i := range h.Lives {
		f.lives[h.Lives[i].Name] = &h.Lives[i]
	}
	for _, l := range h.Letters {
		f.dead[l.ID] = true
	}
	for _, o := range h.Owned {
		if o.To.IsZero() {
			o.To = f.life(o.Caller).Ended
		}
		k := owner{o.Caller, o.Partition}
		f.owners[k] = append(f.owners[k], &ownership{Owned: o})
	}
	for _, os := range f.owners {
		slices.SortFunc(os, func(a, b *ownership) int { return a.From.Compare(b.From) })
	}
	for _, c := range h.Calls {
		f.calls = append(f.calls, &call{Call: c})
	}
	slices.SortStableFunc(f.calls, func(a, b *call) int { return a.Began.Compare(b.Began) })
	for _, c := range f.calls {
		if c.Sent.IsZero() {
			c.Sent = c.Began
		}
		c.own = f.ownershipOf(c)
		c.own.calls = append(c.own.calls, c)
		f.of[c.ID] = append(f.of[c.ID], c)
	}
	for _, os := range f.owners {
		for _, o := range os {
			slices.SortStableFunc(o.calls, func(a, b *call) int { return a.Sent.Compare(b.Sent) })
		}
	}
	return f
}

// ownershipOf is the first that had not ended when the call was sent: a consumer may call a moment before it says that a partition is its own, never after
// it has said that it isn't.
func (f *file) ownershipOf(c *call) *ownership {
	k := owner{c.Caller, c.ID.Partition}
	all := f.owners[k]
	i := sort.Search(len(all), func(i int) bool { return !all[i].To.Before(c.Sent) })
	if i == len(all) {
		if i > 0 {
			return all[i-1] // the call was on its way when the process died
		}
		// A process that died had no time to say what it owned.
		all = append(all, &ownership{Owned: Owned{Caller: c.Caller, Partition: c.ID.Partition, From: c.Sent, To: f.life(c.Caller).Ended}})
		f.owners[k] = all
	}
	return all[i]
}

func (f *file) life(caller string) *Life {
	if l := f.lives[caller]; l != nil {
		return l
	}
	l := &Life{Name: caller}
	f.lives[caller] = l
	return l
}

// since is the instant from which on the owner can know what was stored before.
func (o *ownership) since() time.Time {
	if len(o.calls) > 0 && o.calls[0].Sent.Before(o.From) {
		return o.calls[0].Sent
	}
	return o.From
}

// wait is the interval after an attempt; false: none is left.
func (f *file) wait(attempt int) (time.Duration, bool) {
	if attempt < 1 || attempt > len(f.Intervals) {
		return 0, false
	}
	return f.Intervals[attempt-1], true
}

// failure is the earliest instant at which the caller can have had the verdict.
func (c *call) failure() time.Time {
	if c.Answer == Silent {
		return c.Began
	}
	return c.Ended
}

// lines orders what is told of a record by time.
func lines(all []line) []string {
	slices.SortStableFunc(all, func(a, b line) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	var texts []string
	for _, l := range all {
		texts = append(texts, l.at.Format("15:04:05.000")+"  "+l.text)
	}
	return texts
}

type line struct {
	at   time.Time
	text string
}
