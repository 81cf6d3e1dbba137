package consumer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/failure"
	"github.com/breakwater-go/breakwater/internal/topicname"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Handler does the work for one record. It returns nil, or an error that is transient or permanent (package failure says which is
// which). A panic is caught, and permanent.
//
// The calls for one partition come one after the other, in offset order; those for several partitions run at the same time. ctx ends
// after Config.HandlerTimeout, when the partition is taken away, and at the end of a shutdown's drain; a handler that goes on all the same
// keeps its partition from being called again, here. AttemptFrom reads from ctx which attempt it is.
type Handler func(ctx context.Context, record *kafka.Message) error

// Config says what to consume and what to do with it. Kafka, Topics, Handler and Strategy are required; everything else has a
// default that works.
type Config struct {
	// Kafka is the client's configuration. New calls Prepare on a copy of it; for Wrap it is the map that the client was made from.
	Kafka *kafka.ConfigMap

	// Topics to subscribe to. A name that begins with ^ is a regular expression, as in librdkafka; it must not match its own DLQ.
	Topics []string

	Handler Handler

	// Strategy says when to try again: what strategy.Watch, Load or Parse answered.
	Strategy strategy.Source

	// Classify says what an error means. Default: failure.Classify.
	Classify failure.Classifier

	// Attempts keeps the counts of failed records. Default: attempts.Memory(), which forgets them at a restart, and says so at start.
	Attempts attempts.Store

	// DLQ says where dead letters go. Default: an existing topic "<source>.dlq". Its Redact sees every error text of the handler before it is logged,
	// stored or shown.
	DLQ dlq.Config

	// HandlerTimeout ends the context of a call. A handler that has not returned a second later has failed, and its partition is stalled
	// until it does return. Default: max.poll.interval.ms of Kafka.
	HandlerTimeout time.Duration

	// DrainTimeout is how long a revoke and a shutdown wait for the records in hand. Default 20 s, and never more than half of
	// max.poll.interval.ms, since the whole group waits with us.
	DrainTimeout time.Duration

	// CommitInterval is how often stored offsets are committed. Default 1 s. A crash repeats the records since the last commit.
	CommitInterval time.Duration

	// BufferBytes bounds the records that wait in memory, over all partitions; each has an equal share, and may always hold one record. What the
	// client prefetches is bounded by queued.max.messages.kbytes for each partition, besides. Default 64 MiB.
	BufferBytes int64

	// PendingLetters is how many dead letters of permanent records may be on their way for one partition while it goes on.
	// Default 1000: what a fast stream with one bad record in ten writes in the time of a broker's acknowledgement.
	PendingLetters int

	// CrashLimit is after how many calls that the process did not survive a record is not called again. The first death goes unseen. Default 3.
	CrashLimit int

	// Instance names this process in dead letters and in the attempt store. Default: client.id and host.
	Instance string

	// Logger gets one line for each thing that happened. Default: none.
	Logger *zap.Logger

	// Observers are told what happened, after the logger.
	Observers []observe.Observer

	// OnEvent gets what the client says through Poll and is not ours: statistics, errors, OAUTHBEARER token refreshes; and what the DLQ's producer says, unless
	// DLQ.OnEvent is set. It runs on the poll goroutine, or on the producer's: it must not block.
	OnEvent func(kafka.Event)

	// OnRebalance is told of kafka.AssignedPartitions and kafka.RevokedPartitions, after the assignment was carried out. It runs on the poll goroutine:
	// it must not block, and must not touch the client.
	OnRebalance func(kafka.Event)
}

// The defaults, and the bounds that no setting moves.
const (
	defaultDrainTimeout   = 20 * time.Second
	defaultCommitInterval = time.Second
	defaultBufferBytes    = 64 << 20
	defaultPendingLetters = 1000
	defaultCrashLimit     = 3

	stallAfter    = time.Second      // beyond HandlerTimeout
	lookUpTimeout = 2 * time.Second  // for the committed offsets, within the rebalance callback
	closeTimeout  = 10 * time.Second // for the client's Close, which can hang for ever (confluent-kafka-go#1588)
	calmPoll      = 100 * time.Millisecond
	busyPoll      = 10 * time.Millisecond
)

// Validate reports every mistake at once. Run, New and Wrap call it.
func (c *Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("consumer: "+format, args...)) }
	if c.Kafka == nil {
		wrong("Kafka is missing: give the kafka.ConfigMap of the client, with bootstrap.servers and group.id")
	} else {
		if setting(c.Kafka, "group.id", "") == "" {
			wrong(`Kafka has no "group.id": offsets and attempts are kept by group`)
		}
		if setting(c.Kafka, "bootstrap.servers", setting(c.Kafka, "metadata.broker.list", "")) == "" {
			wrong(`Kafka has no "bootstrap.servers": name a broker or two`)
		}
		if err := refuse(c.Kafka); err != nil {
			errs = append(errs, err)
		}
	}
	if len(c.Topics) == 0 {
		wrong("Topics is empty: name at least one topic")
	}
	for i, t := range c.Topics {
		switch {
		case t == "":
			wrong("Topics[%d] is empty", i)
		case slices.Contains(c.Topics[:i], t):
			wrong("Topics[%d]: %q is there twice", i, t)
		case t[0] == '^':
			if _, err := regexp.CompilePOSIX(t); err != nil {
				wrong("Topics[%d]: %q begins with ^ and is no regular expression: %w", i, t, err)
			}
		case topicname.Check(t) != nil:
			wrong("Topics[%d]: %w", i, topicname.Check(t))
		case c.DLQ.TopicFor(t) == t:
			wrong("Topics[%d]: the DLQ of %q is the topic itself; set another DLQ.Topic", i, t)
		case slices.Contains(c.Topics, c.DLQ.TopicFor(t)):
			wrong("Topics[%d]: %q and its DLQ %q are both consumed, so a dead letter would come back as a record; leave the DLQ out, or set another DLQ.Topic", i, t, c.DLQ.TopicFor(t))
		}
	}
	if c.Handler == nil {
		wrong("Handler is missing")
	}
	switch {
	case c.Strategy == nil:
		wrong(`Strategy is missing: use strategy.Watch(ctx, "strategy.json")`)
	case isNil(c.Strategy):
		wrong("Strategy is a nil %T: has Watch or Load answered an error?", c.Strategy)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"HandlerTimeout", c.HandlerTimeout}, {"DrainTimeout", c.DrainTimeout}, {"CommitInterval", c.CommitInterval}} {
		if d.value < 0 {
			wrong("%s is negative (%v); 0 is the default", d.name, d.value)
		}
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"BufferBytes", c.BufferBytes}, {"PendingLetters", int64(c.PendingLetters)}, {"CrashLimit", int64(c.CrashLimit)}} {
		if n.value < 0 {
			wrong("%s is negative (%d); 0 is the default", n.name, n.value)
		}
	}
	if err := c.DLQ.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isNil finds the nil pointer in an interface: what a function answers besides an error that nobody looked at.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// withDefaults fills in what was left open. c is valid.
func (c Config) withDefaults() Config {
	maxPoll := maxPollInterval(c.Kafka)
	if c.Classify == nil {
		c.Classify = failure.Classify
	}
	if c.Attempts == nil {
		c.Attempts = attempts.Memory()
	}
	if c.HandlerTimeout == 0 {
		c.HandlerTimeout = maxPoll
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = defaultDrainTimeout
	}
	c.DrainTimeout = min(c.DrainTimeout, maxPoll/2)
	if c.CommitInterval == 0 {
		c.CommitInterval = defaultCommitInterval
	}
	if c.BufferBytes == 0 {
		c.BufferBytes = defaultBufferBytes
	}
	if c.PendingLetters == 0 {
		c.PendingLetters = defaultPendingLetters
	}
	if c.CrashLimit == 0 {
		c.CrashLimit = defaultCrashLimit
	}
	if c.Instance == "" {
		c.Instance = instanceName(c.Kafka)
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.DLQ.OnEvent == nil {
		c.DLQ.OnEvent = c.OnEvent
	}
	return c
}
