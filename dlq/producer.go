package dlq

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"go.uber.org/zap"

	"github.com/breakwater-go/breakwater/internal/clientlog"
)

// A producer is always there, or on its way: when its client fails for good, as an idempotent one may, another is started,
// and whatever the old one had not answered for is answered with an error. Every record that send takes is answered exactly
// once, from a goroutine of the producer's, in nobody's lock.

// A client that fails is replaced at once; one that fails young, as every one does where the broker refuses us, after a
// second, two, four, and so on.
const (
	young        = 30 * time.Second
	firstRebirth = time.Second
	lastRebirth  = 30 * time.Second
)

type producer struct {
	settings kafka.ConfigMap
	log      *zap.Logger
	lines    *clientlog.Thinner
	onEvent  func(kafka.Event)

	mu     sync.Mutex
	client *client       // nil while it is being replaced, and when closed
	why    error         // why client is nil
	after  time.Duration // how long to wait before the next is started
	token  *kafka.OAuthBearerToken
	closed chan struct{}
	wg     sync.WaitGroup // every goroutine of ours
}

// client is one kafka.Producer and the records that it has not answered for.
type client struct {
	*kafka.Producer
	born   time.Time
	uses   sync.WaitGroup // calls that are in it
	silent chan struct{}  // closed when all that it said was heard

	mu      sync.Mutex
	open    map[*answer]struct{}
	empty   chan struct{} // closed when end is set and open is empty
	end     error         // why it is given up
	trouble error         // what it last said about the cluster,
	since   time.Time     // and when
}

// answer is what is called when the fate of a record is known.
type answer struct{ call func(error) }

func newProducer(settings kafka.ConfigMap, log *zap.Logger, lines *clientlog.Thinner, onEvent func(kafka.Event)) (*producer, error) {
	p := &producer{settings: settings, log: log, lines: lines, onEvent: onEvent, closed: make(chan struct{})}
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("dlq: the producer could not be made from the consumer's settings and Config.Kafka: %w", err)
	}
	return p, nil
}

// start makes a client, puts it in force and listens to it until it is closed.
func (p *producer) start() error {
	kp, err := kafka.NewProducer(&p.settings)
	if err != nil {
		return err
	}
	c := &client{Producer: kp, born: time.Now(), open: map[*answer]struct{}{}, empty: make(chan struct{}), silent: make(chan struct{})}
	p.mu.Lock()
	late := p.why == ErrClosed
	if !late {
		p.client = c
		if p.token != nil {
			_ = c.SetOAuthBearerToken(*p.token) // one that has expired is asked for again
		}
	}
	p.mu.Unlock()
	p.wg.Go(func() {
		for line := range kp.Logs() {
			p.lines.Line(line)
		}
	})
	p.wg.Go(func() {
		for e := range kp.Events() {
			p.hear(c, e)
		}
		close(c.silent)
	})
	if late {
		c.retire(ErrClosed)
	}
	return nil
}

// hear takes what the client says.
func (p *producer) hear(c *client, e kafka.Event) {
	switch e := e.(type) {
	case *kafka.Message:
		c.settle(e.Opaque.(*answer), e.TopicPartition.Error)
		return
	case kafka.Error:
		if e.IsFatal() {
			p.replace(c, e)
		} else {
			c.note(e)
		}
	}
	if p.onEvent != nil {
		p.onEvent(e)
	}
}

// send hands m to the client. An error means that m was not taken and answer will not be called.
func (p *producer) send(m *kafka.Message, call func(error)) error {
	return p.use(func(c *client) error {
		a := &answer{call}
		c.mu.Lock()
		c.open[a] = struct{}{}
		c.mu.Unlock()
		m.Opaque = a
		err := c.Produce(m, nil)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.open, a)
			return c.explained(err)
		}
		return nil
	})
}

// use calls f with the client in force, which is not closed before f returns.
func (p *producer) use(f func(*client) error) error {
	p.mu.Lock()
	c, why := p.client, p.why
	if c != nil {
		c.uses.Add(1)
	}
	p.mu.Unlock()
	if c == nil {
		return why
	}
	defer c.uses.Done()
	return f(c)
}

// settle answers a record, unless that was done.
func (c *client) settle(a *answer, err error) {
	c.mu.Lock()
	_, found := c.open[a]
	delete(c.open, a)
	if c.end != nil && found && len(c.open) == 0 {
		close(c.empty)
	}
	if err != nil {
		err = c.explained(err)
	}
	c.mu.Unlock()
	if found {
		a.call(err)
	}
}

// explained puts before an error of the client's the reason that it does not tell.
func (c *client) explained(err error) error {
	switch kafkaCode(err) {
	case kafka.ErrPurgeQueue, kafka.ErrPurgeInflight, kafka.ErrFatal:
		if c.end != nil {
			return c.end
		}
		return failed(c.GetFatalError())
	case kafka.ErrMsgTimedOut:
		if c.trouble != nil && time.Since(c.since) < time.Minute {
			return fmt.Errorf("%w: %w", c.trouble, err)
		}
	}
	return err
}

// note keeps what the client last said about the cluster: a letter that times out has no better explanation.
func (c *client) note(e kafka.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trouble == nil || e.Code() != kafka.ErrAllBrokersDown { // which does not say why
		c.trouble = e
	}
	c.since = time.Now()
}

// failed is the error of the letters whose producer failed for good.
func failed(cause error) error {
	if cause == nil {
		return errReplaced
	}
	return fmt.Errorf("%w: %w", errReplaced, cause)
}

func (c *client) lastTrouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// replace gives up a client that failed for good and starts another.
func (p *producer) replace(dead *client, cause kafka.Error) {
	p.mu.Lock()
	if p.client != dead {
		p.mu.Unlock()
		return
	}
	p.client, p.why = nil, failed(cause)
	wait := p.after
	if time.Since(dead.born) > young {
		wait = 0
	}
	p.after = min(max(2*wait, firstRebirth), lastRebirth)
	p.mu.Unlock()

	p.log.Error("dlq: the producer failed and is replaced; letters that it did not get acknowledged are to be written again",
		zap.Error(cause), zap.Duration("after", wait))
	p.wg.Go(func() { dead.retire(failed(cause)) })
	p.wg.Go(func() { p.revive(wait) })
}

// revive starts a client after a while, and goes on until one starts or the producer is closed.
func (p *producer) revive(after time.Duration) {
	for {
		select {
		case <-p.closed:
			return
		case <-time.After(after):
		}
		err := p.start()
		if err == nil {
			return
		}
		p.log.Error("dlq: the producer could not be started again; letters wait until it can", zap.Error(err))
		after = lastRebirth
	}
}

// retire closes a client, and answers with why whatever the broker has not answered by now.
func (c *client) retire(why error) {
	c.uses.Wait()
	c.mu.Lock()
	c.end = why
	if len(c.open) == 0 {
		close(c.empty)
	}
	c.mu.Unlock()
	_ = c.Purge(kafka.PurgeQueue | kafka.PurgeInFlight) // answers what it can
	select {
	case <-c.empty:
	case <-time.After(time.Second):
	}
	c.Producer.Close()
	<-c.silent
	c.mu.Lock()
	rest := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, a := range rest {
		c.settle(a, why)
	}
}

// setToken gives the client an OAUTHBEARER token, and keeps it for the one that may replace it.
func (p *producer) setToken(t kafka.OAuthBearerToken) error {
	p.mu.Lock()
	p.token = &t
	p.mu.Unlock()
	err := p.use(func(c *client) error { return c.SetOAuthBearerToken(t) })
	if errors.Is(err, errReplaced) {
		return nil // the next one takes it
	}
	return err
}

// inherit takes over the token of another producer.
func (p *producer) inherit(from *producer) {
	from.mu.Lock()
	token := from.token
	from.mu.Unlock()
	if token != nil {
		_ = p.setToken(*token) // one that has expired; the next is on its way
	}
}

// close gives up what is not acknowledged. It is called once; send refuses from then on.
func (p *producer) close() {
	p.mu.Lock()
	close(p.closed)
	c := p.client
	p.client, p.why = nil, ErrClosed
	p.mu.Unlock()
	if c != nil {
		c.retire(ErrClosed)
	}
	p.wg.Wait()
}
