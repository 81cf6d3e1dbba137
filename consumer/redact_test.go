package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-go/breakwater/failure"
)

func TestRedactedTextIsNowhereInTheClear(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(2, 1)
		cause := errors.New("card 4111111111111111 refused")
		w.handler = func(_ context.Context, c call) error {
			if c.Partition == 0 {
				return failure.Permanent(cause)
			}
			return cause
		}
		i := w.start(`{"intervals": [60, 600], "jitter": 0}`, func(s *setup) {
			s.config.DLQ.Redact = func(text string) string { return strings.ReplaceAll(text, "4111111111111111", "****") }
		})
		w.until(3*time.Minute, "the dead letter and the held record", func() bool { return len(w.dlq.written()) == 1 && len(i.c.Status().Held) == 1 })
		loaded, err := w.store.Claim(context.Background(), group, "another", []partition{{Topic: topic, Partition: 1}})
		if err != nil {
			t.Fatal(err)
		}
		everything := fmt.Sprintf("%+v %+v %+v", i.c.Status(), loaded, w.dlq.written()[0].ErrorMessage)
		for _, e := range i.told() {
			everything += fmt.Sprint(e.Text, e.Err)
			if e.Err != nil && !errors.Is(e.Err, cause) {
				t.Errorf("the observers' error is not the handler's: %v", e.Err)
			}
		}
		if strings.Contains(everything, "4111") || !strings.Contains(everything, "****") {
			t.Error(everything)
		}
	})
}

func TestRedactThatPanicsCostsTheTextAndNothingElse(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.topic(1, 1)
		w.setDown(true)
		i := w.start(`{"intervals": [60], "jitter": 0}`, func(s *setup) {
			s.config.DLQ.Redact = func(string) string { panic("redact") }
		})
		w.until(time.Minute, "the held record", func() bool { return len(i.c.Status().Held) == 1 })
		if text := i.c.Status().Held[0].Error; !strings.Contains(text, "withheld") {
			t.Error(text)
		}
	})
}
