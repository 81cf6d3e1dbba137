// Package dlq is where a record goes at the end: it writes dead letters, and reads those of others.
//
// A dead letter is the record itself: key, value, timestamp and headers as they were, and behind the headers one block of
// ours that says where the record comes from and why it is here (see [Letter.Headers]). A [Writer] writes letters with an
// idempotent producer and says of each one, once, whether all in-sync replicas have it. [Read] reads the block, and the headers of
// Spring Kafka and Kafka Connect as well, so that tools work on dead letters that other systems wrote.
package dlq
