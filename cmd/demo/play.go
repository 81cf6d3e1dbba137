package main

// The play: one goroutine goes through the script, produces what is due, switches the payment service, and ends when every record is done, when
// nobody can expect that any more, or when it is told to. What others see meanwhile is kept under one mutex.

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/breakwater-go/breakwater/attempts"
	"github.com/breakwater-go/breakwater/bench/stub/server"
	"github.com/breakwater-go/breakwater/consumer"
	"github.com/breakwater-go/breakwater/dlq"
	"github.com/breakwater-go/breakwater/observe"
)

// script says what happens when, counted from the first order.
type script struct {
	partitions, rate int           // orders a second, dealt out to the partitions in turn
	poison           time.Duration // an order that is no JSON
	down, up         time.Duration // the outage
	choke            time.Duration // an order that payments chokes on
	end              time.Duration // the last order; later, where the order before has not come to its end
}

var halfAMinute = script{
	partitions: 6, rate: 20,
	poison: 2500 * time.Millisecond,
	down:   5 * time.Second, up: 10 * time.Second,
	choke: 13 * time.Second,
	end:   26 * time.Second,
}

const (
	latency  = 4 * time.Millisecond  // of payments
	tick     = 20 * time.Millisecond // of the script
	patience = 15 * time.Second      // with records that don't move, beyond the strategy's longest wait
	mostRead = 200_000               // records of a topic that exists: each is counted call by call
)

// nth is which order is sent at that time, and where it comes to lie: in a topic that is ours alone.
func (s script) nth(at time.Duration) (n int, where coordinates) {
	n = int(at.Seconds() * float64(s.rate))
	return n, coordinates{int32(n % s.partitions), int64(n / s.partitions)}
}

// player is one play.
type player struct {
	script
	board   *board
	stage   *stage
	waits   *waits
	service *server.Server
	handler *charger
	letters *reader

	mu       sync.Mutex
	produced map[coordinates]fingerprint
	read     []letter
	failed   error // of the producer
}

func play(ctx context.Context, o options, s script, b *board) (e evidence, err error) {
	path, cleanUp, err := strategyFile(o.strategy)
	if err != nil {
		return e, err
	}
	defer cleanUp()
	w, err := watch(context.WithoutCancel(ctx), path)
	if err != nil {
		return e, err
	}
	defer w.Close()
	st, err := setStage(ctx, o, s.partitions)
	if err != nil {
		return e, err
	}
	defer st.close()
	p := &player{script: s, board: b, stage: st, waits: w, produced: map[coordinates]fingerprint{}}
	b.say("start", plain, fmt.Sprintf("%s, %s; topic %s, %d partitions", st.kafka, st.store, st.topic, st.partitions))
	b.say("start", plain, fmt.Sprintf("%s: edit it while this runs", path))
	return p.play(ctx)
}

func (p *player) play(ctx context.Context) (e evidence, err error) {
	pace, choke := latency, ""
	if p.stage.ours {
		_, at := p.nth(p.choke)
		choke = recordName(p.stage.topic, at)
	} else {
		if err := p.audit(ctx); err != nil {
			return e, err
		}
		// As slow as the play is long, so that there is something to see.
		pace = min(p.end*time.Duration(p.stage.partitions)/time.Duration(len(p.produced)), 200*time.Millisecond)
	}
	if p.service, err = payments(pace, choke); err != nil {
		return e, err
	}
	defer p.service.Close()

	from := map[int32]int64{}
	if p.stage.hadDLQ {
		if _, from, err = p.stage.bounds(ctx, p.stage.dlq); err != nil {
			return e, err
		}
	}
	c, started, err := p.consumer()
	if err != nil {
		return e, err
	}
	group := p.stage.watchGroup()
	consume, stopConsuming := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(consume) }()
	stop := sync.OnceValue(func() error { stopConsuming(); return <-ended })
	defer stop()
	defer group.rebalances()

	select {
	case err := <-ended:
		ended <- err
		return e, fmt.Errorf("the consumer did not start: %w", err)
	case <-started:
	}
	// The DLQ exists from here on.
	if !p.stage.hadDLQ {
		if from, _, err = p.stage.bounds(ctx, p.stage.dlq); err != nil {
			return e, err
		}
	}
	if p.letters, err = p.stage.read(p.stage.dlq, from, p.letter); err != nil {
		return e, err
	}
	defer p.letters.close()

	stopShowing := p.show(c)
	defer stopShowing()
	if err := p.act(ctx, ended); err != nil {
		return e, err
	}
	e.interrupted = ctx.Err() != nil
	e.rebalances = group.rebalances()
	if err := stop(); err != nil {
		return e, err
	}
	stopShowing()
	return p.gather(e)
}

// gather takes down what was seen, once the consumer has ended.
func (p *player) gather(e evidence) (evidence, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	_, ends, err := p.stage.bounds(ctx, p.stage.dlq)
	if err == nil {
		err = p.letters.upTo(ctx, ends)
	}
	if err == nil {
		e.committed, err = p.stage.committed()
	}
	if err != nil {
		return e, err
	}
	r := p.service.Report()
	for _, phase := range r.Phases {
		if phase.Phase == down {
			e.down = phase.Lasted
		}
	}
	e.calls, e.dropped, e.began, e.asked = r.Log, r.LogDropped, r.Started, p.handler.asked.entries()
	e.waits = p.waits.history()
	e.topic = p.stage.topic
	e.produced, e.letters = p.seen()
	return e, nil
}

// seen are the records and the letters so far. What it returns does not change any more.
func (p *player) seen() (map[coordinates]fingerprint, []letter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.produced), slices.Clone(p.read)
}

// allDone tells whether each record has come to its end. It is dear to ask.
func (p *player) allDone() bool {
	e := evidence{topic: p.stage.topic, calls: p.service.Report().Log}
	e.produced, e.letters = p.seen()
	_, _, done := e.ends()
	return len(done) == len(e.produced)
}

// consumer is what a user writes. started is closed when it has found its topics.
func (p *player) consumer() (c *consumer.Consumer, started <-chan struct{}, err error) {
	running := make(chan struct{})
	p.handler = &charger{url: p.service.URL(), orders: p.stage.ours}
	c, err = consumer.New(consumer.Config{
		Kafka: &kafka.ConfigMap{"bootstrap.servers": p.stage.brokers, "group.id": p.stage.group, "client.id": "breakwater-demo",
			"auto.offset.reset": "earliest"},
		Topics:         []string{p.stage.topic},
		Handler:        p.handler.charge,
		Strategy:       p.waits.Watcher,
		Attempts:       attempts.Redis(p.stage.attempts, attempts.RedisConfig{}),
		DLQ:            dlq.Config{Create: true},
		HandlerTimeout: 10 * time.Second,
		Observers: []observe.Observer{p.board, observe.Func(func(e observe.Event) {
			if e.Kind == observe.Started {
				close(running)
			}
		})},
	})
	return c, running, err
}

// act goes through the script.
func (p *player) act(ctx context.Context, ended chan error) error {
	stream := &stream{player: p}
	if p.stage.ours {
		if err := stream.open(); err != nil {
			return err
		}
		defer stream.close()
	}
	began := time.Now()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var wentDown, cameBack time.Time
	var seen int
	var asked time.Time
	moved := began
	for {
		now := time.Now()
		f := p.figures()
		switch {
		case wentDown.IsZero() && (now.Sub(began) >= p.down || !p.stage.ours && f.handled >= f.produced/4):
			wentDown = now
			if err := p.service.SetPhase(down); err != nil {
				return err
			}
			p.board.say("DOWN", red, "payments answers 503 to everything from now on")
		case !wentDown.IsZero() && cameBack.IsZero() && now.Sub(wentDown) >= p.up-p.down:
			cameBack = now
			if err := p.service.SetPhase(well); err != nil {
				return err
			}
			p.board.say("UP", green, "payments is well again")
		}
		if p.stage.ours && !stream.ended {
			if err := stream.produce(now.Sub(began)); err != nil {
				return err
			}
		}
		if n := f.calls + f.dead; n != seen {
			seen, moved = n, now
		}
		streaming := p.stage.ours && !stream.ended
		if !streaming && f.handled+f.dead >= f.produced && now.Sub(asked) > 25*tick {
			if asked = now; p.allDone() { // in a topic that others write to, there are calls for records that came later
				return nil
			}
		}
		if !streaming && now.Sub(moved) > p.waits.last().longest+patience {
			p.board.say("note", red, "nothing has moved for a long time: the play ends here")
			return nil
		}
		select {
		case <-ctx.Done():
			p.board.say("end", plain, "ended by hand")
			return nil
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the consumer ended in the middle of the play: %w", err)
		case <-ticker.C:
		}
	}
}

// audit reads what is in a topic that exists: what the group has still to do counts as produced.
func (p *player) audit(ctx context.Context) error {
	from, ends, err := p.stage.bounds(ctx, p.stage.topic)
	if err != nil {
		return err
	}
	committed, err := p.stage.committed()
	if err != nil {
		return err
	}
	total := int64(0)
	for n := range from {
		from[n] = min(max(from[n], committed[n]), ends[n])
		total += ends[n] - from[n]
		ends[n] = min(ends[n], from[n]+int64(mostRead/p.stage.partitions))
	}
	if total > mostRead {
		p.board.say("note", plain, fmt.Sprintf("some %d records are there; the play and its account end with the first %d", total, mostRead))
	}
	r, err := p.stage.read(p.stage.topic, from, func(m *kafka.Message) {
		if at := (coordinates{m.TopicPartition.Partition, int64(m.TopicPartition.Offset)}); at.Offset < ends[at.Partition] {
			p.produced[at] = fingerprintOf(m)
		}
	})
	if err != nil {
		return err
	}
	err = r.upTo(ctx, ends)
	r.close()
	if err == nil && len(p.produced) == 0 {
		err = fmt.Errorf("group %q has nothing left to do in %s: produce some records, or name another group with -group", p.stage.group, p.stage.topic)
	}
	return err
}

// letter takes a dead letter that was read.
func (p *player) letter(m *kafka.Message) {
	if l, ours := readLetter(m, p.stage.group, p.stage.topic); ours {
		p.mu.Lock()
		p.read = append(p.read, l)
		p.mu.Unlock()
	}
}

// figures are counted from the outside, while it runs.
type figures struct {
	produced, handled, dead, calls, whileDown int
	isDown                                    bool
	downFor                                   time.Duration
}

func (p *player) figures() (f figures) {
	r := p.service.Summary()
	for _, phase := range r.Phases {
		f.handled += phase.Outcomes["ok"]
		f.calls += phase.Calls
		if phase.Phase == down {
			f.whileDown, f.downFor = phase.Calls, phase.Lasted
		}
	}
	f.isDown = len(r.Spans) > 0 && r.Spans[len(r.Spans)-1].Phase == down
	p.mu.Lock()
	defer p.mu.Unlock()
	f.produced, f.dead = len(p.produced), len(p.read)
	return f
}

// show keeps the picture up to date until stop is called; it may be called again.
func (p *player) show(c *consumer.Consumer) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(p.board.every())
		defer ticker.Stop()
		for {
			p.board.draw(view{status: c.Status(), figures: p.figures(), strategy: p.waits.Path(), now: time.Now()})
			select {
			case <-done:
				return
			case <-ticker.C:
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}
