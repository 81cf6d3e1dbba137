package servers

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Main(m)) }

// eventually waits until ok, and fails the test when that takes longer than a slow machine may need.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after a minute still not: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
