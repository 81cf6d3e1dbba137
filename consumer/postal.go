package consumer

import (
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/dlq"
)

// postal takes dead letters to the writer, in the order in which they were decided, and brings the acknowledgements back.
// It has a goroutine of its own, so that nobody builds headers under the desk's mutex.
type postal struct {
	c      *Consumer
	mu     sync.Mutex
	queue  []parcel
	closed bool
	more   chan struct{}
	ended  chan struct{}
}

type parcel struct {
	lane   *lane
	letter *decide.Letter
	out    dlq.Letter
}

func newPostal(c *Consumer) *postal {
	return &postal{c: c, more: make(chan struct{}, 1), ended: make(chan struct{})}
}

// send is called under the desk's mutex: it copies what the writer needs.
func (p *postal) send(l *lane, d *decide.Letter) {
	if d.Err == nil {
		l.bytes.Add(size(d.Record.Message)) // it stays in memory until it is written
	}
	out := dlq.Letter{
		Record: d.Record.Message, GroupID: p.c.group, Attempts: d.Attempts, Kind: d.Kind, Reason: d.Reason,
		ErrorClass: d.Class, ErrorMessage: d.LastError, FirstErrorMessage: d.FirstError, Stack: d.Stack,
		FirstFailedAt: d.FirstFailed, FailedAt: d.FailedAt, Episode: d.Episode, Instance: p.c.cfg.Instance, Reference: d.Reference,
	}
	p.mu.Lock()
	p.queue = append(p.queue, parcel{l, d, out})
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *postal) run() {
	defer close(p.ended)
	for range p.more {
		p.mu.Lock()
		batch, closed := p.queue, p.closed
		p.queue = nil
		p.mu.Unlock()
		for _, x := range batch {
			p.c.letters.Write(x.out, func(err error) { p.answered(x, err) })
		}
		if closed {
			return
		}
	}
}

func (p *postal) answered(x parcel, err error) {
	p.c.decide(func(now time.Time) {
		if err != nil {
			p.c.desk.LetterFailed(now, x.lane.part, x.letter, err)
			return
		}
		p.c.desk.LetterWritten(now, x.lane.part, x.letter)
		x.lane.bytes.Add(-size(x.letter.Record.Message))
	})
	p.c.skips.answer(x.letter, err)
}

func (p *postal) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	<-p.ended
}
