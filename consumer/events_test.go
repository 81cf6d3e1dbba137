package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/observe"
)

// What is told: each thing once, in order, with what a person needs and without what nobody should see (law 17).

// kinds are the names of what was told from an index on.
func (i *instance) kinds(from int) (names []string) {
	for _, e := range i.told()[from:] {
		names = append(names, e.Kind.String())
	}
	return names
}

// A day in the life of one partition: after each thing that happens, what was told of it, and nothing else.
func TestEachThingIsToldOnceAndInOrder(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		store := w.scripted()
		w.topic(1, 0)
		var outcome error
		hang := make(chan struct{})
		w.handler = func(_ context.Context, c call) error {
			w.mu.Lock()
			now, wait := outcome, hang
			w.mu.Unlock()
			if wait != nil && now == errHang {
				<-wait
				return nil
			}
			return now
		}
		set := func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			outcome = err
		}
		core, logs := observer.New(zapcore.DebugLevel)
		i := w.start(`{"intervals": [5, 5, 5], "jitter": 0}`, func(s *setup) {
			s.config.HandlerTimeout = 3 * time.Second
			s.config.Logger = zap.New(core)
		})
		told := 0
		expect := func(what string, want ...string) {
			t.Helper()
			w.until(20*time.Second, what, func() bool { return len(i.told()) >= told+len(want) })
			w.pass(100 * time.Millisecond)
			if got := i.kinds(told); !slices.Equal(got, want) {
				t.Errorf("%s: told %q, not %q", what, got, want)
			}
			told = len(i.told())
		}
		record := func() {
			w.cluster.Produce(topic, 0, []byte("secret-key"), []byte("secret-value"), nil, time.Now())
		}

		expect("the start", "started", "assigned")
		for range 50 {
			record()
		}
		w.until(time.Minute, "the records", func() bool { return w.committed(0) == 50 })
		expect("fifty records that succeed")

		set(errDown)
		record()
		expect("a failure", "tripped")
		expect("its first probe", "probing", "probe_failed")
		set(nil)
		expect("its second", "probing", "released", "closed")

		set(errBad)
		record()
		expect("a permanent error", "dead_lettered")
		w.dlq.set(func(d *scriptedDLQ) { d.away = errDLQAway })
		record()
		expect("another, with the DLQ away", "dead_letter_failed")
		w.pass(time.Minute)
		expect("a minute of that")
		w.dlq.set(func(d *scriptedDLQ) { d.away = nil })
		expect("the DLQ is back", "dead_lettered", "dead_letters_back")

		set(errDown)
		store.set(func(s *scriptedStore) { s.err = attempts.ErrAway })
		record()
		expect("a failure with the store away", "tripped", "store_away")
		expect("its first probe", "probing", "probe_failed")
		store.set(func(s *scriptedStore) { s.err = nil })
		expect("the store is back", "store_back")
		set(nil)
		expect("the dependency is back", "probing", "released", "closed")

		if err := i.c.Pause(at(0)); err != nil {
			t.Fatal(err)
		}
		expect("a pause", "operator_paused")
		record()
		w.pass(time.Minute)
		if err := i.c.Resume(at(0)); err != nil {
			t.Fatal(err)
		}
		expect("a resume", "operator_resumed")

		set(errHang)
		record()
		expect("a handler that hangs", "tripped", "stalled")
		set(nil)
		close(hang)
		expect("it returns", "unstalled", "released")
		record()
		expect("the next", "probing", "closed")

		set(errDown)
		record()
		expect("a failure", "tripped")
		set(nil)
		if err := i.c.RetryNow(t.Context(), at(0)); err != nil {
			t.Fatal(err)
		}
		expect("a retry at an operator's word", "operator_retry", "probing", "released", "closed")
		set(errDown)
		record()
		expect("a failure", "tripped")
		set(nil)
		if err := i.c.Skip(inTime(t), at(0), 58, "known"); err != nil {
			t.Fatal(err)
		}
		expect("a skip", "skipped", "dead_lettered")
		record()
		expect("the next", "probing", "closed")

		if err := i.stop(); err != nil {
			t.Fatal(err)
		}
		expect("the end", "stopping", "stopped")

		episodes := map[string]bool{}
		for _, e := range i.told() {
			switch e.Kind {
			case observe.Tripped:
				episodes[e.Episode] = true
				// While a handler hangs, nobody knows when the next call can come.
				if soon := e.RetryAt.Sub(e.At) == 5*time.Second; !soon && !errors.Is(e.Err, errHandlerTimeout) || e.Episode == "" || e.Err == nil || e.Attempt < 1 || e.Topic != topic {
					t.Errorf("a trip that does not say what a person needs: %+v", e)
				}
			case observe.Probing, observe.ProbeFailed, observe.Closed:
				if !episodes[e.Episode] || e.Topic != topic || e.Attempt < 1 || e.Kind == observe.Closed && e.For <= 0 {
					t.Errorf("%+v", e)
				}
			}
		}
		if len(episodes) != 5 {
			t.Errorf("%d episodes", len(episodes))
		}
		// One line of the log for each, and a payload nowhere.
		if lines := logs.FilterField(zap.String("event", "tripped")).Len(); lines != 5 || logs.Len() != len(i.told()) {
			t.Errorf("%d lines of %d trips, %d lines of %d events", lines, 5, logs.Len(), len(i.told()))
		}
		everything := fmt.Sprintf("%+v %+v", i.told(), i.c.Status())
		for _, line := range logs.All() {
			everything += fmt.Sprint(line.Message, line.ContextMap())
		}
		if strings.Contains(everything, "secret") {
			t.Error("a payload was told")
		}
	})
}

// A slow observer delays later events and nothing else, and one that never returns holds up the end for a bounded time only.
func TestSlowObserverDelaysNothingButEvents(t *testing.T) {
	for name, pace := range map[string]time.Duration{"slow": time.Second, "hangs": time.Hour} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(1, 20)
				w.handler = func(context.Context, call) error { return errBad }
				i := w.start(`[1]`, func(s *setup) {
					s.config.Observers = []observe.Observer{observe.Func(func(observe.Event) {
						select {
						case <-time.After(pace):
						case <-w.over:
						}
					})}
				})
				w.until(time.Second, "everything handled", func() bool { return w.committed(0) == 20 })
				began := w.now()
				if err := i.stop(); err != nil {
					t.Fatal(err)
				}
				if took := w.now() - began; took > closeTimeout+5*time.Second {
					t.Errorf("the end took %v", took)
				}
			})
		})
	}
}
