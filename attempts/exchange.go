package attempts

// One exchange with Redis, as every method of RedisStore makes it: bounded by the store's own timeout, guarded by its own
// breaker. What the client still does after that bound, it does alone: scripts may arrive late without harm, and nobody
// reads what they answer.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// A dead Redis costs three timeouts, and from then on one for each rest. Three, so that a single lost connection is not
// an absence; a second, so that a Redis that came back is soon in use again.
const (
	tripAfter = 3
	rest      = time.Second
)

// newBreaker counts exchanges that failed. One that its caller cancelled says nothing about Redis.
func newBreaker() *gobreaker.CircuitBreaker[struct{}] {
	return gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        "attempts",
		Timeout:     rest,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
	})
}

// reply is what a script answered for one key. Its err is ErrAway itself where the exchange failed, whose error says why,
// or wraps ErrWrongType, and then this key fails alone.
type reply struct {
	val any
	err error
}

// run runs a script once for each key, in one round trip; in two where a node does not have it in its cache. The error
// is of the whole exchange and wraps ErrAway, or what ended ctx.
func (s *RedisStore) run(ctx context.Context, script *redis.Script, keys []string, args ...any) ([]reply, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("attempts: not sent: %w", err)
	}
	type result struct {
		replies []reply
		err     error
	}
	var got result
	_, err := s.breaker.Execute(func() (struct{}, error) {
		bounded, cancel := context.WithTimeout(ctx, s.timeout)
		defer cancel()
		done := make(chan result, 1)
		go func() {
			replies, err := s.pipeline(bounded, script, keys, args)
			done <- result{replies, err}
		}()
		select {
		case got = <-done:
			return struct{}{}, got.err
		case <-bounded.Done():
			return struct{}{}, bounded.Err()
		}
	})
	switch {
	case err == nil:
		return got.replies, nil
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return nil, fmt.Errorf("%w: Redis failed %d times in a row and is asked again within %v", ErrAway, tripAfter, rest)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("attempts: given up, it may still arrive: %w", ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return got.replies, fmt.Errorf("%w: no answer from Redis within %v; see whether it can be reached from here, and whether RedisConfig.Timeout is long enough",
			ErrAway, s.timeout)
	default:
		return got.replies, fmt.Errorf("%w: %s", ErrAway, reason(err))
	}
}

// runOne is run for a single key.
func (s *RedisStore) runOne(ctx context.Context, script *redis.Script, key string, args ...any) (any, error) {
	replies, err := s.run(ctx, script, []string{key}, args...)
	if err != nil {
		return nil, err
	}
	return replies[0].val, replies[0].err
}

// pipeline sends the script's hash for each key, and its source for those whose node did not know it. The error is the
// first one that is not a key's own.
func (s *RedisStore) pipeline(ctx context.Context, script *redis.Script, keys []string, args []any) ([]reply, error) {
	cmds := make([]*redis.Cmd, len(keys))
	send := func(which []int, queue func(pipe redis.Pipeliner, key string) *redis.Cmd) {
		pipe := s.client.Pipeline()
		for _, i := range which {
			cmds[i] = queue(pipe, keys[i])
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
	all := make([]int, len(keys))
	for i := range all {
		all[i] = i
	}
	send(all, func(pipe redis.Pipeliner, key string) *redis.Cmd {
		return pipe.EvalSha(ctx, script.Hash(), []string{key}, args...)
	})
	var unknown []int
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		send(unknown, func(pipe redis.Pipeliner, key string) *redis.Cmd {
			return script.Eval(ctx, pipe, []string{key}, args...)
		})
	}

	replies := make([]reply, len(keys))
	var failed error
	for i, cmd := range cmds {
		err := cmd.Err()
		switch {
		case err == nil:
			replies[i].val = cmd.Val()
		case strings.Contains(err.Error(), "WRONGTYPE"): // wrapped in words about the script by some versions
			replies[i].err = fmt.Errorf("%w: %q; look at it with TYPE, and DEL it if nobody needs it; until then its partition is counted in memory",
				ErrWrongType, keys[i])
		default:
			replies[i].err = ErrAway
			failed = cmp.Or(failed, err)
		}
	}
	return replies, failed
}
