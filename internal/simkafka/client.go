package simkafka

// A Client is what a test puts in the place of a *kafka.Consumer: its settings, its state and the calls that only look.
//
// The rest of it: poll.go (Poll, Close), membership.go (its side of the group), assignment.go, fetch.go (partitions,
// pause, seek), offsets.go (store, commit, look-ups), faults.go.

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// The protocols of a group. A zero Options.Protocol is Range.
const (
	Range       = "range"              // eager
	Cooperative = "cooperative-sticky" // incremental
	Consumer    = "consumer"           // group.protocol=consumer, KIP-848
)

// Options are the settings of a client. Zero values are the defaults of librdkafka, save that offsets do not store
// themselves and are not committed by themselves, that the prefetch is small and that the log goes nowhere.
type Options struct {
	Group           string // group.id; required
	ClientID        string // default "client-N", N counting the clients of the cluster
	InstanceID      string // group.instance.id
	Protocol        string // Range, Cooperative or Consumer; default Range
	AutoOffsetReset string // latest (default), earliest or error

	AutoOffsetStore    bool          // enable.auto.offset.store
	AutoCommit         bool          // enable.auto.commit
	AutoCommitInterval time.Duration // default 5 s

	MaxPollInterval   time.Duration // default 5 min
	SessionTimeout    time.Duration // default 45 s
	HeartbeatInterval time.Duration // default 3 s

	Prefetch int           // records that are fetched ahead per partition; default 16
	Latency  time.Duration // of a request to a broker; default 2 ms

	EventsChannel bool                // go.events.channel.enable: Events is not nil
	OAuthBearer   bool                // sasl.mechanism=OAUTHBEARER: the token setters succeed, and Poll asks for a token
	Logs          chan kafka.LogEvent // what Logs answers

	Faults Faults
}

func (o *Options) setDefaults(n int) {
	o.ClientID = cmp.Or(o.ClientID, "client-"+strconv.Itoa(n))
	o.Protocol = cmp.Or(o.Protocol, Range)
	o.AutoOffsetReset = cmp.Or(o.AutoOffsetReset, "latest")
	o.AutoCommitInterval = cmp.Or(o.AutoCommitInterval, 5*time.Second)
	o.MaxPollInterval = cmp.Or(o.MaxPollInterval, 5*time.Minute)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 45*time.Second)
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 3*time.Second)
	o.Prefetch = cmp.Or(o.Prefetch, 16)
	o.Latency = cmp.Or(o.Latency, 2*time.Millisecond)
}

func (o *Options) check() {
	switch {
	case o.Group == "":
		panic("simkafka: Options.Group is empty")
	case !slices.Contains([]string{Range, Cooperative, Consumer}, o.Protocol):
		panic(fmt.Sprintf("simkafka: unknown Options.Protocol %q", o.Protocol))
	case !slices.Contains([]string{"latest", "earliest", "error"}, o.AutoOffsetReset):
		panic(fmt.Sprintf("simkafka: unknown Options.AutoOffsetReset %q", o.AutoOffsetReset))
	}
}

// A Client has the methods of *kafka.Consumer that the loop uses. Like it, it is safe for concurrent use but for Poll and
// Close, which crash the real one when they overlap and panic here.
type Client struct {
	k     *Cluster
	opt   Options
	group *group
	woken chan struct{}
	timer *time.Timer

	draw, fault, net *rand.Rand // records; faults; what the network does

	topics []string
	cb     kafka.RebalanceCb
	events chan kafka.Event

	// Membership, see membership.go.
	state           state
	memberID        string
	generation      int
	knowsProtocol   bool
	beatPhase       time.Duration
	joins           int   // counts requests to join: the answer to an older one is dropped
	groupAssignment []tp  // what the group gave, sorted; nil under Range when nothing was given since the last revoke
	follow          *[]tp // the assign that follows the revoke under way
	rejoin          bool  // join again when the rebalance under way is done
	target          *given
	lost            bool
	wasRefused      bool

	// Assignment and partitions, see assignment.go and fetch.go.
	partitions map[tp]*partition // all that were ever assigned: pauses live here
	assigned   []*partition      // sorted
	cursor     int
	burst      int
	fetched    int

	// Offsets, see offsets.go.
	commits  int // under way
	blocking int // calls that wait for a broker

	// Polling, see poll.go.
	queue      []item
	polling    bool
	inCallback bool
	reassigned bool
	lastPoll   time.Duration
	watching   bool // a check of max.poll.interval.ms is planned
	exceeded   bool // and no Poll since
	joinAtPoll bool

	fatal, crashed, closing, left, closed bool
	tokens                                []kafka.OAuthBearerToken
	misuse                                []string
}

// NewClient makes a client. Call it inside the bubble.
func (k *Cluster) NewClient(opt Options) *Client {
	k.lock()
	defer k.unlock()
	n := len(k.clients)
	opt.setDefaults(n)
	opt.check()
	id := strconv.Itoa(n)
	c := &Client{
		k: k, opt: opt, group: k.group(opt.Group), woken: make(chan struct{}, 1), timer: time.NewTimer(time.Hour),
		draw: k.rng("draw", id), fault: k.rng("fault", id), net: k.rng("net", id),
		generation: -1, partitions: map[tp]*partition{}, lastPoll: k.now(),
	}
	c.timer.Stop()
	if opt.EventsChannel {
		c.events = make(chan kafka.Event, 1000)
	}
	if opt.OAuthBearer {
		c.post(kafka.OAuthBearerTokenRefresh{})
	}
	k.clients = append(k.clients, c)
	return c
}

// SubscribeTopics subscribes, once in a client's life. The client joins its group without being polled.
func (c *Client) SubscribeTopics(topics []string, cb kafka.RebalanceCb) error {
	c.k.lock()
	defer c.k.unlock()
	switch {
	case c.closed:
		return errClosed
	case len(topics) == 0:
		return errorOf(kafka.ErrInvalidArg)
	case c.topics != nil:
		panic("simkafka: a second SubscribeTopics is not modelled")
	}
	c.topics, c.cb = slices.Clone(topics), cb
	c.knowsProtocol = c.opt.Protocol == Consumer
	c.k.after(c.opt.Latency, func() {
		for _, name := range c.topics {
			if c.k.topics[name] == nil {
				c.post(kafka.NewError(kafka.ErrUnknownTopicOrPart, "Subscribed topic not available: "+name+": Broker: Unknown topic or partition", false))
			}
		}
	})
	c.lastPoll = c.k.now()
	c.watchPoll()
	c.planAutoCommit()
	c.join()
	return nil
}

// Subscription is what was subscribed.
func (c *Client) Subscription() ([]string, error) {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return nil, errClosed
	}
	return slices.Clone(c.topics), nil
}

// Events is nil unless Options.EventsChannel.
func (c *Client) Events() chan kafka.Event { return c.events }

// Logs is Options.Logs.
func (c *Client) Logs() chan kafka.LogEvent { return c.opt.Logs }

// GetRebalanceProtocol is NONE until the client has joined, then EAGER or COOPERATIVE.
func (c *Client) GetRebalanceProtocol() string {
	c.k.lock()
	defer c.k.unlock()
	switch {
	case !c.knowsProtocol:
		return "NONE"
	case c.eager():
		return "EAGER"
	default:
		return "COOPERATIVE"
	}
}

func (c *Client) eager() bool { return c.opt.Protocol == Range }

// AssignmentLost is true from the loss to the call that answers its revoke (1.5.6).
func (c *Client) AssignmentLost() bool {
	c.k.lock()
	defer c.k.unlock()
	return c.lost
}

// SetOAuthBearerToken keeps the token, see Tokens.
func (c *Client) SetOAuthBearerToken(token kafka.OAuthBearerToken) error {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return errClosed
	}
	if !c.opt.OAuthBearer {
		return kafka.NewError(kafka.ErrState, "SASL/OAUTHBEARER is not the configured authentication mechanism", false)
	}
	c.tokens = append(c.tokens, token)
	return nil
}

// SetOAuthBearerTokenFailure has the client ask for a token again ten seconds later.
func (c *Client) SetOAuthBearerTokenFailure(string) error {
	c.k.lock()
	defer c.k.unlock()
	if c.closed {
		return errClosed
	}
	if !c.opt.OAuthBearer {
		return errorOf(kafka.ErrState)
	}
	c.k.after(10*time.Second, func() { c.post(kafka.OAuthBearerTokenRefresh{}) })
	return nil
}

// Tokens are those that were set.
func (c *Client) Tokens() []kafka.OAuthBearerToken {
	c.k.lock()
	defer c.k.unlock()
	return slices.Clone(c.tokens)
}

// MemberID is what the client believes to be its id in the group: empty while it is no member.
func (c *Client) MemberID() string {
	c.k.lock()
	defer c.k.unlock()
	return c.memberID
}

// Fetched counts the records that came over the network, those included that a pause threw away (1.1.4).
func (c *Client) Fetched() int {
	c.k.lock()
	defer c.k.unlock()
	return c.fetched
}

// Paused reports whether the application's pause is on the partition. The real client does not tell (1.1.2): it is for
// assertions, not for the loop.
func (c *Client) Paused(topic string, p int32) bool {
	c.k.lock()
	defer c.k.unlock()
	known := c.partitions[tp{topic, p}]
	return known != nil && known.paused
}

// Misuse lists calls that the real client takes, but that its user must not make: changes from another goroutine while
// Poll runs, calls to a broker that are under way when Close ends.
func (c *Client) Misuse() []string {
	c.k.lock()
	defer c.k.unlock()
	return slices.Clone(c.misuse)
}

// changes notes a call that only the polling goroutine may make. While Poll waits, that can't be who calls.
func (c *Client) changes(call string) {
	if c.polling && !c.inCallback {
		c.misuse = append(c.misuse, call+" while another goroutine polls")
	}
}

var errClosed = kafka.NewError(kafka.ErrState, "Operation not allowed on closed client", false)

// gone: nothing that the group does reaches the client any more.
func (c *Client) gone() bool { return c.fatal || c.crashed || c.left || c.closed }

func (c *Client) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}
