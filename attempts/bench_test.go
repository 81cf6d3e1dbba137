package attempts_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/internal/servers"
)

// BenchmarkClaim is what an assignment of 500 partitions costs, with one failed record in each.
func BenchmarkClaim(b *testing.B) {
	for name, client := range map[string]func(b *testing.B) redis.UniversalClient{
		"redis":   func(b *testing.B) redis.UniversalClient { return connect(b, servers.SharedRedis(b)) },
		"cluster": func(b *testing.B) redis.UniversalClient { return connect(b, servers.SharedRedisCluster(b)...) },
	} {
		b.Run("partitions=500/"+name, func(b *testing.B) {
			s := attempts.Redis(client(b), patient())
			var ps []attempts.Partition
			for i := range int32(500) {
				p := attempts.Partition{Topic: "orders", Partition: i}
				ps = append(ps, p)
				if _, err := s.Save(b.Context(), "g", p, record, attempts.Entry{Attempts: 3, Wait: time.Minute, LastError: "connection refused"}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if all, err := s.Claim(b.Context(), "g", "a", ps); err != nil || len(all) != 500 {
					b.Fatal(len(all), err)
				}
			}
		})
	}
}
