package servers

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

func TestFake(t *testing.T) {
	c := FakeBootstrap(Fake(t, kfake.SeedTopics(1, "orders")))
	produce(t, c, "orders", "1", "2")
	if got := consume(t, c, "orders", "billing", 2); strings.Join(got, " ") != "1 2" {
		t.Errorf("consumed %q", got)
	}
}
