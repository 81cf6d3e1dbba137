package observe_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/breakwater-go/breakwater/observe"
)

const lastKind = observe.Warning

func TestEveryKindHasItsOwnNameAndSentence(t *testing.T) {
	names := map[string]observe.Kind{}
	for kind := observe.Kind(1); kind <= lastKind; kind++ {
		if kind.String() == "" || kind.Sentence() == "" {
			t.Errorf("kind %d has no name or no sentence", kind)
		}
		if other, ok := names[kind.String()]; ok {
			t.Errorf("kinds %d and %d are both called %q", kind, other, kind)
		}
		names[kind.String()] = kind
	}
	if next := lastKind + 1; next.String() != "" {
		t.Errorf("%q is a kind too; lastKind in this test is out of date", next)
	}
}

func TestZapWritesOneLinePerEventWithTheFieldsThatSaySomething(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		event observe.Event
		level zapcore.Level
		want  map[string]any
	}{
		{
			"everything",
			observe.Event{Kind: observe.Tripped, At: at, Topic: "orders", Partition: 3, Offset: 42, Attempt: 2, RetryAt: at.Add(time.Minute),
				Episode: "e1", For: time.Second, Count: 6, Text: "of six partitions", Err: errors.New("503")},
			zap.WarnLevel,
			map[string]any{"event": "tripped", "topic": "orders", "partition": int32(3), "offset": int64(42), "attempt": int64(2),
				"retryAt": at.Add(time.Minute), "episode": "e1", "for": time.Second, "count": int64(6), "text": "of six partitions", "error": "503"},
		},
		{
			"nothing but the kind",
			observe.Event{Kind: observe.Started},
			zap.InfoLevel,
			map[string]any{"event": "started"},
		},
		{
			"partition 0, offset 0",
			observe.Event{Kind: observe.DeadLettered, Topic: "orders"},
			zap.WarnLevel,
			map[string]any{"event": "dead_lettered", "topic": "orders", "partition": int32(0), "offset": int64(0)},
		},
		{
			"a whole partition",
			observe.Event{Kind: observe.Revoked, Topic: "orders", Partition: 1, Offset: -1},
			zap.InfoLevel,
			map[string]any{"event": "revoked", "topic": "orders", "partition": int32(1)},
		},
		{
			"no topic: partition and offset mean nothing",
			observe.Event{Kind: observe.StoreAway, Partition: 1, Offset: 5, Err: errors.New("refused")},
			zap.ErrorLevel,
			map[string]any{"event": "store_away", "error": "refused"},
		},
		{
			"fatal is an error line, not the end of the process",
			observe.Event{Kind: observe.Fatal, Err: verbose{}},
			zap.ErrorLevel,
			map[string]any{"event": "fatal", "error": "short"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logs := observer.New(zap.DebugLevel)
			observe.Zap(zap.New(core, zap.AddCaller(), zap.AddStacktrace(zap.InfoLevel))).Observe(c.event)

			if logs.Len() != 1 {
				t.Fatalf("%d lines, want one", logs.Len())
			}
			line := logs.All()[0]
			if line.Message != c.event.Kind.Sentence() || line.Level != c.level {
				t.Errorf("%v %q, want %v %q", line.Level, line.Message, c.level, c.event.Kind.Sentence())
			}
			if got := line.ContextMap(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("fields %v, want %v", got, c.want)
			}
			if !c.event.At.IsZero() && !line.Time.Equal(c.event.At) {
				t.Errorf("the line's time is %v, want the event's %v", line.Time, c.event.At)
			}
			if c.event.At.IsZero() && line.Time.IsZero() {
				t.Error("the line has no time")
			}
			if line.Caller.Defined || line.Stack != "" {
				t.Errorf("caller %v and stack %q say nothing", line.Caller, line.Stack)
			}
		})
	}
}

// verbose is an error as github.com/pkg/errors makes them.
type verbose struct{}

func (verbose) Error() string { return "short" }
func (verbose) Format(f fmt.State, _ rune) {
	if f.Flag('+') {
		fmt.Fprint(f, "with a stack\nof many lines")
		return
	}
	fmt.Fprint(f, "short")
}

// TestZapForgetsNoField fails when Event grows a field that the log does not show.
func TestZapForgetsNoField(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	full := observe.Event{Kind: observe.Held, At: time.Now(), Topic: "orders", Partition: 3, Offset: 42, Attempt: 2, RetryAt: time.Now(),
		Episode: "e1", For: time.Second, Count: 6, Text: "text", Err: errors.New("503")}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("fill %s in here, and show it in the log", v.Type().Field(i).Name)
		}
	}
	observe.Zap(zap.New(core)).Observe(full)
	// At is the line's own time.
	if got := logs.All()[0].ContextMap(); len(got) != v.NumField()-1 {
		t.Errorf("%d fields in the log, %d in the event: %v", len(got), v.NumField(), slices.Sorted(maps.Keys(got)))
	}
}

func TestZapHeedsTheLevelOfItsLogger(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	observe.Zap(zap.New(core)).Observe(observe.Event{Kind: observe.Started})
	if logs.Len() != 0 {
		t.Errorf("wrote %v below its level", logs.All())
	}
	observe.Zap(nil).Observe(observe.Event{Kind: observe.Fatal})
}

func TestMultiTellsEachInOrder(t *testing.T) {
	var told []string
	tell := func(name string) observe.Observer {
		return observe.Func(func(e observe.Event) { told = append(told, name+" "+e.Kind.String()) })
	}
	all := observe.Multi(tell("first"), nil, tell("second"))
	all.Observe(observe.Event{Kind: observe.Tripped})
	all.Observe(observe.Event{Kind: observe.Closed})
	if want := []string{"first tripped", "second tripped", "first closed", "second closed"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	observe.Multi().Observe(observe.Event{Kind: observe.Tripped})
}

func ExampleZap() {
	logger := zap.NewExample()
	observers := observe.Multi(
		observe.Zap(logger),
		observe.Func(func(e observe.Event) {
			fmt.Println("a metric would count", e.Kind)
		}),
	)
	observers.Observe(observe.Event{
		Kind: observe.Held, Topic: "orders", Partition: 3, Offset: 42, Attempt: 1, Err: errors.New("status 503"),
	})
	// Output:
	// {"level":"warn","msg":"record failed; its partition waits, the others flow","event":"held","topic":"orders","partition":3,"offset":42,"attempt":1,"error":"status 503"}
	// a metric would count held
}
