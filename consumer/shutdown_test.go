package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// The end: in seconds, whatever waits or hangs, and nothing is committed that is not done.

func TestShutdownInALongWaitEndsInSecondsAndTheNextStartHonoursIt(t *testing.T) {
	eachProtocol(t, func(t *testing.T, w *world, with func(*setup)) {
		w.topic(2, 3)
		w.setDown(true)
		const long = `{"intervals": [300, 1], "jitter": 0}`
		a := w.start(long, with)
		w.until(time.Minute, "the trip", func() bool { return a.state() == "open" })
		w.pass(time.Minute)
		at := w.now()
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		if d := w.now() - at; d > 5*time.Second {
			t.Errorf("the shutdown took %v", d)
		}
		first := w.failed()[0]
		if c := w.committed(first.Partition); c != first.Offset {
			t.Errorf("committed %d with record %d held", c, first.Offset)
		}
		w.setDown(false)
		w.start(long, with)
		w.until(10*time.Minute, "everything", func() bool { return w.handled(2, 3) })
		for _, c := range w.failed() {
			calls := w.of(c.Partition, c.Offset)
			if d := calls[1].At - calls[0].Ended; d < 5*time.Minute || d > 6*time.Minute {
				t.Errorf("called %v after its failure", d)
			}
			if calls[1].Attempt != 2 {
				t.Errorf("the count started over: %v", calls)
			}
		}
	})
}

func TestHandlerThatNeverReturnsDoesNotKeepRunFromReturning(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 3)
		release := make(chan struct{})
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && c.Offset == 1 {
				<-release
			}
			return nil
		}
		i := w.start(`[1]`, func(s *setup) { s.config.DrainTimeout = 5 * time.Second })
		w.until(time.Minute, "the others", func() bool { return len(w.of(1, 2)) == 1 && len(w.of(0, 1)) == 1 })
		at := w.now()
		err := i.stop()
		if d := w.now() - at; d > 10*time.Second {
			t.Errorf("Run returned after %v", d)
		}
		if !errors.Is(err, ErrDrainTimeout) || !strings.Contains(err.Error(), topic+"/0") {
			t.Errorf("Run answered %v", err)
		}
		if w.committed(0) != 1 || w.committed(1) != 3 {
			t.Errorf("committed %d and %d", w.committed(0), w.committed(1))
		}
		close(release)
	})
}

func TestOurOwnCancelCostsNoAttemptAndNoDeadLetter(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 2)
		w.handler = func(ctx context.Context, c call) error {
			if c.Instance == "c1" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		a := w.start(`[1]`, func(s *setup) { s.config.DrainTimeout = 4 * time.Second })
		w.until(time.Minute, "the call", func() bool { return len(w.seen()) == 1 })
		if err := a.stop(); err != nil {
			t.Fatal(err)
		}
		w.start(`[1]`, nil)
		w.until(time.Minute, "everything", func() bool { return w.handled(1, 2) })
		if calls := w.of(0, 0); len(calls) != 2 || calls[1].Attempt != 1 {
			t.Errorf("%v", calls)
		}
		if len(w.dlq.written()) > 0 {
			t.Error("dead-lettered by a shutdown")
		}
	})
}
