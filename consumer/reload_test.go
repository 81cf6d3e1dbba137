package consumer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/breakwater-go/breakwater/internal/servers"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// swapped is a strategy that changes while it is in force, as a watched file's does.
type swapped struct {
	atomic.Pointer[strategy.Strategy]
	listener atomic.Pointer[func(strategy.Reload)]
}

func (s *swapped) Current() *strategy.Strategy { return s.Load() }

func (s *swapped) OnReload(f func(strategy.Reload)) (stop func()) {
	s.listener.Store(&f)
	return func() {}
}

// edit puts another strategy in force, and says so.
func (s *swapped) edit(text string) {
	now := strategy.MustParse(text)
	was := s.Swap(now)
	(*s.listener.Load())(strategy.Reload{Path: "strategy.json", Old: was, New: now})
}

func TestWaitThatRunsKeepsItsRetryAtOverAReload(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 3)
		w.setDown(true)
		var s swapped
		s.Store(strategy.MustParse(`{"intervals": [60, 60, 60], "jitter": 0}`))
		w.start(`[1]`, func(x *setup) { x.config.Strategy = &s })
		w.until(time.Minute, "the first failure", func() bool { return len(w.failed()) == 1 })
		s.edit(`{"intervals": [1, 5], "jitter": 0}`)
		w.until(2*time.Minute, "the dead letter", func() bool { return len(w.dlq.written()) == 1 })
		calls := w.of(0, 0)
		if len(calls) != 3 {
			t.Fatalf("the new strategy has two intervals, so three calls: %v", calls)
		}
		if d := calls[1].At - calls[0].At; d < time.Minute {
			t.Errorf("the wait that ran was cut to %v", d)
		}
		if d := calls[2].At - calls[1].At; d < 5*time.Second || d > 6*time.Second {
			t.Errorf("the next wait is %v, not the new strategy's", d)
		}
	})
}

// What waited for a person, or for the budget, only because the strategy said so does not wait any more; and is not called for it.
func TestEditSetsFreeWhatItDoesNotHold(t *testing.T) {
	for name, c := range map[string]struct{ before, after, waits string }{
		"onPermanent": {`{"intervals": [60, 600], "onPermanent": "hold"}`, `{"intervals": [60, 600]}`, "person"},
		"dlqBudget":   {`{"intervals": [60, 600], "dlqBudget": 0}`, `{"intervals": [60, 600], "dlqBudget": 1}`, "budget"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(2, 3)
				w.handler = func(_ context.Context, c call) error {
					switch c.Partition {
					case 0:
						if c.Offset == 1 {
							return errBad
						}
					case 1:
						return errDown // waits for its retryAt, which no edit moves
					}
					return nil
				}
				var s swapped
				s.Store(strategy.MustParse(c.before))
				i := w.start(`[1]`, func(x *setup) { x.config.Strategy = &s })
				waits := func() bool {
					for _, h := range i.c.Status().Held {
						if h.Partition == 0 && h.WaitsFor == c.waits {
							return true
						}
					}
					return false
				}
				w.until(3*time.Minute, "it waits", waits)
				w.pass(10 * time.Second)
				if !waits() || len(w.letters()) > 0 {
					t.Fatalf("dead letters %q\n%s", w.letters(), w.picture())
				}
				s.edit(c.after)
				w.until(time.Second, "the dead letter", func() bool { return len(w.letters()) == 1 && w.letters()[0] == "0@1 permanent" })
				if n := len(w.of(0, 1)); n != 1 {
					t.Errorf("called %d times", n)
				}
				if n := i.count(observe.Reloaded); n != 1 {
					t.Errorf("told %d times", n)
				}
				if got, want := i.c.Status().Strategy, s.Current().String(); got != want {
					t.Errorf("the status says %q, not %q", got, want)
				}
			})
		})
	}
}

func TestEditOfTheFileIsTakenUpWhileTheConsumerRuns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "strategy.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"intervals": [0.1], "jitter": 0, "onExhausted": "hold"}`)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	watcher, err := strategy.Watch(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	cluster := servers.Fake(t, kfake.SeedTopics(1, "orders", "orders.dlq"))
	b := broker{bootstrap: servers.FakeBootstrap(cluster)}
	fill(t, b, "orders", 1, 1)
	told := make(chan observe.Event, 1000)
	c, err := New(Config{
		Kafka:     &kafka.ConfigMap{"bootstrap.servers": b.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"},
		Topics:    []string{"orders"},
		Strategy:  watcher,
		Handler:   func(context.Context, *kafka.Message) error { return errors.New("down") },
		Observers: []observe.Observer{observe.Func(func(e observe.Event) { told <- e })},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	next := func(k observe.Kind) {
		t.Helper()
		deadline := time.After(30 * time.Second)
		for {
			select {
			case e := <-told:
				if e.Kind == k {
					return
				}
			case <-deadline:
				t.Fatalf("not told: %v", k)
			}
		}
	}
	next(observe.ProbeFailed)
	write(`{"intervals": [0.1`)
	next(observe.ReloadRefused)
	next(observe.ProbeFailed) // the strategy in force stays
	write(`{"intervals": [0.1], "jitter": 0}`)
	next(observe.Reloaded)
	next(observe.DeadLettered) // no interval is left, and now that means the DLQ
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
