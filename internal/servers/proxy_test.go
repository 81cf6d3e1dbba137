package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that says back each line.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	closeAtEnd(t, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// client is one connection through a proxy.
type client struct {
	net.Conn
	lines *bufio.Reader
}

func connect(t *testing.T, p *Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// ask says hello and returns how long the answer took.
func (c *client) ask(patience time.Duration) (time.Duration, error) {
	start := time.Now()
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return 0, err
	}
	_ = c.SetReadDeadline(start.Add(patience))
	line, err := c.lines.ReadString('\n')
	if err == nil && line != "hello\n" {
		err = fmt.Errorf("answer %q", line)
	}
	return time.Since(start), err
}

func TestProxyCutsAndRestores(t *testing.T) {
	p := StartProxy(t, echo(t))
	c := connect(t, p)
	if _, err := c.ask(time.Minute); err != nil {
		t.Fatal(err)
	}
	p.Cut()
	if _, err := c.ask(time.Minute); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("an old connection through a cut proxy: %v, want an end", err)
	}
	if _, err := net.Dial("tcp", p.Addr()); err == nil {
		t.Error("a cut proxy took a new connection")
	}
	Must(t, p.Restore())
	if _, err := connect(t, p).ask(time.Minute); err != nil {
		t.Errorf("after Restore: %v", err)
	}
}

func TestProxyHangs(t *testing.T) {
	p := StartProxy(t, echo(t))
	c := connect(t, p)
	if _, err := c.ask(time.Minute); err != nil {
		t.Fatal(err)
	}
	Must(t, p.Hang())
	Must(t, p.Hang()) // again changes nothing
	for _, c := range []*client{c, connect(t, p)} {
		if _, err := c.ask(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("through a hanging proxy: %v, want no answer and no end", err)
		}
	}
	Must(t, p.Restore())
	if _, err := connect(t, p).ask(time.Minute); err != nil {
		t.Errorf("after Restore: %v", err)
	}
}

func TestProxyDelays(t *testing.T) {
	p := StartProxy(t, echo(t))
	c := connect(t, p)
	Must(t, p.Delay(time.Hour))
	Must(t, p.Delay(200*time.Millisecond)) // takes the place of the hour
	for _, c := range []*client{c, connect(t, p)} {
		if took, err := c.ask(time.Minute); err != nil || took < 200*time.Millisecond {
			t.Errorf("answer after %s, %v; want 200ms", took, err)
		}
	}
	Must(t, p.Delay(time.Hour))
	Must(t, p.Restore())
	if took, err := c.ask(time.Minute); err != nil {
		t.Errorf("after Restore: answer after %s, %v", took, err)
	}
}
