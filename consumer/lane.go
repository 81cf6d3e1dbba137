package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/breaker"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/failure"
)

// A lane is the worker of one assignment of one partition: one goroutine, one record at a time, in offset order. The poll goroutine
// fills its queue. While the partition is calm the lane calls record after record without a lock; else it asks the desk before each call
// and tells it each result. A lane whose partition is gone calls nothing more.
type lane struct {
	c    *Consumer
	part *decide.Part

	// The intake: the poll goroutine puts batches in, the lane takes them out.
	mu     sync.Mutex
	queue  []*kafka.Message
	closed bool
	more   chan struct{}

	wake  chan struct{} // the desk has something to say
	ended chan struct{} // the goroutine is over

	// The lane goroutine's own.
	batch  []*kafka.Message
	next   int
	inCall bool

	// The call that runs. A call is announced before calm is asked, so that whoever takes the calm away and then looks here finds
	// every call that still began on the old word.
	current atomic.Pointer[kafka.Message]
	stamp   atomic.Uint64
	asked   atomic.Uint64 // counts the calls that the desk permitted, so that two calls of one record are told apart

	ctx     context.Context
	cancel  context.CancelCauseFunc
	ctxMu   sync.Mutex
	cutting atomic.Bool // somebody is about to cancel a call, and may be too late for it
	ours    atomic.Bool // we have cancelled the call: its error is neutral

	records atomic.Int64 // in memory, the one in hand included
	bytes   atomic.Int64

	// The rest is the poll goroutine's.
	incoming   []*kafka.Message
	incomingB  int64
	expected   int64 // the next offset that the client should deliver; -1: not known
	checkGap   bool  // the next record shows whether retention tore a gap
	gapCheck   bool  // that is being found out
	aside      []*kafka.Message
	asideB     int64
	asideFull  bool
	stored     int64 // the offset that was stored last
	start      start
	acked      int64 // the highest commit that was acknowledged; guarded by Consumer.mu
	paused     bool  // what should be
	leaked     bool  // a record came all the same
	tellAgain  bool
	full       bool // backpressure
	stopped    bool // its partition is to be paused for another reason than memory
	lookingUp  bool // the start is not known yet
	seen       *kafka.Message
	seenAsked  uint64
	seenAt     time.Time
	timedOut   bool
	quietSince time.Time // since when the partition should flow and nothing has come
	everFlowed bool      // a record has come since its last start
	behind     bool      // there was a lag when the silence was looked into
	revivals   int
	reassigned bool

	// The keeper's, guarded by its mutex.
	ops      []func()
	opsBusy  bool
	released bool // we have left: its mark is not set again
}

func newLane(c *Consumer) *lane {
	l := &lane{
		c:        c,
		more:     make(chan struct{}, 1),
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
		expected: -1,
		stored:   -1,
	}
	l.freshContext()
	return l
}

func (l *lane) id() partition { return l.part.ID }

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// push hands a batch over. Only the poll goroutine calls it.
func (l *lane) push(batch []*kafka.Message, bytes int64) {
	l.records.Add(int64(len(batch)))
	l.bytes.Add(bytes)
	l.mu.Lock()
	l.queue = append(l.queue, batch...)
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take swaps the empty batch for what has come; nil: the lane is closed.
func (l *lane) take(empty []*kafka.Message) []*kafka.Message {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return nil
		}
		if len(l.queue) > 0 {
			batch := l.queue
			l.queue = empty
			l.mu.Unlock()
			return batch
		}
		l.mu.Unlock()
		<-l.more
	}
}

// close ends the lane: after the call that runs, at once where none does.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.queue = nil
	l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	l.signal()
}

// run is the lane's goroutine. A handler that ends it with runtime.Goexit has panicked, as far as its record is concerned, and
// another goroutine goes on where this one stood.
func (l *lane) run() {
	over := false
	defer func() {
		if over {
			l.c.decide(func(now time.Time) { l.c.desk.Ended(now, l.part) })
			close(l.ended)
			return
		}
		go l.run()
	}()
	if l.inCall {
		l.inCall = false
		over = !l.report(l.batch[l.next], failure.Recovered("the handler called runtime.Goexit"))
		l.done()
	}
	for !over {
		for l.next < len(l.batch) && !over {
			over = !l.process(l.batch[l.next])
			l.done()
		}
		if !over {
			l.batch, l.next = l.take(l.batch[:0]), 0
			over = l.batch == nil
		}
	}
}

// done ends the stay of a record in memory.
func (l *lane) done() {
	m := l.batch[l.next]
	l.records.Add(-1)
	l.bytes.Add(-size(m))
	l.batch[l.next] = nil
	l.next++
}

// process handles one record to its end; false: the partition is gone.
func (l *lane) process(m *kafka.Message) bool {
	if !l.part.Calm() {
		return l.ask(m)
	}
	stamp := l.part.Stamp()
	if l.stamp.Load() != uint64(stamp) {
		l.stamp.Store(uint64(stamp))
	}
	l.current.Store(m)
	if !l.part.Calm() {
		l.current.Store(nil)
		return l.ask(m)
	}
	err := l.call(m, Attempt{Number: 1})
	if err == nil && l.part.Calm() && !l.c.desk.Wants() {
		l.part.Finish(int64(m.TopicPartition.Offset) + 1)
		l.current.Store(nil)
		if l.part.Calm() {
			return true
		}
		// The calm was taken away just now, and the desk may have been told of a call that is over.
	}
	return l.report(m, err)
}

// report tells the desk how a call ended, and stays with the record until the desk has let go of it.
func (l *lane) report(m *kafka.Message, err error) bool {
	o := l.outcome(err)
	l.c.decide(func(now time.Time) {
		if !l.part.Gone() {
			l.adopt(m, now)
		}
		l.c.desk.Result(now, l.part, o)
	})
	l.current.Store(nil)
	return l.settle(m)
}

// ask handles a record with the desk's permission.
func (l *lane) ask(m *kafka.Message) bool {
	gone := false
	l.c.decide(func(now time.Time) {
		if gone = l.part.Gone(); !gone {
			l.c.desk.Offer(now, l.part, record(m))
		}
	})
	return !gone && l.settle(m)
}

// settle stays with a record that the desk knows of until the desk has let go of it.
func (l *lane) settle(m *kafka.Message) bool {
	for {
		l.c.mu.Lock()
		phase, gone := l.part.Phase(), l.part.Gone()
		a := Attempt{Number: l.part.Call().Attempt}
		if phase == decide.Calling && !gone {
			l.asked.Add(1)
			l.current.Store(m)
			a.FirstFailedAt, a.LastError = l.part.History()
		}
		l.c.mu.Unlock()
		switch {
		case gone:
			return false
		case phase == decide.Empty:
			return true
		case phase != decide.Calling:
			<-l.wake
			continue
		}
		err := l.call(m, a)
		o := l.outcome(err)
		l.c.decide(func(now time.Time) { l.c.desk.Result(now, l.part, o) })
		l.current.Store(nil)
	}
}

// call runs the handler. What goes wrong in it comes back as an error, a panic and runtime.Goexit included.
func (l *lane) call(m *kafka.Message, a Attempt) (err error) {
	ctx := l.context()
	if a.Number > 1 {
		ctx = withAttempt(ctx, a)
	}
	l.inCall = true
	defer func() {
		if v := recover(); v != nil {
			l.inCall = false
			err = failure.Recovered(v)
		}
	}()
	err = l.c.cfg.Handler(ctx, m)
	l.inCall = false
	return err
}

var errHandlerTimeout = errors.New("handler timed out")

// context is that of the call which has just been announced. A cancel that was meant for the call before has either seen the announcement, or is seen here.
func (l *lane) context() context.Context {
	if l.cutting.Load() || l.ctx.Err() != nil {
		l.ctxMu.Lock()
		defer l.ctxMu.Unlock()
		if l.ctx.Err() != nil && !l.ours.Load() {
			l.freshContext()
		}
	}
	return l.ctx
}

// freshContext replaces a context that has ended. One context serves all calls of a lane until it ends: making one for each
// record would be the only allocation on the happy path.
func (l *lane) freshContext() {
	l.ctx, l.cancel = context.WithCancelCause(l.c.base)
}

// cut ends the context of the call that runs, and of all that follow: it is we who want the partition back, so that an error says nothing about the record.
func (l *lane) cut(cause error) {
	l.ctxMu.Lock()
	defer l.ctxMu.Unlock()
	l.ours.Store(true)
	l.cancel(cause)
}

// timeOut ends the context of one call, if that still runs.
func (l *lane) timeOut(m *kafka.Message, asked uint64) {
	l.ctxMu.Lock()
	defer l.ctxMu.Unlock()
	l.cutting.Store(true)
	defer l.cutting.Store(false)
	if l.current.Load() == m && l.asked.Load() == asked {
		l.cancel(fmt.Errorf("%w after %v", errHandlerTimeout, l.c.cfg.HandlerTimeout))
	}
}

// outcome turns what a handler returned into a verdict. After our own cancel an error is none; success is always success.
func (l *lane) outcome(err error) decide.Outcome {
	if err == nil {
		return decide.Outcome{Kind: decide.Success}
	}
	if l.ours.Load() {
		return decide.Outcome{Kind: decide.Neutral, Err: err}
	}
	v := l.c.cfg.Classify(err)
	shown := l.c.redact(err)
	o := decide.Outcome{Kind: decide.Transient, Err: shown, Text: shown.Error(), Class: v.Class, RetryAfter: v.RetryAfter}
	var p *failure.Panic
	switch {
	case errors.As(err, &p):
		o.Kind, o.Stack = decide.Panic, l.c.redactText(string(p.Stack))
	case v.Kind == failure.KindPermanent:
		o.Kind = decide.Permanent
	}
	return o
}

// outlived is the verdict on a handler that has not returned.
func (l *lane) outlived() decide.Outcome {
	err := fmt.Errorf("%w: it has not returned %v after its timeout of %v", errHandlerTimeout, stallAfter, l.c.cfg.HandlerTimeout)
	return decide.Outcome{Kind: decide.Transient, Err: err, Text: err.Error(), Class: "handler timeout"}
}

// watch looks whether the call that runs has outlived its time. It is the poll goroutine's, once a tick; a call is timed from
// when it was first seen, so never too early.
func (l *lane) watch(now time.Time) {
	m, asked := l.current.Load(), l.asked.Load()
	if m == nil || m != l.seen || asked != l.seenAsked {
		l.seen, l.seenAsked, l.seenAt, l.timedOut = m, asked, now, false
		return
	}
	age := now.Sub(l.seenAt)
	if age >= l.c.cfg.HandlerTimeout && !l.timedOut {
		l.timedOut = true
		l.timeOut(m, asked)
	}
	if age >= l.c.cfg.HandlerTimeout+stallAfter {
		l.c.decide(func(now time.Time) {
			if l.current.Load() != m || l.asked.Load() != asked {
				return
			}
			l.adopt(m, l.seenAt)
			if l.part.Phase() == decide.Calling {
				l.c.desk.Outlived(now, l.part, l.outlived())
			}
		})
	}
}

// adopt tells the desk of a call that the lane began while its partition was calm. It is called under mu.
func (l *lane) adopt(m *kafka.Message, began time.Time) {
	if l.part.Phase() == decide.Empty {
		l.c.desk.Adopt(l.part, record(m), began, breaker.Stamp(l.stamp.Load()))
	}
}

// Adopt tells the desk of the call that runs. The desk asks for it, under mu, when it has taken the partition's calm away.
func (l *lane) Adopt(now time.Time) {
	if m := l.current.Load(); m != nil {
		l.adopt(m, now)
	}
}

func record(m *kafka.Message) decide.Record {
	return decide.Record{Offset: int64(m.TopicPartition.Offset), Timestamp: m.Timestamp, Message: m}
}

// overhead is what a record takes in memory besides its key, value and headers.
const overhead = 256

func size(m *kafka.Message) int64 {
	n := overhead + len(m.Key) + len(m.Value)
	for i := range m.Headers {
		n += len(m.Headers[i].Key) + len(m.Headers[i].Value) + 40
	}
	return int64(n)
}
