package server

// The book of what reached the stub. One mutex guards it all, so a call stands in exactly the span in which it arrived, and every count adds up
// at every instant. It is bounded: the oldest entries go, and are counted.

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/bench/stub/scenario"
)

// How much the book keeps.
const (
	MaxLog   = 1 << 20 // calls, about 100 bytes each
	MaxSpans = 1 << 16
)

type book struct {
	scenario *scenario.Scenario
	started  time.Time

	mu       sync.Mutex
	phases   []PhaseReport
	spans    window[Span]
	now      *Span // the last of spans
	phase    int   // of now
	log      window[Call]
	attempts map[string]int // calls of the records whose callers don't say which attempt it is
	inFlight int
	closed   bool
	lasted   time.Duration // from started to the closing
	idle     chan struct{} // closed when the book is closed and nothing is in flight
}

func newBook(s *scenario.Scenario) *book {
	b := &book{
		scenario: s, started: time.Now(), attempts: map[string]int{}, idle: make(chan struct{}),
		spans: window[Span]{limit: MaxSpans}, log: window[Call]{limit: MaxLog},
	}
	for _, p := range s.Phases {
		b.phases = append(b.phases, PhaseReport{Phase: p.Name, Outcomes: map[string]int{}})
	}
	return b
}

// turn ends the span that runs and begins the next.
func (b *book) turn(m scenario.Moment, byHand bool) Span {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := time.Since(b.started)
	b.end(at)
	b.phase = m.Phase
	p := &b.scenario.Phases[m.Phase]
	b.now = b.spans.add(Span{Phase: p.Name, Round: m.Round, Down: m.Down && len(p.Faults) > 0, ByHand: byHand, Begin: at})
	return *b.now
}

// span is the one that runs; false once the book is closed.
func (b *book) span() (Span, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now == nil {
		return Span{}, false
	}
	return *b.now, true
}

func (b *book) end(at time.Duration) {
	if b.now != nil {
		b.now.End = at
		b.phases[b.phase].Lasted += at - b.now.Begin
	}
}

// visit is one call between its arrival and its end.
type visit struct {
	*Call
	phase int
	down  bool
}

// arrive notes a call; attempt 0 is unknown. It is false once the book is closed.
func (b *book) arrive(record string, attempt int) (visit, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return visit{}, false
	}
	if attempt == 0 {
		if len(b.attempts) >= MaxLog {
			clear(b.attempts) // bounded memory is worth more than a count that goes on after a million records
		}
		b.attempts[record]++
		attempt = b.attempts[record]
	}
	b.inFlight++
	b.now.Calls++
	b.phases[b.phase].Calls++
	call := b.log.add(Call{At: time.Since(b.started), Record: record, Attempt: attempt, Phase: b.now.Phase, Outcome: Pending})
	return visit{call, b.phase, b.now.Down}, true
}

// leave notes how a call ended.
func (b *book) leave(v visit, outcome string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v.Took = time.Since(b.started) - v.At
	v.Outcome = outcome
	b.phases[v.phase].Outcomes[outcome]++
	b.inFlight--
	b.settle()
}

// close lets no further call in, and returns when the last one has left.
func (b *book) close() {
	b.mu.Lock()
	b.lasted = time.Since(b.started)
	b.end(b.lasted)
	b.closed, b.now = true, nil
	b.settle()
	b.mu.Unlock()
	<-b.idle
}

func (b *book) settle() {
	if b.closed && b.inFlight == 0 {
		close(b.idle)
	}
}

func (b *book) report(withLog bool) Report {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := Report{
		Scenario: b.scenario.Name, Seed: b.scenario.Seed, Started: b.started, Elapsed: time.Since(b.started),
		InFlight: b.inFlight, Phases: slices.Clone(b.phases),
		Spans: b.spans.all(), SpansDropped: b.spans.dropped, LogDropped: b.log.dropped,
	}
	for i := range r.Phases {
		p := &r.Phases[i]
		p.Outcomes = maps.Clone(p.Outcomes)
		r.Calls += p.Calls
		if b.now != nil && i == b.phase {
			p.Lasted += r.Elapsed - b.now.Begin
		}
	}
	if b.closed {
		r.Elapsed = b.lasted
	}
	if withLog {
		r.Log = b.log.all()
	}
	return r
}

// window is a list that forgets its oldest entries, a chunk at a time. An entry stays where it is, so a pointer to it holds.
type window[T any] struct {
	limit   int // entries to keep, at least; up to a chunk more are there
	chunks  [][]T
	dropped int
}

const chunk = 1 << 12

func (w *window[T]) add(entry T) *T {
	last := len(w.chunks) - 1
	if last < 0 || len(w.chunks[last]) == chunk {
		if last*chunk >= w.limit {
			w.chunks = slices.Delete(w.chunks, 0, 1)
			w.dropped += chunk
		}
		w.chunks = append(w.chunks, make([]T, 0, chunk))
		last = len(w.chunks) - 1
	}
	w.chunks[last] = append(w.chunks[last], entry)
	return &w.chunks[last][len(w.chunks[last])-1]
}

func (w *window[T]) all() []T { return slices.Concat(w.chunks...) }
