package consumer

import (
	"context"
	"time"
)

// Attempt is what a handler can know of the record in its hands.
type Attempt struct {
	Number        int       // 1 for the first call; calls before a restart count, where the attempt store is durable
	LastError     string    // of the attempt before; "" on the first
	FirstFailedAt time.Time // zero on the first
}

type attemptKey struct{}

// AttemptFrom reads the attempt from a handler's ctx. In any other context it is the first.
func AttemptFrom(ctx context.Context) Attempt {
	if a, ok := ctx.Value(attemptKey{}).(Attempt); ok {
		return a
	}
	return Attempt{Number: 1}
}

func withAttempt(ctx context.Context, a Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}
