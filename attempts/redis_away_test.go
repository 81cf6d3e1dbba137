package attempts_test

// Redis away, slow, frozen, back: what the callers of the store see, with a client at its defaults.

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/internal/servers"
)

// eventually waits until ok, and fails the test when that takes longer than a slow machine may need.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after a minute still not: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// back waits until the store works again, and says what it answers then.
func back(t *testing.T, s *attempts.RedisStore, e attempts.Entry) (stands attempts.Entry) {
	t.Helper()
	eventually(t, "the store is back", func() bool {
		if !s.Healthy() {
			return false
		}
		var err error
		stands, err = s.Save(t.Context(), "g", part, record, e)
		return err == nil
	})
	return stands
}

// wantAway checks that every method says that the store is away, and that Save answers what it was given.
func wantAway(t *testing.T, s attempts.Store) {
	t.Helper()
	ctx := t.Context()
	e := attempts.Entry{Attempts: 3, LastError: "refused"}
	stands, saveErr := s.Save(ctx, "g", part, record, e)
	if stands != e {
		t.Errorf("Save answers %+v", stands)
	}
	all, claimErr := s.Claim(ctx, "g", "a", parts)
	if len(all) != 0 {
		t.Errorf("Claim answers %+v", all)
	}
	for name, err := range map[string]error{
		"Save": saveErr, "Claim": claimErr, "Unnote": s.Unnote(ctx, "g", part, record),
		"Forget": s.Forget(ctx, "g", part, 1), "Release": s.Release(ctx, "g", "a", parts),
	} {
		if !errors.Is(err, attempts.ErrAway) {
			t.Errorf("%s: %v, want ErrAway", name, err)
		}
	}
}

func TestAwayAtTheStartAndBack(t *testing.T) {
	server := servers.StartRedis(t)
	check(t, server.Kill())
	s := attempts.Redis(connect(t, server.Addr), attempts.RedisConfig{})
	wantAway(t, s)
	if s.Healthy() {
		t.Error("healthy after five failures")
	}
	check(t, server.Restart())
	back(t, s, attempts.Entry{Attempts: 1})
}

func TestAwayInTheMiddleAndBack(t *testing.T) {
	server := servers.StartRedis(t)
	s := attempts.Redis(connect(t, server.Addr), attempts.RedisConfig{})
	back(t, s, attempts.Entry{Attempts: 2})
	check(t, server.Kill())
	wantAway(t, s)
	check(t, server.Restart())
	if got := back(t, s, attempts.Entry{Attempts: 1}); got.Attempts != 2 {
		t.Errorf("%d attempts after Redis came back, want the 2 that it had acknowledged", got.Attempts)
	}
}

// A dying master is away for a moment, and its replica knows what was saved.
func TestSentinelMakesTheReplicaTheMaster(t *testing.T) {
	trio := servers.StartRedisSentinel(t)
	client := connectWith(t, redis.UniversalOptions{Addrs: []string{trio.Sentinel.Addr}, MasterName: servers.SentinelMaster})
	s := attempts.Redis(client, attempts.RedisConfig{})
	back(t, s, attempts.Entry{Attempts: 2, Wait: time.Hour})
	eventually(t, "the replica has it", func() bool {
		return connect(t, trio.Replica.Addr).Exists(t.Context(), s.Key("g", part)).Val() == 1
	})
	check(t, trio.Master.Kill())
	wantAway(t, s)
	if got := back(t, s, attempts.Entry{Attempts: 1}); got.Attempts < 2 || got.Wait < 50*time.Minute {
		t.Errorf("after the failover: %+v", got)
	}
}

// A client at its defaults waits for an answer for five seconds, and tries four times.
func TestSlowRedisCostsTheTimeoutAndNoMore(t *testing.T) {
	const delay = 2 * time.Second
	proxy := servers.StartProxy(t, servers.Redis(t))
	s := attempts.Redis(connect(t, proxy.Addr()), attempts.RedisConfig{})
	back(t, s, attempts.Entry{Attempts: 1})
	check(t, proxy.Delay(delay))
	begin := time.Now()
	_, err := s.Save(t.Context(), "g", part, record, attempts.Entry{Attempts: 2})
	if took := time.Since(begin); !errors.Is(err, attempts.ErrAway) || took < 250*time.Millisecond || took > delay/2 {
		t.Errorf("Save took %v and answered %v; want ErrAway after 250ms", took, err)
	}
	if !strings.Contains(err.Error(), "250ms") {
		t.Errorf("%v: does not say how long it waited", err)
	}
	begin = time.Now()
	wantAway(t, s)
	if took := time.Since(begin); took > delay/2+500*time.Millisecond {
		t.Errorf("five calls took %v; want two timeouts, and then nothing", took)
	}
	check(t, proxy.Restore())
	eventually(t, "what was given up has arrived, late", func() bool { return back(t, s, attempts.Entry{Attempts: 1}).Attempts == 3 })
}

// A frozen server carries out, when it goes on, what its callers have long given up, in any order.
func TestWhatAFrozenRedisDoesLateDoesNoHarm(t *testing.T) {
	server := servers.StartRedis(t)
	s := attempts.Redis(connect(t, server.Addr), attempts.RedisConfig{Timeout: 20 * time.Millisecond})
	failed := attempts.Entry{Attempts: 1, Wait: time.Hour, LastError: "refused"}
	back(t, s, failed)

	check(t, server.Stop())
	note := attempts.Entry{Attempts: 2, Deaths: 1, Noted: true, Wait: time.Hour}
	verdict := attempts.Entry{Attempts: 2, Wait: time.Hour, LastError: "refused again"}
	for _, e := range []attempts.Entry{note, note, verdict} {
		if _, err := s.Save(t.Context(), "g", part, record, e); !errors.Is(err, attempts.ErrAway) {
			t.Fatalf("frozen: %v", err)
		}
	}
	check(t, server.Cont())
	got := back(t, s, verdict)
	if got.Attempts != 2 || got.Noted || got.Deaths != 0 || got.LastError != verdict.LastError {
		t.Errorf("after all that was late: %+v", got)
	}
}

// gate stands in front of a client. It counts what is asked of Redis, and lets it through when open answers nil.
type gate struct {
	asked atomic.Int32
	open  func(ctx context.Context) error
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.asked.Add(1)
		if err := g.open(ctx); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// behind is a client of a good Redis behind a gate.
func behind(t *testing.T, g *gate) redis.UniversalClient {
	client := connect(t, miniredis.RunT(t).Addr())
	client.AddHook(g)
	return client
}

func TestWhileRedisIsAwayItIsNotAsked(t *testing.T) {
	g := gate{open: func(context.Context) error { return errors.New("away") }}
	s := attempts.Redis(behind(t, &g), attempts.RedisConfig{})
	wantAway(t, s)
	if n := g.asked.Load(); n != 3 {
		t.Errorf("five calls asked %d times; the breaker is to open after 3", n)
	}
	var calls sync.WaitGroup
	for range 100 {
		calls.Go(func() {
			if _, err := s.Claim(t.Context(), "g", "a", parts); !errors.Is(err, attempts.ErrAway) {
				t.Errorf("Claim: %v", err)
			}
		})
	}
	calls.Wait()
	if n := g.asked.Load(); n > 3+1 { // one, should this machine have slept for a second
		t.Errorf("100 calls asked a dead Redis %d times", n-3)
	}
}

func TestAClientThatIsDeafToDeadlinesCostsTheTimeout(t *testing.T) {
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	s := attempts.Redis(behind(t, &gate{open: func(context.Context) error { <-released; return nil }}), attempts.RedisConfig{Timeout: 50 * time.Millisecond})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		wantAway(t, s)
	}()
	select {
	case <-answered:
	case <-time.After(time.Minute):
		t.Fatal("the store waits for its client")
	}
}

func TestOneProbeAtATime(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	arrived, goOn := make(chan struct{}, 100), make(chan struct{})
	s := attempts.Redis(behind(t, &gate{open: func(ctx context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		arrived <- struct{}{}
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}), patient())
	wantAway(t, s)
	away.Store(false)
	eventually(t, "a call is worth trying", s.Healthy)

	probe := make(chan error, 1)
	go func() {
		_, err := s.Claim(t.Context(), "g", "a", parts)
		probe <- err
	}()
	<-arrived
	for range 20 { // while the probe runs
		wantAway(t, s)
	}
	if len(arrived) > 0 {
		t.Error("a second call was let through beside the probe")
	}
	close(goOn)
	check(t, <-probe)
	mustSave(t, s, attempts.Entry{Attempts: 1})
}

func TestACallerWhoGivesUpSaysNothingAboutRedis(t *testing.T) {
	g := gate{open: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	s := attempts.Redis(behind(t, &g), patient())
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		before := g.asked.Load()
		go func() { result <- s.Forget(ctx, "g", part, 1) }()
		eventually(t, "the call is under way", func() bool { return g.asked.Load() > before })
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, attempts.ErrAway) {
			t.Fatalf("cancelled: %v", err)
		}
		if err := s.Forget(ctx, "g", part, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled before: %v", err)
		}
	}
	if !s.Healthy() {
		t.Error("cancelled calls opened the breaker")
	}
}

// relay is a proxy that passes on what a client says, and loses the server's answer to it when told to, connection and
// all: the client can't know whether its command was carried out.
type relay struct {
	addr string
	lose atomic.Int32 // how many answers to lose
	lost atomic.Int32
}

func newRelay(t *testing.T, upstream string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r := &relay{addr: l.Addr().String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", upstream)
			if err != nil {
				_ = client.Close()
				continue
			}
			closeBoth := func() { _, _ = client.Close(), server.Close() }
			running.Go(func() { defer closeBoth(); _, _ = io.Copy(server, client) })
			running.Go(func() {
				defer closeBoth()
				buf := make([]byte, 64<<10)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					if r.lose.Add(-1) >= 0 {
						r.lost.Add(1)
						return
					}
					r.lose.Store(0)
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = l.Close() })
	return r
}

func TestALostAnswerCountsOnce(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) string{
		"miniredis": func(t *testing.T) string { return miniredis.RunT(t).Addr() },
		"redis":     func(t *testing.T) string { return servers.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRelay(t, start(t))
			s := attempts.Redis(connect(t, r.addr), patient())
			losing := func(do func()) {
				t.Helper()
				before := r.lost.Load()
				r.lose.Store(1)
				do()
				if r.lost.Load() != before+1 {
					t.Fatal("no answer was lost; the test proves nothing")
				}
			}
			mustClaim(t, s, "dead")
			want := func(attempted, deaths int, wait time.Duration) {
				t.Helper()
				if e := mustClaim(t, s, "a").Entries[record]; e.Attempts != attempted || e.Deaths != deaths || e.Wait > wait || e.Wait < wait-time.Hour {
					t.Fatalf("stored is %+v, want %d attempts and %d deaths", e, attempted, deaths)
				}
			}
			losing(func() {
				if !mustClaim(t, s, "a").ForeignMark {
					t.Error("the foreign mark went with the answer that told it")
				}
			})
			losing(func() { mustSave(t, s, attempts.Entry{Attempts: 1, Wait: 10 * time.Hour}) })
			want(1, 0, 10*time.Hour)
			losing(func() { mustSave(t, s, attempts.Entry{Attempts: 2, Deaths: 1, Noted: true, Wait: 20 * time.Hour}) })
			want(2, 1, 20*time.Hour)
			losing(func() { check(t, s.Unnote(t.Context(), "g", part, record)) })
			want(1, 0, 10*time.Hour)
			losing(func() { check(t, s.Forget(t.Context(), "g", part, record.Offset+1)) })
			losing(func() { check(t, s.Release(t.Context(), "g", "a", parts)) })
			if mustClaim(t, s, "b").ForeignMark {
				t.Error("the mark is still there after Release")
			}
		})
	}
}
