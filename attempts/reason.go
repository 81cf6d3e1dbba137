package attempts

// Why an exchange failed, in words of our own. The texts of the client and the server are not passed on: they may hold what
// was sent, an address with a password in it, or whatever a user's own dialler or credentials provider says.

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// cures are the server's error codes that a person can do something about.
var cures = map[string]string{
	"NOAUTH":      "Redis asks for a password; give the client one",
	"WRONGPASS":   "Redis refuses the user name or the password; correct the client's",
	"NOPERM":      "Redis does not permit it; allow the user EVAL, EVALSHA, TIME, PEXPIRE and the commands on hashes, for the keys of RedisConfig.Prefix",
	"OOM":         "Redis is out of memory; raise its maxmemory, or make room",
	"READONLY":    "this Redis is a replica; give the client the address of the master, of Sentinel or of the Cluster",
	"MISCONF":     "Redis can't save to its disk and refuses to write; see its log",
	"LOADING":     "Redis is starting and loads its data",
	"BUSY":        "Redis is busy with somebody's script",
	"MASTERDOWN":  "the master is down",
	"NOREPLICAS":  "Redis has too few replicas to write; see its min-replicas-to-write",
	"CLUSTERDOWN": "the Cluster is down; see CLUSTER INFO",
	"TRYAGAIN":    "the Cluster is moving the key",
	"MOVED":       "this Redis is one node of a Cluster; make the client with redis.NewClusterClient",
}

// reason says why err came about, without one word that err itself chose.
func reason(err error) string {
	var (
		server redis.Error
		op     *net.OpError
		errno  syscall.Errno
		dns    *net.DNSError
		addr   *net.AddrError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		host   x509.HostnameError
		unsure x509.UnknownAuthorityError
	)
	switch {
	case errors.Is(err, redis.ErrClosed):
		return "the Redis client is closed; close it after the consumer"
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return "all connections of the Redis client are in use; raise its PoolSize"
	case errors.As(err, &cert), errors.As(err, &host), errors.As(err, &unsure):
		return "the certificate of Redis is not accepted; see the client's TLSConfig"
	case errors.As(err, &record):
		return "Redis does not speak TLS on this port; see the client's TLSConfig"
	case errors.As(err, &dns):
		return "the name of the Redis server can't be resolved; see the client's address and the DNS"
	case errors.As(err, &addr):
		return "the address of the Redis server makes no sense (" + addr.Err + "); see the client's"
	case errors.As(err, &errno):
		return "the connection to Redis failed: " + errno.Error()
	case errors.As(err, &op):
		return "the connection to Redis failed (" + op.Op + ")"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "Redis closed the connection"
	case errors.As(err, &server):
		return answered(server.Error())
	}
	return fmt.Sprintf("the Redis client failed (%T)", err)
}

// answered says what a server's error means. Of its text only the code is passed on, or what stands before the first thing
// that it quotes.
func answered(text string) string {
	code, _, _ := strings.Cut(text, " ")
	if cure, ok := cures[code]; ok {
		return cure
	}
	if strings.Contains(text, "unknown command") {
		return "Redis does not know a command that is needed here; Redis 5 or later is, with EVALSHA, TIME and PEXPIRE"
	}
	if end := strings.IndexAny(text, "'`\":,(@"); end >= 0 {
		text = text[:end]
	}
	return fmt.Sprintf("Redis answered %q", cut(strings.TrimSpace(text), 60))
}
