// Package explore plays every schedule of the real deciders that a small world allows: two or three partitions with a few records each, and
// an adversary with an outage, bad records, a hang, a revoke, a crash, an operator. It is a test, and nothing but: its checks share
// no code with what they check.
//
// A short part runs with every `go test`. Everything, in a few minutes:
//
//	EXPLORE=all go test -run TestEverySchedule -v ./consumer/internal/explore
package explore
