package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/attempts/attemptstest"
	"github.com/breakwater-go/breakwater/internal/servers"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	goleak.VerifyTestMain(servers.Main(m))
}

// silent keeps the client from printing what the tests do to it.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// connect is a client as most people make it: with its own retries, and deaf to the deadlines of a context.
func connect(t testing.TB, addrs ...string) redis.UniversalClient {
	t.Helper()
	return connectWith(t, redis.UniversalOptions{Addrs: addrs})
}

func connectWith(t testing.TB, opts redis.UniversalOptions) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// patient is a configuration for tests that are not about time, so that a busy machine does not fail them. Each has keys
// of its own.
func patient() attempts.RedisConfig {
	return attempts.RedisConfig{Timeout: 20 * time.Second, Prefix: fmt.Sprint("test-", prefixes.Add(1))}
}

var prefixes atomic.Int32

// everyRedis runs a test on the embedded Redis, on a real one and on a real cluster of three.
func everyRedis(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("miniredis", func(t *testing.T) { test(t, connect(t, miniredis.RunT(t).Addr())) })
	t.Run("redis", func(t *testing.T) { test(t, connect(t, servers.SharedRedis(t))) })
	t.Run("cluster", func(t *testing.T) { test(t, connect(t, servers.SharedRedisCluster(t)...)) })
}

func TestRedisKeepsTheLaws(t *testing.T) {
	on := func(t *testing.T, client redis.UniversalClient, advance func(d time.Duration)) {
		attemptstest.TestStore(t, func(*testing.T) attempts.Store { return attempts.Redis(client, patient()) }, advance)
	}
	t.Run("miniredis, on a clock that jumps", func(t *testing.T) {
		server, now := miniredis.RunT(t), time.Now()
		server.SetTime(now)
		on(t, connect(t, server.Addr()), func(d time.Duration) {
			now = now.Add(d)
			server.SetTime(now)
			server.FastForward(d)
		})
	})
	wait := func(d time.Duration) { <-time.After(d) }
	t.Run("redis", func(t *testing.T) { on(t, connect(t, servers.SharedRedis(t)), wait) })
	t.Run("cluster", func(t *testing.T) { on(t, connect(t, servers.SharedRedisCluster(t)...), wait) })
}

var (
	part   = attempts.Partition{Topic: "orders", Partition: 3}
	record = attempts.NewRecord(42, time.UnixMilli(1_700_000_000_123))
	parts  = []attempts.Partition{part}
)

func mustSave(t testing.TB, s attempts.Store, e attempts.Entry) attempts.Entry {
	t.Helper()
	stands, err := s.Save(t.Context(), "g", part, record, e)
	if err != nil {
		t.Fatal(err)
	}
	return stands
}

func mustClaim(t testing.TB, s attempts.Store, owner string) attempts.Loaded {
	t.Helper()
	all, err := s.Claim(t.Context(), "g", owner, parts)
	if err != nil {
		t.Fatal(err)
	}
	return all[part]
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The two stores are one contract: whatever is done to them, in any order, they answer alike.
func TestRedisAnswersAsMemoryDoes(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for seed := range uint64(15) {
			if script, diff := compare(t, attempts.Memory(), attempts.Redis(client, patient()), rand.New(rand.NewPCG(seed, 1))); diff != "" {
				t.Fatalf("seed %d: %s\nafter:\n%s", seed, diff, strings.Join(script, "\n"))
			}
		}
	})
}

// compare does the same random things to two stores until they differ.
func compare(t *testing.T, a, b attempts.Store, random *rand.Rand) (script []string, diff string) {
	ctx := t.Context()
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	for range 60 {
		p := attempts.Partition{Topic: "t", Partition: random.Int32N(2)}
		r := attempts.NewRecord(random.Int64N(3), time.UnixMilli(random.Int64N(2)))
		owner := pick("a", "b")
		var do func(s attempts.Store) any
		var what string
		switch random.IntN(8) {
		case 0:
			what = fmt.Sprintf("Claim %v by %s", p, owner)
			do = func(s attempts.Store) any {
				all, err := s.Claim(ctx, "g", owner, []attempts.Partition{p})
				for r, e := range all[p].Entries {
					e.Wait = e.Wait.Round(time.Minute)
					all[p].Entries[r] = e
				}
				return fmt.Sprintf("%+v %v", all, err)
			}
		case 1:
			what = fmt.Sprintf("Release %v by %s", p, owner)
			do = func(s attempts.Store) any { return s.Release(ctx, "g", owner, []attempts.Partition{p}) }
		case 2:
			below := random.Int64N(3)
			what = fmt.Sprintf("Forget %v below %d", p, below)
			do = func(s attempts.Store) any { return s.Forget(ctx, "g", p, below) }
		case 3:
			what = fmt.Sprintf("Unnote %v %v", p, r)
			do = func(s attempts.Store) any { return s.Unnote(ctx, "g", p, r) }
		default:
			e := attempts.Entry{
				Attempts: 1 + random.IntN(3), Deaths: random.IntN(2), Noted: random.IntN(3) == 0,
				Wait: time.Duration(random.IntN(4)) * time.Hour, LastError: pick("", "x", "y"), Stack: pick("", "main.go:1"), Class: pick("timeout", "http 503"),
			}
			if !e.Noted {
				e.Verdict = pick("", "", "permanent", "crash")
			}
			if random.IntN(3) > 0 {
				e.FirstFailed, e.FirstError = time.UnixMilli(1+random.Int64N(3)).UTC(), pick("first", "1st")
			}
			what = fmt.Sprintf("Save %v %v %+v", p, r, e)
			do = func(s attempts.Store) any {
				stands, err := s.Save(ctx, "g", p, r, e)
				stands.Wait = stands.Wait.Round(time.Minute)
				return fmt.Sprintf("%+v %v", stands, err)
			}
		}
		script = append(script, what)
		if x, y := do(a), do(b); x != y {
			return script, fmt.Sprintf("one answers\n%v\nthe other\n%v", x, y)
		}
	}
	return script, ""
}

// The store's clock counts microseconds, its entries milliseconds: what is lost between them is never the wait's.
func TestRedisNeverShortensAWait(t *testing.T) {
	server := miniredis.RunT(t)
	client := connect(t, server.Addr())
	for _, begin := range []time.Duration{0, 1, 499, 500, 999, 1000, 123_456, 999_999} { // microseconds into a second
		for _, wait := range []time.Duration{time.Microsecond, time.Second, time.Second + time.Nanosecond, 1999_999 * time.Microsecond} {
			s := attempts.Redis(client, patient())
			failed := time.Unix(1_700_000_000, 0).Add(begin * time.Microsecond)
			server.SetTime(failed)
			if got := mustSave(t, s, attempts.Entry{Attempts: 1, Wait: wait}).Wait; got < wait || got >= wait+time.Millisecond {
				t.Errorf("at %v: a wait of %v begins with %v", failed, wait, got)
			}
			for _, passed := range []time.Duration{0, 1, 999, 1000, 500_499, 999_999} {
				passed *= time.Microsecond
				server.SetTime(failed.Add(passed))
				remains := max(0, wait-passed)
				if got := mustClaim(t, s, "a").Entries[record].Wait; got < remains || got >= remains+3*time.Millisecond {
					t.Errorf("failed at %v, %v of a wait of %v passed: %v remain", failed, passed, wait, got)
				}
			}
		}
	}
}

// A wait that another instance takes over is measured on the store's clock: set forward it is over sooner, set back it is at most the whole wait.
func TestClockOfTheStoreThatIsSet(t *testing.T) {
	server, now := miniredis.RunT(t), time.Now()
	server.SetTime(now)
	store := attempts.Redis(connect(t, server.Addr()), patient())
	mustSave(t, store, attempts.Entry{Attempts: 1, Wait: 10 * time.Second})
	for _, test := range []struct{ step, want time.Duration }{
		{4 * time.Second, 6 * time.Second}, {-time.Hour, 10 * time.Second}, {-24 * 365 * time.Hour, 10 * time.Second}, {time.Hour, 0}, {0, 10 * time.Second},
	} {
		server.SetTime(now.Add(test.step))
		if got := mustClaim(t, store, "b").Entries[record].Wait; got < test.want || got >= test.want+3*time.Millisecond {
			t.Errorf("%v later on the store's clock %v are left, want %v and at most the rounding more", test.step, got, test.want)
		}
	}
}

func TestNoKeyWithoutExpiry(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s, ctx := attempts.Redis(client, patient()), t.Context()
		key := s.Key("g", part)
		note := attempts.Entry{Attempts: 2, Deaths: 1, Noted: true, Wait: attempts.MaxWait}
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"Claim", func() error { _, err := s.Claim(ctx, "g", "a", parts); return err }},
			{"Save", func() error {
				_, err := s.Save(ctx, "g", part, record, attempts.Entry{Attempts: 1, Wait: attempts.MaxWait})
				return err
			}},
			{"note", func() error { _, err := s.Save(ctx, "g", part, record, note); return err }},
			{"Unnote", func() error { return s.Unnote(ctx, "g", part, record) }},
			{"Release", func() error { return s.Release(ctx, "g", "a", parts) }},
			{"Claim by another", func() error { _, err := s.Claim(ctx, "g", "b", parts); return err }},
			{"Forget", func() error { return s.Forget(ctx, "g", part, 1000) }},
		} {
			check(t, client.Persist(ctx, key).Err()) // whoever took the expiry away: it comes back
			check(t, step.do())
			if ttl := client.TTL(ctx, key).Val(); ttl <= attempts.MaxWait {
				t.Errorf("after %s the key expires in %v, before the longest wait of %v is over", step.name, ttl, attempts.MaxWait)
			}
		}
		check(t, s.Release(ctx, "g", "b", parts))
		if n := client.Exists(ctx, key).Val(); n != 0 {
			t.Error("the key of a partition without failures and owner stays")
		}
	})
}

func TestAScriptCacheThatIsEmptiedIsFilledAgain(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s, ctx := attempts.Redis(client, patient()), t.Context()
		var ps []attempts.Partition
		for i := range int32(50) {
			ps = append(ps, attempts.Partition{Topic: "orders", Partition: i})
		}
		for n := 1; n <= 3; n++ {
			// Each call is the first of its script after the flush.
			for _, do := range []func() error{
				func() error {
					all, err := s.Claim(ctx, "g", "a", ps)
					if err == nil && len(all) != len(ps) {
						err = fmt.Errorf("%d of %d partitions", len(all), len(ps))
					}
					return err
				},
				func() error {
					_, err := s.Save(ctx, "g", part, record, attempts.Entry{Attempts: n, Noted: true})
					return err
				},
				func() error { return s.Unnote(ctx, "g", part, record) },
				func() error { return s.Forget(ctx, "g", part, 1) },
				func() error { return s.Release(ctx, "g", "a", ps) },
			} {
				flushScripts(t, client)
				check(t, do())
			}
		}
	})
}

func flushScripts(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	flush := func(ctx context.Context, c *redis.Client) error { return c.ScriptFlush(ctx).Err() }
	switch c := client.(type) {
	case *redis.ClusterClient:
		check(t, c.ForEachMaster(t.Context(), flush))
	case *redis.Client:
		check(t, flush(t.Context(), c))
	}
}

func TestClaimIsOneRoundTrip(t *testing.T) {
	everyRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s := attempts.Redis(client, patient())
		var ps []attempts.Partition
		for i := range int32(500) {
			ps = append(ps, attempts.Partition{Topic: "orders", Partition: i})
		}
		_, err := s.Claim(t.Context(), "g", "a", ps) // now each node has the script
		check(t, err)
		var trips trips
		client.AddHook(&trips)
		all, err := s.Claim(t.Context(), "g", "a", ps)
		if err != nil || len(all) != len(ps) || trips.pipelines != 1 || trips.commands != 0 {
			t.Errorf("%d partitions in %d pipelines and %d commands, %v", len(all), trips.pipelines, trips.commands, err)
		}
	})
}

// trips counts what goes to Redis.
type trips struct{ pipelines, commands int }

func (h *trips) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { h.commands++; return next(ctx, cmd) }
}
func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { h.pipelines++; return next(ctx, cmds) }
}

func TestAKeyShowsItsNames(t *testing.T) {
	s := attempts.Redis(connect(t, "127.0.0.1:1"), attempts.RedisConfig{})
	for _, c := range []struct {
		group, topic, want string
	}{
		{"billing", "orders.v1_x-y", "breakwater:{billing:orders.v1_x-y:3}"},
		{"a:b{c}%", "t", "breakwater:{a%3Ab%7Bc%7D%25:t:3}"},
	} {
		if got := s.Key(c.group, attempts.Partition{Topic: c.topic, Partition: 3}); got != c.want {
			t.Errorf("key of %q, %q is %q, want %q", c.group, c.topic, got, c.want)
		}
	}
}

func TestRedisIsDurable(t *testing.T) {
	var s attempts.Store = attempts.Redis(connect(t, "127.0.0.1:1"), attempts.RedisConfig{})
	if d, ok := s.(attempts.Durability); !ok || !d.Durable() {
		t.Error("a store in Redis does not say that it is durable")
	}
	if h, ok := s.(attempts.Health); !ok || !h.Healthy() {
		t.Error("a store that nobody has used yet is not worth trying")
	}
}

func TestRedisNeedsAClient(t *testing.T) {
	defer func() {
		if text := fmt.Sprint(recover()); !strings.Contains(text, "NewUniversalClient") {
			t.Errorf("no client: %s", text)
		}
	}()
	attempts.Redis(nil, attempts.RedisConfig{})
}

func ExampleRedis() {
	server, err := miniredis.Run() // stands for your Redis, Sentinel or Cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{server.Addr()}})
	defer client.Close()

	store := attempts.Redis(client, attempts.RedisConfig{})
	p := attempts.Partition{Topic: "orders", Partition: 3}
	r := attempts.NewRecord(42, time.UnixMilli(1_700_000_000_000))
	ctx := context.Background()

	_, err = store.Save(ctx, "billing", p, r, attempts.Entry{Attempts: 2, Wait: time.Hour})
	switch {
	case errors.Is(err, attempts.ErrAway): // go on counting in memory, save again when store.Healthy()
	case err != nil:
		panic(err)
	}
	fmt.Println(store.Key("billing", p), server.Exists(store.Key("billing", p)))
	// Output: breakwater:{billing:orders:3} true
}
