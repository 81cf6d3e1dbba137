package servers

// A RedisServer is a real redis-server in a folder of its own. It writes its append-only file before it answers, so that Kill
// and Restart lose nothing; a test that wants an empty server starts another.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisPatience is how long a server may take to start, and a cluster to agree: ten times what they need.
const redisPatience = 30 * time.Second

// RedisServer is a running redis-server. Its methods may be called from any goroutine.
type RedisServer struct {
	Addr string // the host:port for clients; it stays the same over Restart

	folder *folder
	args   []string

	mu      sync.Mutex
	process *process
}

// NewRedis starts a single server and waits until it answers: a tenth of a second. The error wraps [ErrUnavailable] where there
// is no redis-server on PATH.
func NewRedis(ctx context.Context) (*RedisServer, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	return newRedis(ctx, ports[0])
}

// newRedis starts a server that keeps data, with more settings than the usual ones.
func newRedis(ctx context.Context, port int, more ...string) (*RedisServer, error) {
	return launch(ctx, port, func(dir string) ([]string, error) {
		return append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(port), "--dir", dir,
			"--save", "", "--appendonly", "yes", "--appendfsync", "no", "--daemonize", "no"}, more...), nil
	})
}

// launch starts redis-server with the arguments for a folder of its own, and waits until it answers on port.
func launch(ctx context.Context, port int, args func(dir string) ([]string, error)) (*RedisServer, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, fmt.Errorf("servers: no redis-server on PATH; install Redis 7, on Debian with apt-get install redis-server: %w", ErrUnavailable)
	}
	f, err := newFolder("redis")
	if err != nil {
		return nil, err
	}
	s := &RedisServer{Addr: local(port), folder: f}
	dir := filepath.Join(f.path, "data")
	err = os.Mkdir(dir, 0o755)
	if err == nil {
		s.args, err = args(dir)
	}
	if err == nil {
		err = s.start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *RedisServer) start(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process, err = s.folder.run("redis", "redis-server", s.args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	return s.process.eventually(ctx, func() error { return pong(ctx, s.Addr) })
}

// eventually waits until try succeeds; it gives up when ctx ends, or when the process does.
func (p *process) eventually(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("servers: %s ended: %s", p.name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("servers: %s is not ready: %w: %w", p.name, ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// pong asks without a client library, which would log what it can't reach.
func pong(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = errors.New(strings.TrimSpace(line)) // -LOADING, while it reads its file
	}
	return err
}

// Kill ends the server as kill -9 does. What it has acknowledged is kept for Restart.
func (s *RedisServer) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.kill()
}

// Stop freezes the server (SIGSTOP): its connections stay open, new ones are accepted, and nothing answers until Cont.
func (s *RedisServer) Stop() error { return s.signal(syscall.SIGSTOP) }

// Cont lets a frozen server go on (SIGCONT). It then carries out what was sent to it meanwhile.
func (s *RedisServer) Cont() error { return s.signal(syscall.SIGCONT) }

func (s *RedisServer) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.signal(sig)
}

// Restart starts the server again on the same port, with the data that it had, after a Kill if it still runs. It waits until
// the server answers.
func (s *RedisServer) Restart() error {
	if err := s.Kill(); err != nil {
		return err
	}
	return s.start(context.Background())
}

// Close kills the server and removes its files. A second Close does nothing.
func (s *RedisServer) Close() error { return s.folder.Close() }

// NewRedisCluster starts a cluster of three masters without replicas and waits until all of them agree that it is up: three
// seconds. Errors are as with [NewRedis].
func NewRedisCluster(ctx context.Context) (nodes []*RedisServer, err error) {
	defer func() {
		if err != nil {
			for _, n := range nodes {
				err = errors.Join(err, n.Close())
			}
			nodes = nil
		}
	}()
	const masters, slots = 3, 16384
	ports, err := freePorts(2 * masters)
	if err != nil {
		return nil, err
	}
	clients := make([]*redis.Client, masters)
	for i := range masters {
		node, err := newRedis(ctx, ports[2*i], "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(ports[2*i+1]), "--cluster-node-timeout", "2000")
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
		clients[i] = redis.NewClient(&redis.Options{Addr: node.Addr})
		defer clients[i].Close()
	}
	for i, c := range clients {
		if err := c.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err(); err != nil {
			return nodes, fmt.Errorf("servers: slots of %s: %w", nodes[i].Addr, err)
		}
		if err := c.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", ports[0], ports[1]).Err(); err != nil {
			return nodes, fmt.Errorf("servers: %s meets %s: %w", nodes[i].Addr, nodes[0].Addr, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	for i, c := range clients {
		err := nodes[i].process.eventually(ctx, func() error {
			info, err := c.ClusterInfo(ctx).Result()
			if err == nil && !(strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_size:%d", masters))) {
				err = errors.New(info)
			}
			return err
		})
		if err != nil {
			return nodes, err
		}
	}
	return nodes, nil
}

// RedisSentinel is a master with a replica, and a Sentinel that makes the replica the master a second after the master has
// died.
type RedisSentinel struct {
	Sentinel, Master, Replica *RedisServer
}

// SentinelMaster is the name under which a [RedisSentinel] knows its master.
const SentinelMaster = "breakwater"

// NewRedisSentinel starts the three and waits until they know each other. Errors are as with [NewRedis].
func NewRedisSentinel(ctx context.Context) (s RedisSentinel, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = RedisSentinel{}
		}
	}()
	ports, err := freePorts(3)
	if err != nil {
		return s, err
	}
	if s.Master, err = newRedis(ctx, ports[0]); err != nil {
		return s, err
	}
	if s.Replica, err = newRedis(ctx, ports[1], "--replicaof", "127.0.0.1", fmt.Sprint(ports[0]), "--repl-diskless-sync-delay", "0"); err != nil {
		return s, err
	}
	s.Sentinel, err = launch(ctx, ports[2], func(dir string) ([]string, error) {
		conf := filepath.Join(dir, "sentinel.conf") // it is written to by Sentinel, too
		return []string{conf, "--sentinel"}, os.WriteFile(conf, fmt.Appendf(nil, `bind 127.0.0.1
port %d
dir %s
sentinel monitor %s 127.0.0.1 %d 1
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 3000
`, ports[2], dir, SentinelMaster, ports[0]), 0o644)
	})
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	sentinel, replica := redis.NewSentinelClient(&redis.Options{Addr: s.Sentinel.Addr}), redis.NewClient(&redis.Options{Addr: s.Replica.Addr})
	defer sentinel.Close()
	defer replica.Close()
	return s, s.Sentinel.process.eventually(ctx, func() error {
		replicas, err := sentinel.Replicas(ctx, SentinelMaster).Result()
		if err == nil && (len(replicas) != 1 || !strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")) {
			err = fmt.Errorf("the replica is not in sync: %v", replicas)
		}
		return err
	})
}

// Close kills all three and removes their files.
func (s RedisSentinel) Close() error {
	var errs []error
	for _, server := range []*RedisServer{s.Sentinel, s.Master, s.Replica} {
		if server != nil {
			errs = append(errs, server.Close())
		}
	}
	return errors.Join(errs...)
}

// StartRedisSentinel starts a master, a replica and a Sentinel for one test and stops them when the test ends.
func StartRedisSentinel(t testing.TB) RedisSentinel {
	t.Helper()
	Real(t)
	s, err := NewRedisSentinel(t.Context())
	Must(t, err)
	closeAtEnd(t, s)
	return s
}

// StartRedis starts a server for one test and stops it when the test ends.
func StartRedis(t testing.TB) *RedisServer {
	t.Helper()
	Real(t)
	s, err := NewRedis(t.Context())
	Must(t, err)
	closeAtEnd(t, s)
	return s
}

// Redis is [StartRedis] for a test that only needs the address.
func Redis(t testing.TB) (addr string) {
	t.Helper()
	return StartRedis(t).Addr
}

// sharedRedis starts the one server of this process at its first call, sharedRedisCluster the one cluster.
var (
	sharedRedis = sync.OnceValues(func() (*RedisServer, error) {
		s, err := NewRedis(context.Background())
		if err == nil {
			untilEnd(s)
		}
		return s, err
	})
	sharedRedisCluster = sync.OnceValues(func() ([]*RedisServer, error) {
		nodes, err := NewRedisCluster(context.Background())
		for _, n := range nodes {
			untilEnd(n)
		}
		return nodes, err
	})
)

// SharedRedis returns the address of the server that all tests of the process share. They give their keys names of their own,
// and leave the server running. It is stopped by [Main], or with the process.
func SharedRedis(t testing.TB) (addr string) {
	t.Helper()
	Real(t)
	s, err := sharedRedis()
	Must(t, err)
	return s.Addr
}

// SharedRedisCluster is [SharedRedis] with a cluster of three.
func SharedRedisCluster(t testing.TB) (addrs []string) {
	t.Helper()
	Real(t)
	nodes, err := sharedRedisCluster()
	Must(t, err)
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}

// StartRedisCluster starts a cluster of three for one test and stops it when the test ends.
func StartRedisCluster(t testing.TB) []*RedisServer {
	t.Helper()
	Real(t)
	nodes, err := NewRedisCluster(t.Context())
	Must(t, err)
	for _, n := range nodes {
		closeAtEnd(t, n)
	}
	return nodes
}

// RedisCluster is [StartRedisCluster] for a test that only needs the addresses.
func RedisCluster(t testing.TB) (addrs []string) {
	t.Helper()
	for _, n := range StartRedisCluster(t) {
		addrs = append(addrs, n.Addr)
	}
	return addrs
}
