package contenders

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/strategy"
)

// handWritten is what a good engineer writes in an afternoon: on failure it keeps the record, pauses everything, polls on, and calls again when the
// wait is over. New partitions are paused too while it waits, and a record whose partition was taken away is dropped.
func handWritten(ctx context.Context, h *contend.Host) error {
	s, err := strategy.Parse("strategy.json", []byte(h.Strategy))
	if err != nil {
		return err
	}
	dead, err := openLetters(h, nil)
	if err != nil {
		return err
	}
	defer dead.close()
	w := &paused{h: h, strategy: s, dead: dead}
	if w.client, err = open(h, true, w.rebalance); err != nil {
		return err
	}
	for ctx.Err() == nil {
		timeout := 100
		if w.held != nil {
			if due := time.Until(w.retryAt); due <= 0 {
				w.call(ctx)
				continue
			} else {
				timeout = max(1, min(timeout, int(due.Milliseconds())))
			}
		}
		switch e := w.client.Poll(timeout).(type) {
		case *kafka.Message:
			if w.held != nil { // it was on its way when we paused
				w.waiting = append(w.waiting, e)
				continue
			}
			w.held, w.attempt = e, 0
			w.call(ctx)
		case *kafka.Stats:
			h.Statistics(e.String())
		}
	}
	return w.client.Close()
}

type paused struct {
	h        *contend.Host
	client   *kafka.Consumer
	strategy *strategy.Strategy
	dead     *letters

	held    *kafka.Message
	attempt int
	retryAt time.Time
	letter  *kafka.Message   // of the held record, where only that is left to do
	waiting []*kafka.Message // came after the pause
	stopped bool
}

// call tries to bring the held record to its end, and then those that came after the pause.
func (w *paused) call(ctx context.Context) {
	for ctx.Err() == nil && w.held != nil {
		if !w.try(ctx) {
			w.pause()
			return
		}
		_, _ = w.client.StoreMessage(w.held)
		w.held, w.attempt = nil, 0
		if len(w.waiting) > 0 {
			w.held, w.waiting = w.waiting[0], w.waiting[1:]
		}
	}
	if w.held == nil && w.stopped {
		w.stopped = false
		all, _ := w.client.Assignment()
		_ = w.client.Resume(all)
		w.h.State(contend.Closed)
	}
}

// try is one attempt; false: the record waits until retryAt.
func (w *paused) try(ctx context.Context) bool {
	if w.letter == nil {
		w.attempt++
		err := w.h.Handle(ctx, record(w.held, w.attempt))
		if err == nil {
			return true
		}
		if wait, more := w.strategy.Wait(w.attempt); !contend.IsPermanent(err) && more {
			w.retryAt = time.Now().Add(wait)
			return false
		}
		w.letter = w.dead.make(w.held, err, w.attempt)
	}
	if w.dead.try(w.letter) != nil {
		w.retryAt = time.Now().Add(time.Second)
		return false
	}
	w.letter = nil
	return true
}

func (w *paused) pause() {
	if w.stopped {
		return
	}
	w.stopped = true
	all, _ := w.client.Assignment()
	_ = w.client.Pause(all)
	w.h.State(contend.Open)
}

func (w *paused) rebalance(c *kafka.Consumer, e kafka.Event) error {
	switch e := e.(type) {
	case kafka.AssignedPartitions:
		if err := c.Assign(e.Partitions); err != nil {
			return err
		}
		if w.stopped {
			return c.Pause(e.Partitions)
		}
		return c.Resume(e.Partitions) // what an earlier assignment left paused comes back paused
	case kafka.RevokedPartitions:
		w.held, w.letter, w.waiting, w.attempt = nil, nil, nil, 0
		if w.stopped {
			w.stopped = false
			w.h.State(contend.Closed)
		}
		return c.Unassign()
	}
	return nil
}
