package servers

// A Proxy stands between a client and a server and does to their connections what networks do. It listens on a port of its own
// that stays the same while it is cut, so that a client finds it again.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// Proxy forwards TCP connections to one server. Its methods may be called from any goroutine.
type Proxy struct {
	addr  string
	proxy *toxiproxy.Proxy
}

// NewProxy starts a proxy in front of upstream, a host:port. The server need not run yet.
func NewProxy(upstream string) (*Proxy, error) {
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	addr := local(ports[0])
	host := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{addr: addr, proxy: toxiproxy.NewProxy(host, upstream, addr, upstream)}
	return p, p.Restore()
}

// StartProxy starts a proxy for one test and closes it when the test ends.
func StartProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	p, err := NewProxy(upstream)
	Must(t, err)
	closeAtEnd(t, p)
	return p
}

// Addr is the host:port for clients.
func (p *Proxy) Addr() string { return p.addr }

// Cut closes all connections, and refuses new ones until Restore.
func (p *Proxy) Cut() { p.proxy.Stop() }

// Hang swallows every byte in both directions, while connections stay open and new ones are accepted: the cable is cut and nobody
// says so. Restore closes these connections, since what was on them is lost.
func (p *Proxy) Hang() error {
	return errors.Join(
		p.toxic(`{"type": "timeout", "stream": "upstream"}`),
		p.toxic(`{"type": "timeout", "stream": "downstream"}`))
}

// Delay holds back what the server says by d (whole milliseconds), in place of an earlier Delay or Hang.
func (p *Proxy) Delay(d time.Duration) error {
	p.proxy.Toxics.ResetToxics(context.Background())
	return p.toxic(fmt.Sprintf(`{"type": "latency", "stream": "downstream", "attributes": {"latency": %d}}`, d.Milliseconds()))
}

// Restore ends Cut, Hang and Delay.
func (p *Proxy) Restore() error {
	p.proxy.Toxics.ResetToxics(context.Background())
	if err := p.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("servers: proxy on %s: %w", p.addr, err)
	}
	return nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	p.proxy.Stop()
	return nil
}

func (p *Proxy) toxic(json string) error {
	_, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(json))
	if err != nil && !errors.Is(err, toxiproxy.ErrToxicAlreadyExists) {
		return fmt.Errorf("servers: proxy on %s: %w", p.addr, err)
	}
	return nil
}
