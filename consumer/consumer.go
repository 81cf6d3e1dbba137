// Package consumer is the loop around a confluent consumer: it calls a handler for one record after the other, stops when the system
// behind the handler is down, waits, probes with one record, and goes on; and what waiting can't cure goes to a dead letter queue.
//
// New makes the client from a kafka.ConfigMap; Wrap takes a client that exists. Run does the work.
package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/consumer/internal/decide"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/internal/clientlog"
	"github.com/breakwater-go/breakwater/observe"
)

// What Run ends with, besides nil. Each is wrapped in a sentence.
var (
	ErrFenced       = errors.New("the group takes another member for the owner of our group.instance.id")
	ErrFatal        = errors.New("the Kafka client has failed for good")
	ErrDrainTimeout = errors.New("a handler did not return in time")
	ErrCloseTimeout = errors.New("the Kafka client did not close in time")
	ErrNotRunning   = errors.New("the consumer is not running")
)

// partition is how a partition is called in this package: by topic and number, comparable.
type partition = attempts.Partition

func name(p partition) string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// deadLetters is what the loop needs of a *dlq.Writer.
type deadLetters interface {
	Check(ctx context.Context, sources []string) error
	Write(l dlq.Letter, done func(error))
	SetOAuthBearerToken(kafka.OAuthBearerToken) error
	SetOAuthBearerTokenFailure(string) error
	Close(ctx context.Context) error
}

// Consumer runs one client. Its methods may be called from any goroutine.
type Consumer struct {
	cfg     Config
	client  Client
	letters deadLetters
	group   string
	owner   string // the token of this process in the attempt store
	started atomic.Bool

	// mu guards the desk, and nothing that blocks happens under it. See decide.
	mu    sync.Mutex
	desk  *decide.Desk
	alarm *time.Timer // calls the desk when time alone changes something
	armed time.Time
	lanes map[partition]*lane

	keeper *keeper
	postal *postal
	events *events
	commit *committer
	logs   *clientlog.Thinner
	thin   thin
	skips  skips

	base    context.Context // of the handlers' contexts: Run's values, without its end
	running atomic.Bool
	deaf    chan struct{}  // closed when the inbox is not read any more
	stopped chan struct{}  // closed when Run returns
	asking  sync.WaitGroup // goroutines that ask the broker something

	inbox    chan func() // what other goroutines have for the poll goroutine
	kicked   atomic.Bool // store and commit at once
	made     time.Time
	lastPoll atomic.Int64 // nanoseconds since it was made; 0: none yet. A step of the wall clock doesn't show

	// What the client was told: paused or not. It outlives the assignments, as the client's own flag does. Written by the poll goroutine, under mu.
	told map[partition]bool

	// What an operator has paused. It outlives the assignments as well. Guarded by mu.
	wished    map[partition]bool
	wishedAll bool
	fatalText string

	waking, wakeAgain atomic.Bool

	// The rest is the poll goroutine's own.
	fatal      error
	closing    bool
	eager      bool // the rebalance protocol of the last rebalance
	restless   bool // something is paused, held or draining: poll for 10 ms at most
	slow       bool // polls are rare, and each is for one record
	draining   atomic.Bool
	looking    bool // for the starts of partitions
	watching   bool // over silent partitions
	unsaid     bool // offsets are stored that no commit was asked for
	lastTick   time.Time
	lastStore  time.Time
	lastCommit time.Time
	lastWatch  time.Time

	crowdedSince time.Time // when a lane became full; zero: none is
	lastLane     *lane
	touched      []*lane
	gathered     int
	gatheredB    int64
	brimming     bool  // a lane has its share with what is gathered
	share        int64 // bytes that a lane may hold
}

// New makes the client and everything around it. Run starts it.
func New(cfg Config) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := make(kafka.ConfigMap, len(*cfg.Kafka))
	for k, v := range *cfg.Kafka {
		m[k] = v
	}
	if err := Prepare(&m); err != nil {
		return nil, err
	}
	client, err := kafka.NewConsumer(&m)
	if err != nil {
		return nil, fmt.Errorf("consumer: the Kafka client was not made: %w", err)
	}
	cfg.Kafka = &m
	c, err := Wrap(client, cfg)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return c, nil
}

// Wrap takes a client that exists: a *kafka.Consumer, or anything with its methods. cfg.Kafka is the map that it was made from, after Prepare. A client that
// stores offsets by itself, is subscribed already or uses the events channel is refused. Run closes the client at its end; until then it is the
// consumer's alone.
func Wrap(client Client, cfg Config) (*Consumer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if client == nil || isNil(client) {
		return nil, errors.New("consumer: there is no client to wrap: has kafka.NewConsumer answered an error?")
	}
	if err := inspect(client); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	w, err := dlq.NewWriter(cfg.DLQ, cfg.Kafka, cfg.Logger)
	if err != nil {
		return nil, err
	}
	return assemble(client, cfg, w), nil
}

// inspect finds out, without a broker, what a client was made for.
func inspect(client Client) error {
	var errs []error
	if client.Events() != nil {
		errs = append(errs, errors.New("consumer: the client uses the events channel: leave go.events.channel.enable out"))
	}
	if topics, err := client.Subscription(); err == nil && len(topics) > 0 {
		errs = append(errs, fmt.Errorf("consumer: the client is subscribed already, to %v: Run subscribes, with its own rebalance callback", topics))
	}
	// A client that stores offsets by itself refuses even an empty list, before it has asked any broker.
	if _, err := client.StoreOffsets([]kafka.TopicPartition{}); err != nil {
		errs = append(errs, fmt.Errorf("consumer: the client stores offsets by itself, so a crash would lose records: make it with enable.auto.offset.store=false (Prepare does): %w", err))
	}
	return errors.Join(errs...)
}

func assemble(client Client, cfg Config, letters deadLetters) *Consumer {
	c := &Consumer{
		cfg:     cfg,
		made:    time.Now(),
		client:  client,
		letters: letters,
		group:   setting(cfg.Kafka, "group.id", ""),
		owner:   cfg.Instance + "/" + strconv.FormatUint(rand.Uint64(), 36),
		desk:    decide.New(decide.Settings{Strategy: cfg.Strategy, CrashLimit: cfg.CrashLimit, Pending: cfg.PendingLetters}),
		lanes:   map[partition]*lane{},
		deaf:    make(chan struct{}),
		stopped: make(chan struct{}),
		inbox:   make(chan func(), 64),
		logs:    clientlog.New(cfg.Logger, "kafka client"),
		base:    context.Background(),
		told:    map[partition]bool{},
		wished:  map[partition]bool{},
	}
	c.events = newEvents(append([]observe.Observer{observe.Zap(cfg.Logger)}, cfg.Observers...))
	c.keeper = newKeeper(c)
	c.postal = newPostal(c)
	c.commit = newCommitter(c)
	return c
}

// decide lets f tell the desk something, and has carried out, or put on its way, what the desk answers with when it returns.
func (c *Consumer) decide(f func(now time.Time)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(time.Now())
	c.carryOut()
}

// carryOut puts the desk's effects on their way, in order. It is called under mu: nothing here blocks.
func (c *Consumer) carryOut() {
	effects := c.desk.Effects()
	for i := range effects {
		e := &effects[i]
		var l *lane
		if e.Part != nil {
			l = e.Part.Owner.(*lane)
		}
		switch e.Do {
		case decide.Wake:
			l.signal()
		case decide.Save:
			c.keeper.save(l, e.Record, e.Entry)
		case decide.Unnote:
			c.keeper.unnote(l, e.Record, e.Entry)
		case decide.Forget:
			c.keeper.forget(l, e.Below)
		case decide.Send:
			c.postal.send(l, e.Letter)
		case decide.Commit:
			c.kicked.Store(true)
		case decide.Tell:
			c.events.tell(e.Event)
		}
		*e = decide.Effect{}
	}
	c.rearm()
}

// rearm sets the alarm to the instant at which time alone changes something.
func (c *Consumer) rearm() {
	at := c.desk.WakeAt()
	if c.alarm == nil || at.IsZero() || at.Equal(c.armed) {
		return
	}
	c.armed = at
	c.alarm.Reset(max(0, time.Until(at)))
}

func (c *Consumer) tell(e observe.Event) {
	e.At = time.Now()
	c.events.tell(e)
}
