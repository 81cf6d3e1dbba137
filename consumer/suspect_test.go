package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/observe"
)

// One bad record stops its own partition (law 18), and what consecutiveFailures means for it.

// choke has the dependency choke on one record for ever, while it is well with all others.
func choke(_ context.Context, c call) error {
	if c.Partition == 2 && c.Offset == 5 {
		return errDown
	}
	time.Sleep(10 * time.Millisecond)
	return nil
}

func TestOneBadRecordCostsTheOthersOneFirstIntervalAtMost(t *testing.T) {
	for threshold, trips := range map[int]int{1: 1, 3: 0} {
		t.Run(fmt.Sprint("consecutiveFailures ", threshold), func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				w.topic(6, 200)
				w.handler = choke
				i := w.start(fmt.Sprintf(`{"intervals": [2, 4, 8], "jitter": 0, "breaker": {"consecutiveFailures": %d}}`, threshold), nil)
				w.until(time.Minute, "all records of the others", func() bool {
					for p := range int32(6) {
						if p != 2 && len(w.of(p, 199)) == 0 {
							return false
						}
					}
					return true
				})
				// 200 records of 10 ms are two seconds; a pause of one first interval is two more.
				if d := w.now(); d > 3*time.Second+time.Duration(trips)*2*time.Second {
					t.Errorf("the others took %v", d)
				}
				if n := len(w.dlq.written()); n != 0 {
					t.Error("the bad record has not had its calls yet")
				}
				w.until(2*time.Minute, "everything", func() bool { return w.handled(6, 200) })
				if n := i.count(observe.Tripped); n != trips {
					t.Errorf("tripped %d times, not %d", n, trips)
				}
				if calls := w.of(2, 5); len(calls) != 4 {
					t.Errorf("three intervals make four calls: %v", calls)
				}
				if letters := w.dlq.written(); len(letters) != 1 || letters[0].Attempts != 4 {
					t.Errorf("dead letters: %+v", letters)
				}
				inOrder(t, w)
			})
		})
	}
}

func TestOnePartitionTriesItsBadRecordUntilItsStrategyEnds(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 10)
		w.handler = func(_ context.Context, c call) error {
			if c.Offset == 5 {
				return errDown
			}
			return nil
		}
		w.start(`{"intervals": [1, 2], "jitter": 0}`, nil)
		w.until(time.Minute, "everything", func() bool { return w.handled(1, 10) })
		calls := w.of(0, 5)
		if len(calls) != 3 || calls[2].At-calls[0].At < 3*time.Second {
			t.Errorf("%v", calls)
		}
		inOrder(t, w)
	})
}

func TestBreakerForEachPartitionStopsThatPartitionAlone(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(3, 50)
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 && w.now() < 10*time.Second {
				return errDown
			}
			return nil
		}
		w.start(`{"intervals": [1, 1, 1, 60], "jitter": 0, "breaker": {"scope": "partition"}}`, nil)
		w.until(time.Second, "the others", func() bool { return len(w.of(1, 49)) == 1 && len(w.of(2, 49)) == 1 })
		w.until(2*time.Minute, "everything", func() bool { return w.handled(3, 50) })
	})
}

func TestPanicAndPermanentErrorGoToTheDLQAtOnceAndTheProbeGoesOn(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 4)
		w.handler = func(_ context.Context, c call) error {
			switch {
			case c.Partition == 0 && c.Offset == 1:
				panic("nil map")
			case c.Partition == 1 && c.Offset == 1:
				return failure.Permanent(errors.New("no such account"))
			}
			return nil
		}
		i := w.start(`[60]`, nil)
		w.until(time.Second, "everything", func() bool { return w.handled(2, 4) })
		kinds := map[string]bool{}
		for _, l := range w.dlq.written() {
			kinds[string(l.Kind)] = true
			if l.Attempts != 1 || l.Kind == "panic" && l.Stack == "" {
				t.Errorf("%+v", l)
			}
		}
		if !kinds["panic"] || !kinds["permanent"] || i.count(observe.Tripped) > 0 {
			t.Errorf("%v, tripped %d times", kinds, i.count(observe.Tripped))
		}
	})
}
