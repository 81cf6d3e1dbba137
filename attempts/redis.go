package attempts

// The store that instances share. Its callers never wait longer than RedisConfig.Timeout, whatever the client's own
// settings are, and a dead Redis costs them next to nothing: see exchange.go. Everything that it writes is decided
// inside Redis: see scripts.go.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// RedisConfig is how attempts are kept in Redis. The zero value works.
type RedisConfig struct {
	// Prefix begins every key. Default "breakwater". Change it where two installations share one Redis and their groups may
	// have the same names.
	Prefix string

	// Timeout bounds each call as its caller sees it, dialling and retries of the client included. Default 250 ms, of which a
	// Claim of 500 partitions needs 10 to 30. Nothing but the failed record waits for it; a call that is given up may
	// still arrive, and does no harm then. Raise it where Redis is far away, or thousands of partitions are claimed at once.
	Timeout time.Duration
}

// RedisStore is a Store in Redis. Make one with Redis.
type RedisStore struct {
	client  redis.UniversalClient
	prefix  string
	timeout time.Duration
	breaker *gobreaker.CircuitBreaker[struct{}]
}

// Redis makes a Store of a client for a single server, Sentinel or a Cluster. The client stays the caller's: its settings are
// not changed, its own retries do no harm, and it is the caller's to close. It prints to standard error what it can't
// reach, unless redis.SetLogger says otherwise.
//
// Redis 5 or later, without ACL rules against EVAL, EVALSHA, TIME, PEXPIRE and the commands on hashes. A maxmemory-policy that
// evicts keys makes it forget. Keys expire 30 days after their last write.
//
// After three failed calls in a row the store is taken to be away: for a second each call fails at once with ErrAway, then
// one is let through to see whether it is back.
func Redis(client redis.UniversalClient, cfg RedisConfig) *RedisStore {
	if client == nil {
		panic("attempts: Redis needs a client; use redis.NewUniversalClient, or the store that Memory makes")
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "breakwater"
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 250 * time.Millisecond
	}
	return &RedisStore{client: client, prefix: cfg.Prefix, timeout: cfg.Timeout, breaker: newBreaker()}
}

// Durable is true: a restart finds what was saved.
func (s *RedisStore) Durable() bool { return true }

// Healthy is false while calls fail at once, without being sent. See Health.
func (s *RedisStore) Healthy() bool { return s.breaker.State() != gobreaker.StateOpen }

// Key is the key under which a partition is kept, for a person who looks at it or removes it.
func (s *RedisStore) Key(group string, p Partition) string { return key(s.prefix, group, p) }

// Claim is Store's. All partitions go in one pipeline, on a Cluster in one for each node, all at the same time.
func (s *RedisStore) Claim(ctx context.Context, group, owner string, ps []Partition) (map[Partition]Loaded, error) {
	replies, err := s.run(ctx, claimScript, s.keys(group, ps), owner)
	all := make(map[Partition]Loaded, len(ps))
	var wrongType, garbage faults
	for i, reply := range replies {
		if reply.err != nil {
			wrongType.add(reply.err)
			continue
		}
		loaded, strange, ok := readClaim(reply.val)
		if !ok {
			err = cmp.Or(err, errNonsense)
			continue
		}
		all[ps[i]] = loaded
		for _, field := range strange {
			garbage.add(fmt.Errorf("%w: field %q of key %q; HDEL it if it stays", ErrGarbage, cut(field, 40), s.Key(group, ps[i])))
		}
	}
	return all, errors.Join(err, wrongType.err(), garbage.err())
}

// Save is Store's.
func (s *RedisStore) Save(ctx context.Context, group string, p Partition, r Record, e Entry) (Entry, error) {
	if err := e.check(r); err != nil {
		return e, err
	}
	text, err := encode(r, e)
	if err != nil {
		return e, fmt.Errorf("attempts: %w", err)
	}
	val, err := s.runOne(ctx, saveScript, s.Key(group, p), r.Offset, text)
	if err != nil {
		return e, err
	}
	stands, ok := readSave(r, val)
	if !ok {
		return e, errNonsense
	}
	return stands, nil
}

// Unnote is Store's.
func (s *RedisStore) Unnote(ctx context.Context, group string, p Partition, r Record) error {
	_, err := s.runOne(ctx, unnoteScript, s.Key(group, p), r.Offset, identity(r))
	return err
}

// Forget is Store's.
func (s *RedisStore) Forget(ctx context.Context, group string, p Partition, below int64) error {
	_, err := s.runOne(ctx, forgetScript, s.Key(group, p), max(0, below))
	return err
}

// Release is Store's, in one pipeline like Claim.
func (s *RedisStore) Release(ctx context.Context, group, owner string, ps []Partition) error {
	replies, err := s.run(ctx, releaseScript, s.keys(group, ps), owner)
	var wrongType faults
	for _, reply := range replies {
		wrongType.add(reply.err)
	}
	return errors.Join(err, wrongType.err())
}

func (s *RedisStore) keys(group string, ps []Partition) []string {
	keys := make([]string, len(ps))
	for i, p := range ps {
		keys[i] = s.Key(group, p)
	}
	return keys
}

// faults are errors of single keys, told as the first of them and a number.
type faults struct {
	first error
	count int
}

func (f *faults) add(err error) {
	if err == nil || err == ErrAway {
		return
	}
	if f.first == nil {
		f.first = err
	}
	f.count++
}

func (f faults) err() error {
	if f.count > 1 {
		return fmt.Errorf("%w (and %d more)", f.first, f.count-1)
	}
	return f.first
}
