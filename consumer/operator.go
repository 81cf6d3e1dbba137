package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/observe"
)

// What an operator can do, in the middle of a wait too. Each command has been decided when it returns, and says why where it could not be.
// Only topic and partition of a kafka.TopicPartition are looked at.

// Pause stops fetching and calling for the partitions, or for all, those to come included, where none is named. A call that runs is finished. It lasts until
// Resume, whatever the breaker does and whoever has the partition in between; a restart forgets it.
func (c *Consumer) Pause(tps ...kafka.TopicPartition) error {
	return c.pauseOrResume(tps, true)
}

// Resume takes back what Pause did, and no other reason for a pause. None named: everything.
func (c *Consumer) Resume(tps ...kafka.TopicPartition) error {
	return c.pauseOrResume(tps, false)
}

func (c *Consumer) pauseOrResume(tps []kafka.TopicPartition, pause bool) error {
	return c.command(tps, func(now time.Time, lanes []*lane) error {
		if len(tps) == 0 {
			c.wishedAll = pause
			clear(c.wished)
		}
		kind := observe.OperatorResumed
		if pause {
			kind = observe.OperatorPaused
		}
		for _, l := range lanes {
			if len(tps) > 0 {
				c.wished[l.id()] = pause
			}
			if pause {
				c.desk.Pause(l.part)
			} else {
				c.desk.Resume(now, l.part)
			}
			c.events.tell(observe.Event{Kind: kind, At: now, Topic: l.id().Topic, Partition: l.id().Partition, Offset: -1})
		}
		return nil
	})
}

// wish is what an operator wants of a partition. It is called under mu.
func (c *Consumer) wish(p partition) (paused bool) {
	if paused, named := c.wished[p]; named {
		return paused
	}
	return c.wishedAll
}

// command gives f the lanes of the partitions; all where none is named. They are looked up where they are used, under mu: a rebalance in between would put others
// in their place.
func (c *Consumer) command(tps []kafka.TopicPartition, f func(now time.Time, lanes []*lane) error) (err error) {
	if !c.running.Load() {
		return fmt.Errorf("consumer: %w", ErrNotRunning)
	}
	c.decide(func(now time.Time) {
		var lanes []*lane
		if lanes, err = c.named(tps); err == nil {
			err = f(now, lanes)
		}
	})
	return err
}

func (c *Consumer) named(tps []kafka.TopicPartition) ([]*lane, error) {
	if len(tps) == 0 {
		return slices.Collect(maps.Values(c.lanes)), nil
	}
	var lanes []*lane
	var errs []error
	for _, tp := range tps {
		if tp.Topic == nil {
			errs = append(errs, errors.New("consumer: a partition without a topic"))
			continue
		}
		if l := c.lanes[partitionOf(tp)]; l != nil {
			lanes = append(lanes, l)
		} else {
			errs = append(errs, fmt.Errorf("consumer: %s/%d is not assigned to this instance", *tp.Topic, tp.Partition))
		}
	}
	return lanes, errors.Join(errs...)
}

// RetryNow ends the waits of the partitions' held records: each is called at once, or, under an open breaker, is the next probe. It counts as an attempt. None
// named: every wait that can be ended; under an open breaker the record that was called longest ago probes.
func (c *Consumer) RetryNow(ctx context.Context, tps ...kafka.TopicPartition) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.command(tps, func(now time.Time, lanes []*lane) error {
		if len(tps) == 0 {
			if c.desk.RetryAll(now) == 0 {
				return errors.New("consumer: nothing waits")
			}
			return nil
		}
		var errs []error
		for _, l := range lanes {
			if err := c.desk.RetryNow(now, l.part); err != nil {
				errs = append(errs, fmt.Errorf("consumer: %w", err))
			}
		}
		return errors.Join(errs...)
	})
}

// Skip dead-letters the held record at offset, with KIND=skipped and why in its REASON, whatever the dlqBudget. It returns when the DLQ has
// acknowledged it, with the error of the write, or when ctx ends; the write goes on then. A record that does not fit the DLQ is written as a reference: coordinates and
// headers, no value.
func (c *Consumer) Skip(ctx context.Context, tp kafka.TopicPartition, offset int64, why string) error {
	var answer chan error
	err := c.command([]kafka.TopicPartition{tp}, func(now time.Time, lanes []*lane) error {
		letter, err := c.desk.Skip(now, lanes[0].part, offset, why)
		if err != nil {
			return fmt.Errorf("consumer: %w", err)
		}
		answer = c.skips.expect(letter)
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case err = <-answer:
		if err != nil {
			return fmt.Errorf("consumer: the record is still held: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("consumer: the skip is decided, but its dead letter is not acknowledged yet: %w", ctx.Err())
	case <-c.stopped:
		return fmt.Errorf("consumer: %w: the skip's dead letter was not acknowledged before it stopped", ErrNotRunning)
	}
}

// skips are the callers that wait for a letter's end.
type skips struct {
	mu      sync.Mutex
	waiting map[*decide.Letter][]chan error
}

func (s *skips) expect(l *decide.Letter) chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = map[*decide.Letter][]chan error{}
	}
	ch := make(chan error, 1)
	s.waiting[l] = append(s.waiting[l], ch)
	return ch
}

func (s *skips) answer(l *decide.Letter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.waiting[l] {
		ch <- err
	}
	delete(s.waiting, l)
}

// SetOAuthBearerToken gives a token to the client and to the DLQ's producer: the answer to an OAuthBearerTokenRefresh that came through OnEvent.
func (c *Consumer) SetOAuthBearerToken(t kafka.OAuthBearerToken) error {
	return errors.Join(c.client.SetOAuthBearerToken(t), c.letters.SetOAuthBearerToken(t))
}

// SetOAuthBearerTokenFailure says that there is no token, and why.
func (c *Consumer) SetOAuthBearerTokenFailure(reason string) error {
	return errors.Join(c.client.SetOAuthBearerTokenFailure(reason), c.letters.SetOAuthBearerTokenFailure(reason))
}
