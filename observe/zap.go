// The log: one line for each event, and in it only the fields that say something. A line says what happened in the
// kind's own sentence, so that a search for it finds every time that it happened; its time is the event's.

package observe

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Zap is an Observer that writes to logger, each event at the level of its kind: info, warn or error, never higher.
//
// The message is the kind's sentence. The fields are event (the kind's name), topic, partition, offset, attempt, retryAt,
// episode, for, count, text and error; those that say nothing for the event are left out. Caller and stack trace are
// left out too: they would always be the observer's own. A nil logger writes nothing.
func Zap(logger *zap.Logger) Observer {
	if logger == nil {
		logger = zap.NewNop()
	}
	return zapObserver{logger.WithOptions(zap.WithCaller(false), zap.AddStacktrace(zapcore.InvalidLevel))}
}

type zapObserver struct{ logger *zap.Logger }

func (z zapObserver) Observe(e Event) {
	line := z.logger.Check(level(e.Kind.Severity()), e.Kind.Sentence())
	if line == nil {
		return
	}
	if !e.At.IsZero() {
		line.Time = e.At
	}
	line.Write(fields(e)...)
}

func level(s Severity) zapcore.Level {
	switch s {
	case Error:
		return zapcore.ErrorLevel
	case Warn:
		return zapcore.WarnLevel
	}
	return zapcore.InfoLevel
}

func fields(e Event) []zap.Field {
	fields := []zap.Field{zap.String("event", e.Kind.String())}
	if e.Topic != "" {
		fields = append(fields, zap.String("topic", e.Topic), zap.Int32("partition", e.Partition))
		if e.Offset >= 0 {
			fields = append(fields, zap.Int64("offset", e.Offset))
		}
	}
	if e.Attempt > 0 {
		fields = append(fields, zap.Int("attempt", e.Attempt))
	}
	if !e.RetryAt.IsZero() {
		fields = append(fields, zap.Time("retryAt", e.RetryAt))
	}
	if e.Episode != "" {
		fields = append(fields, zap.String("episode", e.Episode))
	}
	if e.For > 0 {
		fields = append(fields, zap.Duration("for", e.For))
	}
	if e.Count > 0 {
		fields = append(fields, zap.Int("count", e.Count))
	}
	if e.Text != "" {
		fields = append(fields, zap.String("text", e.Text))
	}
	if e.Err != nil {
		// Not zap.Error, which adds what an error type has to say in its verbose form, stack traces and all.
		fields = append(fields, zap.String("error", fmt.Sprintf("%v", e.Err)))
	}
	return fields
}
