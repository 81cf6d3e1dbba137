package consumer

import (
	"sync"
	"time"

	"github.com/breakwater-go/breakwater/observe"
)

// events tells the observers, in order and one at a time, off the path of whoever has something to tell.
type events struct {
	observer observe.Observer
	mu       sync.Mutex
	queue    []observe.Event
	dropped  int
	closed   bool
	more     chan struct{}
	ended    chan struct{}
}

// maxQueuedEvents bounds what waits for a slow observer; what comes beyond is counted and told as one warning.
const maxQueuedEvents = 10_000

func newEvents(observers []observe.Observer) *events {
	return &events{observer: observe.Multi(observers...), more: make(chan struct{}, 1), ended: make(chan struct{})}
}

func (e *events) tell(ev observe.Event) {
	e.mu.Lock()
	if len(e.queue) < maxQueuedEvents {
		e.queue = append(e.queue, ev)
	} else {
		e.dropped++
	}
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
}

func (e *events) run() {
	defer close(e.ended)
	for range e.more {
		for {
			e.mu.Lock()
			batch, dropped, closed := e.queue, e.dropped, e.closed
			e.queue, e.dropped = nil, 0
			e.mu.Unlock()
			for _, ev := range batch {
				e.observer.Observe(ev)
			}
			if dropped > 0 {
				e.observer.Observe(observe.Event{Kind: observe.Warning, At: batch[len(batch)-1].At, Count: dropped,
					Text: "an observer is too slow: this many events were not told"})
			}
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
		}
	}
}

// close tells what is left, and waits for it, though not for ever: an observer may hang.
func (e *events) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	select {
	case e.more <- struct{}{}:
	default:
	}
	deadline := time.NewTimer(closeTimeout)
	defer deadline.Stop()
	select {
	case <-e.ended:
	case <-deadline.C:
	}
}
