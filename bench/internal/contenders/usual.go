package contenders

import (
	"context"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/bench/internal/contend"
	"github.com/breakwater-go/breakwater/strategy"
)

// usual is the loop of most tutorials: poll, call, on failure sleep and call again, at the end of the strategy write a dead letter, store the offset.
// While it sleeps it doesn't poll.
func usual(tuned bool) contend.Contender {
	return func(ctx context.Context, h *contend.Host) error {
		s, err := strategy.Parse("strategy.json", []byte(h.Strategy))
		if err != nil {
			return err
		}
		dead, err := openLetters(h, nil)
		if err != nil {
			return err
		}
		defer dead.close()
		c, err := open(h, tuned, nil)
		if err != nil {
			return err
		}
		for ctx.Err() == nil {
			switch e := c.Poll(100).(type) {
			case *kafka.Message:
				if handle(ctx, h, s, dead, e) {
					_, _ = c.StoreMessage(e) // fails where the partition was lost meanwhile
				}
			case *kafka.Stats:
				h.Statistics(e.String())
			}
		}
		return c.Close()
	}
}

// handle brings a record to its end; false: ctx has ended before.
func handle(ctx context.Context, h *contend.Host, s *strategy.Strategy, dead *letters, m *kafka.Message) bool {
	for attempt := 1; ; attempt++ {
		err := h.Handle(ctx, record(m, attempt))
		if err == nil {
			if attempt > 1 {
				h.State(contend.Closed)
			}
			return true
		}
		wait, more := s.Wait(attempt)
		if contend.IsPermanent(err) || !more {
			return dead.write(ctx, dead.make(m, err, attempt))
		}
		if attempt == 1 {
			h.State(contend.Open)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}
