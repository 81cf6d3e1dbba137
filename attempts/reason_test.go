package attempts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// serverError is an error answer, as the client makes one of it.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

const secret = "hunter2"

func TestReasonsHelpAndKeepSecrets(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		err  error
		want string
	}{
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connection refused"},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, "read"},
		{dial(&net.AddrError{Err: "too many colons in address", Addr: "redis://user:" + secret + "@host:6379"}), "too many colons"},
		{dial(&net.DNSError{Err: "no such host", Name: "user:" + secret + "@host"}), "can't be resolved"},
		{dial(errors.New("my dialler says " + secret)), "dial"},
		{fmt.Errorf("read: %w", io.EOF), "closed the connection"},
		{io.ErrUnexpectedEOF, "closed the connection"},
		{redis.ErrClosed, "client is closed"},
		{redis.ErrPoolTimeout, "PoolSize"},
		{tls.RecordHeaderError{Msg: secret}, "TLS"},
		{&tls.CertificateVerificationError{Err: errors.New(secret)}, "certificate"},
		{x509.UnknownAuthorityError{}, "certificate"},
		{fmt.Errorf("vault: token %s is not accepted", secret), "*fmt.wrapError"},
		{serverError("NOAUTH Authentication required."), "password"},
		{serverError("WRONGPASS invalid username-password pair for " + secret), "refuses"},
		{serverError("NOPERM User " + secret + " has no permissions to run the 'evalsha' command"), "EVALSHA"},
		{serverError("OOM command not allowed when used memory > 'maxmemory'. script: 17"), "maxmemory"},
		{serverError("READONLY You can't write against a read only replica."), "replica"},
		{serverError("MOVED 3999 10.0.0.1:6381"), "NewClusterClient"},
		{serverError("ERR unknown command 'evalsha', with args beginning with: '" + secret + "'"), "Redis 5"},
		{serverError("ERR unknown command `evalsha`, with args beginning with: `" + secret + "`"), "Redis 5"},
		{serverError("ERR Error running script (call to f_1): @user_script:1: " + secret), "ERR Error running script"},
		{serverError("ERR max number of clients reached"), "max number of clients"},
		{serverError("\"" + secret + "\""), "answered"},
		{serverError(strings.Repeat("x", 10_000)), "xxx"},
	} {
		got := reason(c.err)
		if !strings.Contains(got, c.want) && !(strings.HasPrefix(c.want, "*") && strings.Contains(got, "(*")) {
			t.Errorf("%v\nis told as  %s\nwant in it  %s", c.err, got, c.want)
		}
		if strings.Contains(got, secret) || len(got) > 250 {
			t.Errorf("%v is told as %s", c.err, got)
		}
	}
}

// The same from outside: whatever a client is given, no error and nothing that it wraps tells it.
func TestErrorsOfTheStoreKeepSecrets(t *testing.T) {
	locked, broken := miniredis.RunT(t), miniredis.RunT(t)
	locked.RequireAuth("another")
	broken.SetError("ERR no '" + secret + "' here")
	for name, opts := range map[string]redis.Options{
		"a URL for an address": {Addr: "redis://user:" + secret + "@127.0.0.1:6379"},
		"a wrong password":     {Addr: locked.Addr(), Password: secret},
		"a server that quotes": {Addr: broken.Addr()},
		"a provider that fails": {Addr: locked.Addr(), CredentialsProviderContext: func(context.Context) (string, string, error) {
			return "", "", errors.New("vault has no " + secret)
		}},
		"a dialler that fails": {Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New(secret) }},
	} {
		opts.MaxRetries, opts.DialerRetries, opts.DialTimeout = -1, 1, 100*time.Millisecond
		client := redis.NewClient(&opts)
		s := Redis(client, RedisConfig{Timeout: 10 * time.Second})
		for range 4 { // the last one finds the breaker open
			_, err := s.Save(t.Context(), "g", Partition{Topic: "orders"}, Record{}, Entry{Attempts: 1, LastError: secret})
			if !errors.Is(err, ErrAway) {
				t.Errorf("%s: %v, want ErrAway", name, err)
			}
			for ; err != nil; err = errors.Unwrap(err) {
				if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, secret) {
					t.Errorf("%s: the secret is in %s", name, text)
				}
			}
		}
		_ = client.Close()
	}
}
