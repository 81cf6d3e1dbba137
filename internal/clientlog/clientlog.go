// Package clientlog takes librdkafka's own log into a zap logger, without its repetitions.
package clientlog

import (
	"strings"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// librdkafka says the same line many times a second while a broker is away. The first of identical lines goes to the logger
// at once; those that follow within the next 30 seconds are counted, and the count is told with the first line after that.

const thinFor = 30 * time.Second

// Thinner is where the lines of one client go. It may be used from any goroutine.
type Thinner struct {
	out *zap.Logger
	who string
	now func() time.Time

	mu   sync.Mutex
	seen map[string]*seen
}

type seen struct {
	line    kafka.LogEvent
	since   time.Time
	repeats int
}

// New makes a Thinner; each line begins with who says it: "dlq producer".
func New(out *zap.Logger, who string) *Thinner {
	return &Thinner{out: out, who: who, now: time.Now, seen: map[string]*seen{}}
}

// Line takes one line.
func (t *Thinner) Line(line kafka.LogEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	for key, s := range t.seen {
		if now.Sub(s.since) >= thinFor {
			t.told(s)
			delete(t.seen, key)
		}
	}
	// How long it took, and librdkafka's own count, differ from line to line: "(after 3ms in state CONNECT, 4 identical
	// error(s) suppressed)".
	key, _, _ := strings.Cut(line.Message, " (after ")
	key = line.Tag + key
	if s := t.seen[key]; s != nil {
		s.repeats++
		return
	}
	t.seen[key] = &seen{line: line, since: now}
	t.write(line)
}

// Flush tells the counts that are still to be told.
func (t *Thinner) Flush() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.seen {
		t.told(s)
	}
	t.seen = map[string]*seen{}
}

func (t *Thinner) told(s *seen) {
	if s.repeats > 0 {
		t.write(s.line, zap.Int("repeated", s.repeats))
	}
}

func (t *Thinner) write(line kafka.LogEvent, more ...zap.Field) {
	t.out.Log(level(line.Level), t.who+": "+line.Message,
		append(more, zap.String("facility", line.Tag), zap.String("client", line.Name))...)
}

// level is zap's for syslog's. What librdkafka calls an error is most often a connection that it makes again by itself.
func level(syslog int) zapcore.Level {
	switch {
	case syslog <= 2:
		return zap.ErrorLevel
	case syslog <= 4:
		return zap.WarnLevel
	case syslog == 5:
		return zap.InfoLevel
	default:
		return zap.DebugLevel
	}
}
