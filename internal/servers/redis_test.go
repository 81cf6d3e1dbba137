package servers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func redisClient(t *testing.T, addrs ...string) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: addrs, MaxRetries: -1, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestRedisComesBackWithWhatItAcknowledged(t *testing.T) {
	s := StartRedis(t)
	c := redisClient(t, s.Addr)
	for i := range 100 {
		if err := c.Set(t.Context(), fmt.Sprint(i), "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	Must(t, s.Kill())
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Fatal("a killed server answers")
	}
	Must(t, s.Restart())
	if n := c.DBSize(t.Context()).Val(); n != 100 {
		t.Errorf("%d keys after the restart, want 100", n)
	}
}

func TestAFrozenRedisAnswersWhenItGoesOn(t *testing.T) {
	s := StartRedis(t)
	c := redisClient(t, s.Addr)
	Must(t, c.Ping(t.Context()).Err())
	Must(t, s.Stop())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a frozen server answers")
	}
	Must(t, s.Cont())
	Must(t, c.Ping(t.Context()).Err())
}

func TestRedisClusterSpreadsItsKeys(t *testing.T) {
	addrs := RedisCluster(t)
	c := redisClient(t, addrs...)
	for i := range 300 {
		Must(t, c.Set(t.Context(), fmt.Sprint(i), "x", 0).Err())
	}
	for _, addr := range addrs {
		if n := redisClient(t, addr).DBSize(t.Context()).Val(); n == 0 {
			t.Errorf("%s has no key", addr)
		}
	}
}
