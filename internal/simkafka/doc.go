// Package simkafka is a Kafka cluster, its consumer groups and the Go client of librdkafka, in memory and in virtual
// time: what the consumer loop is tested with. A Poll that finds nothing costs two microseconds, most of them the
// bubble's; a record costs a tenth of that.
//
// It behaves by the rules that were found in confluent-kafka-go 2.11.1 and on real brokers, the bad ones included: a
// pause outlives its assignment, Pause and Resume never say that they failed, a resume takes up to a second unless a
// request wakes the fetcher, Commit blocks for a session timeout while the coordinator is away, a fenced client hangs in
// Close. Nothing here is a convenience for the code under test. A number in a comment, such as (1.2.2), is a rule of
// RULES.md.
//
// Everything happens at instants of package time's clock, so that inside a testing/synctest bubble a wait of hours
// costs nothing. What is random is drawn from generators that are seeded by the cluster's seed and by the order in which
// clients and groups appear, each of them used by one actor only; so the same calls in the same order see the same world.
//
// Left out, since the loop does not depend on it: transactions (but for the gap that their markers leave in the offsets),
// regular expressions in subscriptions, a second SubscribeTopics, replication, authentication, and the wire.
package simkafka
