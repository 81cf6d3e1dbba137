package servers

// The thin layer for tests. Whether a test may be skipped is decided here and nowhere else, and what lives as long as the test
// process is noted here.

import (
	"errors"
	"io"
	"os"
	"sync"
	"testing"
)

// ErrUnavailable is wrapped by the error of a New… function where this machine lacks what the server needs. Its text says what.
var ErrUnavailable = errors.New("not to be had on this machine")

// Real says that the test needs a real server: under -short it is skipped.
func Real(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a real server, and -short leaves those out")
	}
}

// Must ends the test if err is not nil: it is skipped where the error is [ErrUnavailable] and CI is not "true", else it fails.
func Must(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrUnavailable) && os.Getenv("CI") != "true":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// shared are the servers that live until the tests of this process are over.
var shared struct {
	sync.Mutex
	servers []io.Closer
}

// untilEnd keeps a server until [Main] has run the tests, or else until the process ends.
func untilEnd(c io.Closer) {
	shared.Lock()
	defer shared.Unlock()
	shared.servers = append(shared.servers, c)
}

// closeAtEnd stops the server when the test ends.
func closeAtEnd(t testing.TB, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Main wraps a *testing.M so that shared servers are stopped after the tests and before goleak looks for goroutines:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Main(m)) }
//
// A package that uses shared servers and does not look for leaks needs no TestMain: they end with the process.
func Main(m interface{ Run() int }) interface{ Run() int } { return tests{m} }

type tests struct{ all interface{ Run() int } }

func (m tests) Run() int {
	code := m.all.Run()
	shared.Lock()
	defer shared.Unlock()
	for _, c := range shared.servers {
		if err := c.Close(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			code = max(code, 1)
		}
	}
	shared.servers = nil
	return code
}
