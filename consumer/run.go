package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
	"github.com/breakwater-go/breakwater/strategy"
)

// Run consumes until ctx ends or the client fails for good. When ctx ends the intake stops, the records in hand are finished within Config.DrainTimeout, what is done is
// committed, and the client is closed: nil then, or ErrDrainTimeout or ErrCloseTimeout. Else ErrFenced or ErrFatal, or why it could not start. A Consumer runs once.
//
// Whatever Run answers, no record is lost: what was not done is not committed, and comes again.
func (c *Consumer) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return errors.New("consumer: Run was called before: make a new Consumer")
	}
	defer close(c.stopped)
	c.base = context.WithoutCancel(ctx)
	go c.events.run()
	defer c.events.close()
	c.warn()
	if err := c.checkDLQ(ctx); err != nil {
		if ctx.Err() != nil {
			return c.close() // stopped before it had begun: no broker is to blame
		}
		c.tell(observe.Event{Kind: observe.Fatal, Err: err})
		return errors.Join(err, c.close())
	}

	go c.postal.run()
	go c.commit.run()
	c.keeper.start()
	go c.readLogs()
	c.alarm = time.AfterFunc(time.Hour, c.ring)
	defer c.alarm.Stop()
	if w, ok := c.cfg.Strategy.(reloader); ok {
		defer w.OnReload(c.reloaded)()
	}

	// Subscribed before the first Poll: the binding keeps the callback without a lock.
	err := c.client.SubscribeTopics(c.cfg.Topics, c.rebalance)
	if err != nil {
		err = fmt.Errorf("consumer: the client did not subscribe to %s: %w", strings.Join(c.cfg.Topics, ", "), err)
	} else {
		c.running.Store(true)
		c.tell(observe.Event{Kind: observe.Started, Text: fmt.Sprintf("group %s, topics %s; %v", c.group, strings.Join(c.cfg.Topics, ", "), c.cfg.Strategy.Current())})
		c.poll(ctx)
		c.running.Store(false)
		err = c.ending()
	}
	return errors.Join(err, c.shutDown())
}

// checkDLQ finds out whether dead letters will have a place. A broker that is away at the start is waited for, as everywhere: nothing is consumed meanwhile.
func (c *Consumer) checkDLQ(ctx context.Context) error {
	for {
		err := c.letters.Check(ctx, c.cfg.Topics)
		if !errors.Is(err, dlq.ErrNoAnswer) {
			return err
		}
		c.tell(observe.Event{Kind: observe.ClientError, Err: fmt.Errorf("consumer: not started yet: %w", err)})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// ending says why the poll loop has ended; nil: it was asked to.
func (c *Consumer) ending() error {
	switch {
	case c.fatal == nil:
		return nil
	case code(c.fatal) == kafka.ErrFencedInstanceID, code(c.fatal) == kafka.ErrFenced, code(c.fatal) == kafka.ErrUnreleasedInstanceID:
		return fmt.Errorf("consumer: %w: %w; give each instance its own, and restart this one", ErrFenced, c.fatal)
	default:
		return fmt.Errorf("consumer: %w: %w; restart it", ErrFatal, c.fatal)
	}
}

// ring is the alarm: time alone has changed something.
func (c *Consumer) ring() {
	c.decide(func(now time.Time) {
		c.armed = time.Time{}
		c.desk.Tick(now)
	})
}

func (c *Consumer) warn() {
	if d, ok := c.cfg.Attempts.(attempts.Durability); ok && !d.Durable() {
		c.tell(observe.Event{Kind: observe.Warning,
			Text: "attempts are kept in memory: a restart, a crash or a move to another instance starts the strategy of a failed record over, and calls it at once; attempts.Redis keeps them"})
	}
	if setting(c.cfg.Kafka, "group.protocol", "") == "consumer" {
		major, text := kafka.LibraryVersion()
		if major < 0x020c0000 {
			c.tell(observe.Event{Kind: observe.Warning,
				Text: "group.protocol=consumer is a preview in librdkafka " + text + ", not meant for production before 2.12.0"})
		}
	}
	if c.cfg.DrainTimeout < c.cfg.HandlerTimeout && c.cfg.HandlerTimeout != maxPollInterval(c.cfg.Kafka) {
		c.tell(observe.Event{Kind: observe.Warning,
			Text: fmt.Sprintf("DrainTimeout (%v) is shorter than HandlerTimeout (%v): a revoke or a shutdown can cut a call short, and the record is called again", c.cfg.DrainTimeout, c.cfg.HandlerTimeout)})
	}
}

// reloader is a strategy that changes while it is in force, and says so: a *strategy.Watcher.
type reloader interface {
	OnReload(f func(strategy.Reload)) (stop func())
}

// reloaded tells what became of an edit of the strategy file, and sets free what the new one does not hold.
func (c *Consumer) reloaded(r strategy.Reload) {
	if r.Err != nil {
		c.tell(observe.Event{Kind: observe.ReloadRefused, Err: r.Err, Text: r.Path})
		return
	}
	text := fmt.Sprintf("%s: %v", r.Path, r.New)
	if len(r.NeedsRestart) > 0 {
		text += "; read at start only, so a restart is needed for: " + strings.Join(r.NeedsRestart, ", ")
	}
	c.tell(observe.Event{Kind: observe.Reloaded, Text: text})
	c.decide(c.desk.Reloaded)
}

// shutDown finishes what is in hand, and closes everything that Run has opened, within bounds.
func (c *Consumer) shutDown() error {
	began := time.Now()
	c.tell(observe.Event{Kind: observe.Stopping, Text: c.inHand()})
	c.closing = true
	close(c.deaf)
	lanes := make([]*lane, 0, len(c.lanes))
	for _, l := range c.lanes {
		lanes = append(lanes, l)
	}
	if c.fatal == nil {
		c.drain(lanes, c.cfg.DrainTimeout)
	}
	c.drop(lanes)
	c.alarm.Stop()
	var errs []error
	if hung := c.hung(lanes); hung != "" {
		errs = append(errs, fmt.Errorf("consumer: %w: %s; the record comes again after a restart", ErrDrainTimeout, hung))
	}
	errs = append(errs, c.close())
	err := errors.Join(errs...)
	c.tell(observe.Event{Kind: observe.Stopped, For: time.Since(began), Err: err})
	return err
}

// inHand names the records that are being called. Who has killed a process that took too long to stop wants to know by whom it was kept.
func (c *Consumer) inHand() string {
	var names []string
	for _, l := range c.lanes {
		if m := l.current.Load(); m != nil {
			names = append(names, fmt.Sprintf("%s@%v", name(l.id()), m.TopicPartition.Offset))
		}
	}
	slices.Sort(names)
	if n := len(names); n > manyNames {
		names = append(names[:manyNames], fmt.Sprintf("and %d more", n-manyNames))
	}
	return strings.Join(names, ", ")
}

const manyNames = 20 // in one line of a log

// hung names the partitions whose handlers still run.
func (c *Consumer) hung(lanes []*lane) string {
	var names []string
	deadline := time.NewTimer(time.Second)
	defer deadline.Stop()
	for _, l := range lanes {
		select {
		case <-l.ended:
			continue
		default:
		}
		select {
		case <-l.ended:
		case <-deadline.C:
			deadline.Reset(0)
			names = append(names, name(l.id()))
		}
	}
	return strings.Join(names, ", ")
}

// close closes the client, the DLQ's writer and the goroutines around them. What hangs is left behind, and said.
func (c *Consumer) close() error {
	var errs []error
	if c.alarm != nil {
		c.postal.close()
		c.keeper.close()
		close(c.commit.asked)
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := c.letters.Close(ctx); err != nil {
		errs = append(errs, err)
	}
	// A client that is in use must not be closed, and its Close hangs for ever after some fatal errors (confluent-kafka-go#1588).
	closed := make(chan error, 1)
	go func() {
		if c.alarm != nil {
			<-c.commit.ended
		}
		c.asking.Wait()
		closed <- c.client.Close()
	}()
	deadline := time.NewTimer(closeTimeout)
	defer deadline.Stop()
	select {
	case err := <-closed:
		if err != nil {
			errs = append(errs, fmt.Errorf("consumer: the Kafka client was not closed cleanly: %w", err))
		}
	case <-deadline.C:
		errs = append(errs, fmt.Errorf("consumer: %w (%v); it is left behind: end the process", ErrCloseTimeout, closeTimeout))
	}
	return errors.Join(errs...)
}

// readLogs takes librdkafka's own log into the logger, unless the user has a channel of his own for it.
func (c *Consumer) readLogs() {
	logs := c.client.Logs()
	if _, theirs := (*c.cfg.Kafka)["go.logs.channel"]; theirs || logs == nil {
		return
	}
	for {
		select {
		case l, open := <-logs:
			if !open {
				return
			}
			c.logs.Line(l)
		case <-c.stopped:
			return
		}
	}
}
