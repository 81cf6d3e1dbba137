package servers

// The embedded broker: franz-go's kfake, in this process, for tests that need the protocol and no real server.

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// NewFake starts an embedded cluster: one broker, no topic that nobody has created, sessions of one second and longer. The options
// are added to that; kfake.SeedTopics(partitions, names...) creates topics. Its Close ends it.
func NewFake(opts ...kfake.Opt) (*kfake.Cluster, error) {
	c, err := kfake.NewCluster(append([]kfake.Opt{
		kfake.NumBrokers(1),
		kfake.GroupMinSessionTimeout(time.Second),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("servers: embedded broker: %w", err)
	}
	return c, nil
}

// Fake is [NewFake] for one test; the cluster is closed when the test ends.
func Fake(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := NewFake(opts...)
	Must(t, err)
	t.Cleanup(c.Close)
	return c
}

// FakeBootstrap is the value for a client's bootstrap.servers.
func FakeBootstrap(c *kfake.Cluster) string { return strings.Join(c.ListenAddrs(), ",") }
